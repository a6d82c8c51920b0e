//! The expected latency selector from outside: shares, the relative circuit breaker, and the case
//! that it was made for.
//!
//! Four replicas, one of which fails half of its queries at once (Spotify, "ELS: latency based load
//! balancer, part 1"). Round robin has 12.5 % errors at any load, least loaded has more the higher
//! the load is, and the selector is well below both.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a simulation for one test"
)]

use core::cmp::Reverse;
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::{
    Decision, Els, ElsConfig, Event, LeastLoaded, Outcome, PickReason, Policy, Query, RoundRobin,
    Ticket,
};
use slackwater_core::{Instant, NoDraw, ReplicaId, ReplicaIds, SplitMix64};
use std::collections::BinaryHeap;

const MS: Duration = Duration::from_millis(1);

struct Fleet {
    policy: Box<dyn Policy>,
    replicas: Vec<ReplicaId>,
    now: Instant,
    draw: SplitMix64,
}

impl Fleet {
    fn new(mut policy: Box<dyn Policy>, replicas: usize) -> Self {
        let mut ids = ReplicaIds::new();
        let replicas: Vec<_> = (0..replicas).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        Self {
            policy,
            replicas,
            now: Instant::EPOCH,
            draw: SplitMix64::new(3),
        }
    }

    fn els(replicas: usize) -> Self {
        Self::new(Box::new(Els::with(ElsConfig::default())), replicas)
    }

    fn pick(&mut self, query: Query<'_>) -> (usize, Ticket) {
        let decision = self.policy.choose(self.now, query, &mut self.draw, None);
        let Decision::Pick(pick) = decision else {
            panic!("{decision:?}")
        };
        let mut places = self.replicas.iter();
        let place = places.position(|&replica| replica == pick.ticket.replica());
        (place.expect("known"), pick.ticket)
    }

    /// Runs queries that go to this replica, as if they had tried all others, and take this long.
    fn serve(&mut self, place: usize, latency: Duration, outcome: Outcome, queries: u32) {
        let mut avoid = self.replicas.clone();
        avoid.swap_remove(place);
        for _ in 0..queries {
            let (chosen, ticket) = self.pick(Query::retry(&avoid));
            assert_eq!(chosen, place);
            self.now += latency;
            self.policy.handle_query_done(self.now, ticket, outcome);
        }
    }

    /// How many of `picks` queries each replica gets. They are given up at once, and so teach
    /// nothing.
    fn counts(&mut self, picks: u32) -> Vec<i32> {
        let mut counts = vec![0; self.replicas.len()];
        for _ in 0..picks {
            let (place, ticket) = self.pick(Query::first());
            counts[place] += 1;
            self.policy
                .handle_query_done(self.now, ticket, Outcome::Dropped);
        }
        counts
    }
}

#[test]
fn shares_are_inversely_proportional_to_latency() {
    let mut fleet = Fleet::els(4);
    for _ in 0..100 {
        for (place, ms) in [(0, 10), (1, 10), (2, 20), (3, 20)] {
            fleet.serve(place, ms * MS, Outcome::Success, 10);
        }
    }
    let counts = fleet.counts(6_000);
    // Binomial: standard deviations below 37; six of them is one in 500 million. The prior of each
    // replica beyond its samples moves a share by less than 2 in 1,000.
    for (count, expected) in counts.iter().zip([2_000, 2_000, 1_000, 1_000]) {
        assert!((count - expected).abs() < 225, "{counts:?}");
    }
}

#[test]
fn replica_far_below_the_others_is_excluded_until_samples_fade() {
    let mut fleet = Fleet::els(4);
    // All fail a quarter: none is worse than the others.
    for place in 0..4 {
        fleet.serve(place, MS, Outcome::Success, 75);
        fleet.serve(place, MS, Outcome::Failed, 25);
    }
    assert!(fleet.counts(400).iter().all(|&count| count > 50));
    // One fails all of 900 more: 75 of 1,000 is less than 0.4 of 300 of 1,300.
    fleet.serve(3, Duration::ZERO, Outcome::Failed, 900);
    assert_eq!(fleet.counts(1_000)[3], 0);
    // An excluded replica is better than none, and is still weighted.
    let others: Vec<_> = fleet.replicas[..3].to_vec();
    let before = fleet.policy.counters().picks;
    let (place, ticket) = fleet.pick(Query::retry(&others));
    fleet
        .policy
        .handle_query_done(fleet.now, ticket, Outcome::Dropped);
    let weighted = PickReason::Weighted;
    let picks = fleet.policy.counters().picks;
    assert_eq!((place, picks.of(weighted)), (3, before.of(weighted) + 1));
    // Its samples fade to 100 in ln(1000 / 100) = 2.30 minutes, and then it is tried again.
    fleet.now += Duration::from_mins(2);
    assert_eq!(fleet.counts(1_000)[3], 0);
    fleet.now += Duration::from_mins(1);
    assert!(fleet.counts(1_000)[3] > 0);
}

#[test]
fn no_replica_is_excluded_if_most_fail() {
    let mut fleet = Fleet::els(4);
    for place in 0..4 {
        // 60 %, and 30 % three times: less than 0.4, and more than 0.4 of the mean, 0.375.
        let good = if place == 0 { 600 } else { 300 };
        fleet.serve(place, MS, Outcome::Success, good);
        fleet.serve(place, MS, Outcome::Failed, 1_000 - good);
    }
    let counts = fleet.counts(2_000);
    assert!(counts[1..].iter().all(|&count| count > 100), "{counts:?}");
}

#[test]
fn few_samples_exclude_no_replica() {
    let mut fleet = Fleet::els(2);
    fleet.serve(0, Duration::ZERO, Outcome::Success, 100);
    fleet.serve(1, Duration::ZERO, Outcome::Failed, 99);
    assert!(fleet.counts(2_000)[1] > 0, "99 failures");
    fleet.serve(1, Duration::ZERO, Outcome::Failed, 1);
    assert_eq!(fleet.counts(2_000)[1], 0, "100 failures");
}

/// An event to come: an instant, and the ticket and outcome of the query that ends then.
struct End(Instant, Ticket, Outcome);

/// The share of queries that fail in 200 s, without the first 20. Four replicas have four workers
/// each, which serve in 20 ms on average, at this share of their capacity. The last replica fails
/// every second query within 2 ms.
fn errors(policy: Box<dyn Policy>, load: f64) -> f64 {
    const WORKERS: usize = 4;
    let mut fleet = Fleet::new(policy, 4);
    let mut free_at = [[Instant::EPOCH; WORKERS]; 4];
    let mut ends: Vec<Option<End>> = Vec::new();
    let mut due = BinaryHeap::new();
    let gap_ns = 20e6 / (load * 16.0);
    let (mut counted, mut failed) = (0.0, 0.0);
    let mut next = Instant::EPOCH;
    while next < Instant::from_nanos(200_000_000_000) {
        next += exponential(&mut fleet.draw, gap_ns);
        while let Some(&Reverse((at, number))) = due.peek()
            && at <= next
        {
            let _: Option<Reverse<(Instant, usize)>> = due.pop();
            let End(at, ticket, outcome) = ends[number].take().expect("each ends once");
            fleet.policy.handle_query_done(at, ticket, outcome);
        }
        fleet.now = next;
        let (place, ticket) = fleet.pick(Query::first());
        let fails = place == 3 && below(&mut fleet.draw, 2) == 0;
        let mean_ns = if fails { 2e6 } else { 20e6 };
        let worker = free_at[place].iter_mut().min().expect("some");
        *worker = (*worker).max(next) + exponential(&mut fleet.draw, mean_ns);
        let outcome = if fails {
            Outcome::Failed
        } else {
            Outcome::Success
        };
        due.push(Reverse((*worker, ends.len())));
        ends.push(Some(End(*worker, ticket, outcome)));
        if next > Instant::from_nanos(20_000_000_000) {
            counted += 1.0;
            failed += if fails { 1.0 } else { 0.0 };
        }
    }
    failed / counted
}

/// An exponential span with this mean.
fn exponential(draw: &mut SplitMix64, mean_ns: f64) -> Duration {
    let uniform = f64::from(below(draw, 1 << 24) + 1) / f64::from(1 << 24);
    Duration::from_nanos((-uniform.ln() * mean_ns) as u64)
}

#[test]
fn els_has_fewest_errors_if_one_of_four_fails_half() {
    let els = |load| errors(Box::new(Els::with(ElsConfig::default())), load);
    let (low, high) = (els(0.2), els(0.9));
    let round_robin = errors(Box::new(RoundRobin::new()), 0.2);
    let least_loaded = errors(Box::new(LeastLoaded::new()), 0.9);
    // 28,000 queries at the low load, 130,000 at the high one: standard deviations below 0.2 %.
    assert!((round_robin - 0.125).abs() < 0.01, "{round_robin}");
    assert!(least_loaded > 0.135, "{least_loaded}");
    assert!(low < 0.085, "{low}");
    assert!(high > low + 0.01, "rising with the load: {low} to {high}");
    assert!(high < 0.115, "{high}");
}
