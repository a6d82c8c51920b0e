//! Reasons of picks for lack of alternatives.

use super::*;

#[test]
fn panic_pick_explains_the_rule_used() {
    for entry in POLICIES {
        let mut rig = Rig::new(entry.name, 4);
        rig.warm();
        let usual = rig.pick(Query::first());
        let usual_reason = usual.reason;
        rig.end(usual, Outcome::Success);
        rig.take_out(4);
        let (pick, told) = rig.explained(Query::first());
        assert_eq!((pick.reason, told.available()), (PickReason::Panic, 0));
        let expected = match entry.name {
            // Reports of unavailable replicas are not kept.
            "prequal" | "prequal_sync" | "linear" | "c3" => PickReason::Random,
            "rif_then_latency" | "shortest_expected_delay" => PickReason::LeastLoaded,
            _ => usual_reason,
        };
        assert_eq!(told.rule(), Some(expected), "{}", entry.name);
        if expected.is_comparison() {
            let best = told.candidates()[0].replica;
            assert_eq!(best, pick.ticket.replica(), "{}", entry.name);
        }
    }
}

#[test]
fn pick_of_unavailable_replica_is_explained_as_last_resort() {
    for entry in POLICIES {
        let mut rig = Rig::new(entry.name, 4);
        rig.warm();
        let out = rig.replicas[3];
        rig.handle(Event::Available(out, false));
        let tried: Vec<_> = rig.replicas[..3].into();
        let before = rig.policy.counters().picks;
        let (pick, told) = rig.explained(Query::retry(&tried));
        let name = entry.name;
        assert_eq!(pick.ticket.replica(), out, "{name}");
        assert_eq!(pick.reason, PickReason::LastResort, "{name}");
        assert_eq!((told.available(), told.out()), (3, 1), "{name}");
        let after = rig.policy.counters().picks;
        let counts = [before, after].map(|picks| picks.of(PickReason::LastResort));
        assert_eq!(counts, [0, 1], "{name}");
        // If an available replica is left, the pick is not a last resort.
        rig.end(pick, Outcome::Success);
        let (pick, _) = rig.explained(Query::retry(&tried[1..]));
        assert_eq!(pick.ticket.replica(), rig.replicas[0], "{name}");
        assert_ne!(pick.reason, PickReason::LastResort, "{name}");
    }
}

#[test]
fn query_that_waited_for_a_permit_is_not_explained_as_pinned() {
    for entry in POLICIES {
        let mut rig = Rig::new(entry.name, 4);
        rig.warm();
        let place = rig.replicas[2];
        let (pick, told) = rig.explained(Query::with_room(place));
        let name = entry.name;
        assert_eq!(
            (pick.reason, pick.ticket.replica()),
            (PickReason::Room, place)
        );
        assert_eq!((told.chosen(), told.rule()), (Some(place), None), "{name}");
        let picks = rig.policy.counters().picks;
        let of = [PickReason::Room, PickReason::Pinned].map(|reason| picks.of(reason));
        assert_eq!(of, [1, 0], "{name}");
    }
}

#[test]
fn without_reports_own_rif_decides_and_is_the_reason() {
    let mut rig = Rig::new("polled_power_of_d", 4);
    let (pick, told) = rig.explained(Query::first());
    assert_eq!(pick.reason, PickReason::LeastLoaded);
    assert_eq!(told.rule(), Some(PickReason::LeastLoaded));
    let of_own = told
        .candidates()
        .iter()
        .map(|it| value(&told, it, "in_flight"));
    assert!(of_own.eq([Some(0), Some(0)]));
    rig.answer_probes();
    let (pick, _) = rig.explained(Query::first());
    assert_eq!(pick.reason, PickReason::LowestRif);
}
