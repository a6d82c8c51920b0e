//! `slackwater demo` as a user runs it: a separate process, its text, its JSON, its page, its
//! knobs, its end by time and by signal. The winner does not matter here: that takes a quiet
//! machine and half a minute (`docs/reference/demo.md`).

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers")]

mod knobs;

use core::net::SocketAddr;
use core::time::Duration;
use knobs::Live;
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// Far longer than any of these runs takes; reached only if something is broken.
const LIMIT: Duration = Duration::from_mins(1);

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
    command.arg("demo").args(arguments).stdin(Stdio::null());
    command
}

/// A running demo; killed when dropped.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    page: SocketAddr,
    /// The text read from standard output so far.
    said: String,
}

impl Running {
    /// Starts a demo with its page on a free port, and reads the page's address.
    fn start(arguments: &[&str]) -> Self {
        let mut command = demo(arguments);
        command
            .args(["--admin", "127.0.0.1:0"])
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        let page = loop {
            let mut line = String::new();
            assert_ne!(
                stdout.read_line(&mut line).unwrap(),
                0,
                "ended early: {said}"
            );
            said.push_str(&line);
            if let Some(rest) = line.strip_prefix("page http://") {
                break rest.split_once('/').unwrap().0.parse().unwrap();
            }
        };
        Self {
            child,
            stdout,
            page,
            said,
        }
    }

    /// Status and body of a path at the page's address.
    fn get(&self, path: &str) -> (u16, String) {
        exchange(
            self.page,
            &format!("GET {path} HTTP/1.1\r\nhost: demo\r\n\r\n"),
        )
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Reads to the end of standard output and of the process.
    fn end(mut self) -> (ExitStatus, String) {
        let mut said = core::mem::take(&mut self.said);
        self.stdout.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // This fails if the process has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Status and body of the answer to `text`.
fn exchange(address: SocketAddr, text: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}

/// A path for this test alone, with no file at it.
fn scratch(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
        _ => path,
    }
}

fn assert_complains(arguments: &[&str], code: i32, complaint: &str) {
    let output = demo(arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(complaint), "{stderr}");
    assert!(output.stdout.is_empty());
}

#[test]
fn timed_run_ends_with_a_summary_and_figures_for_both_sides() {
    let json = scratch("demo.json");
    let path = json.to_str().unwrap();
    let running = Running::start(&[
        "--seconds",
        "3",
        "--rate",
        "60",
        "--replicas",
        "6",
        "--json",
        path,
    ]);
    let (status, said) = running.end();
    assert!(status.success(), "{said}");
    for part in [
        "slackwater demo: prequal and round_robin, 6 replicas a side, 60 requests/s to each, seed 1",
        "6 replicas a side, 60 requests/s to each for 3.0 s, seed 1\n",
        "prequal's p99 was ",
        "with fewer than 1,000 requests a p99 says little",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
    let figures: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(figures["interrupted"], false);
    assert_eq!(figures["replicas"], 6);
    let sides = figures["sides"].as_array().unwrap();
    let policies: Vec<_> = sides
        .iter()
        .map(|side| side["policy"].as_str().unwrap())
        .collect();
    assert_eq!(policies, ["prequal", "round_robin"]);
    for side in sides {
        for field in ["p50_ms", "p99_ms", "p999_ms"] {
            assert!(side[field].as_f64().unwrap() > 0.0, "{field}: {side}");
        }
        assert_eq!(side["requests"], sides[0]["requests"], "the same arrivals");
        assert_eq!(side["served_by_replica"].as_array().unwrap().len(), 6);
        let picks = side["picks"].as_array().unwrap();
        let picks: u64 = picks
            .iter()
            .map(|pick| pick["count"].as_u64().unwrap())
            .sum();
        assert!(picks >= side["requests"].as_u64().unwrap(), "{side}");
    }
    assert!(sides[0]["requests"].as_u64().unwrap() > 100);
    assert_eq!(sides[0]["errors"], 0, "{}", sides[0]);
    assert!(
        sides[0]["probes_answered"].as_u64().unwrap() > 0,
        "real probes over UDP"
    );
    assert_eq!(sides[1]["probes_sent"], 0);
}

#[test]
fn page_is_served_until_ctrl_c_ends_the_run_with_a_summary() {
    let running = Running::start(&[
        "--rate",
        "80",
        "--replicas",
        "4",
        "--policy",
        "least_loaded",
        "--versus",
        "prequal",
    ]);
    let (status, page) = running.get("/");
    assert_eq!(status, 200);
    assert!(page.starts_with("<!doctype html>") && page.contains("/dashboard/main.js"));
    for source in ["src=\"http", "href=\"http", "url("] {
        assert!(
            !page.contains(source),
            "the page needs nothing from elsewhere: {source}"
        );
    }
    let tick = Live::open(&running).wait("tick", |tick| {
        let side = &tick["demo"]["sides"][1];
        // Figures of the whole run are calculated once a second.
        side["requests"].as_u64() > Some(20)
            && side["overall"]["p99_us"].as_u64() > Some(0)
            && tick["services"][1]["probes"]["answered"].as_u64() > Some(0)
    });
    assert_eq!(tick["phase"], "serving");
    let demo = &tick["demo"];
    assert_eq!(demo["sides"][0]["policy"], "least_loaded");
    let capacities = demo["replicas"]["capacity_milli"].as_array().unwrap();
    assert_eq!(capacities.len(), 4);
    assert!(capacities.iter().all(|it| it.as_u64() > Some(0)), "{demo}");
    for (path, part) in [
        ("/status", "\"least_loaded\""),
        ("/status", "\"prequal\""),
        ("/dashboard/main.js", "/events"),
        ("/dashboard/style.css", ":root"),
        ("/metrics", "slackwater_picks_total{service=\"prequal\""),
        ("/healthz", "ok"),
        ("/readyz", "serving"),
    ] {
        let (status, body) = running.get(path);
        assert!(
            status == 200 && body.contains(part),
            "{path}: {status} {body}"
        );
    }
    assert_eq!(running.get("/nowhere").0, 404);
    running.signal("INT");
    let (status, said) = running.end();
    assert!(status.success(), "{said}");
    assert!(
        said.contains("(interrupted)") && said.contains("least_loaded's p99 was "),
        "{said}"
    );
}

#[test]
fn second_signal_ends_immediately_with_json_on_stdout() {
    let mut command = demo(&[
        "--rate",
        "50",
        "--replicas",
        "2",
        "--json",
        "-",
        "--admin",
        "127.0.0.1:0",
    ]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.starts_with("page http://127.0.0.1:"), "{line}");
    let id = child.id().to_string();
    // Whenever the two signals arrive, and whether they count as one, the end is the same.
    for _ in 0..2 {
        let sent = Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(sent.unwrap().success());
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(figures["interrupted"], true);
}

#[test]
fn mistakes_are_reported_before_anything_runs() {
    assert_complains(
        &["--policy", "nginx"],
        2,
        "--policy \"nginx\": must be one of prequal, ",
    );
    assert_complains(
        &["--rate", "2001"],
        2,
        "--rate 2001: must be from 1 to 2000",
    );
    assert_complains(
        &["--json", "/nowhere/d.json"],
        2,
        "--json /nowhere/d.json: cannot be written",
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let complaint = format!("{address} in use by another process");
    assert_complains(&["--admin", &address], 1, &complaint);
}
