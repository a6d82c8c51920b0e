//! Delays, probes that are lost, and synchronous rounds.

use super::rig::{SINGLE, ms, plain, play, regular, secs, shared, steady};
use core::time::Duration;
use slackwater_sim::scenario::{Delay, Group, Network, Service};

#[test]
fn query_has_network_delay_both_ways() {
    let mut scenario = regular(50.0, vec![Group::healthy(2, SINGLE)], Vec::new());
    scenario.network = steady(ms(3));
    let measured = play(&scenario, "round_robin");
    let ends = [0.0, 1.0].map(|q| measured.latency.quantile(q));
    assert_eq!(ends[1], ms(16), "10 ms of work, 3 ms each way");
    assert_eq!(measured.latency.mean(), ms(16));
    scenario.network.delay = Delay {
        least: ms(1),
        most: ms(5),
    };
    let measured = play(&scenario, "round_robin");
    // Two uniform delays of mean 3 ms and deviation 1.15 ms each: the mean of 500 queries has a
    // deviation of 0.07 ms.
    let mean_ms = measured.latency.mean().as_secs_f64() * 1e3;
    assert!((mean_ms - 16.0).abs() < 0.3, "{mean_ms}");
    assert!(measured.latency.quantile(0.0) >= Duration::from_micros(11_990));
    assert!(measured.latency.quantile(1.0) <= ms(20));
}

#[test]
fn probes_are_sent_by_rate_and_when_idle() {
    let fleet = vec![Group::healthy(20, shared(4.0))];
    let busy = play(&plain(100.0, fleet.clone()), "prequal");
    let probes = busy.probes_per_query();
    // No replica is probed twice within a millisecond: with 75 probes a second over 20 replicas,
    // 0.4 % of them are not sent.
    assert!((probes - 3.0).abs() < 0.05, "{probes}");
    // Two clients with a query a minute: two probes every 75 to 100 ms each, for 10 s.
    let idle = play(&plain(1.0 / 60.0, fleet.clone()), "prequal");
    assert!((400..=560).contains(&idle.probes), "{}", idle.probes);
    assert_eq!(play(&plain(500.0, fleet), "round_robin").probes, 0);
}

#[test]
fn prequal_works_without_probe_replies() {
    let slow = Group {
        slowness: 10.0,
        ..Group::healthy(2, SINGLE)
    };
    let mut scenario = plain(100.0, vec![Group::healthy(8, SINGLE), slow]);
    scenario.network = steady(Duration::from_micros(200));
    let seeing = play(&scenario, "prequal");
    scenario.network.probe_loss = 1.0;
    let blind = play(&scenario, "prequal");
    assert_eq!(blind.errors, 0);
    assert!(blind.probes > 100, "it goes on asking");
    let to_slow = |measured: &slackwater_sim::Measured| -> u64 {
        measured.queries_by_replica[8..].iter().sum()
    };
    assert!(to_slow(&blind) > to_slow(&seeing));
}

#[test]
fn unprobed_replica_loses_probes_and_serves_normally() {
    let silent = Group {
        answers_probes: false,
        ..Group::healthy(4, SINGLE)
    };
    let mut scenario = plain(200.0, vec![silent.clone()]);
    let nobody_answers = play(&scenario, "prequal");
    scenario.fleet[0].answers_probes = true;
    scenario.network.probe_loss = 1.0;
    let all_lost = play(&scenario, "prequal");
    assert_eq!(nobody_answers.probes, all_lost.probes);
    assert_eq!(
        nobody_answers.latency.mean(),
        all_lost.latency.mean(),
        "its probes never come back, and nothing else is different"
    );

    // A round probes two replicas and one answers. The round waits for the other until its
    // deadline, and then there is only one to choose.
    let one_answers = [Group::healthy(1, Service::Latency), silent];
    let mut scenario = regular(20.0, one_answers.to_vec(), Vec::new());
    scenario.fleet[1].count = 1;
    scenario.network = steady(ms(1));
    let round = play(&scenario, "prequal_sync");
    assert_eq!(round.latency.quantile(0.0), ms(15), "3 ms to probe");
    assert_eq!(round.queries_by_replica, [199, 0]);
}

#[test]
fn synchronous_round_delays_the_query_by_a_round_trip() {
    let mut scenario = regular(20.0, vec![Group::healthy(5, Service::Latency)], Vec::new());
    scenario.network = steady(ms(1));
    let measured = play(&scenario, "prequal_sync");
    assert_eq!(
        measured.latency.quantile(0.0),
        ms(14),
        "2 ms to probe, 2 to travel"
    );
    assert_eq!(measured.latency.quantile(1.0), ms(14));
    assert!((measured.probes_per_query() - 3.0).abs() < 1e-9);
    // Answers that take 10 ms arrive after the 3 ms of the round, which does not wait for them.
    scenario.network = steady(ms(5));
    let late = play(&scenario, "prequal_sync");
    assert_eq!(late.latency.quantile(1.0), ms(23));
    // The round does not wait for answers that never arrive either.
    scenario.network = Network {
        probe_loss: 1.0,
        ..steady(ms(1))
    };
    let lost = play(&scenario, "prequal_sync");
    assert_eq!(lost.latency.quantile(0.0), ms(15));
    assert_eq!((lost.errors, lost.queries), (0, 199));
}

#[test]
fn query_can_expire_during_its_probe_round() {
    let mut scenario = regular(20.0, vec![Group::healthy(5, Service::Latency)], Vec::new());
    scenario.network = steady(ms(5));
    scenario.deadline = ms(2);
    scenario.span = secs(2);
    let measured = play(&scenario, "prequal_sync");
    assert_eq!(measured.timeouts, measured.queries);
    assert_eq!(
        measured.queries_by_replica.iter().sum::<u64>(),
        0,
        "sent nowhere"
    );
}
