//! Pasts whose replicas and costs are known, and what the model makes of them.

use super::*;
use crate::random::{Purpose, Stream};
use slackwater_core::policy::{Outcome, PickReason};

const SECOND: u64 = 1_000_000_000;

/// A replica of so many cores, which change after half of the time, and what became of Poisson queries there.
fn past(rate: f64, seconds: u64, cores: [f64; 2], seed: u64) -> (History, Vec<f64>) {
    let mut stream = Stream::new(seed, Purpose::Arrivals, 0);
    let mut history = History::default();
    history.replicas.push("one".to_owned());
    let (mut arrivals, mut true_costs) = (Vec::new(), Vec::new());
    let mut at = 0.0;
    while at < (seconds * SECOND) as f64 {
        at += stream.exponential(1e9 / rate);
        arrivals.push(at);
        true_costs.push(stream.exponential(20e6));
    }
    // By small steps of time: slow, and obviously right.
    let mut left: Vec<(usize, f64)> = Vec::new();
    let mut ends = vec![0.0; arrivals.len()];
    let (mut now, mut next) = (0.0, 0);
    while next < arrivals.len() || !left.is_empty() {
        let half = usize::from(now >= (seconds * SECOND / 2) as f64);
        let pace = (cores[half] / left.len().max(1) as f64).min(1.0);
        let first = left
            .iter()
            .map(|(_, work)| work / pace)
            .fold(f64::INFINITY, f64::min);
        let arrives = arrivals.get(next).map_or(f64::INFINITY, |at| at - now);
        let passed = first.min(arrives).clamp(1.0, 1e6);
        now += passed;
        for (_, work) in &mut left {
            *work -= passed * pace;
        }
        left.retain(|(query, work)| {
            if *work < 1.0 {
                ends[*query] = now;
            }
            *work >= 1.0
        });
        while arrivals.get(next).is_some_and(|at| *at <= now) {
            left.push((next, true_costs[next]));
            next += 1;
        }
    }
    let ns = |at: f64| {
        let since = Duration::from_secs_f64(at / 1e9).as_nanos();
        Time::try_from(since).expect("less than 584 years")
    };
    history.queries = (arrivals.iter().zip(&ends))
        .map(|(arrived, ended)| Passed {
            client: 0,
            attempt: Attempt::First,
            reason: PickReason::Turn,
            replica: 0,
            arrived_at: ns(*arrived),
            sent_at: ns(*arrived),
            end: Some((ns(*ended), Outcome::Success)),
        })
        .collect();
    (history, true_costs)
}

#[test]
fn what_a_replica_could_do_is_found_again() {
    let (history, true_costs) = past(55.0, 30, [2.4, 1.2], 1);
    let model = Model::of(&history).expect("enough to say something");
    let found = model.mean_cost.as_secs_f64() * 1e3;
    let truth = mean(&true_costs) / 1e6;
    assert!(
        (found / truth - 1.0).abs() < 0.12,
        "{found} ms for {truth} ms"
    );
    let tape = model.scenario.tape.as_ref().expect("it has one");
    let steps = &tape.replicas[0];
    let cores_at = |second: u64| steps[tape.step_at(0, 0, second * SECOND)].cores;
    for (half, truth) in [(2..14, 2.4), (17..28, 1.2)] {
        let found: Vec<_> = half.map(cores_at).collect();
        let ratio = mean(&found) / truth;
        assert!((0.8..1.25).contains(&ratio), "{found:?} for {truth}");
    }
}

#[test]
fn costs_are_those_of_the_queries_that_came() {
    let (history, true_costs) = past(40.0, 30, [1.5, 1.5], 2);
    let model = Model::of(&history).expect("enough to say something");
    let tape = model.scenario.tape.as_ref().expect("it has one");
    assert_eq!(
        (tape.queries.len(), model.queries),
        (true_costs.len(), true_costs.len())
    );
    let pairs = tape.queries.iter().zip(&true_costs);
    let ratios: Vec<f64> = pairs.map(|(query, truth)| query.cost_ns / truth).collect();
    let mut sorted = ratios.clone();
    sorted.sort_by(f64::total_cmp);
    let [low, high] = [0.1, 0.9].map(|share| at_share(&sorted, share));
    assert!(low > 0.7 && high < 1.4, "{low} to {high}");
}

#[test]
fn played_again_the_past_takes_as_long_as_it_did() {
    let (history, _) = past(50.0, 30, [2.4, 1.6], 5);
    let model = Model::of(&history).expect("enough to say something");
    let policy = crate::PolicyChoice::shipped("random").expect("it is listed");
    let played = crate::run(&model.scenario, &policy, 1);
    assert_eq!(played.queries, model.queries as u64);
    for q in [0.5, 0.9, 0.99] {
        let times = [&played.latency, &model.recorded].map(|it| it.quantile(q).as_secs_f64());
        let error = times[0] / times[1];
        assert!((0.8..1.25).contains(&error), "{q}: {times:?}");
    }
}

#[test]
fn failures_stay_where_and_when_they_were() {
    let (mut history, _) = past(55.0, 12, [2.0, 2.0], 3);
    for query in &mut history.queries {
        if let Some((at, outcome)) = &mut query.end
            && (5 * SECOND..6 * SECOND).contains(at)
        {
            *outcome = Outcome::Failed;
        }
    }
    let model = Model::of(&history).expect("enough to say something");
    let tape = model.scenario.tape.as_ref().expect("it has one");
    let fails = |tenths: u64| {
        let place = tape.step_at(0, 0, tenths * SECOND / 10);
        tape.replicas[0][place].fails
    };
    assert!(fails(30) < 1e-9 && fails(80) < 1e-9);
    assert!(fails(55) > 0.9, "{}", fails(55));
    assert!(
        model
            .assumptions
            .iter()
            .any(|told| told.contains("tries failed"))
    );
}

#[test]
fn too_little_says_nothing() {
    let (mut history, _) = past(55.0, 20, [2.0, 2.0], 4);
    history.queries.truncate(80);
    assert!(Model::of(&history).is_none());
    assert!(Model::of(&History::default()).is_none());
}
