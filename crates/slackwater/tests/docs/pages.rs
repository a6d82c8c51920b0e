//! The pages for users, and the code in them: blocks, and words that are marked as code.

#![expect(
    clippy::expect_used,
    reason = "what helpers of a test cannot do ends the test"
)]

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::fs;
use std::path::{Path, PathBuf};

/// Code on a page.
#[derive(Debug)]
pub(crate) struct Code {
    /// Page and line, for messages.
    pub(crate) place: String,
    /// The words after the fence; empty for an indented block.
    pub(crate) info: String,
    /// Whether it is within a sentence.
    pub(crate) is_inline: bool,
    pub(crate) text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The code on a page of the repository.
pub(crate) fn code_of(page: &str) -> Vec<Code> {
    let text = fs::read_to_string(root().join(page)).expect("a page of the repository");
    let mut found = Vec::new();
    let mut block: Option<Code> = None;
    for (event, range) in Parser::new_ext(&text, Options::ENABLE_TABLES).into_offset_iter() {
        let line = text[..range.start].matches('\n').count() + 1;
        let place = format!("{page}:{line}");
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.into_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                block = Some(Code {
                    place,
                    info,
                    is_inline: false,
                    text: String::new(),
                });
            }
            Event::Text(part) => {
                if let Some(block) = &mut block {
                    block.text.push_str(&part);
                }
            }
            Event::End(TagEnd::CodeBlock) => found.extend(block.take()),
            Event::Code(part) => found.push(Code {
                place,
                info: String::new(),
                is_inline: true,
                text: part.into_string(),
            }),
            _ => {}
        }
    }
    found
}

/// The code on all pages for users. Decisions and papers describe their time and are not changed,
/// so they are left out.
pub(crate) fn code() -> Vec<Code> {
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    let mut folders = vec!["docs".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder of pages") {
            let name = entry.expect("an entry").file_name();
            let path = format!("{folder}/{}", name.to_string_lossy());
            if root().join(&path).is_dir() {
                if !["docs/decisions", "docs/research"].contains(&path.as_str()) {
                    folders.push(path);
                }
            } else if Path::new(&path).extension().is_some_and(|end| end == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages.iter().flat_map(|page| code_of(page)).collect()
}
