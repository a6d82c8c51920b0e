//! Queries that may go to a few replicas only, with every policy.

use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::health::{self, HealthConfig, HealthSettings};
use slackwater_core::policy::{
    Decision, Event, Explanation, Outcome, POLICIES, Pick, Policy, PolicySettings, Query, Settings,
};
use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64};

struct Fleet {
    policy: Box<dyn Policy>,
    replicas: Vec<ReplicaId>,
    now: Instant,
    draw: SplitMix64,
}

fn each(replicas: usize, mut test: impl FnMut(&str, &mut Fleet)) {
    for entry in POLICIES {
        for health in [HealthSettings::off(), HealthSettings::default()] {
            let health: HealthConfig = health.validate().unwrap();
            let mut policy = health::build(entry, &PolicySettings::default(), &health);
            let mut ids = ReplicaIds::new();
            let replicas: Vec<_> = (0..replicas).filter_map(|_| ids.allocate()).collect();
            for &replica in &replicas {
                policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
            }
            let mut fleet = Fleet {
                policy,
                replicas,
                now: Instant::EPOCH,
                draw: SplitMix64::new(5),
            };
            test(entry.name, &mut fleet);
        }
    }
}

impl Fleet {
    fn pass(&mut self, time: Duration) {
        self.now += time;
        let draw = &mut self.draw;
        self.policy.handle(self.now, Event::Timeout, draw);
        while let Some(probe) = self.policy.poll_probe(self.now, draw) {
            let latency = Duration::from_micros(1 + u64::from(below(draw, 9_000)));
            let report = LoadReport::new(Rif::new(below(draw, 9)), Some(latency));
            self.policy
                .handle(self.now, Event::Report(probe.id, &report), draw);
        }
    }

    fn pick(&mut self, query: Query<'_>) -> Option<Pick> {
        let (now, draw) = (self.now, &mut self.draw);
        let mut explanation = Explanation::new();
        let decision = (self.policy).choose(now, query, draw, Some(&mut explanation));
        let mut round = match decision {
            Decision::Pick(pick) => {
                let mut considered = explanation.candidates().iter();
                let is_there = considered.any(|it| it.replica == pick.ticket.replica());
                let is_trial = explanation.rule().is_none();
                let is_large = explanation.considered() > 32;
                assert!(
                    is_there || is_trial || is_large,
                    "{query:?} {explanation:?}"
                );
                return Some(pick);
            }
            Decision::NoReplica => return None,
            Decision::Probe(round) => round,
        };
        let targets: Vec<_> = round.targets().collect();
        for target in targets {
            round.handle_report(target, &LoadReport::new(Rif::new(below(draw, 9)), None));
        }
        let round = Some(&round);
        let query = Query { round, ..query };
        self.policy.choose(now, query, draw, None).pick()
    }

    fn goes(&mut self, query: Query<'_>) -> ReplicaId {
        let pick = self.pick(query).expect("a replica may be chosen");
        let replica = pick.ticket.replica();
        assert_ne!(pick.runner_up, Some(replica));
        self.policy
            .handle_query_done(self.now, pick.ticket, Outcome::Success);
        replica
    }

    fn some(&mut self, count: u32) -> Vec<ReplicaId> {
        let len = u32::try_from(self.replicas.len()).unwrap();
        (0..count)
            .map(|_| self.replicas[below(&mut self.draw, len) as usize])
            .collect()
    }
}

#[test]
fn no_policy_picks_outside_while_one_of_them_may_be_chosen() {
    each(40, |name, fleet| {
        let mut out: Vec<ReplicaId> = Vec::new();
        for step in 0..2_000 {
            fleet.pass(Duration::from_micros(700));
            // Traffic that may go anywhere.
            fleet.goes(Query::first());
            let count = 1 + below(&mut fleet.draw, 5);
            let among = fleet.some(count);
            let count = below(&mut fleet.draw, 4);
            let avoid = fleet.some(count);
            let query = match step % 3 {
                0 => Query::first(),
                1 => Query::retry(&avoid),
                _ => Query::hedge(&avoid),
            };
            let may_be = |it: &ReplicaId| {
                fleet.policy.fleet().is_available(*it) && !query.avoid.contains(it)
            };
            // Health may give a query to a replica that is out, as a trial.
            let is_narrow = among.iter().any(may_be);
            let went = fleet.goes(query.among(&among));
            let is_available = fleet.policy.fleet().is_available(went);
            if is_narrow && is_available {
                assert!(among.contains(&went), "{name}, {step}");
            }
            assert!(!query.avoid.contains(&went), "{name}, {step}");
            if step % 20 == 0 {
                let replica = fleet.some(1)[0];
                let is_out = out.contains(&replica);
                out.retain(|&it| it != replica);
                if !is_out && out.len() < 10 {
                    out.push(replica);
                }
                let event = Event::Available(replica, !out.contains(&replica));
                fleet.policy.handle(fleet.now, event, &mut NoDraw);
            }
        }
    });
}

#[test]
fn all_may_be_chosen_if_none_of_them_may() {
    each(8, |name, fleet| {
        fleet.pass(Duration::from_millis(5));
        let among = fleet.replicas[..2].to_vec();
        for &replica in &among {
            let event = Event::Available(replica, false);
            fleet.policy.handle(fleet.now, event, &mut NoDraw);
        }
        for _ in 0..20 {
            let went = fleet.goes(Query::first().among(&among));
            assert!(!among.contains(&went), "{name}");
        }
        let tried = fleet.replicas[2..4].to_vec();
        for _ in 0..20 {
            let went = fleet.goes(Query::retry(&tried).among(&tried));
            assert!(!among.contains(&went) && !tried.contains(&went), "{name}");
        }
        // A second copy goes to no replica that is out.
        let rest = fleet.replicas[2..].to_vec();
        let hedge = fleet.pick(Query::hedge(&rest).among(&among));
        assert!(hedge.is_none(), "{name}");
    });
}

#[test]
fn in_a_panic_a_query_stays_among_its_replicas() {
    each(8, |name, fleet| {
        for &replica in &fleet.replicas {
            let event = Event::Available(replica, false);
            fleet.policy.handle(fleet.now, event, &mut NoDraw);
        }
        let among = fleet.replicas[3..6].to_vec();
        for _ in 0..50 {
            let went = fleet.goes(Query::first().among(&among));
            assert!(among.contains(&went), "{name}");
        }
    });
}

#[test]
fn every_replica_of_a_few_gets_some() {
    each(40, |name, fleet| {
        let among = fleet.replicas[10..14].to_vec();
        let mut counts = [0; 4];
        for _ in 0..2_000 {
            fleet.pass(Duration::from_micros(700));
            let went = fleet.goes(Query::first().among(&among));
            let place = among.iter().position(|&it| it == went);
            counts[place.expect("one of them")] += 1;
        }
        assert!(counts.iter().all(|&it| it > 100), "{name}: {counts:?}");
    });
}

#[test]
fn homes_come_before_the_others_and_repeats_do_no_harm() {
    each(40, |name, fleet| {
        if name == "prequal_sync" {
            return; // its rounds probe homes, and the answers decide
        }
        fleet.pass(Duration::from_millis(5));
        let among = [fleet.replicas[3]; 40];
        let homes = [fleet.replicas[7], fleet.replicas[9], fleet.replicas[7]];
        let query = Query {
            homes: &homes,
            ..Query::first().among(&among)
        };
        for _ in 0..20 {
            assert!(homes.contains(&fleet.goes(query)), "{name}");
        }
        for &home in &homes {
            let event = Event::Available(home, false);
            fleet.policy.handle(fleet.now, event, &mut NoDraw);
        }
        for _ in 0..20 {
            assert_eq!(fleet.goes(query), among[0], "{name}");
        }
    });
}
