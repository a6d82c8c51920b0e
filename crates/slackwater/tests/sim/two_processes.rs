//! `sim run` and `sim replay` in two processes each: their outputs are the same.

use crate::replay::record;
use crate::rig::{Scratch, sim, stderr};
use std::fs;

/// Returns what a process writes into a file of this name, in a separate folder.
fn written(scratch: &Scratch, folder: &str, file: &str, arguments: &[&str]) -> Vec<u8> {
    let out = scratch.path(folder);
    fs::create_dir_all(&out).expect("a folder for the test");
    let path = scratch.0.join(folder).join(file);
    let to = path.to_string_lossy().into_owned();
    let arguments: Vec<_> = arguments
        .iter()
        .map(|argument| match *argument {
            "OUT" => out.as_str(),
            "FILE" => to.as_str(),
            argument => argument,
        })
        .collect();
    let output = sim(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    fs::read(&path).expect("it was written")
}

/// The lines of a CSV, without the last column: events in a second of real time.
fn simulated(csv: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(csv);
    let header = text.lines().next().expect("a header");
    assert!(header.ends_with(",events_per_s"), "{header}");
    let columns = text.lines().map(|line| line.rsplit_once(','));
    columns
        .map(|columns| columns.expect("more than one column").0.to_owned())
        .collect()
}

#[test]
fn two_processes_that_play_the_same_scenario_write_the_same_bytes() {
    let scratch = Scratch::new("two-processes-run");
    let play = |folder, first_seed| {
        let what = ["run", "good/minimal.sim.toml", "--versus", "all"];
        let effort = ["--seeds", "2", "--seconds", "1", "--warmup", "0"];
        let seed = ["--first-seed", first_seed, "--out", "OUT"];
        let arguments = [&what[..], &effort, &seed].concat();
        simulated(&written(&scratch, folder, "minimal.csv", &arguments))
    };
    let first = play("first", "1");
    assert!(first.len() > 10, "each policy has a line: {first:#?}");
    assert_eq!(first, play("second", "1"));
    assert_ne!(first, play("other", "3"), "other seeds play otherwise");
}

#[test]
fn two_processes_that_replay_the_same_recording_write_the_same_bytes() {
    let scratch = Scratch::new("two-processes-replay");
    let recording = record(&scratch, &["--versus", "prequal"]);
    let replay = |folder| {
        let what = ["replay", &recording, "--policy", "least_loaded"];
        let arguments = [&what[..], &["--seeds", "2", "--json", "FILE"]].concat();
        written(&scratch, folder, "replay.json", &arguments)
    };
    assert!(replay("first") == replay("second"), "the JSON differs");
}
