//! A replica that reports no load and answers probes at once, but answers no query. `[Decision
//! 0015]`

use crate::world::{MS, World, load, quiet_default};
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Event, Linear, LinearConfig, Outcome, Policy, Prequal, Query, ShortestExpectedDelay,
    ShortestExpectedDelayConfig, Ticket,
};
use slackwater_core::{Instant, LoadReport, Rate, Rif};

const REPLICAS: usize = 5;
const LIAR: usize = 2;
/// Service time of the other replicas, and queries that other clients have at each.
const SERVICE: Duration = Duration::from_millis(20);
const OTHERS: u32 = 3;
/// Including those, each other replica has at most this many in flight.
const AS_OTHERS: u32 = OTHERS + 5;
/// Time after which a client gives up.
const PATIENCE: Duration = Duration::from_secs(3);

/// A query in flight: when it ends, where it is, and how it ends there.
struct Out {
    ends_at: Instant,
    place: usize,
    ticket: Ticket,
}

/// Plays 300 queries a second for 9 s. Returns how many queries each replica gets, and the most
/// that the liar had at a time.
fn played<P: Policy>(policy: P) -> (Vec<u32>, usize) {
    let mut world = World::of(REPLICAS, policy);
    let mut out: Vec<Out> = Vec::new();
    let (mut sent, mut held_max) = (vec![0; REPLICAS], 0);
    for query in 0..2_700_u64 {
        world.now = Instant::from_nanos(query * 10_000_000 / 3);
        while let Some(next) = out.iter().position(|it| it.ends_at <= world.now) {
            let it = out.swap_remove(next);
            let outcome = match it.place {
                LIAR => Outcome::Dropped,
                _ => Outcome::Success,
            };
            (world.policy).handle_query_done(it.ends_at, it.ticket, outcome);
        }
        world.handle(Event::Timeout);
        let pick = world.pick_for(Query::first());
        let replica = pick.ticket.replica();
        let place = world.replicas.iter().position(|&id| id == replica);
        let place = place.expect("one of the fleet");
        sent[place] += 1;
        let takes = if place == LIAR { PATIENCE } else { SERVICE };
        out.push(Out {
            ends_at: world.now + takes,
            place,
            ticket: pick.ticket,
        });
        let held = |place| out.iter().filter(|it| it.place == place).count();
        held_max = held_max.max(held(LIAR));
        for probe in world.probes() {
            let place = world.replicas.iter().position(|&id| id == probe.replica);
            let place = place.expect("one of the fleet");
            let mut report = if place == LIAR {
                LoadReport::new(Rif::ZERO, Some(Duration::from_nanos(1)))
            } else {
                let own = u32::try_from(held(place)).expect("few");
                load(OTHERS + own, 20)
            };
            report.capacity_millirif = Some(8_000);
            report.cost = Some(MS);
            world.answer(probe, &report);
        }
    }
    (sent, held_max)
}

fn shipped() -> PrequalSettings {
    PrequalSettings {
        probe_rate: Rate::from_millionths(3_000_000).expect("in range"),
        remove_rate: Rate::ONE,
        idle_probes: 0,
        probe_deadline: 50 * MS,
        ..quiet_default()
    }
}

/// 2,700 queries are 540 for each. The liar gets as many as it can hold while its clients wait, and
/// again each time they give up: three more times within 9 s.
#[track_caller]
fn check((sent, held_max): (Vec<u32>, usize), hold: u32) {
    assert!(held_max <= hold as usize, "{held_max} at a time: {sent:?}");
    assert!(sent[LIAR] <= 4 * hold, "{sent:?}");
    let others = sent.iter().enumerate().filter(|&(place, _)| place != LIAR);
    for (_, &sent) in others {
        assert!((600..750).contains(&sent), "{sent}");
    }
}

#[test]
fn prequal_bounds_rif_of_a_lying_replica() {
    let config = shipped().validate().expect("in range");
    check(played(Prequal::new(config)), AS_OTHERS);
}

#[test]
fn other_pool_policies_bound_rif_of_a_lying_replica() {
    let config = || shipped().validate().expect("in range");
    let linear = Linear::new(config(), &LinearConfig::default());
    check(played(linear), AS_OTHERS);
}

#[test]
fn default_policy_bounds_rif_of_a_lying_replica() {
    let config = shipped().validate().expect("in range");
    let settings = ShortestExpectedDelayConfig::default();
    // It counts as at most four times as fast as the mean, and so gets four times as many.
    let policy = ShortestExpectedDelay::new(config, &settings);
    check(played(policy), 4 * AS_OTHERS);
}

#[test]
fn reported_rif_is_at_least_own_queries_sent_before_the_probe() {
    let mut world = World::new(2, quiet_default());
    let replica = world.replicas[0];
    let avoid = [world.replicas[1]];
    let mut tickets: Vec<_> = (0..3)
        .map(|_| world.pick_for(Query::retry(&avoid)).ticket)
        .collect();
    let probe = world.probe(replica);
    world.answer(probe, &load(1, 5));
    assert_eq!(
        world.rif_of(replica),
        Some(3),
        "three of this client's alone"
    );
    world.report(replica, &load(7, 5));
    assert_eq!(world.rif_of(replica), Some(7), "and four of others'");

    // A query sent after the probe may be on its way. It counts like any query until the report
    // comes.
    let probe = world.probe(replica);
    tickets.push(world.pick_for(Query::retry(&avoid)).ticket);
    world.answer(probe, &load(0, 5));
    assert_eq!(world.rif_of(replica), Some(3));

    // A query that has ended may have done so before the probe arrived.
    let probe = world.probe(replica);
    for ticket in tickets.drain(..2) {
        (world.policy).handle_query_done(world.now, ticket, Outcome::Success);
    }
    world.answer(probe, &load(1, 5));
    assert_eq!(world.rif_of(replica), Some(2));
    world.report(replica, &load(0, 5));
    assert_eq!(world.rif_of(replica), Some(2));
    for ticket in tickets {
        (world.policy).handle_query_done(world.now, ticket, Outcome::Dropped);
    }
    world.report(replica, &load(0, 5));
    assert_eq!(world.rif_of(replica), Some(0));
}

#[test]
fn sibling_report_is_raised_to_own_rif() {
    let mut world = World::new(2, quiet_default());
    let replica = world.replicas[0];
    let avoid = [world.replicas[1]];
    let tickets = [(); 2].map(|()| world.pick_for(Query::retry(&avoid)).ticket);
    world.report(replica, &load(9, 5));
    let now = world.now;
    (world.policy).handle(
        now,
        Event::SiblingReport(replica, &load(0, 5)),
        &mut world.draw,
    );
    assert_eq!(world.rif_of(replica), Some(2));
    for ticket in tickets {
        (world.policy).handle_query_done(world.now, ticket, Outcome::Success);
    }
}
