//! `slackwater top` as a user runs it, with a running demo: a plain table, JSON, and the screen of
//! a terminal, which must be restored when the command ends.

#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use core::time::Duration;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Instant;

const SLACKWATER: &str = env!("CARGO_BIN_EXE_slackwater");

/// Timeout of all waits; reached only if something is broken.
const LIMIT: Duration = Duration::from_mins(1);

const COLUMNS: u16 = 120;
const ROWS: u16 = 40;

/// A running demo; killed when dropped.
struct Demo {
    child: Child,
    /// The address of its page.
    address: String,
}

impl Demo {
    fn start() -> Self {
        let arguments = "demo --replicas 4 --rate 40 --admin 127.0.0.1:0 --no-table";
        let mut child = Command::new(SLACKWATER)
            .args(arguments.split(' '))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let page = lines.find_map(|line| {
            let rest = line.strip_prefix("page http://")?;
            Some(rest.split('/').next()?.to_owned())
        });
        // The rest of its output must be read.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            address: page.unwrap(),
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // This fails if the process has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running `serve` or `agent`; killed when dropped.
struct Proxy {
    child: Child,
    /// The address for requests.
    address: String,
    /// The address of its admin server.
    admin: String,
}

impl Proxy {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(SLACKWATER)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let mut said = |what: &str| {
            let told = lines.find_map(|line| {
                let (_, rest) = line.split_once(what)?;
                Some(rest.split(' ').next()?.to_owned())
            });
            told.unwrap()
        };
        let admin = said("status and metrics address=");
        let address = said("serving address=");
        // The rest of its output must be read.
        std::thread::spawn(move || lines.for_each(drop));
        Self {
            child,
            address,
            admin,
        }
    }

    /// Sends requests one after the other, which must all be answered with 200.
    fn ask(&self, requests: usize) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut heads = BufReader::new(stream.try_clone().unwrap()).lines();
        for _ in 0..requests {
            stream
                .write_all(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n")
                .unwrap();
            assert_eq!(heads.next().unwrap().unwrap(), "HTTP/1.1 200 OK");
            heads.find(|line| line.as_deref().unwrap().is_empty());
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // This fails if the process has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts a replica that answers all requests with 200, and returns its address.
fn replica() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for line in lines.map_while(Result::ok) {
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    // The client may have gone.
                    if line.is_empty() && stream.write_all(answer).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

fn top(arguments: &[&str]) -> Output {
    let mut command = Command::new(SLACKWATER);
    command.arg("top").args(arguments).stdin(Stdio::null());
    command.output().unwrap()
}

fn succeeds(output: Output) -> String {
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert_eq!(stderr, "");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn table_and_json_are_printed_for_scripts() {
    let demo = Demo::start();
    // A pipe is not a terminal, so --once is not needed.
    for arguments in [
        vec![demo.address.as_str()],
        vec!["--once", "--admin", &demo.address],
    ] {
        let text = succeeds(top(&arguments));
        let first = format!(" at {}, serving, up 0:", demo.address);
        assert!(text.starts_with("slackwater demo "), "{text}");
        assert!(text.contains(&first), "{text}");
        for side in ["prequal: prequal, ", "round_robin: round_robin, "] {
            assert!(text.lines().any(|line| line.starts_with(side)), "{text}");
        }
        let heads = text.lines().filter(|line| line.starts_with("REPLICA"));
        assert_eq!(heads.count(), 2, "{text}");
        // Each side has four replicas.
        let replicas = text.lines().filter(|line| line.starts_with("replica "));
        assert_eq!(replicas.count(), 2 * 4, "{text}");
    }
    let line = succeeds(top(&["--json", &demo.address]));
    assert_eq!(line.lines().count(), 1, "{line}");
    let both: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(both["fleet"]["role"], "demo");
    assert_eq!(both["fleet"]["revision"], both["tick"]["revision"]);
    let rif = &both["tick"]["services"][1]["replicas"]["in_flight"];
    assert_eq!(rif.as_array().unwrap().len(), 4, "{line}");
}

#[test]
fn a_server_that_cannot_be_connected_to_is_reported_with_an_exit_code() {
    // A host that no other test uses, so that the port stays free.
    let free = TcpListener::bind("127.94.0.3:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    for (arguments, code, complaint) in [
        (
            vec![address.as_str()],
            1,
            format!("slackwater: cannot connect to {address}: "),
        ),
        (vec!["a:0"], 2, "the port must be a number".to_owned()),
        (
            vec!["--once", "--json"],
            2,
            "cannot be used with".to_owned(),
        ),
        (
            vec!["a:1", "--admin", "b:1"],
            2,
            "cannot be used with".to_owned(),
        ),
    ] {
        let output = top(&arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        assert!(stderr.contains(&complaint), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

/// What a terminal shows after this output: characters at the cursor's positions. Colours are left
/// out.
fn screen(said: &str) -> String {
    let mut cells = vec![vec![' '; usize::from(COLUMNS)]; usize::from(ROWS)];
    let (mut row, mut column) = (0, 0);
    let mut rest = said.chars();
    while let Some(character) = rest.next() {
        if character != '\u{1b}' {
            if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column)) {
                *cell = character;
            }
            column += 1;
            continue;
        }
        // `ESC [`, numbers, and a letter for the command.
        let mut numbers = String::new();
        let command = rest.by_ref().skip(1).find(|next| {
            let is_end = next.is_ascii_alphabetic();
            if !is_end {
                numbers.push(*next);
            }
            is_end
        });
        if command == Some('H') {
            let (down, right) = numbers.split_once(';').unwrap_or(("1", "1"));
            let place = |number: &str| number.parse::<usize>().unwrap() - 1;
            (row, column) = (place(down), place(right));
        }
    }
    let lines = cells
        .into_iter()
        .map(|row| row.into_iter().collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

/// `top` in its own terminal.
struct InTerminal {
    child: Child,
    terminal: File,
    /// The command's end of the terminal, kept open so that its settings can be read at the end.
    inside: File,
    /// The output of the command, piece by piece.
    heard: Receiver<Vec<u8>>,
    said: Vec<u8>,
}

impl InTerminal {
    fn start(address: &str) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize {
            ws_row: ROWS,
            ws_col: COLUMNS,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&terminal, size).unwrap();
        let path = ptsname(&terminal, Vec::new()).unwrap();
        let path = path.to_str().unwrap();
        let inside = File::options().read(true).write(true).open(path).unwrap();
        let end = || Stdio::from(OwnedFd::from(inside.try_clone().unwrap()));
        let child = Command::new(SLACKWATER)
            .args(["top", address])
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let terminal = File::from(terminal);
        let mut out = terminal.try_clone().unwrap();
        let (sender, heard) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4_096];
            while let Ok(length) = out.read(&mut buffer)
                && sender.send(buffer[..length].to_vec()).is_ok()
            {}
        });
        Self {
            child,
            terminal,
            inside,
            heard,
            said: Vec::new(),
        }
    }

    /// Reads on until the screen shows all of `texts`.
    fn shows(&mut self, texts: &[&str]) {
        self.read_until(|said| {
            let screen = screen(said);
            texts.iter().all(|text| screen.contains(text))
        });
    }

    /// Reads on until `is_enough` accepts the output.
    fn read_until(&mut self, is_enough: impl Fn(&str) -> bool) {
        let by = Instant::now() + LIMIT;
        loop {
            let said = String::from_utf8_lossy(&self.said).into_owned();
            if is_enough(&said) {
                return;
            }
            // It redraws once a second in any case.
            let heard = self
                .heard
                .recv_timeout(by.saturating_duration_since(Instant::now()));
            assert!(heard.is_ok(), "{}", screen(&said));
            self.said.extend(heard.unwrap());
        }
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.inside).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
    }

    /// Checks that the command has succeeded, and that the terminal is restored.
    fn ends(mut self) {
        // It leaves its screen and shows the cursor.
        self.read_until(|said| said.contains("\u{1b}[?1049l") && said.ends_with("\u{1b}[?25h"));
        assert!(self.child.wait().unwrap().success());
        assert!(!self.is_raw());
    }
}

impl Drop for InTerminal {
    fn drop(&mut self) {
        // This fails if the process has ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn screen_opens_responds_to_keys_and_closes() {
    let demo = Demo::start();
    let mut top = InTerminal::start(&demo.address);
    // Both sides, with a row for each replica.
    top.shows(&["slackwater top", "■ prequal", "■ round_robin", "in flight"]);
    assert!(top.is_raw());
    top.press("?");
    top.shows(&["PgUp PgDn g G   a screen up or down, the first, the last"]);
    top.press("x");
    // The selected replica's own page, with the history from the server.
    top.press("j\r");
    top.shows(&["seen from here: ", "latency, as it reports"]);
    top.press("q");
    top.ends();
}

#[test]
fn top_of_serve_shows_replicas_and_kept_decisions() {
    let replica = replica();
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("top-decisions.toml");
    let text = format!(
        "listen = \"127.0.0.1:0\"\nreplicas = [\"{replica}\"]\npolicy = \"least_loaded\"\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n[decisions]\nsample = 1.0\n"
    );
    std::fs::write(&file, text).unwrap();
    let serve = Proxy::start(&["serve", "--config", file.to_str().unwrap()]);
    serve.ask(3);
    let table = succeeds(top(&["--once", &serve.admin]));
    assert!(table.starts_with("slackwater serve "), "{table}");
    assert!(table.contains("default: least_loaded, "), "{table}");
    let row = table.lines().find(|line| line.starts_with(&replica));
    assert!(row.unwrap().contains(" available "), "{table}");
    let mut screen = InTerminal::start(&serve.admin);
    screen.shows(&["slackwater top  serve ", &replica, "available"]);
    // Its page shows the requests from /decisions.
    screen.press("j\r");
    screen.shows(&[
        "the last requests that were kept, and why they came here",
        "  200 in ",
        "least loaded",
    ]);
    screen.press("q");
    screen.ends();
}

#[test]
fn top_of_an_agent_shows_its_probe_answers() {
    let agent = Proxy::start(&[
        "agent",
        "--listen",
        "127.0.0.1:0",
        "--to",
        &replica(),
        "--admin",
        "127.0.0.1:0",
    ]);
    agent.ask(2);
    let table = succeeds(top(&["--once", &agent.admin]));
    assert!(table.starts_with("slackwater agent "), "{table}");
    let mut screen = InTerminal::start(&agent.admin);
    screen.shows(&["slackwater top  agent ", "answers probes: RIF 0, "]);
    screen.press("q");
    screen.ends();
}

#[test]
fn signal_restores_the_terminal() {
    let demo = Demo::start();
    for name in ["TERM", "INT", "HUP"] {
        let mut top = InTerminal::start(&demo.address);
        top.shows(&["slackwater top"]);
        let id = top.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
        top.ends();
    }
}

#[test]
fn ended_process_is_reported_on_the_screen() {
    let demo = Demo::start();
    let mut top = InTerminal::start(&demo.address);
    top.shows(&["slackwater top", "round_robin"]);
    drop(demo);
    top.shows(&["connection lost: "]);
    top.press("q");
    top.ends();
}
