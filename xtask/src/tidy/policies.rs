//! Nothing outside the core decides by a policy's name: what others need to know of a policy, its `PolicyEntry` says.

use slackwater_core::policy::POLICIES;
use std::path::Path;

/// Names that are words of other things as well.
const WORDS: &[&str] = &["random", "linear", "capacity"];

/// What may name policies: the paper's figures, which compare certain ones, and what a command starts with unless told otherwise.
const MAY_NAME: &[&str] = &["src/figure/", "demo/args.rs", "sim/play.rs"];

/// Names of policies as texts in Rust or JavaScript that is neither the core's nor a test's.
pub(super) fn named(path: &Path, text: &str, findings: &mut Vec<String>) {
    let place = path.display().to_string().replace('\\', "/");
    let is_shipped = place.starts_with("crates/") && place.contains("/src/");
    let is_test = ["/tests/", "/tests.rs", "/samples.rs", "/example.rs"];
    if !is_shipped
        || place.starts_with("crates/slackwater-core/")
        || (is_test.iter().chain(MAY_NAME)).any(|part| place.contains(part))
    {
        return;
    }
    let lines = text.lines().take_while(|line| *line != "#[cfg(test)]");
    for (number, line) in (1..).zip(lines) {
        let code = line.split("//").next().unwrap_or_default();
        let names = POLICIES.iter().map(|entry| entry.name);
        let names = names.filter(|name| !WORDS.contains(name));
        for name in names.filter(|name| code.contains(&format!("\"{name}\""))) {
            findings.push(format!("{place}:{number}: the policy {name:?} by its name"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_what_is_shipped_and_nowhere_else() {
        let found = |path: &str, text: &str| {
            let mut findings = Vec::new();
            named(Path::new(path), text, &mut findings);
            findings.len()
        };
        let code = "let it = name == \"prequal\";\n";
        assert_eq!(found("crates/slackwater/src/serve.rs", code), 1);
        assert_eq!(found("crates/slackwater/src/page/words.js", code), 1);
        assert_eq!(found("crates/slackwater-core/src/policy/mod.rs", code), 0);
        assert_eq!(found("crates/slackwater/src/serve/tests.rs", code), 0);
        assert_eq!(found("crates/slackwater/tests/serve.rs", code), 0);
        let test = format!("#[cfg(test)]\n{code}");
        assert_eq!(found("crates/slackwater/src/serve.rs", &test), 0);
        let comment = format!("// {code}");
        assert_eq!(found("crates/slackwater/src/serve.rs", &comment), 0);
    }
}
