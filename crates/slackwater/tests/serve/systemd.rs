//! What systemd passes and hears: sockets that are open already, and `sd_notify`.

use crate::clients::get;
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;
use std::collections::VecDeque;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tokio::net::{TcpStream, UnixDatagram};

/// `slackwater serve` as systemd starts it with this socket.
fn activated(socket: TcpListener, name: &str, words: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!(
        "LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES={name} exec \"$0\" serve --probe none --policy round_robin {words} \
         3<&0 </dev/null"
    );
    command
        .args(["-c", &script, env!("CARGO_BIN_EXE_slackwater")])
        .env_remove("RUST_LOG")
        .stdin(OwnedFd::from(socket));
    command
}

#[tokio::test]
async fn a_socket_that_systemd_opened_is_served_by_all_workers() {
    let replica = Replica::echo("r").await;
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // It waits already, and is not turned away.
    let early = TcpStream::connect(address).await.unwrap();
    let words = format!(
        "--workers 3 --admin 127.0.0.1:0 --listen {address} --replicas {}",
        replica.address
    );
    let proxy = Proxy::spawn_command(&mut activated(socket, "http", &words));
    assert_eq!(proxy.address, address);
    for _ in 0..20 {
        assert_eq!(get(address, "/").await.status, 200);
    }
    drop(early);
}

#[test]
fn a_socket_that_nothing_is_configured_for_is_refused() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let words = "--workers 1 --admin none --listen 127.0.0.1:0 --replicas 127.0.0.1:1";
    let output = activated(socket, "http", words).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains(&format!("systemd passed a socket at {address}")),
        "{error}"
    );
}

/// The socket at which a supervisor listens; it goes when this is dropped.
struct Supervisor {
    socket: UnixDatagram,
    path: PathBuf,
    heard: VecDeque<String>,
}

impl Supervisor {
    fn new(name: &str) -> Self {
        let name = format!("slackwater-notify-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        Self {
            socket: UnixDatagram::bind(&path).unwrap(),
            path,
            heard: VecDeque::new(),
        }
    }

    /// Waits for a line that begins so; what it says after that.
    async fn hears(&mut self, start: &str) -> String {
        loop {
            while let Some(line) = self.heard.pop_front() {
                if let Some(rest) = line.strip_prefix(start) {
                    return rest.to_owned();
                }
            }
            let mut message = [0; 4096];
            let receiving = self.socket.recv(&mut message);
            let bytes = tokio::time::timeout(crate::proxy::PATIENCE, receiving).await;
            let bytes = bytes
                .unwrap_or_else(|_| panic!("no {start} in time"))
                .unwrap();
            let text = String::from_utf8(message[..bytes].to_vec()).unwrap();
            self.heard.extend(text.lines().map(str::to_owned));
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[tokio::test]
async fn a_supervisor_hears_when_a_reload_begins_and_when_it_is_over() {
    let replica = Replica::echo("r").await;
    let mut supervisor = Supervisor::new("reload");
    let words = format!(
        "serve --probe none --policy round_robin --workers 1 --admin 127.0.0.1:0 --listen 127.0.0.1:0 --replicas {}",
        replica.address
    );
    let mut command = crate::proxy::slackwater(&words.split(' ').collect::<Vec<_>>());
    command.env("NOTIFY_SOCKET", &supervisor.path);
    let proxy = Proxy::spawn_command(&mut command);
    supervisor.hears("READY=1").await;
    for _ in 0..2 {
        proxy.signal("HUP");
        supervisor.hears("RELOADING=1").await;
        let time = supervisor.hears("MONOTONIC_USEC=").await;
        assert!(time.parse::<u64>().unwrap() > 0);
        supervisor.hears("READY=1").await;
    }
}

#[tokio::test]
async fn a_supervisor_hears_of_start_watchdog_successor_and_end() {
    let replica = Replica::echo("r").await;
    let mut supervisor = Supervisor::new("life");
    let words = format!(
        "serve --probe none --policy round_robin --workers 2 --admin 127.0.0.1:0 --listen 127.0.0.1:0 --replicas {}",
        replica.address
    );
    let mut command = crate::proxy::slackwater(&words.split(' ').collect::<Vec<_>>());
    command
        .env("NOTIFY_SOCKET", &supervisor.path)
        .env("WATCHDOG_USEC", "200000");
    let mut proxy = Proxy::spawn_command(&mut command);
    supervisor.hears("READY=1").await;
    supervisor.hears("WATCHDOG=1").await;

    proxy.signal("USR2");
    let successor = supervisor.hears("MAINPID=").await;
    assert_eq!(proxy.ended().await.code(), Some(0));
    supervisor.hears("WATCHDOG=1").await;
    let kill = |signal: &str| {
        Command::new("kill")
            .args([signal, &successor])
            .stderr(Stdio::null())
            .status()
    };
    assert!(kill("-TERM").unwrap().success());
    supervisor.hears("STOPPING=1").await;
    until("it has ended", async || {
        (!kill("-0").unwrap().success()).then_some(())
    })
    .await;
}
