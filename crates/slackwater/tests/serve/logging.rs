//! The process's own log, when it is not read.

use crate::clients::{Client, get};
use crate::proxy::{PATIENCE, address_in, slackwater, until};
use crate::replicas::Replica;
use core::net::SocketAddr;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Stdio};

/// Number of lines that do not fit into a pipe and the buffer before it.
const BAD_REQUESTS: usize = 4000;

/// A process whose log is read up to the line "serving", and then no further.
struct Unread {
    child: Child,
    log: BufReader<ChildStderr>,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Unread {
    fn start(replica: SocketAddr) -> Self {
        let mut unread = Self::spawn(replica, &["--log-level", "debug"]);
        unread.admin = address_in(&unread.line("status and metrics"));
        unread.address = address_in(&unread.line("serving"));
        unread
    }

    /// Starts a process. None of its log has been read.
    fn spawn(replica: SocketAddr, arguments: &[&str]) -> Self {
        let replica = replica.to_string();
        let mut child = slackwater(&["serve", "--listen", "127.0.0.1:0", "--replicas", &replica])
            .args([
                "--workers",
                "1",
                "--probe",
                "none",
                "--admin",
                "127.0.0.1:0",
            ])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(child.stderr.take().unwrap());
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Self {
            child,
            log,
            address: nowhere,
            admin: nowhere,
        }
    }

    /// Reads up to the next line that contains the text.
    fn line(&mut self, text: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "no {text:?}");
            if line.contains(text) {
                return line.trim_end().to_owned();
            }
        }
    }

    async fn lost(&self) -> u64 {
        let page = get(self.admin, "/metrics").await;
        let line = page
            .text()
            .lines()
            .find_map(|line| line.strip_prefix("slackwater_log_lost_lines_total "));
        line.unwrap().parse().unwrap()
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_default_policy_is_logged_once() {
    let replica = Replica::echo("r").await;
    for (policy, expected) in [(&[][..], 1), (&["--policy", "shortest_expected_delay"], 0)] {
        let mut proxy = Unread::spawn(replica.address, policy);
        let mut told = Vec::new();
        loop {
            let line = proxy.line("");
            if line.contains("serving") {
                break;
            }
            told.extend(line.contains("using the default policy").then_some(line));
        }
        assert_eq!(told.len(), expected, "{told:?}");
        for line in told {
            assert!(line.contains("INFO"), "{line}");
            assert!(
                line.contains("policy=\"shortest_expected_delay\""),
                "{line}"
            );
            assert!(
                line.contains("docs/explanation/choosing-a-policy.md"),
                "{line}"
            );
        }
    }
}

#[tokio::test]
async fn an_unread_log_delays_no_request_and_no_shutdown() {
    let replica = Replica::echo("r").await;
    let mut proxy = Unread::start(replica.address);
    for _ in 0..BAD_REQUESTS {
        let mut client = Client::connect(proxy.address).await;
        client.send("bad\r\n\r\n").await;
        assert_eq!(client.answer().await.status, 400);
    }
    assert_eq!(get(proxy.address, "/").await.status, 200);
    let lost = proxy.lost().await;
    assert!(lost > 0, "the log took {BAD_REQUESTS} lines");

    // It ends although its last lines are not read, and the written lines are complete.
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&proxy.child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    let status = until("it ends", async || proxy.child.try_wait().unwrap()).await;
    assert!(status.success(), "{status} within {PATIENCE:?}");
    let mut rest = String::new();
    proxy.log.read_to_string(&mut rest).unwrap();
    assert!(rest.lines().count() as u64 <= BAD_REQUESTS as u64 - lost);
}

#[tokio::test]
async fn the_number_of_lost_lines_is_logged_once_the_log_is_read_again() {
    let replica = Replica::echo("r").await;
    let mut proxy = Unread::start(replica.address);
    while proxy.lost().await == 0 {
        for _ in 0..BAD_REQUESTS / 10 {
            let mut client = Client::connect(proxy.address).await;
            client.send("bad\r\n\r\n").await;
            client.answer().await;
        }
    }
    // Lines about the last connections may be lost a little later.
    let least = proxy.lost().await;
    let line = proxy.line("log lines lost");
    let (_, told) = line.split_once("lines=").unwrap();
    let told: u64 = told.split(' ').next().unwrap().parse().unwrap();
    let most = proxy.lost().await;
    assert!((least..=most).contains(&told), "{line}: {least} to {most}");
}
