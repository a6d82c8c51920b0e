//! Checks the functions that ARCHITECTURE.md names as `path.rs:function`.

use crate::tidy::layers::in_backticks;
use crate::tidy::rust::{names, tokens};
use proc_macro2::TokenTree;

/// Checks each reference in a page against the file that `read` returns for its path.
pub(super) fn check(
    page: &str,
    text: &str,
    read: impl Fn(&str) -> Result<String, String>,
) -> Vec<String> {
    let mut findings = Vec::new();
    let mut references = 0;
    for (number, line) in (1..).zip(text.lines()) {
        for reference in in_backticks(line) {
            let Some((path, function)) = parts(reference) else {
                continue;
            };
            references += 1;
            let fault = match read(path).and_then(|code| declares(&code, function)) {
                Ok(true) => continue,
                Ok(false) => format!("`{path}` has no `fn {function}`"),
                Err(error) => error,
            };
            findings.push(format!("{page}:{number}: {fault}"));
        }
    }
    if references == 0 {
        findings.push(format!("{page}: names no function as `path.rs:function`"));
    }
    findings
}

/// Splits `path.rs:function` into path and function.
fn parts(reference: &str) -> Option<(&str, &str)> {
    let (path, function) = reference.split_once(".rs:")?;
    let is_word = |text: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    is_word(function).then(|| (&reference[..path.len() + 3], function))
}

/// Whether a file declares a function of that name outside tests.
fn declares(code: &str, function: &str) -> Result<bool, String> {
    fn any(tokens: &[TokenTree], function: &str) -> bool {
        tokens.iter().enumerate().any(|(at, token)| match token {
            TokenTree::Ident(word) => {
                word == "fn" && names(tokens, at + 1).as_deref() == Some(function)
            }
            TokenTree::Group(group) => {
                any(&group.stream().into_iter().collect::<Vec<_>>(), function)
            }
            _ => false,
        })
    }
    Ok(any(&tokens(code)?.production, function))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        check("PAGE.md", text, |path| match path {
            "a/b.rs" => Ok("impl A { fn there(&self) {} } // fn comment()".to_owned()),
            _ => Err(format!("`{path}` is not there")),
        })
    }

    #[test]
    fn existing_functions_are_accepted() {
        assert_eq!(findings("| first | `a/b.rs:there` | `a/b.rs` |"), [""; 0]);
    }

    #[test]
    fn missing_functions_and_files_are_found() {
        let text = "`a/b.rs:there`\n`a/b.rs:comment` and `a/gone.rs:there`";
        let expected = [
            "PAGE.md:2: `a/b.rs` has no `fn comment`",
            "PAGE.md:2: `a/gone.rs` is not there",
        ];
        assert_eq!(findings(text), expected);
        assert_eq!(findings("nothing").len(), 1);
    }
}
