//! Checks whether links of pages lead to existing files, folders and headings of the repository.
//! Addresses elsewhere are not fetched, so that the check needs no network.

use crate::markdown::{Link, anchors, links};
use crate::tree::{read, resolve};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The target of a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// An address with a scheme, outside of the repository.
    Elsewhere,
    /// A heading of the same page.
    Here(&'a str),
    /// A file or folder of the repository, and a heading in it.
    Inside {
        path: String,
        heading: Option<&'a str>,
    },
}

/// Parses a link of a page; `None` if its path leads out of the repository.
pub(crate) fn target<'a>(page: &str, link: &'a Link) -> Option<Target<'a>> {
    let whole = link.target.as_str();
    if whole.contains("://") || whole.starts_with("mailto:") {
        return Some(Target::Elsewhere);
    }
    let (path, heading) = match whole.split_once('#') {
        Some(("", heading)) => return Some(Target::Here(heading)),
        Some((path, heading)) => (path, Some(heading)),
        None => (whole, None),
    };
    Some(Target::Inside {
        path: resolve(page, path)?,
        heading,
    })
}

/// Checks links of pages below a root.
#[derive(Debug)]
pub(crate) struct Checker {
    root: PathBuf,
    /// The anchors of pages that were read.
    anchors: BTreeMap<String, Vec<String>>,
}

impl Checker {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            anchors: BTreeMap::new(),
        }
    }

    /// Returns what is wrong with the links of a page, a line for each finding.
    pub(crate) fn check(&mut self, page: &str) -> Result<Vec<String>, String> {
        let mut findings = Vec::new();
        for link in links(&read(&self.root.join(page))?) {
            if let Some(problem) = self.problem(page, &link)? {
                findings.push(format!("{page}:{}: {}: {problem}", link.line, link.target));
            }
        }
        Ok(findings)
    }

    fn problem(&mut self, page: &str, link: &Link) -> Result<Option<String>, String> {
        let (path, heading) = match target(page, link) {
            None => return Ok(Some("leads out of the repository".to_owned())),
            Some(Target::Elsewhere) => return Ok(None),
            Some(Target::Here(heading)) => (page.to_owned(), Some(heading)),
            Some(Target::Inside { path, heading }) => (path, heading),
        };
        let file = self.root.join(&path);
        if !file.exists() {
            return Ok(Some(format!("there is no {path}")));
        }
        let Some(heading) = heading.filter(|_| file.extension().is_some_and(|end| end == "md"))
        else {
            return Ok(None);
        };
        if !self.anchors.contains_key(&path) {
            self.anchors.insert(path.clone(), anchors(&read(&file)?));
        }
        let known = self
            .anchors
            .get(&path)
            .is_some_and(|anchors| anchors.iter().any(|anchor| anchor == heading));
        Ok((!known).then(|| format!("{path} has no heading with the anchor {heading}")))
    }
}

#[cfg(test)]
mod tests {
    use super::{Checker, Target, target};
    use crate::markdown::Link;
    use std::fs;

    fn link(target: &str) -> Link {
        Link {
            target: target.to_owned(),
            range: None,
            line: 1,
            is_picture: false,
        }
    }

    #[test]
    fn kinds_of_targets_are_distinguished() {
        let page = "docs/a.md";
        assert_eq!(
            target(page, &link("https://example.com/x#y")),
            Some(Target::Elsewhere)
        );
        assert_eq!(target(page, &link("#y")), Some(Target::Here("y")));
        let inside = Target::Inside {
            path: "README.md".to_owned(),
            heading: Some("y"),
        };
        assert_eq!(target(page, &link("../README.md#y")), Some(inside));
        assert_eq!(target(page, &link("../../x.md")), None);
    }

    #[test]
    fn broken_links_are_named_with_page_and_line() {
        let root =
            std::env::temp_dir().join(format!("slackwater-site-links-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let text = "# A\n\n[b](b.md#yes)\n[b](b.md#no)\n[c](c.md)\n[a](#a) [a](#x)\n";
        fs::write(root.join("a.md"), text).unwrap();
        fs::write(root.join("b.md"), "# Yes\n").unwrap();
        let found = Checker::new(&root).check("a.md").unwrap();
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            found,
            [
                "a.md:4: b.md#no: b.md has no heading with the anchor no",
                "a.md:5: c.md: there is no c.md",
                "a.md:6: #x: a.md has no heading with the anchor x",
            ]
        );
    }
}
