//! The steps of `cargo xtask test`, each a command that can be run by hand.
//!
//! Four steps need tools that not every machine has, and report when they are skipped: building the
//! core for a target without an operating system, the Helm charts, the Go modules, and testing a
//! sample of the core's mutants.

use crate::command::first_line;
use crate::go;
use crate::kubernetes;
use crate::mutants;
use crate::output::say;
use crate::tidy;
use std::fs;
use std::process::Command;
use std::time::Instant;

/// Cargo's arguments for each step, with environment variables.
const STEPS: &[(&str, &[(&str, &str)])] = &[
    ("fmt --all --check", &[]),
    (
        "clippy --workspace --all-targets --quiet -- -D warnings",
        &[],
    ),
    ("test --workspace --quiet", &[]),
    // A sidecar's image has the agent alone.
    (
        "clippy --package slackwater --no-default-features --quiet -- -D warnings",
        &[],
    ),
    (
        "test --package slackwater --no-default-features --bins --test agent_alone --quiet",
        &[],
    ),
    // A workspace of its own, which no other step compiles. Nothing is linked, so the fuzzer, which
    // needs a C++ compiler, is not built.
    (
        "check --manifest-path fuzz/Cargo.toml --target-dir target --locked --quiet",
        &[(
            "CUSTOM_LIBFUZZER_PATH",
            concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        )],
    ),
    (
        "run --package slackwater-proxy --example embedded --quiet",
        &[],
    ),
    (
        "doc --workspace --no-deps --quiet --document-private-items",
        &[("RUSTDOCFLAGS", "-D warnings")],
    ),
];

/// A target without an operating system, for which the core builds: it needs only memory and a CPU.
/// The target has 64-bit atomics, which the core's tracker needs.
const BARE_TARGET: &str = "aarch64-unknown-none";

/// Runs every step; the first failure ends it.
pub(crate) fn test() -> Result<(), String> {
    tidy::check()?;
    for (arguments, variables) in STEPS {
        step(arguments, variables)?;
    }
    if has_bare_target() {
        step(
            &format!("build --package slackwater-core --lib --target {BARE_TARGET} --quiet"),
            &[],
        )?;
    } else {
        say(&format!(
            "skipped: the core built for {BARE_TARGET}, which is not installed and which rustup cannot add"
        ));
    }
    kubernetes::check_charts()?;
    go::run(go::SHORT)?;
    mutants::sample()
}

fn step(arguments: &str, variables: &[(&str, &str)]) -> Result<(), String> {
    say(&format!("cargo {arguments}"));
    let begun = Instant::now();
    let status = Command::new(env!("CARGO"))
        .args(arguments.split(' '))
        .envs(variables.iter().copied())
        .status()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !status.success() {
        return Err(format!("cargo {arguments}: {status}"));
    }
    say(&format!(
        "cargo {arguments}: passed in {} s",
        begun.elapsed().as_secs()
    ));
    Ok(())
}

/// Whether the target is installed, or can be installed now.
fn has_bare_target() -> bool {
    let libraries = first_line(
        "rustc",
        &["--print", "target-libdir", "--target", BARE_TARGET],
    );
    let is_there = || fs::read_dir(&libraries).is_ok_and(|mut files| files.next().is_some());
    is_there() || {
        let add = Command::new("rustup")
            .args(["target", "add", BARE_TARGET])
            .output();
        add.is_ok_and(|output| output.status.success()) && is_there()
    }
}
