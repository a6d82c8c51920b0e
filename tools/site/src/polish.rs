//! Additions to mdBook's pages for keyboards and screen readers: the button of the contents can be
//! reached by keyboard, the bar above the page is a landmark, the page's title is the only heading
//! of level 1, and there are two themes, light and dark.

use crate::tree::read;
use std::fs;
use std::path::Path;

/// Parts of mdBook's pages, and their replacements.
const REPLACED: &[(&str, &str)] = &[
    (
        r#"<div id="mdbook-menu-bar" class="menu-bar sticky">"#,
        r#"<div id="mdbook-menu-bar" class="menu-bar sticky" role="banner">"#,
    ),
    (
        r#"<label id="mdbook-sidebar-toggle" class="icon-button" for="mdbook-sidebar-toggle-anchor""#,
        // After mdBook's own listener, which shows the element that the checkbox then slides in.
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

/// Polishes every page of a site; fails if mdBook's pages have changed.
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
                // The table of contents is a separate page for browsers without scripts.
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
        // The page's own text is further down, and stays unchanged.
        if !text.contains(from) {
            return Err(from);
        }
        text = text.replacen(from, to, 1);
    }
    // Wide elements scroll; to scroll them by keyboard, they must be focusable.
    let text = text.replace("<pre><code", "<pre><code tabindex=\"0\"");
    let wrapper = "<div class=\"table-wrapper\"";
    let text = text.replace(wrapper, &format!("{wrapper} tabindex=\"0\""));
    // A column without a name has no header cell, not an empty one.
    Ok(text.replace("<th></th>", "<td></td>"))
}

#[cfg(test)]
mod tests {
    use super::{REPLACED, polished};

    #[test]
    fn page_of_another_mdbook_version_is_refused() {
        let page: String = REPLACED.iter().map(|(from, _)| *from).collect();
        let text = polished(page.clone()).unwrap();
        assert!(text.contains("role=\"banner\"") && !text.contains("<label"));
        let another = page.replace("menu-title", "title");
        assert_eq!(polished(another), Err(REPLACED[3].0));
    }
}
