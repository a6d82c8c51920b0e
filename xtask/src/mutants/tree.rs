//! A copy of the core, and of what tests it, in which mutants are switched; and its build.

use crate::command::root;
use crate::mutants::list::Mutant;
use crate::mutants::switch::{self, Kind, Switched};
use crate::output::progress;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is copied, from the root.
const COPIED: [&str; 5] = [
    "Cargo.lock",
    "rust-toolchain.toml",
    "crates/slackwater-core",
    "tools/vectors",
    "vectors",
];
/// The core's root module.
const CORE: &str = "crates/slackwater-core/src/lib.rs";
const SWITCH: &str = "crates/slackwater-core/src/mutant.rs";

/// The copy. Its folder remains, so that the next build is quick.
#[derive(Debug)]
pub(super) struct Tree {
    folder: PathBuf,
}

/// What to build.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) package: &'static str,
    /// Arguments of cargo.
    pub(super) arguments: &'static [&'static str],
}

/// A program with tests.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) executable: PathBuf,
    /// The folder in which cargo runs it.
    pub(super) folder: PathBuf,
}

/// An error of the compiler.
#[derive(Debug, Default)]
struct Diagnostic {
    rendered: String,
    /// File and offset of its places, the primary ones first.
    places: Vec<(String, usize)>,
}

impl Tree {
    /// Copies the tree.
    pub(super) fn new() -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR");
        let target = target.map_or_else(|| root().join("target"), PathBuf::from);
        let tree = Self {
            folder: target.join("mutants/tree"),
        };
        // A file that was removed since must not remain.
        let _ = fs::remove_dir_all(&tree.folder);
        for path in COPIED {
            copy(&root().join(path), &tree.folder.join(path))?;
        }
        let manifest = read(&root().join("Cargo.toml"))?;
        let members = r#"members = ["crates/slackwater-core", "tools/vectors"]"#;
        let lines = manifest.lines().filter(|it| !it.starts_with("exclude = "));
        let lines = lines.map(|line| {
            if line.starts_with("members = ") {
                members
            } else {
                line
            }
        });
        let manifest = lines.collect::<Vec<_>>().join("\n");
        write(&tree.folder.join("Cargo.toml"), &manifest)?;
        write(&tree.folder.join(SWITCH), include_str!("switch_in_core.rs"))?;
        let core = read(&root().join(CORE))?;
        let switch =
            "#![feature(core_intrinsics, const_eval_select)]\nextern crate std;\npub mod mutant;\n";
        let core = core.replace("#![forbid(unsafe_code)]\n", switch);
        write(&tree.folder.join(CORE), &core)?;
        Ok(tree)
    }

    /// A path beside the copy, which remains, too.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.folder.with_file_name(name)
    }

    /// Builds the target with all mutants that compile. Returns the numbers of those that do not,
    /// and the programs.
    pub(super) fn switched(
        &self,
        mutants: &BTreeMap<usize, &Mutant>,
        target: Target,
    ) -> Result<(BTreeSet<usize>, Vec<Built>), String> {
        let mut unviable = BTreeSet::new();
        loop {
            let switched = self.put(mutants, &unviable)?;
            let errors = match self.build(target)? {
                Ok(built) => return Ok((unviable, built)),
                Err(errors) => errors,
            };
            let before = unviable.len();
            for error in &errors {
                let at = |(file, at): &(String, usize)| switched.get(file)?.mutant_at(*at);
                unviable.extend(error.places.iter().find_map(at));
            }
            progress(&format!("{} do not compile", unviable.len()));
            if unviable.len() == before {
                let rendered = errors.into_iter().map(|it| it.rendered);
                return Err(rendered.collect::<Vec<_>>().concat());
            }
        }
    }

    /// Writes the mutants' files, with these mutants.
    fn put(
        &self,
        mutants: &BTreeMap<usize, &Mutant>,
        without: &BTreeSet<usize>,
    ) -> Result<BTreeMap<String, Switched>, String> {
        let mut files: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
        for (&number, &mutant) in mutants {
            let file = files.entry(&mutant.file).or_default();
            file.extend((!without.contains(&number)).then_some((number, mutant)));
        }
        let mut all = BTreeMap::new();
        for (file, mutants) in files {
            let switched = switch::switched(&read(&root().join(file))?, &mutants);
            write(&self.folder.join(file), &switched.text)?;
            all.insert(file.to_owned(), switched);
        }
        Ok(all)
    }

    /// Writes the mutants' files as they are.
    pub(super) fn restore(&self, mutants: &BTreeMap<usize, &Mutant>) -> Result<(), String> {
        for mutant in mutants.values() {
            write(
                &self.folder.join(&mutant.file),
                &read(&root().join(&mutant.file))?,
            )?;
        }
        Ok(())
    }

    /// Builds the target with this mutant alone, in the place of an earlier build. Returns whether
    /// it compiles.
    pub(super) fn apart(&self, mutant: &Mutant, target: Target) -> Result<bool, String> {
        let (file, text) = (
            self.folder.join(&mutant.file),
            read(&root().join(&mutant.file))?,
        );
        write(&file, &switch::replaced(&text, mutant))?;
        let built = self.build(target)?;
        write(&file, &text)?;
        Ok(built.is_ok())
    }

    /// Builds the tests; inside, the errors of what does not compile.
    fn build(&self, target: Target) -> Result<Result<Vec<Built>, Vec<Diagnostic>>, String> {
        let mut command = Command::new(env!("CARGO"));
        command
            .args(target.arguments)
            .args(["--package", target.package])
            .args(["--profile", "mutants", "--message-format", "json"])
            .args(["--quiet", "--offline"])
            .current_dir(&self.folder)
            .env("CARGO_TARGET_DIR", self.beside("target"))
            // Builds differ in a line.
            .env("CARGO_INCREMENTAL", "1")
            // Errors of the compiler are only those that no lint can allow.
            .env("RUSTFLAGS", "--cap-lints allow")
            .env("RUSTC_BOOTSTRAP", "1")
            .stderr(Stdio::inherit());
        let output = command
            .output()
            .map_err(|error| format!("cargo did not start: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let messages = text.lines().filter_map(|it| serde_json::from_str(it).ok());
        let messages: Vec<Value> = messages.collect();
        if output.status.success() {
            let programs = messages.iter().filter_map(|message| {
                let executable = message["executable"].as_str()?;
                let manifest = Path::new(message["manifest_path"].as_str()?);
                Some(Built {
                    executable: executable.into(),
                    folder: manifest.parent()?.to_owned(),
                })
            });
            return Ok(Ok(programs.collect()));
        }
        let errors = messages.iter().map(|it| &it["message"]);
        let errors = errors.filter(|it| it["level"] == "error");
        Ok(Err(errors.map(diagnostic).collect()))
    }
}

/// How each mutant can be played.
pub(super) fn kinds(mutants: &BTreeMap<usize, &Mutant>) -> Result<BTreeMap<usize, Kind>, String> {
    let kind = |(&number, mutant): (&usize, &&Mutant)| {
        let text = read(&root().join(&mutant.file))?;
        Ok((number, switch::kind(&text, mutant)))
    };
    mutants.iter().map(kind).collect()
}

fn diagnostic(message: &Value) -> Diagnostic {
    let mut places = Vec::new();
    let of = |it: &Value| {
        let spans = it["spans"].as_array().cloned().unwrap_or_default();
        spans.into_iter()
    };
    let children = message["children"].as_array().into_iter().flatten();
    let mut spans: Vec<Value> = of(message).chain(children.flat_map(of)).collect();
    spans.sort_by_key(|it| it["is_primary"] != true);
    for span in spans {
        let place = span["file_name"].as_str().zip(span["byte_start"].as_u64());
        places.extend(place.and_then(|(file, at)| Some((file.to_owned(), at.try_into().ok()?))));
    }
    Diagnostic {
        rendered: message["rendered"].as_str().unwrap_or_default().to_owned(),
        places,
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if !from.is_dir() {
        let bytes = fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?;
        return put_file(to, &bytes);
    }
    let entries = fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
    for entry in entries.flatten() {
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    put_file(path, text.as_bytes())
}

/// Writes a file, unless it has this content: cargo builds anew what is newer.
fn put_file(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|it| it == bytes) {
        return Ok(());
    }
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder
        .and_then(|()| fs::write(path, bytes))
        .map_err(|error| format!("{}: {error}", path.display()))
}
