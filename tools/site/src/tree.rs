//! The files of the repository that belong to the site, by their path from its root.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Folders without pages of ours. Pages within `src` are parts of pages that tests generate.
const SKIPPED: &[&str] = &["target", "node_modules", "corpus", "artifacts", "src"];

/// Paths of all Markdown pages, with `/` as separator.
pub(crate) fn pages(root: &Path) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let problem = |error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(problem)? {
            let path = entry.map_err(problem)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                if !name.starts_with('.') && !SKIPPED.contains(&&*name) {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|end| end == "md")
                && let Ok(inside) = path.strip_prefix(root)
            {
                found.insert(inside.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    Ok(found)
}

/// Reads a file; the error names it.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The target of a relative path from a file; `None` if it is outside of the repository.
pub(crate) fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    let folder = Path::new(from).parent().unwrap_or(Path::new(""));
    for part in folder.join(target).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}

/// The relative path from one file to another.
pub(crate) fn relative(from: &str, to: &str) -> String {
    let from: Vec<&str> = from.split('/').collect();
    let to: Vec<&str> = to.split('/').collect();
    let folders = from.len() - 1;
    let shared = (0..folders.min(to.len() - 1))
        .take_while(|&at| from[at] == to[at])
        .count();
    let up = core::iter::repeat_n("..", folders - shared);
    up.chain(to[shared..].iter().copied())
        .collect::<PathBuf>()
        .to_string_lossy()
        .replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::{relative, resolve};

    #[test]
    fn a_target_is_resolved_from_the_folder_of_its_page() {
        let from = "docs/how-to/tls.md";
        assert_eq!(
            resolve(from, "reload.md").as_deref(),
            Some("docs/how-to/reload.md")
        );
        assert_eq!(
            resolve(from, "../../README.md").as_deref(),
            Some("README.md")
        );
        assert_eq!(resolve(from, "../../../elsewhere.md"), None);
        assert_eq!(resolve(from, "/etc/passwd"), None);
    }

    #[test]
    fn relative_path_resolves_to_its_target() {
        for (from, to) in [
            ("README.md", "docs/glossary.md"),
            ("how-to/tls.md", "how-to/reload.md"),
            ("how-to/tls.md", "results/sim/README.md"),
            ("results/sim/fig6.md", "README.md"),
        ] {
            assert_eq!(resolve(from, &relative(from, to)).as_deref(), Some(to));
        }
        assert_eq!(relative("how-to/tls.md", "how-to/reload.md"), "reload.md");
        assert_eq!(
            relative("results/sim/fig6.md", "README.md"),
            "../../README.md"
        );
    }
}
