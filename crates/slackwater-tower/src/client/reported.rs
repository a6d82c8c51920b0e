//! The last load report of each replica, whether or not the policy keeps it.
//!
//! A policy forgets reports: by age, by use, or because it does not need them. Monitoring needs the
//! last one of each replica, so it is kept here, at the cost of one store per report.

use core::time::Duration;
use slackwater_core::report::Reported;
use slackwater_core::{Instant, LoadReport, ReplicaId, Rif};

/// A report as it arrived.
#[derive(Clone, Copy, Debug)]
struct LastReport {
    rif: Rif,
    latency: Option<Duration>,
    capacity_millirif: Option<u32>,
    cost: Option<Duration>,
    at: Instant,
}

impl LastReport {
    fn new(now: Instant, report: &LoadReport) -> Self {
        Self {
            rif: report.rif,
            latency: report.latency,
            capacity_millirif: report.capacity_millirif,
            cost: report.cost,
            at: now,
        }
    }
}

/// The last report of each replica of the fleet, by the index of its id. Reports of replicas
/// outside the fleet are ignored.
#[derive(Debug, Default)]
pub(super) struct LastReports(Vec<Option<(ReplicaId, Option<LastReport>)>>);

impl LastReports {
    /// Adds a replica to the fleet, without a report yet.
    pub(super) fn join(&mut self, replica: ReplicaId) {
        let index = replica.index();
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        if let Some(place) = self.0.get_mut(index) {
            *place = Some((replica, None));
        }
    }

    /// Removes a replica, unless another one has its index already.
    pub(super) fn leave(&mut self, replica: ReplicaId) {
        if let Some(place) = self.0.get_mut(replica.index()) {
            place.take_if(|(owner, _)| *owner == replica);
        }
    }

    /// Stores a report from a probe.
    #[inline]
    pub(super) fn note(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport) {
        if let Some(Some((owner, said))) = self.0.get_mut(replica.index())
            && *owner == replica
        {
            *said = Some(LastReport::new(now, report));
        }
    }

    /// Stores a report that came with a response. Fields that it lacks, such as latency, keep their
    /// last value.
    pub(super) fn note_carried(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport) {
        if let Some(Some((owner, said))) = self.0.get_mut(replica.index())
            && *owner == replica
        {
            let told = LastReport::new(now, report);
            *said = Some(match *said {
                Some(before) => LastReport {
                    latency: told.latency.or(before.latency),
                    capacity_millirif: told.capacity_millirif.or(before.capacity_millirif),
                    cost: told.cost.or(before.cost),
                    ..told
                },
                None => told,
            });
        }
    }

    /// Returns all reports.
    pub(super) fn view(&self, now: Instant) -> Vec<Reported> {
        let places = self.0.iter().flatten();
        let said = places.filter_map(|(replica, said)| Some((*replica, (*said)?)));
        said.map(|(replica, said)| Reported {
            replica,
            rif: said.rif,
            latency: said.latency,
            capacity_millirif: said.capacity_millirif,
            cost: said.cost,
            age: now.saturating_since(said.at),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::ReplicaIds;

    fn report(rif: u32) -> LoadReport {
        LoadReport::new(Rif::new(rif), Some(Duration::from_millis(rif.into())))
    }

    #[test]
    fn the_last_report_of_each_replica_is_kept_and_ages() {
        let (mut ids, mut last) = (ReplicaIds::new(), LastReports::default());
        let [_, second, third] = [(); 3].map(|()| ids.allocate().expect("room"));
        let at = |ms| Instant::EPOCH + Duration::from_millis(ms);
        last.join(third);
        last.join(second);
        last.note(at(1), third, &report(7));
        last.note(at(2), second, &report(8));
        last.note(at(3), third, &report(9));
        let view = last.view(at(10));
        let told: Vec<_> = (view.iter())
            .map(|it| (it.replica, it.rif.count(), it.latency, it.age))
            .collect();
        let ms = Duration::from_millis;
        let expected = [
            (second, 8, Some(ms(8)), ms(8)),
            (third, 9, Some(ms(9)), ms(7)),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn report_in_a_response_keeps_the_latency_of_the_last_probe() {
        let (mut ids, mut last) = (ReplicaIds::new(), LastReports::default());
        let [replica, stranger] = [(); 2].map(|()| ids.allocate().expect("room"));
        last.join(replica);
        let told = |last: &LastReports| {
            let view = last.view(Instant::EPOCH);
            view.first().map(|it| (it.rif.count(), it.latency))
        };
        last.note_carried(Instant::EPOCH, stranger, &report(1));
        assert_eq!(told(&last), None);
        let carried = LoadReport::new(Rif::new(9), None);
        last.note_carried(Instant::EPOCH, replica, &carried);
        assert_eq!(told(&last), Some((9, None)));
        last.note(Instant::EPOCH, replica, &report(5));
        last.note_carried(Instant::EPOCH, replica, &carried);
        assert_eq!(told(&last), Some((9, Some(Duration::from_millis(5)))));
        last.note_carried(Instant::EPOCH, replica, &report(2));
        assert_eq!(told(&last), Some((2, Some(Duration::from_millis(2)))));
        last.note(Instant::EPOCH, replica, &carried);
        assert_eq!(told(&last), Some((9, None)), "a probe reports all");
    }

    #[test]
    fn capacity_and_cost_are_kept_until_a_probe_changes_them() {
        let (mut ids, mut last) = (ReplicaIds::new(), LastReports::default());
        let replica = ids.allocate().expect("room");
        last.join(replica);
        let told = |last: &LastReports| {
            let view = last.view(Instant::EPOCH);
            view.first().map(|it| (it.capacity_millirif, it.cost))
        };
        last.note(Instant::EPOCH, replica, &report(1));
        assert_eq!(told(&last), Some((None, None)), "not known is not zero");
        let mut known = report(2);
        known.capacity_millirif = Some(4_500);
        known.cost = Some(Duration::from_micros(700));
        last.note_carried(Instant::EPOCH, replica, &known);
        let both = (known.capacity_millirif, known.cost);
        assert_eq!(told(&last), Some(both));
        last.note_carried(Instant::EPOCH, replica, &report(3));
        assert_eq!(told(&last), Some(both));
        last.note(Instant::EPOCH, replica, &report(4));
        assert_eq!(told(&last), Some((None, None)));
    }

    #[test]
    fn departed_replica_is_forgotten_successor_at_its_index_is_kept() {
        let (mut ids, mut last) = (ReplicaIds::new(), LastReports::default());
        let left = ids.allocate().expect("room");
        last.join(left);
        last.note(Instant::EPOCH, left, &report(1));
        last.leave(left);
        assert_eq!(last.view(Instant::EPOCH), []);
        ids.release(left);
        let joined = ids.allocate().expect("room");
        assert_eq!(joined.index(), left.index());
        last.join(joined);
        last.note(Instant::EPOCH, left, &report(2));
        assert_eq!(last.view(Instant::EPOCH), [], "it came too late");
        last.note(Instant::EPOCH, joined, &report(3));
        last.leave(left);
        assert_eq!(last.view(Instant::EPOCH).len(), 1);
    }
}
