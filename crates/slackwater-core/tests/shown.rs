//! What `{:?}` shows of policies: names and states, in a line.

use slackwater_core::health::{HealthSettings, build};
use slackwater_core::policy::{
    DEFAULT_POLICY, Event, Outcome, POLICIES, PolicySettings, Query, Settings,
};
use slackwater_core::{Instant, NoDraw, Quantile, Rate, ReplicaIds, default_policy};

#[test]
fn debug_of_a_policy_shows_its_name_and_replicas() {
    for entry in POLICIES {
        let mut policy = (entry.build)(&PolicySettings::default());
        let mut ids = ReplicaIds::new();
        for _ in 0..2 {
            let id = ids.allocate().expect("far below the limit");
            policy.handle(Instant::EPOCH, Event::Added(id), &mut NoDraw);
            policy.handle(
                Instant::EPOCH,
                Event::Available(id, id.index() == 0),
                &mut NoDraw,
            );
        }
        let expected = format!(
            "Policy {{ name: \"{}\", replicas: {{r0: available, 0 in flight, \
             r1: taken out, 0 in flight}}, picks: 0, probes_answered: 0, .. }}",
            entry.name
        );
        assert_eq!(format!("{policy:?}"), expected);
        for id in 2..1_000 {
            let id = ids.allocate().unwrap_or_else(|| panic!("{id}"));
            policy.handle(Instant::EPOCH, Event::Added(id), &mut NoDraw);
        }
        let shown = format!("{policy:?}");
        assert!(
            shown.contains("r15: available") && shown.len() < 700,
            "{shown}"
        );
    }
}

#[test]
fn debug_of_a_guarded_policy_shows_ejected_replicas() {
    let (mut policy, mut ids) = (default_policy(), ReplicaIds::new());
    for _ in 0..4 {
        let id = ids.allocate().expect("far below the limit");
        policy.handle(Instant::EPOCH, Event::Added(id), &mut NoDraw);
    }
    assert!(
        format!("{policy:?}").ends_with("unsound: [], .. }"),
        "{policy:?}"
    );
    let mut draw = slackwater_core::SplitMix64::new(1);
    for ms in 1..1_000 {
        let now = Instant::from_nanos(ms * 1_000_000);
        let pick = policy.choose(now, Query::first(), &mut draw, None).pick();
        let ticket = pick.expect("four replicas").ticket;
        let has_failed = ticket.replica().index() == 3;
        let outcome = if has_failed {
            Outcome::Failed
        } else {
            Outcome::Success
        };
        policy.handle_query_done(now, ticket, outcome);
    }
    assert!(
        format!("{policy:?}").contains("unsound: [(r3, \"ejected\")]"),
        "{policy:?}"
    );
}

#[test]
fn default_policy_matches_the_policy_of_serve() {
    let health = HealthSettings::standard().validate().expect("in range");
    let built = build(&DEFAULT_POLICY, &PolicySettings::default(), &health);
    assert_eq!(format!("{built:?}"), format!("{:?}", default_policy()));
    assert!(health.errors.is_some() && health.warm_up.is_some() && health.probation.is_none());
}

#[test]
fn debug_of_values_is_readable() {
    let rate = Rate::from_millionths(500_000).expect("in range");
    let quantile = Quantile::from_millionths(840_000).expect("in range");
    let at = Instant::from_nanos(1_500_000_000);
    let shown = format!("{rate:?} {quantile:?} {at:?} {DEFAULT_POLICY:?}");
    assert!(
        shown.starts_with("Rate(0.5) Quantile(0.84) Instant(1.5s) PolicyEntry { name: \""),
        "{shown}"
    );
    assert!(!shown.contains("0x"), "{shown}");
}
