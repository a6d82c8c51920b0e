//! Micro-partitions: what the fleet takes over from a replica that dies, in one piece or in twenty.
//! `[The Tail at Scale, "Micro-partitions"]`

use super::cells::{Plays, latency_ms};
use super::charts::axis;
use super::judge::{Bounds, claim, number};
use super::keyed::around;
use super::{Cell, Chart, Claim, Effort, Figure, Findings, Line, Played, Plot, Table, Words};
use crate::interval::Estimate;
use crate::measure::Latencies;
use crate::policy::PeerRule;
use crate::presets::{KEYED_REPLICAS, crashing, keyed};
use crate::{Measured, PolicyChoice};
use core::ops::Range;
use core::time::Duration;
use slackwater_core::policy::DEFAULT_POLICY;
use std::sync::Arc;

/// A replica dies: one partition a replica, or twenty.
#[derive(Debug)]
pub(super) struct Partitions;

/// One partition a replica, which the next replica takes over as a whole.
const ONE: &str = "one_partition";
/// Twenty partitions a replica, by our order, each on its home alone.
const TWENTY: &str = "20 partitions";
/// Each key for itself, by our order, on its home alone.
const KEYS: &str = "keys";
/// Twenty partitions a replica, with the default bound and set.
const BOUNDED: &str = "20 partitions, bounded";

const CLIENTS: usize = 16;
/// Queries a second: a replica is busy for 30 % of the time while its cache is full.
const RATE: f64 = 1_920.0;
/// Keys, all equally popular, so that a partition of a twentieth of the keys has a twentieth of the
/// load.
const KEYS_COUNT: usize = 10_000;
/// A cache holds more than twice the keys of a replica.
const ENTRIES: usize = 3_000;
const WARMUP_SECONDS: u64 = 30;
const SPAN_SECONDS: u64 = 40;
/// Seconds of the measurement after which the replica dies.
const DIES: usize = 10;
/// Clients remove it one second later.
const KNOWN: usize = DIES + 1;
/// The seconds after that in which the largest part that one replica takes over is measured.
const TAKING_SECONDS: usize = 10;
/// The latest seconds, which are compared with earlier ones.
const LAST_SECONDS: usize = 10;

impl Figure for Partitions {
    fn words(&self) -> Words {
        Words {
            name: "partitions",
            title: "A replica dies: its keys in one piece, or in twenty",
            about: "The Tail at Scale, \"Micro-partitions\": with about 20 partitions a machine, load is moved in steps of 5 %, and recovery takes a \
         twentieth of the time, because many machines take over a little each. 16 replicas of four workers with caches of 3,000 keys, 10,000 equally \
         popular keys, 1,920 queries a second of 10 ms, or 30 ms if the key is not in the cache. After ten seconds of the measurement replica 0 dies; \
         balancers remove it a second later. one_partition: as many partitions as replicas, one each, and the next replica takes over. 20 partitions: \
         ours, 320 partitions in rendezvous order, no bound. keys: ours, each key by itself, no bound. Bounded: ours with the default bound and set.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        let mut scenario = keyed(RATE, CLIENTS);
        if let Some(keys) = &mut scenario.load.keys {
            (keys.count, keys.zipf) = (KEYS_COUNT, 0.0);
        }
        for cache in scenario.fleet.iter_mut().filter_map(|it| it.cache.as_mut()) {
            cache.entries = ENTRIES;
        }
        let scenario = effort.spend_on(scenario, WARMUP_SECONDS, SPAN_SECONDS);
        let dies = Duration::from_secs(DIES as u64);
        let scenario = Arc::new(crashing(dies, Arc::unwrap_or_clone(scenario)));
        let partitions = u16::try_from(20 * KEYED_REPLICAS).unwrap_or(u16::MAX);
        let ours = |name: &str, partitions: u16, factor: Option<u32>| {
            let rule = around(DEFAULT_POLICY.name, |it| {
                it.partitions = partitions;
                it.balance_factor_millionths = factor.unwrap_or(it.balance_factor_millionths);
            });
            rule.map(|rule| rule.called(name))
        };
        let rules = [
            Some(PolicyChoice::peer(PeerRule::OnePartition)),
            ours(TWENTY, partitions, Some(0)),
            ours(KEYS, 0, Some(0)),
            ours(BOUNDED, partitions, None),
        ];
        let rules = rules.into_iter().flatten();
        rules
            .map(|rule| Cell::of("a replica dies", 1.0, rule, &scenario))
            .collect()
    }

    fn findings(&self, played: &[Played]) -> Findings {
        Findings::of(played, |plays| Findings {
            claims: claims(plays),
            charts: vec![chart(plays)],
            tables: vec![table(plays)],
        })
    }
}

/// Returns the largest part of the dead replica's load that one replica takes over: the most that
/// any one gains in the seconds after, as a share of what the dead one had before.
fn largest_step(run: &Measured) -> f64 {
    let replicas = run.queries_by_replica.len();
    let taking = KNOWN..KNOWN + TAKING_SECONDS;
    let living = 0..DIES;
    let gain = |replica: usize| {
        let before = run.by_second.share_within(living.clone(), replica)?;
        let after = run.by_second.share_within(taking.clone(), replica)?;
        Some(after - before)
    };
    let lost = -gain(0).unwrap_or_default();
    let most = (1..replicas).filter_map(gain).fold(0.0, f64::max);
    if lost > 0.0 { most / lost } else { 0.0 }
}

/// Returns the p99 of these seconds after the replica has died, in milliseconds.
fn p99_within(run: &Measured, seconds: Range<usize>) -> f64 {
    let mut latency = Latencies::default();
    let blocks = run.latency_by_block.iter().take(seconds.end);
    for block in blocks.skip(seconds.start) {
        latency.merge(block);
    }
    latency.quantile(0.99).as_secs_f64() * 1e3
}

/// Returns the seconds from the removal of the dead replica from which p99 stays at most a
/// quarter above that of the last seconds.
fn recovery_seconds(run: &Measured) -> f64 {
    let seconds = run.latency_by_block.len();
    let usual = p99_within(run, seconds.saturating_sub(LAST_SECONDS)..seconds);
    let mut from_end = (KNOWN..seconds).rev();
    let last = from_end.find(|&second| p99_within(run, second..second + 1) > 1.25 * usual);
    last.map_or(0.0, |last| (last + 1 - KNOWN) as f64)
}

fn estimate(played: &Played, quantity: impl Fn(&Measured) -> f64) -> Option<Estimate> {
    Estimate::mean(&played.runs.iter().map(quantity).collect::<Vec<_>>())
}

fn claims(plays: &Plays<'_>) -> Vec<Claim> {
    let find = |rule: &str| plays.of(rule).iter().next();
    let step = |rule: &str| Some(estimate(find(rule)?, largest_step)?.value);
    let recovery = |rule: &str| Some(estimate(find(rule)?, recovery_seconds)?.value);
    let one = step(ONE).map(|found| {
        Bounds::at_least(0.8, "").judge(
            "with one partition a replica, one replica takes over nearly all",
            found,
        )
    });
    let twenty = step(TWENTY).map(|found| {
        Bounds::at_most(0.4, "").judge(
            "with 20 partitions a replica, none takes over more than 0.4 of the load (0.05 a step)",
            found,
        )
    });
    let faster = recovery(ONE).zip(recovery(TWENTY)).map(|(one, twenty)| {
        claim(
            "recovery takes a fifth of the time with 20 partitions, or less (a twentieth of the work for each)",
            format!(
                "{} s, not {} s, until p99 is within a quarter of what it is later",
                number(twenty),
                number(one)
            ),
            one >= 1.0 && twenty <= one / 5.0,
        )
    });
    [one, twenty, faster].into_iter().flatten().collect()
}

fn table(plays: &Plays<'_>) -> Table {
    let columns = [
        "rule",
        "largest part that one replica takes over",
        "recovery, s",
        "p99 in 10 s, ms",
        "p99 of the last 10 s, ms",
        "hits in 10 s, %",
        "hits of the last 10 s, %",
        "p99 of all, ms",
    ];
    let rows = plays.iter().map(|played| {
        let run = &played.all;
        let seconds = run.latency_by_block.len();
        let last = seconds.saturating_sub(LAST_SECONDS)..seconds;
        let soon = KNOWN..KNOWN + TAKING_SECONDS;
        let of = |quantity: fn(&Measured) -> f64| {
            estimate(played, quantity).map_or_else(String::new, |it| number(it.value))
        };
        let hits = |seconds| run.by_second.hit_share_within(seconds).unwrap_or_default();
        vec![
            played.cell.player(),
            of(largest_step),
            of(recovery_seconds),
            number(p99_within(run, soon.clone())),
            number(p99_within(run, last.clone())),
            number(100.0 * hits(soon)),
            number(100.0 * hits(last)),
            number(latency_ms(run, 0.99)),
        ]
    });
    Table::new(
        "After the death of one of 16 replicas".to_owned(),
        &columns,
        rows.collect(),
    )
}

fn chart(plays: &Plays<'_>) -> Chart {
    let lines = plays.iter().map(|played| {
        let blocks = played.all.latency_by_block.iter().enumerate();
        let point = |(second, block): (usize, &Latencies)| {
            let p99 = block.quantile(0.99).as_secs_f64() * 1e3;
            (second as f64, p99)
        };
        Line {
            name: played.cell.player(),
            points: blocks.map(point).collect(),
            interval: Vec::new(),
            reference: false,
        }
    });
    Chart {
        title: "p99 by second after the death of a replica".to_owned(),
        x: axis("seconds"),
        y: axis("p99, ms"),
        plot: Plot::Lines(lines.collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Verdict::{NotReproduced, Reproduced};
    use crate::figure::trial::{self, verdicts};

    /// A run of 40 s on four replicas: replica 0 gets `lost` queries a second until it dies. Of
    /// these, `step` go to replica 1, and half of the others to each of the other two. p99 is high
    /// for `slow` seconds.
    fn run(lost: usize, step: usize, slow: usize) -> Measured {
        let mut run = Measured::nothing(4);
        run.queries = 1;
        for second in 0..40 {
            let to = |run: &mut Measured, replica: usize, queries: usize| {
                for _ in 0..queries {
                    run.by_second.record_sent(second, replica);
                }
            };
            let is_dead = second >= DIES;
            to(&mut run, 0, if is_dead { 0 } else { lost });
            to(&mut run, 1, 100 + if is_dead { step } else { 0 });
            for other in [2, 3] {
                let half = (lost - step) / 2;
                to(&mut run, other, 100 + if is_dead { half } else { 0 });
            }
            let is_slow = second >= KNOWN && second < KNOWN + slow;
            let mut latency = Latencies::default();
            latency.record(Duration::from_millis(if is_slow { 126 } else { 100 }));
            run.latency_by_block.push(latency);
        }
        run.latency.record(Duration::from_millis(100));
        run
    }

    fn played(step: usize, slow: usize) -> Vec<Played> {
        trial::played(&Partitions, |cell| match cell.policy.name.as_str() {
            ONE => run(100, step, 15),
            _ => run(100, step, slow),
        })
    }

    #[test]
    fn largest_step_is_the_part_that_one_replica_takes_over() {
        assert!((largest_step(&run(100, 20, 0)) - 0.4).abs() < 1e-9);
        assert!((largest_step(&run(100, 50, 0)) - 0.5).abs() < 1e-9);
        assert!((recovery_seconds(&run(100, 50, 7)) - 7.0).abs() < 1e-9);
        assert!((recovery_seconds(&run(100, 50, 0))).abs() < 1e-9);
    }

    #[test]
    fn claims_hold_up_to_their_bounds() {
        let one = |played: &[Played]| verdicts(&Partitions, played, &["one partition a replica"]);
        assert_eq!(one(&played(82, 0)), [Reproduced]);
        assert_eq!(one(&played(78, 0)), [NotReproduced]);
        let twenty = |played: &[Played]| verdicts(&Partitions, played, &["none takes over more"]);
        assert_eq!(twenty(&played(38, 0)), [Reproduced]);
        assert_eq!(twenty(&played(42, 0)), [NotReproduced]);
        let faster = |played: &[Played]| verdicts(&Partitions, played, &["recovery takes"]);
        assert_eq!(faster(&played(80, 3)), [Reproduced]);
        assert_eq!(faster(&played(80, 4)), [NotReproduced]);
    }
}
