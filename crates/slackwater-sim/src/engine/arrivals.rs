//! The queries that arrive: time, client, cost, key and luck.
//!
//! There is one process for all clients. It draws from streams that nothing else draws from, so
//! every policy receives exactly the same queries (common random numbers).

use super::cached::{KeyDraws, KeyNumber};
use super::classes::{self, Class};
use super::queue::Earliest;
use crate::machine::{NEVER, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::{
    Arrivals as Spread, Classes, Cost, Mix, Replay, ReplayQuery, Scenario, Swing, nanoseconds,
};
use slackwater_core::Draw;
use slackwater_core::policy::Attempt;
use std::sync::Arc;

const NS_PER_SECOND: f64 = 1e9;

/// A query before a replica is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Arrival {
    pub(super) client: u32,
    pub(super) cost_ns: f64,
    pub(super) luck: u64,
    /// How long it waits without the CPU before its work.
    pub(super) wait_ns: u64,
    /// The kind of attempt that its first copy is.
    pub(super) attempt: Attempt,
    /// The number of the replica that it is pinned to.
    pub(super) pinned: Option<u32>,
    /// Whether it is measured, if it arrives within the measured span.
    pub(super) counts: bool,
    /// Its class, if classes are known.
    pub(super) class: Option<Class>,
    /// The requests in flight that it counts as.
    pub(super) weight: u32,
    /// The key that it carries.
    pub(super) key_number: Option<KeyNumber>,
}

/// The arrival process.
#[derive(Debug)]
pub(super) struct Arrivals {
    next_at: Time,
    /// `next_at` without rounding, so that gaps add up to the rate.
    exact_ns: f64,
    /// Mean gap at the mean rate.
    gap_ns: f64,
    swing: Option<Swing>,
    gaps: Gaps,
    cost: Cost,
    costs: Stream,
    /// A separate stream, so that second copies do not change the draws of first copies.
    second_costs: Stream,
    luck: Stream,
    kinds: Option<Kinds>,
    classes: Option<Classes>,
    keys: Option<KeyDraws>,
    /// Number of clients in the scenario.
    clients: u32,
}

/// Draws which of two kinds each query is.
#[derive(Debug)]
struct Kinds {
    mix: Mix,
    stream: Stream,
}

/// How gaps and clients follow each other.
#[derive(Debug)]
enum Gaps {
    /// Exponential gaps and random clients: the sum of Poisson processes.
    Poisson {
        gaps: Stream,
        clients: Stream,
        /// The cumulative share of all draws, up to and including each client.
        cumulated: Vec<u64>,
    },
    /// Equal gaps, with each client at its own rate: the client with the earliest turn is next.
    Regular {
        turns: Earliest,
        /// Time from one turn of a client to its next.
        strides: Vec<u64>,
    },
    /// Recorded arrivals.
    Recorded {
        replay: Arc<Replay>,
        /// The position of the next query, and one more once it is scheduled.
        scheduled: usize,
    },
}

impl Arrivals {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        let load = &scenario.load;
        let gaps = match load.arrivals {
            _ if let Some(replay) = &scenario.replay => Gaps::Recorded {
                replay: Arc::clone(replay),
                scheduled: 0,
            },
            Spread::Poisson => Gaps::Poisson {
                gaps: Stream::new(seed, Purpose::Arrivals, 0),
                clients: Stream::new(seed, Purpose::Arrivals, 1),
                cumulated: cumulated(&load.clients),
            },
            Spread::Regular => regular(&load.clients),
        };
        let mut arrivals = Self {
            next_at: 0,
            exact_ns: 0.0,
            gap_ns: NS_PER_SECOND / load.rate,
            swing: load.swing,
            gaps,
            cost: scenario.cost.clone(),
            costs: Stream::new(seed, Purpose::Cost, 0),
            second_costs: Stream::new(seed, Purpose::Cost, 1),
            luck: Stream::new(seed, Purpose::Failure, 0),
            kinds: load.mix.map(|mix| Kinds {
                mix,
                stream: Stream::new(seed, Purpose::Mix, 0),
            }),
            classes: load.classes,
            keys: load.keys.as_ref().map(|keys| KeyDraws::new(keys, seed)),
            clients: super::query::slot_number(load.clients.len()),
        };
        arrivals.schedule();
        arrivals
    }

    /// Returns when the next query arrives.
    #[inline]
    pub(super) const fn next_at(&self) -> Time {
        self.next_at
    }

    /// Takes the query that arrives at [`Arrivals::next_at`].
    #[inline]
    pub(super) fn take(&mut self) -> Arrival {
        if let Some(query) = self.gaps.recorded() {
            self.schedule();
            return Arrival {
                client: query.client,
                cost_ns: query.cost_ns,
                luck: self.luck.draw(),
                wait_ns: 0,
                attempt: query.attempt,
                pinned: query.pinned,
                counts: query.is_measured,
                class: None,
                weight: 1,
                key_number: None,
            };
        }
        let kinds = self.kinds.as_mut();
        let (cost_share, wait_ns) = kinds.map_or((1.0, 0), |kinds| kinds.draw(self.next_at));
        self.schedule();
        let client = self.gaps.client();
        let cost_ns = self.cost.sample(&mut self.costs) * cost_share;
        let class = (self.classes).map(|classes| Class::of(cost_ns, &classes));
        Arrival {
            client: classes::client(client, self.clients, class, self.classes.as_ref()),
            cost_ns,
            luck: self.luck.draw(),
            wait_ns,
            attempt: Attempt::First,
            pinned: None,
            counts: true,
            class,
            weight: classes::weight(class, self.classes.as_ref()),
            key_number: self.keys.as_mut().map(KeyDraws::draw),
        }
    }

    /// Draws the cost of a second copy, where it has one of its own.
    pub(super) fn another_cost(&mut self) -> f64 {
        self.cost.sample(&mut self.second_costs)
    }

    /// Stops all further arrivals.
    #[cfg(test)]
    pub(super) const fn stop(&mut self) {
        self.next_at = NEVER;
    }

    #[inline]
    fn schedule(&mut self) {
        let rises = self.swing.map_or(1.0, |swing| swing.factor(self.exact_ns));
        let gap_ns = self.gap_ns / rises;
        self.exact_ns += match &mut self.gaps {
            Gaps::Poisson { gaps, .. } => gaps.exponential(gap_ns),
            Gaps::Regular { .. } => gap_ns,
            Gaps::Recorded { replay, scheduled } => {
                let next = replay.queries.get(*scheduled);
                *scheduled += 1;
                self.next_at = next.map_or(NEVER, |query| query.at_ns);
                return;
            }
        };
        self.next_at = super::rounded(self.exact_ns);
    }
}

impl Kinds {
    /// Draws the cost of a query that arrives now, as a share of the usual cost, and how long it
    /// waits before its work.
    fn draw(&mut self, now: Time) -> (f64, u64) {
        let turn = super::nanos(self.mix.turn).max(1);
        let share = self.mix.shares[usize::from(now / turn % 2 == 1)];
        let (kind, wait) = (self.stream.uniform(), self.stream.uniform());
        if kind < share {
            let wait_ns = super::rounded(wait * nanoseconds(self.mix.io_wait));
            (self.mix.cost, wait_ns)
        } else {
            (1.0, 0)
        }
    }
}

impl Gaps {
    /// Returns the scheduled query if queries are recorded.
    #[inline]
    fn recorded(&self) -> Option<ReplayQuery> {
        match self {
            Self::Recorded { replay, scheduled } => {
                replay.queries.get(scheduled.checked_sub(1)?).copied()
            }
            Self::Poisson { .. } | Self::Regular { .. } => None,
        }
    }

    #[inline]
    fn client(&mut self) -> u32 {
        let client = match self {
            Self::Poisson {
                clients, cumulated, ..
            } => {
                let draw = clients.draw();
                cumulated.partition_point(|&end| end < draw)
            }
            Self::Regular { turns, strides } => {
                let client = turns.next();
                turns.set(client, turns.of(client).saturating_add(strides[client]));
                client
            }
            // A recorded query has its own client.
            Self::Recorded { .. } => 0,
        };
        super::query::slot_number(client)
    }
}

/// Returns the highest draw of each client: shares of 2^64 in proportion to the weights.
fn cumulated(weights: &[f64]) -> Vec<u64> {
    let total: f64 = weights.iter().sum();
    let mut sum = 0.0;
    let mut ends: Vec<u64> = weights
        .iter()
        .map(|weight| {
            sum += weight;
            super::rounded(sum / total * u64::MAX as f64)
        })
        .collect();
    if let Some(last) = ends.last_mut() {
        *last = u64::MAX; // corrects what rounding has lost
    }
    ends
}

/// Turns by stride scheduling: a client with twice the weight has half the stride.
fn regular(weights: &[f64]) -> Gaps {
    /// Stride of the heaviest client. It is fine enough for weights that are a million times
    /// smaller or nearly the same.
    const STRIDE: f64 = (1_u64 << 24) as f64;
    let heaviest = weights.iter().copied().fold(0.0, f64::max);
    let strides: Vec<u64> = weights
        .iter()
        .map(|weight| super::rounded(STRIDE * heaviest / weight))
        .collect();
    let mut turns = Earliest::new(strides.len());
    for (client, &stride) in strides.iter().enumerate() {
        turns.set(client, stride);
    }
    Gaps::Regular { turns, strides }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Group, Load, Network, Service};
    use core::time::Duration;

    fn scenario(spread: Spread, clients: &[f64]) -> Scenario {
        Scenario {
            load: Load {
                clients: clients.to_vec(),
                arrivals: spread,
                ..Load::even(1_000.0, 1)
            },
            cost: Cost::Exponential(Duration::from_millis(1)),
            fleet: vec![Group::healthy(1, Service::Fifo { workers: 1 })],
            antagonists: None,
            network: Network::NONE,
            zones: None,
            events: Vec::new(),
            deadline: Duration::from_secs(1),
            cancel_expired: false,
            replay: None,
            warmup: Duration::ZERO,
            span: Duration::from_secs(1),
        }
    }

    /// Returns arrivals by client, and the time of the last one.
    fn play(spread: Spread, clients: &[f64], count: usize) -> (Vec<usize>, Time) {
        let mut arrivals = Arrivals::new(&scenario(spread, clients), 1);
        let mut by_client = vec![0; clients.len()];
        let mut at = 0;
        for _ in 0..count {
            at = arrivals.next_at();
            by_client[arrivals.take().client as usize] += 1;
        }
        (by_client, at)
    }

    #[test]
    fn poisson_arrivals_match_rate_and_shares() {
        let (by_client, at) = play(Spread::Poisson, &[1.0, 2.0, 5.0], 80_000);
        // 80 s at 1,000 a second: the deviation is sqrt(80,000) ms = 0.28 s. The bound is four
        // deviations.
        assert!((at as f64 / 1e9 - 80.0).abs() < 1.2, "{at}");
        for (count, expected) in by_client.into_iter().zip([10_000_usize, 20_000, 50_000]) {
            // Binomial, deviation at most 137. The bound is five deviations.
            assert!(expected.abs_diff(count) < 700, "{count} of {expected}");
        }
    }

    #[test]
    fn regular_arrivals_are_exact() {
        let (by_client, at) = play(Spread::Regular, &[1.0, 2.0, 5.0], 8_000);
        assert_eq!(at, 8_000_000_000);
        assert_eq!(by_client, [1_000, 2_000, 5_000]);
        let mut arrivals = Arrivals::new(&scenario(Spread::Regular, &[1.0; 3]), 1);
        let order: Vec<_> = (0..6).map(|_| arrivals.take().client).collect();
        assert_eq!(order, [0, 1, 2, 0, 1, 2], "client after client");
    }

    #[test]
    fn rate_follows_its_swing_around_the_mean() {
        let mut swinging = scenario(Spread::Poisson, &[1.0]);
        swinging.load.swing = Some(Swing {
            period: Duration::from_secs(40),
            amplitude: 0.5,
        });
        let mut arrivals = Arrivals::new(&swinging, 1);
        let mut by_half = [0_usize; 2];
        while arrivals.next_at() < 80_000_000_000 {
            by_half[usize::from(arrivals.next_at() / 20_000_000_000 % 2 == 1)] += 1;
            arrivals.take();
        }
        // A mean of 40,000 in 40 s, times 1 ± 0.5 · 2 / π. The deviation of a count is at most 230,
        // and the bound is four deviations.
        for (count, expected) in by_half.into_iter().zip([52_732_usize, 27_268]) {
            assert!(expected.abs_diff(count) < 920, "{count} of {expected}");
        }
    }

    /// Turns of 2 s with 4,000 queries each: first a fifth and then four fifths wait up to 100 ms,
    /// and cost a tenth.
    #[test]
    fn share_of_waiting_queries_alternates() {
        let mut mixed = scenario(Spread::Regular, &[1.0]);
        mixed.cost = Cost::Fixed(Duration::from_millis(10));
        mixed.load.mix = Some(Mix {
            shares: [0.2, 0.8],
            turn: Duration::from_secs(2),
            io_wait: Duration::from_millis(100),
            cost: 0.1,
        });
        let mut arrivals = Arrivals::new(&mixed, 1);
        let mut waits = [Vec::new(), Vec::new()];
        for _ in 0..8_000 {
            let turn = arrivals.next_at() / 2_000_000_000 % 2;
            let query = arrivals.take();
            let waiting = query.wait_ns > 0;
            let cost_ns = if waiting { 1e6 } else { 10e6 };
            assert!((query.cost_ns - cost_ns).abs() < 1e-3, "{query:?}");
            if waiting {
                waits[usize::from(turn == 1)].push(query.wait_ns as f64 / 1e6);
            }
        }
        for (waits, expected) in waits.iter().zip([800.0, 3_200.0]) {
            // Binomial, deviation 25. The bound is four deviations.
            let count = waits.len() as f64;
            assert!((count - expected).abs() < 100.0, "{count} of {expected}");
            // The deviation of a mean of 800 is 1 ms.
            let mean = waits.iter().sum::<f64>() / count;
            assert!((mean - 50.0).abs() < 4.0, "{mean}");
            assert!(waits.iter().all(|wait| *wait <= 100.0));
        }
        assert_eq!(
            Arrivals::new(&scenario(Spread::Poisson, &[1.0]), 1)
                .take()
                .wait_ns,
            0
        );
    }

    #[test]
    fn second_copies_do_not_change_arrivals() {
        let mut once = Arrivals::new(&scenario(Spread::Poisson, &[1.0]), 1);
        let mut twice = Arrivals::new(&scenario(Spread::Poisson, &[1.0]), 1);
        for _ in 0..10 {
            twice.another_cost();
            assert_eq!(twice.next_at(), once.next_at());
            assert_eq!(twice.take(), once.take());
        }
    }
}
