//! Counts what a program executes under load, by which the compiler then optimizes it.
//!
//! That takes a fifth off the instructions of a request. The counts of two runs differ, so those
//! that a release was made with are among its files: with them another build has the same bytes.
//! `[Decision 0028]`

use crate::command::{first_line, output, progress, read, say};
use crate::compile::{Compiler, Counts};
use crate::options::Options;
use crate::source::Source;
use crate::tarball;
use crate::target::{Target, Variant};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the counts for each program come from.
#[derive(Debug)]
pub(crate) enum Training {
    /// Programs are compiled without.
    None,
    /// From an earlier release, in this folder.
    Done(PathBuf),
    /// From a program that is compiled for that, and runs here.
    Here(Tools),
}

/// What training needs.
#[derive(Debug)]
pub(crate) struct Tools {
    /// Merges counts.
    merge: PathBuf,
    /// For the programs, and their counts.
    folder: PathBuf,
}

impl Training {
    /// Looks for the tools, or for the counts in `profiles`.
    ///
    /// # Errors
    ///
    /// Something is missing. The message says how to install it.
    pub(crate) fn new(source: &Source, options: &Options) -> Result<Self, String> {
        let targets = &options.targets;
        if options.untrained {
            say("untrained: these programs are slower than those of a release");
            return Ok(Self::None);
        }
        if let Some(folder) = &options.profiles {
            let variants = |&target| Variant::ALL.map(|variant| (target, variant));
            for (target, variant) in targets.iter().flat_map(variants) {
                let file = folder.join(name(source, variant, target));
                if !file.is_file() {
                    return Err(format!(
                        "--profiles: {} is missing; counts are for one commit",
                        file.display()
                    ));
                }
            }
            return Ok(Self::Done(folder.clone()));
        }
        // Beside the libraries of the machine that compiles.
        let libraries = output(Command::new("rustc").args(["--print", "target-libdir"]))?;
        let merge = Path::new(libraries.trim_end()).with_file_name("bin/llvm-profdata");
        if !merge.is_file() {
            return Err(
                "training needs llvm-profdata; install it: rustup component add llvm-tools"
                    .to_owned(),
            );
        }
        for target in targets.iter().filter(|target| !target.is_here()) {
            emulator(*target)?;
        }
        let folder = source.target_folder.join("training");
        Ok(Self::Here(Tools { merge, folder }))
    }

    /// The counts of a program; `None` without training. For a target, the full program comes
    /// first: it has the load that the other needs.
    ///
    /// # Errors
    ///
    /// The build or the training fails.
    pub(crate) fn counts(
        &self,
        compiler: &Compiler,
        source: &Source,
        home: &Path,
        what: (Target, Variant),
    ) -> Result<Option<Vec<u8>>, String> {
        match self {
            Self::None => Ok(None),
            Self::Done(folder) => read(&folder.join(name(source, what.1, what.0))).map(Some),
            Self::Here(tools) => tools.train(compiler, source, home, what).map(Some),
        }
    }
}

impl Tools {
    /// Compiles a program that counts, runs it, and returns the counts.
    fn train(
        &self,
        compiler: &Compiler,
        source: &Source,
        home: &Path,
        what: (Target, Variant),
    ) -> Result<Vec<u8>, String> {
        let (target, variant) = what;
        let folder = self.folder.join(target.triple);
        let counts = folder.join(variant.name()).with_extension("counts");
        crate::empty(&counts)?;
        let build = self.folder.join("build");
        let places = (&*source.root, &*build, home);
        let binary = compiler.build(source, places, what, Counts::Taken(&counts))?;
        let program = folder.join(variant.name());
        if target.is_here() {
            crate::write_program(&program, &binary)?;
        } else {
            crate::write_program(&program.with_extension("program"), &binary)?;
            let emulator = emulator(target)?;
            let script = format!("#!/bin/sh\nexec {emulator} \"$0.program\" \"$@\"\n");
            crate::write_program(&program, script.as_bytes())?;
        }
        progress(&format!(
            "training {} for {}",
            variant.name(),
            target.triple
        ));
        let mut training = Command::new(env!("CARGO"));
        training
            .args(["xtask", "training"])
            .current_dir(&source.root)
            // It would have the counts written elsewhere.
            .env_remove("LLVM_PROFILE_FILE");
        let full = folder.join(Variant::Full.name());
        training.arg("--slackwater").arg(full);
        training.arg("--agent").arg(program);
        output(&mut training)?;
        let merged = folder.join(variant.name()).with_extension("profdata");
        let mut merge = Command::new(&self.merge);
        merge.args(["merge", "--sparse", "--output"]).arg(&merged);
        output(merge.arg(&counts))?;
        read(&merged)
    }
}

/// The name of the file with the counts of a program, in a release. They are for one commit: what
/// has no counts is compiled as if it never ran, without a word.
pub(crate) fn name(source: &Source, variant: Variant, target: Target) -> String {
    let program = tarball::name(source, variant, target.triple);
    format!("{program}-{}.profdata", source.commit)
}

/// The program that runs those of another processor.
fn emulator(target: Target) -> Result<String, String> {
    let names = ["-static", ""].map(|end| format!("qemu-{}{end}", target.processor));
    let runs = |name: &String| !first_line(Command::new(name).arg("--version")).is_empty();
    names.into_iter().find(runs).ok_or_else(|| {
        format!(
            "training needs qemu-{processor} for programs of {triple}; install it \
             (in Debian: apt install qemu-user-static), or give --profiles or --untrained",
            processor = target.processor,
            triple = target.triple,
        )
    })
}
