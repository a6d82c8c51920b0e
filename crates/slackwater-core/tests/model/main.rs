//! The whole asynchronous policy against a slow, obvious model of it, over random lists of
//! operations.
//!
//! Both sides get the same operations, the same times and the same draws. After each operation
//! every pick, probe, counter, pooled report and replica must agree, and both must have used the
//! same number of draws.
//!
//! A run that fails prints its seed; `MODEL_SEED=<seed> cargo test -p slackwater-core --test model`
//! replays it alone.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test with helpers"
)]

mod pair;
mod slow;

use core::time::Duration;
use pair::Pair;
use slackwater_core::draw::below;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{PickReason, Policy, Prequal};
use slackwater_core::{Quantile, Rate, SplitMix64};
use std::collections::BTreeMap;

const RUNS: u64 = 350;
const STEPS: u32 = 600;

/// How reliable the driver is.
struct Driver {
    polls_percent: u32,
    answers_percent: u32,
    draining_percent: u32,
    rif_max: u32,
    latencies: u32,
    steps_us: &'static [u64],
}

fn one_of<T: Copy>(chance: &mut SplitMix64, of: &[T]) -> T {
    of[below(chance, u32::try_from(of.len()).expect("few")) as usize]
}

fn settings(chance: &mut SplitMix64) -> PrequalSettings {
    let ms = Duration::from_millis;
    let rate = |millionths| Rate::from_millionths(millionths).expect("in range");
    let probe_rates = [
        0, 333_333, 500_000, 1_000_000, 1_410_000, 3_000_000, 3_000_000, 16_000_000,
    ];
    let quantiles = [0, 1, 500_000, 840_896, 840_896, 999_000, 1_000_000];
    let quantile = Quantile::from_millionths(one_of(chance, &quantiles)).expect("in range");
    PrequalSettings {
        probe_rate: rate(one_of(chance, &probe_rates)),
        remove_rate: rate(one_of(
            chance,
            &[0, 250_000, 1_000_000, 1_000_000, 2_500_000],
        )),
        pool_capacity: one_of(chance, &[2, 3, 5, 16, 16]),
        report_age_max: one_of(chance, &[ms(5), ms(50), ms(1_000)]),
        rif_limit_quantile: quantile,
        pool_drift: rate(one_of(chance, &[1, 1_000_000, 1_000_000, 2_000_000])),
        reuse_max: one_of(chance, &[1, 3, 16]),
        probe_idle_max: one_of(chance, &[ms(1), ms(100)]),
        idle_probes: one_of(chance, &[0, 2, 2, 16]),
        probe_interval_min: one_of(chance, &[Duration::ZERO, ms(1)]),
        probe_deadline: one_of(chance, &[ms(1), ms(50)]),
        probes_outstanding_max: one_of(chance, &[1, 3, 64]),
        local_only: below(chance, 20) == 0,
        probe_rate_min: rate(one_of(chance, &[0, 500_000, 1_000_000, 16_000_000])),
        probes_per_second_max: one_of(chance, &[0, 0, 0, 0, 200, 10_000]),
        ..PrequalSettings::default()
    }
}

fn driver(chance: &mut SplitMix64) -> Driver {
    Driver {
        polls_percent: one_of(chance, &[30, 95, 100]),
        answers_percent: one_of(chance, &[10, 50, 90]),
        draining_percent: one_of(chance, &[0, 2, 20]),
        rif_max: one_of(chance, &[1, 3, 50, u32::MAX]),
        latencies: one_of(chance, &[1, 2, 4, 1_000]),
        steps_us: one_of(
            chance,
            &[
                &[0, 1, 100][..],
                &[0, 200, 1_000, 5_000],
                &[0, 999, 1_000, 50_000, 1_000_000, 1_000_001],
                &[0, 100, 30_000, 500_000, 12_000_000],
            ],
        ),
    }
}

/// Prints how to replay a run that panics.
struct Replay(u64);

impl Drop for Replay {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "replay: MODEL_SEED={} cargo test -p slackwater-core --test model",
                self.0
            );
        }
    }
}

/// Every count of an asynchronous policy, by name.
fn counts(policy: &Prequal) -> Vec<(String, u64)> {
    let counters = policy.counters();
    let asynchronous = [
        PickReason::Cold,
        PickReason::Hot,
        PickReason::Fallback,
        PickReason::Panic,
        PickReason::LastResort,
    ];
    let picks = asynchronous.map(|reason| (format!("picks {reason}"), counters.picks.of(reason)));
    let others = [
        ("no_replica", counters.no_replica),
        ("probes_sent", counters.probes_sent),
        ("probes_answered", counters.probes_answered),
        ("probes_lost", counters.probes_lost),
        ("reports_late", counters.reports_late),
        ("reports_unknown", counters.reports_unknown),
        ("probes_skipped_interval", counters.probes_skipped_interval),
        (
            "probes_skipped_outstanding",
            counters.probes_skipped_outstanding,
        ),
        ("probes_skipped_cap", counters.probes_skipped_cap),
        ("probes_skipped_rate", counters.probes_skipped_rate),
        ("probes_backed_off", counters.probes_backed_off),
        ("probes_unsent", counters.probes_unsent),
        ("probes_idle", counters.probes_idle),
        ("probes_local", counters.probes_local),
        ("removed_spent", counters.removed_spent),
        ("removed_expired", counters.removed_expired),
        ("removed_oldest", counters.removed_oldest),
        ("removed_worst", counters.removed_worst),
        ("removals_withheld", counters.removals_withheld),
        ("evicted", counters.evicted),
        ("replaced", counters.replaced),
    ];
    let others = others.map(|(name, count)| (name.to_owned(), count));
    picks.into_iter().chain(others).collect()
}

#[test]
fn policy_matches_the_reference_model_at_every_step() {
    let seeds = match option_env!("MODEL_SEED") {
        Some(seed) => {
            let seed = seed.parse().expect("MODEL_SEED is a number");
            seed..seed + 1
        }
        None => 0..RUNS,
    };
    let mut totals = BTreeMap::new();
    for seed in seeds.clone() {
        let replay = Replay(seed);
        let mut pair = Pair::new(seed);
        for _ in 0..STEPS {
            pair.step();
        }
        drop(replay);
        for (name, count) in counts(&pair.fast) {
            *totals.entry(name).or_insert(0) += count;
        }
    }
    // A run that hardly met a rule has not tested it.
    let rare: Vec<_> = totals.iter().filter(|&(_, &count)| count < 50).collect();
    assert!(
        seeds.end - seeds.start < RUNS || rare.is_empty(),
        "hardly met: {rare:?}"
    );
}
