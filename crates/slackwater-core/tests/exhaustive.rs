//! Every pool of up to four reports (RIF 0 to 2, latency unknown, 1 or 2 ms) under every limit: the
//! choice, and the report removed as the worst, by the text of A7 and A10.
//!
//! The pool is built by reports alone. The limit is set by an anchor, a replica that is ejected as
//! soon as it has responded: its responses stay in the distribution and not in the pool. It answers
//! more often than all others together, and the limit is the median. Removal by rate leaves four
//! reports alone, so two more join the pool for tests of the worst.

#![expect(clippy::panic, clippy::expect_used, reason = "a test with helpers")]

#[path = "rules/world.rs"]
#[expect(dead_code, reason = "only a part is used here")]
mod world;

use core::time::Duration;
use slackwater_core::policy::{Event, Outcome, PickReason, Policy};
use slackwater_core::{LoadReport, NoDraw, ReplicaId, Rif};
use world::{MS, World, quantile, quiet, rate};

type Load = (u32, Option<u32>);

const LIMITS: [u32; 4] = [0, 1, 2, 3];

fn loads() -> Vec<Load> {
    let latencies = [None, Some(1), Some(2)];
    (0..3)
        .flat_map(|rif| latencies.map(|latency| (rif, latency)))
        .collect()
}

/// Every list of `length` loads.
fn pools(length: u32) -> impl Iterator<Item = Vec<Load>> {
    let loads = loads();
    (0..9_usize.pow(length)).map(move |number| {
        (0..length)
            .map(|digit| loads[number / 9_usize.pow(digit) % 9])
            .collect()
    })
}

fn report((rif, latency): Load) -> LoadReport {
    LoadReport::new(
        Rif::new(rif),
        latency.map(|ms| Duration::from_millis(ms.into())),
    )
}

/// A7, word for word: the reports of this pool that may be chosen, and whether they are hot.
fn best(pool: &[Load], limit: Option<u32>) -> (Vec<usize>, bool) {
    let latency = ranked_latency(pool);
    let all: Vec<usize> = (0..pool.len()).collect();
    let cold: Vec<usize> = all
        .iter()
        .copied()
        .filter(|&i| !is_hot(pool[i], limit))
        .collect();
    if cold.is_empty() {
        let by_rif = lowest(&all, |i| pool[i].0);
        (lowest(&by_rif, latency), true)
    } else {
        let by_latency = lowest(&cold, latency);
        (lowest(&by_latency, |i| pool[i].0), false)
    }
}

/// A10, word for word: the reports that may be removed as the worst.
fn worst(pool: &[Load], limit: Option<u32>) -> Vec<usize> {
    let latency = ranked_latency(pool);
    let all: Vec<usize> = (0..pool.len()).collect();
    let hot: Vec<usize> = all
        .iter()
        .copied()
        .filter(|&i| is_hot(pool[i], limit))
        .collect();
    let highest = |of: &[usize], key: &dyn Fn(usize) -> u32| lowest(of, |i| u32::MAX - key(i));
    if hot.is_empty() {
        let by_latency = highest(&all, &latency);
        highest(&by_latency, &|i| pool[i].0)
    } else {
        let by_rif = highest(&hot, &|i| pool[i].0);
        highest(&by_rif, &latency)
    }
}

fn is_hot((rif, _): Load, limit: Option<u32>) -> bool {
    limit.is_some_and(|limit| rif >= limit)
}

/// An unknown latency ranks as the median of the known ones: the lower of the two in the middle.
fn ranked_latency(pool: &[Load]) -> impl Fn(usize) -> u32 {
    let mut known: Vec<u32> = pool.iter().filter_map(|&(_, latency)| latency).collect();
    known.sort_unstable();
    let median = if known.is_empty() {
        0
    } else {
        known[(known.len() - 1) / 2]
    };
    move |index| pool[index].1.unwrap_or(median)
}

fn lowest(of: &[usize], key: impl Fn(usize) -> u32) -> Vec<usize> {
    let least = of.iter().map(|&i| key(i)).min();
    of.iter()
        .copied()
        .filter(|&i| Some(key(i)) == least)
        .collect()
}

/// Replicas 0 to 3 for the pool, 4 as the anchor of the limit, and `more` others.
fn world(limit: Option<u32>, more: usize, remove_rate: u32) -> World {
    let mut settings = quiet();
    settings.rif_limit_quantile = quantile(if limit.is_some() { 500_000 } else { 1_000_000 });
    settings.remove_rate = rate(remove_rate);
    settings.report_age_max = Duration::from_hours(1);
    let mut world = World::new(5 + more, settings);
    anchor(&mut world, 128, limit);
    world
}

/// Makes the anchor respond and leave the pool.
fn anchor(world: &mut World, responses: u32, limit: Option<u32>) {
    let anchor = world.replicas[4];
    world
        .policy
        .handle(world.now, Event::Available(anchor, true), &mut NoDraw);
    for _ in 0..responses {
        world.report(anchor, &report((limit.unwrap_or(0), None)));
    }
    world
        .policy
        .handle(world.now, Event::Available(anchor, false), &mut NoDraw);
}

/// Builds the pool, and keeps the limit where it is.
fn fill(world: &mut World, pool: &[Load], limit: Option<u32>) {
    for replica in world.replicas.clone() {
        if replica != world.replicas[4] {
            world
                .policy
                .handle(world.now, Event::Available(replica, false), &mut NoDraw);
            world
                .policy
                .handle(world.now, Event::Available(replica, true), &mut NoDraw);
        }
    }
    for (index, &load) in pool.iter().enumerate() {
        let place = if index < 4 { index } else { index + 1 };
        world.report(world.replicas[place], &report(load));
        anchor(world, 2, limit);
    }
    let snapshot = world.policy.snapshot(world.now);
    assert_eq!(snapshot.pool.len(), pool.len());
    assert_eq!(snapshot.rif_limit, limit.map(Rif::new));
}

struct Picked {
    replica: ReplicaId,
    reason: PickReason,
}

/// A pick whose query ends at once: a query in flight would count on top of the report.
fn pick(world: &mut World) -> Picked {
    let pick = world.pick();
    let picked = Picked {
        replica: pick.ticket.replica(),
        reason: pick.reason,
    };
    (world.policy).handle_query_done(world.now, pick.ticket, Outcome::Dropped);
    picked
}

#[test]
fn a7_pick_from_every_small_pool() {
    for limit in LIMITS.map(Some).into_iter().chain([None]) {
        let mut world = world(limit, 0, 0);
        for length in 0..=4 {
            for pool in pools(length) {
                fill(&mut world, &pool, limit);
                let pick = pick(&mut world);
                let chosen = world.replicas.iter().position(|&id| id == pick.replica);
                let chosen = chosen.expect("known");
                if length < 2 {
                    assert_eq!(pick.reason, PickReason::Fallback, "{pool:?} {limit:?}");
                    continue;
                }
                let (allowed, hot) = best(&pool, limit);
                let reason = if hot {
                    PickReason::Hot
                } else {
                    PickReason::Cold
                };
                assert_eq!(pick.reason, reason, "{pool:?} {limit:?}");
                assert!(
                    allowed.contains(&chosen),
                    "{chosen} of {allowed:?} in {pool:?} {limit:?}"
                );
            }
        }
    }
}

#[test]
fn a10_removal_from_every_small_pool() {
    let filler: Load = (0, None);
    for limit in LIMITS.map(Some).into_iter().chain([None]) {
        let mut world = world(limit, 4, 1_000_000);
        let mut checked = 0;
        for pool in pools(3).chain(pools(4)) {
            let mut pool = pool;
            pool.extend([filler; 2]);
            removes_the_oldest(&mut world, &pool, limit);
            fill(&mut world, &pool, limit);
            let pick = pick(&mut world);
            let chosen = world.replicas.iter().position(|&id| id == pick.replica);
            let chosen = chosen
                .map(|place| place - usize::from(place > 4))
                .expect("known");
            pool[chosen].0 += 1; // charged before removal
            let allowed = worst(&pool, limit);
            let left = world.pooled();
            let removed = (0..pool.len()).find(|&i| !left.contains(&(i + usize::from(i > 3))));
            let removed = removed.expect("one is gone");
            assert_eq!(left.len() + 1, pool.len());
            assert!(
                allowed.contains(&removed),
                "{removed} of {allowed:?} in {pool:?} {limit:?}"
            );
            checked += 1;
        }
        assert_eq!(checked, 9_u32.pow(3) + 9_u32.pow(4));
        let counters = world.policy.counters();
        assert_eq!(counters.removed_worst, u64::from(checked));
        assert_eq!(counters.removed_oldest, u64::from(checked));
    }
}

/// Removal alternates: this pick removes the oldest, whichever it is.
fn removes_the_oldest(world: &mut World, pool: &[Load], limit: Option<u32>) {
    fill(world, pool, limit);
    let before = world.pooled();
    world.now += MS;
    let _ = pick(world);
    assert_eq!(world.pooled(), before[1..], "the oldest");
}
