//! Statistics of a service's requests, if these were recorded: methods, statuses, sizes, and fields
//! by their values.

use crate::histogram::Histogram;
use crate::measure::Latencies;
use core::cmp::Reverse;
use core::time::Duration;
use slackwater_recording::Request;
use std::collections::BTreeMap;

/// Statistics of requests.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// Number of requests.
    pub count: u64,
    /// Requests by method.
    pub methods: BTreeMap<String, u64>,
    /// Requests by the first digit of the status; 0: no status.
    pub classes: BTreeMap<u16, u64>,
    /// Bytes of their bodies.
    pub bytes_in: Histogram,
    /// Bytes of their responses' bodies.
    pub bytes_out: Histogram,
    /// For each field, how long requests took by its value, in microseconds.
    fields: Vec<BTreeMap<Option<String>, Vec<u32>>>,
}

/// Requests that had the same value in a field.
#[derive(Clone, Debug)]
pub struct Valued<'r> {
    /// The value; `None`: they did not have the field.
    pub value: Option<&'r str>,
    /// How long they took, from the pick of a replica to their end.
    pub latencies: Latencies,
}

impl Requests {
    /// Adds a request that took `took` from the pick of a replica to its end.
    pub(super) fn note(&mut self, request: &Request, took: Duration) {
        self.count += 1;
        *self.methods.entry(request.method.clone()).or_default() += 1;
        let class = request.status.map_or(0, |status| status / 100);
        *self.classes.entry(class).or_default() += 1;
        self.bytes_in.record(request.bytes_in);
        self.bytes_out.record(request.bytes_out);
        if self.fields.len() < request.fields.len() {
            self.fields.resize_with(request.fields.len(), BTreeMap::new);
        }
        let us = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        for (values, value) in self.fields.iter_mut().zip(&request.fields) {
            match values.get_mut(value) {
                Some(latencies) => latencies.push(us),
                None => drop(values.insert(value.clone(), vec![us])),
            }
        }
    }

    /// Returns the values of a field, by its position in the stream's list: how many there are, and
    /// the most frequent ones.
    pub fn values(&self, field: usize, most: usize) -> (usize, Vec<Valued<'_>>) {
        let Some(values) = self.fields.get(field) else {
            return (0, Vec::new());
        };
        let mut sorted: Vec<_> = values.iter().collect();
        sorted.sort_by_key(|(_, latencies)| Reverse(latencies.len()));
        let most = sorted.into_iter().take(most).map(|(value, us)| {
            let mut latencies = Latencies::default();
            for us in us {
                latencies.record(Duration::from_micros((*us).into()));
            }
            Valued {
                value: value.as_deref(),
                latencies,
            }
        });
        (values.len(), most.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_method_and_status() {
        let request = |method: &str, status, fields: [Option<&str>; 2]| Request {
            method: method.to_owned(),
            status,
            bytes_in: 10,
            bytes_out: 2_000,
            fields: fields.map(|field| field.map(str::to_owned)).into(),
        };
        let mut requests = Requests::default();
        assert_eq!(requests.values(0, 9).0, 0);
        for (millis, request) in [
            (5, request("GET", Some(200), [Some("a"), None])),
            (9, request("GET", Some(204), [Some("b"), None])),
            (7, request("PUT", Some(503), [Some("b"), Some("x")])),
            (7, request("GET", None, [None, None])),
        ] {
            requests.note(&request, Duration::from_millis(millis));
        }
        assert_eq!(requests.count, 4);
        assert_eq!(requests.methods.get("GET"), Some(&3));
        let classes: Vec<_> = requests
            .classes
            .iter()
            .map(|(class, count)| (*class, *count))
            .collect();
        assert_eq!(classes, [(0, 1), (2, 2), (5, 1)]);
        assert_eq!(
            (requests.bytes_in.max(), requests.bytes_out.count()),
            (10, 4)
        );
        let (count, most) = requests.values(0, 2);
        assert_eq!((count, most.len()), (3, 2));
        assert_eq!((most[0].value, most[0].latencies.count()), (Some("b"), 2));
        assert_eq!(most[0].latencies.mean(), Duration::from_millis(8));
        let (count, all) = requests.values(1, 9);
        assert_eq!((count, all[0].value, all[1].value), (2, None, Some("x")));
    }
}
