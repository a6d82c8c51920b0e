//! Compiles the command for a target: static, and with the same bytes on every machine.
//!
//! Rust brings musl and a linker. The code in C (cryptography, allocator) needs a compiler for each
//! target, which is zig's, called by cargo-zigbuild.

use crate::bytes::sha256;
use crate::command::{first_line, output, progress, read};
use crate::source::Source;
use crate::target::{Target, Variant};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The versions that a release is made with. Others give other bytes.
const ZIG: &str = "0.17.1";
const CARGO_ZIGBUILD: &str = "0.24.1";
/// Where they are found without a `PATH` that leads there, below cargo's folder for builds.
const TOOLS: &str = "tools/zig";

/// Counts of what a program executes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Counts<'a> {
    None,
    /// The program counts, and writes the counts into this folder when it ends.
    Taken(&'a Path),
    /// It is optimized by these.
    Used(&'a [u8]),
}

/// Tools and folders of a build.
#[derive(Debug)]
pub(crate) struct Compiler {
    path: OsString,
}

impl Compiler {
    /// Looks for the tools.
    ///
    /// # Errors
    ///
    /// One is missing or has another version. The message says how to install it.
    pub(crate) fn new(source: &Source, targets: &[Target]) -> Result<Self, String> {
        let tools = source.target_folder.join(TOOLS);
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = core::iter::once(tools.join("bin")).chain(env::split_paths(&path));
        let path = env::join_paths(folders).map_err(|error| format!("PATH: {error}"))?;
        let zigbuild = first_line(
            Command::new("cargo-zigbuild")
                .arg("--version")
                .env("PATH", &path),
        );
        let zig = ["python3", "zig"].map(|program| {
            let mut zig = Command::new(program);
            if program == "python3" {
                zig.args(["-m", "ziglang"]);
            }
            first_line(zig.arg("version").env("PATH", &path))
        });
        let zig = zig
            .into_iter()
            .find(|it| !it.is_empty())
            .unwrap_or_default();
        if zigbuild != format!("cargo-zigbuild {CARGO_ZIGBUILD}") || zig != ZIG {
            let or_none = |text: String| {
                if text.is_empty() {
                    "none".to_owned()
                } else {
                    text
                }
            };
            return Err(format!(
                "a release needs zig {ZIG} (found: {}) and cargo-zigbuild {CARGO_ZIGBUILD} (found: {}); install them:\n  \
                 python3 -m venv {folder} && {folder}/bin/pip install ziglang=={ZIG} cargo-zigbuild=={CARGO_ZIGBUILD}",
                or_none(zig),
                or_none(zigbuild),
                folder = tools.display()
            ));
        }
        for target in targets {
            if !libraries(target.triple)?.is_dir() {
                return Err(format!(
                    "Rust's libraries for {triple} are missing; install them: rustup target add {triple}",
                    triple = target.triple
                ));
            }
        }
        Ok(Self { path })
    }

    /// Compiles the sources below `root` into `target_folder`, and returns the program.
    ///
    /// # Errors
    ///
    /// The build fails.
    pub(crate) fn build(
        &self,
        source: &Source,
        (root, target_folder, cargo_home): (&Path, &Path, &Path),
        (target, variant): (Target, Variant),
        counts: Counts<'_>,
    ) -> Result<Vec<u8>, String> {
        let why = match counts {
            Counts::Taken(_) => ", to be trained",
            Counts::None | Counts::Used(_) => "",
        };
        progress(&format!(
            "compiling {} for {}{why}",
            variant.name(),
            target.triple
        ));
        let variable = target.triple.replace('-', "_");
        // Paths of this machine are in messages of panics and of the code in C.
        let places = [
            (cargo_home, "/cargo"),
            (target_folder, "/target"),
            (root, "/slackwater"),
        ];
        let places = places.map(|(from, to)| format!("{}={to}", from.display()));
        let mut rust_flags = vec!["-Clink-arg=--pack-dyn-relocs=relr".to_owned()];
        rust_flags.extend(
            places
                .iter()
                .map(|place| format!("--remap-path-prefix={place}")),
        );
        match counts {
            Counts::None => {}
            Counts::Taken(folder) => {
                rust_flags.push(format!("-Cprofile-generate={}", folder.display()));
            }
            Counts::Used(counts) => {
                let file = counts_file(target_folder, counts)?;
                rust_flags.push(format!("-Cprofile-use={}", file.display()));
            }
        }
        // No code in C is in this repository.
        let mut c_flags = vec![
            // The allocator has the time of its compilation in a text. `SOURCE_DATE_EPOCH` is not
            // enough: zig keeps objects for other commits, too.
            "-Wno-builtin-macro-redefined".to_owned(),
            "-D__DATE__=\"\"".to_owned(),
            "-D__TIME__=\"\"".to_owned(),
        ];
        c_flags.extend([&places[0], &places[1]].map(|place| format!("-ffile-prefix-map={place}")));
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args([
                "zigbuild",
                "--release",
                "--locked",
                "--package",
                "slackwater",
            ])
            .args(["--target", target.triple])
            .args(variant.features())
            .current_dir(root)
            .env("PATH", &self.path)
            .env("CARGO_HOME", cargo_home)
            .env("CARGO_TARGET_DIR", target_folder)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_ENCODED_RUSTFLAGS", rust_flags.join("\u{1f}"))
            // Rust's own linker: zig's knows few options.
            .env(
                format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase()),
                "rust-lld",
            )
            .env(format!("CFLAGS_{variable}"), c_flags.join(" "))
            .env("SLACKWATER_COMMIT", &source.commit);
        output(&mut cargo)?;
        read(&target_folder.join(target.triple).join("release/slackwater"))
    }

    /// Compiles the same commit once more, in other folders, and compares.
    ///
    /// # Errors
    ///
    /// The build fails, or the programs differ.
    pub(crate) fn verify(
        &self,
        source: &Source,
        what: (Target, Variant),
        counts: Counts<'_>,
        (binary, folder): (&[u8], &Path),
    ) -> Result<(), String> {
        let (root, home) = (
            folder.join("another-root"),
            folder.join("another-cargo-home"),
        );
        if !root.exists() {
            let mut clone = Command::new("git");
            clone.args(["clone", "--quiet", "--no-checkout"]);
            output(clone.arg(&source.root).arg(&root))?;
            let mut checkout = Command::new("git");
            checkout.args(["checkout", "--quiet", &source.commit]);
            output(checkout.current_dir(&root))?;
            std::os::unix::fs::symlink(cargo_home()?, &home)
                .map_err(|error| format!("{}: {error}", home.display()))?;
        }
        let places = (&*root, &*folder.join("another-target"), &*home);
        let other = self.build(source, places, what, counts)?;
        let first = binary
            .iter()
            .zip(&other)
            .position(|(one, other)| one != other);
        match first {
            None if binary.len() == other.len() => Ok(()),
            _ => Err(format!(
                "two builds of {} for {} differ: {} and {} bytes, from byte {} on",
                what.1.name(),
                what.0.triple,
                binary.len(),
                other.len(),
                first.unwrap_or(binary.len().min(other.len()))
            )),
        }
    }
}

/// Writes counts into a file for the compiler. Its name depends on them: cargo compares names only,
/// and would take libraries that were compiled by other counts.
fn counts_file(target_folder: &Path, counts: &[u8]) -> Result<PathBuf, String> {
    let folder = target_folder.join("counts");
    crate::empty(&folder)?;
    let file = folder.join(format!("{}.profdata", sha256(counts)));
    fs::write(&file, counts).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}

/// Compiles with this machine's own toolchain and without link-time optimization, which is fast.
///
/// # Errors
///
/// The build fails.
pub(crate) fn build_quickly(source: &Source, variant: Variant) -> Result<PathBuf, String> {
    progress(&format!("compiling {} for this machine", variant.name()));
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "build",
            "--profile",
            "quick",
            "--locked",
            "--package",
            "slackwater",
        ])
        .args(variant.features())
        .arg("--quiet")
        .current_dir(&source.root);
    output(&mut cargo)?;
    Ok(source.target_folder.join("quick/slackwater"))
}

/// Cargo's folder for the sources of libraries.
///
/// # Errors
///
/// Neither `CARGO_HOME` nor `HOME` is set.
pub(crate) fn cargo_home() -> Result<PathBuf, String> {
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home);
    let home = home.ok_or("neither CARGO_HOME nor HOME is set")?;
    fs::canonicalize(&home).map_err(|error| format!("{}: {error}", home.display()))
}

/// The folder of Rust's libraries for a target.
///
/// # Errors
///
/// The compiler does not run.
pub(crate) fn libraries(triple: &str) -> Result<PathBuf, String> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", triple]);
    Ok(PathBuf::from(output(&mut rustc)?.trim_end()))
}

/// The versions of the compiler.
#[derive(Debug)]
pub(crate) struct Versions {
    /// Its own, such as `1.95.0`.
    pub(crate) rust: String,
    /// That of LLVM, whose unwinder is in programs for musl.
    pub(crate) llvm: String,
}

/// Asks the compiler for its versions.
///
/// # Errors
///
/// The compiler does not run.
pub(crate) fn versions() -> Result<Versions, String> {
    let told = output(Command::new("rustc").arg("-vV"))?;
    let of = |name: &str| {
        let version = told.lines().find_map(|line| line.strip_prefix(name));
        version
            .map(str::to_owned)
            .ok_or_else(|| format!("rustc -vV has no line \"{name}\""))
    };
    Ok(Versions {
        rust: of("release: ")?,
        llvm: of("LLVM version: ")?,
    })
}
