//! A replica that learns its capacity from its machine and its tracker.

use crate::machine::{Machine, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::{Group, Scenario, Service};
use core::time::Duration;
use slackwater_core::tracker::{CapacityEstimator, CpuTotals, LoadTracker, ThreadTotals};
use slackwater_core::{Instant, LoadReport};

/// What one replica learns.
#[derive(Debug)]
pub(super) struct Learning {
    estimator: CapacityEstimator,
    /// Whether the estimator receives CPU time.
    tells_cpu: bool,
    limit_millicores: Option<u32>,
    quota_period: Option<Duration>,
    noise: Option<Noise>,
}

/// The error of its reports.
#[derive(Debug)]
struct Noise {
    sigma: f64,
    stream: Stream,
}

impl Learning {
    pub(super) fn new(scenario: &Scenario, group: &Group, number: usize, seed: u64) -> Self {
        let replays = matches!(group.service, Service::Latency | Service::LatencyTrace(_));
        Self {
            estimator: CapacityEstimator::default(),
            tells_cpu: group.tells_cpu && !replays,
            limit_millicores: limit_millicores(scenario, group),
            quota_period: match &group.service {
                Service::Quota(quota) => Some(quota.period),
                _ => None,
            },
            noise: (group.report_noise > 0.0).then(|| Noise {
                sigma: group.report_noise,
                stream: Stream::new(seed, Purpose::ReportNoise, number as u64),
            }),
        }
    }

    /// Takes a reading, if one is due and needed.
    #[inline]
    pub(super) fn read(
        &mut self,
        now: Time,
        machine: &mut Machine,
        tracker: &LoadTracker,
        finished: u64,
    ) {
        let at = Instant::from_nanos(now);
        // The cheaper check comes first.
        if !self.estimator.is_due(at) || !self.estimator.look(at, tracker).reads {
            return;
        }
        let cpu = self.tells_cpu.then(|| {
            let used = Duration::from_secs_f64(machine.cpu_seconds(now));
            let waited = Duration::from_secs_f64(machine.waited_seconds(now));
            CpuTotals {
                used,
                threads: Some(ThreadTotals { used, waited }),
                limit_millicores: self.limit_millicores,
                quota_period: self.quota_period,
            }
        });
        self.estimator.read(at, tracker, finished, cpu);
    }

    /// Fills in the capacity and cost of the report.
    #[inline]
    pub(super) fn fill(&mut self, report: &mut LoadReport) {
        self.estimator.fill(report);
        if let Some(noise) = &mut self.noise {
            let (of_capacity, of_cost) = (noise.factor(), noise.factor());
            report.capacity_millirif = report.capacity_millirif.map(|millirif| {
                let off = super::rounded(f64::from(millirif) * of_capacity);
                u32::try_from(off).unwrap_or(u32::MAX)
            });
            report.cost = report.cost.map(|cost| {
                let off = super::rounded(cost.as_secs_f64() * 1e9 * of_cost);
                Duration::from_nanos(off)
            });
        }
    }

    /// Drops what was learned, because the process is gone.
    pub(super) fn forget(&mut self) {
        self.estimator = CapacityEstimator::default();
    }
}

impl Noise {
    fn factor(&mut self) -> f64 {
        (self.sigma * self.stream.normal()).exp()
    }
}

/// Returns the most cores that the process may use, as the operating system reports them. This is
/// the machine's cores if neighbours share them, or its own cores, those of its quota, one for each
/// worker, or one for a server of batches. It is unknown if a recording has the cores over time.
fn limit_millicores(scenario: &Scenario, group: &Group) -> Option<u32> {
    let cores = match (&group.service, &scenario.antagonists) {
        (Service::Shared(_), _) if scenario.replay.is_some() => return None,
        (Service::Shared(sharing), Some(neighbours)) => neighbours.headroom_max.max(sharing.cores),
        (Service::Shared(sharing), None) => sharing.cores,
        (Service::Quota(quota), _) => quota.cores(),
        (Service::Fifo { workers }, _) => *workers as f64,
        (Service::Batch(_), _) => 1.0,
        (Service::Latency | Service::LatencyTrace(_), _) => return None,
    };
    Some(u32::try_from(super::rounded(cores * 1e3)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{one_slow_fifo, testbed, web};
    use crate::scenario::{Neighbour, Quota};
    use slackwater_core::Rif;

    fn learning(scenario: &Scenario) -> Learning {
        Learning::new(scenario, &scenario.fleet[0], 0, 1)
    }

    #[test]
    fn cores_limit_follows_the_scenario() {
        let limit = |scenario: &Scenario| learning(scenario).limit_millicores;
        assert_eq!(limit(&testbed()), Some(64_000));
        assert_eq!(limit(&web(2, 1, 0.5)), Some(4_000));
        assert_eq!(limit(&one_slow_fifo(2, 1, 0.5)), Some(1_000));
        let mut crowded = testbed();
        if let Some(neighbours) = &mut crowded.antagonists {
            neighbours.headroom_max = 1.0;
        }
        assert_eq!(limit(&crowded), Some(6_400), "its own at the least");
        let mut replayed = web(2, 1, 0.5);
        replayed.fleet[0].service = Service::Latency;
        assert_eq!(limit(&replayed), None);
        assert!(!learning(&replayed).tells_cpu);
    }

    #[test]
    fn quota_is_reported_with_its_period() {
        let mut scenario = web(2, 1, 0.5);
        assert_eq!(learning(&scenario).quota_period, None);
        let period = Duration::from_millis(100);
        scenario.fleet[0].service = Service::Quota(Quota {
            cpu: Duration::from_millis(20),
            period,
            at_once: 4.0,
            neighbour: Some(Neighbour {
                share: 0.5,
                least: period,
                most: period,
            }),
        });
        let learning = learning(&scenario);
        assert_eq!(learning.limit_millicores, Some(200));
        assert_eq!(learning.quota_period, Some(period));
        assert!(learning.tells_cpu);
    }

    #[test]
    fn report_noise_follows_the_group() {
        let mut scenario = web(1, 1, 0.5);
        scenario.fleet[0].report_noise = 0.3;
        let mut noise = learning(&scenario).noise.expect("there is some");
        let logarithms: Vec<f64> = (0..10_000).map(|_| noise.factor().ln()).collect();
        let mean = logarithms.iter().sum::<f64>() / 1e4;
        let variance = logarithms.iter().map(|it| it * it).sum::<f64>() / 1e4;
        // The bounds are five deviations of a mean and of a variance.
        assert!(
            mean.abs() < 0.015 && (variance - 0.09).abs() < 0.007,
            "{mean} {variance}"
        );
        scenario.fleet[0].report_noise = 0.0;
        assert!(learning(&scenario).noise.is_none());
    }

    const MS: Time = 1_000_000;

    /// A machine that serves one query after the other.
    struct Served {
        machine: Machine,
        tracker: LoadTracker,
        ended: u64,
    }

    impl Served {
        fn new(scenario: &Scenario) -> Self {
            Self {
                machine: Machine::new(scenario, 0, 1),
                tracker: LoadTracker::default(),
                ended: 0,
            }
        }

        fn serve(&mut self, now: Time, work_ms: u32) {
            let arrival = self.tracker.arrive(Instant::from_nanos(now));
            let job = crate::machine::JobId(0);
            self.machine.arrive(now, job, f64::from(work_ms) * 1e6);
            let end = now + Time::from(work_ms) * MS;
            self.machine.advance(end, &mut Vec::new());
            let success = slackwater_core::tracker::End::Success;
            let at = Instant::from_nanos(end);
            self.tracker.finish(at, arrival, success);
            self.ended += 1;
        }

        fn read(&mut self, learning: &mut Learning, now: Time) {
            learning.read(now, &mut self.machine, &self.tracker, self.ended);
        }
    }

    fn report_of(learning: &mut Learning) -> LoadReport {
        let mut report = LoadReport::new(Rif::ZERO, None);
        learning.fill(&mut report);
        report
    }

    /// Returns the report of a machine with one query of 10 ms after another.
    fn reported(learning: &mut Learning, scenario: &Scenario) -> LoadReport {
        let mut served = Served::new(scenario);
        for query in 0..200 {
            served.serve(query * 10 * MS, 10);
            served.read(learning, (query + 1) * 10 * MS);
        }
        report_of(learning)
    }

    #[test]
    fn short_reading_is_deferred_once_enough_is_known() {
        let scenario = web(1, 1, 0.5);
        for (queries, waits) in [(100, false), (310, true)] {
            let mut learning = learning(&scenario);
            let mut served = Served::new(&scenario);
            for query in 0..queries {
                served.serve(query * 50 * MS, 10);
                served.read(&mut learning, (query + 1) * 50 * MS);
            }
            let now = queries * 50 * MS;
            let known = report_of(&mut learning).cost;
            assert!(known.is_some());
            served.serve(now + 10 * MS, 4);
            served.read(&mut learning, now + 60 * MS);
            assert_eq!(report_of(&mut learning).cost == known, waits);
            served.read(&mut learning, now + 1_000 * MS);
            assert!(report_of(&mut learning).cost < known);
        }
    }

    #[test]
    fn learned_capacity_is_reported_and_lost_at_restart() {
        let mut scenario = web(1, 1, 0.5);
        let mut learned = learning(&scenario);
        let report = reported(&mut learned, &scenario);
        assert!(report.capacity_millirif.is_some_and(|it| it >= 1_000));
        let cost_ms = report.cost.map(|cost| cost.as_secs_f64() * 1e3);
        assert!(
            cost_ms.is_some_and(|ms| (ms - 10.0).abs() < 0.5),
            "{cost_ms:?}"
        );
        learned.forget();
        let mut report = LoadReport::new(Rif::ZERO, None);
        learned.fill(&mut report);
        assert_eq!((report.capacity_millirif, report.cost), (None, None));

        scenario.fleet[0].report_noise = 2.0;
        let noisy = reported(&mut learning(&scenario), &scenario);
        let cost_ms = noisy.cost.map(|cost| cost.as_secs_f64() * 1e3);
        assert!(
            cost_ms.is_some_and(|ms| (ms - 10.0).abs() > 0.5),
            "{cost_ms:?}"
        );
    }
}
