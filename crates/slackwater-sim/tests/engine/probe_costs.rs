//! The cost of probes and queries for clients and replicas, and a fleet that cannot afford its
//! probes.

use super::rig::{SINGLE, ms, plain, play, regular, secs, shared, steady};
use core::time::Duration;
use slackwater_core::Rate;
use slackwater_core::policy::PolicySettings;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_sim::scenario::{Change, ClientCpu, Event, Group, Scenario};
use slackwater_sim::{Measured, PolicyChoice, run};

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Prequal with this lower limit of its probe rate.
fn prequal(probe_rate_min: u32) -> PolicyChoice {
    let prequal = PrequalSettings {
        probe_rate_min: Rate::per_query(probe_rate_min).expect("in range"),
        ..PrequalSettings::default()
    };
    let mut settings = PolicySettings::default();
    settings.prequal = prequal.validate().expect("in range");
    PolicyChoice::with_settings("prequal", settings).expect("there is one")
}

#[test]
fn query_waits_for_client_cpu() {
    let mut scenario = regular(100.0, vec![Group::healthy(2, SINGLE)], Vec::new());
    let cpu = |query, probe| Some(ClientCpu { query, probe });
    scenario.load.client_cpu = cpu(ms(3), Duration::ZERO);
    let measured = play(&scenario, "round_robin");
    assert_eq!(measured.latency.mean(), ms(13), "10 ms of work, and 3 ms");
    // 15 ms of work arrive every 10 ms: after 10 s the client is 5 s behind.
    scenario.load.client_cpu = cpu(ms(15), Duration::ZERO);
    scenario.deadline = secs(60);
    let measured = play(&scenario, "round_robin");
    let last = measured.latency.quantile(1.0);
    assert!((secs(5)..ms(5_060)).contains(&last), "{last:?}");
}

#[test]
fn probes_delay_queries_at_the_client() {
    let mut scenario = regular(100.0, vec![Group::healthy(20, SINGLE)], Vec::new());
    scenario.network = steady(us(200));
    let free = play(&scenario, "prequal");
    scenario.load.client_cpu = Some(ClientCpu {
        query: Duration::ZERO,
        probe: ms(4),
    });
    // Each query has three probes of 4 ms, and a query arrives every 10 ms.
    let measured = play(&scenario, "prequal");
    assert!(free.latency.quantile(0.5) < ms(11));
    let behind = measured.latency.quantile(0.5);
    assert!(behind > ms(15), "{behind:?}");
}

#[test]
fn probe_replies_use_replica_cpu() {
    let mut scenario = plain(100.0, vec![Group::healthy(20, shared(1.0))]);
    scenario.network = steady(us(200));
    let free = play(&scenario, "prequal");
    scenario.fleet[0].probe_cost = ms(5);
    let measured = play(&scenario, "prequal");
    // 100 queries of 10 ms and 300 probes of 5 ms, over 20 cores.
    let used = [free, measured].map(|run| run.utilization.mean());
    assert!((used[0] - 0.05).abs() < 0.005, "{used:?}");
    assert!((used[1] - 0.125).abs() < 0.01, "{used:?}");
}

#[test]
fn answers_to_probes_do_not_wait_for_what_queries_wait_for() {
    let mut scenario = plain(100.0, vec![Group::healthy(20, shared(8.0))]);
    scenario.fleet[0].probe_cost = us(50);
    scenario.fleet[0].io_wait = ms(200);
    // An answer that waited for so long would come after its deadline.
    let measured = play(&scenario, "prequal");
    assert!(measured.fallbacks < 10, "{}", measured.fallbacks);
}

#[test]
fn crashed_replica_drops_its_pending_probes() {
    let mut scenario = plain(100.0, vec![Group::healthy(3, SINGLE)]);
    scenario.fleet[0].probe_cost = ms(4);
    let restart = |at| Event {
        at: secs(at),
        replica: 0,
        change: Change::Restart {
            down_for: ms(100),
            cold_slowness: 1.0,
            warm_after: Duration::ZERO,
        },
    };
    scenario.events = (1..9).map(restart).collect();
    let measured = play(&scenario, "prequal");
    assert!(measured.queries_by_replica[0] > 100, "it came back");
}

/// Replicas of one thread that answer probes between queries, at a tenth of a query's cost, for
/// many clients.
fn in_line() -> Scenario {
    let mut scenario = plain(3_680.0, vec![Group::healthy(8, SINGLE)]);
    scenario.cost = slackwater_sim::scenario::Cost::Exponential(ms(2));
    scenario.load.clients = vec![1.0; 40];
    scenario.fleet[0].probe_cost = us(200);
    scenario.network = steady(us(200));
    (scenario.warmup, scenario.span) = (secs(6), secs(4));
    assert_eq!(scenario.mistakes(), []);
    scenario
}

#[test]
fn overloaded_fleet_gets_fewer_probes() {
    let scenario = in_line();
    let [steady, lowered]: [Measured; 2] = [16, 1].map(|least| run(&scenario, &prequal(least), 1));
    let p99 = [&steady, &lowered].map(|run| run.latency.quantile(0.99));
    assert!(p99[0] > 2 * p99[1], "{p99:?}");
    let rates = [&steady, &lowered].map(Measured::probes_per_query);
    assert!(rates[1] < rates[0], "{rates:?}");
}

#[test]
fn without_overload_every_probe_is_sent() {
    let mut scenario = in_line();
    scenario.load.rate = 1_500.0;
    let [steady, lowered]: [Measured; 2] = [16, 1].map(|least| run(&scenario, &prequal(least), 1));
    let told = |run: &Measured| {
        let quantiles = [0.5, 0.99, 1.0].map(|q| run.latency.quantile(q));
        let counts = (run.probes, run.events, run.queries_by_replica.clone());
        (quantiles, counts)
    };
    assert_eq!(told(&steady), told(&lowered));
}
