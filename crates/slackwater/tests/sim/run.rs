//! `sim run`: what is compared, printed and written.

use crate::rig::{SHORT, Scratch, fixtures, scenarios, sim, stderr, stdout};
use std::fs;
use std::path::Path;
use std::process::Output;

#[test]
fn examples_and_good_fixtures_are_played() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples");
    let mut files = scenarios(&examples);
    assert!(files.len() >= 3, "{files:?}");
    files.extend(scenarios(&fixtures().join("good")));
    for file in files {
        let file = file.to_string_lossy();
        let arguments = ["run", &file, "--versus", "greedy"];
        let output = sim(&[&arguments[..], &SHORT].concat());
        assert_eq!(output.status.code(), Some(0), "{file}: {}", stderr(&output));
        let shown = stdout(&output);
        assert!(
            shown.contains("prequal") && shown.contains("greedy"),
            "{shown}"
        );
        assert!(shown.contains("Against prequal, seed by seed"), "{shown}");
    }
}

/// The output without the line about the time that it took.
fn figures(output: &Output) -> String {
    let shown = stdout(output);
    let lines = shown
        .lines()
        .filter(|line| !line.contains(" runs, ") && !line.starts_with("wrote "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn comparison_does_not_depend_on_threads_and_is_written() {
    let scratch = Scratch::new("sim-run");
    let out = scratch.path("out");
    let play = |threads| {
        let arguments = [
            "run",
            "good/minimal.sim.toml",
            "--versus",
            "least_loaded,jsq",
        ];
        let effort = [
            "--seeds",
            "3",
            "--seconds",
            "1",
            "--warmup",
            "0",
            "--threads",
            threads,
            "--out",
            &out,
        ];
        let output = sim(&[&arguments[..], &effort].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        output
    };
    let (one, two) = (play("1"), play("2"));
    assert_eq!(figures(&one), figures(&two));
    assert!(
        stdout(&one).contains(" million events, "),
        "{}",
        stdout(&one)
    );
    assert!(stdout(&one).contains(&format!("wrote {out}/minimal.csv\n")));
    let csv = fs::read_to_string(scratch.0.join("out/minimal.csv")).expect("it was written");
    assert!(
        csv.starts_with("figure,step,load,policy,param,qps,queries,p50_ms,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 4, "{csv}");
    let page = fs::read_to_string(scratch.0.join("out/minimal.html")).expect("it was written");
    assert!(
        page.contains("slackwater sim run good/minimal.sim.toml"),
        "the command is on the page"
    );
}

#[test]
fn comparison_ends_with_a_verdict() {
    let arguments = ["run", "good/minimal.sim.toml", "--policy", "random"];
    let effort = [
        "--versus",
        "least_loaded",
        "--seconds",
        "10",
        "--warmup",
        "1",
    ];
    let output = sim(&[&arguments[..], &effort].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    assert!(
        shown.contains("\nleast_loaded against random: better in p50 (0."),
        "{shown}"
    );
    let one = sim(&[&arguments[..], &["--versus", "all"], &SHORT].concat());
    let told = stderr(&one);
    assert_eq!(one.status.code(), Some(0), "{told}");
    assert!(
        told.contains("warning: p99 and p99.9 are decided by fewer than ten of some 408 queries"),
        "{told}"
    );
    let shown = stdout(&one);
    let policies = shown
        .lines()
        .filter(|line| line.contains(" against random: one seed"));
    assert!(policies.count() >= 12, "{shown}");
    assert!(!shown.contains("random against random"), "{shown}");
}

#[test]
fn a_run_without_queries_has_no_latencies() {
    let scratch = Scratch::new("sim-nothing");
    let file = scratch.file(
        "nothing.toml",
        "[load]\nrate = 1e-9\n[cost]\nmean = \"5ms\"\n[[fleet]]\ncount = 1\n",
    );
    let output = sim(&["run", &file, "--versus", "random"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    let row: Vec<_> = shown
        .lines()
        .find_map(|line| line.trim_start().strip_prefix("nothing  prequal"))
        .expect("a row")
        .split_whitespace()
        .collect();
    assert_eq!(row, ["–"; 5], "{shown}");
    assert!(shown.contains("nothing was measured"), "{shown}");
}
