//! Scenarios drawn at random, as an opponent would who searches for the weak points of a policy.
//!
//! Seed and number define a scenario, and the same two return it again.

use super::{NETWORK, at_load, grouped};
use crate::Scenario;
use crate::random::{Purpose, Stream};
use crate::scenario::{
    Batching, Change, Cost, Delay, Event, Group, Hobble, Load, Quota, Service, Sharing, Stall,
    Swing,
};
use core::fmt::Display;
use core::time::Duration;

/// A scenario with its description.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// The scenario.
    pub scenario: Scenario,
    /// The mean load, as a multiple of the capacity.
    pub load: f64,
    /// The scenario in words, parts separated by commas.
    pub words: String,
}

/// A scenario has about this many queries at most.
const QUERIES_MAX: f64 = 150_000.0;
/// A run lasts this many seconds, warm-up included.
const SECONDS: (f64, f64) = (10.0, 90.0);
/// Clients poll and probe while they are idle, so a run with many of them is shorter.
const CLIENT_SECONDS_MAX: f64 = 10_000.0;

/// Returns scenario `number` of `seed`: 2 to 200 replicas and 1 to 400 clients at a load of 0.3 to
/// 0.95, with or without troubles. It has these times if they are given.
pub fn drawn(seed: u64, number: u64, warmup: Option<Duration>, span: Option<Duration>) -> Drawn {
    let mut drawing = Drawing {
        stream: Stream::new(seed, Purpose::Scenario, number),
        words: Vec::new(),
    };
    let scenario = drawing.fleet();
    let load = hundredths(drawing.stream.uniform_between(0.3, 0.95));
    drawing.say(format!("a load of {:.0} %", 100.0 * load));
    let scenario = drawing.timed(load, scenario, warmup, span);
    let scenario = drawing.network(scenario);
    let mut scenario = drawing.trouble(scenario);
    let mut replicas = alone(&scenario);
    drawing.differences(&scenario, &mut replicas);
    drawing.reports(&mut replicas);
    scenario.fleet = grouped(replicas);
    // Slow replicas carry less, so the rate is set last.
    Drawn {
        scenario: at_load(load, scenario),
        load,
        words: drawing.words.join(", "),
    }
}

/// A drawing in progress.
#[derive(Debug)]
struct Drawing {
    stream: Stream,
    words: Vec<String>,
}

impl Drawing {
    fn say(&mut self, words: impl Into<String>) {
        self.words.push(words.into());
    }

    /// Draws whether something of this probability is so.
    fn chance(&mut self, share: f64) -> bool {
        self.stream.uniform() < share
    }

    /// Draws uniformly on a logarithmic scale.
    fn between(&mut self, least: f64, most: f64) -> f64 {
        let exponent = self.stream.uniform_between(least.ln(), most.ln());
        exponent.exp()
    }

    /// Draws a count, uniformly on a logarithmic scale. Both ends are included.
    fn count(&mut self, least: u32, most: u32) -> usize {
        let drawn = self.between(f64::from(least), f64::from(most) + 1.0);
        whole(drawn.floor()).clamp(least as usize, most as usize)
    }

    /// Draws one of a few counts.
    fn one_of<T: Copy>(&mut self, [a, b, c, d]: [T; 4]) -> T {
        match self.stream.below(4) {
            0 => a,
            1 => b,
            2 => c,
            _ => d,
        }
    }

    fn time(&mut self, least_ms: f64, most_ms: f64) -> Duration {
        ms(self.between(least_ms, most_ms))
    }

    /// Draws replicas, clients and the law of costs, which have a mean of 1 ms until the run's
    /// length is known.
    fn fleet(&mut self) -> Scenario {
        let replicas = self.count(2, 200);
        let (service, words) = self.service();
        self.say(format!("{replicas} replicas {words}"));
        let clients = self.count(1, 400);
        let cost = self.cost();
        let mut load = Load::even(0.0, clients);
        if clients > 2 && self.chance(0.1) {
            if let Some(busy) = load.clients.first_mut() {
                *busy = clients as f64 - 1.0;
            }
            self.say(format!(
                "{clients} clients, one of them with half of the load"
            ));
        } else {
            self.say(counted(clients, "client"));
        }
        Scenario {
            network: NETWORK,
            ..Scenario::plain(load, cost, vec![Group::healthy(replicas, service)])
        }
    }

    fn service(&mut self) -> (Service, String) {
        let kind = self.stream.uniform();
        if kind < 0.45 {
            let cores = self.one_of([1.0, 2.0, 4.0, 8.0]);
            let sharing = Sharing {
                cores,
                bucket: 0.0,
                burst: 1.0,
                contention_loss: 0.0,
            };
            (
                Service::Shared(sharing),
                format!("with {}", counted(cores, "core")),
            )
        } else if kind < 0.75 {
            let workers = self.one_of([1, 2, 4, 16]);
            (
                Service::Fifo { workers },
                format!("with {}", counted(workers, "worker")),
            )
        } else if kind < 0.87 {
            let at_once = self.one_of([2.0, 4.0, 4.0, 8.0]);
            let share = self.one_of([0.1, 0.25, 0.25, 0.5]);
            let period = Duration::from_millis(100);
            let quota = Quota {
                cpu: period.mul_f64(at_once * share),
                period,
                at_once,
                neighbour: None,
            };
            let words = format!("with a quota of {:.2} cores of {at_once}", quota.cores());
            (Service::Quota(quota), words)
        } else {
            let batching = Batching {
                max: self.one_of([2, 4, 8, 32]),
                added: self.one_of([0.02, 0.05, 0.1, 0.3]),
            };
            let words = format!(
                "with batches of {}, each further query at {} of the cost",
                batching.max, batching.added
            );
            (Service::Batch(batching), words)
        }
    }

    /// Draws a law of costs with a mean of about 1 ms.
    fn cost(&mut self) -> Cost {
        let kind = self.stream.uniform();
        let unit = ms(1.0);
        let (cost, words) = if kind < 0.15 {
            (Cost::Fixed(unit), "equal costs".to_owned())
        } else if kind < 0.45 {
            (Cost::Exponential(unit), "exponential costs".to_owned())
        } else if kind < 0.65 {
            let sigma = hundredths(self.stream.uniform_between(0.5, 2.0));
            let median = ms((-sigma * sigma / 2.0).exp());
            let words = format!("lognormal costs of sigma {sigma}");
            (Cost::Lognormal { median, sigma }, words)
        } else if kind < 0.8 {
            let alpha = hundredths(self.stream.uniform_between(1.5, 2.5));
            let least = ms((alpha - 1.0) / alpha);
            (
                Cost::Pareto { least, alpha },
                format!("Pareto costs of index {alpha}"),
            )
        } else {
            let dear_share = hundredths(self.between(0.01, 0.2));
            let times = self.between(5.0, 200.0).round();
            let cheap = ms(1.0 / (1.0 + dear_share * (times - 1.0)));
            let cost = Cost::Bimodal {
                cheap,
                dear: cheap.mul_f64(times),
                dear_share,
            };
            let share = 100.0 * dear_share;
            (
                cost,
                format!("{share:.0} % of queries at {times} times the cost"),
            )
        };
        self.say(words);
        cost
    }

    /// Draws the mean cost and the length of the run, so that there are not too many queries.
    fn timed(
        &mut self,
        load: f64,
        scenario: Scenario,
        warmup: Option<Duration>,
        span: Option<Duration>,
    ) -> Scenario {
        let (least, most) = SECONDS;
        let scenario = at_load(load, scenario);
        // The rate is for a mean of 1 ms.
        let per_ms = scenario.load.rate;
        let mean_ms = self.between(2.0, 200.0);
        let mean_ms = mean_ms.max(per_ms * least / QUERIES_MAX).ceil();
        self.say(format!("a mean cost of {mean_ms:.0} ms"));
        let by_clients = CLIENT_SECONDS_MAX / scenario.load.clients.len() as f64;
        let by_queries = QUERIES_MAX * mean_ms / per_ms;
        let seconds = by_queries.min(by_clients).min(most).max(least).floor();
        let own_warmup = Duration::from_secs_f64((seconds / 4.0).floor());
        Scenario {
            cost: stretched(&scenario.cost, mean_ms),
            warmup: warmup.unwrap_or(own_warmup),
            span: span.unwrap_or(Duration::from_secs_f64(seconds).saturating_sub(own_warmup)),
            ..scenario
        }
    }

    /// Draws the network's delay and losses.
    fn network(&mut self, mut scenario: Scenario) -> Scenario {
        if self.chance(0.35) {
            let most = self.time(1.0, 40.0);
            let least = most.mul_f64(0.1);
            scenario.network.delay = Delay { least, most };
            self.say(format!("a network of {least:.1?} to {most:.1?}"));
        }
        if self.chance(0.3) {
            let loss = hundredths(self.stream.uniform_between(0.05, 0.5));
            scenario.network.probe_loss = loss;
            self.say(format!("{:.0} % of probes lost", 100.0 * loss));
        }
        scenario
    }

    /// Draws one trouble, or none.
    fn trouble(&mut self, mut scenario: Scenario) -> Scenario {
        let kind = self.stream.uniform();
        let replicas = scenario.replicas();
        if kind < 0.1 {
            let amplitude = hundredths(self.stream.uniform_between(0.2, 0.6));
            let period = scenario.span / 2;
            scenario.load.swing = Some(Swing { period, amplitude });
            self.say(format!("a load that swings by {:.0} %", 100.0 * amplitude));
        } else if kind < 0.25 {
            let every = self.time(1_000.0, 10_000.0);
            let lasts = self.time(50.0, 500.0);
            for group in &mut scenario.fleet {
                group.stall = Some(Stall {
                    every,
                    regular: false,
                    lasts,
                });
            }
            self.say(format!("pauses of {lasts:.0?} every {every:.0?}"));
        } else if kind < 0.4 {
            // Replicas restart one after another, cold, in equal steps of the span.
            let restarts = self.count(1, 8).min(replicas);
            let cold_slowness = self.between(1.0, 10.0).round();
            for number in 0..restarts {
                let share = number as f64 / restarts as f64;
                scenario.events.push(Event {
                    at: scenario.warmup + scenario.span.mul_f64(share),
                    replica: number,
                    change: Change::Restart {
                        down_for: ms(500.0),
                        cold_slowness,
                        warm_after: scenario.span / 8,
                    },
                });
            }
            self.say(format!(
                "{}, {cold_slowness} times as slow at first",
                counted(restarts, "restart")
            ));
        } else if kind < 0.5 {
            // Replicas leave and join again, one after another.
            let changes = self.count(1, 8).min(replicas);
            for number in 0..changes {
                let at = scenario.warmup + scenario.span.mul_f64(number as f64 / changes as f64);
                let leaves_after = ms(500.0);
                let join = Change::Join {
                    cold_slowness: 3.0,
                    warm_after: scenario.span / 8,
                };
                for (at, change) in [
                    (at, Change::Drain { leaves_after }),
                    (at + scenario.span / 8, join),
                ] {
                    scenario.events.push(Event {
                        at,
                        replica: number,
                        change,
                    });
                }
            }
            self.say(format!(
                "{} in turn out of the fleet for an eighth of the run",
                counted(changes, "replica")
            ));
        }
        scenario
    }

    /// Draws in what replicas differ: speed, a spell of lower capacity, distance.
    fn differences(&mut self, scenario: &Scenario, replicas: &mut [Group]) {
        if self.chance(0.4) {
            let slowness = hundredths(self.stream.uniform_between(1.3, 5.0));
            let which = self.some_of(replicas.len());
            let slow = counted(which.len(), "replica");
            self.say(format!("{slow} {slowness} times as slow"));
            for number in which {
                replicas[number].slowness = slowness;
            }
        }
        if self.chance(0.15) {
            let capacity = hundredths(self.stream.uniform_between(0.1, 0.7));
            let which = self.some_of(replicas.len());
            // Within what is measured.
            let after = self.time(1_000.0, 10_000.0).min(scenario.span / 2);
            let lasts = self.time(500.0, 10_000.0).min(scenario.span / 2);
            let from = scenario.warmup + after;
            self.say(format!(
                "{} at {:.0} % of the capacity from {from:.1?} for {lasts:.1?}",
                counted(which.len(), "replica"),
                100.0 * capacity
            ));
            for number in which {
                replicas[number].hobble = Some(Hobble {
                    from,
                    until: from + lasts,
                    capacity,
                    latency: None,
                });
            }
        }
        if self.chance(0.15) {
            let extra_delay = self.time(1.0, 50.0);
            let which = self.some_of(replicas.len());
            self.say(format!(
                "{} farther by {extra_delay:.1?} each way",
                counted(which.len(), "replica")
            ));
            for number in which {
                replicas[number].extra_delay = extra_delay;
            }
        }
    }

    /// Draws what replicas report.
    fn reports(&mut self, replicas: &mut [Group]) {
        let reporting = match self.stream.below(3) {
            0 => Vec::new(),
            1 => (0..replicas.len()).collect(),
            _ => self.some_of(replicas.len()),
        };
        let carries = self.chance(0.7);
        if !reporting.is_empty() {
            let how = if carries { ", also in responses" } else { "" };
            self.say(format!("capacity reported by {}{how}", reporting.len()));
        }
        for number in reporting {
            replicas[number].learns_capacity = true;
            replicas[number].carries_reports = carries;
        }
        if self.chance(0.25) {
            let which = self.some_of(replicas.len());
            self.say(format!("no probes answered by {}", which.len()));
            for number in which {
                replicas[number].answers_probes = false;
            }
        }
    }

    /// Draws some replicas: consecutive ones, from one to nearly all.
    fn some_of(&mut self, replicas: usize) -> Vec<usize> {
        let most = u32::try_from(replicas.saturating_sub(1)).unwrap_or(u32::MAX);
        let count = self.count(1, most.max(1));
        let first = self.stream.below(most.saturating_add(1)) as usize;
        (first..first + count)
            .map(|number| number % replicas.max(1))
            .collect()
    }
}

/// Returns each replica in a group of its own.
fn alone(scenario: &Scenario) -> Vec<Group> {
    let groups = scenario.fleet.iter();
    groups
        .flat_map(|group| {
            let one = Group {
                count: 1,
                ..group.clone()
            };
            core::iter::repeat_n(one, group.count)
        })
        .collect()
}

/// Returns the cost times this factor.
fn stretched(cost: &Cost, factor: f64) -> Cost {
    match cost.clone() {
        Cost::Fixed(mean) => Cost::Fixed(mean.mul_f64(factor)),
        Cost::Exponential(mean) => Cost::Exponential(mean.mul_f64(factor)),
        Cost::Lognormal { median, sigma } => Cost::Lognormal {
            median: median.mul_f64(factor),
            sigma,
        },
        Cost::Pareto { least, alpha } => Cost::Pareto {
            least: least.mul_f64(factor),
            alpha,
        },
        Cost::Bimodal {
            cheap,
            dear,
            dear_share,
        } => Cost::Bimodal {
            cheap: cheap.mul_f64(factor),
            dear: dear.mul_f64(factor),
            dear_share,
        },
        // None of the others is drawn.
        other => other,
    }
}

/// Returns a count of things, such as `1 client` or `2 clients`.
fn counted<T: Display + PartialEq + Copy + From<u8>>(count: T, thing: &str) -> String {
    let plural = if count == T::from(1) { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1e3)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are small and not negative"
)]
fn whole(value: f64) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plainly(seed: u64, number: u64) -> Drawn {
        drawn(seed, number, None, None)
    }

    #[test]
    fn drawn_scenarios_can_be_played_within_their_bounds() {
        for number in 0..400 {
            let Drawn {
                scenario, words, ..
            } = plainly(1, number);
            assert_eq!(scenario.mistakes(), [], "{number}: {words}");
            assert!((2..=200).contains(&scenario.replicas()), "{words}");
            let seconds = (scenario.warmup + scenario.span).as_secs_f64();
            assert!((SECONDS.0..=SECONDS.1).contains(&seconds), "{words}");
            // A load that swings has a surplus, and slow replicas lower the rate.
            let queries = scenario.load.rate * seconds;
            assert!(queries <= 1.05 * QUERIES_MAX, "{queries}: {words}");
        }
    }

    #[test]
    fn spells_of_lower_capacity_are_measured() {
        let scenarios = (0..400).map(|number| plainly(1, number).scenario);
        let spells = scenarios.flat_map(|scenario| {
            let measured = scenario.warmup..=scenario.warmup + scenario.span;
            let hobbles = scenario.fleet.into_iter().filter_map(|group| group.hobble);
            hobbles.map(move |it| measured.contains(&it.from) && measured.contains(&it.until))
        });
        let spells: Vec<bool> = spells.collect();
        assert!(spells.len() > 20 && spells.iter().all(|it| *it));
    }

    #[test]
    fn seed_and_number_define_a_scenario() {
        assert_eq!(plainly(1, 7).scenario, plainly(1, 7).scenario);
        assert_ne!(plainly(1, 7).scenario, plainly(1, 8).scenario);
        assert_ne!(plainly(1, 7).scenario, plainly(2, 7).scenario);
    }

    #[test]
    fn each_kind_of_trouble_is_drawn() {
        let drawn: Vec<Drawn> = (0..200).map(|number| plainly(1, number)).collect();
        for words in [
            "workers",
            "cores",
            "quota",
            "batches",
            "Pareto",
            "times the cost",
            "lost",
            "network",
            "swings",
            "pauses",
            "restarts",
            "out of the fleet",
            "times as slow",
            "of the capacity",
            "farther",
            "capacity reported",
            "no probes answered",
            "half of the load",
        ] {
            let found = drawn.iter().filter(|drawn| drawn.words.contains(words));
            assert!(found.count() >= 2, "{words}");
        }
    }
}
