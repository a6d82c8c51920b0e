//! Builds the documentation as a site with mdBook, and checks it: every page is listed, every link
//! leads to an existing page and heading, and no page loads anything from elsewhere.
//!
//! `cargo xtask site` runs it. The site consists of plain files, which can be read from a disk as
//! well as from a server.

mod html;
mod links;
mod markdown;
mod polish;
mod stage;
mod tree;

use core::str::FromStr as _;
use links::Checker;
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const BOOK: &str = include_str!("../book.toml");
const STYLE: &str = include_str!("../site.css");
const USAGE: &str = "\
In the root of the repository:
slackwater-site [FOLDER]   builds the site into FOLDER (default: target/site)
slackwater-site --check    checks the links of all pages of the repository, and builds nothing";

fn main() -> ExitCode {
    // The current tree: `cargo xtask site` changes to its root.
    let root = std::env::current_dir().unwrap_or_default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let end = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--check"] => check(&root).map(|pages| format!("{pages} pages: links are in order")),
        [] => make(&root, &root.join("target/site")),
        [folder] if !folder.starts_with('-') => make(&root, Path::new(folder)),
        _ => Err(USAGE.to_owned()),
    };
    match end {
        Ok(text) => {
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(text) => {
            let _ = writeln!(std::io::stderr(), "{text}");
            ExitCode::FAILURE
        }
    }
}

/// Checks the summary and the links of every page of the repository; returns the number of pages.
fn check(root: &Path) -> Result<usize, String> {
    let (pages, findings) = findings(root)?;
    none(&findings).map(|()| pages)
}

/// The number of pages, and the findings.
fn findings(root: &Path) -> Result<(usize, Vec<String>), String> {
    let pages = tree::pages(root)?;
    let mut checker = Checker::new(root);
    let mut findings = stage::check_summary(root)?;
    for page in &pages {
        findings.extend(checker.check(page)?);
    }
    Ok((pages.len(), findings))
}

/// Builds the site and checks it. A site with broken links is still built, for inspection.
fn make(root: &Path, folder: &Path) -> Result<String, String> {
    let (pages, mut findings) = findings(root)?;
    build(root, folder)?;
    let first = folder.join("index.html");
    findings.extend(html::check(folder)?);
    none(&findings)?;
    Ok(format!(
        "{pages} pages checked; the site begins at {}",
        first.display()
    ))
}

fn none(findings: &[String]) -> Result<(), String> {
    if findings.is_empty() {
        Ok(())
    } else {
        Err(findings.join("\n"))
    }
}

/// Builds the site into a folder, replacing an earlier one.
fn build(root: &Path, folder: &Path) -> Result<(), String> {
    let book = source(folder);
    clear(&book)?;
    stage::write(root, &book.join("src"))?;
    let style = book.join("site.css");
    fs::write(&style, STYLE).map_err(|error| format!("{}: {error}", style.display()))?;
    let problem = |error| format!("mdBook: {error:#}");
    let config = Config::from_str(BOOK).map_err(problem)?;
    MDBook::load_with_config(&book, config)
        .and_then(|book| book.build())
        .map_err(problem)?;
    polish::polish(&book.join("book"))?;
    clear(folder)?;
    fs::rename(book.join("book"), folder)
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    clear(&book)
}

/// The folder that mdBook reads, beside the folder of the site.
fn source(folder: &Path) -> PathBuf {
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(".source");
    folder.with_file_name(name)
}

fn clear(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{check, make};
    use std::fs;
    use std::path::Path;

    #[test]
    fn all_links_of_the_repository_are_valid() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert!(check(&root).unwrap() > 50);
    }

    #[test]
    fn a_site_of_two_pages_is_built_and_checked() {
        let root = std::env::temp_dir().join(format!("slackwater-site-{}", std::process::id()));
        fs::create_dir_all(root.join("docs")).unwrap();
        let write = |path: &str, text: &str| fs::write(root.join(path), text).unwrap();
        write("README.md", "# Front\n\n[one](docs/one.md#part)\n");
        write(
            "docs/one.md",
            "# One\n\n## Part\n\n[front](../README.md) <b id=\"x\">x</b>\n",
        );
        write(
            "docs/SUMMARY.md",
            "# Contents\n\n[Front](../README.md)\n\n- [One](one.md)\n",
        );
        let site = root.join("site");
        let end = make(&root, &site);
        let page = fs::read_to_string(site.join("one.html"));

        // An external picture passes the check of links, and not the check of the site.
        write(
            "docs/one.md",
            "# One\n\n## Part\n\n![far](https://example.com/far.png)\n",
        );
        let refused = make(&root, &site);
        fs::remove_dir_all(&root).unwrap();
        assert!(end.unwrap().starts_with("3 pages checked"));
        assert!(page.unwrap().contains("href=\"index.html\""));
        assert_eq!(
            refused.unwrap_err(),
            "one.html: <img> loads https://example.com/far.png"
        );
    }
}
