//! Exemplars of histograms: the newest request in each bucket, with the ids to look it up.
//!
//! Only a request that can be looked up becomes an exemplar: its spans are exported, or its
//! decision is kept. Other requests cost nothing.

use crate::latency_histogram::bucket_of;
use crate::trace::TraceId;
use core::ops::{AddAssign, RangeInclusive};
use core::time::Duration;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::SystemTime;

/// `OpenMetrics` limits the names and values of an exemplar's labels to this many characters in
/// total.
const CHARACTERS_MAX: usize = 128;

const TRACE: &str = "trace_id";
const TRACE_CHARACTERS: usize = 32;
const REQUEST: &str = "request_id";

/// The ids with which a request can be looked up; at least one of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The trace that its spans belong to.
    pub trace: Option<TraceId>,
    /// Its request id, if its decision is kept.
    pub request: Option<Box<str>>,
}

impl Reference {
    /// Returns `None` without either. Drops an id that is too long for an exemplar's labels; only
    /// ids from clients can be.
    pub fn new(trace: Option<TraceId>, id: Option<&str>) -> Option<Self> {
        let trace_characters = trace.map_or(0, |_| TRACE.len() + TRACE_CHARACTERS);
        let room = CHARACTERS_MAX - REQUEST.len() - trace_characters;
        let request = id.filter(|id| id.chars().count() <= room).map(Into::into);
        let can_be_found = trace.is_some() || request.is_some();
        can_be_found.then_some(Self { trace, request })
    }

    /// The ids as labels: names and values.
    pub fn labels(&self) -> impl Iterator<Item = (&'static str, String)> {
        let trace = self.trace.map(|trace| (TRACE, trace.to_string()));
        let request = self.request.as_deref().map(|id| (REQUEST, id.to_owned()));
        trace.into_iter().chain(request)
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// The ids with which it can be looked up.
    pub reference: Reference,
    /// Its latency, as counted by the histogram.
    pub latency: Duration,
    /// Time of the request.
    pub at: SystemTime,
}

/// The newest exemplar of each bucket of a histogram.
#[derive(Clone, Debug, Default)]
pub struct Exemplars(BTreeMap<usize, Arc<Exemplar>>);

impl Exemplars {
    /// Keeps an exemplar, unless there is a newer one.
    pub fn keep(&mut self, exemplar: Exemplar) {
        self.keep_at(bucket_of(exemplar.latency), Arc::new(exemplar));
    }

    fn keep_at(&mut self, bucket: usize, exemplar: Arc<Exemplar>) {
        match self.0.entry(bucket) {
            Entry::Vacant(place) => {
                place.insert(exemplar);
            }
            Entry::Occupied(mut place) => {
                if place.get().at <= exemplar.at {
                    place.insert(exemplar);
                }
            }
        }
    }

    /// Returns the newest exemplar in these buckets.
    pub fn newest(&self, buckets: RangeInclusive<usize>) -> Option<&Exemplar> {
        let exemplars = self.0.range(buckets).map(|(_, exemplar)| &**exemplar);
        exemplars.max_by_key(|exemplar| exemplar.at)
    }
}

impl AddAssign<&Self> for Exemplars {
    fn add_assign(&mut self, other: &Self) {
        for (bucket, exemplar) in &other.0 {
            self.keep_at(*bucket, Arc::clone(exemplar));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU128;

    fn exemplar(latency_ms: u64, at_s: u64) -> Exemplar {
        Exemplar {
            reference: Reference {
                trace: None,
                request: Some(format!("{latency_ms}").into()),
            },
            latency: Duration::from_millis(latency_ms),
            at: SystemTime::UNIX_EPOCH + Duration::from_secs(at_s),
        }
    }

    fn newest(exemplars: &Exemplars, buckets: RangeInclusive<usize>) -> Option<Duration> {
        exemplars.newest(buckets).map(|it| it.latency)
    }

    #[test]
    fn exemplar_labels_stay_within_the_length_limit() {
        let characters = |reference: Reference| {
            let labels = reference.labels();
            labels
                .map(|(name, value)| name.len() + value.len())
                .sum::<usize>()
        };
        let id = "x".repeat(128);
        for (trace, longest) in [(None, 118), (Some(TraceId(NonZeroU128::MIN)), 78)] {
            let fits = Reference::new(trace, Some(&id[..longest])).expect("it fits");
            assert_eq!(characters(fits), 128);
            let too_long = Reference::new(trace, Some(&id[..=longest]));
            assert_eq!(too_long.map(characters), trace.map(|_| 40));
        }
        assert_eq!(Reference::new(None, None), None);
    }

    #[test]
    fn newest_exemplar_of_each_bucket_is_kept_across_workers() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let bucket = |ms| bucket_of(Duration::from_millis(ms));
        // Both are in the bucket up to 150 ms.
        let (mut worker, mut other) = (Exemplars::default(), Exemplars::default());
        worker.keep(exemplar(120, 2));
        worker.keep(exemplar(130, 1));
        worker.keep(exemplar(3_000, 1));
        assert_eq!(newest(&worker, bucket(120)..=bucket(120)), ms(120));
        other.keep(exemplar(140, 3));
        other.keep(exemplar(3_001, 0));
        worker += &other;
        assert_eq!(newest(&worker, bucket(120)..=bucket(120)), ms(140));
        assert_eq!(newest(&worker, bucket(3_000)..=usize::MAX), ms(3_000));
        assert_eq!(newest(&worker, 0..=usize::MAX), ms(140));
        assert_eq!(newest(&worker, 0..=bucket(50)), None);
    }
}
