//! The steps of `cargo xtask test`, each a command that can be run by hand.

use crate::output::say;
use crate::tidy;
use std::process::Command;
use std::time::Instant;

/// Cargo's arguments for each step, and environment variables that go with them.
const STEPS: &[(&str, &[(&str, &str)])] = &[
    ("fmt --all --check", &[]),
    (
        "clippy --workspace --all-targets --quiet -- -D warnings",
        &[],
    ),
    ("test --workspace --quiet", &[]),
    (
        "doc --workspace --no-deps --quiet --document-private-items",
        &[("RUSTDOCFLAGS", "-D warnings")],
    ),
];

/// Runs every step; the first that fails ends it.
pub(crate) fn test() -> Result<(), String> {
    tidy::check()?;
    for (arguments, variables) in STEPS {
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
    }
    Ok(())
}
