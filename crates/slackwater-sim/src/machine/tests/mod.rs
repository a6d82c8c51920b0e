//! Helpers of the machine's tests: small scenarios, and a driver that sends queries and measures
//! them.

mod batches;
mod line;
mod neighbours;
mod queueing;
mod quota;
mod sharing;
mod troubles;

use super::{JobId, Machine, NEVER, Time};
use crate::scenario::{Cost, Group, Load, Network, Scenario, Service, Sharing};
use core::time::Duration;

const MS: Time = 1_000_000;
const SECOND: Time = 1_000_000_000;

/// A fleet of one group.
fn scenario(group: Group) -> Scenario {
    Scenario {
        load: Load::even(1.0, 1),
        cost: Cost::Fixed(Duration::from_millis(1)),
        fleet: vec![group],
        antagonists: None,
        network: Network::NONE,
        zones: None,
        events: Vec::new(),
        deadline: Duration::from_secs(5),
        cancel_expired: false,
        replay: None,
        warmup: Duration::ZERO,
        span: Duration::from_secs(1),
    }
}

/// A single machine.
fn machine(group: Group) -> Machine {
    Machine::new(&scenario(group), 0, 1)
}

/// Cores that queries share, without neighbours, bursts or contention.
fn cores(cores: f64) -> Service {
    Service::Shared(Sharing {
        cores,
        bucket: 0.0,
        burst: 1.0,
        contention_loss: 0.0,
    })
}

/// Advances the machine until it is idle, and returns each job with the time of its end.
fn drain(machine: &mut Machine) -> Vec<(JobId, Time)> {
    advance_until(machine, NEVER - 1)
}

/// Advances the machine from event to event up to and including `until`.
fn advance_until(machine: &mut Machine, until: Time) -> Vec<(JobId, Time)> {
    let mut ends = Vec::new();
    let mut finished = Vec::new();
    while machine.next_event() <= until {
        let now = machine.next_event();
        machine.advance(now, &mut finished);
        assert!(machine.next_event() > now, "time stands still at {now}");
        ends.extend(finished.drain(..).map(|job| (job, now)));
    }
    ends
}

/// Sends `count` queries, with gap and work drawn by `next`. Returns how long each took, in the
/// order of arrival.
fn sojourns(machine: &mut Machine, count: u32, mut next: impl FnMut() -> (f64, f64)) -> Vec<f64> {
    let mut arrivals = Vec::new();
    let mut sojourns = vec![f64::NAN; count as usize];
    let mut now = 0.0;
    let mut note = |arrivals: &[Time], ends: Vec<(JobId, Time)>| {
        for (job, end) in ends {
            let place = job.0 as usize;
            sojourns[place] = (end - arrivals[place]) as f64;
        }
    };
    for job in 0..count {
        let (gap, work) = next();
        now += gap;
        let arrival = super::running::whole(now);
        let ends = advance_until(machine, arrival);
        note(&arrivals, ends);
        machine.arrive(arrival, JobId(job), work);
        arrivals.push(arrival);
    }
    note(&arrivals, drain(machine));
    assert!(sojourns.iter().all(|sojourn| sojourn.is_finite()));
    sojourns
}

/// Asserts that the mean of `values`, one after another in time, is `theory`.
///
/// The error of the mean comes from 20 batches, each far longer than the memory of a queue. Five
/// errors are about one chance in ten thousand with 19 degrees of freedom. The error itself must be
/// small, or the test would show nothing.
fn assert_mean(values: &[f64], theory: f64, error_max: f64) {
    let batches: Vec<f64> = values
        .chunks_exact(values.len() / 20)
        .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
        .collect();
    let count = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / count;
    let square: f64 = batches.iter().map(|batch| (batch - mean).powi(2)).sum();
    let error = (square / (count - 1.0) / count).sqrt();
    assert!(error < error_max * theory, "error {error} of {theory}");
    assert!(
        (mean - theory).abs() < 5.0 * error,
        "{mean} +- {error} instead of {theory}"
    );
}
