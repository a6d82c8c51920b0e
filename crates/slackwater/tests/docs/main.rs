//! What the pages for users show is taken: every configuration by `slackwater check`, and the
//! session of the first tutorial by a shell.
//!
//! A configuration may be a part of a file. What it lacks is put around it: somewhere to listen,
//! replicas, the services that its routes name. A block that is meant to be wrong has `fails` after
//! its language.

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

/// A folder of the test's own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("docs")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}
