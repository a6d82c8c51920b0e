//! A past to be played again: queries at their times, what each replica could do meanwhile, and
//! what clients knew of the fleet.

use core::time::Duration;
use slackwater_core::policy::Attempt;

/// Queries, replicas and the fleet as they were.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tape {
    /// In the order of their times.
    pub queries: Vec<TapeQuery>,
    /// What each replica could do, by its number, each in the order of time; the first step holds
    /// from the beginning on.
    pub replicas: Vec<Vec<TapeStep>>,
    /// The number of the replica behind each part. To a policy a replica is as many parts as its
    /// weight says.
    pub parts: Vec<u32>,
    /// What clients hear of parts, in the order of time. None: each replica is one part, and all
    /// are known from the beginning on.
    pub news: Vec<TapeNews>,
    /// Latencies are told by blocks of so long as well, by when their queries arrive; 0: they are
    /// not.
    pub block: Duration,
}

/// A query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TapeQuery {
    /// When it arrives, in nanoseconds.
    pub at_ns: u64,
    /// At which client.
    pub client: u32,
    /// What it costs at speed 1, in nanoseconds.
    pub cost_ns: f64,
    /// As what the policy is asked for it.
    pub attempt: Attempt,
    /// The replica that it is to go to, if it may.
    pub pinned: Option<u32>,
    /// Whether it is measured. What is not is load all the same.
    pub is_measured: bool,
}

impl TapeQuery {
    /// A first try that may go anywhere, and is measured.
    pub const fn first(at_ns: u64, client: u32, cost_ns: f64) -> Self {
        Self {
            at_ns,
            client,
            cost_ns,
            attempt: Attempt::First,
            pinned: None,
            is_measured: true,
        }
    }
}

/// What a client hears of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapeNews {
    /// When, in nanoseconds.
    pub at_ns: u64,
    /// Which client.
    pub client: u32,
    /// The part, by its place in [`Tape::parts`].
    pub part: u32,
    /// What it hears.
    pub news: News,
}

/// News of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It joins.
    Joined,
    /// It leaves.
    Left,
    /// It may be chosen again.
    Offered,
    /// It may not be chosen.
    Withdrawn,
}

/// What a replica can do from some time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TapeStep {
    /// From when, in nanoseconds.
    pub from_ns: u64,
    /// Cores, of which a query uses one at the most; at least as many as the allocation.
    pub cores: f64,
    /// The share of queries that it fails, from 0 to 1.
    pub fails: f64,
    /// What such a query costs, in nanoseconds.
    pub failure_cost_ns: f64,
}

impl Tape {
    /// The place of a replica's step that holds at `now`, which is not before the one at `place`.
    pub(crate) fn step_at(&self, replica: usize, place: usize, now: u64) -> usize {
        let steps = self.replicas.get(replica).map_or(&[][..], Vec::as_slice);
        let later = steps.iter().skip(place + 1);
        place + later.take_while(|step| step.from_ns <= now).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PolicyChoice;
    use crate::scenario::{Cost, Group, Load, Network, Scenario, Service, Sharing};

    #[test]
    fn a_step_holds_until_the_next_one() {
        let step = |from_ns| TapeStep {
            from_ns,
            cores: 1.0,
            fails: 0.0,
            failure_cost_ns: 0.0,
        };
        let tape = Tape {
            replicas: vec![vec![step(0), step(10), step(20)]],
            ..Tape::default()
        };
        let places = [0, 9, 10, 19, 20, 99].map(|now| tape.step_at(0, 0, now));
        assert_eq!(places, [0, 0, 1, 1, 2, 2]);
        assert_eq!(tape.step_at(0, 1, 15), 1);
        assert_eq!(tape.step_at(7, 0, 15), 0, "who is not on it has no steps");
    }

    #[test]
    fn a_tape_is_played_as_it_was_written() {
        const MS: u64 = 1_000_000;
        let step = |from_ms: u64, cores, fails| TapeStep {
            from_ns: from_ms * MS,
            cores,
            fails,
            failure_cost_ns: 1e6,
        };
        let query =
            |at_ms: u64, client, cost_ms: f64| TapeQuery::first(at_ms * MS, client, cost_ms * 1e6);
        let tape = Tape {
            // Alone at full speed; across a change to a tenth; two who share it; one who fails.
            queries: vec![
                query(10, 0, 20.0),
                query(90, 1, 20.0),
                query(400, 0, 5.0),
                query(400, 1, 5.0),
                query(950, 0, 5.0),
            ],
            replicas: vec![vec![
                step(0, 1.0, 0.0),
                step(100, 0.1, 0.0),
                step(900, 1.0, 1.0),
            ]],
            ..Tape::default()
        };
        let sharing = Sharing {
            cores: 0.1,
            bucket: 0.0,
            burst: 1.0,
            contention_loss: 0.0,
        };
        let scenario = Scenario {
            load: Load::even(5.0, 2),
            cost: Cost::Fixed(Duration::from_millis(1)),
            fleet: vec![Group::healthy(1, Service::Shared(sharing))],
            antagonists: None,
            network: Network::NONE,
            events: Vec::new(),
            deadline: Duration::from_secs(10),
            cancel_expired: false,
            tape: Some(tape.into()),
            warmup: Duration::ZERO,
            span: Duration::from_secs(1),
        };
        let measured = crate::run(
            &scenario,
            &PolicyChoice::shipped("random").expect("listed"),
            1,
        );
        assert_eq!((measured.queries, measured.errors), (5, 1));
        // 20 ms; 10 ms and 10 more at a tenth; two of 5 ms at a tenth, shared.
        let latencies = [0.0, 0.4, 0.9].map(|q| measured.latency.quantile(q).as_millis());
        assert_eq!(latencies, [20, 100, 110]);
    }
}
