//! The core without a runtime: a dozen queries, time fed by hand, each decision with its reason.
//!
//! Five replicas, the paper's settings. Each query triggers one probe (`probe_rate` 1); the reply
//! comes 0.3 ms later and goes into the pool, from which later queries choose: cold reports (RIF
//! below the limit) by latency, hot ones by RIF.
//!
//! ```text
//! cargo run -p slackwater-core --example by_hand
//!
//! — nobody has reported yet
//! query 1 at 0 ms; nothing is known of RIF, so nothing is hot
//!   → r1 by chance: two reports are needed to choose
//! query 2 at 10 ms; a RIF of 3 or more is hot
//!     r3: hot   RIF 3   latency 15 ms     9.7 ms old  uses left: 4
//!   → r0 by chance: two reports are needed to choose
//! query 3 at 20 ms; a RIF of 3 or more is hot
//!     r3: hot   RIF 3   latency 15 ms    19.7 ms old  uses left: 4
//!     r0: cold  RIF 2   latency 12 ms     9.7 ms old  uses left: 3
//!   → r0 has the lowest latency of the cold; r3 would have been next
//! query 4 at 30 ms; a RIF of 3 or more is hot
//!     r3: hot   RIF 3   latency 15 ms    29.7 ms old  uses left: 4
//!     r0: hot   RIF 3   latency 12 ms    19.7 ms old  uses left: 2
//!     r4: cold  RIF 2   latency unknown   9.7 ms old  uses left: 3
//!   → r4 is cold, and its unknown latency counts as the median of the others'; r0 would have been next
//! query 5 at 40 ms; a RIF of 3 or more is hot
//!     r3: hot   RIF 3   latency 15 ms    39.7 ms old  uses left: 4
//!     r0: hot   RIF 3   latency 12 ms    29.7 ms old  uses left: 2
//!     r4: hot   RIF 3   latency unknown  19.7 ms old  uses left: 2
//!     r2: cold  RIF 1   latency 7 ms      9.7 ms old  uses left: 3
//!   → r2 has the lowest latency of the cold; r0 would have been next
//! — r2 begins to struggle
//! query 6 at 50 ms; a RIF of 3 or more is hot
//!     r3: hot   RIF 3   latency 15 ms    49.7 ms old  uses left: 4
//!     r0: hot   RIF 3   latency 12 ms    39.7 ms old  uses left: 2
//!     r4: hot   RIF 3   latency unknown  29.7 ms old  uses left: 2
//!     r2: cold  RIF 1   latency 7 ms      9.7 ms old  uses left: 4
//!   → r2 has the lowest latency of the cold; r0 would have been next
//! query 7 at 60 ms; a RIF of 3 or more is hot
//!     r3: hot   RIF 3   latency 15 ms    59.7 ms old  uses left: 4
//!     r0: hot   RIF 3   latency 12 ms    49.7 ms old  uses left: 2
//!     r2: cold  RIF 2   latency 7 ms     19.7 ms old  uses left: 3
//!     r4: cold  RIF 2   latency 10 ms     9.7 ms old  uses left: 3
//!   → r2 has the lowest latency of the cold; r4 would have been next
//! query 8 at 70 ms; a RIF of 2 or more is hot
//!     r3: hot   RIF 3   latency 15 ms    69.7 ms old  uses left: 4
//!     r0: hot   RIF 3   latency 12 ms    59.7 ms old  uses left: 2
//!     r2: hot   RIF 3   latency 7 ms     29.7 ms old  uses left: 2
//!     r4: hot   RIF 2   latency 10 ms     9.7 ms old  uses left: 3
//!   → r4 has the lowest RIF, and all are hot; r2 would have been next
//! — everyone is busy
//! query 9 at 75 ms; a RIF of 2 or more is hot
//!     r3: hot   RIF 3   latency 15 ms    74.7 ms old  uses left: 4
//!     r0: hot   RIF 3   latency 12 ms    64.7 ms old  uses left: 2
//!     r2: hot   RIF 3   latency 7 ms     34.7 ms old  uses left: 2
//!     r4: hot   RIF 2   latency 10 ms     4.7 ms old  uses left: 3
//!   → r4 has the lowest RIF, and all are hot; r2 would have been next
//! query 10 at 76 ms; a RIF of 3 or more is hot
//!     r3: hot   RIF 3   latency 15 ms    75.7 ms old  uses left: 4
//!     r2: hot   RIF 3   latency 7 ms     35.7 ms old  uses left: 2
//!     r4: hot   RIF 3   latency 10 ms     5.7 ms old  uses left: 2
//!     r0: hot   RIF 9   latency 30 ms     0.7 ms old  uses left: 3
//!   → r2 has the lowest RIF, and all are hot; r4 would have been next
//! query 11 at 77 ms; a RIF of 9 or more is hot
//!     r3: cold  RIF 3   latency 15 ms    76.7 ms old  uses left: 4
//!     r2: cold  RIF 4   latency 7 ms     36.7 ms old  uses left: 1
//!     r4: cold  RIF 3   latency 10 ms     6.7 ms old  uses left: 2
//!     r0: hot   RIF 9   latency 30 ms     0.7 ms old  uses left: 3
//!   → r2 has the lowest latency of the cold; r4 would have been next
//! — three seconds later, after a pause
//! query 12 at 3000 ms; a RIF of 9 or more is hot
//!   → r0 by chance: two reports are needed to choose
//! ```

use core::error::Error;
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    ConfigError, Decision, Event, Outcome, Pick, PickReason, Policy, PooledView, Prequal,
    PrequalConfig, Query,
};
use slackwater_core::{Instant, LoadReport, NoDraw, Rate, ReplicaId, ReplicaIds, Rif, SplitMix64};
use std::io::{self, Write};

const ROUND_TRIP: Duration = Duration::from_micros(300);

type Loads = [(u32, u64); 5];

/// When a query comes (in milliseconds), and what the replicas r0 to r4 would answer then: RIF, and
/// latency in milliseconds, 0 for unknown.
const STORY: [(u64, &str, Loads); 12] = [
    (0, "nobody has reported yet", CALM),
    (10, "", CALM),
    (20, "", CALM),
    (30, "", CALM),
    (40, "", CALM),
    (50, "r2 begins to struggle", STRUGGLE),
    (60, "", STRUGGLE),
    (70, "", STRUGGLE),
    (75, "everyone is busy", RUSH),
    (76, "", RUSH),
    (77, "", RUSH),
    (3_000, "three seconds later, after a pause", CALM),
];
const CALM: Loads = [(2, 12), (1, 9), (1, 7), (3, 15), (2, 0)];
const STRUGGLE: Loads = [(2, 12), (1, 9), (8, 90), (3, 15), (2, 10)];
const RUSH: Loads = [(9, 30), (8, 28), (14, 130), (11, 40), (10, 31)];

fn main() -> Result<(), Box<dyn Error>> {
    play(config()?, &mut io::stdout().lock())?;
    Ok(())
}

pub(crate) fn config() -> Result<PrequalConfig, ConfigError> {
    let settings = PrequalSettings {
        probe_rate: Rate::per_query(1).unwrap_or(Rate::ZERO),
        ..PrequalSettings::paper()
    };
    settings.validate()
}

pub(crate) fn play(config: PrequalConfig, out: &mut dyn Write) -> io::Result<()> {
    let mut draw = SplitMix64::new(5);
    let mut policy = Prequal::new(config);
    let mut ids = ReplicaIds::new();
    let replicas: Vec<ReplicaId> = (0..5).filter_map(|_| ids.allocate()).collect();
    for &replica in &replicas {
        policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
    }
    for (number, (at_ms, news, loads)) in (1..).zip(STORY) {
        let now = Instant::from_nanos(at_ms * 1_000_000);
        if !news.is_empty() {
            writeln!(out, "— {news}")?;
        }
        let before = policy.snapshot(now).pool;
        let Decision::Pick(pick) = policy.choose(now, Query::first(), &mut draw, None) else {
            continue;
        };
        explain(number, at_ms, &before, &pick, out)?;
        policy.handle_query_done(now, pick.ticket, Outcome::Success);

        while let Some(probe) = policy.poll_probe(now, &mut draw) {
            let of_target = replicas
                .iter()
                .zip(loads)
                .find(|&(&id, _)| id == probe.replica);
            if let Some((_, (rif, latency_ms))) = of_target {
                let latency = (latency_ms > 0).then(|| Duration::from_millis(latency_ms));
                let report = LoadReport::new(Rif::new(rif), latency);
                policy.handle(
                    now + ROUND_TRIP,
                    Event::Report(probe.id, &report),
                    &mut draw,
                );
            }
        }
    }
    Ok(())
}

fn explain(
    number: u32,
    at_ms: u64,
    pool: &[PooledView],
    pick: &Pick,
    out: &mut dyn Write,
) -> io::Result<()> {
    write!(out, "query {number} at {at_ms} ms")?;
    match pick.rif_limit {
        Some(limit) => writeln!(out, "; a RIF of {limit} or more is hot")?,
        None => writeln!(out, "; nothing is known of RIF, so nothing is hot")?,
    }
    for view in pool {
        let latency = match view.latency {
            Some(latency) => format!("{} ms", latency.as_millis()),
            None => "unknown".to_owned(),
        };
        let hot = if view.hot { "hot" } else { "cold" };
        let (age_ms, uses) = (view.age.as_secs_f64() * 1e3, view.uses_left);
        writeln!(
            out,
            "    {}: {hot:<4}  RIF {:<2}  latency {latency:<7}  {age_ms:>4.1} ms old  uses left: {uses}",
            view.replica, view.rif
        )?;
    }
    let unknown = pick.chosen.is_some_and(|chosen| chosen.latency.is_none());
    let why = match pick.reason {
        PickReason::Cold if unknown => {
            "is cold, and its unknown latency counts as the median of the others'"
        }
        PickReason::Cold => "has the lowest latency of the cold",
        PickReason::Hot => "has the lowest RIF, and all are hot",
        PickReason::Fallback => "by chance: two reports are needed to choose",
        reason => reason.as_str(),
    };
    write!(out, "  → {} {why}", pick.ticket.replica())?;
    match pick.runner_up {
        Some(second) => writeln!(out, "; {second} would have been next"),
        None => writeln!(out),
    }
}
