//! Queries without a key are chosen as without keys, draw for draw.

use crate::world::MS;
use slackwater_core::draw::below;
use slackwater_core::health::{self, HealthConfig};
use slackwater_core::keys::{KeyConfig, keyed};
use slackwater_core::policy::{
    Decision, Event, Outcome, POLICIES, Policy, PolicySettings, Query, Ticket,
};
use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaIds, Rif, SplitMix64};

/// Plays the same traffic on a policy, with draws from its own seed. Returns everything it did.
fn played(policy: &mut dyn Policy) -> Vec<String> {
    let mut all = Vec::new();
    let (mut draw, mut chance) = (SplitMix64::new(1), SplitMix64::new(2));
    let mut ids = ReplicaIds::new();
    let replicas: Vec<_> = (0..12).map(|_| ids.allocate().unwrap()).collect();
    for &replica in &replicas {
        policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
    }
    let mut tickets: Vec<Ticket> = Vec::new();
    for step in 0..2_000_u32 {
        let now = Instant::EPOCH + step * MS;
        let replica = replicas[below(&mut chance, 12) as usize];
        let avoid = [replica];
        let query = match below(&mut chance, 6) {
            0 => Query::retry(&avoid),
            1 => Query::hedge(&avoid),
            2 => Query::pinned(replica),
            _ => Query::first(),
        };
        let mut decision = policy.choose(now, query, &mut draw, None);
        if let Decision::Probe(round) = &mut decision {
            for target in round.clone().targets() {
                let report = LoadReport::new(Rif::new(below(&mut chance, 9)), Some(MS));
                round.handle_report(target, &report);
            }
            all.push(format!("{:?}", round.targets().collect::<Vec<_>>()));
            let round = Some(&*round);
            let query = Query { round, ..query };
            decision = policy.choose(now, query, &mut draw, None);
        }
        let pick = decision.pick().expect("some are available");
        all.push(format!("{:?} {}", pick.ticket.replica(), pick.reason));
        tickets.push(pick.ticket);
        if tickets.len() > 20 {
            let ticket = tickets.swap_remove(below(&mut chance, 21) as usize);
            let is_bad = ticket.replica() == replicas[3] && step < 1_000;
            let outcome = if is_bad {
                Outcome::Failed
            } else {
                Outcome::Success
            };
            policy.handle_query_done(now, ticket, outcome);
        }
        policy.handle(now, Event::Timeout, &mut draw);
        while let Some(probe) = policy.poll_probe(now, &mut draw) {
            all.push(format!("{probe:?}"));
            let report = LoadReport::new(Rif::new(below(&mut chance, 9)), Some(MS));
            policy.handle(now, Event::Report(probe.id, &report), &mut draw);
        }
        if step % 100 == 0 {
            policy.handle(now, Event::Available(replica, step % 200 == 0), &mut NoDraw);
        }
    }
    all.push(format!("{:?}", policy.counters()));
    let snapshot = policy.snapshot(Instant::EPOCH + 2_000 * MS);
    all.push(format!("{:?} {:?}", snapshot.replicas, snapshot.pool));
    all
}

#[test]
fn queries_without_a_key_are_chosen_as_without_keys() {
    for entry in POLICIES {
        let build = || health::build(entry, &PolicySettings::default(), &HealthConfig::default());
        let bare = played(&mut *build());
        let wrapped = played(&mut *keyed(build(), &KeyConfig::default()));
        let first = bare.iter().zip(&wrapped).find(|(one, other)| one != other);
        assert_eq!(first, None, "{}", entry.name);
        assert_eq!(bare.len(), wrapped.len(), "{}", entry.name);
    }
}
