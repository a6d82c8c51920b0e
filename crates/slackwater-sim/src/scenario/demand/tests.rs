//! Computed demands, compared with values computed by hand.

use super::*;
use crate::presets::{at_load, testbed, web};
use crate::scenario::{Batching, Cost, Hobble, Mix, Neighbour, Quota, Stall, Swing};

fn near(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        "{found}, not {expected}"
    );
}

#[test]
fn backlog_without_overload_equals_queries_on_the_network() {
    let scenario = web(8, 1, 0.9);
    near(
        scenario.under_way(),
        scenario.load.rate * 2.0 * scenario.network.delay.most.as_secs_f64(),
    );
    near(
        scenario.memory_bytes(),
        320.0 * scenario.under_way()
            + 48.0 * scenario.load.rate * scenario.deadline.as_secs_f64()
            + 16.0 * 8.0 * scenario.span.as_secs_f64()
            + 200.0 * 8.0,
    );
}

#[test]
fn overload_backlog_grows_until_queries_expire() {
    let whole = web(8, 1, 1.0);
    let mut twice = Scenario {
        warmup: Duration::from_secs(40),
        span: Duration::from_secs(55),
        deadline: Duration::from_secs(5),
        ..at_load(2.0, whole.clone())
    };
    let travelling = twice.load.rate * 2.0 * twice.network.delay.most.as_secs_f64();
    near(twice.under_way(), whole.load.rate * 100.0 + travelling);
    twice.cancel_expired = true;
    near(twice.under_way(), whole.load.rate * 5.0 + travelling);
}

#[test]
fn slow_replica_builds_a_backlog_under_equal_shares() {
    let mut scenario = at_load(0.9, web(2, 1, 1.0));
    let rate = scenario.load.rate;
    scenario.fleet = vec![
        Group {
            count: 1,
            ..scenario.fleet[0].clone()
        },
        Group {
            count: 1,
            slowness: 3.0,
            ..scenario.fleet[0].clone()
        },
    ];
    let travelling = rate * 2.0 * scenario.network.delay.most.as_secs_f64();
    let slow = rate / 2.0 - rate / 0.9 / 2.0 / 3.0;
    near(scenario.under_way(), slow * scenario.seconds() + travelling);
}

#[test]
fn stalls_and_hobbles_reduce_capacity() {
    let mut scenario = web(1, 1, 0.75);
    let travelling = scenario.load.rate * 2.0 * scenario.network.delay.most.as_secs_f64();
    let whole = scenario.load.rate / 0.75;
    let piled = |scenario: &Scenario| (scenario.under_way() - travelling) / scenario.seconds();
    scenario.fleet[0].stall = Some(Stall {
        every: Duration::from_secs(1),
        regular: false,
        lasts: Duration::from_secs(1),
    });
    near(piled(&scenario), 0.25 * whole);
    scenario.fleet[0].stall = None;
    scenario.fleet[0].hobble = Some(Hobble {
        from: Duration::ZERO,
        until: Duration::MAX,
        capacity: 0.25,
        latency: None,
    });
    near(piled(&scenario), 0.5 * whole);
}

#[test]
fn replayed_latencies_count_as_concurrent() {
    let mut scenario = web(4, 1, 0.5);
    scenario.load.rate = 1_000.0;
    scenario.cost = Cost::Fixed(Duration::from_secs(2));
    scenario.network.delay.most = Duration::ZERO;
    scenario.fleet = vec![Group::healthy(4, Service::Latency)];
    near(scenario.under_way(), 2_000.0);
    let trace = [Duration::from_secs(1), Duration::from_secs(5)];
    scenario.fleet = vec![Group::healthy(
        4,
        Service::LatencyTrace(trace.as_slice().into()),
    )];
    near(scenario.under_way(), 3_000.0);
    scenario.deadline = Duration::from_secs(1);
    scenario.cancel_expired = true;
    near(scenario.under_way(), 1_000.0);
}

/// Ten replicas of 100 cores and ninety of one, at half of their capacity.
fn uneven() -> Scenario {
    let mut scenario = web(100, 1, 1.0);
    let shared = |count, cores| {
        let mut group = Group {
            count,
            ..scenario.fleet[0].clone()
        };
        if let Service::Shared(sharing) = &mut group.service {
            sharing.cores = cores;
        }
        group
    };
    scenario.fleet = vec![shared(10, 100.0), shared(90, 1.0)];
    scenario.cost = Cost::Fixed(Duration::from_millis(1));
    scenario.network.delay.least = Duration::ZERO;
    scenario.network.delay.most = Duration::ZERO;
    (scenario.warmup, scenario.span) = (Duration::ZERO, Duration::from_secs(1_000));
    at_load(0.5, scenario)
}

#[test]
fn unequal_fleet_is_valid_if_some_policy_can_carry_its_load() {
    let scenario = uneven();
    assert!(scenario.under_way() > 1e8, "under equal shares");
    near(scenario.under_way_least(), 0.0);
    assert_eq!(scenario.mistakes(), []);
    let twice = at_load(2.0, scenario);
    let whole = twice.load.rate / 2.0;
    let bucket = match &twice.fleet[0].service {
        Service::Shared(sharing) => sharing.bucket,
        _ => 0.0,
    };
    near(
        twice.under_way_least(),
        whole * 1_000.0 - 100.0 * bucket / 1e-3,
    );
    assert_eq!(twice.mistakes()[0].field, "load.rate");
}

#[test]
fn quota_limits_the_served_rate() {
    let quota = Quota {
        cpu: Duration::from_millis(20),
        period: Duration::from_millis(100),
        at_once: 1.0,
        neighbour: Some(Neighbour {
            share: 0.5,
            least: Duration::from_secs(1),
            most: Duration::from_secs(3),
        }),
    };
    let mut scenario = uneven();
    scenario.fleet = vec![Group::healthy(100, Service::Quota(quota))];
    // By its allocation, 0.15 cores, a replica serves 150 a second. With the neighbour away, it
    // serves 200.
    let scenario = at_load(1.0, scenario);
    near(scenario.load.rate, 15_000.0);
    near(scenario.under_way(), 0.0);
    let over = at_load(1.2, scenario);
    near(over.under_way(), 3_000.0 * over.seconds());
    near(over.under_way_least(), 0.0);
    let far_over = at_load(2.0, over);
    // The beginning and the end of a run may use the quotas of two periods.
    near(far_over.under_way_least(), 10_000.0 * 1_000.0 - 4_000.0);
}

#[test]
fn spare_capacity_and_cheap_failures_reduce_the_backlog() {
    use crate::scenario::{Antagonists, Failure};
    let mut scenario = at_load(1.5, uneven());
    assert!(scenario.under_way_least() > 1e6);
    let overloaded = scenario.clone();
    for group in &mut scenario.fleet {
        group.failure = Some(Failure {
            share: 1.0,
            cost: FailureCost::Share(0.0),
            from: Duration::ZERO,
            until: Duration::MAX,
            reported_until: Duration::MAX,
        });
    }
    near(scenario.under_way_least(), 0.0);
    for group in &mut scenario.fleet {
        group.failure.as_mut().expect("it fails").from = Duration::from_secs(1_000);
    }
    near(
        scenario.under_way_least(),
        overloaded.under_way_least(), // after the run's end
    );
    let mut scenario = overloaded;
    scenario.antagonists = Some(Antagonists {
        headroom_max: 6.0,
        ..testbed().antagonists.expect("neighbours")
    });
    near(scenario.under_way_least(), 0.0);
}

#[test]
fn hobble_counts_for_its_duration() {
    let mut scenario = uneven();
    let rate = scenario.load.rate;
    let spell = |scenario: &mut Scenario, seconds: u64| {
        for group in &mut scenario.fleet {
            group.hobble = Some(Hobble {
                from: Duration::from_secs(10),
                until: Duration::from_secs(10 + seconds),
                capacity: 0.25,
                latency: None,
            });
        }
    };
    let usual = scenario.under_way();
    spell(&mut scenario, 1);
    near(scenario.under_way_least(), 0.0);
    // The small replicas serve 750 a second less, for a second. The large ones, which use 5 % of
    // their capacity, keep up.
    near(scenario.under_way(), usual + 90.0 * 750.0);
    spell(&mut scenario, 10_000);
    let lost = 0.75 * 0.99;
    let bucket = match &scenario.fleet[0].service {
        Service::Shared(sharing) => 100.0 * sharing.bucket / 1e-3,
        _ => 0.0,
    };
    near(
        scenario.under_way_least(),
        (rate - 2.0 * rate * (1.0 - lost)) * 1_000.0 - bucket,
    );
}

#[test]
fn rare_stalls_do_not_affect_a_short_run() {
    let mut scenario = uneven();
    let stall = |scenario: &mut Scenario, seconds: u64| {
        for group in &mut scenario.fleet {
            group.stall = Some(Stall {
                every: Duration::from_secs(seconds),
                regular: false,
                lasts: Duration::from_secs(3 * seconds),
            });
        }
    };
    stall(&mut scenario, 100_000);
    near(scenario.under_way_least(), 0.0);
    stall(&mut scenario, 1);
    assert!(scenario.under_way_least() > 1e8, "a quarter is left");
}

#[test]
fn io_waits_count_as_under_way() {
    let mut scenario = web(4, 1, 0.5);
    scenario.network.delay.least = Duration::ZERO;
    scenario.network.delay.most = Duration::ZERO;
    let rate = scenario.load.rate;
    scenario.fleet[0].io_wait = Duration::from_secs(2);
    near(scenario.under_way(), rate);
    near(scenario.under_way_least(), rate);
    // Waits are uniform up to 240 h: three quarters of the queries of 120 h still wait at their
    // end.
    scenario.fleet[0].io_wait = Duration::from_hours(240);
    scenario.span = Duration::from_hours(120);
    (scenario.warmup, scenario.deadline) = (Duration::ZERO, Duration::ZERO);
    near(scenario.under_way_least(), 0.75 * 432_000.0 * rate);
    near(scenario.under_way(), 0.75 * 432_000.0 * rate);
    scenario.deadline = Duration::from_secs(5);
    scenario.cancel_expired = true;
    assert!(scenario.under_way() <= 5.0 * rate);
}

#[test]
fn mixed_queries_count_while_waiting_and_cost_less() {
    let mut scenario = web(4, 1, 1.5);
    scenario.network.delay.least = Duration::ZERO;
    scenario.network.delay.most = Duration::ZERO;
    let rate = scenario.load.rate;
    let mix = Mix {
        shares: [0.25, 0.75],
        turn: Duration::from_secs(1),
        io_wait: Duration::from_secs(2),
        cost: 0.5,
    };
    scenario.load.mix = Some(mix);
    // 1.5 times three quarters is an eighth more than the capacity. While a query costs 0.625, it
    // is not too much.
    let seconds = (scenario.warmup + scenario.span + scenario.deadline).as_secs_f64();
    let served = rate / 1.5 / 0.75;
    near(scenario.under_way(), (rate - served) * seconds + rate * 0.5);
    near(scenario.under_way_least(), 0.0);
    scenario.load.mix = None;
    assert!(scenario.under_way_least() > rate);
}

#[test]
fn replica_without_io_wait_may_take_all_queries() {
    let mut scenario = web(2, 1, 0.5);
    scenario.network.delay.most = Duration::ZERO;
    scenario.network.delay.least = Duration::ZERO;
    let group = |io_wait| Group {
        count: 1,
        io_wait,
        ..Group::healthy(1, Service::Latency)
    };
    scenario.cost = Cost::Fixed(Duration::from_secs(1));
    scenario.fleet = vec![group(Duration::from_secs(4)), group(Duration::ZERO)];
    let rate = scenario.load.rate;
    near(scenario.under_way_least(), rate);
    near(scenario.under_way(), rate / 2.0 * 3.0 + rate / 2.0);
    scenario.fleet.truncate(1);
    near(scenario.under_way_least(), 3.0 * rate);
}

#[test]
fn hobble_latency_counts_as_under_way() {
    let mut scenario = web(2, 1, 0.5);
    scenario.network.delay.least = Duration::ZERO;
    scenario.network.delay.most = Duration::ZERO;
    scenario.cost = Cost::Fixed(Duration::from_secs(1));
    (scenario.warmup, scenario.span) = (Duration::ZERO, Duration::from_secs(100));
    let rate = scenario.load.rate;
    let hobbled = |from, until, latency| Group {
        hobble: Some(Hobble {
            from: Duration::from_secs(from),
            until: Duration::from_secs(until),
            capacity: 0.5,
            latency,
        }),
        ..Group::healthy(2, Service::Latency)
    };
    let latency = Some(Duration::from_secs(50));
    scenario.fleet = vec![hobbled(10, 30, latency)];
    near(scenario.under_way(), rate * 21.0);
    near(scenario.under_way_least(), rate);
    scenario.fleet = vec![hobbled(0, 1_000, latency)];
    near(scenario.under_way(), rate * 51.0);
    scenario.fleet[0].slowness = 2.0;
    near(scenario.under_way(), rate * 52.0); // the usual one is slowed
    near(scenario.under_way_least(), rate * 50.0);
    scenario.fleet = vec![hobbled(0, 1_000, None)];
    near(scenario.under_way_least(), rate * 2.0);
}

#[test]
fn stored_results_grow_with_replicas_and_seconds() {
    let mut scenario = web(8, 1, 0.5);
    scenario.span = Duration::from_millis(1_000_900);
    near(
        scenario.kept_bytes(),
        8.0 * 8.0 * 1_000.0 + 8.0 * 8.0 + 65_536.0,
    );
}

#[test]
fn highest_load_of_the_paper_fits_in_memory() {
    let worst = at_load(1.74, testbed());
    assert!(worst.memory_bytes() < 1e9, "{}", worst.memory_bytes());
}

#[test]
fn peak_of_a_swing_builds_a_backlog() {
    let mut scenario = Scenario {
        network: crate::scenario::Network::NONE,
        ..web(1, 1, 0.8)
    };
    near(scenario.under_way(), 0.0);
    scenario.load.swing = Some(Swing {
        period: Duration::from_secs(4),
        amplitude: 0.5,
    });
    // 1.2 times the capacity of 800 a second, for 2 s.
    near(scenario.under_way(), 0.2 * 800.0 * 2.0);
}

#[test]
fn batches_serve_their_capacity() {
    let mut scenario = web(1, 1, 1.0);
    scenario.network = crate::scenario::Network::NONE;
    scenario.fleet[0].service = Service::Batch(Batching { max: 4, added: 0.2 });
    let served = 2.5 / 0.005;
    scenario.load.rate = served;
    near(scenario.under_way(), 0.0);
    scenario.load.rate = served + 10.0;
    near(scenario.under_way(), 10.0 * scenario.seconds());
}

#[test]
fn queries_to_a_distant_group_are_longer_on_the_network() {
    let mut scenario = web(2, 1, 0.5);
    scenario.fleet[0].extra_delay = Duration::from_millis(50);
    let delay = scenario.network.delay.most + Duration::from_millis(50);
    near(
        scenario.under_way(),
        scenario.load.rate * 2.0 * delay.as_secs_f64(),
    );
}
