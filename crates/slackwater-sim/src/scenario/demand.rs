//! What a scenario asks of the machine that plays it: how many queries are under way at once, and the memory for them.
//!
//! A reckoning with flows, before anything is played: what comes in less what can be served, over the run. It takes load to be
//! spread evenly over the replicas; a policy that sends all to one of them holds more.

use super::{Group, Scenario, Service, nanoseconds};
use core::time::Duration;

/// What one query under way takes: the client's side, the copy at the replica, and the room that tables grow by. Measured
/// with twenty million of them.
const QUERY_BYTES: f64 = 320.0;
/// What a deadline takes, which is kept until its time comes, whether or not the query has been answered.
const DEADLINE_BYTES: f64 = 48.0;
/// What a second of a replica's utilization takes.
const SAMPLE_BYTES: f64 = 8.0;
/// What a client keeps of a replica under the policy that keeps most.
const PAIR_BYTES: f64 = 200.0;

impl Scenario {
    /// How many queries are under way at once when there are the most: at the replicas, answered or given up or not, and on
    /// the network.
    pub fn under_way(&self) -> f64 {
        let seconds = self.seconds();
        let share = self.load.rate / self.replicas().max(1) as f64;
        let kept = if self.cancel_expired {
            seconds.min(self.deadline.as_secs_f64())
        } else {
            seconds
        };
        let held = self.fleet.iter().map(|group| {
            let one = match &group.service {
                Service::Latency => share * kept.min(self.cost.mean_ns() / 1e9 * group.slowness),
                Service::LatencyTrace(trace) => {
                    let sum: f64 = trace.iter().copied().map(nanoseconds).sum();
                    let mean_seconds = sum / trace.len().max(1) as f64 / 1e9;
                    share * kept.min(mean_seconds * group.slowness)
                }
                Service::Shared(sharing) => {
                    let cores = sharing.cores * (1.0 - sharing.contention_loss);
                    kept * (share - self.served(cores, group)).max(0.0)
                }
                Service::Fifo { workers } => {
                    kept * (share - self.served(*workers as f64, group)).max(0.0)
                }
            };
            group.count as f64 * one
        });
        let travelling = 2.0 * self.network.delay.most.as_secs_f64();
        held.sum::<f64>() + self.load.rate * travelling.min(seconds)
    }

    /// The memory that one run takes, in bytes: for queries, for what is measured, and for what clients keep of replicas.
    pub fn memory_bytes(&self) -> f64 {
        let deadlines = self.load.rate * self.deadline.as_secs_f64().min(self.seconds());
        let samples = self.replicas() as f64 * self.span.as_secs_f64();
        let pairs = self.replicas() as f64 * self.load.clients.len() as f64;
        QUERY_BYTES * self.under_way()
            + DEADLINE_BYTES * deadlines
            + SAMPLE_BYTES * samples
            + PAIR_BYTES * pairs
    }

    /// Queries a second that so many cores serve on a replica of the group, at its worst.
    fn served(&self, cores: f64, group: &Group) -> f64 {
        let up = group.stall.map_or(1.0, |stall| {
            let (every, lasts) = (stall.every.as_secs_f64(), stall.lasts.as_secs_f64());
            every / (every + lasts)
        });
        let left = group.hobble.map_or(1.0, |hobble| hobble.capacity);
        up * left * cores / group.slowness / (self.cost.mean_ns() / 1e9)
    }

    /// How long is played at the most: the last measured query may take until its deadline.
    fn seconds(&self) -> f64 {
        let parts: [Duration; 3] = [self.warmup, self.span, self.deadline];
        parts.iter().map(Duration::as_secs_f64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{at_load, testbed, web};
    use crate::scenario::{Cost, Hobble, Stall};

    fn near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
            "{found}, not {expected}"
        );
    }

    #[test]
    fn a_fleet_that_keeps_up_holds_what_is_on_the_network() {
        let scenario = web(8, 1, 0.9);
        near(
            scenario.under_way(),
            scenario.load.rate * 2.0 * scenario.network.delay.most.as_secs_f64(),
        );
        near(
            scenario.memory_bytes(),
            320.0 * scenario.under_way()
                + 48.0 * scenario.load.rate * scenario.deadline.as_secs_f64()
                + 8.0 * 8.0 * scenario.span.as_secs_f64()
                + 200.0 * 8.0,
        );
    }

    #[test]
    fn an_overload_piles_up_for_as_long_as_it_is_kept() {
        let whole = web(8, 1, 1.0);
        let mut twice = Scenario {
            warmup: Duration::from_secs(40),
            span: Duration::from_secs(55),
            deadline: Duration::from_secs(5),
            ..at_load(2.0, whole.clone())
        };
        let travelling = twice.load.rate * 2.0 * twice.network.delay.most.as_secs_f64();
        near(twice.under_way(), whole.load.rate * 100.0 + travelling);
        twice.cancel_expired = true;
        near(twice.under_way(), whole.load.rate * 5.0 + travelling);
    }

    #[test]
    fn a_slow_replica_gets_the_same_share_and_serves_less() {
        let mut scenario = at_load(0.9, web(2, 1, 1.0));
        let rate = scenario.load.rate;
        scenario.fleet = vec![
            Group {
                count: 1,
                ..scenario.fleet[0].clone()
            },
            Group {
                count: 1,
                slowness: 3.0,
                ..scenario.fleet[0].clone()
            },
        ];
        let travelling = rate * 2.0 * scenario.network.delay.most.as_secs_f64();
        let slow = rate / 2.0 - rate / 0.9 / 2.0 / 3.0;
        near(scenario.under_way(), slow * scenario.seconds() + travelling);
    }

    #[test]
    fn stalls_and_spells_take_capacity() {
        let mut scenario = web(1, 1, 0.75);
        let travelling = scenario.load.rate * 2.0 * scenario.network.delay.most.as_secs_f64();
        let whole = scenario.load.rate / 0.75;
        let piled = |scenario: &Scenario| (scenario.under_way() - travelling) / scenario.seconds();
        scenario.fleet[0].stall = Some(Stall {
            every: Duration::from_secs(1),
            lasts: Duration::from_secs(1),
        });
        near(piled(&scenario), 0.25 * whole);
        scenario.fleet[0].stall = None;
        scenario.fleet[0].hobble = Some(Hobble {
            from: Duration::ZERO,
            until: Duration::MAX,
            capacity: 0.25,
            latency: None,
        });
        near(piled(&scenario), 0.5 * whole);
    }

    #[test]
    fn replayed_latencies_are_all_under_way_at_once() {
        let mut scenario = web(4, 1, 0.5);
        scenario.load.rate = 1_000.0;
        scenario.cost = Cost::Fixed(Duration::from_secs(2));
        scenario.network.delay.most = Duration::ZERO;
        scenario.fleet = vec![Group::healthy(4, Service::Latency)];
        near(scenario.under_way(), 2_000.0);
        let trace = [Duration::from_secs(1), Duration::from_secs(5)];
        scenario.fleet = vec![Group::healthy(
            4,
            Service::LatencyTrace(trace.as_slice().into()),
        )];
        near(scenario.under_way(), 3_000.0);
        scenario.deadline = Duration::from_secs(1);
        scenario.cancel_expired = true;
        near(scenario.under_way(), 1_000.0);
    }

    #[test]
    fn the_paper_s_worst_overload_fits() {
        let worst = at_load(1.74, testbed());
        assert!(worst.memory_bytes() < 1e9, "{}", worst.memory_bytes());
    }
}
