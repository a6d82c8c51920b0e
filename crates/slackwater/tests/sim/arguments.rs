//! Arguments that make no sense, and folders that cannot be written: reported before anything is
//! played.

use crate::rig::{Scratch, sim, stderr, stdout};

/// Exit code 2, nothing on standard output, and this on standard error.
fn refuses(arguments: &[&str], expected: &str) {
    let output = sim(arguments);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
    assert!(told.contains(expected), "{arguments:?}: {told}");
    assert_eq!(stdout(&output), "", "{arguments:?}");
}

#[test]
fn numbers_out_of_range_are_reported() {
    for (arguments, expected) in [
        (&["fig66"][..], "unrecognized subcommand 'fig66'"),
        (
            &["fig6", "--seeds", "0"],
            "'0' for '--seeds <N>': expected a whole number from 1 to 10000",
        ),
        (
            &["fig6", "--seeds", "1.5"],
            "'1.5' for '--seeds <N>': expected a whole number from 1 to 10000",
        ),
        (
            &["fig6", "--seeds", "1", "--seeds", "2"],
            "'--seeds <N>' cannot be used multiple times",
        ),
        (
            &["fig6", "--first-seed", "-1"],
            "'-1' for '--first-seed <N>': expected a whole number from 1",
        ),
        (
            &["fig6", "--first-seed", "0"],
            "'0' for '--first-seed <N>': expected a whole number from 1 to 1000000000",
        ),
        (
            &["fig6", "--seconds", "0"],
            "'0' for '--seconds <S>': expected a number of seconds above 0",
        ),
        (
            &["fig6", "--seconds", "-1"],
            "'-1' for '--seconds <S>': expected a number of seconds above 0",
        ),
        (
            &["fig6", "--seconds", "1e308"],
            "'1e308' for '--seconds <S>': expected a number of seconds above 0 and at most 604800",
        ),
        (
            &["fig6", "--warmup", "-1"],
            "'-1' for '--warmup <S>': expected a number of seconds from 0 to 604800",
        ),
        (
            &["fig6", "--seconds", "nan"],
            "'nan' for '--seconds <S>': expected a number of seconds above 0",
        ),
        (
            &["fig6", "--seconds", "604800"],
            "fig6 cannot be played with these --seconds and --warmup: ",
        ),
        (
            &["all", "--threads", "0"],
            "'0' for '--threads <N>': expected a whole number from 1 to 1024",
        ),
    ] {
        refuses(arguments, expected);
    }
}

#[test]
fn invalid_files_policies_and_objectives_are_reported() {
    let file = "good/minimal.sim.toml";
    let web = "../../../../../deploy/examples/web.sim.toml";
    for (arguments, expected) in [
        (
            &["run", "nowhere.toml"][..],
            "nowhere.toml: there is no such file",
        ),
        (
            &["run", file, "--policy", "prequel"],
            "--policy prequel: there is no such policy, did you mean prequal?",
        ),
        (
            &["run", file, "--policy", "x"],
            "--policy x: there is no such policy, expected one of prequal,",
        ),
        (
            &["run", file, "--versus", "prequal"],
            "--versus prequal: is --policy already",
        ),
        (
            &["run", file, "--versus", "jsq,jsq"],
            "--versus jsq: is given twice",
        ),
        (
            &["run", web, "--warmup", "604800", "--seconds", "604800"],
            "with --seconds and --warmup as given, load.rate: ",
        ),
        (&["size", file], "--slo <WHAT=BOUND>"),
        (
            &["size", file, "--slo", "p99=3"],
            "--slo \"p99=3\": expected p50, p90,",
        ),
        (
            &["size", file, "--slo", "p99=1s", "--most", "0"],
            "'0' for '--most <N>': expected a whole number from 1 to 10000",
        ),
        (
            &["size", file, "--slo", "p99=1s", "--slo", "p99=2s"],
            "--slo \"p99=2s\": p99 has a bound already",
        ),
        (
            &["size", file, "--slo", "p99=1s", "--policy", "random,all"],
            "--policy all: stands for every policy, so no other name goes with it",
        ),
        (
            &["run", file, "--policy", "prequal,random"],
            "--policy prequal,random: takes one policy here, give the others with --versus",
        ),
        (
            &["run", file, "--versus", "random,"],
            "--versus a name is empty, expected one of prequal,",
        ),
        (
            &["size", "bad/zeros.sim.toml", "--slo", "p99=1s"],
            "fleet[0].count: is 0",
        ),
    ] {
        refuses(arguments, expected);
    }
}

#[test]
fn unwritable_output_fails_before_any_run() {
    let scratch = Scratch::new("sim-out");
    let taken = scratch.file("taken", "");
    let below = scratch.path("taken/below");
    for out in [&taken, &below] {
        for what in [
            &["run", "good/minimal.sim.toml"][..],
            &["fig6"],
            &["all", "--seconds", "604800", "--seeds", "10000"],
        ] {
            let output = sim(&[what, &["--out", out]].concat());
            let told = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{told}");
            assert!(
                told.contains(&format!("--out {out}: cannot be written: ")),
                "{told}"
            );
            assert_eq!(stdout(&output), "", "{what:?}");
        }
    }
}
