//! Replicas, how they serve and fail, and their neighbours.

use super::*;

#[test]
fn fleet_size_mistakes_are_reported() {
    assert_eq!(
        found(|it| {
            it.fleet.clear();
            it.events.clear();
            it.antagonists = None;
        }),
        ["fleet"]
    );
    rejects(
        "fleet[1].count",
        |it, count| {
            it.fleet[1].count = count;
            it.events.clear();
        },
        [0],
    );
    let counts = |it: &mut Scenario, count: usize| {
        it.fleet.iter_mut().for_each(|group| group.count = count);
    };
    assert_eq!(found(|it| counts(it, 5_000)), [""; 0]);
    rejects("fleet", counts, [5_001]);
    // Numbers whose sum overflows.
    assert!(found(|it| counts(it, usize::MAX)).contains(&"fleet".to_owned()));
}

#[test]
fn mistakes_of_batches_and_distances_are_reported() {
    let batch = |it: &mut Scenario, max, added| {
        it.fleet[1].service = Service::Batch(Batching { max, added });
    };
    assert_eq!(found(|it| batch(it, 1, 1.0)), [""; 0]);
    rejects(
        "fleet[1].batch_max",
        |it, max| batch(it, max, 0.5),
        [0, 100_001],
    );
    rejects(
        "fleet[1].batch_added",
        |it, added| batch(it, 8, added),
        NOT_FINITE.into_iter().chain([-0.1, 1.1]),
    );
    rejects(
        "fleet[1].probe_cost",
        |it, cost| {
            batch(it, 8, 0.5);
            it.fleet[1].probe_cost = cost;
        },
        [SECOND],
    );
    rejects(
        "fleet[0].extra_delay",
        |it, delay| it.fleet[0].extra_delay = delay,
        [AGES],
    );
}

#[test]
fn service_mistakes_are_reported() {
    rejects(
        "fleet[0].cores",
        |it, value| sharing(it).cores = value,
        not_above_zero(),
    );
    rejects(
        "fleet[0].bucket",
        |it, value| sharing(it).bucket = value,
        NOT_FINITE.into_iter().chain([-1.0]),
    );
    rejects(
        "fleet[0].burst",
        |it, value| sharing(it).burst = value,
        NOT_FINITE.into_iter().chain([0.99]),
    );
    rejects(
        "fleet[0].contention_loss",
        |it, value| sharing(it).contention_loss = value,
        NOT_FINITE.into_iter().chain([-0.1, 1.0]),
    );
    rejects(
        "fleet[1].workers",
        |it, workers| it.fleet[1].service = Service::Fifo { workers },
        [0, 100_001],
    );
    let traces: [&[Duration]; 2] = [&[], &[AGES]];
    rejects(
        "fleet[1].trace",
        |it, trace| it.fleet[1].service = Service::LatencyTrace(trace.into()),
        traces,
    );
    rejects(
        "fleet[0].slowness",
        |it, value| it.fleet[0].slowness = value,
        not_above_zero(),
    );
    rejects(
        "fleet[0].io_wait",
        |it, value| it.fleet[0].io_wait = value,
        [AGES],
    );
    rejects(
        "fleet[0].probe_cost",
        |it, value| it.fleet[0].probe_cost = value,
        [AGES],
    );
    rejects(
        "fleet[1].probe_cost",
        |it, value| {
            it.fleet[1].service = Service::Latency;
            it.fleet[1].probe_cost = value;
        },
        [SECOND],
    );
    rejects(
        "load.client_cpu.query",
        |it, query| {
            let probe = SECOND;
            it.load.client_cpu = Some(ClientCpu { query, probe });
        },
        [AGES],
    );
    rejects(
        "load.client_cpu.probe",
        |it, probe| {
            let query = SECOND;
            it.load.client_cpu = Some(ClientCpu { query, probe });
        },
        [AGES],
    );
    rejects(
        "fleet[0].report_noise",
        |it, value| it.fleet[0].report_noise = value,
        NOT_FINITE.into_iter().chain([-0.1, 5.1]),
    );
}

#[test]
fn quota_mistakes_are_reported() {
    fn set(scenario: &mut Scenario, change: impl FnOnce(&mut Quota, &mut Neighbour)) {
        let mut neighbour = Neighbour {
            share: 0.5,
            least: SECOND,
            most: 3 * SECOND,
        };
        let mut quota = Quota {
            cpu: Duration::from_millis(20),
            period: Duration::from_millis(100),
            at_once: 0.7,
            neighbour: None,
        };
        change(&mut quota, &mut neighbour);
        quota.neighbour = Some(neighbour);
        scenario.antagonists = None;
        scenario.fleet[0].service = Service::Quota(quota);
    }
    let ms = Duration::from_millis;
    assert_eq!(found(|it| set(it, |_, _| ())), [""; 0]);
    // All that seven cores can use, although the product is slightly less because of rounding.
    assert_eq!(found(|it| set(it, |quota, _| quota.cpu = ms(70))), [""; 0]);
    rejects(
        "fleet[0].cpu",
        |it, cpu| set(it, |quota, _| quota.cpu = cpu),
        [Duration::ZERO, Duration::from_micros(999), ms(71), AGES],
    );
    rejects(
        "fleet[0].period",
        |it, period| set(it, |quota, _| quota.period = period),
        [Duration::ZERO, ms(1_001)],
    );
    rejects(
        "fleet[0].at_once",
        |it, value| set(it, |quota, _| quota.at_once = value),
        not_above_zero(),
    );
    rejects(
        "fleet[0].neighbour.share",
        |it, value| set(it, |_, neighbour| neighbour.share = value),
        no_share().chain([0.0, 1.0]),
    );
    rejects(
        "fleet[0].neighbour.least",
        |it, least| set(it, |_, neighbour| neighbour.least = least),
        [Duration::ZERO, Duration::from_micros(999)],
    );
    rejects(
        "fleet[0].neighbour.most",
        |it, most| set(it, |_, neighbour| neighbour.most = most),
        [ms(999), AGES],
    );
    // Neighbours on the machines have no effect on a quota.
    assert_eq!(
        found(|it| {
            let antagonists = it.antagonists;
            set(it, |_, _| ());
            it.antagonists = antagonists;
        }),
        ["antagonists"]
    );
}

#[test]
fn failure_and_stall_mistakes_are_reported() {
    rejects(
        "fleet[0].failure.share",
        |it, value| failure(it).share = value,
        no_share(),
    );
    rejects(
        "fleet[0].failure.cost_share",
        |it, value| failure(it).cost = FailureCost::Share(value),
        no_share(),
    );
    let fixed = |it: &mut Scenario, cost| failure(it).cost = FailureCost::Fixed(cost);
    assert_eq!(found(|it| fixed(it, SECOND)), [""; 0]);
    rejects("fleet[0].failure.cost", fixed, [AGES]);
    rejects(
        "fleet[0].failure.until",
        |it, until| failure(it).until = until,
        [SECOND],
    );
    rejects(
        "fleet[0].stall.every",
        |it, every| stall(it).every = every,
        [Duration::ZERO, Duration::from_micros(999), AGES],
    );
    rejects(
        "fleet[0].stall.lasts",
        |it, lasts| stall(it).lasts = lasts,
        [Duration::ZERO, AGES],
    );
}

#[test]
fn hobble_mistakes_are_reported() {
    rejects(
        "fleet[0].hobble.until",
        |it, until| hobble(it).until = until,
        [SECOND],
    );
    rejects(
        "fleet[0].hobble.capacity",
        |it, value| hobble(it).capacity = value,
        no_share().chain([0.0]),
    );
    // A latency is allowed only where latencies are replayed.
    rejects(
        "fleet[0].hobble.latency",
        |it, value| hobble(it).latency = Some(value),
        [SECOND],
    );
    let replayed = |it: &mut Scenario, latency| {
        it.antagonists = None;
        it.fleet[0].service = Service::Latency;
        hobble(it).latency = Some(latency);
    };
    assert_eq!(found(|it| replayed(it, SECOND)), [""; 0]);
    rejects("fleet[0].hobble.latency", replayed, [AGES]);
}

#[test]
fn neighbour_mistakes_are_reported() {
    let numbers: [(&str, Field<f64>); 4] = [
        ("antagonists.spare_median", |it| &mut it.headroom_median),
        ("antagonists.sigma_below", |it| &mut it.sigma_below),
        ("antagonists.sigma_above", |it| &mut it.sigma_above),
        ("antagonists.spare_max", |it| &mut it.headroom_max),
    ];
    for (field, number) in numbers {
        rejects(
            field,
            |it, value| *number(antagonists(it)) = value,
            NOT_FINITE.into_iter().chain([-0.1]),
        );
    }
    let times: [(&str, Field<Duration>); 3] = [
        ("antagonists.slow", |it| &mut it.slow),
        ("antagonists.fast", |it| &mut it.fast),
        ("antagonists.full_for", |it| &mut it.full_for),
    ];
    for (field, time) in times {
        rejects(
            field,
            |it, value| *time(antagonists(it)) = value,
            [Duration::ZERO, AGES],
        );
    }
    rejects(
        "antagonists.slow_share",
        |it, value| antagonists(it).slow_share = value,
        no_share(),
    );
    rejects(
        "antagonists.fast_share",
        |it, value| antagonists(it).fast_share = value,
        no_share().chain([0.9]),
    );
    assert_eq!(found(|it| antagonists(it).fast_share = 0.8), [""; 0]);
    rejects(
        "antagonists.full_machines",
        |it, count| antagonists(it).full_machines = count,
        [6],
    );
    rejects(
        "antagonists.machines",
        |it, count| antagonists(it).machines = count,
        [1_000_001],
    );
    assert_eq!(
        found(|it| {
            antagonists(it).machines = 100;
            antagonists(it).full_machines = 60;
        }),
        [""; 0]
    );
    assert_eq!(
        found(|it| {
            it.fleet[0] = Group { count: 3, ..fifo() };
        }),
        ["antagonists"]
    );
}

#[test]
fn every_client_and_replica_has_a_zone() {
    let zones = |it: &mut Scenario, change: fn(&mut Zones)| {
        change(it.zones.insert(Zones::even(2, 3, 5, SECOND)));
    };
    for (field, change) in [
        (
            "zones.clients",
            (|it| it.clients.truncate(2)) as fn(&mut Zones),
        ),
        ("zones.clients", |it| it.clients[0] = 100),
        ("zones.replicas", |it| it.replicas.push(0)),
        ("zones.replicas", |it| it.replicas[4] = 100),
        ("zones.delay", |it| it.delay = AGES),
    ] {
        assert_eq!(found(|it| zones(it, change)), [field]);
    }
    assert_eq!(found(|it| zones(it, |it| it.clients[0] = 99)), [""; 0]);
}
