//! Sockets that systemd has opened, and the reports to it by `sd_notify`.

use crate::clients::get;
use crate::proxy::{Proxy, unconfigured, until};
use crate::replicas::Replica;
use core::mem::MaybeUninit;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::io::IoSliceMut;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tokio::io::Interest;
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
        .stdin(OwnedFd::from(socket));
    unconfigured(&mut command);
    command
}

#[tokio::test]
async fn a_socket_that_systemd_opened_is_served_by_all_workers() {
    let replica = Replica::echo("r").await;
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    // It waits in the socket already, and is not rejected.
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
fn unconfigured_systemd_socket_is_refused() {
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

/// The socket at which a supervisor listens; removed when dropped.
struct Supervisor {
    socket: UnixDatagram,
    path: PathBuf,
}

/// The content of a message, and its sender.
struct Message {
    process: u32,
    text: String,
}

impl Message {
    /// The rest of the line with this beginning.
    fn line(&self, start: &str) -> Option<&str> {
        self.text.lines().find_map(|line| line.strip_prefix(start))
    }
}

impl Supervisor {
    fn new(name: &str) -> Self {
        let name = format!("slackwater-notify-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let socket = UnixDatagram::bind(&path).unwrap();
        rustix::net::sockopt::set_socket_passcred(&socket, true).unwrap();
        Self { socket, path }
    }

    /// Waits for a message of this process with such a line. Messages of other processes are
    /// ignored, as with `NotifyAccess=main`.
    async fn hears(&self, process: u32, start: &str) -> Message {
        let listening = async {
            loop {
                let receiving = (self.socket).async_io(Interest::READABLE, || self.receive());
                let message = receiving.await.unwrap();
                if message.process == process && message.line(start).is_some() {
                    return message;
                }
            }
        };
        let heard = tokio::time::timeout(crate::proxy::PATIENCE, listening).await;
        heard.unwrap_or_else(|_| panic!("no {start} in time"))
    }

    fn receive(&self) -> std::io::Result<Message> {
        let mut text = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut attached = RecvAncillaryBuffer::new(&mut space);
        let read = recvmsg(
            &self.socket,
            &mut [IoSliceMut::new(&mut text)],
            &mut attached,
            RecvFlags::DONTWAIT,
        )?;
        let sender = attached.drain().find_map(|told| match told {
            RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
            _ => None,
        });
        Ok(Message {
            process: sender.unwrap().as_raw_nonzero().get().try_into().unwrap(),
            text: String::from_utf8(text[..read.bytes].to_vec()).unwrap(),
        })
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

#[tokio::test]
async fn a_supervisor_is_notified_of_the_start_and_end_of_a_reload() {
    let replica = Replica::echo("r").await;
    let supervisor = Supervisor::new("reload");
    let words = format!(
        "serve --probe none --policy round_robin --workers 1 --admin 127.0.0.1:0 --listen 127.0.0.1:0 --replicas {}",
        replica.address
    );
    let mut command = crate::proxy::slackwater(&words.split(' ').collect::<Vec<_>>());
    command.env("NOTIFY_SOCKET", &supervisor.path);
    let proxy = Proxy::spawn_command(&mut command);
    let process = proxy.process_id();
    supervisor.hears(process, "READY=1").await;
    for _ in 0..2 {
        proxy.signal("HUP");
        let reloading = supervisor.hears(process, "RELOADING=1").await;
        let time = reloading.line("MONOTONIC_USEC=").unwrap();
        assert!(time.parse::<u64>().unwrap() > 0);
        supervisor.hears(process, "READY=1").await;
    }
}

/// A process that is not a child of the test. It does not outlive the test, however that ends.
struct Orphan {
    process: String,
    has_ended: bool,
}

impl Orphan {
    fn signal(&self, signal: &str) -> bool {
        let mut command = Command::new("kill");
        let sent = command.args([signal, &self.process]).stderr(Stdio::null());
        sent.status().unwrap().success()
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        // Once it has ended, its process id may belong to another process.
        if !self.has_ended {
            self.signal("-KILL");
        }
    }
}

#[tokio::test]
async fn a_supervisor_is_notified_of_start_watchdog_successor_and_end() {
    let replica = Replica::echo("r").await;
    let supervisor = Supervisor::new("life");
    let words = format!(
        "serve --probe none --policy round_robin --workers 2 --admin 127.0.0.1:0 --listen 127.0.0.1:0 --replicas {}",
        replica.address
    );
    // The number is that of the shell, which the program replaces.
    let script = format!("WATCHDOG_PID=$$ exec \"$0\" {words}");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, env!("CARGO_BIN_EXE_slackwater")])
        .env("NOTIFY_SOCKET", &supervisor.path)
        .env("WATCHDOG_USEC", "200000");
    unconfigured(&mut command);
    let mut proxy = Proxy::spawn_command(&mut command);
    let old = proxy.process_id();
    supervisor.hears(old, "READY=1").await;
    supervisor.hears(old, "WATCHDOG=1").await;

    proxy.signal("USR2");
    let handed_over = supervisor.hears(old, "MAINPID=").await;
    let mut successor = Orphan {
        process: handed_over.line("MAINPID=").unwrap().to_owned(),
        has_ended: false,
    };
    assert!(
        handed_over.line("WATCHDOG=1").is_some(),
        "the new process has all of the watchdog's time: {}",
        handed_over.text
    );
    let process = successor.process.parse().unwrap();
    supervisor.hears(process, "WATCHDOG=1").await;
    assert_eq!(proxy.ended().await.code(), Some(0));
    assert!(successor.signal("-TERM"));
    supervisor.hears(process, "STOPPING=1").await;
    until("it has ended", async || {
        (!successor.signal("-0")).then_some(())
    })
    .await;
    successor.has_ended = true;
}
