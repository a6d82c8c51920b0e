//! A wrapper around a policy passes on every event and every other call, including explanations.

#![expect(clippy::expect_used, reason = "tests and their helpers")]

use core::time::Duration;
use slackwater_core::health::{HealthConfig, guard};
use slackwater_core::keys::{Identity, KeyConfig, keyed};
use slackwater_core::policy::{
    Counters, Decision, Event, Explanation, Fleet, Outcome, Policy, Prequal, PrequalConfig,
    PrequalSync, Probe, ProbeId, ProbeRound, Query, Snapshot, Ticket,
};
use slackwater_core::{Draw, Instant, LoadReport, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64};
use slackwater_recording::{Sink, record};
use std::sync::{Arc, Mutex};

/// The calls that a spy has received.
type Calls = Arc<Mutex<Vec<String>>>;

/// Records the calls of the policy that it wraps.
#[derive(Debug)]
struct Spy {
    policy: Box<dyn Policy>,
    calls: Calls,
}

impl Spy {
    fn note(&self, call: impl Into<String>) {
        self.calls.lock().expect("no panic").push(call.into());
    }
}

impl Policy for Spy {
    fn name(&self) -> &'static str {
        self.note("name");
        self.policy.name()
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, draw: &mut dyn Draw) {
        self.note(format!("{event:?}"));
        self.policy.handle(now, event, draw);
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Decision {
        let (is_round, is_explained) = (query.round.is_some(), explanation.is_some());
        self.note(format!(
            "choose, round {is_round}, explained {is_explained}"
        ));
        self.policy.choose(now, query, draw, explanation)
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        self.note("head");
        self.policy.handle_head(now, ticket, outcome);
    }

    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        self.note("done");
        self.policy.handle_query_done(now, ticket, outcome);
    }

    fn poll_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        self.note("poll_probe");
        self.policy.poll_probe(now, draw)
    }

    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId> {
        self.note("probe_target");
        self.policy.probe_target(probe)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.note("poll_timeout");
        self.policy.poll_timeout()
    }

    fn wants_trial(&self) -> bool {
        self.note("wants_trial");
        self.policy.wants_trial()
    }

    fn spares_some(&mut self, now: Instant) -> bool {
        self.note("spares_some");
        self.policy.spares_some(now)
    }

    fn fleet(&self) -> &Fleet {
        self.note("fleet");
        self.policy.fleet()
    }

    fn counters(&self) -> Counters {
        self.note("counters");
        self.policy.counters()
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        self.note("snapshot");
        self.policy.snapshot(now)
    }
}

#[derive(Debug)]
struct Nowhere;

impl Sink for Nowhere {
    fn take(&self, _stream: u32, _events: Vec<u8>) -> bool {
        false
    }
}

type Wrap = fn(Box<dyn Policy>) -> Box<dyn Policy>;

const WRAPPERS: [(&str, Wrap); 3] = [
    ("health", |policy| guard(policy, &HealthConfig::default())),
    ("keys", |policy| keyed(policy, &KeyConfig::default())),
    ("recorder", |policy| {
        record(policy, 1, 0, Arc::new(Nowhere)).0
    }),
];

/// Puts a spy around a policy, and a wrapper around the spy.
fn watched(policy: Box<dyn Policy>, wrap: Wrap) -> (Box<dyn Policy>, Calls) {
    let calls = Calls::default();
    let spy = Spy {
        policy,
        calls: Arc::clone(&calls),
    };
    (wrap(Box::new(spy)), calls)
}

/// Returns the kind of event after this one. A new kind does not compile until it is listed here.
fn next<'a>(
    event: Option<Event<'a>>,
    replica: ReplicaId,
    report: &'a LoadReport,
) -> Option<Event<'a>> {
    let probe = ProbeId::from_bits(7);
    Some(match event {
        None => Event::Added(replica),
        Some(Event::Added(_)) => Event::Identified(replica, Identity { name: 7, part: 1 }),
        Some(Event::Identified(..)) => Event::Far(replica, Duration::from_millis(1)),
        Some(Event::Far(..)) => Event::Available(replica, false),
        Some(Event::Available(..)) => Event::Report(probe, report),
        Some(Event::Report(..)) => Event::SiblingReport(replica, report),
        Some(Event::SiblingReport(..)) => Event::SiblingQueries(replica, 3),
        Some(Event::SiblingQueries(..)) => Event::CarriedReport(replica, report),
        Some(Event::CarriedReport(..)) => Event::ProbeLost(probe),
        Some(Event::ProbeLost(_)) => Event::ProbeUnsent(probe),
        Some(Event::ProbeUnsent(_)) => Event::Timeout,
        Some(Event::Timeout) => Event::Removed(replica),
        Some(Event::Removed(_)) => return None,
    })
}

#[test]
fn every_event_passes_through_every_wrapper() {
    for (name, wrap) in WRAPPERS {
        let inner = Box::new(Prequal::new(PrequalConfig::default()));
        let (mut policy, calls) = watched(inner, wrap);
        let replica = ReplicaIds::new().allocate().expect("room");
        let report = LoadReport::new(Rif::new(3), None);
        let mut draw = SplitMix64::new(1);
        let mut last = None;
        while let Some(event) = next(last, replica, &report) {
            policy.handle(Instant::from_nanos(9), event, &mut draw);
            let calls = core::mem::take(&mut *calls.lock().expect("no panic"));
            assert!(calls.contains(&format!("{event:?}")), "{name}: {event:?}");
            last = Some(event);
        }
    }
}

/// Health itself knows whether it spares some.
#[test]
fn whether_some_are_spared_passes_through_keys_and_the_recorder() {
    for (name, wrap) in WRAPPERS.into_iter().filter(|(name, _)| *name != "health") {
        let inner = Box::new(Prequal::new(PrequalConfig::default()));
        let (mut policy, calls) = watched(inner, wrap);
        policy.spares_some(Instant::from_nanos(9));
        let calls = calls.lock().expect("no panic");
        assert!(calls.iter().any(|call| call == "spares_some"), "{name}");
    }
}

#[test]
fn every_other_call_passes_through_every_wrapper() {
    for (name, wrap) in WRAPPERS {
        let inner = Box::new(PrequalSync::new(PrequalConfig::default()));
        let (mut policy, calls) = watched(inner, wrap);
        let mut ids = ReplicaIds::new();
        let (now, mut draw) = (Instant::from_nanos(9), SplitMix64::new(1));
        for _ in 0..3 {
            let replica = ids.allocate().expect("room");
            policy.handle(now, Event::Added(replica), &mut NoDraw);
        }
        let mut explanation = Explanation::new();
        let began = policy.choose(now, Query::first(), &mut draw, Some(&mut explanation));
        let round: Option<ProbeRound> = match began {
            Decision::Probe(round) => Some(round),
            Decision::Pick(_) | Decision::NoReplica => None,
        };
        let query = Query {
            round: round.as_ref(),
            ..Query::first()
        };
        let pick = policy.choose(now, query, &mut draw, None).pick();
        let mut ticket = pick.expect("three are known").ticket;
        policy.handle_head(now, &mut ticket, Outcome::Success);
        policy.handle_query_done(now, ticket, Outcome::Success);
        policy.poll_probe(now, &mut draw);
        policy.probe_target(ProbeId::from_bits(7));
        policy.poll_timeout();
        assert_eq!(policy.fleet().available().len(), 3);
        assert_eq!(policy.counters().rounds, 1);
        assert_eq!(policy.snapshot(now).replicas.len(), 3);
        assert_eq!(policy.name(), "prequal_sync");
        let calls = calls.lock().expect("no panic");
        for call in [
            "choose, round false, explained true",
            "choose, round true, explained false",
            "head",
            "done",
            "poll_probe",
            "probe_target",
            "poll_timeout",
            "fleet",
            "counters",
            "snapshot",
            "name",
        ] {
            assert!(calls.iter().any(|it| it == call), "{name}: {call}");
        }
    }
}
