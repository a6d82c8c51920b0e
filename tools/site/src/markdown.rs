//! The links and anchors of a Markdown page.

use core::ops::Range;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::BTreeMap;

/// A link or a picture.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The target as written.
    pub(crate) target: String,
    /// The bytes of the page that contain the target; `None` if it is written elsewhere, as with
    /// `[text][name]`.
    pub(crate) range: Option<Range<usize>>,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Whether it is a picture, which is shown in the page.
    pub(crate) is_picture: bool,
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES
}

/// The links of a page, in order.
pub(crate) fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        let (target, is_picture) = match event {
            Event::Start(Tag::Link { dest_url, .. }) => (dest_url.into_string(), false),
            Event::Start(Tag::Image { dest_url, .. }) => (dest_url.into_string(), true),
            _ => continue,
        };
        // The target is last; the text before it may repeat it.
        let inside = text[range.clone()].rfind(&format!("({target}"));
        let at = inside.map(|at| range.start + at + 1);
        found.push(Link {
            range: at.map(|at| at..at + target.len()),
            line: text[..range.start].matches('\n').count() + 1,
            target,
            is_picture,
        });
    }
    found
}

/// The anchors of a page's headings, generated as GitHub and mdBook do.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, options()) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&part);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let before = seen.entry(anchor.clone()).or_default();
                anchors.push(if *before == 0 {
                    anchor
                } else {
                    format!("{anchor}-{before}")
                });
                *before += 1;
            }
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading
        .trim()
        .chars()
        .filter_map(|character| match character {
            ' ' => Some('-'),
            '-' | '_' => Some(character),
            _ if character.is_alphanumeric() => Some(character),
            _ => None,
        });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::{Link, anchors, links};

    #[test]
    fn links_are_found_with_the_position_of_their_target() {
        let text =
            "# A\n\nSee [a.md](a.md), ![p](p.svg \"t\") and `[no](no.md)`.\n\n    [no](no.md)\n";
        let found = links(text);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0],
            Link {
                target: "a.md".to_owned(),
                range: Some(16..20),
                line: 3,
                is_picture: false
            }
        );
        assert_eq!(&text[16..20], "a.md");
        assert_eq!(found[1].range, Some(28..33));
        assert!(found[1].is_picture);
    }

    #[test]
    fn reference_links_have_no_range() {
        let found = links("[a][b]\n\n[b]: c.md\n");
        assert_eq!(found[0].target, "c.md");
        assert_eq!(found[0].range, None);
    }

    #[test]
    fn anchors_match_those_of_github() {
        let text = "# `POST /reload`\n## What it costs, and why\n## Twice\n## Twice\n";
        assert_eq!(
            anchors(text),
            ["post-reload", "what-it-costs-and-why", "twice", "twice-1"]
        );
    }
}
