//! A policy and its probes: which go out, which are answered here, and what it means when one is answered or lost.
//! `[A2]` `[A4]` `[A13]`

use super::local::SILENT_PROBE_INTERVAL_NS;
use super::probing::Skipped;
use super::{Keep, Probed};
use crate::draw::Draw;
use crate::policy::probe::Probe;
use crate::replica::ReplicaId;
use crate::report::LoadReport;
use crate::time::Instant;

impl<K: Keep> Probed<K> {
    /// The next probe to send; silent replicas on the way to it are answered for. `[A2]`
    pub(super) fn next_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        while let Some(replica) = self.probing.next_target(self.client.fleet.known(), draw) {
            let probe = if self.locals.is_silent(replica) {
                self.probe_silent(now, replica, draw)
            } else {
                self.probe(now, replica)
            };
            if probe.is_some() {
                self.client.counters.probes_sent += 1;
                self.probing.rest(now);
                return probe;
            }
        }
        None
    }

    /// A replica has answered a probe.
    pub(super) fn heard(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport) {
        let client = &mut self.client;
        let ordinary = client
            .rif_limit()
            .map_or(report.rif, |limit| report.rif.min(limit));
        let own_in_flight = client.fleet.in_flight(replica);
        self.locals.answered(now, replica, ordinary, own_in_flight);
        if client.fleet.is_draining(replica) != report.draining
            && client.fleet.set_draining(replica, report.draining)
        {
            self.fleet_changed(replica);
        }
        if !report.draining {
            // Whoever runs empty tells nothing of how busy the others are.
            self.client.reported.record(report.rif);
        }
    }

    pub(super) fn probe_lost(&mut self, now: Instant, replica: ReplicaId) {
        self.client.counters.probes_lost += 1;
        if self.locals.lost(now, replica) {
            // What it said of itself before it fell silent does not hold for ever.
            if self.client.fleet.set_draining(replica, false) {
                self.fleet_changed(replica);
            }
            self.forget_if_deaf();
        }
    }

    /// When no replica answers any more, what they last said, and what was estimated from it, is not what silent ones are
    /// to be compared with. `[A13]`
    pub(super) fn forget_if_deaf(&mut self) {
        if !self.client.reported.is_empty()
            && self.locals.all_silent(self.client.fleet.known().len())
        {
            self.client.reported.clear();
            self.client.estimated.clear();
            self.locals.forget_others();
        }
    }

    pub(super) fn expire_probes(&mut self, now: Instant) {
        if !self.probing.may_expire(now) {
            return;
        }
        let mut lost = core::mem::take(&mut self.lost);
        self.probing.expire(now, |replica| lost.push(replica));
        for replica in lost.drain(..) {
            self.probe_lost(now, replica);
        }
        self.lost = lost;
    }

    /// A probe of a silent replica is answered here; a real one goes out only now and then. `[A13]`
    fn probe_silent(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        draw: &mut dyn Draw,
    ) -> Option<Probe> {
        if let Some(report) = self.locals.report(now, replica) {
            self.client.counters.probes_local += 1;
            self.client.estimated.record(report.rif);
            self.keep_report(now, replica, &report, true, draw);
        }
        if self.client.config.local_only {
            return None;
        }
        // What does not go to a silent replica was not skipped: it has been answered.
        let interval_ns = self.spans.probe_interval_min.max(SILENT_PROBE_INTERVAL_NS);
        self.probing
            .send(now, replica, interval_ns, self.spans.probe_deadline)
            .ok()
    }

    fn probe(&mut self, now: Instant, replica: ReplicaId) -> Option<Probe> {
        let interval_ns = self.spans.probe_interval_min;
        match self
            .probing
            .send(now, replica, interval_ns, self.spans.probe_deadline)
        {
            Ok(probe) => return Some(probe),
            Err(Skipped::Unknown) => {}
            Err(Skipped::Outstanding) => self.client.counters.probes_skipped_outstanding += 1,
            Err(Skipped::Interval) => self.client.counters.probes_skipped_interval += 1,
            Err(Skipped::Cap) => self.client.counters.probes_skipped_cap += 1,
        }
        None
    }

    pub(super) fn want_probes(&mut self, count: u32) {
        if !self.probing.want(count) {
            self.client.counters.probes_skipped_cap += u64::from(count);
        }
    }
}
