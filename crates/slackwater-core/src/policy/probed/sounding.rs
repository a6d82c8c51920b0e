//! A policy's probes: which are sent, which are answered here, and the effect of an answer or a
//! loss. `[A2]` `[A4]` `[A13]`

use super::local::{UNPROBED_INTERVAL_NS, Unanswered};
use super::probing::{Answer, Skipped};
use super::{Keep, Probed, Subject};
use crate::draw::Draw;
use crate::fixed::Rate;
use crate::policy::last_probe::LostProbes;
use crate::policy::probe::Probe;
use crate::policy::probe_loss::LOST_IN_A_ROW_MIN;
use crate::replica::ReplicaId;
use crate::time::Instant;

impl<K: Keep> Probed<K> {
    /// The next probe to send. Unprobed replicas that come before it are answered for. `[A2]`
    pub(super) fn next_probe(&mut self, now: Instant, draw: &mut dyn Draw) -> Option<Probe> {
        while let Some(replica) = self.probing.next_target(self.client.fleet.known(), draw) {
            let probe = if self.client.locals.is_unprobed(replica) {
                self.answer_for_unprobed(now, replica, draw)
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

    /// Notes that a replica has answered a probe.
    #[inline]
    pub(super) fn note_answer(&mut self, now: Instant, answer: Answer) -> bool {
        let any_lost = self.client.fleet.any_lost();
        let Answer {
            replica,
            round_trip_ns,
            lost,
            ..
        } = answer;
        let is_own = round_trip_ns.is_some();
        let found = self.client.fleet.answered(now, replica, lost, is_own);
        self.client.locals.answered(replica, round_trip_ns);
        self.fleet_changed(replica, found);
        any_lost
    }

    pub(super) fn probe_lost(&mut self, now: Instant, replica: ReplicaId) {
        self.client.counters.probes_lost += 1;
        let Some(standing) = self.client.fleet.standing_mut(replica) else {
            return;
        };
        let probes = standing.last_probe.lost(now);
        if self.answers_as_a_rule(replica, probes) {
            self.probing.missed(replica, &mut self.client.fleet);
        }
        let changed = self.client.fleet.probe_lost(now, replica, probes);
        self.fleet_changed(replica, changed);
        let becomes_unprobed = {
            let client = &mut self.client;
            client.locals.lost(now, replica, probes, &client.fleet)
        };
        if becomes_unprobed {
            // Its last report from before the silence must not hold forever.
            let changed = self.client.fleet.set_draining(replica, false);
            self.fleet_changed(replica, changed);
            self.forget_if_deaf();
        }
    }

    /// Whether a lost probe, the last of these, may be the fault of something other than the
    /// replica: it has answered before, and has not stayed silent while others answered.
    fn answers_as_a_rule(&self, replica: ReplicaId, probes: LostProbes) -> bool {
        let is_alone = probes.in_a_row > LOST_IN_A_ROW_MIN
            && self.client.fleet.any_answered_since(probes.since);
        probes.answered_at.is_some() && !is_alone && !self.client.locals.is_unprobed(replica)
    }

    /// Makes the replica unprobed from the start.
    pub(super) fn begin_silence(&mut self, replica: ReplicaId) {
        let client = &mut self.client;
        client.locals.begin_silence(replica, &client.fleet);
    }

    /// Forgets reports, and estimates from them, when no available replica answers any more:
    /// unprobed replicas must not be compared with them. `[A13]`
    pub(super) fn forget_if_deaf(&mut self) {
        let client = &mut self.client;
        let deaf = !client.fleet.in_panic()
            && (client.locals).all_unprobed(client.fleet.available().len());
        if deaf && (K::DRAWS_OTHERS || !client.reported.is_empty()) {
            client.reported.clear();
            client.estimated.clear();
            client.locals.forget_answers();
        }
    }

    #[inline]
    pub(super) fn expire_probes(&mut self, now: Instant) {
        if self.probing.may_expire(now) {
            self.lose_expired(now);
        }
    }

    #[cold]
    fn lose_expired(&mut self, now: Instant) {
        let mut lost = core::mem::take(&mut self.lost);
        (self.probing).expire(now, &mut self.client.fleet, |replica| lost.push(replica));
        // By name, not by the slots that the probes happened to have.
        lost.sort_unstable();
        for replica in lost.drain(..) {
            self.probe_lost(now, replica);
        }
        self.lost = lost;
    }

    /// Answers an unprobed replica's probe here. A real probe is sent only now and then. `[A13]`
    #[cold]
    fn answer_for_unprobed(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        draw: &mut dyn Draw,
    ) -> Option<Probe> {
        let interval_ns = self.probe_interval_min_ns;
        let own_in_flight = self.client.fleet.in_flight(replica);
        let available = self.client.fleet.available().len();
        let spread: Option<&mut dyn Draw> = if K::DRAWS_OTHERS { Some(draw) } else { None };
        let locals = &mut self.client.locals;
        match locals.answer(now, replica, own_in_flight, available, interval_ns, spread) {
            Ok(report) => {
                self.client.counters.probes_local += 1;
                if self.client.fleet.is_available(replica) {
                    if !K::DRAWS_OTHERS {
                        self.client.estimated.record(report.rif);
                    }
                    let from = Subject {
                        replica,
                        own_in_flight,
                        local: true,
                    };
                    (self.kept).handle_report(now, from, &report, &mut self.client, draw);
                }
            }
            Err(Unanswered::Interval) => self.client.counters.probes_skipped_interval += 1,
            Err(Unanswered::OutOfReach) => {}
        }
        if self.client.config.local_only {
            return None;
        }
        // A real probe that is not sent does not count as skipped: this one was answered here.
        let interval_ns = interval_ns.max(UNPROBED_INTERVAL_NS);
        let fleet = &mut self.client.fleet;
        self.probing.send(now, replica, fleet, interval_ns).ok()
    }

    fn probe(&mut self, now: Instant, replica: ReplicaId) -> Option<Probe> {
        let (interval_ns, fleet) = (self.probe_interval_min_ns, &mut self.client.fleet);
        match self.probing.send(now, replica, fleet, interval_ns) {
            Ok(probe) => return Some(probe),
            Err(Skipped::Unknown) => {}
            Err(Skipped::Outstanding) => self.client.counters.probes_skipped_outstanding += 1,
            Err(Skipped::Interval) => self.client.counters.probes_skipped_interval += 1,
            Err(Skipped::Cap) => self.client.counters.probes_skipped_cap += 1,
            Err(Skipped::Rate) => self.client.counters.probes_skipped_rate += 1,
        }
        None
    }

    /// The rate that [`Self::want_query_probes`] uses now, for inspection. `None` if queries
    /// trigger no probes.
    pub(super) fn probe_rate(&self) -> Option<Rate> {
        let wanted = self.kept.probe_rate(&self.client);
        let asks = wanted > Rate::ZERO && !self.client.config.local_only;
        asks.then(|| self.probing.back_off.lowered(wanted))
    }

    /// Adds a query's probes: fewer than configured while probing shows an overload. `[A2]`
    /// `[Decision 0011]`
    #[expect(clippy::inline_always, reason = "each pick needs it once")]
    #[inline(always)]
    pub(super) fn want_query_probes(&mut self, now: Instant) {
        let wanted = self.kept.probe_rate(&self.client);
        self.probing.back_off.tick(now);
        let rate = self.probing.back_off.lowered(wanted);
        self.client.probe_share = self.probing.back_off.share();
        if rate < wanted {
            let left_out = self.probes_left_out.step(wanted.less(rate));
            self.client.counters.probes_backed_off += u64::from(left_out);
        }
        let probes = self.probes_owed.step(rate);
        self.want_probes(probes);
    }

    pub(super) fn want_probes(&mut self, count: u32) {
        if !self.probing.want(count) {
            self.client.counters.probes_skipped_cap += u64::from(count);
        }
    }
}
