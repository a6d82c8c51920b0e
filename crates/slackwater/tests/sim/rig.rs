//! The command as a process, the fixtures, and a directory of one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Far too short for results, but long enough to be played.
pub(crate) const SHORT: [&str; 6] = ["--seeds", "1", "--seconds", "0.3", "--warmup", "0.1"];

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sim")
}

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
    command
        .arg("sim")
        .args(arguments)
        .current_dir(fixtures())
        .stdin(Stdio::null());
    command
}

pub(crate) fn sim(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The scenarios in a directory of fixtures, sorted.
pub(crate) fn scenarios(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory of scenarios");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|file| file.to_string_lossy().ends_with(".sim.toml"))
        .collect();
    files.sort();
    files
}

/// A directory of one test, removed when dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("slackwater-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for the test");
        Self(directory)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).expect("a file for the test");
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
