//! The crates as they are published: each is packed, and has what its readers and users need.

use crate::command::{output, progress};
use crate::source::Source;
use flate2::read::GzDecoder;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Files that each crate has.
const FILES: [&str; 5] = [
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
];

/// Packs all public crates without compiling them, and returns the total of their sizes in bytes.
/// The build before it has fetched all that they need, so no registry is asked.
///
/// # Errors
///
/// A crate cannot be packed, or lacks a file.
pub(crate) fn check(source: &Source) -> Result<u64, String> {
    progress(&format!("packing {} crates", source.public_crates.len()));
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "package",
            "--no-verify",
            "--offline",
            "--locked",
            "--allow-dirty",
            "--quiet",
        ])
        .current_dir(&source.root);
    for name in &source.public_crates {
        cargo.args(["--package", name]);
    }
    output(&mut cargo)?;
    let mut size = 0;
    for name in &source.public_crates {
        let folder = format!("{name}-{}", source.version);
        let path = source.target_folder.join(format!("package/{folder}.crate"));
        let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
        let files = files(&path, &folder).map_err(wrong)?;
        let lacking = lacking(&files);
        if !lacking.is_empty() {
            return Err(format!("the crate {name} lacks {}", lacking.join(", ")));
        }
        size += path.metadata().map_err(wrong)?.len();
    }
    Ok(size)
}

/// Files of a packed crate, without the folder around them.
fn files(path: &Path, folder: &str) -> std::io::Result<BTreeSet<String>> {
    let mut files = BTreeSet::new();
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path)?));
    for entry in archive.entries()? {
        let entry = entry?;
        let path = entry.path()?;
        let path = path.strip_prefix(folder).unwrap_or(&path);
        files.insert(path.display().to_string());
    }
    Ok(files)
}

fn lacking(files: &BTreeSet<String>) -> Vec<&'static str> {
    let mut lacking: Vec<_> = FILES
        .into_iter()
        .filter(|&name| !files.contains(name))
        .collect();
    if !["src/lib.rs", "src/main.rs"]
        .iter()
        .any(|&it| files.contains(it))
    {
        lacking.push("src/lib.rs");
    }
    lacking
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_are_named() {
        let mut files: BTreeSet<_> = FILES.iter().map(|&name| name.to_owned()).collect();
        files.insert("src/main.rs".to_owned());
        assert_eq!(lacking(&files), [""; 0]);
        files.remove("LICENSE-MIT");
        files.remove("src/main.rs");
        assert_eq!(lacking(&files), ["LICENSE-MIT", "src/lib.rs"]);
    }
}
