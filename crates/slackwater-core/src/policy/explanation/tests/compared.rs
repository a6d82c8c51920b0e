//! The replicas that are compared, in which order, and the runner-up.

use super::*;
use crate::policy::Ranked;

#[test]
fn explanation_compares_the_values_that_decided() {
    for (policy, count) in [
        ("power_of_d", 2),
        ("polled_power_of_d", 2),
        ("peak_ewma", 2),
        ("least_loaded", 6),
        ("els", 6),
        ("weighted_round_robin", 6),
        ("rif_then_latency", 6),
        ("shortest_expected_delay", 6),
        ("prequal_sync", 3),
    ] {
        let mut rig = Rig::new(policy, 6);
        rig.warm();
        let (pick, explanation) = rig.explained(Query::first());
        let candidates = explanation.candidates();
        assert_eq!(candidates.len(), count, "{policy}: {explanation:?}");
        let is_drawn = matches!(pick.reason, PickReason::Weighted | PickReason::Turn);
        assert!(
            is_drawn || candidates[0].replica == pick.ticket.replica(),
            "{policy}: {explanation:?}"
        );
        let comparison = explanation.comparison().expect("they are compared");
        assert!(
            candidates.iter().all(|candidate| {
                let mut values = (0..comparison.factors.len()).map(|it| candidate.values.at(it));
                values.all(|value| value.is_some())
            }),
            "{policy}: {explanation:?}"
        );
    }
}

#[test]
fn explanation_shows_pooled_reports_and_scores() {
    for (policy, is_scored) in [("prequal", false), ("linear", true), ("c3", true)] {
        let mut rig = Rig::new(policy, 6);
        rig.warm();
        let before = rig.policy.snapshot(rig.now);
        let (pick, explanation) = rig.explained(Query::first());
        assert!(pick.chosen.is_some(), "{policy} chose by a report");
        let mut told: Vec<_> = (explanation.candidates().iter())
            .filter_map(|candidate| candidate.report)
            .collect();
        let oldest_first = |report: &PooledView| (core::cmp::Reverse(report.age), report.replica);
        let mut pool = before.pool;
        told.sort_by_key(oldest_first);
        pool.sort_by_key(oldest_first);
        assert_eq!(told, pool, "{policy}");
        for candidate in explanation.candidates() {
            let score = value(&explanation, candidate, "score_us");
            assert_eq!(score.is_some(), is_scored, "{policy}");
        }
        let best = explanation.candidates()[0].replica;
        assert_eq!(best, pick.ticket.replica(), "{policy}");
    }
}

#[test]
fn order_before_pick_matches_pick() {
    for (policy, replicas) in [
        ("shortest_expected_delay", 6),
        // In a fleet of this size only the newest reports are compared.
        ("shortest_expected_delay", 40),
        ("linear", 6),
        ("c3", 6),
        ("prequal", 6),
        ("rif_then_latency", 6),
    ] {
        let mut rig = Rig::new(policy, replicas);
        rig.with_capacity = true;
        rig.without_latency = alloc::vec![rig.replicas[1], rig.replicas[4]];
        rig.warm();
        let mut foreseen = 0;
        // More and more replicas have some of this client's queries, and the reports differ in age
        // each time.
        for round in 0..60 {
            rig.now += 7 * MS;
            rig.answer_probes();
            rig.now += 3 * MS;
            let seen = rig.policy.snapshot(rig.now);
            let (pick, explanation) = rig.explained(Query::first());
            let mut candidates = explanation.candidates().to_vec();
            candidates.sort_by_key(|candidate| {
                let mut pool = seen.pool.iter();
                let older = pool.position(|report| report.replica == candidate.replica);
                (candidate.place, older)
            });
            let candidates = candidates.into_iter();
            let ordered: Vec<_> = candidates
                .map(
                    |Candidate {
                         replica, values, ..
                     }| Ranked { replica, values },
                )
                .collect();
            assert_eq!(seen.order, ordered, "{policy}, {replicas}, {round}");
            assert_eq!(seen.comparison, explanation.comparison(), "{policy}");
            assert_eq!(seen.shared, explanation.shared(), "{policy}");
            assert!(replicas == 6 || ordered.len() < seen.pool.len(), "{round}");
            if let Some(next) = seen.next {
                assert_eq!(next, pick.ticket.replica(), "{policy}, {round}");
                foreseen += 1;
            }
        }
        // Some rounds are decided at random: two replicas have equally many of the queries here,
        // none of which ends, and no latency.
        assert!((40..=60).contains(&foreseen), "{policy}: {foreseen}");
    }
}

#[test]
fn no_order_is_shown_with_too_few_fresh_reports() {
    for (policy, enough) in [("shortest_expected_delay", 1), ("linear", 2)] {
        let mut rig = Rig::new(policy, 4);
        let seen = |rig: &Rig| rig.policy.snapshot(rig.now).order.len();
        assert_eq!(seen(&rig), 0, "{policy}: no replica has reported");
        rig.warm();
        assert!(seen(&rig) > 1, "{policy}");
        let others = rig.replicas.clone();
        for &replica in &others[enough..] {
            rig.handle(Event::Available(replica, false));
        }
        assert_eq!(seen(&rig), enough, "{policy}: all that may be chosen");
        rig.handle(Event::Available(others[enough - 1], false));
        assert_eq!(seen(&rig), 0, "{policy}: too few");
        rig.handle(Event::Available(others[enough - 1], true));
        rig.answer_probes();
        rig.warm();
        rig.now += 1_000 * MS;
        assert_eq!(seen(&rig), 0, "{policy}: all are old");
    }
}

#[test]
fn candidate_capacity_is_shown_if_the_policy_uses_it() {
    for (policy, with_capacity) in [
        ("shortest_expected_delay", true),
        ("shortest_expected_delay", false),
        ("prequal", true),
    ] {
        let mut rig = Rig::new(policy, 6);
        rig.with_capacity = with_capacity;
        rig.warm();
        let (_, explanation) = rig.explained(Query::first());
        assert!(explanation.candidates().len() > 1, "{policy}");
        for candidate in explanation.candidates() {
            let told = (candidate.capacity_millirif, candidate.cost);
            let place = u32::try_from(rig.place(candidate.replica)).expect("few");
            let reported = (Some(1_000 * (place + 1)), Some(MS * (place + 1)));
            let is_known = with_capacity && policy == "shortest_expected_delay";
            let expected = if is_known { reported } else { (None, None) };
            assert_eq!(told, expected, "{policy}");
            let in_use = value(&explanation, candidate, "in_use");
            assert_eq!(in_use.is_some(), is_known, "{policy}");
        }
    }
}

#[test]
fn tried_replicas_are_avoided_and_pinned_query_compares_none() {
    for policy in ["prequal", "rif_then_latency", "linear"] {
        let mut rig = Rig::new(policy, 4);
        rig.warm();
        let tried = [rig.replicas[0], rig.replicas[1]];
        let (_, explanation) = rig.explained(Query::retry(&tried));
        for candidate in explanation.candidates() {
            assert_eq!(
                candidate.avoided,
                tried.contains(&candidate.replica),
                "{policy}"
            );
        }
        let pinned = rig.replicas[3];
        let (pick, explanation) = rig.explained(Query::pinned(pinned));
        assert_eq!(pick.reason, PickReason::Pinned);
        assert_eq!((explanation.considered(), explanation.available()), (0, 4));
        let of_it = (explanation.chosen(), explanation.rule());
        assert_eq!(of_it, (Some(pinned), None), "{policy}");
    }
}

#[test]
fn best_and_chosen_of_many_candidates_are_shown() {
    let mut rig = Rig::new("least_loaded", 100);
    for _ in 0..90 {
        let _ = rig.pick(Query::first());
    }
    let (pick, explanation) = rig.explained(Query::first());
    assert_eq!(explanation.considered(), 100);
    assert_eq!(explanation.candidates().len(), Explanation::CANDIDATES_MAX);
    let idle = explanation
        .candidates()
        .iter()
        .filter(|it| it.in_flight == 0);
    assert_eq!(idle.count(), 10, "all that are idle");
    candidate(&explanation, pick.ticket.replica());

    for policy in ["els", "weighted_round_robin"] {
        let mut rig = Rig::new(policy, 100);
        for _ in 0..50 {
            let (pick, explanation) = rig.explained(Query::first());
            let chosen = candidate(&explanation, pick.ticket.replica());
            let key = if policy == "els" { "chance" } else { "weight" };
            assert!(value(&explanation, chosen, key) > Some(0), "{policy}");
        }
    }
}

#[test]
fn candidates_are_sorted_with_chosen_and_runner_up_marked() {
    for entry in POLICIES {
        let mut rig = Rig::new(entry.name, 6);
        // An unknown latency has a stand-in, which is ranked among the others.
        rig.without_latency = alloc::vec![rig.replicas[1], rig.replicas[4]];
        rig.warm();
        for _ in 0..40 {
            let (pick, explanation) = rig.explained(Query::first());
            let (name, replica) = (entry.name, pick.ticket.replica());
            assert_eq!(explanation.chosen(), Some(replica), "{name}");
            assert_eq!(explanation.rule(), Some(pick.reason), "{name}");
            let candidates = explanation.candidates();
            let places = candidates.iter().map(|it| it.place);
            assert!(places.is_sorted(), "{name}: {explanation:?}");
            if matches!(
                name,
                "random" | "round_robin" | "els" | "weighted_round_robin"
            ) {
                assert_eq!(explanation.runner_up(), None, "{name}");
            } else {
                let first_two = [0, 1].map(|place| candidates[place].replica);
                let runner_up = explanation.runner_up().expect("a second one");
                assert_eq!(first_two, [replica, runner_up], "{name}: {explanation:?}");
                let known = pick.runner_up.unwrap_or(runner_up);
                assert_eq!(known, runner_up, "{name}: the policy's own word");
            }
            rig.now += MS;
            rig.end(pick, Outcome::Success);
            rig.answer_probes();
        }
    }
}

#[test]
fn all_hot_and_cold_replicas_are_counted() {
    let mut rig = Rig::new("rif_then_latency", 100);
    for _ in 0..200 {
        rig.now += 2 * MS;
        let pick = rig.pick(Query::first());
        rig.end(pick, Outcome::Success);
        rig.answer_probes();
    }
    let pool = rig.policy.snapshot(rig.now).pool;
    let (_, explanation) = rig.explained(Query::first());
    let told = explanation.candidates().len();
    assert_eq!(told, Explanation::CANDIDATES_MAX);
    let hot = pool.iter().filter(|report| report.hot).count();
    assert!(hot > told, "{hot}");
    assert_eq!(explanation.hot() as usize, hot);
    assert_eq!(explanation.cold() as usize, pool.len() - hot);

    let tried = [rig.replicas[98], rig.replicas[99]];
    let (_, explanation) = rig.explained(Query::retry(&tried));
    let could_have_it = explanation.considered() - 2;
    assert_eq!(explanation.cold() + explanation.hot(), could_have_it);
}

#[test]
fn shown_weights_are_those_of_the_draw() {
    let mut rig = Rig::new("els", 3);
    rig.serve(0, Outcome::Success, 150);
    rig.serve(1, Outcome::Success, 150);
    rig.serve(2, Outcome::Failed, 150);
    let chance = |told: &Explanation, replica| {
        let candidate = candidate(told, replica);
        ["excluded", "chance"].map(|key| value(told, candidate, key))
    };
    let (_, all) = rig.explained(Query::first());
    let excluded = chance(&all, rig.replicas[2]);
    assert_eq!(excluded, [Some(1), Some(0)], "it fails always");
    let others = [rig.replicas[0], rig.replicas[1]];
    let (pick, alone) = rig.explained(Query::retry(&others));
    assert_eq!(pick.ticket.replica(), rig.replicas[2]);
    let whole = 1023_u64 << 52; // 1 as a floating-point number
    assert_eq!(chance(&alone, rig.replicas[2]), [Some(0), Some(whole)]);
}
