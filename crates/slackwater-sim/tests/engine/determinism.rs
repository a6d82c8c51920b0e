//! One seed gives the same results beside any other runs, and another seed gives other results.

use super::rig::{SINGLE, everyone, fingerprint, ms, named, plain, play, play_seed, secs, steady};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use slackwater_sim::Measured;
use slackwater_sim::runner::{Job, Progress, run_all};
use slackwater_sim::scenario::{Change, Cost, Event, Group, Hedge, Scenario};
use std::sync::{Arc, Mutex};

/// A second of a fleet in which everything happens.
pub(crate) fn eventful() -> Scenario {
    let mut scenario = plain(500.0, vec![Group::healthy(8, SINGLE)]);
    scenario.cost = Cost::Exponential(ms(10));
    scenario.network = steady(ms(1));
    scenario.network.probe_loss = 0.1;
    scenario.load.hedge = Some(Hedge {
        after_quantile: 0.9,
        budget: 0.1,
        delay_min: ms(1),
        copies_max: 2,
        needs_room: false,
    });
    scenario.deadline = ms(200);
    scenario.cancel_expired = true;
    scenario.span = ms(1_000);
    scenario.events = vec![
        Event {
            at: ms(300),
            replica: 0,
            change: Change::Crash {
                known_after: ms(50),
            },
        },
        Event {
            at: ms(500),
            replica: 1,
            change: Change::Restart {
                down_for: ms(100),
                cold_slowness: 1.0,
                warm_after: ms(0),
            },
        },
    ];
    scenario
}

#[test]
fn same_seed_gives_identical_results() {
    let scenario = eventful();
    for policy in everyone() {
        let first = fingerprint(&play(&scenario, policy));
        assert_eq!(first, fingerprint(&play(&scenario, policy)), "{policy}");
        let other = fingerprint(&play_seed(&scenario, policy, 2));
        assert_ne!(first, other, "{policy} under another seed");
    }
}

fn jobs() -> Vec<Job> {
    let scenario = Arc::new(eventful());
    let mut short = eventful();
    short.span = ms(200);
    short.events.clear();
    let short = Arc::new(short);
    let job = |scenario: &Arc<Scenario>, policy, seed| Job {
        scenario: Arc::clone(scenario),
        policy: named(policy),
        seed,
    };
    let mut jobs = Vec::new();
    for seed in 1..=3 {
        jobs.push(job(&short, "prequal", seed));
        jobs.push(job(&scenario, "prequal", seed));
        jobs.push(job(&scenario, "round_robin", seed));
    }
    jobs
}

#[test]
fn results_do_not_depend_on_number_of_threads() {
    let jobs = jobs();
    let seen = Mutex::new(Vec::new());
    let results = |threads| -> Vec<String> {
        seen.lock().expect("no panic").clear();
        let note = |progress| seen.lock().expect("no panic").push(progress);
        let measured = run_all(&jobs, threads, &note, &AtomicBool::new(false));
        measured.iter().map(fingerprint).collect()
    };
    let alone = results(1);
    let one_by_one: Vec<_> = jobs
        .iter()
        .map(|job| fingerprint(&slackwater_sim::run(&job.scenario, &job.policy, job.seed)))
        .collect();
    assert_eq!(alone, one_by_one, "in the order of the jobs");
    for threads in [0, 2, 20] {
        assert_eq!(alone, results(threads), "{threads} threads");
    }
    let seen: Vec<Progress> = seen.into_inner().expect("no panic");
    let done: Vec<_> = seen.iter().map(|progress| progress.done).collect();
    assert_eq!(done, (1..=jobs.len()).collect::<Vec<_>>());
    assert!(seen.is_sorted_by(|a, b| a.share < b.share), "{seen:?}");
    assert_eq!(
        seen.last().map(|progress| progress.share.to_bits()),
        Some(1.0_f64.to_bits())
    );
}

#[test]
fn largest_run_starts_first_and_stop_prevents_others() {
    let jobs = jobs();
    let stop = AtomicBool::new(false);
    let first = Mutex::new(None);
    let stop_at_once = |progress: Progress| {
        first.lock().expect("no panic").get_or_insert(progress);
        stop.store(true, Relaxed);
    };
    let done: Vec<Measured> = run_all(&jobs, 1, &stop_at_once, &stop);
    // The second job ends first. It is five times the size of the first, which never started.
    assert_eq!(done.len(), 0);
    let first = first
        .into_inner()
        .expect("no panic")
        .expect("one run ended");
    // Three small jobs of weight 1, six of weight 5.
    assert!((first.share - 5.0 / 33.0).abs() < 1e-9, "{first:?}");
    assert_eq!((first.done, first.total), (1, 9));
}

#[test]
fn stop_ends_a_running_simulation() {
    let short = Arc::new(eventful());
    let mut long = eventful();
    long.span = secs(600);
    long.events.clear();
    let jobs = [Arc::new(long), short].map(|scenario| Job {
        scenario,
        policy: named("round_robin"),
        seed: 1,
    });
    let stop = AtomicBool::new(false);
    // The short run ends first, on its own thread, and sets the stop flag.
    let stop_at_once = |progress: Progress| {
        assert_eq!(progress.done, 1, "the long one does not end");
        stop.store(true, Relaxed);
    };
    assert!(run_all(&jobs, 2, &stop_at_once, &stop).is_empty());
}
