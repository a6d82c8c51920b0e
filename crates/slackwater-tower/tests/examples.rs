//! Each example does what its first lines say, and so does the tutorial that is made of two of
//! them.
//!
//! `cargo test -p slackwater-tower` builds the examples; with `--test examples` alone,
//! `cargo build -p slackwater-tower --examples` has to come before.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "what helpers of a test cannot do ends the test"
)]

use std::path::PathBuf;
use std::process::Command;

/// Where the examples are: beside the folder of this test.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let profile = test.parent().and_then(|deps| deps.parent());
    profile.expect("a folder").join("examples")
}

/// Runs a command that succeeds, and returns its output.
fn output(command: &mut Command) -> String {
    let output = command.output().expect("cargo build --examples");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}\n{errors}");
    printed
}

fn run(name: &str) -> String {
    output(&mut Command::new(folder().join(name)))
}

/// The number before `what` in a line that has it.
fn count(line: &str, what: &str) -> u32 {
    let before = line.split(what).next().unwrap_or_default().trim_end();
    let number = before.rsplit(' ').next().unwrap_or_default();
    number
        .parse()
        .unwrap_or_else(|_| panic!("no number of {what}: {line}"))
}

#[test]
fn axum_server_reports_its_load() {
    let printed = run("axum_server");
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines[1].contains("x-prequal-rif: "), "{printed}");
    let latency = lines[2].rsplit(' ').next().expect("a number");
    assert!(latency.parse::<u32>().expect("µs") >= 50_000, "{printed}");
    assert!(lines[3].ends_with("x-slackwater-draining: 1"), "{printed}");
    assert!(lines[4].contains("queries_succeeded: 8"), "{printed}");
}

#[test]
fn http_client_keeps_connections_and_retries_elsewhere() {
    let printed = run("http_client");
    let lines: Vec<_> = printed.lines().collect();
    assert!(
        lines[0].starts_with("500 requests: 500 answered"),
        "{printed}"
    );
    let retries = count(lines[0], " retries");
    assert!((1..200).contains(&retries), "{printed}");
    assert_eq!(count(lines[3], " requests"), retries, "{printed}");
    for line in &lines[1..4] {
        // Five callers; the client may open one more while another call gives one back.
        assert!(count(line, " connections") <= 15, "{printed}");
    }
    assert_eq!(lines[4], "a slow request: request timed out");
    assert!(
        printed.contains("policy: \"shortest_expected_delay\""),
        "{printed}"
    );
}

#[test]
fn grpc_server_reports_its_load() {
    let printed = run("grpc_server");
    assert!(printed.contains("\n100 calls have ended"), "{printed}");
    assert!(printed.contains("queries_succeeded: 100"), "{printed}");
}

#[test]
fn grpc_client_prefers_fast_servers_and_retries_elsewhere() {
    let printed = run("grpc_client");
    let calls: Vec<_> = (printed.lines().take(4))
        .map(|it| count(it, " calls"))
        .collect();
    assert!(calls[2] < calls[0] && calls[2] < calls[1], "{printed}");
    assert!(calls[3] > 0, "{printed}");
    let last = printed.lines().last().unwrap_or_default();
    assert!(last.starts_with("1000 answered"), "{printed}");
    assert_eq!(count(last, " retries"), calls[3], "{printed}");
}

/// The shell blocks of the tutorial, at a loopback address of the test's own.
#[test]
fn tutorial_commands_work_as_written() {
    let page = include_str!("../../../docs/tutorials/rust-library.md");
    let blocks = |info: &str| -> Vec<_> {
        let fence = format!("```{info}\n");
        let blocks = page.split(&*fence).skip(1);
        blocks
            .filter_map(|block| block.split("```").next())
            .collect()
    };
    let [build, start, call, stop] = blocks("sh")[..] else {
        panic!("the page has other blocks than this test knows");
    };
    assert!(build.starts_with("cargo build"), "{build}");
    // A person types no faster than the servers start.
    let wait = "for port in 50051 50052 50053; do \
                until (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; do sleep 0.05; done; done\n";
    let script =
        format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{start}{wait}{call}{stop}");
    let script = script
        .replace("127.0.0.1", "127.93.0.2")
        .replace("target/debug/examples", &folder().to_string_lossy());
    let printed = output(Command::new("timeout").args(["60", "bash", "-euc", &script]));
    for ending in [" calls", "1000 answered, 0 retries"] {
        let count = |text: &str| text.lines().filter(|line| line.ends_with(ending)).count();
        let shown: usize = blocks("text").into_iter().map(count).sum();
        assert!(shown > 0, "the page shows no {ending}");
        assert_eq!(count(&printed), shown, "{printed}");
    }
    assert_eq!(printed.matches("draining: true").count(), 3, "{printed}");
}
