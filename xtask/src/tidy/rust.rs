//! A Rust file as tokens, without comments and without code for tests.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// The tokens of a file.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// The tokens of production code.
    pub(super) production: Vec<TokenTree>,
    /// Modules in their own files that are compiled only for tests.
    pub(super) test_modules: Vec<String>,
}

/// Reads a file.
pub(super) fn tokens(text: &str) -> Result<Tokens, String> {
    let stream: TokenStream = text.parse().map_err(|error| format!("not Rust: {error}"))?;
    let mut tokens = Tokens::default();
    tokens.production = without_tests(stream, &mut tokens.test_modules);
    Ok(tokens)
}

fn without_tests(stream: TokenStream, test_modules: &mut Vec<String>) -> Vec<TokenTree> {
    let all: Vec<TokenTree> = stream.into_iter().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    while let Some(token) = all.get(at) {
        if let Some((attribute, inner)) = attribute(&all, at) {
            let end = at + 2 + usize::from(inner);
            if is_for_tests(&attribute) {
                // An inner attribute applies to the enclosing item, an outer one to the next item.
                at = if inner {
                    all.len()
                } else {
                    item_end(&all, end)
                };
                test_modules.extend(module_of_a_file(&all[end.min(at)..at]));
                continue;
            }
            if names(&attribute, 0) == Some("doc".to_owned()) {
                at = end;
                continue;
            }
        }
        kept.push(match token {
            TokenTree::Group(group) => {
                let inside = without_tests(group.stream(), test_modules);
                let mut copy = Group::new(group.delimiter(), inside.into_iter().collect());
                copy.set_span(group.span());
                TokenTree::Group(copy)
            }
            other => other.clone(),
        });
        at += 1;
    }
    kept
}

/// The content of an attribute that begins here, and whether it is an inner one.
fn attribute(tokens: &[TokenTree], at: usize) -> Option<(Vec<TokenTree>, bool)> {
    if !is_punct(tokens.get(at), '#') {
        return None;
    }
    let inner = is_punct(tokens.get(at + 1), '!');
    match tokens.get(at + 1 + usize::from(inner)) {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => {
            Some((group.stream().into_iter().collect(), inner))
        }
        _ => None,
    }
}

/// Whether an attribute is a `cfg` for tests.
fn is_for_tests(attribute: &[TokenTree]) -> bool {
    fn asks(stream: TokenStream) -> bool {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        tokens.iter().enumerate().any(|(at, token)| match token {
            TokenTree::Ident(ident) => ident == "test",
            TokenTree::Group(group) => {
                let negated = at > 0 && names(&tokens, at - 1) == Some("not".to_owned());
                !negated && asks(group.stream())
            }
            _ => false,
        })
    }
    match attribute {
        [TokenTree::Ident(name), TokenTree::Group(group)] => name == "cfg" && asks(group.stream()),
        _ => false,
    }
}

/// The end of the item, field or variant that begins here.
fn item_end(tokens: &[TokenTree], from: usize) -> usize {
    let ends = |token: &TokenTree| match token {
        TokenTree::Punct(punct) => matches!(punct.as_char(), ';' | ','),
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    tokens[from..]
        .iter()
        .position(ends)
        .map_or(tokens.len(), |position| from + position + 1)
}

/// The name in `mod name;`.
fn module_of_a_file(item: &[TokenTree]) -> Option<String> {
    match item {
        [.., TokenTree::Ident(keyword), TokenTree::Ident(name), end] => {
            (keyword == "mod" && is_punct(Some(end), ';')).then(|| name.to_string())
        }
        _ => None,
    }
}

/// The identifier at this position.
pub(super) fn ident(tokens: &[TokenTree], at: usize) -> Option<&Ident> {
    match tokens.get(at) {
        Some(TokenTree::Ident(ident)) => Some(ident),
        _ => None,
    }
}

/// The identifier at this position as text, without the prefix of a raw one.
pub(super) fn names(tokens: &[TokenTree], at: usize) -> Option<String> {
    ident(tokens, at).map(plain)
}

/// An identifier as text, without the prefix of a raw one.
pub(super) fn plain(ident: &Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").unwrap_or(&text).to_owned()
}

/// Whether this token is that sign.
pub(super) fn is_punct(token: Option<&TokenTree>, sign: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// Whether there is `::` at this position.
pub(super) fn is_path_sign(tokens: &[TokenTree], at: usize) -> bool {
    is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')
}

/// The first line of a token.
pub(super) fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

/// Calls `then` for every token in the order of the text, including the tokens in groups.
pub(super) fn each_token(tokens: &[TokenTree], then: &mut impl FnMut(&TokenTree)) {
    for token in tokens {
        then(token);
        if let TokenTree::Group(group) = token {
            let inside: Vec<TokenTree> = group.stream().into_iter().collect();
            each_token(&inside, then);
        }
    }
}

/// The words of an identifier in lower case: `RifLimit` and `rif_limit` are both `rif`, `limit`.
pub(super) fn words(identifier: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in identifier.split('_') {
        let letters: Vec<char> = part.chars().collect();
        let mut word = String::new();
        for (at, letter) in letters.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| letters.get(at));
            let after = letters.get(at + 1);
            // A word begins at a capital after a small letter, or at the last of several capitals:
            // `TlsError`, `TLSError`.
            let begins = letter.is_uppercase()
                && (before.is_some_and(|before| !before.is_uppercase())
                    || after.is_some_and(|after| after.is_lowercase()));
            if begins && !word.is_empty() {
                words.push(core::mem::take(&mut word));
            }
            word.extend(letter.to_lowercase());
        }
        if !word.is_empty() {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifiers(text: &str) -> Vec<String> {
        let mut found = Vec::new();
        each_token(&tokens(text).unwrap().production, &mut |token| {
            if let TokenTree::Ident(ident) = token {
                found.push(ident.to_string());
            }
        });
        found
    }

    #[test]
    fn comments_and_tests_are_removed() {
        let text =
            "//! top\n/// doc\nfn a() {} // b\n#[cfg(test)]\nmod tests { fn c() {} }\nfn d() {}";
        assert_eq!(identifiers(text), ["fn", "a", "fn", "d"]);
        let text = "#[cfg(all(unix, test))] use a::{b, c}; struct D { #[cfg(test)] e: u8, f: u8 }";
        assert_eq!(identifiers(text), ["struct", "D", "f", "u8"]);
        assert_eq!(identifiers("#![cfg(test)] fn a() {}"), [""; 0]);
    }

    #[test]
    fn other_conditional_code_is_kept() {
        let text = "#[cfg(not(test))] fn a() {} #[cfg(unix)] fn b() {}";
        assert!(identifiers(text).contains(&"a".to_owned()));
        assert!(identifiers(text).contains(&"b".to_owned()));
    }

    #[test]
    fn test_modules_in_other_files_are_listed() {
        let found = tokens("#[cfg(test)]\npub(crate) mod support;\nmod other;").unwrap();
        assert_eq!(found.test_modules, ["support"]);
    }

    #[test]
    fn identifiers_are_split_into_words() {
        assert_eq!(words("RifLimit"), ["rif", "limit"]);
        assert_eq!(words("rif_limit"), ["rif", "limit"]);
        assert_eq!(words("RIF_LIMIT"), ["rif", "limit"]);
        assert_eq!(words("TLSError"), ["tls", "error"]);
        assert_eq!(words("C3Config"), ["c3", "config"]);
        assert_eq!(words("peak_ewma"), words("PeakEwma"));
    }
}
