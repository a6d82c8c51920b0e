//! The archive for any Linux: the program and what belongs to it, in one folder.

use crate::command::read;
use crate::contents::{AGENT_UNIT, Contents, UNITS, unit};
use crate::pages::SHELLS;
use crate::source::Source;
use crate::target::Variant;
use crate::tree::Tree;

/// Files of the repository, and their names in the archive.
const FILES: [(&str, &str); 5] = [
    ("CHANGELOG.md", "CHANGELOG.md"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("README.md", "README.md"),
    ("deploy/debian/agent.toml", "examples/agent.toml"),
];

/// More of them, where the program can serve.
const FILES_OF_SERVE: [(&str, &str); 3] = [
    ("deploy/debian/serve.toml", "examples/serve.toml"),
    (
        "deploy/prometheus/rules.yml",
        "examples/prometheus-rules.yml",
    ),
    ("deploy/grafana/slackwater.json", "examples/grafana.json"),
];

/// Returns the files of the archive, without the folder around them.
///
/// # Errors
///
/// A file of the repository cannot be read.
pub(crate) fn tree(
    source: &Source,
    variant: Variant,
    contents: &Contents<'_>,
) -> Result<Tree, String> {
    let (of_serve, units) = match variant {
        Variant::Full => (&FILES_OF_SERVE[..], &UNITS[..]),
        Variant::Agent => (&[][..], &[AGENT_UNIT][..]),
    };
    let mut tree = Tree::default();
    tree.program("slackwater", contents.binary);
    for (path, name) in FILES.iter().chain(of_serve) {
        tree.file(name, read(&source.root.join(path))?);
    }
    for name in units {
        let text = unit(source, name, "/usr/local/bin/slackwater")?;
        tree.file(&format!("systemd/{name}"), text.into_bytes());
    }
    for (name, page) in &contents.pages.manual {
        tree.file(&format!("man/man1/{name}"), &page[..]);
    }
    for ((_, name, _), script) in SHELLS.iter().zip(&contents.pages.completions) {
        tree.file(&format!("completions/{name}"), script.as_bytes());
    }
    tree.file("THIRD-PARTY-LICENSES.txt", contents.licences.as_bytes());
    tree.file("sbom.cdx.json", contents.sbom.as_bytes());
    Ok(tree)
}

/// The name of the archive's folder; the archive has the same name with `.tar.gz`.
pub(crate) fn name(source: &Source, variant: Variant, triple: &str) -> String {
    format!("{}-{}-{triple}", variant.name(), source.version)
}
