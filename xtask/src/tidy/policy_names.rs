//! Names of policies outside the core: a policy is one file and one line there, so no other code
//! should use its name.

use crate::tidy::ratchet::Use;
use crate::tidy::rust::{each_token, is_path_sign, line, names as name_at, plain, words};
use crate::tidy::tree::{Language, Source};
use proc_macro2::TokenTree;
use slackwater_core::policy::POLICIES;

/// The file with the counts that are still allowed; the next constant: its header.
pub(super) const LIST: &str = "xtask/ratchets/policy-names.txt";
pub(super) const ABOUT: &str = "How often each file outside the core names a policy.";

/// Names that are also ordinary words. They count only as a whole string, and in a type from
/// `policy::`, such as `policy::LinearSettings`.
const ORDINARY: &[&str] = &["linear", "random"];

/// Places where policies are named on purpose: the core and its port to Go; the names in other
/// proxies; and experiments, which compare policies by name.
const FREE: &[&str] = &[
    "crates/slackwater-core/",
    "crates/slackwater-config/src/sections/policies/foreign_names.rs",
    "crates/slackwater-sim/src/figure/",
    "fuzz/",
    "go/",
    "tools/vectors/",
    "xtask/",
];

/// The policies that users can select.
pub(super) fn names() -> Vec<String> {
    POLICIES.iter().map(|entry| entry.name.to_owned()).collect()
}

/// The text of a string token; `None` for other tokens.
fn text_of(token: &TokenTree) -> Option<String> {
    let TokenTree::Literal(literal) = token else {
        return None;
    };
    let text = literal.to_string();
    let (begin, end) = (text.find('"')?, text.rfind('"')?);
    Some(text.get(begin + 1..end)?.to_owned())
}

/// Finds each place where a policy is named.
pub(super) fn find(sources: &[Source], names: &[String]) -> Vec<Use> {
    let mut found = Vec::new();
    for source in sources {
        if source.is_test || FREE.iter().any(|free| source.path.starts_with(free)) {
            continue;
        }
        let mut note = |name: &str, line: usize| {
            found.push(Use {
                key: source.path.clone(),
                finding: format!(
                    "{}:{line}: names the policy `{name}`; outside the core, ask its `PolicyEntry`",
                    source.path
                ),
            });
        };
        if source.language == Language::Rust {
            each_token(&source.tokens, &mut |token| {
                let name = match token {
                    TokenTree::Ident(ident) => in_identifier(&plain(ident), names),
                    token => text_of(token).and_then(|text| in_text(&text, names)),
                };
                if let Some(name) = name {
                    note(name, line(token));
                }
            });
            ordinary_types(&source.tokens, names, &mut note);
        } else {
            in_script(&source.text, names, &mut note);
        }
    }
    found
}

fn is_ordinary(name: &str) -> bool {
    ORDINARY.contains(&name)
}

/// The policy's name that an identifier's words contain, the longest if several.
fn in_identifier<'a>(identifier: &str, names: &'a [String]) -> Option<&'a str> {
    let own = words(identifier);
    names
        .iter()
        .filter(|name| !is_ordinary(name))
        .filter(|name| {
            let name = words(name);
            own.windows(name.len()).any(|window| window == name)
        })
        .max_by_key(|name| name.len())
        .map(String::as_str)
}

/// Finds types of policies whose names are ordinary words: paths from `policy::`, in code or in a
/// `use`.
fn ordinary_types(tokens: &[TokenTree], names: &[String], note: &mut impl FnMut(&str, usize)) {
    for (at, token) in tokens.iter().enumerate() {
        if let TokenTree::Group(group) = token {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            ordinary_types(&inside, names, note);
        }
        if name_at(tokens, at).as_deref() != Some("policy") || !is_path_sign(tokens, at + 1) {
            continue;
        }
        let mut note_one = |token: &TokenTree| {
            let TokenTree::Ident(ident) = token else {
                return;
            };
            let is_type = plain(ident).starts_with(char::is_uppercase);
            let own = words(&plain(ident));
            let begins = |name: &&String| is_ordinary(name) && own.first() == Some(*name);
            if let Some(name) = names.iter().find(begins).filter(|_| is_type) {
                note(name, line(token));
            }
        };
        match tokens.get(at + 3) {
            Some(TokenTree::Group(group)) => {
                group.stream().into_iter().for_each(|it| note_one(&it));
            }
            Some(token) => note_one(token),
            None => {}
        }
    }
}

/// The policy's name that a string contains as a word, or equals.
fn in_text<'a>(text: &str, names: &'a [String]) -> Option<&'a str> {
    let is_part = |name: &&String| {
        let mut parts = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        text == **name || (!is_ordinary(name) && parts.any(|part| part == **name))
    };
    names.iter().find(is_part).map(String::as_str)
}

/// Scans JavaScript, for which there is no tokenizer here: words outside comments, and quoted
/// words.
fn in_script(text: &str, names: &[String], note: &mut impl FnMut(&str, usize)) {
    let mut in_comment = false;
    for (number, line) in (1..).zip(text.lines()) {
        let mut code = line;
        if in_comment {
            let Some((_, rest)) = code.split_once("*/") else {
                continue;
            };
            (in_comment, code) = (false, rest);
        }
        if let Some((before, rest)) = code.split_once("/*") {
            in_comment = !rest.contains("*/");
            code = before;
        }
        let code = code.split("//").next().unwrap_or_default();
        for word in code.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
            if let Some(name) = in_identifier(word, names) {
                note(name, number);
            }
        }
        for name in names.iter().filter(|name| is_ordinary(name)) {
            let quoted = ['"', '\'', '`'].map(|quote| format!("{quote}{name}{quote}"));
            let count: usize = quoted
                .iter()
                .map(|quoted| code.matches(quoted).count())
                .sum();
            (0..count).for_each(|_| note(name, number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let names = ["prequal", "prequal_sync", "peak_ewma", "random"].map(str::to_owned);
        let uses = find(&[Source::test(path, text)], &names);
        uses.into_iter()
            .filter_map(|one| one.finding.split('`').nth(1).map(str::to_owned))
            .collect()
    }

    #[test]
    fn policy_names_in_strings_and_identifiers_are_found() {
        let text = "struct PrequalSyncRow; fn a(peak_ewma: u8) { b(\"policy = prequal\"); c(\"random\"); }";
        let found = found("crates/a/src/b.rs", text);
        assert_eq!(found, ["prequal_sync", "peak_ewma", "prequal", "random"]);
    }

    #[test]
    fn types_with_ordinary_names_count_if_imported_from_policies() {
        let text =
            "use slackwater_core::policy::{Event, RandomSettings}; fn a(b: policy::Random) {}";
        assert_eq!(found("crates/a/src/b.rs", text), ["random", "random"]);
        let text =
            "use a::Random; enum Kind { Random } fn c() { policy::random(policy::Kind::Random) }";
        assert_eq!(found("crates/a/src/b.rs", text), [""; 0]);
    }

    #[test]
    fn policy_names_in_scripts_are_found() {
        let text = "// prequal\n/* peak_ewma\n prequal */\nif (name === 'random') prequal(random);";
        assert_eq!(found("crates/a/src/b.js", text), ["prequal", "random"]);
    }

    #[test]
    fn comments_ordinary_words_tests_and_the_core_are_ignored() {
        let text = "/// prequal\nfn random() { draw(\"a random choice\"); } // peak_ewma";
        assert_eq!(found("crates/a/src/b.rs", text), [""; 0]);
        let text = "fn prequal() {}";
        assert_eq!(found("crates/slackwater-core/src/b.rs", text), [""; 0]);
        assert_eq!(found("crates/a/tests/b.rs", text), [""; 0]);
    }
}
