//! Compares the facts about each policy with what the policy does.

use super::*;
use crate::draw::{NoDraw, SplitMix64};
use crate::policy::settings::Section;
use crate::policy::{Carried, Counters, Decision, Event, Outcome, Query, Reports, Valid};
use crate::replica::ReplicaIds;
use crate::report::{LoadReport, Rif};
use crate::time::Instant;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

/// The keys of each section.
#[derive(Default)]
struct Keys(BTreeMap<&'static str, Vec<&'static str>>);

impl SectionVisitor for Keys {
    fn visit<S: Section>(&mut self, settings: &mut Valid<S>) {
        assert_eq!(settings.check(), Ok(()), "{}", S::NAME);
        let keys = S::FIELDS.iter().map(|field| field.name).collect();
        assert!(self.0.insert(S::NAME, keys).is_none(), "{}", S::NAME);
    }
}

fn keys() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut keys = Keys::default();
    PolicySettings::default().visit(&mut keys);
    keys.0
}

#[test]
fn default_policy_is_shortest_expected_delay() {
    let policy = (DEFAULT_POLICY.build)(&PolicySettings::default());
    assert_eq!(policy.name(), "shortest_expected_delay");
    assert_eq!(policy_named(policy.name()), Some(&DEFAULT_POLICY));
}

#[test]
fn policy_names_match_their_entries() {
    for entry in POLICIES {
        let policy = (entry.build)(&PolicySettings::default());
        assert_eq!(policy.name(), entry.name);
        assert_eq!(
            policy_named(entry.name).map(|found| found.about),
            Some(entry.about)
        );
        assert!(entry.sentence.ends_with('.'), "{}", entry.name);
    }
    assert!(policy_named("no such policy").is_none());
}

#[test]
fn every_section_and_key_is_read_by_a_policy() {
    let keys = keys();
    for entry in POLICIES {
        for section in entry.sections {
            assert!(keys.contains_key(section), "{}: {section}", entry.name);
        }
        if let Some((section, key)) = entry.failure_penalty {
            assert!(keys[section].contains(&key), "{}: {key}", entry.name);
        }
    }
    for (section, keys) in keys {
        for key in keys {
            let mut readers = POLICIES.iter();
            let is_read = readers.any(|entry| entry.reads_key(section, key));
            assert!(is_read, "{section}.{key}");
        }
    }
}

#[test]
fn policies_read_only_their_probe_keys() {
    let keys = keys();
    let read = |name: &str| -> Vec<_> {
        let entry = policy_named(name).expect("a policy");
        let keys = keys["prequal"].iter().copied();
        keys.filter(|key| entry.reads_key("prequal", key)).collect()
    };
    assert_eq!(
        read("prequal_sync"),
        ["rif_limit_quantile", "sync_probes", "sync_deadline"]
    );
    assert_eq!(read("prequal").len(), keys["prequal"].len() - 2);
    for name in ["linear", "c3"] {
        assert_eq!(read(name).len(), read("prequal").len() - 1, "no quantile");
    }
    for name in ["rif_then_latency", "shortest_expected_delay"] {
        assert_eq!(read(name).len(), read("linear").len() - 4, "no pool");
    }
    assert!(read("random").is_empty());
}

/// Whether it sends a probe within its first query or two seconds after.
fn wants_probes(entry: &PolicyEntry) -> bool {
    let mut policy = (entry.build)(&PolicySettings::default());
    let draw = &mut || 0_u64;
    let start = Instant::from_nanos(0);
    let mut ids = ReplicaIds::new();
    for replica in (0..3).filter_map(|_| ids.allocate()) {
        policy.handle(start, Event::Added(replica), &mut NoDraw);
    }
    let decision = policy.choose(start, Query::first(), draw, None);
    let later = Instant::from_nanos(2_000_000_000);
    let is_round = matches!(decision, Decision::Probe(_));
    assert_eq!(is_round, entry.reports == Reports::Round, "{}", entry.name);
    is_round || policy.poll_probe(start, draw).is_some() || {
        policy.handle(later, Event::Timeout, draw);
        policy.poll_probe(later, draw).is_some()
    }
}

#[test]
fn has_probes_matches_behaviour() {
    for entry in POLICIES {
        let name = entry.name;
        assert_eq!(entry.has_probes(), wants_probes(entry), "{name}");
        assert_eq!(entry.may_be_local(), {
            entry.reads_key("prequal", "local_only")
        });
        assert!(entry.has_probes() || entry.carried == Carried::Nothing);
    }
}

/// Number of reports that left the pool by rate, or should have, in forty queries to twenty
/// replicas that all report their capacity.
fn removals(entry: &PolicyEntry) -> u64 {
    let mut policy = (entry.build)(&PolicySettings::default());
    let draw = &mut SplitMix64::new(5);
    let mut ids = ReplicaIds::new();
    for replica in (0..20).filter_map(|_| ids.allocate()) {
        policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
    }
    let mut report = LoadReport::new(Rif::ZERO, Some(Duration::from_millis(5)));
    report.capacity_millirif = Some(4_000);
    let removed = |it: Counters| it.removed_oldest + it.removed_worst + it.removals_withheld;
    let mut before_reports = 0;
    for query in 0..40 {
        let now = Instant::from_nanos(100_000_000 * query);
        if let Decision::Pick(pick) = policy.choose(now, Query::first(), draw, None) {
            policy.handle_query_done(now, pick.ticket, Outcome::Success);
        }
        if query == 0 {
            before_reports = removed(policy.counters());
        }
        while let Some(probe) = policy.poll_probe(now, draw) {
            policy.handle(now, Event::Report(probe.id, &report), draw);
        }
    }
    removed(policy.counters()) - before_reports
}

#[test]
fn removes_by_rate_matches_behaviour() {
    for entry in POLICIES {
        assert_eq!(
            entry.removes_by_rate(),
            removals(entry) > 0,
            "{}",
            entry.name
        );
    }
}
