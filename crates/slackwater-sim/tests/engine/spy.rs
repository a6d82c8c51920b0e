//! The calls that a policy receives, seen by a spy between the engine and a policy that users run.

use super::rig::{SINGLE, ms, plain, regular, secs, shared, steady};
use core::cell::RefCell;
use core::time::Duration;
use slackwater_core::policy::{
    self, Counters, DEFAULT_POLICY, Decision, Explanation, Fleet, Outcome, POLICIES, Policy,
    PolicyEntry, PolicySettings, Probe, ProbeId, Query, Snapshot, Ticket, policy_named,
};
use slackwater_core::{Draw, Instant, ReplicaId};
use slackwater_sim::policy::{PolicyChoice, PolicyKind};
use slackwater_sim::scenario::{
    Change, ClassHandling, Classes, Cost, Event, Failure, FailureCost, Group, Hedge, Scenario,
    Service, Siblings,
};
use slackwater_sim::{Measured, run};

/// The calls so far.
#[derive(Clone, Debug, Default)]
struct Calls {
    queries: usize,
    hedges: usize,
    succeeded: usize,
    failed: usize,
    unreachable: usize,
    dropped: usize,
    probes: usize,
    reports: usize,
    probes_lost: usize,
    timeouts: usize,
    siblings_reports: usize,
    siblings_queries: u32,
    carried: usize,
    carried_capacities: usize,
}

thread_local! {
    /// A run stays on its thread.
    static CALLS: RefCell<Calls> = RefCell::default();
}

fn note(note: impl FnOnce(&mut Calls)) {
    CALLS.with_borrow_mut(note);
}

#[derive(Debug)]
struct Spy {
    policy: Box<dyn Policy>,
    /// Whether its timeout is always due.
    restless: bool,
}

impl Policy for Spy {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn handle(&mut self, now: Instant, event: policy::Event<'_>, draw: &mut dyn Draw) {
        note(|calls| match event {
            policy::Event::Report(..) => calls.reports += 1,
            policy::Event::ProbeLost(_) => calls.probes_lost += 1,
            policy::Event::SiblingReport(..) => calls.siblings_reports += 1,
            policy::Event::SiblingQueries(_, queries) => calls.siblings_queries += queries,
            policy::Event::CarriedReport(_, report) => {
                calls.carried += 1;
                calls.carried_capacities += usize::from(report.capacity_millirif.is_some());
            }
            policy::Event::Timeout => calls.timeouts += 1,
            _ => {}
        });
        self.policy.handle(now, event, draw);
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Decision {
        note(|calls| {
            calls.queries += 1;
            calls.hedges += query.avoid.len();
        });
        let decision = (self.policy).choose(now, query, draw, explanation);
        if let Decision::Pick(pick) = &decision {
            assert!(!query.avoid.contains(&pick.ticket.replica()));
        }
        decision
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        self.policy.handle_head(now, ticket, outcome);
    }

    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        note(|calls| match outcome {
            Outcome::Success => calls.succeeded += 1,
            Outcome::Failed | Outcome::TimedOut | Outcome::Broken => calls.failed += 1,
            Outcome::NoConnection => calls.unreachable += 1,
            _ => calls.dropped += 1,
        });
        self.policy.handle_query_done(now, ticket, outcome);
    }

    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        let probe = self.policy.poll_probe(now, draw);
        note(|calls| calls.probes += usize::from(probe.is_some()));
        probe
    }

    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId> {
        self.policy.probe_target(probe)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        if self.restless {
            Some(Instant::EPOCH)
        } else {
            self.policy.poll_timeout()
        }
    }

    fn wants_trial(&self) -> bool {
        self.policy.wants_trial()
    }

    fn spares_some(&mut self, now: Instant) -> bool {
        self.policy.spares_some(now)
    }

    fn fleet(&self) -> &Fleet {
        self.policy.fleet()
    }

    fn counters(&self) -> Counters {
        self.policy.counters()
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        self.policy.snapshot(now)
    }
}

fn spy(name: &str, restless: bool) -> Box<dyn Policy> {
    let entry = policy_named(name).unwrap_or(&POLICIES[0]);
    Box::new(Spy {
        policy: (entry.build)(&PolicySettings::default()),
        restless,
    })
}

const fn entry(build: fn(&PolicySettings) -> Box<dyn Policy>) -> PolicyEntry {
    PolicyEntry {
        name: "spy",
        about: "a spy",
        build,
        ..DEFAULT_POLICY
    }
}

static IN_TURN: PolicyEntry = entry(|_| spy("round_robin", false));
static PREQUAL: PolicyEntry = entry(|_| spy("prequal", false));
static RESTLESS: PolicyEntry = entry(|_| spy("round_robin", true));

fn watch(scenario: &Scenario, entry: &'static PolicyEntry) -> (Measured, Calls) {
    assert_eq!(scenario.mistakes(), [], "a test's scenario is a valid one");
    CALLS.set(Calls::default());
    let kind = PolicyKind::Shipped {
        entry,
        settings: Box::default(),
        health: None,
        keys: None,
    };
    let name = entry.name.to_owned();
    let measured = run(scenario, &PolicyChoice { name, kind }, 1);
    (measured, CALLS.take())
}

#[test]
fn policy_receives_the_outcome_of_each_query() {
    let failing = Group {
        failure: Some(Failure {
            share: 1.0,
            cost: FailureCost::Share(0.0),
            from: Duration::ZERO,
            until: secs(5),
            reported_until: Duration::MAX,
        }),
        ..Group::healthy(1, SINGLE)
    };
    let fleet = vec![failing, Group::healthy(1, SINGLE)];
    let (measured, calls) = watch(&regular(50.0, fleet, Vec::new()), &IN_TURN);
    assert_eq!(
        (measured.errors, calls.failed),
        (125, 125),
        "every other of 5 s"
    );
    assert_eq!((calls.unreachable, calls.dropped), (0, 0));
    let out = calls.queries - calls.succeeded - calls.failed;
    assert!(out <= 1, "the one that came as the span ended");
}

#[test]
fn unanswered_query_fails_at_its_deadline() {
    let mut scenario = regular(300.0, vec![Group::healthy(1, SINGLE)], Vec::new());
    scenario.deadline = ms(95);
    let (measured, calls) = watch(&scenario, &IN_TURN);
    // Queries after the span were not measured, but ended in the same way. The last ones are still
    // in flight.
    assert!(calls.failed as u64 >= measured.timeouts && measured.timeouts > 2_900);
    assert_eq!(
        (calls.succeeded, calls.unreachable, calls.dropped),
        (13, 0, 0)
    );
}

#[test]
fn down_replica_is_unreachable_and_loses_probes() {
    let restart = Event {
        at: secs(2),
        replica: 0,
        change: Change::Restart {
            down_for: secs(2),
            cold_slowness: 1.0,
            warm_after: Duration::ZERO,
        },
    };
    let mut scenario = regular(50.0, vec![Group::healthy(2, SINGLE)], vec![restart]);
    scenario.network = steady(ms(1));
    let (_, in_turn) = watch(&scenario, &IN_TURN);
    assert_eq!(in_turn.unreachable, 50, "every other one of 2 s");
    let (_, prequal) = watch(&scenario, &PREQUAL);
    // Every probe ends in one of two ways, except for those in flight at the end.
    let out = prequal.probes - prequal.reports - prequal.probes_lost;
    assert!(prequal.probes_lost > 50 && out <= 3, "{prequal:?}");
}

#[test]
fn crash_fails_running_queries() {
    let crash = Event {
        at: ms(2_005),
        replica: 0,
        change: Change::Crash { known_after: ms(1) },
    };
    let scenario = regular(100.0, vec![Group::healthy(1, SINGLE)], vec![crash]);
    let (measured, calls) = watch(&scenario, &IN_TURN);
    assert_eq!(
        (calls.succeeded, calls.failed, calls.unreachable),
        (199, 1, 0)
    );
    // The other queries arrived when the client had no replica.
    assert_eq!(measured.errors, measured.queries - 199);
}

#[test]
fn slower_copy_is_cancelled_at_client_and_replica() {
    let mut trace = vec![ms(1); 95];
    trace.extend([ms(500); 5]);
    let mut scenario = plain(200.0, vec![Group::healthy(10, Service::Latency)]);
    scenario.cost = Cost::Trace(trace.into());
    scenario.network = steady(ms(1));
    scenario.warmup = secs(2);
    scenario.load.hedge = Some(Hedge {
        after_quantile: 0.9,
        budget: 0.2,
        delay_min: ms(5),
        copies_max: 2,
        needs_room: false,
    });
    let (measured, calls) = watch(&scenario, &IN_TURN);
    assert!(measured.hedges > 50);
    assert!(calls.hedges as u64 >= measured.hedges, "the warm-up's, too");
    // One copy of each hedged query is dropped, except for the last ones in flight.
    assert!(calls.dropped.abs_diff(calls.hedges) <= 3, "{calls:?}");
    // Without cancellations, replicas would work on the slow copies: 200 × 0.05 × 0.5 s, half a
    // query at each of the ten.
    assert!(measured.rif.mean() < 0.1, "{}", measured.rif.mean());
}

#[test]
fn policy_with_constant_timeouts_does_not_block_time() {
    let mut scenario = plain(10.0, vec![Group::healthy(1, SINGLE)]);
    scenario.span = secs(1);
    let (_, calls) = watch(&scenario, &RESTLESS);
    // Two clients, each once a millisecond. There are a few more timeouts if a query is still in
    // flight at the end.
    assert!(
        (1_990..=2_100).contains(&calls.timeouts),
        "{}",
        calls.timeouts
    );
}

/// Two proxies of two workers and one with a single worker: four of five clients have one sibling
/// each.
#[test]
fn siblings_receive_only_what_is_shared() {
    let calls = |siblings: Option<Siblings>| {
        let mut scenario = regular(500.0, vec![Group::healthy(8, SINGLE)], Vec::new());
        scenario.load.clients = vec![1.0; 5];
        scenario.load.siblings = siblings;
        watch(&scenario, &PREQUAL).1
    };
    let siblings = |workers, answers, queries| {
        calls(Some(Siblings {
            workers,
            answers,
            queries,
        }))
    };
    for nothing in [
        calls(None),
        siblings(2, false, false),
        siblings(1, true, true),
    ] {
        let calls = (nothing.siblings_reports, nothing.siblings_queries);
        assert_eq!(calls, (0, 0));
    }
    let answers = siblings(2, true, false);
    assert_eq!(answers.siblings_queries, 0);
    // Every client sends a fifth of the queries, and a fifth of the probes except for the jitter of
    // idle ones.
    let share = answers.siblings_reports as f64 / answers.reports as f64;
    assert!((share - 0.8).abs() < 0.01, "{share}");
    let queries = siblings(2, false, true);
    assert_eq!(queries.siblings_reports, 0);
    assert_eq!(queries.siblings_queries as usize, queries.queries * 4 / 5);
    let all = siblings(5, true, true);
    assert_eq!(all.siblings_queries as usize, all.queries * 4);
    assert_eq!(all.siblings_reports, all.reports * 4);
}

#[test]
fn client_is_charged_for_what_a_long_query_counts() {
    let charged = |handling| {
        let mut scenario = regular(200.0, vec![Group::healthy(8, SINGLE)], Vec::new());
        scenario.load.classes = Some(Classes {
            long_from: ms(10),
            handling,
        });
        watch(&scenario, &PREQUAL).1
    };
    // All queries cost 10 ms, so all are long.
    let five = charged(ClassHandling::Charged { long_counts_as: 5 });
    assert_eq!(five.siblings_queries as usize, five.queries * 4);
    assert_eq!(charged(ClassHandling::Ignored).siblings_queries, 0);
}

/// A random choice is counted as a fallback, and a deciding report's age is recorded.
#[test]
fn fallbacks_and_report_ages_are_counted() {
    let mut scenario = regular(100.0, vec![Group::healthy(1, SINGLE)], Vec::new());
    let (alone, _) = watch(&scenario, &PREQUAL);
    // One report is too few to decide.
    assert_eq!(
        (alone.fallbacks, alone.report_age.count()),
        (alone.queries, 0)
    );
    scenario.fleet = vec![Group::healthy(4, SINGLE)];
    scenario.network = steady(ms(1));
    scenario.warmup = secs(1);
    let (four, _) = watch(&scenario, &PREQUAL);
    assert_eq!(four.fallbacks + four.report_age.count(), four.queries);
    assert!(four.fallback_share() < 0.01, "{}", four.fallback_share());
    // Three probes to four replicas every 10 ms, answered 2 ms later.
    let median = four.report_age.quantile(0.5);
    assert!((ms(7)..=ms(20)).contains(&median), "{median:?}");
    let (in_turn, _) = watch(&scenario, &IN_TURN);
    assert_eq!((in_turn.fallbacks, in_turn.report_age.count()), (0, 0));
}

/// Two groups, served in turn. One of them carries reports and the other may not.
#[test]
fn responses_carry_reports_if_configured() {
    let calls = |carries: [bool; 2], learns: bool| {
        let group = |carries_reports| Group {
            carries_reports,
            learns_capacity: learns,
            ..Group::healthy(1, shared(4.0))
        };
        let fleet = carries.map(group).to_vec();
        let calls = watch(&regular(100.0, fleet, Vec::new()), &IN_TURN).1;
        (calls.succeeded, calls.carried, calls.carried_capacities)
    };
    let (succeeded, carried, _) = calls([false, false], true);
    assert_eq!((succeeded / 10, carried), (99, 0));
    let (succeeded, carried, capacities) = calls([true, false], false);
    assert!(carried.abs_diff(succeeded / 2) <= 1, "{carried}");
    assert_eq!(capacities, 0);
    let (succeeded, carried, capacities) = calls([true, true], true);
    assert_eq!(carried, succeeded);
    // Only the reports before the first learned capacity have none.
    assert!(carried - capacities < 50, "{capacities} of {carried}");
}
