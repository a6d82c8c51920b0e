//! The command without the parts that a sidecar's image leaves out: it serves a request over real
//! sockets, and has exactly the sub-commands of its features. `cargo xtask test` runs this with
//! `--no-default-features`.

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

/// A server that answers one request.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut head = BufReader::new(client.try_clone().unwrap()).lines();
        while !head.next().unwrap().unwrap().is_empty() {}
        client
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")
            .unwrap();
    });
    address
}

#[test]
fn a_request_is_served() {
    let replica = server().to_string();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--replicas", &replica];
    let mut process = Process(
        Command::new(SLACKWATER)
            .args(serve)
            .args(["--probe", "none", "--admin", "none", "--workers", "1"])
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut log = BufReader::new(process.0.stderr.take().unwrap()).lines();
    let address = log.find_map(|line| {
        let line = line.unwrap();
        let (_, rest) = line.split_once(" serving ")?;
        let address = rest.split_once("address=")?.1;
        address.split(' ').next()?.parse::<SocketAddr>().ok()
    });
    let mut client = TcpStream::connect(address.unwrap()).unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nhello"), "{answer}");
}

#[test]
fn subcommands_match_the_enabled_features() {
    let help = Command::new(SLACKWATER).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let has = |name: &str| help.lines().any(|line| line.trim_start().starts_with(name));
    for (name, is_built) in [
        ("serve ", true),
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
