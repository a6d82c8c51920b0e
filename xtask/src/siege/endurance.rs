//! The long form: attacks of every kind, again and again with new seeds, on one process, while innocents keep running.

use super::contenders::Protocol;
use super::floods::{self, FLOODS};
use super::innocents::{Innocents, Tally};
use super::meters::mib;
use super::rogue::{self, Rogue};
use super::scores::{Score, Scores};
use super::site::{Held, Setup, Site};
use super::{fuzz, isolation, smuggling};
use crate::run::say;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

const PART: &str = "endurance";

/// What the allocator may keep beyond the memory after the first round.
const SLACK_KIB: u64 = 32 << 10;

/// Values of the course of memory that are shown.
const SHOWN: usize = 12;

pub(super) fn run(site: &Site<'_>, minutes: u64, scores: &mut Scores) -> Result<(), String> {
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    let h2c = site.start_go(3)?;
    let http1 = site.start_go(2)?;
    let mutating = fuzz::start_replica(Protocol::Http1)?;
    let mutating_h2c = fuzz::start_replica(Protocol::H2c)?;
    let patient = Rogue::start(rogue::honest)?;
    let service = |name: &str, addresses: &[SocketAddr], protocol: &str, path: &str| {
        let addresses: Vec<_> = addresses.iter().map(|at| format!("\"{at}\"")).collect();
        format!(
            "[services.{name}]\nreplicas = [{}]\nreplica.protocol = \"{protocol}\"\nprobe.transport = \"none\"\n\
             [[routes]]\n{path}\nservice = \"{name}\"\n",
            addresses.join(", ")
        )
    };
    let services = [
        // Uploads that nobody reads, and the innocents beside them.
        service(
            "h2c",
            &h2c.addresses,
            "h2c",
            "path_prefix = [\"/hang\", \"/h2c\"]",
        ),
        service(
            "mutating",
            &[mutating.address],
            "http1",
            "path_prefix = \"/a\"",
        ),
        service(
            "mutating-h2c",
            &[mutating_h2c.address],
            "h2c",
            "path = \"/\"",
        ),
        service(
            "patient",
            &[patient.address],
            "http1",
            "path_prefix = \"/patient\"",
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
    let (tallies, course, played) = std::thread::scope(|scope| {
        let innocents = ["", "/h2c"].map(|prefix| scope.spawn(|| keep_asking(at, prefix, &over)));
        let mut course = Vec::new();
        let mut round = 0;
        let mut harmed = 0;
        let mut play = || -> Result<(), String> {
            while Instant::now() < until {
                let seed = site.seed.wrapping_add(round);
                harmed += smuggling::attack_http1(at, 100, seed).harmed.len();
                fuzz::attack(at, 2_000, seed);
                for flood in FLOODS {
                    floods::besiege(at, flood, Duration::from_secs(1))?;
                }
                drop(isolation::upload(at, false)?);
                proxy.process.check_running()?;
                round += 1;
                course.push(proxy.resident_kib());
                say(&format!(
                    "round {round}, seed {seed}: {}",
                    mib(proxy.resident_kib())
                ));
            }
            Ok(())
        };
        let played = play();
        over.store(true, Ordering::Relaxed);
        let tallies = innocents.map(|thread| thread.join().unwrap_or_default());
        (tallies, course, played.map(|()| harmed))
    });
    let harmed_after_mutants = played?;
    for (tally, what) in tallies.iter().zip(["over HTTP/1.1", "over h2c"]) {
        scores.add(Score::alone(
            PART,
            "",
            format!(
                "{minutes} minutes of attacks in {} rounds; innocents, replicas {what}",
                course.len()
            ),
            "0 innocents fail",
            (tally.failed == 0, tally.to_string()),
        ));
    }
    scores.add(Score::alone(
        PART,
        "",
        "innocents right behind mutated requests",
        "0 innocents fail",
        (
            harmed_after_mutants == 0,
            format!("{harmed_after_mutants} failed"),
        ),
    ));
    let held = proxy.settle()?;
    let resident = proxy.resident_kib();
    let first = course.first().copied().unwrap_or(resident);
    let step = course.len().div_ceil(SHOWN).max(1);
    let shown: Vec<_> = course
        .iter()
        .step_by(step)
        .map(|kib| (kib >> 10).to_string())
        .collect();
    let panicked = proxy.has_panicked()?;
    scores.add(Score::alone(
        PART,
        "",
        "afterwards",
        "0 in flight, no panic, memory as after the first round and 32 MiB at most",
        (
            held == Held::default() && !panicked && resident <= first + SLACK_KIB,
            format!(
                "{} in flight, {}, {} (round by round, in MiB: {})",
                held.in_flight,
                if panicked { "a panic" } else { "no panic" },
                mib(resident),
                shown.join(" ")
            ),
        ),
    ));
    Ok(())
}

/// Ten requests a second until it is over.
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
