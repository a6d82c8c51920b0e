//! Aborted messages must not arrive as complete ones. [RFC 9113 §8.1]
//!
//! Node's HTTP/2 aborts with `RST_STREAM(NO_ERROR)`, in requests and in responses, so the code
//! carries no information: a message without `END_STREAM` is incomplete.

use super::scores::{Score, Scores};
use super::setup::Protocol;
use super::setup::Setup;
use super::site::{Servers, Site};
use super::wire::{frames, http1, http2};
use crate::loopback::processes::wait_for;
use core::net::SocketAddr;
use core::time::Duration;
use std::time::Instant;

const PART: &str = "endings";

/// Codes that clients send when they abort: `NO_ERROR`, `CANCEL` and `STREAM_CLOSED`.
const CODES: [u32; 3] = [frames::NO_ERROR, frames::CANCEL, 5];

const WAIT_MAX: Duration = Duration::from_secs(5);

type Start = for<'s> fn(&'s Site<'_>) -> Result<Servers, String>;

/// Each kind of server, with its protocol.
const SERVERS: [(&str, Protocol, Start); 4] = [
    ("Go over HTTP/1.1", Protocol::Http1, |site| site.start_go(1)),
    ("Go over h2c", Protocol::H2c, |site| site.start_go(1)),
    ("Node over HTTP/1.1", Protocol::Http1, |site| {
        site.start_node(Protocol::Http1)
    }),
    ("Node over h2c", Protocol::H2c, |site| {
        site.start_node(Protocol::H2c)
    }),
];

pub(super) fn run(site: &Site<'_>, scores: &mut Scores) -> Result<(), String> {
    for (name, protocol, start) in SERVERS {
        let attack = format!("uploads given up with RST_STREAM 0, 8 and 5, to {name}");
        let mut servers = match start(site) {
            Ok(servers) => servers,
            Err(why) => {
                scores.not_run(PART, &attack, why);
                continue;
            }
        };
        let proxy = site.start_ours(&Setup::new(1, &servers.addresses, protocol))?;
        proxy.warm_up()?;
        let mut wrong = Vec::new();
        for code in CODES {
            if is_taken_for_whole(proxy.at.http2, &mut servers, code)? {
                wrong.push(code.to_string());
            }
        }
        let found = if wrong.is_empty() {
            "all were broken off".to_owned()
        } else {
            format!("complete with code {}", wrong.join(", "))
        };
        let bar = "the server sees none as complete";
        scores.add(Score::alone(
            PART,
            "3",
            attack,
            bar,
            (wrong.is_empty(), found),
        ));
    }
    responses(site, scores)
}

/// Sends half of a body and aborts; returns whether the server treated it as complete.
fn is_taken_for_whole(proxy: SocketAddr, servers: &mut Servers, code: u32) -> Result<bool, String> {
    let path = format!("/given-up-{code}");
    let wrong = |error: std::io::Error| format!("{path}: {error}");
    let mut client = http2::Connection::open(proxy, 65_535, WAIT_MAX).map_err(wrong)?;
    let head = frames::headers(1, &frames::request("POST", &path), false);
    client.send(&head).map_err(wrong)?;
    client
        .send(&frames::frame(frames::DATA, 0, 1, b"half"))
        .map_err(wrong)?;
    // Half of the body must be at the server before the abort; Go answers only at the end.
    std::thread::sleep(Duration::from_millis(100));
    client.send(&frames::reset(1, code)).map_err(wrong)?;
    wait_for(&format!("the server to see {path}"), WAIT_MAX, || {
        let log = servers.read_log()?;
        let mut lines = log
            .lines()
            .filter(|line| line.contains(&format!(" {path} ")));
        Ok(lines.next().map(|line| line.starts_with("complete")))
    })
}

/// A response that Node's server aborts half-way, to clients of both protocols.
fn responses(site: &Site<'_>, scores: &mut Scores) -> Result<(), String> {
    let attack = "a response given up with RST_STREAM(NO_ERROR), from Node over h2c";
    let node = match site.start_node(Protocol::H2c) {
        Ok(node) => node,
        Err(why) => {
            scores.not_run(PART, attack, why);
            return Ok(());
        }
    };
    let proxy = site.start_ours(&Setup::new(1, &node.addresses, Protocol::H2c))?;
    proxy.warm_up()?;
    let mut wrong = Vec::new();
    if http1::ask(proxy.at.http1, &http1::get("/destroyed"), WAIT_MAX).is_ok() {
        wrong.push("HTTP/1.1");
    }
    let mut client = http2::Connection::open(proxy.at.http2, 65_535, WAIT_MAX)
        .map_err(|error| format!("{attack}: {error}"))?;
    client
        .send(&frames::get(1, "/destroyed"))
        .map_err(|error| format!("{attack}: {error}"))?;
    let until = Instant::now() + WAIT_MAX;
    while let Ok(Some(frame)) = client.next(until) {
        if frame.stream == 1 && frame.ends() {
            if frame.kind != frames::RST_STREAM {
                wrong.push("HTTP/2");
            }
            break;
        }
    }
    let found = if wrong.is_empty() {
        "broken off for both".to_owned()
    } else {
        format!("complete for clients of {}", wrong.join(" and "))
    };
    let bar = "no client sees it as complete";
    scores.add(Score::alone(
        PART,
        "3",
        attack,
        bar,
        (wrong.is_empty(), found),
    ));
    Ok(())
}
