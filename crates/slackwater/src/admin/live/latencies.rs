//! How long requests took, in an interval and over the last seconds: differences between readings of histograms.

use super::messages::Latency;
use crate::admin::facts::ServiceFacts;
use crate::admin::latency::{LatencyFacts, RESPONSE_CLASSES, ResponseClass};
use crate::latency_histogram::Latencies;
use core::time::Duration;
use std::collections::VecDeque;
use tokio::time::Instant;

/// What the last seconds are.
const LENGTH: Duration = Duration::from_secs(10);

/// Readings that the last seconds begin with are so far apart: the last 10 s are the last 10 to 12.
const SPACING: Duration = Duration::from_secs(2);

/// One service's histograms at one moment, over all workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Histograms {
    /// Requests as their clients saw them, by class.
    totals: [Latencies; RESPONSE_CLASSES],
    /// By replica: until the head of its response.
    pub(super) heads: Vec<Latencies>,
}

impl Histograms {
    pub(super) fn of(service: &ServiceFacts) -> Self {
        let mut heads = vec![Latencies::default(); service.replicas.len()];
        for worker in &service.workers {
            for (sum, of_worker) in heads.iter_mut().zip(&worker.heads) {
                *sum += of_worker;
            }
        }
        Self {
            totals: LatencyFacts::sum(&service.workers).total,
            heads,
        }
    }

    /// All that came after an earlier reading, whatever became of it.
    pub(super) fn since(&self, before: &Self) -> Latencies {
        let mut sum = Latencies::default();
        for (now, before) in self.totals.iter().zip(&before.totals) {
            sum += &(now.clone() - before);
        }
        sum
    }

    /// How many of a class came after an earlier reading.
    pub(super) fn ended(&self, before: &Self, class: ResponseClass) -> u64 {
        let [now, before] = [self, before].map(|it| &it.totals[class.index()]);
        (now.clone() - before).count()
    }

    /// Whether any request is known; where nobody counts them so, as in an agent, none ever is.
    pub(super) fn are_kept(&self) -> bool {
        self.totals.iter().any(|total| total.count() > 0)
    }
}

/// The quantiles as they are told; `None` of nothing.
pub(super) fn told(latencies: &Latencies) -> Option<Latency> {
    let us = |part: f64| Some(micros(latencies.quantile(part)?));
    Some(Latency {
        count: latencies.count(),
        p50_us: us(0.5)?,
        p90_us: us(0.9)?,
        p99_us: us(0.99)?,
        p999_us: us(0.999)?,
    })
}

/// A quantile in microseconds.
pub(super) fn micros(latency: Duration) -> u64 {
    u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)
}

/// Readings of the last seconds, all of the same fleet.
#[derive(Debug, Default)]
pub(super) struct Window(VecDeque<(Instant, Vec<Histograms>)>);

impl Window {
    /// Keeps a reading: those of all services, in the order of the fleet.
    pub(super) fn push(&mut self, now: Instant, histograms: &[Histograms]) {
        let last = self.0.back().map(|(at, _)| *at);
        if last.is_some_and(|at| now.duration_since(at) < SPACING) {
            return;
        }
        let is_old = |(at, _): &(Instant, Vec<Histograms>)| now.duration_since(*at) >= LENGTH;
        // The newest of those that are old enough is where the last seconds begin.
        while self.0.get(1).is_some_and(is_old) {
            self.0.pop_front();
        }
        self.0.push_back((now, histograms.to_vec()));
    }

    /// The fleet is another one.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// How a service was when the last seconds began.
    pub(super) fn beginning(&self, service: usize) -> Option<&Histograms> {
        self.0.front()?.1.get(service)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency_histogram::LatencyHistogram;

    fn latencies(latencies_ms: &[u64]) -> Latencies {
        let histogram = LatencyHistogram::default();
        for ms in latencies_ms {
            histogram.add(Duration::from_millis(*ms));
        }
        histogram.read()
    }

    fn histograms(good_ms: &[u64], bad_ms: &[u64]) -> Histograms {
        let mut histograms = Histograms::default();
        histograms.totals[ResponseClass::Success.index()] = latencies(good_ms);
        histograms.totals[ResponseClass::Server.index()] = latencies(bad_ms);
        histograms
    }

    #[test]
    fn what_came_between_two_readings_is_told_over_all_classes() {
        let before = histograms(&[1, 1], &[900]);
        let now = histograms(&[1, 1, 30], &[900, 40]);
        let since = told(&now.since(&before)).expect("two");
        assert_eq!(since.count, 2);
        assert_eq!((since.p50_us, since.p99_us), (30_000, 42_500));
        assert_eq!(now.ended(&before, ResponseClass::Server), 1);
        assert_eq!(now.ended(&before, ResponseClass::Client), 0);
        assert_eq!(told(&now.since(&now)), None);
        assert!(now.are_kept() && !Histograms::default().are_kept());
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_seconds_are_ten_to_twelve() {
        let mut window = Window::default();
        let start = Instant::now();
        // At second s, s requests have been.
        for second in 0..30_usize {
            let now = start + Duration::from_secs(second as u64);
            window.push(now, &[histograms(&vec![1; second], &[])]);
            let begun = window.beginning(0).expect("a reading");
            let begun = begun.since(&Histograms::default()).count();
            let length = second as u64 - begun;
            if second >= 12 {
                assert!((10..=12).contains(&length), "{second}: {length}");
            } else {
                assert_eq!(begun, 0, "{second}");
            }
            assert!(window.0.len() <= 7);
        }
        window.clear();
        assert!(window.beginning(0).is_none());
    }
}
