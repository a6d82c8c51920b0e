//! Responses that their clients do not read, while other frames keep the connection looking alive.
//!
//! `timeouts.stall` must measure only the progress of responses. Responses that one client does not
//! read must use up neither the connections to a replica nor memory.

use super::contenders::Contender;
use super::innocents::{Innocents, Tally};
use super::meters::{Watch, mib};
use super::rogue::{self, Rogue};
use super::scores::{Score, Scores, Verdict};
use super::setup::Protocol;
use super::setup::Setup;
use super::site::Site;
use super::wire::{frames, http2};
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::panic::resume_unwind;
use std::time::Instant;

const PART: &str = "progress";

/// Streams of each connection. Eight connections hold all streams of eight connections to Go, which
/// allows 250 each.
const STREAMS: u32 = 256;

/// Timeout of honest clients, which wait for the flooded replica, too: one that serves 3,072
/// HTTP/1.1 connections at once needs seconds of CPU time for that, behind any proxy.
const FLOODED_MAX: Duration = Duration::from_secs(10);

/// `timeouts.stall` is 4 s; deadlines are up to a quarter late, and a busy machine is slow.
const CUT_MAX: Duration = Duration::from_secs(9);

/// What a client sends each second instead of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alive {
    Nothing,
    Ping,
    Settings,
    Priority,
    Unknown,
    ConnectionWindow,
}

impl Alive {
    const ALL: [Self; 6] = [
        Self::Nothing,
        Self::Ping,
        Self::Settings,
        Self::Priority,
        Self::Unknown,
        Self::ConnectionWindow,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Ping => "PING",
            Self::Settings => "SETTINGS",
            Self::Priority => "PRIORITY",
            Self::Unknown => "an unknown frame",
            Self::ConnectionWindow => "WINDOW_UPDATE",
        }
    }

    fn bytes(self) -> Vec<u8> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Ping => frames::ping(),
            Self::Settings => frames::settings(&[(frames::HEADER_TABLE_SIZE, 0)]),
            Self::Priority => frames::priority(1),
            Self::Unknown => frames::frame(frames::UNKNOWN, 0, 0, b"siege"),
            Self::ConnectionWindow => frames::window_update(0, 1),
        }
    }
}

pub(super) fn run(site: &Site<'_>, scores: &mut Scores) -> Result<(), String> {
    let go = match site.start_go(1) {
        Ok(go) => go,
        Err(why) => {
            scores.not_run(PART, "windows of zero", why);
            return Ok(());
        }
    };
    frames_that_move_nothing(site, &go.addresses, scores)?;
    let quiet = Rogue::start(rogue::honest)?;
    hold_all(
        site,
        &go.addresses,
        Protocol::Http1,
        Some(quiet.address),
        scores,
    )?;
    hold_all(site, &go.addresses, Protocol::H2c, None, scores)
}

/// One connection for each kind of frame. [finding 2a]
fn frames_that_move_nothing(
    site: &Site<'_>,
    replicas: &[SocketAddr],
    scores: &mut Scores,
) -> Result<(), String> {
    let besiege = |contender| -> Result<Vec<Alive>, String> {
        let proxy = site.start(contender, &Setup::new(1, replicas, Protocol::Http1))?;
        proxy.warm_up()?;
        let begun = Instant::now();
        let address = proxy.at.http2;
        let cut = std::thread::scope(|scope| {
            let clients = Alive::ALL.map(|alive| {
                let client = scope.spawn(move || hold(address, alive, 1, begun + CUT_MAX));
                (alive, client)
            });
            clients.map(|(alive, client)| (alive, client.join()))
        });
        let kept = cut.into_iter();
        let kept = kept.filter_map(|(alive, cut)| matches!(cut, Ok(Ok(false))).then_some(alive));
        Ok(kept.collect())
    };
    let text = |kept: &[Alive]| {
        if kept.is_empty() {
            return "all 6 were".to_owned();
        }
        let kept: Vec<_> = kept.iter().map(|alive| alive.name()).collect();
        format!("{} were; kept by {}", 6 - kept.len(), kept.join(", "))
    };
    let ours = besiege(Contender::Slackwater)?;
    let mut score = Score::alone(
        PART,
        "2a",
        "window 0, timeouts.stall of 4 s, and each second nothing, PING, SETTINGS, PRIORITY, an unknown frame, \
         WINDOW_UPDATE of the connection",
        "all 6 are cut off",
        (ours.is_empty(), text(&ours)),
    );
    for &peer in site.peers() {
        let found = besiege(peer);
        let found = found.map_or_else(|why| why, |kept| text(&kept));
        score = score.beside(peer, Some(found));
    }
    scores.add(score);
    Ok(())
}

/// Results of connections that hold all streams.
#[derive(Debug)]
struct Held {
    innocents: Tally,
    /// Honest clients of the flooded replica, if the others use another one.
    flooded: Option<Tally>,
    resident_kib: u64,
    cut: usize,
}

impl Held {
    fn text(&self) -> String {
        let flooded = self.flooded.as_ref();
        let flooded = flooded.map_or_else(String::new, |tally| format!("; beside them {tally}"));
        format!(
            "{}{flooded}; {}; {} cut",
            self.innocents,
            mib(self.resident_kib),
            self.cut
        )
    }

    fn failed(&self) -> usize {
        self.innocents.failed + self.flooded.as_ref().map_or(0, |tally| tally.failed)
    }
}

/// [findings 2b and 2c] With a `quiet` replica there are two kinds of honest clients: some send
/// requests to it, some to the flooded one.
fn hold_all(
    site: &Site<'_>,
    replicas: &[SocketAddr],
    protocol: Protocol,
    quiet: Option<SocketAddr>,
    scores: &mut Scores,
) -> Result<(), String> {
    let connections = site.pick(9, 12);
    // A debug build needs more of both.
    let resident_max = site.pick(260, 150);
    let timeout = Duration::from_secs(site.pick(8, 3));
    let besiege = |contender| -> Result<Held, String> {
        let setup = Setup {
            innocents: quiet,
            ..Setup::new(1, replicas, protocol)
        };
        let proxy = site.start(contender, &setup)?;
        proxy.warm_up()?;
        let watch = Watch::start(proxy.pid());
        let until = Instant::now() + CUT_MAX;
        let (cut, innocents, flooded) = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..connections)
                .map(|_| scope.spawn(|| hold(proxy.at.http2, Alive::Ping, STREAMS, until)))
                .collect();
            // The attack is complete before honest clients start.
            std::thread::sleep(Duration::from_secs(1));
            let innocents = Innocents {
                requests: site.pick(40, 120),
                per_second: 20,
                timeout,
                posts: false,
                prefix: "",
            };
            let flooded = quiet.map(|_| {
                let innocents = Innocents {
                    timeout: FLOODED_MAX,
                    prefix: "/flooded",
                    ..innocents
                };
                scope.spawn(move || innocents.send(proxy.at.http1))
            });
            let tally = innocents.send(proxy.at.http1);
            let flooded =
                flooded.map(|flooded| flooded.join().unwrap_or_else(|panic| resume_unwind(panic)));
            let cut = clients.into_iter().map(std::thread::ScopedJoinHandle::join);
            let cut = cut.filter(|cut| matches!(cut, Ok(Ok(true))));
            (cut.count(), tally, flooded)
        });
        Ok(Held {
            innocents,
            flooded,
            resident_kib: watch.most_kib(),
            cut,
        })
    };
    let (finding, name) = match protocol {
        Protocol::Http1 => ("2b", "HTTP/1.1"),
        Protocol::H2c => ("2c", "h2c"),
    };
    let attack = format!(
        "{connections} connections of 256 streams with window 0 and PING; replica over {name}"
    );
    let ours = besiege(Contender::Slackwater)?;
    let met =
        ours.failed() == 0 && ours.resident_kib <= resident_max << 10 && ours.cut == connections;
    let mut score = Score::alone(
        PART,
        finding,
        attack,
        format!("0 innocents fail, at most {resident_max} MiB, all {connections} are cut off"),
        (Verdict::from(met), ours.text()),
    );
    for &peer in site.peers() {
        let found = besiege(peer).map_or_else(|why| why, |held| held.text());
        score = score.beside(peer, Some(found));
    }
    scores.add(score);
    Ok(())
}

/// A client that requests `streams` large responses and reads none of them. Returns whether all
/// were cut off before `until`, one by one or with the connection.
fn hold(proxy: SocketAddr, alive: Alive, streams: u32, until: Instant) -> io::Result<bool> {
    const SECOND: Duration = Duration::from_secs(1);
    let mut connection = http2::Connection::open(proxy, 0, SECOND)?;
    let requests: Vec<_> = (0..streams)
        .map(frames::stream)
        .flat_map(|stream| frames::get(stream, "/large?bytes=524288"))
        .collect();
    connection.send(&requests)?;
    let mut ended = 0;
    let mut next = Instant::now() + SECOND;
    while Instant::now() < until {
        match connection.next(next.min(until)) {
            Ok(Some(frame)) => ended += u32::from(frame.ends()),
            Ok(None) => return Ok(true),
            // Nothing arrived for a second.
            Err(_) => {}
        }
        if ended >= streams {
            return Ok(true);
        }
        if Instant::now() >= next {
            next += SECOND;
            if connection.send(&alive.bytes()).is_err() {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
