//! Memory that clients can make the proxy hold: uploads for a replica that reads nothing, twice,
//! and the memory that remains afterwards.

use super::meters::{Watch, mib};
use super::rogue::{self, Rogue};
use super::scores::{Score, Scores};
use super::setup::Protocol;
use super::setup::Setup;
use super::site::{Held, Proxy, Site};
use super::wire::frames::{self, frame};
use super::wire::http2;
use crate::loopback::processes::wait_for;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::time::Instant;

const PART: &str = "memory";

const CLIENTS: usize = 60;

/// Streams of each client, enough to use up its connection's window.
const STREAMS: u32 = 32;

const RESIDENT_MAX_KIB: u64 = 150 << 10;

/// Memory that the allocator keeps beyond a tenth more than at the start; it is reused, and
/// bounded.
const SLACK_KIB: u64 = 16 << 10;

/// Time from the end of the attack until memory is back. `timeouts.idle` is 3 s.
const BACK_MAX: Duration = Duration::from_secs(20);

const WRITE_MAX: Duration = Duration::from_millis(500);

pub(super) fn run(site: &Site<'_>, scores: &mut Scores) -> Result<(), String> {
    let replica = Rogue::start(rogue::mute)?;
    let honest = Rogue::start(rogue::honest)?;
    let replicas = [honest.address];
    let proxy = site.start_ours(&Setup {
        services: &format!(
            "[services.silent]\nreplicas = [\"{}\"]\nreplica.protocol = \"h2c\"\nprobe.transport = \"none\"\n\
             [[routes]]\npath_prefix = \"/upload\"\nservice = \"silent\"\n[[routes]]\nservice = \"default\"\n",
            replica.address
        ),
        ..Setup::new(2, &replicas, Protocol::Http1)
    })?;
    proxy.warm_up()?;
    let start = proxy.resident_kib();
    // The second time shows whether kept memory is reused.
    let rounds: &[&str] = site.pick(&["once"], &["first time", "second time"]);
    for round in rounds {
        let watch = Watch::start(proxy.pid());
        let sent = upload(proxy.at.http2)?;
        let most = watch.most_kib();
        let back = wait_until_back(&proxy, start)?;
        let bound = back_max(start);
        scores.add(Score::alone(
            PART,
            "6",
            format!("60 HTTP/2 clients upload to a replica that takes nothing, {round}"),
            "150 MiB at most; afterwards 0 in flight and 10 % more than at the start, with 16 MiB of allocator's slack",
            (
                most <= RESIDENT_MAX_KIB && back.1 <= bound && back.0 == Held::default(),
                format!(
                    "{} from {} for {} sent; afterwards {}, {} in flight",
                    mib(most),
                    mib(start),
                    mib(sent / 1024),
                    mib(back.1),
                    back.0.in_flight
                ),
            ),
        ));
    }
    Ok(())
}

const fn back_max(start_kib: u64) -> u64 {
    start_kib + start_kib / 10 + SLACK_KIB
}

/// Waits until memory is back, or for the longest time; returns what is held, and the memory.
fn wait_until_back(proxy: &Proxy, start_kib: u64) -> Result<(Held, u64), String> {
    let held = proxy.settle()?;
    let waited = wait_for("memory to be given back", BACK_MAX, || {
        let resident = proxy.resident_kib();
        Ok((resident <= back_max(start_kib)).then_some(resident))
    });
    Ok((held, waited.unwrap_or_else(|_| proxy.resident_kib())))
}

/// All clients send what their windows allow, stay for a second, and leave; returns the bytes sent.
fn upload(proxy: SocketAddr) -> Result<u64, String> {
    let mut clients = Vec::new();
    let mut sent = 0;
    for _ in 0..CLIENTS {
        let wrong = |error: io::Error| format!("an upload: {error}");
        let mut client = http2::Connection::open(proxy, 65_535, WRITE_MAX).map_err(wrong)?;
        sent += fill(&mut client).map_err(wrong)?;
        clients.push(client);
    }
    std::thread::sleep(Duration::from_secs(1));
    for client in clients {
        client.close();
    }
    Ok(sent)
}

/// Sends as much as the proxy's windows allow; the proxy extends them as it forwards bytes.
fn fill(client: &mut http2::Connection) -> io::Result<u64> {
    const QUIET: Duration = Duration::from_millis(30);
    const FRAME: u64 = 16_384;
    let (mut stream_window, mut window, mut sent) = (65_535, 65_535, 0);
    // Settings and the connection's window come first.
    read_windows(client, QUIET, &mut stream_window, &mut window);
    for id in (0..STREAMS).map(frames::stream) {
        client.send(&frames::headers(
            id,
            &frames::request("POST", "/upload"),
            false,
        ))?;
        let mut left = stream_window;
        while left.min(window) >= FRAME {
            let piece = vec![b'x'; usize::try_from(FRAME).unwrap_or_default()];
            client.send(&frame(frames::DATA, 0, id, &piece))?;
            left -= FRAME;
            window -= FRAME;
            sent += FRAME;
        }
        if window < FRAME {
            read_windows(client, QUIET, &mut stream_window, &mut window);
            if window < FRAME {
                break;
            }
        }
    }
    Ok(sent)
}

/// Reads the proxy's window updates until none arrives for a while.
fn read_windows(
    client: &mut http2::Connection,
    quiet: Duration,
    stream_window: &mut u64,
    window: &mut u64,
) {
    while let Ok(Some(frame)) = client.next(Instant::now() + quiet) {
        match frame.kind {
            frames::SETTINGS => {
                for setting in frame.payload.chunks_exact(6) {
                    if setting[..2] == frames::INITIAL_WINDOW_SIZE.to_be_bytes() {
                        *stream_window = number(&setting[2..]);
                    }
                }
            }
            frames::WINDOW_UPDATE if frame.stream == 0 => *window += number(&frame.payload),
            _ => {}
        }
    }
}

fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}
