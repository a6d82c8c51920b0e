//! What `serve` and `agent` do as processes, from the outside: limits of open files, `RUST_LOG`, ports in use, outputs that
//! cannot be written.

#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

const SLACKWATER: &str = env!("CARGO_BIN_EXE_slackwater");
const SERVE: &str =
    "serve --listen 127.0.0.1:0 --replicas 127.0.0.1:9 --probe none --admin none --workers 1";
const AGENT: &str = "agent --listen 127.0.0.1:0 --to 127.0.0.1:9";

/// The log of `slackwater` with these words from its start until it serves; `prelude` runs in the shell before it.
fn log_of_start(prelude: &str, words: &str) -> String {
    let script = format!("{prelude}; exec \"$0\" {words}");
    let mut child = Command::new("sh")
        .args(["-c", &script, SLACKWATER])
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        log.push_str(&line.unwrap());
        log.push('\n');
        if log.contains(" serving ") {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(log.contains(" serving "), "{log}");
    log
}

#[test]
fn the_soft_limit_of_open_files_is_raised_and_a_hard_one_that_is_too_low_is_told() {
    for words in [SERVE, AGENT] {
        let log = log_of_start("ulimit -Sn 64; ulimit -Hn 256", words);
        assert!(
            log.contains("limits.connections_max is 65536, but this process may open 256 files"),
            "{log}"
        );
    }
}

/// What `slackwater` says of these words, which it refuses with this exit code.
fn complaint(words: &str, code: i32) -> String {
    let output = Command::new(SLACKWATER)
        .args(words.split_whitespace())
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{words}: {told}");
    told
}

#[test]
fn a_negative_number_is_refused_with_the_flag_and_its_range() {
    for (words, expected) in [
        (
            SERVE.replace("--workers 1", "--workers -1"),
            "--workers: found -1, expected a number from 1 to 1,024",
        ),
        (
            format!("{AGENT} --workers -1"),
            "--workers: found -1, expected a number from 1 to 1,024",
        ),
        (
            format!("{AGENT} --drain-delay -1s"),
            "--drain-delay: found \"-1s\", expected",
        ),
        (
            format!("{AGENT} --idle-timeout -5"),
            "--idle-timeout: found \"-5\", expected",
        ),
        (
            "demo --seed -1".to_owned(),
            "'-1' for '--seed <N>': expected a whole number from 0 to",
        ),
        (
            "load http://127.0.0.1:9/ --rate 1 --seed -1".to_owned(),
            "'-1' for '--seed <N>': expected a whole number from 0 to",
        ),
    ] {
        let told = complaint(&words, 2);
        assert!(told.contains(expected), "{words}: {told}");
    }
}

/// `slackwater` with these words and with this as its standard output.
fn run_into(words: &str, output: impl Into<Stdio>) -> Output {
    Command::new(SLACKWATER)
        .args(words.split_whitespace())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(output)
        .stderr(Stdio::piped())
        .output()
        .unwrap()
}

/// Commands that write to standard output and come to an end by themselves.
const WRITERS: [&str; 4] = [
    "completions bash",
    "check tests/fixtures/good/minimal.toml",
    "check --show tests/fixtures/good/minimal.toml",
    "load http://127.0.0.1:9/ --rate 1 --seconds 0.01",
];

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_written_is_a_failure() {
    for words in WRITERS {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let output = run_into(words, full.unwrap());
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words}: {told}");
        assert!(
            told.contains("standard output cannot be written"),
            "{words}: {told}"
        );
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_none() {
    for words in WRITERS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = run_into(words, writer);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            (output.status.code(), told.as_str()),
            (Some(0), ""),
            "{words}"
        );
    }
}

#[test]
fn a_port_in_use_is_told_with_what_to_do() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let flag = format!("--listen {}", taken.local_addr().unwrap());
    for words in [SERVE, AGENT] {
        let told = complaint(&words.replace("--listen 127.0.0.1:0", &flag), 1);
        assert!(
            told.contains("free the port, or choose another with --listen"),
            "{told}"
        );
    }
}

#[test]
fn mistakes_are_told_in_the_users_words() {
    for (words, expected) in [
        (
            "agent --listen 127.0.0.1:9".to_owned(),
            "\n--to: is missing, expected the server",
        ),
        (
            SERVE.replace("127.0.0.1:0", "127.0.0.1:8,127.0.0.1:8"),
            "127.0.0.1:8 is given twice",
        ),
        (
            SERVE.replace("127.0.0.1:0", "127.0.0.1:8,0.0.0.0:8"),
            "0.0.0.0:8 is taken by 127.0.0.1:8",
        ),
        (
            SERVE.replace("127.0.0.1:9", "nowhere.invalid:9"),
            "cannot be resolved",
        ),
        (
            "load http://nowhere.invalid/ --rate 1".to_owned(),
            "cannot be resolved",
        ),
    ] {
        let told = complaint(&words, 2);
        assert!(told.contains(expected), "{words}: {told}");
    }
}

#[test]
fn a_wrong_filter_of_the_log_is_told_once() {
    for words in [SERVE, AGENT] {
        let log = log_of_start("export RUST_LOG=slackwater=loud", words);
        assert_eq!(
            log.matches("RUST_LOG is not understood").count(),
            1,
            "{log}"
        );
        assert!(!log_of_start("export RUST_LOG=debug", words).contains("RUST_LOG"));
    }
}

#[test]
fn an_agent_that_may_answer_probes_from_elsewhere_says_so() {
    const REMARK: &str = "every address of this machine, and the system chooses";
    let log = log_of_start(":", &AGENT.replace("127.0.0.1:0", "0.0.0.0:0"));
    assert!(
        log.contains(&format!("--listen: 0.0.0.0:0 is {REMARK}")),
        "{log}"
    );
    let log = log_of_start(":", &format!("{AGENT} --probe-listen '[::]:0'"));
    assert!(
        log.contains(&format!("--probe-listen: [::]:0 is {REMARK}")),
        "{log}"
    );
    let apart = AGENT.replace("127.0.0.1:0", "0.0.0.0:0 --probe-listen 127.0.0.1:0");
    for words in [AGENT, &apart] {
        assert!(!log_of_start(":", words).contains(REMARK), "{words}");
    }
}
