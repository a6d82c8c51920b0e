//! Prepares the repository's pages for mdBook: the pages in `docs/SUMMARY.md`, in folders of their
//! own, with adapted links.
//!
//! In the repository, links are relative, so that they work in an editor and on a forge. The site
//! has `docs/` at its root, and links to files that it does not contain go to the repository.

use crate::links::{Target, target};
use crate::markdown::{Link, links};
use crate::tree::{pages, read, relative};
use core::fmt::Write as _;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The list of pages in their order.
const SUMMARY: &str = "docs/SUMMARY.md";
/// The address of files that the site does not contain.
const REPOSITORY: &str = "https://github.com/slackwater/slackwater/blob/main/";
/// Extensions of files that the site contains if a page links to them.
const CARRIED: &[&str] = &["png", "svg", "json", "csv"];

/// A repository file's path in the site.
fn place(path: &str) -> String {
    let path = path.strip_prefix("docs/").unwrap_or(path);
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.to_owned(),
    }
}

/// The pages of the summary, in order.
pub(crate) fn listed(root: &Path) -> Result<Vec<String>, String> {
    let text = read(&root.join(SUMMARY))?;
    let mut listed = Vec::new();
    for link in links(&text) {
        match target(SUMMARY, &link) {
            Some(Target::Inside { path, .. }) => listed.push(path),
            _ => {
                return Err(format!(
                    "{SUMMARY}:{}: {}: a page is a file of the repository",
                    link.line, link.target
                ));
            }
        }
    }
    Ok(listed)
}

/// Returns what is wrong with the summary: pages under `docs/` that are missing or repeated.
pub(crate) fn check_summary(root: &Path) -> Result<Vec<String>, String> {
    let listed = listed(root)?;
    let mut seen = BTreeSet::new();
    let mut findings: Vec<String> = Vec::new();
    for path in &listed {
        if !seen.insert(path.as_str()) {
            findings.push(format!("{SUMMARY}: {path} is listed twice"));
        }
    }
    for page in pages(root)? {
        if page.starts_with("docs/") && page != SUMMARY && !seen.contains(page.as_str()) {
            findings.push(format!("{SUMMARY}: {page} is not listed"));
        }
    }
    Ok(findings)
}

/// Writes the pages and their files into a folder, for mdBook.
pub(crate) fn write(root: &Path, folder: &Path) -> Result<(), String> {
    let listed = listed(root)?;
    let pages: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    for page in core::iter::once(SUMMARY).chain(listed.iter().map(String::as_str)) {
        let text = read(&root.join(page))?;
        let (text, carried) = rewrite(root, page, &text, &pages)?;
        put(folder, &place(page), text.as_bytes())?;
        for file in carried {
            let path = root.join(&file);
            let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            put(folder, &place(&file), &bytes)?;
        }
    }
    Ok(())
}

fn put(folder: &Path, place: &str, bytes: &[u8]) -> Result<(), String> {
    let path = folder.join(place);
    let problem = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(problem)?;
    }
    fs::write(&path, bytes).map_err(problem)
}

/// Adapts the links of a page; also returns the files that the site must contain for them.
fn rewrite(
    root: &Path,
    page: &str,
    text: &str,
    pages: &BTreeSet<&str>,
) -> Result<(String, Vec<String>), String> {
    let mut out = String::with_capacity(text.len());
    let mut carried = Vec::new();
    let mut end = 0;
    for link in links(text) {
        let Some(Target::Inside { path, heading }) = target(page, &link) else {
            continue;
        };
        let range = link.range.clone().ok_or_else(|| {
            format!(
                "{page}:{}: {}: write the target into the link, as in [text](page.md)",
                link.line, link.target
            )
        })?;
        out.push_str(&text[end..range.start]);
        end = range.end;
        if pages.contains(path.as_str()) {
            out.push_str(&relative(&place(page), &place(&path)));
        } else if root.join(&path).is_file() && is_carried(&path, &link) {
            out.push_str(&relative(&place(page), &place(&path)));
            carried.push(path);
        } else {
            write!(out, "{REPOSITORY}{path}").map_err(|error| error.to_string())?;
        }
        if let Some(heading) = heading {
            write!(out, "#{heading}").map_err(|error| error.to_string())?;
        }
    }
    out.push_str(&text[end..]);
    Ok((out, carried))
}

fn is_carried(path: &str, link: &Link) -> bool {
    let end = Path::new(path).extension().unwrap_or_default();
    link.is_picture || CARRIED.iter().any(|carried| end == *carried)
}

#[cfg(test)]
mod tests {
    use super::{place, rewrite};
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn docs_folder_is_the_root_and_readme_an_index() {
        assert_eq!(place("docs/how-to/tls.md"), "how-to/tls.md");
        assert_eq!(place("README.md"), "index.md");
        assert_eq!(place("results/sim/README.md"), "results/sim/index.md");
    }

    #[test]
    fn links_are_rewritten_to_pages_of_the_site() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pages = BTreeSet::from(["README.md", "docs/how-to/tls.md", "results/demo.md"]);
        let text = "[a](../../README.md#x) [b](../../results/demo.md) [c](../../SECURITY.md) \
                    [d](#here) [e](https://example.com/) ![f](../../results/sim/fig6-1.svg)";
        let (text, carried) = rewrite(&root, "docs/how-to/tls.md", text, &pages).unwrap();
        assert_eq!(
            text,
            "[a](../index.md#x) [b](../results/demo.md) \
             [c](https://github.com/slackwater/slackwater/blob/main/SECURITY.md) \
             [d](#here) [e](https://example.com/) ![f](../results/sim/fig6-1.svg)"
        );
        assert_eq!(carried, ["results/sim/fig6-1.svg"]);
    }

    #[test]
    fn reference_link_that_needs_rewriting_is_refused() {
        let text = "[a][b]\n\n[b]: ../../README.md\n";
        let error = rewrite(Path::new("."), "docs/how-to/tls.md", text, &BTreeSet::new());
        assert!(error.unwrap_err().starts_with("docs/how-to/tls.md:1: "));
    }
}
