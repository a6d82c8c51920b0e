//! `slackwater sim` as a user runs it: scenario files and what is wrong with them, figures, sizes, the end by a signal.
//!
//! Each fixture in `fixtures/sim/bad` says in comments what is expected of it: every `#: ` line is the first line of one
//! mistake, in order. `BLESS=1` writes what is found into the fixtures, to be read before it is committed.

#![expect(
    clippy::expect_used,
    reason = "what helpers of a test cannot do ends the test"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const MARK: &str = "#: ";
/// Far too short to show anything, and long enough to be played.
const SHORT: [&str; 6] = ["--seeds", "1", "--seconds", "0.3", "--warmup", "0.1"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sim")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
    command
        .arg("sim")
        .args(arguments)
        .current_dir(fixtures())
        .stdin(Stdio::null());
    command
}

fn sim(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The scenarios in a directory of fixtures, sorted.
fn scenarios(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory of scenarios");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|file| file.to_string_lossy().ends_with(".sim.toml"))
        .collect();
    files.sort();
    files
}

/// A directory of the test's own, gone when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("slackwater-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for the test");
        Self(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).expect("a file for the test");
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_mistake_is_found_and_told_with_its_place() {
    let files = scenarios(&fixtures().join("bad"));
    assert!(files.len() >= 12, "the fixtures are there");
    for file in files {
        let name = format!(
            "bad/{}",
            file.file_name().expect("a name").to_string_lossy()
        );
        let output = sim(&["run", &name]);
        let told = stderr(&output);
        let found: Vec<_> = told
            .lines()
            .filter(|line| line.starts_with("bad/"))
            .collect();
        let text = fs::read_to_string(&file).expect("a fixture");
        if std::env::var_os("BLESS").is_some() {
            let kept = text.lines().filter(|line| !line.starts_with(MARK));
            let lines: Vec<_> = kept
                .map(str::to_owned)
                .chain(found.iter().map(|line| format!("{MARK}{line}")))
                .collect();
            fs::write(&file, lines.join("\n") + "\n").expect("a fixture");
            continue;
        }
        let expected: Vec<_> = text
            .lines()
            .filter_map(|line| line.strip_prefix(MARK))
            .collect();
        assert_eq!(found, expected, "{name}");
        assert!(!found.is_empty(), "{name}: {told}");
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert_eq!(stdout(&output), "", "{name}");
    }
}

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

/// What was printed, without the line that says how long it took.
fn figures(output: &Output) -> String {
    let shown = stdout(output);
    let lines = shown
        .lines()
        .filter(|line| !line.contains(" runs, ") && !line.starts_with("wrote "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_comparison_is_the_same_on_any_number_of_threads_and_is_written() {
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

/// The mean time in a queue with `servers` servers of `rate` each, Poisson arrivals: Erlang's C formula.
fn mean_seconds(arrivals: f64, rate: f64, servers: u32) -> f64 {
    let offered = arrivals / rate;
    // Erlang B by its recursion, then C from it.
    let blocked = (1..=servers).fold(1.0, |blocked, servers| {
        offered * blocked / (f64::from(servers) + offered * blocked)
    });
    let load = offered / f64::from(servers);
    let waits = blocked / (1.0 - load * (1.0 - blocked));
    1.0 / rate + waits / (f64::from(servers) * rate - arrivals)
}

#[test]
fn the_size_of_a_fleet_is_erlangs() {
    let scratch = Scratch::new("sim-size");
    // 4.5 servers' worth of work. `greedy` sends each query where it ends first, which over single-threaded servers is one
    // queue before all of them: M/M/c.
    let file = scratch.file(
        "mmc.toml",
        "span = \"10s\"\nwarmup = \"2s\"\n[load]\nrate = 450\n[cost]\nmean = \"10ms\"\n\
         [[fleet]]\ncount = 5\nservice = \"fifo\"\n[network]\ndelay = 0\n",
    );
    let (too_few, enough) = (mean_seconds(450.0, 100.0, 5), mean_seconds(450.0, 100.0, 6));
    // 25 and 13 ms, so far apart that ten seconds tell them.
    assert!(
        too_few > 0.018 * 1.3 && enough < 0.018 / 1.3,
        "{too_few} {enough}"
    );
    let output = sim(&["size", &file, "--slo", "mean=18ms", "--policy", "greedy"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    let row: Vec<_> = shown
        .lines()
        .find_map(|line| line.strip_prefix("greedy"))
        .expect("a row")
        .split_whitespace()
        .collect();
    assert_eq!(row[0], "6", "{shown}");
    let output = sim(&[
        "size",
        &file,
        "--slo",
        "mean=18ms",
        "--policy",
        "greedy",
        "--most",
        "5",
    ]);
    assert!(stdout(&output).contains("> 5"), "{}", stdout(&output));
}

#[test]
fn a_figure_is_judged_and_written() {
    let scratch = Scratch::new("sim-figure");
    let out = scratch.path("out");
    let arguments = [
        "fig6",
        "--seeds",
        "1",
        "--seconds",
        "0.2",
        "--warmup",
        "0",
        "--out",
        &out,
    ];
    let output = sim(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("not reproduced"),
        "{}",
        stdout(&output)
    );
    for name in ["fig6.csv", "fig6.html", "fig6-1.svg"] {
        assert!(scratch.0.join("out").join(name).exists(), "{name}");
    }
    let output = sim(&[&arguments[..], &["--strict"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("--strict: "),
        "{}",
        stderr(&output)
    );
}

#[test]
fn figures_are_listed_and_in_the_help() {
    let (list, help) = (stdout(&sim(&["list"])), stdout(&sim(&["--help"])));
    assert!(list.lines().count() >= 1);
    for line in list.lines() {
        let (name, title) = line.split_once(' ').expect("a name and a title");
        assert!(help.contains(&format!("  {name} ")), "{name}: {help}");
        let own = stdout(&sim(&[name, "--help"]));
        assert!(
            own.contains(title.trim()) && own.contains("--strict"),
            "{own}"
        );
    }
    assert!(help.contains("slackwater sim size my-fleet.toml"), "{help}");
}

#[test]
fn arguments_that_make_no_sense_are_told() {
    let file = "good/minimal.sim.toml";
    let web = "../../../../../deploy/examples/web.sim.toml";
    for (arguments, expected) in [
        (&["fig66"][..], "unrecognized subcommand 'fig66'"),
        (
            &["fig6", "--seeds", "0"],
            "--seeds 0: must be from 1 to 10000",
        ),
        (
            &["fig6", "--first-seed", "0"],
            "--first-seed 0: must be from 1 to 1000000000",
        ),
        (&["fig6", "--seconds", "0"], "--seconds 0: must be above 0"),
        (&["fig6", "--seconds", "-1"], "--seconds -1: must be from 0"),
        (
            &["fig6", "--seconds", "nan"],
            "--seconds NaN: must be from 0",
        ),
        (
            &["fig6", "--seconds", "604800"],
            "fig6 cannot be played with these --seconds and --warmup: ",
        ),
        (
            &["all", "--threads", "0"],
            "--threads 0: must be from 1 to 1024",
        ),
        (
            &["run", "nowhere.toml"],
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
            "--most 0: must be from 1 to 10000",
        ),
        (
            &["size", "bad/zeros.sim.toml", "--slo", "p99=1s"],
            "fleet[0].count: is 0",
        ),
    ] {
        let output = sim(arguments);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(expected), "{arguments:?}: {told}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn what_cannot_be_written_is_a_failure() {
    let scratch = Scratch::new("sim-out");
    let taken = scratch.file("taken", "");
    let output = sim(&[
        &["run", "good/minimal.sim.toml", "--out", &taken],
        &SHORT[..],
    ]
    .concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains(&format!("{taken}: cannot be written")),
        "{}",
        stderr(&output)
    );
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_it_and_says_what_is_lost() {
    /// Whether the process has a handler of its own for SIGINT by now.
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
    let child = command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    while !catches_interrupt(child.id()) {
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
