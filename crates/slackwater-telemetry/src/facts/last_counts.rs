//! Rises of replicas' counts from one reading to the next.

use super::{ReplicaFacts, RequestCounts, ServiceFacts};
use core::time::Duration;
use std::collections::HashMap;
use std::time::SystemTime;

/// Time for which the counts of a replica that left are kept. A fleet keeps them for a minute, and
/// the reading before it left may be older.
const RETURN_MAX: Duration = Duration::from_secs(90);

/// The counts of a service's replicas at their last reading, also of those that left a moment ago:
/// a replica that returns soon has its old counts.
#[derive(Debug, Default)]
pub struct LastCounts {
    /// Number of the service's instance.
    number: u64,
    /// By the replica's address, with the time of the reading.
    replicas: HashMap<String, (SystemTime, RequestCounts)>,
}

impl LastCounts {
    /// Returns the rise of each replica's counts since its last reading.
    pub fn rise(&mut self, now: SystemTime, service: &ServiceFacts) -> Vec<RequestCounts> {
        if self.number != service.number {
            self.number = service.number;
            self.replicas.clear();
        }
        let rise = |(place, replica): (usize, &ReplicaFacts)| {
            let mut counts = RequestCounts::default();
            for worker in &service.workers {
                counts += worker.requests.get(place).copied().unwrap_or_default();
            }
            if let Some(last) = self.replicas.get_mut(&replica.address) {
                let (_, before) = core::mem::replace(last, (now, counts));
                return counts - before;
            }
            self.replicas.insert(replica.address.clone(), (now, counts));
            counts
        };
        let rises = service.replicas.iter().enumerate().map(rise).collect();
        // Readings of the future are from before the clock was set back.
        let is_recent = |at: SystemTime| now.duration_since(at).is_ok_and(|age| age < RETURN_MAX);
        self.replicas.retain(|_, (at, _)| is_recent(*at));
        rises
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::WorkerFacts;

    /// A service with these counts of requests by replica, the half of them by each of two workers.
    fn service(number: u64, replicas: &[(&str, u64)]) -> ServiceFacts {
        let requests = |sent: u64| RequestCounts {
            sent,
            ..RequestCounts::default()
        };
        let worker = |of: fn(u64) -> u64| WorkerFacts {
            requests: replicas
                .iter()
                .map(|(_, sent)| requests(of(*sent)))
                .collect(),
            ..WorkerFacts::default()
        };
        let replica = |(address, _): &(&str, u64)| ReplicaFacts {
            address: (*address).to_owned(),
            ..ReplicaFacts::default()
        };
        ServiceFacts {
            number,
            replicas: replicas.iter().map(replica).collect(),
            workers: vec![worker(|sent| sent / 2), worker(|sent| sent.div_ceil(2))],
            ..ServiceFacts::default()
        }
    }

    #[test]
    fn counts_of_a_replica_that_returns_soon_do_not_rise_again() {
        let mut last = LastCounts::default();
        let mut rise = |second: u64, service: &ServiceFacts| -> Vec<u64> {
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            let rises = last.rise(now, service);
            rises.iter().map(|rise| rise.sent).collect()
        };
        let both = service(1, &[("a", 7), ("b", 100)]);
        assert_eq!(rise(500, &both), [7, 100]);
        assert_eq!(rise(501, &service(1, &[("a", 9)])), [2]);
        assert_eq!(rise(560, &service(1, &[("b", 105), ("a", 9)])), [5, 0]);
        // Later it has new counts, whatever their values are.
        assert_eq!(rise(561, &service(1, &[("a", 9)])), [0]);
        assert_eq!(rise(650, &service(1, &[("a", 9)])), [0]);
        assert_eq!(rise(651, &service(1, &[("a", 9), ("b", 200)])), [0, 200]);
        // The clock was set back.
        assert_eq!(rise(20, &service(1, &[("a", 10)])), [1]);
        assert_eq!(rise(21, &service(1, &[("b", 201)])), [201]);
        // The service was built again.
        assert_eq!(rise(22, &service(2, &[("a", 11)])), [11]);
    }
}
