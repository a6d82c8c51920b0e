//! Common helpers of the tests.

use core::time::Duration;
use slackwater_sim::scenario::{
    Arrivals, Cost, Delay, Event, Group, Load, Network, Scenario, Service, Sharing,
};
use slackwater_sim::{Measured, PolicyChoice, run};

pub(crate) const SINGLE: Service = Service::Fifo { workers: 1 };

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A network in which each way takes `one_way`.
pub(crate) fn steady(one_way: Duration) -> Network {
    Network {
        delay: Delay {
            least: one_way,
            most: one_way,
        },
        probe_loss: 0.0,
    }
}

/// `fleet` under `rate` queries a second of 10 ms each from two clients; no network delay, 10 s
/// measured from the start.
pub(crate) fn plain(rate: f64, fleet: Vec<Group>) -> Scenario {
    Scenario {
        load: Load::even(rate, 2),
        cost: Cost::Fixed(ms(10)),
        fleet,
        antagonists: None,
        network: Network::NONE,
        zones: None,
        events: Vec::new(),
        deadline: secs(5),
        cancel_expired: false,
        replay: None,
        warmup: Duration::ZERO,
        span: secs(10),
    }
}

/// The scenario of [`plain`] with equal gaps between queries, so that counts are known beforehand.
pub(crate) fn regular(rate: f64, fleet: Vec<Group>, events: Vec<Event>) -> Scenario {
    let mut scenario = plain(rate, fleet);
    scenario.load.arrivals = Arrivals::Regular;
    scenario.load.clients = vec![1.0];
    scenario.events = events;
    scenario
}

pub(crate) fn shared(cores: f64) -> Service {
    Service::Shared(Sharing {
        cores,
        bucket: 0.0,
        burst: 1.0,
        contention_loss: 0.0,
    })
}

/// Plays a scenario after checking that it has no mistakes.
pub(crate) fn play(scenario: &Scenario, policy: &str) -> Measured {
    play_seed(scenario, policy, 1)
}

pub(crate) fn play_seed(scenario: &Scenario, policy: &str, seed: u64) -> Measured {
    assert_eq!(scenario.mistakes(), [], "a test's scenario is a valid one");
    run(scenario, &named(policy), seed)
}

pub(crate) fn named(policy: &str) -> PolicyChoice {
    PolicyChoice::named(policy).unwrap_or_else(|| panic!("there is no policy {policy}"))
}

/// Returns whether two latencies are the same to a histogram's three digits.
pub(crate) fn same(a: Duration, b: Duration) -> bool {
    a.abs_diff(b) <= b / 1_000
}

/// Returns everything that a seed determines, to compare byte by byte.
pub(crate) fn fingerprint(measured: &Measured) -> String {
    let mut measured = measured.clone();
    measured.cpu = Duration::ZERO;
    format!("{measured:?}")
}

/// Returns the names of all policies and clairvoyants.
pub(crate) fn everyone() -> impl Iterator<Item = &'static str> {
    PolicyChoice::names()
}
