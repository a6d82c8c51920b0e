//! What mdBook's pages lack for keyboards and screen readers, put into each: the button of the
//! contents is one that keys reach, the bar above the page is a landmark, the page's title is the
//! only heading of the first order, and there are two themes, light and dark.

use crate::tree::read;
use std::fs;
use std::path::Path;

/// What a page of mdBook has, by what stands in its place.
const REPLACED: &[(&str, &str)] = &[
    (
        r#"<div id="mdbook-menu-bar" class="menu-bar sticky">"#,
        r#"<div id="mdbook-menu-bar" class="menu-bar sticky" role="banner">"#,
    ),
    (
        r#"<label id="mdbook-sidebar-toggle" class="icon-button" for="mdbook-sidebar-toggle-anchor""#,
        // After mdBook's own listener, which shows what the checkbox then slides in.
        r#"<button id="mdbook-sidebar-toggle" class="icon-button" type="button" onclick="setTimeout(() => document.getElementById('mdbook-sidebar-toggle-anchor').click())""#,
    ),
    ("</label>", "</button>"),
    (
        r#"<h1 class="menu-title">Slackwater</h1>"#,
        r#"<div class="menu-title">Slackwater</div>"#,
    ),
    (
        r#"<li role="none"><button role="menuitem" class="theme" id="mdbook-theme-rust">Rust</button></li>"#,
        "",
    ),
    (
        r#"<li role="none"><button role="menuitem" class="theme" id="mdbook-theme-navy">Navy</button></li>"#,
        "",
    ),
    (
        r#"<li role="none"><button role="menuitem" class="theme" id="mdbook-theme-ayu">Ayu</button></li>"#,
        "",
    ),
    (
        r#"id="mdbook-theme-coal">Coal<"#,
        r#"id="mdbook-theme-coal">Dark<"#,
    ),
    ("Search this book ...", "Search the documentation"),
];

/// Polishes every page of a site; fails if mdBook's pages are no longer as this expects.
pub(crate) fn polish(site: &Path) -> Result<(), String> {
    let mut folders = vec![site.to_owned()];
    while let Some(folder) = folders.pop() {
        let problem = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(problem)? {
            let path = entry.map_err(problem)?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "html") {
                let text = read(&path)?;
                // The contents have a page of their own, for browsers without scripts.
                if !text.contains("mdbook-menu-bar") {
                    continue;
                }
                let text = polished(text)
                    .map_err(|missing| format!("{}: mdBook wrote no {missing}", path.display()))?;
                fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
    }
    Ok(())
}

fn polished(mut text: String) -> Result<String, &'static str> {
    for (from, to) in REPLACED {
        // The pages' own words are further down, and stay as they are.
        if !text.contains(from) {
            return Err(from);
        }
        text = text.replacen(from, to, 1);
    }
    // What is wider than the page is scrolled; so that keys can do that, they reach it.
    let text = text.replace("<pre><code", "<pre><code tabindex=\"0\"");
    let wrapper = "<div class=\"table-wrapper\"";
    let text = text.replace(wrapper, &format!("{wrapper} tabindex=\"0\""));
    // A column without a name has no heading, not an empty one.
    Ok(text.replace("<th></th>", "<td></td>"))
}

#[cfg(test)]
mod tests {
    use super::{REPLACED, polished};

    #[test]
    fn a_page_of_another_mdbook_is_refused() {
        let page: String = REPLACED.iter().map(|(from, _)| *from).collect();
        let text = polished(page.clone()).unwrap();
        assert!(text.contains("role=\"banner\"") && !text.contains("<label"));
        let another = page.replace("menu-title", "title");
        assert_eq!(polished(another), Err(REPLACED[3].0));
    }
}
