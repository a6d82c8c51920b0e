//! Clients that do nothing while the process waits for them: at shutdown, in the admin server, at
//! the last free file descriptor.

use super::innocents::Innocents;
use super::scores::{Score, Scores};
use super::setup::Setup;
use super::site::Site;
use super::wire::{frames, http2};
use crate::loopback::http;
use core::time::Duration;
use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

/// It belongs to the floods.
pub(super) const PART: &str = "floods";
const WRITE_MAX: Duration = Duration::from_secs(3);

/// `timeouts.drain_idle` is 1 s, `timeouts.drain` 30 s; a busy machine is slow.
const END_MAX: Duration = Duration::from_secs(6);

/// The admin server's default limit of connections.
const ADMIN_HEADS: usize = 64;

/// Limit of open files for a process that runs out of them; the next constant: clients' connections
/// that use them up.
const FILES_MAX: usize = 128;
const CLIENTS: usize = 200;

pub(super) fn run(site: &Site<'_>, setup: &Setup<'_>, scores: &mut Scores) -> Result<(), String> {
    shutdown(site, setup, scores)?;
    admin_heads(site, setup, scores)?;
    files(site, setup, scores)
}

/// SIGTERM with an idle client that acknowledges nothing.
fn shutdown(site: &Site<'_>, setup: &Setup<'_>, scores: &mut Scores) -> Result<(), String> {
    let proxy = site.start_ours(setup)?;
    proxy.warm_up()?;
    let wrong = |error: std::io::Error| format!("an idle client: {error}");
    let mut idle = http2::Connection::open(proxy.at.http2, 65_535, WRITE_MAX).map_err(wrong)?;
    idle.send(&frames::get(1, "/idle")).map_err(wrong)?;
    // It has received its answer, and is idle now.
    let until = Instant::now() + WRITE_MAX;
    while let Ok(Some(frame)) = idle.next(until) {
        if frame.stream == 1 && frame.ends() {
            break;
        }
    }
    proxy.process.terminate()?;
    let begun = Instant::now();
    let ended = proxy.process.wait(Duration::from_secs(40))?;
    let took = begun.elapsed();
    drop(idle);
    scores.add(Score::alone(
        PART,
        "7",
        "SIGTERM beside an idle HTTP/2 client that acknowledges no PING",
        "ends within 6 s",
        (
            took <= END_MAX && ended.status.success(),
            format!("{:.1} s, {}", took.as_secs_f64(), ended.status),
        ),
    ));
    Ok(())
}

/// Endless heads, as many as the admin server's limit of connections.
fn admin_heads(site: &Site<'_>, setup: &Setup<'_>, scores: &mut Scores) -> Result<(), String> {
    let proxy = site.start_ours(setup)?;
    let mut unfinished = Vec::new();
    for _ in 0..ADMIN_HEADS {
        let wrong = |error: std::io::Error| format!("the admin server: {error}");
        let mut stream = TcpStream::connect(proxy.at.admin).map_err(wrong)?;
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n")
            .map_err(wrong)?;
        unfinished.push(stream);
    }
    let answer = http::get(proxy.at.admin, "/healthz");
    drop(unfinished);
    scores.add(Score::alone(
        PART,
        "7",
        "64 unfinished heads at the admin server, and /healthz",
        "answered within 2 s",
        outcome(answer),
    ));
    Ok(())
}

/// More clients than available files.
fn files(site: &Site<'_>, setup: &Setup<'_>, scores: &mut Scores) -> Result<(), String> {
    let proxy = site.start_ours(&Setup {
        files_max: Some(FILES_MAX),
        ..*setup
    })?;
    proxy.warm_up()?;
    let clients: Vec<_> = (0..CLIENTS)
        .map_while(|_| TcpStream::connect(proxy.at.http1).ok())
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let answer = http::get(proxy.at.admin, "/healthz");
    let attack = format!(
        "{} idle clients where {FILES_MAX} files may be open, and /healthz",
        clients.len()
    );
    drop(clients);
    scores.add(Score::alone(
        PART,
        "7",
        attack,
        "answered within 2 s",
        outcome(answer),
    ));
    let after = Innocents {
        requests: 20,
        per_second: 20,
        timeout: Duration::from_secs(5),
        posts: false,
        prefix: "",
    };
    // The proxy tries to accept again after a pause.
    std::thread::sleep(Duration::from_secs(1));
    let tally = after.send(proxy.at.http1);
    scores.add(Score::alone(
        PART,
        "",
        "the same, once the clients have gone",
        "0 innocents fail",
        (tally.failed == 0, tally.to_string()),
    ));
    Ok(())
}

fn outcome(answer: Result<http::Answer, String>) -> (bool, String) {
    match answer {
        Ok(answer) => (answer.status == 200, format!("{}", answer.status)),
        Err(why) => (false, why),
    }
}
