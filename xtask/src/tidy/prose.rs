//! Sentences that a stranger understands: comments, documentation, names of tests and the strings
//! of production code have none of the words that CONTRIBUTING.md's table of prose rejects, and no
//! comment begins as no sentence does.

use crate::tidy::glossary::rows_below;
use crate::tidy::layers::in_backticks;
use crate::tidy::tree::{Language, Source};
use core::iter::from_fn;
use proc_macro2::TokenTree;

/// The heading over the table.
const HEADING: &str = "## Prose";

/// A row whose first cell begins with this lists beginnings.
const BEGINNINGS: &str = "a comment begins with";

/// Longest documentation for users, in words: without research and decisions. Clusters, charts,
/// packages, subsets, control planes and zones took the last 4,500.
const DOCS_WORDS_MAX: usize = 52_140;

/// The table's words and their replacements.
#[derive(Debug, Default)]
pub(super) struct Prose {
    /// A word or phrase in lower case, and what to write in its place.
    banned: Vec<(String, String)>,
    /// First words, as they are written.
    beginnings: Vec<(String, String)>,
}

/// Reads rows of the form: | `not`, `nor` | in its place |
pub(super) fn parse(contributing: &str) -> Result<Prose, String> {
    let mut prose = Prose::default();
    for row in rows_below(contributing, HEADING) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let ["", not, instead, ""] = cells[..] else {
            continue;
        };
        let list = if not.starts_with(BEGINNINGS) {
            &mut prose.beginnings
        } else {
            &mut prose.banned
        };
        list.extend(in_backticks(not).map(|not| (not.to_owned(), instead.replace('`', ""))));
    }
    if prose.banned.is_empty() || prose.beginnings.is_empty() {
        return Err(format!(
            "CONTRIBUTING.md: no words in backticks under `{HEADING}`, or no row \"{BEGINNINGS}\""
        ));
    }
    Ok(prose)
}

impl Prose {
    /// Looks at the comments of a file of code, its strings, and the names of its functions.
    pub(super) fn check_code(&self, source: &Source) -> Vec<String> {
        let mut findings = Vec::new();
        for paragraph in comments(&source.text) {
            if source.language != Language::JavaScript {
                self.words(&source.path, &paragraph, &mut findings);
            }
            // Go's comments begin with the name that they describe, and `Of` may be one.
            if source.language != Language::Go {
                self.beginning(&source.path, &paragraph, &mut findings);
            }
        }
        match source.language {
            Language::Rust => {}
            Language::Go => return findings,
            // Its strings are what a page shows, and its names have none of these words.
            Language::JavaScript => {
                let (line, text) = (1, source.text.clone());
                self.words(&source.path, &Paragraph { line, text }, &mut findings);
                return findings;
            }
        }
        strings(&source.tokens, &mut |line, text| {
            self.words(&source.path, &Paragraph::new(line, text), &mut findings);
        });
        for (line, name) in functions(&source.text) {
            let words = Paragraph::new(line, &name.replace('_', " "));
            self.words(&source.path, &words, &mut findings);
        }
        findings
    }

    /// Looks at a page of documentation.
    pub(super) fn check_page(&self, path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        for paragraph in paragraphs(text) {
            self.words(path, &paragraph, &mut findings);
        }
        findings
    }

    fn words(&self, path: &str, paragraph: &Paragraph, findings: &mut Vec<String>) {
        let text = paragraph.text.to_lowercase();
        for (banned, instead) in &self.banned {
            for at in found(&text, banned) {
                let line = paragraph.line + text[..at].matches('\n').count();
                findings.push(format!("{path}:{line}: \"{banned}\": {instead}"));
            }
        }
    }

    fn beginning(&self, path: &str, paragraph: &Paragraph, findings: &mut Vec<String>) {
        for (beginning, instead) in &self.beginnings {
            let rest = paragraph.text.strip_prefix(beginning.as_str());
            if rest.is_some_and(|rest| rest.starts_with([' ', '\n', ','])) {
                let line = paragraph.line;
                findings.push(format!(
                    "{path}:{line}: a comment that begins with \"{beginning}\": {instead}"
                ));
            }
        }
    }
}

/// Pages of documentation for users that are together longer than they may be.
pub(super) fn length(pages: &[(String, String)]) -> Vec<String> {
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let words: usize = pages
        .iter()
        .filter(|(path, _)| is_for_users(path))
        .map(|(_, text)| {
            text.replace('|', " ")
                .split_whitespace()
                .filter(is_word)
                .count()
        })
        .sum();
    if words > DOCS_WORDS_MAX {
        vec![format!(
            "docs/: {words} words without research and decisions; at most {DOCS_WORDS_MAX}"
        )]
    } else {
        Vec::new()
    }
}

fn is_for_users(path: &str) -> bool {
    path.starts_with("docs/")
        && !["docs/research/", "docs/decisions/", "docs/SUMMARY.md"]
            .iter()
            .any(|other| path.starts_with(other))
}

/// Sentences that belong together.
#[derive(Debug, Default, PartialEq, Eq)]
struct Paragraph {
    /// Number of its first line in the file.
    line: usize,
    /// Its lines, with what stands in backticks left out.
    text: String,
}

impl Paragraph {
    fn new(line: usize, text: &str) -> Self {
        let text = without_code(text);
        Self { line, text }
    }
}

/// The paragraphs of comments that have lines of their own.
fn comments(text: &str) -> Vec<Paragraph> {
    let line = |line: &str| {
        let line = line.trim_start();
        // The star begins a line of JavaScript's block comments.
        let kinds = ["///", "//!", "//", "/**", "* "];
        let kind = kinds.into_iter().find(|kind| line.starts_with(kind))?;
        Some((kind, line[kind.len()..].trim().to_owned()))
    };
    blocks(text.lines().map(line))
}

/// The paragraphs of a page.
fn paragraphs(text: &str) -> Vec<Paragraph> {
    blocks(text.lines().map(|line| Some(("", line.trim().to_owned()))))
}

/// Consecutive lines of one kind; an empty line and a block of code end a paragraph.
fn blocks(lines: impl Iterator<Item = Option<(&'static str, String)>>) -> Vec<Paragraph> {
    let mut blocks: Vec<Paragraph> = Vec::new();
    let (mut is_fenced, mut last) = (false, None);
    for (number, line) in (1..).zip(lines) {
        let Some((kind, text)) = line else {
            (is_fenced, last) = (false, None);
            continue;
        };
        let is_fence = text.starts_with("```");
        is_fenced ^= is_fence;
        if is_fence || is_fenced || text.is_empty() {
            last = None;
            continue;
        }
        match blocks.last_mut() {
            Some(block) if last == Some(kind) => {
                block.text.push('\n');
                block.text.push_str(&text);
            }
            _ => blocks.push(Paragraph { line: number, text }),
        }
        last = Some(kind);
    }
    for block in &mut blocks {
        block.text = without_code(&block.text);
    }
    blocks
}

/// A text with what stands between backticks left out; its lines remain.
fn without_code(text: &str) -> String {
    let mut parts = text.split('`');
    let mut kept = parts.next().unwrap_or_default().to_owned();
    while let Some(code) = parts.next() {
        kept.push('`');
        kept.extend(code.chars().filter(|letter| *letter == '\n'));
        kept.push('`');
        kept.push_str(parts.next().unwrap_or_default());
    }
    kept
}

/// Where a phrase stands in a text, as whole words; any white space is between its words.
fn found(text: &str, phrase: &str) -> impl Iterator<Item = usize> {
    let is_letter = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
    let first = phrase.split(' ').next().unwrap_or(phrase);
    let mut from = 0;
    from_fn(move || {
        loop {
            let at = from + text[from..].find(first)?;
            from = at + first.len();
            let mut rest = &text[at..];
            let is_there = phrase.split(' ').enumerate().all(|(nth, word)| {
                let next = if nth == 0 { rest } else { rest.trim_start() };
                let is_apart = nth == 0 || next.len() < rest.len();
                next.strip_prefix(word)
                    .filter(|_| is_apart)
                    .map(|after| rest = after)
                    .is_some()
            });
            let before = text[..at].chars().next_back();
            if is_there && !is_letter(before) && !is_letter(rest.chars().next()) {
                return Some(at);
            }
        }
    })
}

/// The string literals among tokens, with their lines. A doc comment is none: it is read as a
/// comment.
fn strings(tokens: &[TokenTree], note: &mut impl FnMut(usize, &str)) {
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                if text.contains('"') {
                    note(literal.span().start().line, &text);
                }
            }
            TokenTree::Group(group) => {
                let inside: Vec<TokenTree> = group.stream().into_iter().collect();
                let is_doc =
                    at > 0 && matches!(&inside[..], [TokenTree::Ident(name), ..] if *name == "doc");
                if !is_doc {
                    strings(&inside, note);
                }
            }
            _ => {}
        }
    }
}

/// The functions that a file declares, tests included, with their lines.
fn functions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let (before, after) = line.split_once("fn ")?;
        let is_declared = before.split_whitespace().all(|word| {
            matches!(word, "async" | "const" | "unsafe" | "extern") || word.starts_with("pub")
        });
        let end = after.find(|letter: char| !letter.is_alphanumeric() && letter != '_')?;
        is_declared.then_some((number, &after[..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
## Prose

| not | instead |
|---|---|
| `whoever`, `nobody` | name the party |
| `so many` | the number |
| a comment begins with `Of`, `So many` | a subject |
";

    fn found_in(text: &str) -> Vec<String> {
        let source = Source::test("crates/a/src/b.rs", text);
        parse(TABLE).unwrap().check_code(&source)
    }

    #[test]
    fn words_and_beginnings_of_comments_are_found_with_their_lines() {
        let text = "//! Of a head.\n\n/// For whoever\n/// asks, and so\n/// many more.\nfn a() {\n    // Nobody.\n}\n";
        let expected = [
            "crates/a/src/b.rs:1: a comment that begins with \"Of\": a subject",
            "crates/a/src/b.rs:3: \"whoever\": name the party",
            "crates/a/src/b.rs:4: \"so many\": the number",
            "crates/a/src/b.rs:7: \"nobody\": name the party",
        ];
        assert_eq!(found_in(text), expected);
    }

    #[test]
    fn strings_of_production_code_and_names_of_tests_are_checked() {
        let text = "fn a() { say(\"nobody asks\"); }\n#[cfg(test)] mod tests {\n    #[test]\n    fn whoever_asks() { say(\"nobody\"); }\n}\n";
        let expected = [
            "crates/a/src/b.rs:1: \"nobody\": name the party",
            "crates/a/src/b.rs:4: \"whoever\": name the party",
        ];
        assert_eq!(found_in(text), expected);
    }

    #[test]
    fn comments_of_go_are_checked() {
        let source = Source::test(
            "go/a/b.go",
            "package b\n\n// Fine for whoever.\nvar nobody int\n",
        );
        assert_eq!(
            parse(TABLE).unwrap().check_code(&source),
            ["go/a/b.go:3: \"whoever\": name the party"]
        );
    }

    #[test]
    fn comments_and_strings_of_scripts_are_checked() {
        let source = Source::test(
            "crates/a/src/b.js",
            "// Fine.\nlet text = `Whoever\nasks`;\n",
        );
        assert_eq!(
            parse(TABLE).unwrap().check_code(&source),
            ["crates/a/src/b.js:2: \"whoever\": name the party"]
        );
    }

    #[test]
    fn other_words_code_and_tables_of_symbols_are_accepted() {
        let fine = "//! Offers `whoever` a place.\n//!\n//! ```\n//! let nobody = 1;\n//! ```\n//! So manyfold.\nfn a() { nobodys(\"wh\") }\n";
        assert_eq!(found_in(fine), [""; 0]);
        let page = "Text.\n\n```sh\nnobody\n```\n\nOf pages only words count. `nobody`\n";
        let prose = parse(TABLE).unwrap();
        assert_eq!(prose.check_page("docs/a.md", page), [""; 0]);
        assert_eq!(
            prose.check_page("docs/a.md", "Here\n| nobody |"),
            ["docs/a.md:2: \"nobody\": name the party"]
        );
    }

    #[test]
    fn a_table_without_words_is_a_mistake() {
        assert!(parse("## Prose\n\n| a | b |\n").is_err());
        assert!(parse("").is_err());
    }

    #[test]
    fn documentation_for_users_is_bounded() {
        let words = |words| "a | ".repeat(words);
        let page = |path: &str, text: String| (path.to_owned(), text);
        let fine = [
            page("docs/how-to/a.md", words(DOCS_WORDS_MAX)),
            page("docs/research/b.md", words(9)),
            page("README.md", words(9)),
        ];
        assert_eq!(length(&fine), [""; 0]);
        let long = [page("docs/how-to/a.md", words(DOCS_WORDS_MAX + 1))];
        assert_eq!(length(&long).len(), 1);
    }
}
