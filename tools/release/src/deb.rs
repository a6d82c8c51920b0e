//! The Debian package: an `ar` archive of two tar archives, `control` and `data`.

use crate::bytes::{gzip, md5};
use crate::command::read;
use crate::contents::{Contents, UNITS, unit};
use crate::pages::SHELLS;
use crate::source::Source;
use crate::target::Target;
use crate::tree::Tree;
use core::fmt::Write as _;
use std::io;

/// The revision of the packaging of one version.
const REVISION: u32 = 1;
/// The files of Debian's packaging.
const FOLDER: &str = "deploy/debian";
/// Scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];
/// Files that upgrades of the package do not overwrite once they have been edited, and their names
/// in the repository.
const CONFIGURATION: [(&str, &str); 2] = [
    ("etc/needrestart/conf.d/slackwater.conf", "needrestart.conf"),
    ("etc/slackwater/serve.toml", "serve.toml"),
];
const DOCS: &str = "usr/share/doc/slackwater";

/// The file name of the package: with the version as it is everywhere, since GitHub takes no `~` in
/// names.
pub(crate) fn name(source: &Source, target: Target) -> String {
    let version = &source.version;
    format!(
        "slackwater_{version}-{REVISION}_{}.deb",
        target.architecture
    )
}

/// Debian's version: with `~`, a pre-release comes before its release.
fn version(source: &Source) -> String {
    format!("{}-{REVISION}", source.version.replacen('-', "~", 1))
}

/// Returns the package. `libraries` are the packages that the program is linked to; none if it is
/// static.
///
/// # Errors
///
/// A file of the repository cannot be read.
pub(crate) fn package(
    source: &Source,
    target: Target,
    contents: &Contents<'_>,
    libraries: &str,
) -> Result<Vec<u8>, String> {
    let data = data(source, contents)?;
    let control = control(source, target, &data, libraries)?;
    archive(source, &control, &data).map_err(|error| format!("the Debian package: {error}"))
}

/// The files that are installed.
fn data(source: &Source, contents: &Contents<'_>) -> Result<Tree, String> {
    let mut tree = Tree::default();
    tree.program("usr/bin/slackwater", contents.binary);
    for name in UNITS {
        let text = unit(source, name, "/usr/bin/slackwater")?;
        tree.file(&format!("usr/lib/systemd/system/{name}"), text.into_bytes());
    }
    let packaging = source.root.join(FOLDER);
    for (path, name) in CONFIGURATION {
        tree.file(path, read(&packaging.join(name))?);
    }
    tree.file(
        &format!("{DOCS}/examples/agent.toml"),
        read(&packaging.join("agent.toml"))?,
    );
    let copyright = read(&packaging.join("copyright"))?;
    tree.file(&format!("{DOCS}/copyright"), copyright);
    let overrides = read(&packaging.join("lintian-overrides"))?;
    tree.file("usr/share/lintian/overrides/slackwater", overrides);
    let compressed = |bytes: &[u8]| gzip(bytes).map_err(|error| format!("gzip: {error}"));
    let changelog = read(&source.root.join("CHANGELOG.md"))?;
    for (name, bytes) in [
        ("changelog.gz", &changelog[..]),
        ("changelog.Debian.gz", changes(source).as_bytes()),
        ("third-party-licenses.gz", contents.licences.as_bytes()),
        ("sbom.cdx.json.gz", contents.sbom.as_bytes()),
    ] {
        tree.file(&format!("{DOCS}/{name}"), compressed(bytes)?);
    }
    for (name, page) in &contents.pages.manual {
        tree.file(&format!("usr/share/man/man1/{name}.gz"), compressed(page)?);
    }
    for ((_, _, path), script) in SHELLS.iter().zip(&contents.pages.completions) {
        tree.file(path, script.as_bytes());
    }
    Ok(tree)
}

/// Debian's own changelog. What changed stands in ours.
fn changes(source: &Source) -> String {
    format!(
        "slackwater ({}) unstable; urgency=medium\n\n  \
         * Version {} of Slackwater, commit {}; see changelog.gz.\n\n \
         -- {}  {}\n",
        version(source),
        source.version,
        source.commit,
        MAINTAINER,
        source.mail_date
    )
}

/// The contact in the package. Reports go to the repository, not to this address.
const MAINTAINER: &str = "Slackwater maintainers <slackwater@users.noreply.github.com>";

/// What dpkg reads.
fn control(source: &Source, target: Target, data: &Tree, libraries: &str) -> Result<Tree, String> {
    let mut tree = Tree::default();
    // In KiB, each file rounded up, and one for each folder, as dpkg-gencontrol estimates.
    let size: usize = data
        .files()
        .map(|(_, bytes)| bytes.len().div_ceil(1024))
        .sum();
    let mut control = format!(
        "Package: slackwater\nVersion: {}\nArchitecture: {}\nMaintainer: {MAINTAINER}\nInstalled-Size: {size}\n",
        version(source),
        target.architecture
    );
    if !libraries.is_empty() {
        let _ = writeln!(control, "Depends: {libraries}");
    }
    control += "Recommends: ca-certificates\n\
        Section: net\n\
        Priority: optional\n\
        Homepage: https://github.com/slackwater/slackwater\n\
        Description: load balancer that sends requests where they are answered soonest\n \
        Slackwater is a proxy for HTTP/1.1, HTTP/2 and gRPC between services. It probes\n \
        the servers behind it for their requests in flight and latency, as in Prequal\n \
        (Google, NSDI 2024), and sends each request to the one that can answer it\n \
        soonest.\n \
        .\n \
        The package has the command slackwater with the proxy (serve), the agent for\n \
        a server, a load generator, a simulator and a view for terminals, and units\n \
        of systemd for serve and agent.\n";
    tree.file("control", control.into_bytes());
    let conffiles = CONFIGURATION.map(|(path, _)| format!("/{path}\n")).concat();
    tree.file("conffiles", conffiles.into_bytes());
    let mut sums = String::new();
    for (path, bytes) in data.files().filter(|(path, _)| !path.starts_with("etc/")) {
        let _ = writeln!(sums, "{}  {path}", md5(bytes));
    }
    tree.file("md5sums", sums.into_bytes());
    for script in SCRIPTS {
        tree.program(script, read(&source.root.join(FOLDER).join(script))?);
    }
    Ok(tree)
}

fn archive(source: &Source, control: &Tree, data: &Tree) -> io::Result<Vec<u8>> {
    let mut archive = ar::Builder::new(Vec::new());
    let parts = [
        ("debian-binary", b"2.0\n".to_vec()),
        (
            "control.tar.gz",
            gzip(&control.below(".").tar(source.time)?)?,
        ),
        ("data.tar.gz", gzip(&data.below(".").tar(source.time)?)?),
    ];
    for (name, bytes) in parts {
        let mut header = ar::Header::new(name.as_bytes().to_vec(), bytes.len() as u64);
        header.set_mode(0o100_644);
        header.set_mtime(source.time);
        archive.append(&header, &bytes[..])?;
    }
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::root;
    use crate::pages::Pages;
    use crate::source::tests::source;
    use crate::target::TARGETS;
    use flate2::read::GzDecoder;
    use std::collections::BTreeMap;
    use std::io::Read;

    /// Reads a tar archive: the texts of its files, and modes of all its entries.
    fn entries(tar_gz: &[u8]) -> (BTreeMap<String, Vec<u8>>, BTreeMap<String, u32>) {
        let (mut files, mut modes) = (BTreeMap::new(), BTreeMap::new());
        let mut tar = tar::Archive::new(GzDecoder::new(tar_gz));
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            modes.insert(path.clone(), entry.header().mode().unwrap());
            files.insert(path, bytes);
        }
        (files, modes)
    }

    fn made() -> Vec<u8> {
        let source = Source {
            root: root().unwrap(),
            ..source()
        };
        let pages = Pages {
            manual: [("slackwater.1".to_owned(), b"page".to_vec())].into(),
            completions: ["b", "z", "f"].map(str::to_owned).into(),
        };
        let contents = Contents {
            binary: b"program",
            pages: &pages,
            licences: "theirs",
            sbom: "{}",
        };
        package(&source, TARGETS[1], &contents, "").unwrap()
    }

    #[test]
    fn package_has_the_files_that_dpkg_and_systemd_expect() {
        let package = made();
        assert_eq!(package, made());
        let mut archive = ar::Archive::new(&package[..]);
        let mut parts = Vec::new();
        while let Some(entry) = archive.next_entry() {
            let mut entry = entry.unwrap();
            let name = String::from_utf8(entry.header().identifier().to_vec()).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            parts.push((name, bytes));
        }
        let names: Vec<_> = parts.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
        assert_eq!(parts[0].1, b"2.0\n");
        let (control, modes) = entries(&parts[1].1);
        let text = |path: &str| String::from_utf8(control[path].clone()).unwrap();
        let fields = text("./control");
        assert!(
            fields.contains("\nVersion: 0.1.0-1\nArchitecture: arm64\n"),
            "{fields}"
        );
        assert!(!fields.contains("Depends"), "{fields}");
        assert!(fields.lines().all(|line| line.len() <= 80), "{fields}");
        assert_eq!(
            text("./conffiles"),
            "/etc/needrestart/conf.d/slackwater.conf\n/etc/slackwater/serve.toml\n"
        );
        let sums = text("./md5sums");
        let line = format!("{}  usr/bin/slackwater\n", md5(b"program"));
        assert!(sums.contains(&line) && !sums.contains("etc/"), "{sums}");
        for script in SCRIPTS {
            assert_eq!(modes[&format!("./{script}")], 0o755, "{script}");
        }
        let (data, modes) = entries(&parts[2].1);
        assert_eq!(data["./usr/bin/slackwater"], b"program");
        assert_eq!(modes["./usr/bin/slackwater"], 0o755);
        assert!(data.contains_key("./usr/share/man/man1/slackwater.1.gz"));
        let kept = String::from_utf8_lossy(&data["./etc/needrestart/conf.d/slackwater.conf"]);
        assert!(
            kept.contains(r"{qr(^slackwater(-agent)?\.service$)} = 0;"),
            "{kept}"
        );
        let unit = &data["./usr/lib/systemd/system/slackwater.service"];
        let unit = String::from_utf8(unit.clone()).unwrap();
        assert!(
            unit.contains("ExecStart=/usr/bin/slackwater serve"),
            "{unit}"
        );
        assert!(!unit.contains("/usr/local"), "{unit}");
    }

    #[test]
    fn pre_release_comes_before_its_release() {
        let source = Source {
            version: "0.2.0-rc.1".to_owned(),
            ..source()
        };
        assert_eq!(version(&source), "0.2.0~rc.1-1");
        let name = name(&source, TARGETS[0]);
        assert!(name.starts_with("slackwater_0.2.0-rc.1-1_"), "{name}");
    }
}
