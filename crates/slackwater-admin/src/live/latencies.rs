//! Latencies of requests in an interval and over the last seconds, as differences between readings
//! of histograms.

use super::messages::{Fleet, Latency};
use crate::reported_status::whole;
use core::time::Duration;
use slackwater_telemetry::facts::ServiceFacts;
use slackwater_telemetry::facts::latency::{LatencyFacts, RESPONSE_CLASSES, ResponseClass};
use slackwater_telemetry::latency_histogram::Latencies;
use std::collections::{BTreeMap, VecDeque};
use tokio::time::Instant;

/// Length of the window for the last seconds.
const LENGTH: Duration = Duration::from_secs(10);

/// Time between two stored readings: the last 10 s are actually the last 10 to 12.
const SPACING: Duration = Duration::from_secs(2);

/// One service's histograms at one moment, over all workers.
#[derive(Clone, Debug, Default)]
pub(super) struct Histograms {
    service: String,
    /// The number of the service's instance. Another one means that the service was built again,
    /// with new histograms.
    number: u64,
    /// Whether the service is an agent's, so that there are none by class.
    pub(super) is_of_agent: bool,
    /// Requests as their clients saw them, by class.
    totals: [Latencies; RESPONSE_CLASSES],
    /// Time to the head of a response, by replica.
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
            service: service.name.clone(),
            number: service.number,
            is_of_agent: service.is_of_agent(),
            totals: LatencyFacts::sum(&service.workers).total,
            heads,
        }
    }

    /// Returns whether an earlier reading is of the same instance of the service, so that it may be
    /// subtracted.
    pub(super) fn goes_on(&self, before: &Self) -> bool {
        self.service == before.service && self.number == before.number
    }

    /// Returns all latencies after an earlier reading, of all classes.
    pub(super) fn since(&self, before: &Self) -> Latencies {
        let mut sum = Latencies::default();
        for (now, before) in self.totals.iter().zip(&before.totals) {
            sum += &(now.clone() - before);
        }
        sum
    }

    /// Returns the number of requests of a class after an earlier reading.
    pub(super) fn ended(&self, before: &Self, class: ResponseClass) -> u64 {
        let [now, before] = [self, before].map(|it| &it.totals[class.index()]);
        (now.clone() - before).count()
    }
}

/// Converts to quantiles; `None` if there are no latencies.
pub(super) fn quantiles(latencies: &Latencies) -> Option<Latency> {
    let us = |part: f64| Some(whole(latencies.quantile(part)?.as_micros()));
    Some(Latency {
        count: latencies.count(),
        p50_us: us(0.5)?,
        p90_us: us(0.9)?,
        p99_us: us(0.99)?,
        p999_us: us(0.999)?,
    })
}

/// Readings of the last seconds, by service. All readings of a service are of the same instance and
/// of the same replicas.
#[derive(Debug, Default)]
pub(super) struct Window(BTreeMap<String, VecDeque<(Instant, Histograms)>>);

impl Window {
    /// Stores a reading.
    pub(super) fn push(&mut self, now: Instant, histograms: &[Histograms]) {
        let is_old = |(at, _): &(Instant, Histograms)| now.duration_since(*at) >= LENGTH;
        for service in histograms {
            let readings = self.0.entry(service.service.clone()).or_default();
            let last = readings.back().map(|(at, _)| *at);
            if last.is_some_and(|at| now.duration_since(at) < SPACING) {
                continue;
            }
            // The window begins at the newest reading that is old enough.
            while readings.get(1).is_some_and(is_old) {
                readings.pop_front();
            }
            readings.push_back((now, service.clone()));
        }
    }

    /// Forgets services that are gone or have other replicas.
    pub(super) fn set_fleet(&mut self, before: &Fleet, now: &Fleet) {
        self.0.retain(|name, _| {
            let replicas = |fleet: &Fleet| {
                let mut services = fleet.services.iter();
                let service = services.find(|service| service.name == *name)?;
                let replicas = service.replicas.iter().map(|it| it.name.clone());
                Some(replicas.collect::<Vec<_>>())
            };
            let now = replicas(now);
            now.is_some() && now == replicas(before)
        });
    }

    /// For a service that was built again since the last reading, replaces that reading with an
    /// empty one.
    pub(super) fn begin_anew(&mut self, histograms: &[Histograms]) {
        for service in histograms {
            if let Some(readings) = self.0.get_mut(&service.service)
                && let Some((at, last)) = readings.back()
                && !service.goes_on(last)
            {
                let nothing = Histograms {
                    service: service.service.clone(),
                    number: service.number,
                    heads: vec![Latencies::default(); service.heads.len()],
                    ..Histograms::default()
                };
                *readings = VecDeque::from([(*at, nothing)]);
            }
        }
    }

    /// The reading of a service at the beginning of the window.
    pub(super) fn beginning(&self, service: &str) -> Option<&Histograms> {
        Some(&self.0.get(service)?.front()?.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::messages::{FleetReplica, FleetService};
    use slackwater_telemetry::latency_histogram::LatencyHistogram;

    fn latencies(latencies_ms: &[u64]) -> Latencies {
        let histogram = LatencyHistogram::default();
        for ms in latencies_ms {
            histogram.add(Duration::from_millis(*ms));
        }
        histogram.read()
    }

    fn named(service: &str, number: u64, good_ms: &[u64]) -> Histograms {
        Histograms {
            service: service.to_owned(),
            number,
            heads: vec![latencies(good_ms)],
            ..histograms(good_ms, &[])
        }
    }

    fn histograms(good_ms: &[u64], bad_ms: &[u64]) -> Histograms {
        let mut histograms = Histograms::default();
        histograms.totals[ResponseClass::Success.index()] = latencies(good_ms);
        histograms.totals[ResponseClass::Server.index()] = latencies(bad_ms);
        histograms
    }

    #[test]
    fn latency_difference_covers_all_classes() {
        let before = histograms(&[1, 1], &[900]);
        let now = histograms(&[1, 1, 30], &[900, 40]);
        let since = quantiles(&now.since(&before)).expect("two");
        assert_eq!(since.count, 2);
        assert_eq!((since.p50_us, since.p99_us), (30_000, 42_500));
        assert_eq!(now.ended(&before, ResponseClass::Server), 1);
        assert_eq!(now.ended(&before, ResponseClass::Client), 0);
        assert_eq!(quantiles(&now.since(&now)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn recent_latencies_cover_ten_to_twelve_seconds() {
        let mut window = Window::default();
        let start = Instant::now();
        // At second s there have been s requests.
        for second in 0..30_usize {
            let now = start + Duration::from_secs(second as u64);
            window.push(now, &[histograms(&vec![1; second], &[])]);
            let begun = window.beginning("").expect("a reading");
            let begun = begun.since(&Histograms::default()).count();
            let length = second as u64 - begun;
            if second >= 12 {
                assert!((10..=12).contains(&length), "{second}: {length}");
            } else {
                assert_eq!(begun, 0, "{second}");
            }
            assert!(window.0[""].len() <= 7);
        }
    }

    fn fleet(services: &[(&str, &[&str])]) -> Fleet {
        let services = services.iter().map(|(name, replicas)| FleetService {
            name: (*name).to_owned(),
            policy: "prequal".to_owned(),
            replicas: (replicas.iter())
                .map(|name| FleetReplica {
                    name: (*name).to_owned(),
                    address: (*name).to_owned(),
                    weight: 1,
                    ..FleetReplica::default()
                })
                .collect(),
            ..FleetService::default()
        });
        Fleet {
            revision: 1,
            role: "serve".to_owned(),
            interval_ms: 1_000,
            services: services.collect(),
            ..Fleet::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn recent_latencies_are_kept_only_for_the_same_replicas() {
        let mut window = Window::default();
        let readings = ["a", "b", "c"].map(|name| named(name, 1, &[5]));
        window.push(Instant::now(), &readings);
        let before = fleet(&[("a", &["x"]), ("b", &["x"]), ("c", &["x"])]);
        let mut now = fleet(&[("a", &["x"]), ("b", &["x", "y"])]);
        now.services[0].replicas[0].weight = 3;
        window.set_fleet(&before, &now);
        let known = ["a", "b", "c"].map(|name| window.beginning(name).is_some());
        assert_eq!(known, [true, false, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn recent_latencies_of_a_rebuilt_service_start_empty() {
        let mut window = Window::default();
        let start = Instant::now();
        window.push(start, &[named("a", 1, &[5; 30]), named("b", 2, &[5; 30])]);
        let now = [named("a", 3, &[7; 4]), named("b", 2, &[5; 31])];
        window.begin_anew(&now);
        let since = |service: usize, name: &str| {
            let begun = window.beginning(name).expect("a reading");
            let now = &now[service];
            let heads = now.heads[0].clone() - &begun.heads[0];
            (now.since(begun).count(), heads.count())
        };
        assert_eq!(since(0, "a"), (4, 4));
        assert_eq!(since(1, "b"), (1, 1), "it went on");
        // Earlier readings are no longer used.
        assert_eq!(window.0["a"].len(), 1);
        assert_eq!(window.0["a"][0].0, start);
    }
}
