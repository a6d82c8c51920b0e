//! The model's probes: which are due, their targets, which are in flight, and what happens to their
//! answers. `[A2]` `[A3]` `[A4]` `[A13]`

use super::{Entry, MILLION, Outstanding, SlowPrequal, local_tracker, recent_mean};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::ProbeId;
use slackwater_core::{Draw, Instant, LoadReport, ReplicaId, Rif};

impl SlowPrequal {
    /// At most 64 batches wait.
    pub(super) fn want(&mut self, probes: u32) {
        if probes == 0 {
        } else if self.batches.len() == 64 {
            self.counters.probes_skipped_cap += u64::from(probes);
            self.back_off.starved += u64::from(probes);
        } else {
            self.batches.push(probes);
        }
    }

    pub(crate) fn poll_probe(
        &mut self,
        now: Instant,
        draw: &mut dyn Draw,
    ) -> Option<(ReplicaId, Instant)> {
        self.expire_probes(now);
        loop {
            while self.targets.is_empty() {
                if self.batches.is_empty() {
                    return None;
                }
                let count = self.batches.remove(0);
                self.draw_targets(count as usize, draw);
            }
            let target = self.targets.pop().expect("not empty");
            if self.may_send(now, target, draw) {
                self.rest(now);
                self.counters.probes_sent += 1;
                let it = self.replicas.get_mut(&target).expect("known");
                it.probed_at = Some(now);
                (it.out_at_probe, it.ended_since_probe) = (it.in_flight, 0);
                return Some((target, now + self.settings.probe_deadline));
            }
        }
    }

    /// Notes the policy's name of the probe that `poll_probe` just returned.
    pub(crate) fn sent(
        &mut self,
        sent_at: Instant,
        id: ProbeId,
        (replica, deadline): (ReplicaId, Instant),
    ) {
        self.outstanding.push(Outstanding {
            id,
            replica,
            sent_at,
            deadline,
        });
    }

    /// Floyd: the j-th draw is among the first n − count + j. If it is taken, the newest is used
    /// instead, and is probed right after it.
    fn draw_targets(&mut self, count: usize, draw: &mut dyn Draw) {
        let n = self.known.len();
        for newest in n.saturating_sub(count)..n {
            let drawn = self.known[below(draw, u32::try_from(newest + 1).expect("few")) as usize];
            // The last is probed first.
            let taken = self.targets.iter().position(|&target| target == drawn);
            let place = taken.unwrap_or(self.targets.len());
            let target = if taken.is_some() {
                self.known[newest]
            } else {
                drawn
            };
            self.targets.insert(place, target);
        }
    }

    fn may_send(&mut self, now: Instant, target: ReplicaId, draw: &mut dyn Draw) -> bool {
        let silent = self.replicas[&target].tracker.is_some();
        let mut interval = self.settings.probe_interval_min;
        if silent {
            self.answer_locally(now, target, draw);
            if self.settings.local_only {
                return false;
            }
            interval = interval.max(Duration::from_secs(1));
        }
        let it = &self.replicas[&target];
        let soon = it
            .probed_at
            .is_some_and(|at| now.saturating_since(at) < interval);
        let out = self.outstanding.iter().any(|probe| probe.replica == target);
        let full = self.outstanding.len() == usize::from(self.settings.probes_outstanding_max);
        if !silent {
            self.counters.probes_skipped_outstanding += u64::from(out);
            self.counters.probes_skipped_interval += u64::from(!out && soon);
            self.counters.probes_skipped_cap += u64::from(!out && !soon && full);
        }
        if out || soon {
            return false;
        }
        if full {
            self.back_off.starved += 1;
            return false;
        }
        let paid = self.pay(now);
        self.counters.probes_skipped_rate += u64::from(!paid && !silent);
        self.back_off.sent += u64::from(paid);
        paid
    }

    /// A token bucket: one token flows in per 1/`per_second` of a second, and it holds a tenth of a
    /// second's worth, or 16.
    fn pay(&mut self, now: Instant) -> bool {
        let per_second = u128::from(self.settings.probes_per_second_max);
        if per_second == 0 {
            return true;
        }
        let one = 1_000_000_000;
        let most = (per_second / 10).max(16) * one;
        let (missing, since) = self.paid;
        let flown = now.saturating_since(since).as_nanos() * per_second;
        let missing = missing.saturating_sub(flown);
        let enough = missing + one <= most;
        self.paid = (missing + if enough { one } else { 0 }, now);
        enough
    }

    /// Takes back a probe that could not be sent.
    pub(crate) fn unsent(&mut self, id: ProbeId) {
        if let Some(place) = self.outstanding.iter().position(|probe| probe.id == id) {
            let probe = self.outstanding.remove(place);
            self.counters.probes_unsent += 1;
            self.back_off.unsent += 1;
            self.paid.0 = self.paid.0.saturating_sub(1_000_000_000);
            if let Some(it) = self.replicas.get_mut(&probe.replica) {
                it.probed_at = None;
            }
        }
    }

    /// `[A13]`: own RIF, raised by the estimate of others there, and own latency without the way.
    /// The pace is that of real probes, with one in flight at a time. No report here has a query
    /// rate, so Little's law is not used.
    fn answer_locally(&mut self, now: Instant, target: ReplicaId, draw: &mut dyn Draw) {
        let it = self.replicas.get_mut(&target).expect("known");
        if now < it.unreachable_until {
            return;
        }
        let round_trip = Duration::from_nanos(recent_mean(&self.round_trips));
        let interval = self.settings.probe_interval_min.max(round_trip);
        let last = it.answered_here_at;
        if last.is_some_and(|at| now.saturating_since(at) < interval) {
            self.counters.probes_skipped_interval += 1;
            return;
        }
        it.answered_here_at = Some(now);
        let mut report = it.tracker.as_ref().expect("silent").report(now);
        report.latency = report
            .latency
            .map(|latency| latency.saturating_sub(round_trip).max(latency / 2));
        let others = (recent_mean(&self.others) + 512) / 1_024;
        let rif = u64::from(it.in_flight) + others;
        report.rif = Rif::new(u32::try_from(rif).unwrap_or(u32::MAX));
        self.counters.probes_local += 1;
        if self.available.contains(&target) {
            self.estimates.push(report.rif.count());
        }
        self.pool_report(now, target, &report, true, draw);
    }

    /// The idle span restarts. `[A3]`
    fn rest(&mut self, now: Instant) {
        self.idle_at = Some(now + self.idle_span);
    }

    /// The next idle span lasts from 3/4 to 4/4 of the longest. `[A3]`
    fn jitter(&mut self, draw: &mut dyn Draw) {
        let longest = self.settings.probe_idle_max;
        let longest_us = u32::try_from(longest.as_micros()).expect("an hour");
        let early_us = below(draw, longest_us / 4 + 1);
        self.idle_span = longest.saturating_sub(Duration::from_micros(u64::from(early_us)));
    }

    /// Probes that expire together do so in the order of their replicas' names.
    fn expire_probes(&mut self, now: Instant) {
        let expired = |probe: &Outstanding| probe.deadline <= now;
        let mut lost: Vec<_> = (self.outstanding.iter())
            .filter(|probe| expired(probe))
            .map(|probe| probe.replica)
            .collect();
        self.outstanding.retain(|probe| !expired(probe));
        lost.sort_unstable();
        for replica in lost {
            self.lost(now, replica);
        }
    }

    fn lost(&mut self, now: Instant, replica: ReplicaId) {
        self.counters.probes_lost += 1;
        let Some(it) = self.replicas.get_mut(&replica) else {
            return;
        };
        if it.lost_in_a_row == 0 {
            it.lost_since = now;
        }
        it.lost_in_a_row += 1;
        let alone = it.lost_in_a_row > 3 && self.heard_at >= Some(it.lost_since);
        if it.answered_at.is_some() && it.tracker.is_none() && !alone {
            self.back_off.ended.push((replica, None));
        }
        self.look_for_lost(now, replica);
        let it = &self.replicas[&replica];
        let unheard = it
            .answered_at
            .is_none_or(|at| now.saturating_since(at) >= Duration::from_secs(10));
        if it.lost_in_a_row >= self.enough_lost() && unheard && it.tracker.is_none() {
            let it = self.replicas.get_mut(&replica).expect("known");
            it.tracker = Some(local_tracker());
            it.draining = false;
            self.settle_availability(replica);
            self.forget_if_deaf();
        }
    }

    /// How many probes of a living replica are lost in a row with a probability of one in ten
    /// thousand, but at least 3 and at most 16. `[Decision 0007]`
    fn enough_lost(&self) -> u32 {
        // A loss of exactly a tenth takes four: the power must not be rounded up beyond the limit.
        let is_rare = |&count: &u32| self.loss.0.powf(count.into()) <= 1.000_001e-4;
        (3..16).find(is_rare).unwrap_or(16)
    }

    /// Updates the share of lost probes, which is the mean over the last 256 or so. It begins as
    /// if 32 had been answered.
    fn note_loss(&mut self, lost: bool) {
        let (share, seen) = &mut self.loss;
        *seen = f64::min(*seen + 1.0, 256.0 - 32.0);
        *share += (f64::from(u8::from(lost)) - *share) / (32.0 + *seen);
    }

    /// `[Decision 0007]`: enough probes in a row, and half a second, without an answer. If another
    /// replica has answered since the first of them was lost, the replica is lost. If none has, no
    /// replica is, and only answers from then on count.
    fn look_for_lost(&mut self, now: Instant, replica: ReplicaId) {
        let it = &self.replicas[&replica];
        let half_a_second = Duration::from_millis(500);
        let is_long = |at| now.saturating_since(at) >= half_a_second;
        if it.lost_in_a_row < self.enough_lost() || !it.answered_at.is_some_and(is_long) {
            return;
        }
        if self.heard_at >= Some(it.lost_since.max(self.broken_at)) {
            self.replicas.get_mut(&replica).expect("known").lost = true;
        } else {
            for it in self.replicas.values_mut() {
                if core::mem::take(&mut it.lost) {
                    self.broken_at = now;
                }
            }
        }
        self.settle_availability(replica);
    }

    pub(crate) fn report(
        &mut self,
        now: Instant,
        id: ProbeId,
        report: &LoadReport,
        draw: &mut dyn Draw,
    ) {
        self.expire_probes(now);
        let Some(place) = self.outstanding.iter().position(|probe| probe.id == id) else {
            self.counters.reports_late += 1;
            return;
        };
        let Outstanding {
            replica, sent_at, ..
        } = self.outstanding.remove(place);
        self.counters.probes_answered += 1;
        let Some(it) = self.replicas.get(&replica) else {
            self.counters.reports_unknown += 1;
            return;
        };
        // `[Decision 0015]`
        let mut report = report.clone();
        let least = it.out_at_probe.saturating_sub(it.ended_since_probe);
        report.rif = report.rif.max(Rif::new(least));
        let report = &report;
        let ordinary = self.ordinary(report.rif);
        let it = self.replicas.get_mut(&replica).expect("known");
        it.answered_at = Some(now);
        let lost = core::mem::take(&mut it.lost_in_a_row);
        let took = now.saturating_since(sent_at);
        self.back_off.ended.push((replica, Some(took)));
        let round_trip = took.as_nanos();
        (self.round_trips).push(u64::try_from(round_trip).expect("short"));
        it.silences += u32::from(it.tracker.take().is_some());
        it.lost = false;
        self.heard_at = Some(now);
        // A replica that counted as gone shows nothing about the others.
        if lost < self.enough_lost() {
            (0..lost).for_each(|_| self.note_loss(true));
        }
        self.note_loss(false);
        self.settle_availability(replica);
        let it = self.replicas.get_mut(&replica).expect("known");
        it.draining = report.draining;
        let others = ordinary.count().saturating_sub(it.in_flight);
        self.settle_availability(replica);
        if self.available.contains(&replica) {
            self.others.push(u64::from(others) * 1_024);
            self.responses.push(report.rif.count());
        }
        self.pool_report(now, replica, report, false, draw);
    }

    pub(crate) fn probe_lost(&mut self, now: Instant, id: ProbeId) {
        if let Some(place) = self.outstanding.iter().position(|probe| probe.id == id) {
            let probe = self.outstanding.remove(place);
            self.lost(now, probe.replica);
        }
    }

    pub(crate) fn timeout(&mut self, now: Instant, draw: &mut dyn Draw) {
        self.expire_probes(now);
        if self.idle_at.is_some_and(|at| at <= now) {
            self.jitter(draw);
            self.rest(now);
            let probes = u32::from(self.settings.idle_probes);
            self.counters.probes_idle += u64::from(probes);
            self.want(probes);
        }
    }

    /// When something is due next, if a replica is known.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let deadlines = self.outstanding.iter().map(|probe| probe.deadline);
        deadlines
            .chain(self.idle_at)
            .min()
            .filter(|_| !self.known.is_empty())
    }

    fn pool_report(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        report: &LoadReport,
        local: bool,
        draw: &mut dyn Draw,
    ) {
        if !self.available.contains(&replica) {
            return;
        }
        self.window.1 += 1;
        let uses_left = self.draw_uses(draw);
        if let Some(place) = self.pool.iter().position(|entry| entry.replica == replica) {
            self.pool.remove(place);
            self.counters.replaced += 1;
        } else if self.pool.len() == usize::from(self.settings.pool_capacity) {
            self.pool.remove(0);
            self.counters.evicted += 1;
        }
        let LoadReport { rif, latency, .. } = *report;
        let latency = latency.filter(|latency| !latency.is_zero());
        self.pool.push(Entry {
            replica,
            rif: rif.count(),
            latency,
            received_at: now,
            uses_left,
            local,
        });
    }

    /// Equation (1) `[A9]`, capped `[Decision 0005]`, but never so low that the pool runs dry
    /// `[Decision 0001]`: as a fraction, in millionths.
    fn draw_uses(&self, draw: &mut dyn Draw) -> u32 {
        let (n, m) = (
            self.available.len() as i128,
            i128::from(self.settings.pool_capacity),
        );
        let remove = i128::from(self.remove_rate());
        // n times the gain of reports per query, with this many entries in the pool.
        let gain = |entries: i128| (n - entries) * self.measured;
        let drift = i128::from(self.settings.pool_drift.millionths());
        let uses = |gain: i128| (MILLION + drift) * n * MILLION / gain;
        let mut limit = MILLION;
        if gain(m) > n * remove {
            let cap = i128::from(self.settings.reuse_max) * MILLION;
            limit = limit.max(uses(gain(m) - n * remove).min(cap));
        }
        let not_run_dry = if gain(2) > 0 {
            uses(gain(2)).min(16 * MILLION)
        } else {
            16 * MILLION
        };
        let limit = u32::try_from(limit.max(not_run_dry)).expect("capped");
        let (floor, fraction) = (limit / 1_000_000, limit % 1_000_000);
        floor + u32::from(fraction > 0 && below(draw, 1_000_000) < fraction)
    }
}
