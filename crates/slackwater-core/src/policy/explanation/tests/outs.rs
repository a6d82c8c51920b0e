//! Replicas that could not be chosen, and why.

use super::*;

#[test]
fn unavailable_replicas_are_shown_with_the_reason() {
    for entry in POLICIES {
        let mut rig = Rig::new(entry.name, 4);
        let out = rig.replicas[2];
        rig.handle(Event::Available(out, false));
        let (_, explanation) = rig.explained(Query::first());
        assert_eq!(explanation.available(), 3, "{}", entry.name);
        let taken_out = Out {
            replica: out,
            why: OutReason::TakenOut,
            share_millionths: 0,
        };
        assert_eq!(explanation.outs(), [taken_out], "{}", entry.name);
        assert_eq!(explanation.out(), 1);
    }
}

#[test]
fn ejected_replica_is_explained_as_ejected() {
    let mut rig = Rig::guarded("round_robin", 5);
    let bad = rig.replicas[1];
    let mut told = None;
    for _ in 0..5_000 {
        rig.now += MS;
        let (pick, explanation) = rig.explained(Query::first());
        let is_bad = pick.ticket.replica() == bad;
        let outcome = if is_bad {
            Outcome::Failed
        } else {
            Outcome::Success
        };
        rig.policy.handle_query_done(rig.now, pick.ticket, outcome);
        told = explanation.outs().first().copied().or(told);
        if told.is_some_and(|out| out.why == OutReason::Health(HealthState::Ejected)) {
            break;
        }
    }
    let told = told.expect("it is shown");
    assert_eq!(told.replica, bad);
    assert_eq!(told.why.as_str(), "ejected");
    assert_eq!(told.share_millionths, 0);
}

#[test]
fn first_unavailable_replicas_are_shown_and_all_are_counted() {
    let mut rig = Rig::new("random", 50);
    rig.take_out(40);
    let (_, explanation) = rig.explained(Query::first());
    assert_eq!(explanation.outs().len(), Explanation::OUTS_MAX);
    assert_eq!((explanation.out(), explanation.available()), (40, 10));
}

/// Runs a round robin in which the replicas at `bad` always fail, until `count` are ejected. The
/// explanation is valid at each pick.
fn ejected(rig: &mut Rig, bad: &[usize], count: usize) -> Explanation {
    for _ in 0..40_000 {
        rig.now += MS;
        let (pick, told) = rig.explained(Query::first());
        let all = rig.replicas.len();
        assert_eq!(
            told.out() as usize + told.available() as usize,
            all,
            "{told:?}"
        );
        let place = rig.place(pick.ticket.replica());
        if pick.reason == PickReason::Trial {
            let mut outs = told.outs().iter();
            let of_it = outs.find(|out| out.replica == pick.ticket.replica());
            let why = of_it
                .expect("it is out, also to the query that tries it")
                .why;
            assert_eq!(why, OutReason::Health(HealthState::Ejected));
        }
        let failed = bad.contains(&place);
        let outcome = [Outcome::Success, Outcome::Failed][usize::from(failed)];
        rig.end(pick, outcome);
        let outs = told.outs().iter();
        let ejected = outs.filter(|out| out.why == OutReason::Health(HealthState::Ejected));
        if ejected.count() == count {
            return told;
        }
    }
    panic!("they are not ejected");
}

#[test]
fn unavailable_replicas_are_counted_once() {
    let mut rig = Rig::guarded("round_robin", 30);
    rig.take_out(20);
    let told = ejected(&mut rig, &[29], 1);
    assert_eq!((told.available(), told.out()), (9, 21));
    assert_eq!(told.outs().len(), Explanation::OUTS_MAX);

    let mut rig = Rig::guarded("round_robin", 50);
    let bad: Vec<_> = (10..30).collect();
    ejected(&mut rig, &bad, Explanation::OUTS_MAX);
    while rig.policy.fleet().available().len() > 30 {
        ejected(&mut rig, &bad, Explanation::OUTS_MAX);
    }
    let told = ejected(&mut rig, &bad, Explanation::OUTS_MAX);
    assert_eq!((told.available(), told.out()), (30, 20));
}

#[test]
fn trial_counts_its_replica_as_unavailable() {
    let mut rig = Rig::guarded("round_robin", 5);
    ejected(&mut rig, &[1], 1);
    let mut trials = 0;
    for _ in 0..20_000 {
        rig.now += MS;
        let (pick, told) = rig.explained(Query::first());
        assert_eq!((told.available(), told.out()), (4, 1));
        if pick.reason == PickReason::Trial {
            trials += 1;
            assert_eq!(told.chosen(), Some(rig.replicas[1]));
            rig.end(pick, Outcome::Failed);
        } else {
            rig.end(pick, Outcome::Success);
        }
    }
    assert!(trials > 0);
}

#[test]
fn draining_new_replica_is_explained_as_draining() {
    let mut rig = Rig::guarded("prequal", 5);
    rig.warm();
    let new = rig.join();
    let why = |rig: &mut Rig| {
        let (pick, told) = rig.explained(Query::first());
        rig.end(pick, Outcome::Success);
        let of_it = told.outs().iter().find(|out| out.replica == new);
        (
            of_it.map(|out| (out.why, out.share_millionths > 0)),
            told.out(),
        )
    };
    let warming_up = OutReason::Health(HealthState::WarmingUp);
    assert_eq!(why(&mut rig), (Some((warming_up, true)), 1));
    rig.draining = Some(new);
    for _ in 0..200 {
        rig.now += MS;
        let pick = rig.pick(Query::first());
        rig.end(pick, Outcome::Success);
        rig.answer_probes();
    }
    assert_eq!(why(&mut rig), (Some((OutReason::Draining, false)), 1));
}

#[test]
fn driver_can_add_reasons_for_unavailable_replicas() {
    let mut rig = Rig::new("random", 50);
    rig.take_out(40);
    let (_, mut told) = rig.explained(Query::first());
    let down = rig.replicas[39];
    assert!(told.outs().iter().all(|out| out.replica != down));
    told.say_why(down, "down");
    let said = |told: &Explanation, replica| {
        let mut outs = told.outs().iter();
        outs.find(|out| out.replica == replica).map(|out| out.why)
    };
    assert_eq!(said(&told, down), Some(OutReason::Driver("down")));
    assert_eq!((told.outs().len(), told.out()), (Explanation::OUTS_MAX, 40));
    told.say_why(rig.replicas[0], "drained");
    assert_eq!(
        said(&told, rig.replicas[0]),
        Some(OutReason::Driver("drained"))
    );
    let full = rig.replicas[45];
    told.pass_over(full, "full");
    told.pass_over(full, "full");
    assert_eq!(
        (said(&told, full), told.out()),
        (Some(OutReason::Driver("full")), 41)
    );
    // The rest of the space holds replicas without any other reason.
    let taken_out = told
        .outs()
        .iter()
        .filter(|out| out.why == OutReason::TakenOut);
    assert_eq!(taken_out.count(), Explanation::OUTS_MAX - 3);
}
