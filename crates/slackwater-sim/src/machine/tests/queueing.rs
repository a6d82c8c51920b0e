//! The machine compared with queueing theory: M/M/1, M/M/c, and processor sharing, whose mean does
//! not depend on the distribution of costs.

use super::{assert_mean, cores, drain, machine, sojourns};
use crate::machine::running::Running;
use crate::machine::{JobId, Machine};
use crate::random::{Purpose, Stream};
use crate::scenario::{Cost, Group, Service};
use core::time::Duration;

const QUERIES: u32 = 400_000;

/// Mean work of a query: 10 ms.
const WORK: f64 = 1e7;

/// Plays Poisson arrivals that keep `busy` cores busy, with work of `cost`.
fn poisson(machine: &mut Machine, busy: f64, cost: &Cost, seed: u64) -> Vec<f64> {
    let mut arrivals = Stream::new(seed, Purpose::Arrivals, 0);
    let mut costs = Stream::new(seed, Purpose::Cost, 0);
    let gap = cost.mean_ns() / busy;
    sojourns(machine, QUERIES, || {
        (arrivals.exponential(gap), cost.sample(&mut costs))
    })
}

fn exponential() -> Cost {
    Cost::Exponential(Duration::from_millis(10))
}

/// Returns the chance that a query waits in M/M/c, by Erlang's C formula.
fn waits(busy: f64, servers: u32) -> f64 {
    let mut term = 1.0;
    let mut sum = 0.0;
    for k in 0..servers {
        sum += term;
        term *= busy / f64::from(k + 1);
    }
    let waiting = term / (1.0 - busy / f64::from(servers));
    waiting / (sum + waiting)
}

/// Returns the mean sojourn in M/M/c, in units of the mean work.
fn erlang(busy: f64, servers: u32) -> f64 {
    1.0 + waits(busy, servers) / (f64::from(servers) - busy)
}

#[test]
fn one_worker_matches_mm1_in_mean_and_quantiles() {
    let mut machine = machine(Group::healthy(1, Service::Fifo { workers: 1 }));
    let took = poisson(&mut machine, 0.6, &exponential(), 1);
    let mean = WORK / (1.0 - 0.6);
    assert_mean(&took, mean, 0.01);
    // The sojourn is exponential.
    for share in [0.5, 0.1, 0.01] {
        let quantile = -mean * f64::ln(share);
        let beyond: Vec<f64> = took
            .iter()
            .map(|&sojourn| f64::from(u8::from(sojourn > quantile)))
            .collect();
        assert_mean(&beyond, share, 0.1);
    }
}

#[test]
fn several_workers_match_erlang_c() {
    let mut machine = machine(Group::healthy(1, Service::Fifo { workers: 4 }));
    let took = poisson(&mut machine, 2.6, &exponential(), 2);
    assert_mean(&took, WORK * erlang(2.6, 4), 0.01);
}

#[test]
fn processor_sharing_mean_is_insensitive_to_the_distribution() {
    let costs = [
        exponential(),
        Cost::Fixed(Duration::from_millis(10)),
        Cost::Lognormal {
            median: Duration::from_nanos(6_065_307),
            sigma: 1.0,
        },
        Cost::Pareto {
            least: Duration::from_millis(6),
            alpha: 2.5,
        },
    ];
    for (cost, seed) in costs.iter().zip(3..) {
        assert!((cost.mean_ns() / WORK - 1.0).abs() < 1e-6, "{cost:?}");
        let mut machine = machine(Group::healthy(1, cores(1.0)));
        let took = poisson(&mut machine, 0.6, cost, seed);
        assert_mean(&took, WORK / (1.0 - 0.6), 0.02);
    }
}

#[test]
fn processor_sharing_time_is_proportional_to_work() {
    // E[T | work] = work / (1 - load): this distinguishes sharing from every queue.
    let mut machine = machine(Group::healthy(1, cores(1.0)));
    let mut arrivals = Stream::new(8, Purpose::Arrivals, 0);
    let mut costs = Stream::new(8, Purpose::Cost, 0);
    let mut all_short = Vec::new();
    let took = sojourns(&mut machine, QUERIES, || {
        let short = costs.below(2) == 0;
        all_short.push(short);
        let work = if short { WORK } else { 4.0 * WORK };
        (arrivals.exponential(2.5 * WORK / 0.6), work)
    });
    for (wanted, work) in [(true, WORK), (false, 4.0 * WORK)] {
        let these = took.iter().zip(&all_short);
        let these = these.filter(|(_, short)| **short == wanted);
        let took: Vec<f64> = these.map(|(took, _)| *took).collect();
        assert_mean(&took, work / 0.4, 0.01);
    }
}

#[test]
fn shared_cores_give_each_query_at_most_one() {
    // The rates are those of M/M/c, so the mean number in the machine is the same, and by Little's
    // law the mean time. It does not depend on the distribution.
    let lognormal = Cost::Lognormal {
        median: Duration::from_nanos(6_065_307),
        sigma: 1.0,
    };
    for (cost, seed) in [(exponential(), 9), (lognormal, 10)] {
        let mut machine = machine(Group::healthy(1, cores(4.0)));
        let took = poisson(&mut machine, 3.2, &cost, seed);
        assert_mean(&took, WORK * erlang(3.2, 4), 0.02);
    }
}

#[test]
fn work_is_conserved() {
    for service in [cores(1.0), cores(3.5), Service::Fifo { workers: 3 }] {
        let mut machine = machine(Group::healthy(1, service));
        let mut stream = Stream::new(11, Purpose::Cost, 0);
        let mut sent = 0.0;
        sojourns(&mut machine, 20_000, || {
            let work = stream.exponential(WORK);
            sent += work;
            (stream.exponential(WORK), work)
        });
        let used = machine.cpu_seconds(u64::MAX / 2) * 1e9;
        // Every end is rounded up to whole nanoseconds, on at most four cores.
        assert!((0.0..80_000.0).contains(&(used - sent)), "{sent} {used}");
    }
}

/// Sharing in its plainest form: each job with the work that it still needs.
struct Plain {
    cores: f64,
    needs: Vec<(JobId, f64)>,
}

impl Plain {
    fn rate(&self) -> f64 {
        (self.cores / self.needs.len() as f64).min(1.0)
    }

    fn elapse(&mut self, mut span: f64) -> Vec<JobId> {
        let mut ended = Vec::new();
        while let Some(least) = self.needs.iter().map(|job| job.1).reduce(f64::min) {
            let step = span.min(least / self.rate());
            let served = step * self.rate();
            for (_, need) in &mut self.needs {
                *need -= served;
            }
            span -= step;
            ended.extend(
                self.needs
                    .extract_if(.., |job| job.1 <= 1e-3)
                    .map(|job| job.0),
            );
            if span <= 0.0 {
                break;
            }
        }
        ended
    }
}

#[test]
fn virtual_time_matches_per_job_accounting() {
    let mut plain = Plain {
        cores: 2.5,
        needs: Vec::new(),
    };
    let mut machine = machine(Group::healthy(1, cores(2.5)));
    let mut stream = Stream::new(12, Purpose::Cost, 0);
    let (mut now, mut ended, mut expected) = (0, Vec::new(), Vec::new());
    for job in (0..3_000).map(JobId) {
        let gap = 1 + stream.below(8_000_000);
        now += u64::from(gap);
        while machine.next_event() <= now {
            machine.advance(machine.next_event(), &mut ended);
        }
        expected.extend(plain.elapse(f64::from(gap)));
        if stream.below(10) == 0
            && let Some(&(victim, _)) = plain.needs.first()
        {
            plain.needs.remove(0);
            machine.cancel(now, victim);
        }
        assert_eq!(machine.jobs(), plain.needs.len());
        let work = stream.exponential(WORK);
        plain.needs.push((job, work));
        machine.arrive(now, job, work);
    }
    expected.extend(plain.elapse(f64::MAX));
    ended.extend(drain(&mut machine).iter().map(|(job, _)| *job));
    assert_eq!(ended, expected);
}

#[test]
fn estimate_is_exact_without_later_arrivals() {
    for service in [
        cores(0.7),
        cores(1.0),
        cores(2.5),
        cores(30.0),
        Service::Fifo { workers: 3 },
    ] {
        let mut machine = machine(Group {
            slowness: 1.5,
            ..Group::healthy(1, service)
        });
        let mut stream = Stream::new(13, Purpose::Cost, 0);
        let mut ended = Vec::new();
        let mut now = 0;
        for job in (0..400).map(JobId) {
            now += u64::from(stream.below(9_000_000));
            while machine.next_event() <= now {
                machine.advance(machine.next_event(), &mut ended);
            }
            let work = stream.exponential(WORK);
            let estimate = machine.finish_estimate(now, work);
            machine.arrive(now, job, work);
            let mut alone = machine.clone();
            let ends = drain(&mut alone);
            let end = ends.iter().find(|(ended, _)| *ended == job).unwrap().1;
            // Each end on the way is rounded up to a nanosecond.
            let late = (end - now) as f64 - estimate;
            assert!((-1.0..500.0).contains(&late), "{late} ns after {estimate}");
        }
    }
}

#[test]
fn jobs_end_on_time_despite_rounding() {
    let mut running = Running::default();
    running.start(JobId(0), 4e15);
    running.set_rate(1.0);
    running.elapse(2e15);
    // The clock is so large that a nanosecond at this pace is lost in rounding.
    running.set_rate(1e-3);
    running.start(JobId(1), 0.5);
    assert_eq!(running.next_end(0), 500);
    (0..500).for_each(|_| running.elapse(1.0));
    running.reach_next_end();
    assert_eq!(running.take_ended(), Some(JobId(1)));
    assert_eq!(running.take_ended(), None);
}
