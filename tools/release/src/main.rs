//! Makes a release: static programs, archives, Debian packages, container images, lists of what is
//! in them, and checksums. It publishes nothing.
//!
//! `cargo xtask release` runs it. The same commit and counts give the same bytes: every archive is
//! written from a tree in memory with the time of the commit, and the compilers are pinned.

mod bytes;
mod command;
mod compile;
mod contents;
mod crates;
mod deb;
mod image;
mod licences;
mod options;
mod packages;
mod pages;
mod sbom;
mod source;
mod symbols;
mod tarball;
mod target;
mod training;
mod tree;

use bytes::{gzip, sha256};
use command::{progress, read, say};
use compile::{Compiler, Counts};
use contents::Contents;
use core::fmt::Write as _;
use options::Options;
use packages::Packages;
use pages::Pages;
use source::Source;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use target::{Target, Variant};
use training::Training;

/// The file with the digests of all others.
const SUMS: &str = "SHA256SUMS";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let end = options::parse(&arguments).and_then(|options| run(&options));
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => {
            let _ = writeln!(std::io::stderr(), "{fault}");
            ExitCode::FAILURE
        }
    }
}

/// A program, and everything that is known of it.
#[derive(Debug)]
struct Build {
    target: Target,
    variant: Variant,
    binary: Vec<u8>,
    /// The counts that it is optimized by.
    counts: Option<Vec<u8>>,
    licences: String,
    sbom: String,
    crates: usize,
}

/// The folder of the results, and what has been written into it.
#[derive(Debug)]
struct Output {
    folder: PathBuf,
    files: Vec<(String, usize, String)>,
}

impl Output {
    /// Empties the folder, if it is that of an earlier release: files of another version would be
    /// in the checksums of a publisher who takes them all.
    fn new(folder: PathBuf) -> Result<Self, String> {
        let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
        if folder.exists() {
            let is_empty = fs::read_dir(&folder).map_err(wrong)?.next().is_none();
            if !is_empty && !folder.join(SUMS).is_file() {
                return Err(format!(
                    "{}: is neither empty nor a release's, which has {SUMS}; name another folder \
                     with --out, or remove it",
                    folder.display()
                ));
            }
        }
        empty(&folder)?;
        // From the start, so that one that was not finished can be made again.
        fs::write(folder.join(SUMS), "").map_err(wrong)?;
        let files = Vec::new();
        Ok(Self { folder, files })
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
        self.files
            .push((name.to_owned(), bytes.len(), sha256(bytes)));
        Ok(())
    }

    fn sums(&self) -> String {
        let mut files: Vec<_> = self.files.iter().collect();
        files.sort();
        let mut text = String::new();
        for (name, _, digest) in files {
            let _ = writeln!(text, "{digest}  {name}");
        }
        text
    }
}

fn run(options: &Options) -> Result<(), String> {
    let source = Source::read(command::root()?)?;
    let default = if options.short { "dist-short" } else { "dist" };
    let out = options.out.clone();
    let out = out.unwrap_or_else(|| source.target_folder.join(default));
    let builds = if options.short {
        say(
            "skipped: the static programs, which take 90 minutes; the files are of this machine's own build and only for this check",
        );
        build_here(&source, options.slackwater.as_deref())?
    } else {
        if source.is_changed {
            return Err(
                "a release is made from a commit, and there are uncommitted changes".to_owned(),
            );
        }
        build_all(&source, options)?
    };
    let mut output = Output::new(out)?;
    let rows = assemble(&source, &builds, &mut output)?;
    let crates = crates::check(&source)?;
    let sums = output.sums();
    output.write(SUMS, sums.as_bytes())?;
    summary(&source, &builds, &output, &rows);
    say(&format!(
        "{} crates can be published: {}",
        source.public_crates.len(),
        megabytes(usize::try_from(crates).unwrap_or(usize::MAX))
    ));
    say(&format!(
        "{}/{SUMS}: {}",
        output.folder.display(),
        sha256(sums.as_bytes())
    ));
    Ok(())
}

/// The static programs of all targets and variants.
fn build_all(source: &Source, options: &Options) -> Result<Vec<Build>, String> {
    let compiler = Compiler::new(source, &options.targets)?;
    let training = Training::new(source, options)?;
    let home = compile::cargo_home()?;
    let folder = source.target_folder.join("release-verify");
    if options.verify {
        // Nothing of an earlier commit or run may be in what the programs are compared with.
        empty(&folder)?;
    }
    let mut builds = Vec::new();
    for &target in &options.targets {
        for variant in Variant::ALL {
            let what = (target, variant);
            let places = (&*source.root, &*source.target_folder, &*home);
            let counts = training.counts(&compiler, source, &home, what)?;
            let used = counts.as_deref().map_or(Counts::None, Counts::Used);
            let binary = compiler.build(source, places, what, used)?;
            if options.verify {
                compiler.verify(source, what, used, (&binary, &folder))?;
                say(&format!(
                    "{} for {}: two builds are equal",
                    variant.name(),
                    target.triple
                ));
            }
            builds.push(describe(source, what, (binary, counts))?);
        }
    }
    Ok(builds)
}

/// Makes an empty folder of this one, which may be missing.
fn empty(folder: &Path) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(wrong)?;
    }
    fs::create_dir_all(folder).map_err(wrong)
}

/// The program of this machine, in place of all others.
fn build_here(source: &Source, program: Option<&Path>) -> Result<Vec<Build>, String> {
    let what = (target::host()?, Variant::Full);
    let binary = match program {
        Some(program) => read(program)?,
        None => read(&compile::build_quickly(source, what.1)?)?,
    };
    Ok(vec![describe(source, what, (binary, None))?])
}

/// Lists what is in a program, and checks the list.
fn describe(
    source: &Source,
    what: (Target, Variant),
    (binary, counts): (Vec<u8>, Option<Vec<u8>>),
) -> Result<Build, String> {
    let (target, variant) = what;
    progress(&format!(
        "listing the crates in {} for {}",
        variant.name(),
        target.triple
    ));
    let packages = Packages::read(source, target, variant)?;
    let std_crates = symbols::std_crates(&compile::libraries(target.triple)?)?;
    let crates = symbols::check(&binary, &packages, &std_crates)?;
    Ok(Build {
        target,
        variant,
        licences: licences::text(&packages)?,
        sbom: sbom::document(source, what, &packages, &binary, &compile::versions()?),
        crates,
        binary,
        counts,
    })
}

/// Writes all archives; returns rows for the summary about layers of images.
fn assemble(
    source: &Source,
    builds: &[Build],
    output: &mut Output,
) -> Result<Vec<[String; 3]>, String> {
    let mut rows = Vec::new();
    for variant in Variant::ALL {
        let builds: Vec<&Build> = builds.iter().filter(|it| it.variant == variant).collect();
        if builds.is_empty() {
            continue;
        }
        let pages = pages(source, variant, &builds)?;
        for build in &builds {
            let contents = Contents {
                binary: &build.binary,
                pages: &pages,
                licences: &build.licences,
                sbom: &build.sbom,
            };
            let name = tarball::name(source, variant, build.target.triple);
            progress(&format!("packing {name}"));
            let tree = tarball::tree(source, variant, &contents)?.below(&name);
            let tar = tree.tar(source.time).and_then(|tar| gzip(&tar));
            let tar = tar.map_err(|error| format!("{name}: {error}"))?;
            output.write(&format!("{name}.tar.gz"), &tar)?;
            output.write(&format!("{name}.cdx.json"), build.sbom.as_bytes())?;
            if let Some(counts) = &build.counts {
                let name = training::name(source, variant, build.target);
                output.write(&name, counts)?;
            }
            if variant == Variant::Full {
                // A program of this machine's own build is linked to its C library.
                let is_static = build.target.triple.ends_with("-musl");
                let libraries = if is_static { "" } else { "libc6, libgcc-s1" };
                let package = deb::package(source, build.target, &contents, libraries)?;
                output.write(&deb::name(source, build.target), &package)?;
            }
        }
        let parts: Vec<_> = (builds.iter())
            .map(|build| image::Build {
                target: build.target,
                binary: &build.binary,
                licences: &build.licences,
            })
            .collect();
        let name = format!("{}-{}-image.tar", variant.name(), source.version);
        progress(&format!("packing {name}"));
        let image = image::image(source, variant, &parts)?;
        output.write(&name, &image.archive)?;
        for (architecture, compressed, size) in image.layers {
            rows.push([
                format!("image {}, {architecture}", variant.name()),
                megabytes(size),
                format!("{} to pull", megabytes(compressed)),
            ]);
        }
        rows.push([
            format!("image {}", variant.name()),
            String::new(),
            image.digest,
        ]);
    }
    Ok(rows)
}

/// The manual pages of a variant, by a program that runs here.
fn pages(source: &Source, variant: Variant, builds: &[&Build]) -> Result<Pages, String> {
    let folder = source.target_folder.join("release-pages");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = match builds.iter().find(|build| build.target.is_here()) {
        Some(build) => write_program(&folder.join("slackwater"), &build.binary)?,
        None => compile::build_quickly(source, variant)?,
    };
    Pages::of(&program, &folder)
}

fn write_program(path: &Path, binary: &[u8]) -> Result<PathBuf, String> {
    use std::os::unix::fs::PermissionsExt;
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    fs::write(path, binary).map_err(wrong)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(wrong)?;
    Ok(path.to_owned())
}

fn summary(source: &Source, builds: &[Build], output: &Output, rows: &[[String; 3]]) {
    let changed = if source.is_changed {
        ", with changes"
    } else {
        ""
    };
    say(&format!(
        "slackwater {}, commit {}{changed}",
        source.version, source.commit
    ));
    let mut table = Vec::new();
    for build in builds {
        table.push([
            format!("program {}, {}", build.variant.name(), build.target.triple),
            megabytes(build.binary.len()),
            format!("{} crates in its symbols, all of them listed", build.crates),
        ]);
    }
    table.extend_from_slice(rows);
    for (name, size, digest) in &output.files {
        table.push([name.clone(), megabytes(*size), digest[..16].to_owned()]);
    }
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths = [width(0), width(1)];
    for [what, size, note] in &table {
        say(&format!(
            "  {what:<0$}  {size:>1$}  {note}",
            widths[0], widths[1]
        ));
    }
}

/// Millions of bytes, with one decimal.
fn megabytes(bytes: usize) -> String {
    let tenths = bytes.div_ceil(100_000);
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_of_all_files_in_order() {
        let folder = std::env::temp_dir().join(format!("slackwater-sums-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("of-another-version.deb"), b"old").unwrap();
        let refused = Output::new(folder.clone()).unwrap_err();
        assert!(
            refused.contains("neither empty nor a release's"),
            "{refused}"
        );
        fs::write(folder.join(SUMS), b"").unwrap();
        let mut output = Output::new(folder.clone()).unwrap();
        output.write("b", b"abc").unwrap();
        output.write("a", b"").unwrap();
        let written = fs::read(folder.join("b")).unwrap();
        let count = fs::read_dir(&folder).unwrap().count();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!((written, count), (b"abc".to_vec(), 3));
        assert_eq!(
            output.sums(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
             ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b\n"
        );
    }

    #[test]
    fn sizes_are_rounded_up() {
        assert_eq!(megabytes(14_900_001), "15.0 MB");
        assert_eq!(megabytes(100_000), "0.1 MB");
        assert_eq!(megabytes(0), "0.0 MB");
    }
}
