//! The cost of recording for each query, counted by valgrind. The difference of two runs of
//! different length leaves out start and end.
//!
//! ```text
//! cargo build --profile quick -p slackwater-sim --example recording_cost
//! for queries in 20000 40000; do
//!   valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!     target/quick/examples/recording_cost prequal recorded $queries
//! done
//! ```
//!
//! The fleet has ten replicas, health is around the policy, and every probe is answered. Blocks are
//! counted and dropped. In the proxy a queue passes them to a thread that writes them.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "an example, which ends with the first thing that is wrong"
)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use slackwater_core::health::{HealthSettings, build};
use slackwater_core::policy::{
    Decision, Event, Outcome, Policy, PolicySettings, Query, Settings, policy_named,
};
use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaIds, Rif, SplitMix64};
use slackwater_recording::{Sink, record};
use std::sync::Arc;

/// A sink that counts bytes.
#[derive(Debug, Default)]
struct Counting(AtomicU64);

impl Sink for Counting {
    fn take(&self, _stream: u32, events: Vec<u8>) -> bool {
        self.0.fetch_add(events.len() as u64, Relaxed);
        true
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, how, queries] = arguments.as_slice() else {
        println!("recording_cost POLICY recorded|plain QUERIES");
        return;
    };
    let entry = policy_named(name).expect("a policy's name");
    let health = HealthSettings::default().validate().expect("defaults");
    let mut policy = build(entry, &PolicySettings::default(), &health);
    let sink = Arc::new(Counting::default());
    if how == "recorded" {
        (policy, _) = record(policy, 1, 0, Arc::clone(&sink) as _);
    }
    let queries = queries.parse().expect("a number of queries");
    play(&mut *policy, queries);
    drop(policy);
    let bytes = sink.0.load(Relaxed) as f64;
    println!("{:.1} bytes for each query", bytes / queries as f64);
}

/// Plays queries a millisecond apart. Each ends when the next one arrives, and probes are answered
/// at once.
fn play(policy: &mut dyn Policy, queries: u64) {
    let (mut ids, mut draw) = (ReplicaIds::new(), SplitMix64::new(2));
    let mut now = Instant::EPOCH;
    for _ in 0..10 {
        policy.handle(
            now,
            Event::Added(ids.allocate().expect("room")),
            &mut NoDraw,
        );
    }
    for number in 0..queries {
        now += Duration::from_micros(400);
        let Decision::Pick(pick) = policy.choose(now, Query::first(), &mut draw, None) else {
            return println!("policies with synchronous probes cannot be measured here");
        };
        let mut ticket = pick.ticket;
        while let Some(probe) = policy.poll_probe(now, &mut draw) {
            now += Duration::from_micros(50);
            let rif = u32::try_from((number + probe.id.to_bits()) % 7).expect("few");
            let latency = Duration::from_micros(5_000 + 131 * (number % 97));
            let mut report = LoadReport::new(Rif::new(rif), Some(latency));
            report.incarnation = Some(probe.replica.to_bits());
            policy.handle(now, Event::Report(probe.id, &report), &mut draw);
        }
        now += Duration::from_micros(300);
        policy.handle_head(now, &mut ticket, Outcome::Success);
        now += Duration::from_micros(150);
        policy.handle_query_done(now, ticket, Outcome::Success);
        if policy.poll_timeout().is_some_and(|due| due <= now) {
            policy.handle(now, Event::Timeout, &mut draw);
        }
    }
}
