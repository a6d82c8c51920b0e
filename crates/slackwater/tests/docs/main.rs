//! The examples on the pages for users are valid: `slackwater check` accepts each configuration,
//! and a shell runs the session of the first tutorial.
//!
//! A configuration may be a part of a file. What is missing is added: a listener, replicas, the
//! services that its routes name. A block that is meant to be wrong has `fails` after its language.

#![expect(
    clippy::expect_used,
    reason = "what helpers of a test cannot do ends the test"
)]

mod configuration;
mod pages;
mod rust;
mod session;

use std::fs;
use std::path::{Path, PathBuf};

/// An empty folder for this test alone.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("docs")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}
