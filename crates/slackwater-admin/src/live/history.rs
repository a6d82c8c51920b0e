//! The values of the ticks over the last minutes, in rings of fixed length.
//!
//! A service keeps a sample for each tick. So do its replicas, as long as there is room for all of
//! them; a large fleet keeps fewer for each.

use super::messages::{Counts, Fleet, FleetService, ReplicaHistory, ServiceHistory, Tick};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// The longest history.
const LENGTH: Duration = Duration::from_mins(15);

/// The most samples of replicas, over all services.
const REPLICA_SAMPLES_MAX: usize = 300_000;

/// A count that is not known.
const UNKNOWN: u32 = u32::MAX;

/// A service at one tick.
#[derive(Clone, Debug)]
struct ServiceSample {
    at_ms: u64,
    rate: f64,
    requests: u64,
    failed: u64,
    /// The 50th, 99th and 99.9th percentile.
    quantiles_us: Option<[u64; 3]>,
    rif_limit: Option<u32>,
    hedges: u64,
    retries: u64,
    shed: u64,
    queued: u64,
    /// By their index in [`Series::names`].
    counts: Box<[(u8, u32)]>,
}

/// A replica at one tick: 40 bytes.
#[derive(Clone, Copy, Debug)]
struct ReplicaSample {
    latency_us: u32,
    p50_us: u32,
    p99_us: u32,
    rif: u32,
    capacity_millirif: u32,
    cost_us: u32,
    sent: u32,
    in_flight: u32,
    failed: u32,
    state: u8,
}

/// The history of a service.
#[derive(Debug, Default)]
struct Series {
    /// Names of counts in the order in which they appeared, with their group.
    names: Vec<(Group, String)>,
    samples: VecDeque<ServiceSample>,
    /// By name; each replica's newest sample belongs to the newest tick.
    replicas: HashMap<String, VecDeque<ReplicaSample>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Picks,
    Probes,
}

/// The history of all services.
#[derive(Debug)]
pub(super) struct History {
    interval: Duration,
    services: BTreeMap<String, Series>,
}

impl History {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            services: BTreeMap::new(),
        }
    }

    /// Number of ticks that a service keeps.
    fn ticks_max(&self) -> usize {
        let ticks = LENGTH.as_millis() / self.interval.as_millis().max(1);
        usize::try_from(ticks).unwrap_or(usize::MAX).max(1)
    }

    /// Forgets services and replicas that are no longer in the fleet.
    pub(super) fn set_fleet(&mut self, fleet: &Fleet) {
        let names: BTreeMap<_, &FleetService> = (fleet.services.iter())
            .map(|service| (service.name.as_str(), service))
            .collect();
        self.services.retain(|name, series| {
            let Some(service) = names.get(name.as_str()) else {
                return false;
            };
            let there = service.replicas.iter().map(|it| it.name.as_str());
            let there: BTreeSet<_> = there.collect();
            series
                .replicas
                .retain(|name, _| there.contains(name.as_str()));
            true
        });
    }

    /// Stores a tick; `fleet` is the fleet that it belongs to.
    pub(super) fn push(&mut self, fleet: &Fleet, tick: &Tick) {
        let ticks_max = self.ticks_max();
        let replicas: usize = fleet.services.iter().map(|it| it.replicas.len()).sum();
        let samples_max = (REPLICA_SAMPLES_MAX / replicas.max(1)).clamp(1, ticks_max);
        for (service, said) in fleet.services.iter().zip(&tick.services) {
            let series = self.services.entry(service.name.clone()).or_default();
            // The clock was set back, so the times of earlier samples mean nothing.
            if series
                .samples
                .back()
                .is_some_and(|last| last.at_ms > tick.at_ms)
            {
                *series = Series::default();
            }
            let sample = series.sample(tick.at_ms, said);
            keep(&mut series.samples, sample, ticks_max);
            let columns = &said.replicas;
            for (place, replica) in service.replicas.iter().enumerate() {
                let Some(sample) = ReplicaSample::of(columns, place) else {
                    continue;
                };
                if let Some(samples) = series.replicas.get_mut(&replica.name) {
                    keep(samples, sample, samples_max);
                } else {
                    // Allocated at once, because growing step by step would take half as much
                    // memory again.
                    let mut samples = VecDeque::with_capacity(samples_max);
                    samples.push_back(sample);
                    series.replicas.insert(replica.name.clone(), samples);
                }
            }
        }
    }

    /// The history of a service; `None` if it does not exist.
    pub(super) fn of_service(&self, fleet: &Fleet, name: &str) -> Option<ServiceHistory> {
        let empty = Series::default();
        let is_there = fleet.services.iter().any(|service| service.name == name);
        let series = match self.services.get(name) {
            Some(series) => series,
            None if is_there => &empty,
            None => return None,
        };
        let column = |of: fn(&ServiceSample) -> u64| series.samples.iter().map(of).collect();
        let quantile = |place: usize| {
            let samples = series.samples.iter();
            samples
                .map(|sample| sample.quantiles_us.map(|quantiles| quantiles[place]))
                .collect()
        };
        Some(ServiceHistory {
            revision: fleet.revision,
            service: name.to_owned(),
            replica: None,
            interval_ms: fleet.interval_ms,
            at_ms: column(|sample| sample.at_ms),
            requests: column(|sample| sample.requests),
            failed: column(|sample| sample.failed),
            rate: series.samples.iter().map(|sample| sample.rate).collect(),
            p50_us: quantile(0),
            p99_us: quantile(1),
            p999_us: quantile(2),
            rif_limit: series.samples.iter().map(|it| it.rif_limit).collect(),
            hedges: column(|sample| sample.hedges),
            retries: column(|sample| sample.retries),
            shed: column(|sample| sample.shed),
            queued: column(|sample| sample.queued),
            picks: series.columns(Group::Picks),
            probes: series.columns(Group::Probes),
        })
    }

    /// The history of a replica; `None` if it does not exist.
    pub(super) fn of_replica(
        &self,
        fleet: &Fleet,
        service: &str,
        name: &str,
    ) -> Option<ReplicaHistory> {
        let known = fleet.services.iter().find(|known| known.name == service)?;
        known.replicas.iter().find(|replica| replica.name == name)?;
        let series = self.services.get(service);
        let samples = series.and_then(|series| series.replicas.get(name));
        let samples: Vec<_> = samples.into_iter().flatten().copied().collect();
        let ticks = series.map_or(0, |series| series.samples.len());
        // A replica may have fewer samples than its service; they belong to the newest ticks.
        let times = series.into_iter().flat_map(|series| &series.samples);
        let times = times.skip(ticks.saturating_sub(samples.len()));
        let known = |of: fn(&ReplicaSample) -> u32| -> Vec<Option<u32>> {
            let values = samples.iter().map(of);
            values
                .map(|value| (value != UNKNOWN).then_some(value))
                .collect()
        };
        let wide = |of: fn(&ReplicaSample) -> u32| -> Vec<Option<u64>> {
            known(of)
                .into_iter()
                .map(|value| value.map(u64::from))
                .collect()
        };
        Some(ReplicaHistory {
            revision: fleet.revision,
            service: service.to_owned(),
            replica: name.to_owned(),
            interval_ms: fleet.interval_ms,
            at_ms: times.map(|sample| sample.at_ms).collect(),
            state: samples.iter().map(|sample| sample.state).collect(),
            rif: known(|sample| sample.rif),
            latency_us: wide(|sample| sample.latency_us),
            capacity_millirif: known(|sample| sample.capacity_millirif),
            cost_us: wide(|sample| sample.cost_us),
            in_flight: samples.iter().map(|it| it.in_flight.into()).collect(),
            sent: samples.iter().map(|it| it.sent.into()).collect(),
            failed: samples.iter().map(|it| it.failed.into()).collect(),
            p50_us: wide(|sample| sample.p50_us),
            p99_us: wide(|sample| sample.p99_us),
        })
    }
}

fn keep<T>(samples: &mut VecDeque<T>, sample: T, most: usize) {
    while samples.len() >= most {
        samples.pop_front();
    }
    samples.push_back(sample);
}

impl Series {
    fn sample(&mut self, at_ms: u64, said: &super::messages::ServiceTick) -> ServiceSample {
        let admission = |name: &str| said.admission.get(name).copied().unwrap_or(0);
        let shed = (said.admission.iter())
            .filter(|(name, _)| name.starts_with("shed_"))
            .map(|(_, count)| count);
        let mut counts = Vec::new();
        self.note(Group::Picks, &said.picks, &mut counts);
        self.note(Group::Probes, &said.probes, &mut counts);
        ServiceSample {
            at_ms,
            rate: said.rate,
            requests: said.requests,
            failed: said.failed,
            quantiles_us: said.latency.map(|it| [it.p50_us, it.p99_us, it.p999_us]),
            rif_limit: said.rif_limit.map(|limit| limit.median),
            hedges: admission("hedges"),
            retries: admission("retries"),
            shed: shed.sum(),
            queued: admission("queued"),
            counts: counts.into(),
        }
    }

    /// Stores counts by the indices of their names. There are a few dozen names: reasons of picks
    /// and results of probes.
    fn note(&mut self, group: Group, counts: &Counts, noted: &mut Vec<(u8, u32)>) {
        for (name, &count) in counts {
            let mut names = self.names.iter();
            let place = names.position(|(of, own)| *of == group && own == name);
            let place = place.unwrap_or_else(|| {
                self.names.push((group, name.clone()));
                self.names.len() - 1
            });
            if let Ok(place) = u8::try_from(place) {
                noted.push((place, u32::try_from(count).unwrap_or(u32::MAX)));
            }
        }
    }

    /// A column for each name of a group.
    fn columns(&self, group: Group) -> BTreeMap<String, Vec<u64>> {
        let names = self.names.iter().enumerate();
        let of_group = names.filter(|(_, (of, _))| *of == group);
        let column = |(place, (_, name)): (usize, &(Group, String))| {
            let count = |sample: &ServiceSample| {
                let mut counts = sample.counts.iter();
                let noted = counts.find(|(noted, _)| usize::from(*noted) == place);
                noted.map_or(0, |(_, count)| u64::from(*count))
            };
            (name.clone(), self.samples.iter().map(count).collect())
        };
        of_group.map(column).collect()
    }
}

impl ReplicaSample {
    fn of(columns: &super::messages::Columns, place: usize) -> Option<Self> {
        let narrow = |value: Option<u64>| {
            let value = value.and_then(|value| u32::try_from(value).ok());
            value.unwrap_or(UNKNOWN)
        };
        let count = |value: Option<&u64>| u32::try_from(*value?).ok();
        Some(Self {
            latency_us: narrow(*columns.latency_us.get(place)?),
            p50_us: narrow(*columns.p50_us.get(place)?),
            p99_us: narrow(*columns.p99_us.get(place)?),
            rif: columns.rif.get(place)?.unwrap_or(UNKNOWN),
            // A column without any value is sent empty.
            capacity_millirif: (columns.capacity_millirif.get(place).copied().flatten())
                .unwrap_or(UNKNOWN),
            cost_us: narrow(columns.cost_us.get(place).copied().flatten()),
            sent: count(columns.sent.get(place)).unwrap_or(u32::MAX),
            in_flight: count(columns.in_flight.get(place)).unwrap_or(u32::MAX),
            failed: count(columns.failed.get(place)).unwrap_or(u32::MAX),
            state: *columns.state.get(place)?,
        })
    }
}

#[cfg(test)]
mod tests;
