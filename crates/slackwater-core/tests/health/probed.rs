//! Reports that answer probes and polls reach health, however many are in flight.

use core::time::Duration;
use slackwater_core::health::{HealthConfig, build};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{Event, Outcome, Policy, PolicySettings, Probe, Query, policy_named};
use slackwater_core::{Instant, LoadReport, NoDraw, Rate, ReplicaIds, Rif, SplitMix64};

/// Sends a query, and collects the probes that it triggers.
fn query(policy: &mut dyn Policy, draw: &mut SplitMix64, probes: &mut Vec<Probe>) {
    let now = Instant::EPOCH;
    let pick = policy.choose(now, Query::first(), draw, None).pick();
    let ticket = pick.expect("replicas are known").ticket;
    policy.handle_query_done(now, ticket, Outcome::Dropped);
    while let Some(probe) = policy.poll_probe(now, draw) {
        probes.push(probe);
    }
}

/// How many of the replicas health takes for failing, after this many probes were in flight at
/// once and each was answered with a report of failures.
fn failing_by_report(name: &str, settings: &PolicySettings, replicas: u32, probes: usize) -> usize {
    let entry = policy_named(name).expect("a policy");
    let mut policy = build(entry, settings, &HealthConfig::default());
    let (now, mut draw) = (Instant::EPOCH, SplitMix64::new(7));
    let mut ids = ReplicaIds::new();
    for _ in 0..replicas {
        let replica = ids.allocate().expect("room");
        policy.handle(now, Event::Added(replica), &mut NoDraw);
    }
    let mut in_flight: Vec<Probe> = Vec::new();
    while in_flight.len() < probes {
        query(&mut *policy, &mut draw, &mut in_flight);
    }
    assert_eq!(in_flight.len(), probes);
    let mut report = LoadReport::new(Rif::ZERO, None);
    report.error_millionths = Some(1_000_000);
    for probe in &in_flight {
        assert_eq!(policy.probe_target(probe.id), Some(probe.replica));
        policy.handle(now, Event::Report(probe.id, &report), &mut draw);
    }
    // The policy's places for probes are used again.
    query(&mut *policy, &mut draw, &mut Vec::new());
    for probe in &in_flight {
        assert_eq!(policy.probe_target(probe.id), None, "it has ended");
    }
    let settled_at = now + Duration::from_millis(100);
    policy.handle(settled_at, Event::Timeout, &mut draw);
    let views = policy.snapshot(settled_at).health;
    let failing = views.iter().filter(|view| view.success_millionths == 0);
    failing.count()
}

/// `[A4]` `[E1]`
#[test]
fn health_learns_from_each_of_4096_probes_in_flight() {
    let prequal = PrequalSettings {
        probe_rate: Rate::per_query(16).expect("in range"),
        probes_outstanding_max: 4_096,
        ..PrequalSettings::default()
    };
    let mut settings = PolicySettings::default();
    settings.prequal = prequal.validate().expect("in range");
    assert_eq!(failing_by_report("prequal", &settings, 6_000, 4_096), 4_096);
}

/// `[E1]`
#[test]
fn health_learns_from_each_of_the_polls_in_flight() {
    for name in ["weighted_round_robin", "polled_power_of_d"] {
        let settings = PolicySettings::default();
        assert_eq!(failing_by_report(name, &settings, 40, 40), 40, "{name}");
    }
}
