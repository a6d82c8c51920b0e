//! Policies at the end of time: at the last nanosecond of the clock nothing lies in the future, and
//! each call still ends.

#![expect(clippy::expect_used, reason = "tests and their helpers")]

use slackwater_core::health::{self, HealthConfig};
use slackwater_core::policy::{
    Decision, Event, Outcome, POLICIES, Policy, PolicySettings, ProbeId, Query, Ticket,
};
use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64};

const END: Instant = Instant::from_nanos(u64::MAX);
const REPLICAS: usize = 5;
/// More calls than any policy needs with so few replicas.
const CALLS_MAX: usize = 1_000;

struct Driven {
    policy: Box<dyn Policy>,
    name: &'static str,
    draw: SplitMix64,
}

impl Driven {
    fn handle(&mut self, now: Instant, event: Event<'_>) {
        self.policy.handle(now, event, &mut self.draw);
    }

    /// All probes that are due.
    fn probes(&mut self, now: Instant) -> Vec<ProbeId> {
        let mut probes = Vec::new();
        while let Some(probe) = self.policy.poll_probe(now, &mut self.draw) {
            probes.push(probe.id);
            assert!(
                probes.len() < CALLS_MAX,
                "{}: probes without end",
                self.name
            );
        }
        probes
    }

    fn query(&mut self, now: Instant) -> Ticket {
        let (policy, draw) = (&mut self.policy, &mut self.draw);
        let decision = policy.choose(now, Query::first(), draw, None);
        let pick = match decision {
            Decision::Probe(mut round) => {
                let targets: Vec<ReplicaId> = round.targets().collect();
                for target in targets {
                    round.handle_report(target, &report());
                }
                let query = Query {
                    round: Some(&round),
                    ..Query::first()
                };
                policy.choose(now, query, draw, None).pick()
            }
            other => other.pick(),
        };
        pick.expect("there are replicas").ticket
    }

    /// Queries, probes and answers at one time.
    fn act(&mut self, now: Instant) {
        for _ in 0..REPLICAS {
            let ticket = self.query(now);
            for probe in self.probes(now) {
                self.handle(now, Event::Report(probe, &report()));
            }
            self.policy.handle_query_done(now, ticket, Outcome::Success);
        }
    }
}

fn report() -> LoadReport {
    LoadReport::new(Rif::new(1), None)
}

/// Each policy with a fleet that joined at `joined_at`, without health and with it.
fn driven(joined_at: Instant, is_guarded: bool) -> impl Iterator<Item = Driven> {
    POLICIES.iter().map(move |entry| {
        let settings = PolicySettings::default();
        let policy = if is_guarded {
            health::build(entry, &settings, &HealthConfig::default())
        } else {
            (entry.build)(&settings)
        };
        let mut driven = Driven {
            policy,
            name: entry.name,
            draw: SplitMix64::new(1),
        };
        let mut ids = ReplicaIds::new();
        for replica in (0..REPLICAS).filter_map(|_| ids.allocate()) {
            driven
                .policy
                .handle(joined_at, Event::Added(replica), &mut NoDraw);
        }
        driven
    })
}

#[test]
fn every_policy_sends_finitely_many_probes_at_the_end_of_time() {
    for is_guarded in [false, true] {
        for joined_at in [Instant::EPOCH, END] {
            for mut driven in driven(joined_at, is_guarded) {
                driven.act(joined_at);
                driven.act(END);
                driven.handle(END, Event::Timeout);
                // Probes without an answer end, too.
                driven.probes(END);
                driven.handle(END, Event::Timeout);
                assert_eq!(driven.probes(END), [], "{}", driven.name);
            }
        }
    }
}

#[test]
fn no_policy_has_timeouts_without_end_at_the_end_of_time() {
    for joined_at in [Instant::EPOCH, END] {
        for mut driven in driven(joined_at, false) {
            driven.act(joined_at);
            let mut timeouts = 0;
            while driven.policy.poll_timeout().is_some_and(|at| at <= END) {
                driven.handle(END, Event::Timeout);
                driven.probes(END);
                timeouts += 1;
                assert!(timeouts < CALLS_MAX, "{}", driven.name);
            }
        }
    }
}
