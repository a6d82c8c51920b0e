//! The command with the agent alone, as in a sidecar's image: it carries a request over real
//! sockets, checks an agent's file, and has exactly the sub-commands of its features. `cargo xtask
//! test` runs this with `--no-default-features`.

#![expect(clippy::unwrap_used, reason = "tests and their helpers")]

use core::net::SocketAddr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

const SLACKWATER: &str = env!("CARGO_BIN_EXE_slackwater");

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that answers requests, and takes connections without one: the agent's checks.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let head = BufReader::new(client.try_clone().unwrap()).lines();
            if head.map_while(Result::ok).any(|line| line.is_empty()) {
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
                client.write_all(answer).unwrap();
            }
        }
    });
    address
}

#[test]
fn a_request_is_passed_on() {
    let server = server().to_string();
    let mut process = Process(
        Command::new(SLACKWATER)
            .args(["agent", "--listen", "127.0.0.1:0", "--to", &server])
            .args(["--admin", "127.0.0.1:0"])
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut log = BufReader::new(process.0.stderr.take().unwrap()).lines();
    let mut address_after = |what: &str| {
        let address = log.find_map(|line| {
            let line = line.unwrap();
            let (_, rest) = line.split_once(what)?;
            let address = rest.split_once("address=")?.1;
            address.split(' ').next()?.parse::<SocketAddr>().ok()
        });
        address.unwrap()
    };
    // In the order in which they are logged.
    let admin = address_after(" status and metrics ");
    let address = address_after(" serving ");
    // The probe of a pod: it is `serving` once the line above is logged.
    let ready = |admin: SocketAddr| {
        let admin = format!("--admin={admin}");
        let asked = Command::new(SLACKWATER).args(["ready", &admin]).status();
        asked.unwrap().code()
    };
    assert_eq!(ready(admin), Some(0));
    let mut client = TcpStream::connect(address).unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
    drop(process);
    assert_eq!(ready(admin), Some(1), "it has ended");
}

#[test]
fn subcommands_match_the_enabled_features() {
    let help = Command::new(SLACKWATER).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let has = |name: &str| help.lines().any(|line| line.trim_start().starts_with(name));
    for (name, is_built) in [
        ("serve ", cfg!(feature = "serve")),
        ("admin ", cfg!(feature = "serve")),
        ("agent ", true),
        ("check ", true),
        ("ready", true),
        ("man ", true),
        ("demo ", cfg!(feature = "demo")),
        ("load ", cfg!(feature = "load")),
        ("sim ", cfg!(feature = "sim")),
        ("top ", cfg!(feature = "top")),
    ] {
        assert_eq!(has(name), is_built, "{name}: {help}");
    }
}

#[test]
fn a_file_is_checked_if_the_build_can_use_it() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/debian");
    for (file, is_known) in [
        ("agent.toml", true),
        ("serve.toml", cfg!(feature = "serve")),
    ] {
        let checked = Command::new(SLACKWATER)
            .args(["check", file])
            .current_dir(folder)
            .output()
            .unwrap();
        let told = String::from_utf8(checked.stderr).unwrap();
        assert_eq!(checked.status.success(), is_known, "{file}: {told}");
        assert!(
            is_known || told.contains("which an agent's file needs"),
            "{told}"
        );
    }
}

#[test]
fn a_command_of_other_builds_is_not_called_unknown() {
    let answer = Command::new(SLACKWATER)
        .args(["serve", "--version"])
        .output();
    let told = String::from_utf8(answer.unwrap().stderr).unwrap();
    let is_left_out = told.contains("this build leaves `slackwater serve` out");
    assert_eq!(is_left_out, !cfg!(feature = "serve"), "{told}");
}
