//! Ctrl-C.

#![cfg(target_os = "linux")]

use crate::rig::{Scratch, command, stderr, stdout};
use std::fs;
use std::path::Path;
use std::process::Stdio;

#[test]
fn ctrl_c_ends_the_run_and_reports_lost_results() {
    /// Whether the process has its own handler for SIGINT already.
    fn catches_interrupt(process: u32) -> bool {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & 1 << (2 - 1) != 0)
    }
    let scratch = Scratch::new("sim-stop");
    let out = scratch.path("out");
    // A single run of hours.
    let arguments = [
        "run",
        "good/minimal.sim.toml",
        "--seeds",
        "1",
        "--seconds",
        "604800",
        "--out",
        &out,
    ];
    let mut child = command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    while !catches_interrupt(child.id()) {
        let ended = child.try_wait().expect("it can be asked for");
        assert_eq!(ended, None, "it ended before it was stopped");
        std::thread::yield_now();
    }
    let interrupt = rustix::process::Signal::INT;
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, interrupt).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(
        told.ends_with("slackwater: stopped: nothing was written\n"),
        "{told}"
    );
    assert_eq!(stdout(&output), "");
    assert!(!Path::new(&out).exists());
}
