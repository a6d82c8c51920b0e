//! Replacing the running process by a new one under load: only the log shows it.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, slackwater, until};
use crate::replicas::Replica;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use tokio::sync::Notify;

/// A configuration file that is removed when this is dropped.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let name = format!("slackwater-upgrade-{name}-{}.toml", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn write(&self, replica: SocketAddr, workers: u32) {
        let text = format!(
            "listen = \"127.0.0.1:0\"\nworkers = {workers}\npolicy = \"round_robin\"\nreplicas = [\"{replica}\"]\n\
             [probe]\ntransport = \"none\"\n[admin]\nlisten = \"127.0.0.1:0\"\n"
        );
        std::fs::write(&self.0, text).unwrap();
    }

    fn start(&self) -> Proxy {
        Proxy::spawn(&["serve", "--config", self.0.to_str().unwrap()])
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A successor. It is not a child of the test, and it is killed when this is dropped.
pub(crate) struct Successor(u32);

impl Successor {
    pub(crate) const fn id(&self) -> u32 {
        self.0
    }

    pub(crate) fn signal(&self, name: &str) {
        let _ = Command::new("kill")
            .args([&format!("-{name}"), &self.0.to_string()])
            .status();
    }

    pub(crate) async fn ended(&self) {
        until("the successor has ended", async || {
            let status =
                std::fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
            let state = status.rsplit_once(") ").map_or("gone", |(_, state)| state);
            (state == "gone" || state.starts_with('Z')).then_some(())
        })
        .await;
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        self.signal("KILL");
    }
}

/// The id of the process that answers now.
pub(crate) async fn process(proxy: &Proxy) -> u32 {
    let status = proxy.status().await;
    status["process"].as_u64().unwrap().try_into().unwrap()
}

pub(crate) async fn successor_of(proxy: &Proxy, old: u32) -> Successor {
    proxy.log_line("upgrade complete");
    Successor(
        until("another process answers", async || {
            let process = process(proxy).await;
            (process != old).then_some(process)
        })
        .await,
    )
}

/// Clients that send requests all the time: two open a connection for each request, two keep one.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(address: SocketAddr) -> Self {
        let mut load = Self {
            stop: Arc::default(),
            answered: Arc::default(),
            tasks: Vec::new(),
        };
        for number in 0..4 {
            let (stop, answered) = (Arc::clone(&load.stop), Arc::clone(&load.answered));
            let field = if number % 2 == 0 {
                "close"
            } else {
                "keep-alive"
            };
            let ask = format!("GET / HTTP/1.1\r\nhost: x\r\nconnection: {field}\r\n\r\n");
            load.tasks.push(tokio::spawn(async move {
                let mut kept = None;
                while !stop.load(Relaxed) {
                    let mut client = match kept.take() {
                        Some(client) => client,
                        None => Client::connect(address).await,
                    };
                    client.send(&ask).await;
                    let answer = client.answer().await;
                    assert_eq!(answer.status, 200);
                    answered.fetch_add(1, Relaxed);
                    // Without `connection: close` the connection may be reused.
                    if answer.field("connection") != Some("close") {
                        kept = Some(client);
                    }
                }
            }));
        }
        load
    }

    /// Waits until this many more requests are answered.
    async fn go_on(&self, requests: usize) {
        let goal = self.answered.load(Relaxed) + requests;
        until("requests are answered", async || {
            (self.answered.load(Relaxed) >= goal).then_some(())
        })
        .await;
    }

    /// Checks that no client had an error.
    async fn end(self) {
        self.stop.store(true, Relaxed);
        for task in self.tasks {
            task.await.expect("a request failed");
        }
    }
}

#[tokio::test]
async fn two_upgrades_in_a_row_fail_no_request() {
    let replica = Replica::echo("r").await;
    let file = File::new("twice");
    file.write(replica.address, 2);
    let mut proxy = file.start();
    let load = Load::start(proxy.address);
    load.go_on(50).await;

    let first = process(&proxy).await;
    proxy.signal("USR2");
    let second = successor_of(&proxy, first).await;
    load.go_on(50).await;
    assert_eq!(proxy.ended().await.code(), Some(0));
    load.go_on(50).await;

    second.signal("USR2");
    let third = successor_of(&proxy, second.0).await;
    load.go_on(50).await;
    second.ended().await;
    load.go_on(50).await;
    load.end().await;
    third.signal("TERM");
    third.ended().await;
}

#[tokio::test]
async fn the_number_of_workers_may_change() {
    let replica = Replica::echo("r").await;
    let file = File::new("workers");
    file.write(replica.address, 3);
    let proxy = file.start();
    let load = Load::start(proxy.address);
    let mut processes = vec![Successor(process(&proxy).await)];
    for workers in [1, 4, 2] {
        file.write(replica.address, workers);
        let current = processes.last().unwrap();
        current.signal("USR2");
        let next = successor_of(&proxy, current.0).await;
        // Enough connections for each socket to get some.
        load.go_on(200).await;
        current.ended().await;
        load.go_on(200).await;
        processes.push(next);
    }
    load.end().await;
}

#[tokio::test]
async fn upgrade_after_reloads_passes_the_current_sockets() {
    let replica = Replica::echo("r").await;
    let file = File::new("reloaded");
    let write = |addresses: &[SocketAddr], idle: u32| {
        let addresses: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
        let text = format!(
            "listen = {addresses:?}\nworkers = 2\npolicy = \"round_robin\"\nreplicas = [\"{}\"]\n\
             timeouts.idle = \"{idle}s\"\n[probe]\ntransport = \"none\"\n[admin]\nlisten = \"127.0.0.1:0\"\n",
            replica.address
        );
        std::fs::write(&file.0, text).unwrap();
    };
    // One port, at addresses that no other test uses.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let at = |host: u8| SocketAddr::from(([127, 93, 0, host], port));
    write(&[at(1), at(2)], 60);
    let mut proxy = file.start();
    let load = Load::start(at(1));
    load.go_on(20).await;
    // Other settings for the existing sockets; then one is closed, and another one is opened.
    for (addresses, idle) in [
        ([at(1), at(2)], 61),
        ([at(1), at(3)], 61),
        ([at(1), at(3)], 62),
    ] {
        write(&addresses, idle);
        proxy.signal("HUP");
        proxy.log_line("configuration reloaded");
        load.go_on(20).await;
    }
    let first = process(&proxy).await;
    proxy.signal("USR2");
    let second = successor_of(&proxy, first).await;
    load.go_on(50).await;
    assert_eq!(proxy.ended().await.code(), Some(0));
    assert_eq!(get(at(3), "/").await.status, 200);
    assert!(
        tokio::net::TcpStream::connect(at(2)).await.is_err(),
        "what a reload has closed stays closed"
    );

    // The successor does both as well.
    write(&[at(1), at(2)], 63);
    second.signal("HUP");
    until("the successor listens at the new address", async || {
        tokio::net::TcpStream::connect(at(2)).await.ok().map(drop)
    })
    .await;
    second.signal("USR2");
    let third = successor_of(&proxy, second.0).await;
    load.go_on(50).await;
    second.ended().await;
    assert_eq!(get(at(2), "/").await.status, 200);
    load.end().await;
    drop(third);
}

/// A proxy with a running request, whose replica answers when notified.
struct Running {
    proxy: Proxy,
    busy: Client,
    go_on: Arc<Notify>,
    _replica: Replica,
    _file: File,
}

impl Running {
    async fn start(name: &str) -> Self {
        let go_on = Arc::new(Notify::new());
        let replica = Replica::slow(&go_on, "done").await;
        let file = File::new(name);
        file.write(replica.address, 1);
        let proxy = file.start();
        let mut busy = Client::connect(proxy.address).await;
        busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
        until("the request is out", async || {
            (proxy.sum("/in_flight").await == 1).then_some(())
        })
        .await;
        Self {
            proxy,
            busy,
            go_on,
            _replica: replica,
            _file: file,
        }
    }
}

#[tokio::test]
async fn requests_that_run_are_finished_by_the_old_process() {
    let mut running = Running::start("running").await;
    let old = process(&running.proxy).await;
    running.proxy.signal("USR2");
    let new = successor_of(&running.proxy, old).await;
    assert_eq!(get(running.proxy.address, "/").await.status, 200);
    assert!(running.proxy.is_running());
    running.go_on.notify_one();
    let answer = running.busy.answer().await;
    assert_eq!((answer.status, answer.text()), (200, "done"));
    assert!(
        running.busy.rest().await.is_empty(),
        "its connection ends with the process"
    );
    assert_eq!(running.proxy.ended().await.code(), Some(0));
    drop(new);
}

/// What a process that drains logs when its successor ends by this signal.
async fn logged_of_successor(name: &str, signal: &str) -> String {
    let mut running = Running::start(name).await;
    let old = process(&running.proxy).await;
    running.proxy.signal("USR2");
    let new = successor_of(&running.proxy, old).await;
    new.signal(signal);
    let line = running.proxy.log_line("new process ended");
    assert!(line.contains(&format!("process={}", new.0)), "{line}");
    running.go_on.notify_one();
    assert_eq!(running.busy.answer().await.text(), "done");
    assert_eq!(running.proxy.ended().await.code(), Some(0));
    line
}

#[tokio::test]
async fn successor_crash_is_logged_while_the_old_process_drains() {
    let line = logged_of_successor("dies", "KILL").await;
    assert!(line.contains("ERROR"), "{line}");
    assert!(
        line.contains("new process ended: no process accepts connections"),
        "{line}"
    );
    assert!(line.contains("start slackwater again"), "{line}");
}

#[tokio::test]
async fn successor_that_is_stopped_is_no_alarm_while_the_old_process_drains() {
    let line = logged_of_successor("stopped", "TERM").await;
    assert!(line.contains("INFO"), "{line}");
}

#[tokio::test]
async fn failed_upgrade_leaves_the_old_process_serving() {
    let replica = Replica::echo("r").await;
    let file = File::new("fails");
    file.write(replica.address, 2);
    let proxy = file.start();
    let load = Load::start(proxy.address);
    let old = process(&proxy).await;
    std::fs::write(&file.0, "listen = 7\n").unwrap();
    proxy.signal("USR2");
    let line = proxy.log_line("upgrade failed");
    assert!(line.contains("exit status: 2"), "{line}");
    assert_eq!(process(&proxy).await, old);
    load.go_on(20).await;

    // The next attempt may succeed.
    file.write(replica.address, 2);
    proxy.signal("USR2");
    let new = successor_of(&proxy, old).await;
    load.go_on(20).await;
    load.end().await;
    drop(new);
}

#[test]
fn hand_over_variable_without_sockets_is_refused() {
    let output = slackwater(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--replicas",
        "127.0.0.1:1",
        "--admin",
        "none",
    ])
    .env("SLACKWATER_HAND_OVER", "stdin")
    .output()
    .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.contains("no sockets come from a running slackwater"),
        "{error}"
    );
}
