//! Checks of the finished site: it loads nothing from elsewhere, and its links lead to existing
//! pages and headings.

use crate::tree::{read, resolve};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A tag with its relevant attributes.
#[derive(Debug, Default, PartialEq, Eq)]
struct TagAt<'a> {
    name: &'a str,
    attributes: Vec<(&'a str, &'a str)>,
}

/// Attributes that make a browser load something in any tag, without links that are followed by a
/// click.
const LOADS: &[&str] = &["src", "srcset", "data", "poster", "action", "xlink:href"];

/// The tags of a page, without those inside scripts.
fn tags(text: &str) -> Vec<TagAt<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if !rest.starts_with(|first: char| first.is_ascii_alphabetic()) {
            continue;
        }
        let Some(end) = tag_end(rest) else { break };
        let tag = tag(&rest[..end]);
        rest = &rest[end..];
        if tag.name == "script" {
            rest = rest.find("</script").map_or("", |end| &rest[end..]);
        }
        found.push(tag);
    }
    found
}

/// The end of a tag: the first `>` outside quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    text.char_indices().find_map(|(at, character)| {
        match (quote, character) {
            (None, '>') => return Some(at),
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
        None
    })
}

fn tag(text: &str) -> TagAt<'_> {
    let end = text.find([' ', '\n', '\t', '/']).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    let mut attributes = Vec::new();
    while let Some(equals) = rest.find('=') {
        let key = rest[..equals].split_whitespace().next_back().unwrap_or("");
        let value = rest[equals + 1..].trim_start();
        let Some(quote) = value
            .chars()
            .next()
            .filter(|first| matches!(first, '"' | '\''))
        else {
            // Without quotes a value ends at a space.
            let end = value.find(char::is_whitespace).unwrap_or(value.len());
            attributes.push((key, &value[..end]));
            rest = &value[end..];
            continue;
        };
        let Some(end) = value[1..].find(quote) else {
            break;
        };
        attributes.push((key, &value[1..=end]));
        rest = &value[end + 2..];
    }
    TagAt { name, attributes }
}

fn is_elsewhere(address: &str) -> bool {
    address.starts_with("//")
        || address.split_once(':').is_some_and(|(scheme, _)| {
            scheme != "data"
                && scheme
                    .chars()
                    .all(|letter| letter.is_ascii_alphanumeric() || letter == '+')
        })
}

/// The resources that a page would load from elsewhere.
fn loads(page: &str, tags: &[TagAt<'_>]) -> Vec<String> {
    let mut findings = Vec::new();
    for tag in tags {
        for (key, value) in &tag.attributes {
            let is_load = LOADS.contains(key) || (*key == "href" && tag.name != "a");
            if is_load && is_elsewhere(value) {
                findings.push(format!("{page}: <{}> loads {value}", tag.name));
            }
        }
    }
    findings
}

/// The resources that a style sheet would load from elsewhere.
fn style_loads(file: &str, text: &str) -> Vec<String> {
    let in_parentheses = text.split("url(").skip(1);
    let imported = text.split("@import").skip(1);
    in_parentheses
        .chain(imported)
        .map(|rest| rest.trim_start_matches([' ', '"', '\'']))
        .filter(|address| address.starts_with("http") || address.starts_with("//"))
        .map(|address| format!("{file}: loads {}", address.lines().next().unwrap_or("")))
        .collect()
}

/// Files below a folder, by relative path.
fn files(folder: &Path) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let problem = |error| format!("{}: {error}", next.display());
        for entry in fs::read_dir(&next).map_err(problem)? {
            let path = entry.map_err(problem)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(inside) = path.strip_prefix(folder) {
                found.insert(inside.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    Ok(found)
}

/// Returns what is wrong with the site in a folder, a line for each finding.
pub(crate) fn check(site: &Path) -> Result<Vec<String>, String> {
    let files = files(site)?;
    let mut findings = Vec::new();
    let mut texts = BTreeMap::new();
    for file in &files {
        let end = Path::new(file).extension().unwrap_or_default();
        if end == "html" {
            texts.insert(file.as_str(), read(&site.join(file))?);
        } else if end == "css" || end == "svg" {
            findings.extend(style_loads(file, &read(&site.join(file))?));
        }
    }
    let pages: BTreeMap<&str, Vec<TagAt<'_>>> = texts
        .iter()
        .map(|(page, text)| (*page, tags(text)))
        .collect();
    let ids: BTreeMap<&str, BTreeSet<&str>> = pages
        .iter()
        .map(|(page, tags)| {
            let attributes = tags.iter().flat_map(|tag| &tag.attributes);
            let named = attributes.filter(|(key, _)| matches!(*key, "id" | "name"));
            (*page, named.map(|(_, value)| *value).collect())
        })
        .collect();
    for (page, tags) in &pages {
        findings.extend(loads(page, tags));
        let attributes = tags.iter().flat_map(|tag| &tag.attributes);
        for (_, address) in attributes.filter(|(key, _)| matches!(*key, "href" | "src")) {
            if let Some(problem) = broken(page, address, &files, &ids) {
                findings.push(format!("{page}: {address}: {problem}"));
            }
        }
    }
    // A resource that a page loads twice is one finding.
    findings.dedup();
    Ok(findings)
}

fn broken(
    page: &str,
    address: &str,
    files: &BTreeSet<String>,
    ids: &BTreeMap<&str, BTreeSet<&str>>,
) -> Option<String> {
    if address.is_empty() || is_elsewhere(address) || address.starts_with("data:") {
        return None;
    }
    let (path, heading) = address.split_once('#').unwrap_or((address, ""));
    let path = if path.is_empty() {
        page.to_owned()
    } else {
        match resolve(page, path) {
            Some(path) => path,
            None => return Some("leads out of the site".to_owned()),
        }
    };
    if !files.contains(&path) {
        return Some(format!("the site has no {path}"));
    }
    let known = ids.get(path.as_str())?;
    (!heading.is_empty() && !known.contains(heading))
        .then(|| format!("{path} has no heading with the anchor {heading}"))
}

#[cfg(test)]
mod tests {
    use super::{check, loads, style_loads, tags};
    use std::fs;

    #[test]
    fn resources_from_other_sites_are_found() {
        let page = r#"<a href="https://example.com/">fine</a> <img src='//example.com/p.png'>
            <link rel="stylesheet" href="https://example.com/s.css"><script src="local.js">
            if (1 <b src="https://no.example/"> 2) {}</script><img src="data:image/png;base64,x">"#;
        assert_eq!(
            loads("p.html", &tags(page)),
            [
                "p.html: <img> loads //example.com/p.png",
                "p.html: <link> loads https://example.com/s.css",
            ]
        );
        let style = "@font-face { src: url('fonts/a.woff2') } b { background: url(https://example.com/b.png) }";
        assert_eq!(style_loads("s.css", style).len(), 1);
    }

    #[test]
    fn broken_links_of_a_site_are_found() {
        let site =
            std::env::temp_dir().join(format!("slackwater-site-html-{}", std::process::id()));
        fs::create_dir_all(site.join("b")).unwrap();
        let page = r##"<h1 id="x">A</h1><a href="#x"></a><a href="b/b.html#y"></a>
            <a href="b/b.html#z"></a><a href="c.html"></a><a href="../d.html"></a>"##;
        fs::write(site.join("a.html"), page).unwrap();
        fs::write(
            site.join("b/b.html"),
            r#"<h1 id="y">B</h1><a href="../a.html"></a>"#,
        )
        .unwrap();
        let found = check(&site).unwrap();
        fs::remove_dir_all(&site).unwrap();
        assert_eq!(
            found,
            [
                "a.html: b/b.html#z: b/b.html has no heading with the anchor z",
                "a.html: c.html: the site has no c.html",
                "a.html: ../d.html: leads out of the site",
            ]
        );
    }
}
