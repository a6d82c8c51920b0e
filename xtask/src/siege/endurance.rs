//! The long form: attacks of every kind, repeated with new seeds, on one process, while honest
//! clients continue.

use super::floods::{self, FLOODS};
use super::innocents::{Innocents, Tally};
use super::meters::mib;
use super::scores::{Score, Scores};
use super::setup::Protocol;
use super::setup::Setup;
use super::site::{Held, Proxy, Site};
use super::{fuzz, isolation, smuggling};
use crate::output::say;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

const PART: &str = "endurance";

/// Memory that the allocator may keep beyond the memory after the first round.
const SLACK_KIB: u64 = 32 << 10;

/// Values of memory over time that are shown.
const SHOWN: usize = 12;

pub(super) fn run(site: &Site<'_>, minutes: u64, scores: &mut Scores) -> Result<(), String> {
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    let h2c = site.start_go(3)?;
    let http1 = site.start_go(2)?;
    let mutating = fuzz::start_replica(Protocol::Http1)?;
    let mutating_h2c = fuzz::start_replica(Protocol::H2c)?;
    let services = [
        // Uploads that are not read, and the honest ones beside them.
        service(
            "h2c",
            &h2c.addresses,
            "h2c",
            &["path_prefix = \"/hang\"", "path_prefix = \"/h2c\""],
        ),
        service(
            "mutating",
            &[mutating.address],
            "http1",
            &["path_prefix = \"/a\""],
        ),
        service(
            "mutating-h2c",
            &[mutating_h2c.address],
            "h2c",
            &["path = \"/\""],
        ),
        "[[routes]]\nservice = \"default\"\n".to_owned(),
    ]
    .concat();
    let mut proxy = site.start_ours(&Setup {
        process: "timeouts.first_byte = \"10s\"\n",
        services: &services,
        ..Setup::new(2, &http1.addresses, Protocol::Http1)
    })?;
    proxy.warm_up()?;
    let at = proxy.at.http1;
    let over = AtomicBool::new(false);
    let (tallies, played) = std::thread::scope(|scope| {
        let innocents = ["", "/h2c"].map(|prefix| {
            let over = &over;
            scope.spawn(move || keep_asking(at, prefix, over))
        });
        let played = play(&mut proxy, site.seed, until);
        over.store(true, Ordering::Relaxed);
        let tallies = innocents.map(|thread| thread.join().unwrap_or_default());
        (tallies, played)
    });
    let played = played?;
    let rounds = played.course.len();
    for (tally, replicas) in tallies.iter().zip(["over HTTP/1.1", "over h2c"]) {
        let attack = format!("{minutes} minutes of attacks, {rounds} rounds; replicas {replicas}");
        let found = (tally.failed == 0 && tally.sent > 0, tally.to_string());
        scores.add(Score::alone(PART, "", attack, "0 innocents fail", found));
    }
    let found = (played.harmed == 0, format!("{} failed", played.harmed));
    let attack = "innocents right behind mutated requests";
    scores.add(Score::alone(PART, "", attack, "0 innocents fail", found));
    scores.add(afterwards(&proxy, &played.course)?);
    Ok(())
}

fn service(name: &str, addresses: &[SocketAddr], protocol: &str, paths: &[&str]) -> String {
    let addresses: Vec<_> = addresses.iter().map(|at| format!("\"{at}\"")).collect();
    let addresses = addresses.join(", ");
    let routes = paths
        .iter()
        .map(|path| format!("[[routes]]\n{path}\nservice = \"{name}\"\n"));
    let routes = routes.collect::<Vec<_>>().concat();
    format!(
        "[services.{name}]\nreplicas = [{addresses}]\nreplica.protocol = \"{protocol}\"\n\
         probe.transport = \"none\"\n{routes}"
    )
}

/// Results of the attackers.
#[derive(Debug, Default)]
struct Played {
    /// Memory after each round, in KiB.
    course: Vec<u64>,
    /// Honest requests right after mutated ones that failed.
    harmed: usize,
}

/// Plays rounds, each with its own seed.
fn play(proxy: &mut Proxy, first_seed: u64, until: Instant) -> Result<Played, String> {
    let at = proxy.at.http1;
    let mut played = Played::default();
    for seed in first_seed.. {
        played.harmed += smuggling::attack_http1(at, 100, seed).harmed.len();
        fuzz::attack(at, 2_000, seed);
        for flood in FLOODS {
            floods::besiege(at, flood, Duration::from_secs(1))?;
        }
        drop(isolation::upload(at, false)?);
        proxy.process.check_running()?;
        let resident = proxy.resident_kib();
        played.course.push(resident);
        say(&format!("seed {seed}: {}", mib(resident)));
        if Instant::now() >= until {
            break;
        }
    }
    Ok(played)
}

fn afterwards(proxy: &Proxy, course: &[u64]) -> Result<Score, String> {
    let held = proxy.settle()?;
    let resident = proxy.resident_kib();
    let first = course.first().copied().unwrap_or(resident);
    let step = course.len().div_ceil(SHOWN).max(1);
    let shown = course.iter().step_by(step);
    let shown: Vec<_> = shown.map(|kib| (kib >> 10).to_string()).collect();
    let panicked = proxy.has_panicked()?;
    let met = held == Held::default() && !panicked && resident <= first + SLACK_KIB;
    let log = if panicked { "a panic" } else { "no panic" };
    let found = format!(
        "{} in flight, {log}, {} (round by round, in MiB: {})",
        held.in_flight,
        mib(resident),
        shown.join(" ")
    );
    let bar = "0 in flight, no panic, memory as after the first round and 32 MiB at most";
    Ok(Score::alone(PART, "", "afterwards", bar, (met, found)))
}

/// Sends ten requests per second until `over`.
fn keep_asking(proxy: SocketAddr, prefix: &'static str, over: &AtomicBool) -> Tally {
    let mut tally = Tally::default();
    let mut posts = false;
    while !over.load(Ordering::Relaxed) {
        posts = !posts;
        let innocents = Innocents {
            requests: 50,
            per_second: 10,
            timeout: Duration::from_secs(5),
            posts,
            prefix,
        };
        tally.add(innocents.send(proxy));
    }
    tally
}
