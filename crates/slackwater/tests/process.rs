//! `serve` and `agent` as processes, from the outside: limits of open files, `RUST_LOG`, ports in
//! use, outputs that cannot be written.

#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use core::time::Duration;
use slackwater_config::Variables;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output, Stdio};

const SLACKWATER: &str = env!("CARGO_BIN_EXE_slackwater");
const SERVE: &str =
    "serve --listen 127.0.0.1:0 --replicas 127.0.0.1:9 --probe none --admin none --workers 1";
const AGENT: &str = "agent --listen 127.0.0.1:0 --to 127.0.0.1:9";

/// A command without the developer's variables that would configure the process.
fn unconfigured(program: &str) -> Command {
    let mut command = Command::new(program);
    for name in Variables::names().chain(["RUST_LOG"]) {
        command.env_remove(name);
    }
    command
}

/// Returns the log of `slackwater` with these arguments from its start until it serves; `prelude`
/// runs in the shell before it.
fn log_of_start(prelude: &str, words: &str) -> String {
    at_start(prelude, words, |_| ()).0
}

/// Like [`log_of_start`]. Also returns what `look` finds when the process serves; its argument is
/// the process's id.
fn at_start<T>(prelude: &str, words: &str, look: impl FnOnce(u32) -> T) -> (String, T) {
    let script = format!("{prelude}; exec \"$0\" {words}");
    let mut child = unconfigured("sh")
        .args(["-c", &script, SLACKWATER])
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
    let seen = look(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(log.contains(" serving "), "{log}");
    (log, seen)
}

/// Most of the memory in huge pages would be unused.
#[cfg(target_os = "linux")]
#[test]
fn huge_pages_are_not_requested() {
    let maps = |process| std::fs::read_to_string(format!("/proc/{process}/smaps")).unwrap();
    for words in [SERVE, AGENT] {
        let (_, maps) = at_start("true", words, maps);
        let mut flags = maps.lines().filter(|line| line.starts_with("VmFlags:"));
        assert!(flags.clone().count() > 10, "{maps}");
        assert!(
            flags.all(|line| line.split(' ').all(|flag| flag != "hg")),
            "{maps}"
        );
    }
}

#[test]
fn open_file_limit_is_raised_and_a_low_hard_limit_logged() {
    for words in [SERVE, AGENT] {
        let log = log_of_start("ulimit -Sn 64; ulimit -Hn 256", words);
        assert!(
            log.contains("limits.connections_max is 65536, but this process may open 256 files"),
            "{log}"
        );
    }
}

/// Returns the error of `slackwater` with these arguments, which it rejects with this exit code.
fn complaint(words: &str, code: i32) -> String {
    let output = unconfigured(SLACKWATER)
        .args(words.split_whitespace())
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

/// Runs `slackwater` with these arguments and this standard output.
fn run_into(words: &str, output: impl Into<Stdio>) -> Output {
    unconfigured(SLACKWATER)
        .args(words.split_whitespace())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdout(output)
        .stderr(Stdio::piped())
        .output()
        .unwrap()
}

/// Commands that write to standard output and end without a signal.
const WRITERS: [&str; 4] = [
    "completions bash",
    "check tests/fixtures/good/minimal.toml",
    "check --show tests/fixtures/good/minimal.toml",
    "load http://127.0.0.1:9/ --rate 1 --seconds 0.01",
];

#[test]
fn positional_configuration_file_suggests_the_config_flag() {
    for (words, expected) in [
        (
            "serve slackwater.toml",
            "slackwater serve --config slackwater.toml",
        ),
        (
            "agent a/agent.yaml",
            "slackwater agent --config a/agent.yaml",
        ),
    ] {
        let output = run_into(words, Stdio::null());
        let found = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{found}");
        assert!(found.contains(expected), "{found}");
    }
    let output = run_into("serve somewhere", Stdio::null());
    let found = String::from_utf8(output.stderr).unwrap();
    assert!(!found.contains("--config somewhere"), "{found}");
}

/// The completions of bash for the last of these words.
#[cfg(target_os = "linux")]
fn offered_by_bash(words: &str) -> Vec<String> {
    let script = format!(
        "source <({SLACKWATER} completions bash); COMP_WORDS=({words} ''); \
         COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         _slackwater slackwater '' \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let offered = String::from_utf8(output.stdout).unwrap();
    offered
        .lines()
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

#[cfg(target_os = "linux")]
#[test]
fn completions_offer_values_and_no_file_names() {
    assert_eq!(
        offered_by_bash("slackwater serve --probe"),
        ["udp", "http", "none"]
    );
    let levels = ["error", "warn", "info", "debug", "trace"];
    assert_eq!(offered_by_bash("slackwater agent --log-level"), levels);
    let policies = offered_by_bash("slackwater serve --policy");
    assert!(
        policies.contains(&"least_loaded".to_owned()),
        "{policies:?}"
    );
    assert!(!policies.contains(&"Cargo.toml".to_owned()), "{policies:?}");
    let files = offered_by_bash("slackwater serve --config");
    assert!(files.contains(&"Cargo.toml".to_owned()), "{files:?}");
    assert_eq!(
        offered_by_bash("slackwater serve --listen")
            .first()
            .map(String::as_str),
        None
    );
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_output_is_a_failure() {
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
fn closed_output_pipe_is_no_failure() {
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
fn a_port_in_use_is_reported_with_the_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
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
fn mistakes_are_reported_with_the_flag_or_value_at_fault() {
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
fn flag_that_is_no_text_is_refused() {
    let argument = OsStr::from_bytes(b"--\xff");
    let output = unconfigured(SLACKWATER).arg(argument).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
}

#[test]
fn a_wrong_filter_of_the_log_is_reported_once() {
    for words in [SERVE, AGENT] {
        let log = log_of_start("export RUST_LOG=slackwater=loud", words);
        assert_eq!(log.matches("RUST_LOG ignored").count(), 1, "{log}");
        assert!(!log_of_start("export RUST_LOG=debug", words).contains("RUST_LOG"));
    }
}

#[test]
fn agent_warns_if_probe_replies_may_have_another_source_address() {
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

#[test]
fn an_agent_notifies_its_supervisor_when_it_serves_and_when_it_stops() {
    let name = format!("slackwater-agent-notify-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let socket = UnixDatagram::bind(&path).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_mins(1)))
        .unwrap();
    let mut agent = unconfigured(SLACKWATER)
        .args(AGENT.split(' '))
        .args(["--drain-delay", "0"])
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let hears = |start: &str| {
        let mut message = [0; 4096];
        loop {
            let bytes = socket.recv(&mut message).unwrap();
            let text = String::from_utf8_lossy(&message[..bytes]);
            if text.lines().any(|line| line.starts_with(start)) {
                return;
            }
        }
    };
    hears("READY=1");
    hears("WATCHDOG=1");
    let id = agent.id().to_string();
    Command::new("kill").args(["-TERM", &id]).status().unwrap();
    hears("STOPPING=1");
    assert_eq!(agent.wait().unwrap().code(), Some(0));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn ready_queries_a_running_process() {
    let ask = |admin: &str| {
        let asked = unconfigured(SLACKWATER)
            .args(["ready", "--admin", admin])
            .output()
            .unwrap();
        let told =
            String::from_utf8(asked.stdout).unwrap() + &String::from_utf8_lossy(&asked.stderr);
        (asked.status.code(), told)
    };
    let mut serve = unconfigured(SLACKWATER)
        .args(
            SERVE
                // A host that no other test uses, so that no server is there in the end.
                .replace("--admin none", "--admin 127.95.0.1:0")
                .split(' '),
        )
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(serve.stderr.take().unwrap()).lines();
    let line = lines.find(|line| {
        line.as_ref()
            .is_ok_and(|line| line.contains("status and metrics"))
    });
    let line = line.unwrap().unwrap();
    let admin = line.split_once("address=").unwrap().1;
    let admin = admin.split(' ').next().unwrap().to_owned();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains(" serving "))));
    assert_eq!(ask(&admin), (Some(0), "serving\n".to_owned()));
    serve.kill().unwrap();
    serve.wait().unwrap();
    let (code, told) = ask(&admin);
    assert_eq!(code, Some(1));
    assert!(
        told.contains(&format!("cannot connect to {admin}: ")) && told.contains("--admin"),
        "{told}"
    );
}

#[test]
fn the_log_may_be_json_and_its_level_is_configured() {
    for words in [SERVE, AGENT] {
        let mut child = unconfigured(SLACKWATER)
            .args(words.split(' '))
            .args(["--log-format", "json"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let serving = lines.find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            (line["message"] == "serving").then_some(line)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let serving = serving.unwrap();
        assert_eq!(serving["level"], "INFO", "{serving}");
        assert!(serving["address"].is_string() && serving["timestamp"].is_string());
    }
    // The port is taken, so it ends at once and logs only that.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let words = SERVE.replace("127.0.0.1:0", &address);
    let output = unconfigured("sh")
        .args([
            "-c",
            "ulimit -Sn 64; ulimit -Hn 256; exec \"$0\" \"$@\"",
            SLACKWATER,
        ])
        .args(words.split(' '))
        .args(["--log-level", "error"])
        .output();
    let told = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(told.contains("cannot listen"), "{told}");
    assert!(!told.contains("may open 256 files"), "{told}");
}
