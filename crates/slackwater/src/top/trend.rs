//! A service's figures over the last minutes, and the requests that each of its replicas received
//! in the last seconds.
//!
//! Both are bounded: the number of points, and the seconds of columns.

use super::message::{Columns, History, ServiceTick, Tick, sum};
use std::collections::VecDeque;

/// Most points: five minutes of a demo, which sends two ticks a second.
const POINTS_MAX: usize = 600;
/// Averaging time of replicas' rates: in a fleet of a thousand, a replica receives only an
/// occasional request.
const RATE_OVER_MS: u64 = 5_000;
/// Most ticks in such an average.
const COLUMNS_MAX: usize = 64;

/// A service in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Point {
    pub(super) at_ms: u64,
    /// Requests/s.
    pub(super) rate: f64,
    /// Share of the ended requests that failed, in thousandths.
    pub(super) failed_thousandths: u64,
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    pub(super) p999_us: Option<u64>,
    pub(super) rif_limit: Option<u64>,
}

/// Requests that each replica received in one interval.
#[derive(Debug)]
struct Sent {
    interval_ms: u64,
    requests: Vec<u64>,
    failed: Vec<u64>,
}

/// A service's last minutes.
#[derive(Debug, Default)]
pub(super) struct Trend {
    points: VecDeque<Point>,
    sent: VecDeque<Sent>,
}

impl Trend {
    /// Adds a tick, unless it was added already.
    pub(super) fn take(&mut self, tick: &Tick, service: &ServiceTick) {
        let Columns { sent, failed, .. } = &service.replicas;
        self.sent.push_back(Sent {
            interval_ms: tick.interval_ms,
            requests: sent.clone(),
            failed: failed.clone(),
        });
        while let Some(first) = self.sent.front() {
            let shorter = self.length_ms().saturating_sub(first.interval_ms);
            if self.sent.len() <= COLUMNS_MAX && (shorter < RATE_OVER_MS || self.sent.len() == 1) {
                break;
            }
            self.sent.pop_front();
        }
        let latency = service.latency;
        self.push(Point {
            at_ms: tick.at_ms,
            rate: service.rate,
            failed_thousandths: thousandths(service.failed, service.requests),
            p50_us: latency.map(|latency| latency.p50_us),
            p99_us: latency.map(|latency| latency.p99_us),
            p999_us: latency.map(|latency| latency.p999_us),
            rif_limit: service.rif_limit.map(|limit| limit.median.into()),
        });
    }

    /// Replaces the points with the server's history, and keeps the newer ones.
    pub(super) fn take_history(&mut self, history: &History) {
        let newer = core::mem::take(&mut self.points);
        for (index, at_ms) in history.at_ms.iter().enumerate() {
            let count = |column: &[u64]| column.get(index).copied().unwrap_or(0);
            let value = |column: &[Option<u64>]| column.get(index).copied().flatten();
            self.push(Point {
                at_ms: *at_ms,
                rate: history.rate.get(index).copied().unwrap_or(0.0),
                failed_thousandths: thousandths(count(&history.failed), count(&history.requests)),
                p50_us: value(&history.p50_us),
                p99_us: value(&history.p99_us),
                p999_us: value(&history.p999_us),
                rif_limit: value(&history.rif_limit),
            });
        }
        for point in newer {
            self.push(point);
        }
    }

    /// Clears the request counts of replicas, because the fleet has changed.
    pub(super) fn forget_replicas(&mut self) {
        self.sent.clear();
    }

    /// The points, oldest first.
    pub(super) fn points(&self) -> impl DoubleEndedIterator<Item = &Point> + ExactSizeIterator {
        self.points.iter()
    }

    /// Requests/s that were sent to the replica in the last seconds, and those that failed.
    pub(super) fn rates(&self, replica: usize) -> (f64, f64) {
        let all = |column: fn(&Sent) -> &Vec<u64>| {
            let counts = self
                .sent
                .iter()
                .filter_map(move |sent| column(sent).get(replica));
            per_second(sum(counts), self.length_ms())
        };
        (all(|sent| &sent.requests), all(|sent| &sent.failed))
    }

    /// Requests/s that were sent to all replicas in the last seconds.
    pub(super) fn rate_of_all(&self) -> f64 {
        let sent = self.sent.iter().flat_map(|sent| &sent.requests);
        per_second(sum(sent), self.length_ms())
    }

    fn length_ms(&self) -> u64 {
        sum(self.sent.iter().map(|sent| &sent.interval_ms))
    }

    fn push(&mut self, point: Point) {
        if self
            .points
            .back()
            .is_some_and(|last| point.at_ms <= last.at_ms)
        {
            return;
        }
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }
}

fn per_second(count: u64, length_ms: u64) -> f64 {
    count as f64 * 1_000.0 / length_ms.max(1) as f64
}

/// The part of `of` in thousandths, rounded up so that any part above zero is visible.
fn thousandths(part: u64, of: u64) -> u64 {
    part.saturating_mul(1_000).div_ceil(of.max(1)).min(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(at_ms: u64, sent: &[u64], failed: &[u64]) -> (Tick, ServiceTick) {
        let mut service = ServiceTick {
            requests: sent.iter().sum(),
            failed: failed.iter().sum(),
            rate: 1.5,
            ..ServiceTick::default()
        };
        service.replicas.sent = sent.to_vec();
        service.replicas.failed = failed.to_vec();
        let tick = Tick {
            at_ms,
            interval_ms: 1_000,
            ..Tick::default()
        };
        (tick, service)
    }

    fn taken(trend: &mut Trend, at_ms: u64, sent: &[u64], failed: &[u64]) {
        let (tick, service) = tick(at_ms, sent, failed);
        trend.take(&tick, &service);
    }

    #[test]
    fn rates_are_means_over_five_seconds() {
        let mut trend = Trend::default();
        assert_eq!(trend.rates(0), (0.0, 0.0));
        taken(&mut trend, 1_000, &[100, 7], &[0, 7]);
        assert_eq!(trend.rates(1), (7.0, 7.0));
        for second in 2..=6 {
            taken(&mut trend, second * 1_000, &[10, 0], &[1, 0]);
        }
        // The first second has ended.
        assert_eq!(trend.rates(0), (10.0, 1.0));
        assert_eq!(trend.rates(1), (0.0, 0.0));
        assert_eq!(trend.rates(9), (0.0, 0.0));
        assert!((trend.rate_of_all() - 10.0).abs() < 1e-9);
        trend.forget_replicas();
        assert_eq!(trend.rates(0), (0.0, 0.0));
        assert_eq!(trend.points().len(), 6);
    }

    #[test]
    fn single_interval_longer_than_the_window_is_used() {
        let mut trend = Trend::default();
        let (mut tick, service) = tick(1, &[60], &[0]);
        tick.interval_ms = 60_000;
        trend.take(&tick, &service);
        assert_eq!(trend.rates(0), (1.0, 0.0));
    }

    #[test]
    fn number_of_zero_length_intervals_is_bounded() {
        let mut trend = Trend::default();
        for at_ms in 0..1_000 {
            let (mut tick, service) = tick(at_ms, &[1], &[0]);
            tick.interval_ms = 0;
            trend.take(&tick, &service);
        }
        assert_eq!(trend.sent.len(), COLUMNS_MAX);
        assert_eq!(trend.points().len(), POINTS_MAX);
    }

    #[test]
    fn requested_history_precedes_newer_ticks() {
        let mut trend = Trend::default();
        taken(&mut trend, 3_000, &[1], &[1]);
        taken(&mut trend, 4_000, &[1_001], &[1]);
        let history = History {
            at_ms: vec![1_000, 2_000, 3_000],
            rate: vec![7.0, 8.0, 9.0],
            requests: vec![100],
            failed: vec![25],
            ..History::default()
        };
        trend.take_history(&history);
        let points: Vec<_> = trend
            .points()
            .map(|point| (point.at_ms, point.rate, point.failed_thousandths))
            .collect();
        let expected = [
            (1_000, 7.0, 250),
            (2_000, 8.0, 0),
            (3_000, 9.0, 0),
            (4_000, 1.5, 1),
        ];
        assert_eq!(points, expected);
    }
}
