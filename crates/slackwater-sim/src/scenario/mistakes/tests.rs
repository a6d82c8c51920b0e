//! Each impossible value is found, by its path, and possible values pass.

mod fleet;
mod keys;

use crate::scenario::{
    Antagonists, Batching, Change, ClassHandling, Classes, ClientCpu, Cost, Event, Failure,
    FailureCost, Group, Hedge, Hobble, Load, Mix, Neighbour, Network, Order, Queueing, Quota,
    Scenario, Service, Sharing, Siblings, Stall, Subsets, Swing, Zones,
};
use core::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// More than ten days.
const AGES: Duration = Duration::from_secs(1_000_000);

const SHARING: Sharing = Sharing {
    cores: 6.4,
    bucket: 6.4,
    burst: 3.0,
    contention_loss: 0.1,
};

/// A scenario with every feature and without mistakes.
fn good() -> Scenario {
    Scenario {
        load: Load {
            hedge: Some(Hedge {
                after_quantile: 0.95,
                budget: 0.02,
                delay_min: Duration::ZERO,
                copies_max: 4,
                needs_room: true,
            }),
            ..Load::even(100.0, 3)
        },
        cost: Cost::Exponential(SECOND),
        fleet: vec![shared(), fifo()],
        antagonists: Some(Antagonists {
            headroom_median: 0.8,
            sigma_below: 0.68,
            sigma_above: 1.2,
            headroom_max: 64.0,
            slow: 10 * SECOND,
            slow_share: 0.2,
            fast: SECOND,
            fast_share: 0.1,
            full_machines: 1,
            full_for: 80 * SECOND,
            machines: 0,
        }),
        network: Network::NONE,
        zones: None,
        events: vec![event(
            4,
            Change::Crash {
                known_after: SECOND,
            },
        )],
        deadline: 5 * SECOND,
        cancel_expired: false,
        replay: None,
        warmup: 60 * SECOND,
        span: 60 * SECOND,
    }
}

fn shared() -> Group {
    Group {
        failure: Some(Failure {
            share: 0.5,
            cost: FailureCost::Share(0.0),
            from: SECOND,
            until: 2 * SECOND,
            reported_until: Duration::MAX,
        }),
        stall: Some(Stall {
            every: 10 * SECOND,
            regular: false,
            lasts: SECOND,
        }),
        hobble: Some(Hobble {
            from: SECOND,
            until: 2 * SECOND,
            capacity: 0.25,
            latency: None,
        }),
        ..Group::healthy(3, Service::Shared(SHARING))
    }
}

fn fifo() -> Group {
    Group::healthy(2, Service::Fifo { workers: 1 })
}

fn event(replica: usize, change: Change) -> Event {
    Event {
        at: SECOND,
        replica,
        change,
    }
}

/// Returns the fields of the mistakes that `change` makes in a good scenario.
fn found(change: impl FnOnce(&mut Scenario)) -> Vec<String> {
    let mut scenario = good();
    change(&mut scenario);
    let mistakes = scenario.mistakes();
    mistakes.into_iter().map(|mistake| mistake.field).collect()
}

/// Asserts that each of these values makes one mistake, at `field`.
fn rejects<T: Copy + core::fmt::Debug>(
    field: &str,
    set: impl Fn(&mut Scenario, T),
    values: impl IntoIterator<Item = T>,
) {
    for value in values {
        assert_eq!(found(|scenario| set(scenario, value)), [field], "{value:?}");
    }
}

/// A field of the neighbourhood.
type Field<T> = fn(&mut Antagonists) -> &mut T;

/// Values that no number may have.
const NOT_FINITE: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// Returns values that a number above 0 may not have.
fn not_above_zero() -> impl Iterator<Item = f64> {
    NOT_FINITE.into_iter().chain([0.0, -1.0, 1e300])
}

/// Returns values that a share may not have.
fn no_share() -> impl Iterator<Item = f64> {
    NOT_FINITE.into_iter().chain([-0.01, 1.01])
}

fn sharing(scenario: &mut Scenario) -> &mut Sharing {
    match &mut scenario.fleet[0].service {
        Service::Shared(sharing) => sharing,
        other => panic!("not shared: {other:?}"),
    }
}

fn failure(scenario: &mut Scenario) -> &mut Failure {
    scenario.fleet[0].failure.as_mut().unwrap()
}

fn stall(scenario: &mut Scenario) -> &mut Stall {
    scenario.fleet[0].stall.as_mut().unwrap()
}

fn hobble(scenario: &mut Scenario) -> &mut Hobble {
    scenario.fleet[0].hobble.as_mut().unwrap()
}

fn antagonists(scenario: &mut Scenario) -> &mut Antagonists {
    scenario.antagonists.as_mut().unwrap()
}

#[test]
fn valid_or_overloaded_scenario_has_no_mistakes() {
    assert_eq!(good().mistakes(), []);
    assert_eq!(found(|it| it.load.rate = 1e4), [""; 0]);
}

#[test]
fn mistake_states_the_value_and_the_valid_range() {
    let mut scenario = good();
    sharing(&mut scenario).cores = -2.0;
    scenario.deadline = Duration::ZERO;
    let mistakes = scenario.mistakes();
    let text: Vec<String> = mistakes
        .iter()
        .map(|mistake| format!("{}: {}", mistake.field, mistake.message))
        .collect();
    assert_eq!(
        text,
        [
            "fleet[0].cores: is -2, and must be above 0 and at most 100000",
            "deadline: is 0ns, and must be above 0ns and at most 1000s",
        ]
    );
}

#[test]
fn load_mistakes_are_reported() {
    rejects(
        "load.rate",
        |it, rate| it.load.rate = rate,
        not_above_zero(),
    );
    rejects(
        "load.clients",
        |it, clients| it.load.clients = vec![1.0; clients],
        [0, 10_001],
    );
    rejects(
        "load.clients[1]",
        |it, share| it.load.clients[1] = share,
        not_above_zero(),
    );
    let siblings = |it: &mut Scenario, workers| {
        it.load.siblings = Some(Siblings {
            workers,
            answers: true,
            queries: true,
        });
    };
    let subsets = |it: &mut Scenario, size| {
        it.load.subsets = Some(Subsets {
            size,
            numbered: false,
        });
    };
    rejects("load.subset.size", subsets, [0, 10_001]);
    rejects("load.siblings.workers", siblings, [0, 10_001]);
    assert_eq!(found(|it| siblings(it, 1)), [""; 0]);
    let mix = |it: &mut Scenario, set: &dyn Fn(&mut Mix)| {
        let mut mix = Mix {
            shares: [0.0, 1.0],
            turn: SECOND,
            io_wait: Duration::ZERO,
            cost: 1.0,
        };
        set(&mut mix);
        it.load.mix = Some(mix);
    };
    assert_eq!(found(|it| mix(it, &|_| {})), [""; 0]);
    for (field, index) in [("load.mix.shares[0]", 0), ("load.mix.shares[1]", 1)] {
        let set = |it: &mut Scenario, value| mix(it, &|mix| mix.shares[index] = value);
        rejects(field, set, no_share());
    }
    let set = |it: &mut Scenario, value| mix(it, &|mix| mix.turn = value);
    rejects("load.mix.turn", set, [Duration::ZERO, AGES]);
    let set = |it: &mut Scenario, value| mix(it, &|mix| mix.io_wait = value);
    rejects("load.mix.io_wait", set, [AGES]);
    let set = |it: &mut Scenario, value| mix(it, &|mix| mix.cost = value);
    rejects(
        "load.mix.cost",
        set,
        NOT_FINITE.into_iter().chain([0.0, 1.01]),
    );
    let swing = |it: &mut Scenario, period, amplitude| {
        it.load.swing = Some(Swing { period, amplitude });
    };
    assert_eq!(found(|it| swing(it, SECOND, 0.99)), [""; 0]);
    rejects(
        "load.swing.period",
        |it, period| swing(it, period, 0.5),
        [Duration::ZERO, AGES],
    );
    rejects(
        "load.swing.amplitude",
        |it, amplitude| swing(it, SECOND, amplitude),
        NOT_FINITE.into_iter().chain([-0.1, 1.0]),
    );
    let hedge = |it: &mut Scenario, set: fn(&mut Hedge, f64), value| {
        set(it.load.hedge.as_mut().unwrap(), value);
    };
    rejects(
        "load.hedge.after_quantile",
        |it, value| hedge(it, |hedge, value| hedge.after_quantile = value, value),
        no_share(),
    );
    rejects(
        "load.hedge.budget",
        |it, value| hedge(it, |hedge, value| hedge.budget = value, value),
        no_share(),
    );
    rejects(
        "load.hedge.delay_min",
        |it, value| it.load.hedge.as_mut().unwrap().delay_min = value,
        [AGES],
    );
    let copies = |it: &mut Scenario, value| it.load.hedge.as_mut().unwrap().copies_max = value;
    rejects("load.hedge.copies_max", copies, [0, 1, 5]);
    assert_eq!(found(|it| copies(it, 2)), [""; 0]);
}

#[test]
fn class_mistakes_are_reported() {
    let classes = |it: &mut Scenario, long_from, handling| {
        it.load.classes = Some(Classes {
            long_from,
            handling,
        });
    };
    let ignored = ClassHandling::Ignored;
    assert_eq!(found(|it| classes(it, SECOND, ignored)), [""; 0]);
    let long_from = |it: &mut Scenario, long_from| classes(it, long_from, ignored);
    rejects("load.classes.long_from", long_from, [Duration::ZERO, AGES]);
    let counts = |it: &mut Scenario, long_counts_as| {
        classes(it, SECOND, ClassHandling::Charged { long_counts_as });
    };
    rejects("load.classes.long_counts_as", counts, [0, 1, 100_001]);
    assert_eq!(found(|it| counts(it, 2)), [""; 0]);
    let apart = |it: &mut Scenario, long_replicas| {
        classes(it, SECOND, ClassHandling::Apart { long_replicas });
    };
    // There are five replicas.
    rejects("load.classes.long_replicas", apart, [0, 5]);
    assert_eq!(found(|it| apart(it, 4)), [""; 0]);
    let beside_cpu = |it: &mut Scenario, cpu| {
        apart(it, 1);
        it.load.client_cpu = Some(cpu);
    };
    let cpu = ClientCpu {
        query: SECOND,
        probe: SECOND,
    };
    rejects("load.classes", beside_cpu, [cpu]);
}

#[test]
fn queue_mistakes_are_reported() {
    let queue = |group: usize, at_once| {
        move |it: &mut Scenario| {
            it.fleet[group].queue = Some(Queueing {
                at_once,
                order: Order::Arrival,
                drops_late: true,
            });
        }
    };
    assert_eq!(found(queue(0, 1)), [""; 0]);
    for at_once in [0, 100_001] {
        assert_eq!(found(queue(0, at_once)), ["fleet[0].queue.at_once"]);
    }
    assert_eq!(found(queue(1, 1)), ["fleet[1].queue"], "no shared CPU");
    let waiting = |it: &mut Scenario| {
        queue(0, 1)(it);
        it.fleet[0].io_wait = SECOND;
    };
    assert_eq!(found(waiting), ["fleet[0].queue"]);
    let mixed = |it: &mut Scenario| {
        queue(0, 1)(it);
        it.load.mix = Some(Mix {
            shares: [0.0, 1.0],
            turn: SECOND,
            io_wait: SECOND,
            cost: 1.0,
        });
    };
    assert_eq!(found(mixed), ["load.mix"]);
}

#[test]
fn cost_mistakes_are_reported() {
    let nothing_or_ages = [Duration::ZERO, AGES];
    rejects(
        "cost.mean",
        |it, mean| it.cost = Cost::Fixed(mean),
        nothing_or_ages,
    );
    rejects(
        "cost.mean",
        |it, mean| it.cost = Cost::Exponential(mean),
        nothing_or_ages,
    );
    let normal = |mean, deviation| Cost::ClippedNormal { mean, deviation };
    rejects(
        "cost.mean",
        |it, mean| it.cost = normal(mean, SECOND),
        nothing_or_ages,
    );
    rejects(
        "cost.deviation",
        |it, deviation| it.cost = normal(SECOND, deviation),
        [AGES],
    );
    let lognormal = |median, sigma| Cost::Lognormal { median, sigma };
    rejects(
        "cost.median",
        |it, median| it.cost = lognormal(median, 1.0),
        nothing_or_ages,
    );
    rejects(
        "cost.sigma",
        |it, sigma| it.cost = lognormal(SECOND, sigma),
        NOT_FINITE.into_iter().chain([-0.1, 5.1]),
    );
    let pareto = |least, alpha| Cost::Pareto { least, alpha };
    rejects(
        "cost.least",
        |it, least| it.cost = pareto(least, 2.5),
        nothing_or_ages,
    );
    rejects(
        "cost.alpha",
        |it, alpha| it.cost = pareto(SECOND, alpha),
        NOT_FINITE.into_iter().chain([1.0, 0.5]),
    );
    let traces: [&[Duration]; 3] = [&[], &[Duration::ZERO; 2], &[SECOND, AGES]];
    let bimodal = |it: &mut Scenario, cheap, dear, dear_share| {
        it.cost = Cost::Bimodal {
            cheap,
            dear,
            dear_share,
        };
    };
    rejects(
        "cost.cheap",
        |it, cheap| bimodal(it, cheap, SECOND, 0.5),
        nothing_or_ages,
    );
    rejects(
        "cost.dear",
        |it, dear| bimodal(it, SECOND, dear, 0.5),
        nothing_or_ages,
    );
    rejects(
        "cost.dear_share",
        |it, share| bimodal(it, SECOND, SECOND, share),
        no_share(),
    );
    rejects(
        "cost.trace",
        |it, trace| it.cost = Cost::Trace(trace.into()),
        traces,
    );
}

#[test]
fn network_mistakes_are_reported() {
    rejects(
        "network.probe_loss",
        |it, value| it.network.probe_loss = value,
        no_share(),
    );
    rejects(
        "network.delay.most",
        |it, value| it.network.delay.most = value,
        [AGES],
    );
    rejects(
        "network.delay.most",
        |it, value| it.network.delay.least = value,
        [Duration::from_nanos(1)],
    );
}

#[test]
fn event_mistakes_are_reported() {
    rejects(
        "event[0].replica",
        |it, replica| it.events[0].replica = replica,
        [5, usize::MAX],
    );
    rejects("event[0].at", |it, at| it.events[0].at = at, [AGES]);
    let join = |cold_slowness, warm_after| Change::Join {
        cold_slowness,
        warm_after,
    };
    let restart = |down_for, cold_slowness, warm_after| Change::Restart {
        down_for,
        cold_slowness,
        warm_after,
    };
    let not_slower = || NOT_FINITE.into_iter().chain([0.99]);
    let slowness = not_slower().map(|value| join(value, SECOND));
    let restarted = not_slower().map(|value| restart(SECOND, value, SECOND));
    rejects(
        "event[0].cold_slowness",
        |it, change| it.events[0].change = change,
        slowness.chain(restarted),
    );
    rejects(
        "event[0].suspended_for",
        |it, suspended_for| it.events[0].change = Change::Suspend { suspended_for },
        [Duration::ZERO, AGES],
    );
    let ages = [
        ("event[0].warm_after", join(1.0, AGES)),
        ("event[0].known_after", Change::Crash { known_after: AGES }),
        (
            "event[0].leaves_after",
            Change::Drain { leaves_after: AGES },
        ),
        ("event[0].down_for", restart(AGES, 1.0, SECOND)),
        ("event[0].warm_after", restart(SECOND, 1.0, AGES)),
    ];
    for (field, change) in ages {
        rejects(field, |it, change| it.events[0].change = change, [change]);
    }
}

#[test]
fn duration_mistakes_are_reported() {
    rejects(
        "deadline",
        |it, value| it.deadline = value,
        [Duration::ZERO, 1_001 * SECOND],
    );
    rejects("warmup", |it, value| it.warmup = value, [AGES]);
    rejects("span", |it, value| it.span = value, [Duration::ZERO, AGES]);
}

#[test]
fn too_large_runs_are_rejected() {
    assert_eq!(
        found(|it| {
            it.load.rate = 1e6;
            it.span = 2_000 * SECOND;
        }),
        ["load.rate"]
    );
    assert_eq!(
        found(|it| {
            it.load.rate = 1.0;
            it.fleet[1].count = 9_000;
            it.span = 20_000 * SECOND;
        }),
        ["span"]
    );
}

#[test]
fn backlog_is_bounded_if_expired_queries_drop() {
    let overload = |cancel_expired| {
        move |it: &mut Scenario| {
            it.load.rate = 1e6;
            it.cancel_expired = cancel_expired;
        }
    };
    assert_eq!(found(overload(false)), ["load.rate"]);
    assert_eq!(found(overload(true)), [""; 0]);
}

#[test]
fn huge_numbers_are_shown_with_an_exponent() {
    let mut scenario = good();
    sharing(&mut scenario).cores = 1e300;
    assert_eq!(
        scenario.mistakes()[0].message,
        "is 1e300, and must be above 0 and at most 100000"
    );
}
