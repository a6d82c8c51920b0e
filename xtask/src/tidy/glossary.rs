//! One word for each idea: names that are declared in code use none of the words that the glossary
//! of CONTRIBUTING.md rejects.

use crate::tidy::layers::in_backticks;
use crate::tidy::ratchet::Use;
use crate::tidy::rust::{is_path_sign, is_punct, line, names, words};
use crate::tidy::tree::Source;
use proc_macro2::{Delimiter, TokenTree};

/// The file with the counts that are still allowed; the next constant: its header.
pub(super) const LIST: &str = "xtask/ratchets/words.txt";
pub(super) const ABOUT: &str =
    "Declared names with a word that the glossary of CONTRIBUTING.md rejects: file and word.";

/// The heading over the table.
const HEADING: &str = "## Glossary";

/// The glossary.
#[derive(Debug, Default)]
pub(super) struct Glossary {
    /// A rejected word, and its replacement.
    banned: Vec<(String, String)>,
    /// Allowed terms that contain a rejected word, such as `in_flight`.
    terms: Vec<Vec<String>>,
}

/// Parses rows of the form: | idea | word | `not`, `nor` |
pub(super) fn parse(contributing: &str) -> Result<Glossary, String> {
    let mut glossary = Glossary::default();
    for row in rows_below(contributing, HEADING) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let ["", _idea, word, not, ""] = cells[..] else {
            continue;
        };
        glossary.terms.extend(in_backticks(word).map(words));
        let word = word.replace('`', "");
        glossary
            .banned
            .extend(in_backticks(not).map(|banned| (banned.to_owned(), word.clone())));
    }
    if glossary.banned.is_empty() {
        return Err(format!(
            "CONTRIBUTING.md: no words in backticks under `{HEADING}`, column \"not\""
        ));
    }
    Ok(glossary)
}

/// The lines of a page from a heading to the next one.
pub(super) fn rows_below<'a>(page: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    page.lines()
        .skip_while(move |line| *line != heading)
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
}

/// Finds each declared name with a rejected word.
pub(super) fn find(sources: &[Source], glossary: &Glossary) -> Vec<Use> {
    let mut found = Vec::new();
    for source in sources.iter().filter(|source| !source.is_test) {
        let mut note = |name: &str, line: usize| {
            for (banned, word) in glossary.in_name(name) {
                found.push(Use {
                    key: format!("{} {banned}", source.path),
                    finding: format!(
                        "{}:{line}: `{name}`: \"{banned}\" is \"{word}\" here",
                        source.path
                    ),
                });
            }
        };
        // A file's name is the name of a module.
        if let Some(name) = source
            .module()
            .last()
            .filter(|_| source.package().is_some())
        {
            note(name, 1);
        }
        declarations(&source.tokens, &mut note);
    }
    found
}

impl Glossary {
    fn in_name(&self, name: &str) -> impl Iterator<Item = &(String, String)> {
        let mut own = words(name);
        for term in &self.terms {
            while let Some(at) = own.windows(term.len()).position(|window| window == term) {
                own.drain(at..at + term.len());
            }
        }
        let is_used = move |(banned, _): &&(String, String)| own.contains(banned);
        self.banned.iter().filter(is_used)
    }
}

/// Names of types, traits, functions, constants, inline modules, fields and variants, each with its
/// line.
fn declarations(tokens: &[TokenTree], note: &mut impl FnMut(&str, usize)) {
    let mut fields = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Ident(keyword) => {
                let keyword = keyword.to_string();
                let declares = match keyword.as_str() {
                    "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static" => {
                        true
                    }
                    // A module in its own file is found by the file's name.
                    "mod" => !is_punct(tokens.get(at + 2), ';'),
                    _ => false,
                };
                if declares && let Some(name) = names(tokens, at + 1) {
                    // `const fn` declares the name after `fn`.
                    if !matches!(
                        name.as_str(),
                        "fn" | "unsafe" | "async" | "extern" | "mut" | "_"
                    ) {
                        note(&name, line(&tokens[at + 1]));
                    }
                    fields = matches!(keyword.as_str(), "struct" | "enum" | "union");
                }
            }
            TokenTree::Group(group) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                if fields && group.delimiter() == Delimiter::Brace {
                    fields = false;
                    field_names(&inside, note);
                } else {
                    declarations(&inside, note);
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => fields = false,
            _ => {}
        }
    }
}

/// Names of fields and variants.
fn field_names(tokens: &[TokenTree], note: &mut impl FnMut(&str, usize)) {
    let mut named = false;
    // Commas between `<` and `>` belong to a type.
    let mut depth = 0_u32;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Punct(punct) => match punct.as_char() {
                ',' if depth == 0 => named = false,
                '<' => depth += 1,
                '>' if !is_punct(at.checked_sub(1).and_then(|at| tokens.get(at)), '-') => {
                    depth = depth.saturating_sub(1);
                }
                _ => {}
            },
            TokenTree::Ident(name) if !named && *name != "pub" => {
                let is_field = is_punct(tokens.get(at + 1), ':') && !is_path_sign(tokens, at + 1);
                let is_variant = matches!(tokens.get(at + 1), None | Some(TokenTree::Group(_)))
                    || is_punct(tokens.get(at + 1), ',')
                    || is_punct(tokens.get(at + 1), '=');
                if is_field || is_variant {
                    note(&name.to_string(), line(token));
                }
                named = true;
            }
            // A variant's fields; attributes and `pub(crate)` have other delimiters.
            TokenTree::Group(group) if named && group.delimiter() == Delimiter::Brace => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                field_names(&inside, note);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
## Glossary

| idea | word | not |
|---|---|---|
| a socket that accepts | listener | `door`, intake |
| requests at a replica | requests `in_flight`, RIF | load |
| one try | attempt | `flight` |
";

    fn found(text: &str) -> Vec<String> {
        found_in("crates/a/src/b.rs", text)
    }

    fn found_in(path: &str, text: &str) -> Vec<String> {
        let glossary = parse(TABLE).unwrap();
        let uses = find(&[Source::test(path, text)], &glossary);
        uses.into_iter().map(|one| one.finding).collect()
    }

    #[test]
    fn declared_names_are_checked() {
        let text = "struct Door<T> {\n pub(crate) door_at: Map<u8, T>,\n}\nenum A { Open, Door(u8), B { flight: u8 }, }\nconst fn doors_of() {}\nfn the_door() { fn door() {} }\nmod flight {}";
        let names: Vec<_> = found(text)
            .iter()
            .map(|finding| finding.split('`').nth(1).unwrap().to_owned())
            .collect();
        let expected = [
            "Door", "door_at", "Door", "flight", "the_door", "door", "flight",
        ];
        assert_eq!(names, expected);
        assert_eq!(
            found("struct Door;"),
            ["crates/a/src/b.rs:1: `Door`: \"door\" is \"listener\" here"]
        );
    }

    #[test]
    fn names_of_files_are_checked_as_modules() {
        assert_eq!(found_in("crates/a/src/door.rs", "").len(), 1);
        assert_eq!(found_in("crates/a/src/door/mod.rs", "mod flight;").len(), 1);
    }

    #[test]
    fn other_words_terms_uses_and_tests_are_allowed() {
        let text = "struct Outdoor { in_flight: u8, intake: Door, of: fn(Door) -> Door }\nfn load(door: u8) -> Door { Door::new(door) }\n#[cfg(test)] mod tests { fn door() {} }";
        assert_eq!(found(text), [""; 0]);
    }

    #[test]
    fn missing_table_is_an_error() {
        assert!(parse("## Glossary\n\nNothing.").is_err());
    }
}
