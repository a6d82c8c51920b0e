//! The proxy's CPU time for one connection while a request of another one waits.
//!
//! The verdict is CPU time of the process between an honest request and its response, with one
//! worker. It depends on the order of the proxy's work, and hardly on other load of the machine.
//! Honest clients have their own replica, because the flooded one has its own queue.

mod floods;

use super::contenders::Contender;
use super::meters::cpu_time;
use super::rogue::{self, Rogue};
use super::scores::{Score, Scores};
use super::setup::Protocol;
use super::setup::Setup;
use super::site::{Proxy, Site};
use super::wire::http1;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use floods::{FLOODS, Flood};
use rustix::process::setpriority_process;
use std::io;
use std::net::TcpStream;
use std::time::Instant;

const PART: &str = "fairness";

/// Under any flood, 95 of 100 honest requests wait no longer than this.
const WAITS_MAX: Duration = Duration::from_millis(20);

/// The limit in the short form, which may use a debug build.
const SHORT_WAITS_MAX: Duration = Duration::from_millis(200);

/// Below this, the honest request's own cost decides; `HAProxy` counts with at least half of it.
const FLOOR: Duration = Duration::from_millis(5);

/// An honest request that takes longer has failed.
const INNOCENT_MAX: Duration = Duration::from_secs(10);

/// Priority of the threads that send and answer honest requests.
const FIRST: i32 = -20;

/// Pause between two honest requests.
const PAUSE: Duration = Duration::from_millis(20);

pub(super) fn run(site: &Site<'_>, scores: &mut Scores) -> Result<(), String> {
    let go = match site.start_go(1) {
        Ok(go) => go,
        Err(why) => {
            scores.not_run(PART, "floods", why);
            return Ok(());
        }
    };
    let drip = Rogue::start(rogue::honest)?;
    let innocents = Rogue::start(prompt)?;
    for flood in FLOODS {
        let replica = if flood.by_replica {
            drip.address
        } else {
            go.addresses[0]
        };
        let replicas = [replica];
        let besiege = |contender| {
            let setup = Setup {
                innocents: Some(innocents.address),
                ..Setup::new(1, &replicas, Protocol::Http1)
            };
            let proxy = site.start(contender, &setup)?;
            besiege(site, &proxy, flood)
        };
        let ours: Waits = besiege(Contender::Slackwater)?;
        let mut bar = site.pick(SHORT_WAITS_MAX, WAITS_MAX);
        let mut peers = Vec::new();
        for &peer in site.peers() {
            let found = besiege(peer);
            // The bar is twice HAProxy's time, unless HAProxy ended the attack by closing the
            // connection.
            if let (Contender::Haproxy, Ok(waits)) = (peer, &found)
                && !waits.closed
            {
                bar = bar.min((2 * waits.p95()).max(FLOOR));
            }
            let found = found.map_or_else(|why| why, |waits| waits.text());
            peers.push((peer, found));
        }
        let met = ours.failed == 0 && ours.p95() <= bar;
        let mut score = Score::alone(
            PART,
            "4",
            format!("CPU time while an innocent request waits: {}", flood.name),
            format!("95 of 100 at most {} ms", millis(bar)),
            (met, ours.text()),
        );
        for (peer, found) in peers {
            score = score.beside(peer, Some(found));
        }
        scores.add(score);
    }
    Ok(())
}

/// The replica of honest clients: it answers at once, with priority if permitted.
fn prompt(stream: TcpStream, number: u64) -> io::Result<()> {
    let _ = setpriority_process(None, FIRST);
    rogue::honest(stream, number)
}

/// CPU time of the proxy while honest requests waited, one value for each.
#[derive(Debug)]
struct Waits {
    cpu_times: Vec<Duration>,
    failed: usize,
    /// Whether the attacker was cut off, so that most requests had no attack beside them.
    closed: bool,
}

impl Waits {
    /// The 95th percentile. The maximum of a few is mostly noise of this machine: a thread that was
    /// woken late.
    fn p95(&self) -> Duration {
        self.at(self.cpu_times.len() * 19 / 20)
    }

    fn at(&self, index: usize) -> Duration {
        let last = self.cpu_times.len().saturating_sub(1);
        self.cpu_times
            .get(index.min(last))
            .copied()
            .unwrap_or_default()
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{} ms, median {}, worst {}",
            millis(self.p95()),
            millis(self.at(self.cpu_times.len() / 2)),
            millis(self.at(usize::MAX)),
        );
        if self.failed > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, ", {} failed", self.failed);
        }
        if self.closed {
            text += ", attacker cut off";
        }
        text
    }
}

fn millis(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1_000.0)
}

/// One attacking connection, and honest requests one after another on another one.
fn besiege(site: &Site<'_>, proxy: &Proxy, flood: &Flood) -> Result<Waits, String> {
    let (requests, time_max) =
        site.pick((10, Duration::from_secs(1)), (60, Duration::from_secs(10)));
    proxy.warm_up()?;
    let wrong = |error: io::Error| format!("an innocent request: {error}");
    let mut innocent = http1::Connection::open(proxy.at.http1, INNOCENT_MAX).map_err(wrong)?;
    let request = http1::get("/innocent");
    innocent.ask(&request, INNOCENT_MAX).map_err(wrong)?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| (flood.play)(proxy, &over));
        // Until the flood has started.
        std::thread::sleep(Duration::from_millis(300));
        let mut found = Waits {
            cpu_times: Vec::new(),
            failed: 0,
            closed: false,
        };
        // With priority, if permitted: the proxy's work until this thread is woken counts, too.
        let _ = setpriority_process(None, FIRST);
        let begun = Instant::now();
        for _ in 0..requests {
            let before = cpu_time(proxy.pid());
            match innocent.ask(&request, INNOCENT_MAX) {
                Ok(response) if response.status == 200 => {
                    found
                        .cpu_times
                        .push(cpu_time(proxy.pid()).saturating_sub(before));
                }
                _ => {
                    found.failed += 1;
                    break;
                }
            }
            if begun.elapsed() > time_max {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let _ = setpriority_process(None, 0);
        // An attacker that is still connected has not been cut off.
        found.closed = attacker.is_finished();
        over.store(true, Ordering::Relaxed);
        found.cpu_times.sort_unstable();
        attacker
            .join()
            .map_err(|_| format!("{}: the attacker panicked", flood.name))?
            .map_err(|error| format!("{}: {error}", flood.name))?;
        Ok(found)
    })
}
