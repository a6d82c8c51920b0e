//! Pasts with known replicas and costs, and the models made from them.

use super::*;
use crate::random::{Purpose, Stream};
use crate::scenario::News;
use slackwater_core::policy::PickReason;

const SECOND: u64 = 1_000_000_000;

fn model(history: &History) -> Option<Model> {
    Model::of(history, &AtomicBool::new(false))
}

/// Plays Poisson queries at a replica whose cores change after half of the time. Returns the
/// history and the costs.
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
    // Small steps of time are slow, but obviously right.
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
            is_shadow: false,
            has_key: false,
            replica: 0,
            pinned: None,
            arrived_at: ns(*arrived),
            sent_at: ns(*arrived),
            end: Some((ns(*ended), Outcome::Success)),
        })
        .collect();
    (history, true_costs)
}

#[test]
fn replica_capacity_is_recovered_from_a_recording() {
    let (history, true_costs) = past(55.0, 30, [2.4, 1.2], 1);
    let model = model(&history).expect("enough queries for a model");
    let found = model.mean_cost.as_secs_f64() * 1e3;
    let truth = mean(&true_costs) / 1e6;
    assert!(
        (found / truth - 1.0).abs() < 0.12,
        "{found} ms for {truth} ms"
    );
    let replay = model.scenario.replay.as_ref().expect("it has one");
    let steps = &replay.replicas[0];
    let cores_at = |second: u64| steps[replay.step_at(0, 0, second * SECOND)].cores;
    for (half, truth) in [(2..14, 2.4), (17..28, 1.2)] {
        let found: Vec<_> = half.map(cores_at).collect();
        let ratio = mean(&found) / truth;
        assert!((0.8..1.25).contains(&ratio), "{found:?} for {truth}");
    }
}

#[test]
fn query_costs_are_recovered_from_a_recording() {
    let (history, true_costs) = past(40.0, 30, [1.5, 1.5], 2);
    let model = model(&history).expect("enough queries for a model");
    let replay = model.scenario.replay.as_ref().expect("it has one");
    assert_eq!(
        (replay.queries.len(), model.queries),
        (true_costs.len(), true_costs.len())
    );
    let pairs = replay.queries.iter().zip(&true_costs);
    let ratios: Vec<f64> = pairs.map(|(query, truth)| query.cost_ns / truth).collect();
    let mut sorted = ratios.clone();
    sorted.sort_by(f64::total_cmp);
    let [low, high] = [0.1, 0.9].map(|share| at_share(&sorted, share));
    assert!(low > 0.7 && high < 1.4, "{low} to {high}");
}

#[test]
fn replayed_latencies_match_the_recording() {
    let (history, _) = past(50.0, 30, [2.4, 1.6], 5);
    let model = model(&history).expect("enough queries for a model");
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
fn failures_are_replayed_at_their_replica_and_time() {
    let (mut history, _) = past(55.0, 12, [2.0, 2.0], 3);
    for query in &mut history.queries {
        if let Some((at, outcome)) = &mut query.end
            && (5 * SECOND..6 * SECOND).contains(at)
        {
            *outcome = Outcome::Failed;
        }
    }
    let model = model(&history).expect("enough queries for a model");
    let replay = model.scenario.replay.as_ref().expect("it has one");
    let fails = |tenths: u64| {
        let place = replay.step_at(0, 0, tenths * SECOND / 10);
        replay.replicas[0][place].fails
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
fn too_few_queries_give_no_model() {
    let (mut history, _) = past(55.0, 20, [2.0, 2.0], 4);
    history.queries.truncate(80);
    assert!(model(&history).is_none());
    assert!(model(&History::default()).is_none());
}

#[test]
fn retries_and_copies_are_unmeasured_load() {
    let (mut history, _) = past(50.0, 30, [2.0, 2.0], 6);
    for (place, query) in history.queries.iter_mut().enumerate() {
        match place % 5 {
            1 => query.attempt = Attempt::Retry,
            2 => query.attempt = Attempt::Hedge,
            3 => query.is_shadow = true,
            _ => continue,
        }
        if place % 2 == 0 {
            query.end = query.end.map(|(at, _)| (at, Outcome::Dropped));
        }
    }
    history.queries[0].pinned = Some(0);
    let model = model(&history).expect("enough queries for a model");
    let replay = model.scenario.replay.as_ref().expect("it has one");
    // Queries after the last measured one are not played.
    let all = history.queries.len();
    assert!((all - 4..=all).contains(&replay.queries.len()));
    let (measured, load): (Vec<_>, Vec<_>) = replay.queries.iter().partition(|it| it.is_measured);
    let of_kind = |kind: usize| {
        (0..history.queries.len())
            .filter(|place| place % 5 == kind)
            .count()
    };
    assert_eq!(measured.len(), of_kind(0) + of_kind(4));
    assert_eq!(model.queries, measured.len());
    assert_eq!(model.recorded.count(), measured.len() as u64);
    assert_eq!(replay.queries[0].pinned, Some(0));
    for kind in Attempt::ALL {
        assert!(
            replay.queries.iter().any(|it| it.attempt == kind),
            "{kind:?}"
        );
    }
    // The cost of a copy that was given up is the work that was done for it.
    let costs = |of: &[&ReplayQuery]| mean(&of.iter().map(|it| it.cost_ns).collect::<Vec<_>>());
    let ratio = costs(&load) / costs(&measured);
    assert!((0.8..1.25).contains(&ratio), "{ratio}");
    let told = model.assumptions.join("\n");
    let [retries, hedges, shadows] = [1, 2, 3].map(of_kind);
    let kinds =
        format!("{retries} retries, {hedges} second copies and {shadows} copies for trials");
    assert!(told.contains(&kinds), "{told}");
    assert!(told.contains("1 queries belong to a replica"), "{told}");
}

#[test]
fn fleet_changes_match_those_received_by_policies() {
    let (mut history, _) = past(50.0, 30, [2.0, 2.0], 7);
    let change = |at_ns, part, news| ReplayChange {
        at_ns,
        client: 0,
        part,
        news,
    };
    let begins = history.queries[0].arrived_at;
    history.parts = vec![0, 0];
    history.news = vec![
        change(0, 0, News::Joined),
        change(begins + 9, 1, News::Joined),
        change(begins + 5, 0, News::Withdrawn),
    ];
    history.changes = 1;
    let model = model(&history).expect("enough queries for a model");
    let replay = model.scenario.replay.as_ref().expect("it has one");
    assert_eq!(replay.parts, [0, 0]);
    let expected = [
        change(0, 0, News::Joined),
        change(5, 0, News::Withdrawn),
        change(9, 1, News::Joined),
    ];
    assert_eq!(
        replay.news, expected,
        "from the first query on, in the order of time"
    );
    assert!(
        model
            .assumptions
            .join("\n")
            .contains("received 1 changes of the fleet")
    );
}

#[test]
fn long_recording_is_split_into_blocks() {
    let (history, _) = past(50.0, 32, [2.0, 2.0], 8);
    let found = model(&history).expect("enough queries for a model");
    assert_eq!(found.recorded_by_block.len(), 6);
    let sum: u64 = found.recorded_by_block.iter().map(Latencies::count).sum();
    assert_eq!(sum, found.recorded.count());
    let policy = crate::PolicyChoice::shipped("random").expect("it is listed");
    let played = crate::run(&found.scenario, &policy, 1);
    let counts = |blocks: &[Latencies]| blocks.iter().map(Latencies::count).collect::<Vec<_>>();
    assert_eq!(
        counts(&played.latency_by_block),
        counts(&found.recorded_by_block)
    );

    let (short, _) = past(50.0, 20, [2.0, 2.0], 8);
    let found = model(&short).expect("enough queries for a model");
    assert!(found.recorded_by_block.is_empty());
}

#[test]
fn dropped_queries_are_load_without_latency() {
    let (mut history, _) = past(50.0, 30, [2.0, 2.0], 9);
    // Every tenth query had a second copy that was answered first.
    for query in history.queries.iter_mut().step_by(10) {
        query.end = query.end.map(|(at, _)| (at, Outcome::Dropped));
    }
    history.queries[5].end = None;
    let found = model(&history).expect("enough queries for a model");
    let replay = found.scenario.replay.as_ref().expect("it has one");
    let (all, given_up) = (history.queries.len(), history.queries.len().div_ceil(10));
    let measured = replay.queries.iter().filter(|it| it.is_measured).count();
    assert_eq!(measured, all - given_up - 1);
    assert_eq!(found.recorded.count(), measured as u64);
    // One or two queries arrived before the first measured one, or after the last.
    assert!((all - 2..=all).contains(&replay.queries.len()));
    let told = found.assumptions.join("\n");
    let expected = format!("{} first tries were given up", given_up + 1);
    assert!(told.contains(&expected), "{told}");
}

#[test]
fn too_long_recording_is_truncated() {
    let (mut history, _) = past(50.0, 30, [2.0, 2.0], 10);
    let whole = model(&history).expect("enough queries for a model");
    assert!(!whole.assumptions.join("\n").contains("only the first "));
    // This many replicas leave 20 s for each.
    history.replicas.resize(20_000, String::new());
    let stop = AtomicBool::new(true);
    assert!(Model::of(&history, &stop).is_none(), "it was to stop");
    let bound = PIECES_MAX / history.replicas.len() as Time * PIECE_NS;
    assert_eq!(bound, 20 * SECOND);
}

#[test]
fn truncated_recording_is_modelled_from_its_kept_part_alone() {
    let stop = AtomicBool::new(false);
    let (mut long, _) = past(50.0, 40, [2.0, 2.0], 11);
    let kept = long.until(20 * SECOND);
    // Only what is cut off differs from the kept part.
    for query in long.queries.iter_mut().skip(kept.queries.len()) {
        query.attempt = Attempt::Retry;
        query.end = query.end.map(|(at, _)| (at, Outcome::Failed));
    }
    let last = long.queries.last_mut().expect("it has some");
    last.attempt = Attempt::First;
    let begins = long.queries[0].arrived_at;
    let cut = Model::of_first(&long, 20 * SECOND - begins, &stop).expect("enough queries");
    let alone = model(&kept).expect("enough queries");
    let quantiles = |model: &Model| {
        let replay = model.scenario.replay.as_ref().expect("it has one");
        let mut costs: Vec<_> = replay.queries.iter().map(|it| it.cost_ns).collect();
        costs.sort_by(f64::total_cmp);
        [0.0, 0.1, 0.5, 0.9].map(|share| at_share(&costs, share).to_bits())
    };
    assert_eq!(quantiles(&cut), quantiles(&alone));
    assert_eq!(cut.mean_cost, alone.mean_cost);
    assert_eq!(cut.recorded.count(), alone.recorded.count());
    assert!(
        cut.recorded_error_share < 1e-9,
        "{}",
        cut.recorded_error_share
    );
    let told = cut.assumptions.join("\n");
    assert!(told.contains("only the first 19 s"), "{told}");
    for counted in ["retries", "tries failed"] {
        assert!(!told.contains(counted), "{counted}: {told}");
    }
}

#[test]
fn reports_and_answers_to_probes_are_as_recorded() {
    let (mut history, _) = past(50.0, 10, [2.0, 2.0], 12);
    let group = |history: &History| {
        let model = model(history).expect("enough queries for a model");
        model.scenario.fleet[0].clone()
    };
    let plain = group(&history);
    assert!(plain.answers_probes, "no probe was sent");
    assert!(!plain.learns_capacity && !plain.carries_reports);
    // One probe is neither answered nor lost: it was in flight at the end.
    (history.probes, history.probes_lost) = (9, 8);
    assert!(!group(&history).answers_probes);
    history.probes_answered = 1;
    (history.reports_capacity, history.carries_reports) = (true, true);
    let reporting = group(&history);
    assert!(reporting.answers_probes && reporting.learns_capacity && reporting.carries_reports);
    let model = model(&history).expect("enough queries for a model");
    let told = model.assumptions.join("\n");
    assert!(told.contains("8 of 9 probes were lost"), "{told}");
}

#[test]
fn queries_with_keys_are_noted() {
    let (mut history, _) = past(50.0, 10, [2.0, 2.0], 13);
    let told = |history: &History| {
        let model = model(history).expect("enough queries for a model");
        model.assumptions.join("\n")
    };
    assert!(!told(&history).contains("had a key"));
    history.queries[3].has_key = true;
    assert!(
        told(&history).contains("1 queries had a key"),
        "{}",
        told(&history)
    );
}

#[test]
fn maximal_timestamps_do_not_overflow() {
    let (mut history, _) = past(50.0, 30, [2.0, 2.0], 10);
    for query in &mut history.queries {
        let late = |at| at + (u64::MAX - 40 * SECOND);
        (query.arrived_at, query.sent_at) = (late(query.arrived_at), late(query.sent_at));
        query.end = query.end.map(|(at, outcome)| (late(at), outcome));
    }
    let last = history.queries.len() - 1;
    history.queries[last].arrived_at = u64::MAX;
    history.queries[last].end = Some((u64::MAX, Outcome::Success));
    let found = model(&history).expect("enough queries for a model");
    assert!(found.queries >= last, "{}", found.queries);
    // The whole range of time is too long for any model.
    history.queries[0].arrived_at = 0;
    let cut = model(&history);
    assert!(cut.is_none(), "one query came within the first days");
}
