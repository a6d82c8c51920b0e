//! Probes on their way, and the synchronous rounds that wait for them.

use super::cached::KeyNumber;
use super::network::Message;
use super::query::asked;
use super::query::{Key, Numbered};
use super::replicas::Agent;
use super::{Engine, Timer};
use crate::machine::JobId;
use slackwater_core::policy::{self, Event, ProbeId, ProbeRound};
use slackwater_core::{Instant, LoadReport, LoadScale, ReplicaId};

/// Bit that marks jobs that answer probes. The other bits are the probe's slot.
const OF_PROBE: u32 = 1 << 31;

/// Returns the slot of the probe that a job answers; `None`: the job serves a query.
pub(super) const fn probe_of(job: u32) -> Option<u32> {
    if job & OF_PROBE == 0 {
        None
    } else {
        Some(job & !OF_PROBE)
    }
}

/// A probe in progress. Its slot stays reserved until the answer is delivered.
#[derive(Debug)]
pub(super) struct Probing {
    client: u32,
    replica: u32,
    purpose: Purpose,
    /// The key of the query that it is for, if it carries one.
    hint: Option<KeyNumber>,
    /// Set on the way back.
    report: Option<LoadReport>,
    /// It waits for its replica's CPU.
    is_at_work: bool,
}

/// The reason for a probe.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// The policy's own probe, off the query's path.
    Policy(ProbeId),
    /// A synchronous round, in which the replica has this id.
    Round(Key, ReplicaId),
}

/// A synchronous round under way.
#[derive(Debug)]
pub(super) struct Round {
    serial: u32,
    query: Key,
    /// The replica that already has the query, if the round is for its second copy.
    asked: ProbeRound,
}

impl Numbered for Round {
    fn serial(&self) -> u32 {
        self.serial
    }
}

impl Engine {
    /// Sends the probes that a client's policy requests, and schedules its timeout.
    #[inline]
    pub(super) fn poll_client(&mut self, number: u32) {
        let now = Instant::from_nanos(self.now);
        while let Some(client) = self.balancing.client(number)
            && let Some(probe) = client.policy.poll_probe(now, &mut client.draw)
        {
            self.send_probe(number, probe.replica, Purpose::Policy(probe.id));
        }
        self.arm(number);
    }

    #[inline]
    fn send_probe(&mut self, client: u32, to: ReplicaId, purpose: Purpose) {
        self.meter.probe(self.now);
        let leaves_at = self.probe_waits(client);
        if self.network.loses_probe() {
            return;
        }
        let replica = self.replicas.number(to);
        let slot = self.probes.insert(Probing {
            client,
            replica,
            purpose,
            hint: self.hint(purpose),
            report: None,
            is_at_work: false,
        });
        let slot = super::query::slot_number(slot);
        if let Some(at) = leaves_at {
            self.timers.push(at, Timer::Probe(slot));
        } else {
            self.network
                .send_probe(self.now, client, replica, Message::Probe(slot));
        }
    }

    /// Sends a probe that has waited for its client's CPU.
    pub(super) fn send_delayed_probe(&mut self, slot: u32) {
        if let Some(probe) = self.probes.get(slot as usize) {
            let message = Message::Probe(slot);
            self.network
                .send_probe(self.now, probe.client, probe.replica, message);
        }
    }

    /// Handles a probe that arrives at its replica. A replica without an agent never answers, and a
    /// suspended one drops the probe.
    #[inline]
    pub(super) fn answer_probe(&mut self, slot: u32) {
        let Some(probe) = self.probes.get_mut(slot as usize) else {
            return;
        };
        let replica = self.replicas.at_mut(probe.replica as usize);
        if replica.agent == Agent::None || replica.is_suspended() {
            self.probes.try_remove(slot as usize);
            return;
        }
        if replica.is_up && replica.probe_cost_ns > 0.0 {
            probe.is_at_work = true;
            let job = JobId(slot | OF_PROBE);
            (replica.machine).arrive_probe(self.now, job, replica.probe_cost_ns);
            let number = probe.replica;
            self.replicas.changed(number as usize);
            return;
        }
        self.send_report(slot);
    }

    /// Sends the answer to a probe, or its refusal.
    pub(super) fn send_report(&mut self, slot: u32) {
        let Some(probe) = self.probes.get_mut(slot as usize) else {
            return;
        };
        let (client, number) = (probe.client, probe.replica);
        let replica = self.replicas.at_mut(number as usize);
        probe.is_at_work = false;
        if replica.is_up {
            let mut report = replica.report(self.now);
            if let (Some(cache), Some(key)) = (&replica.cache, probe.hint)
                && cache.holds(key)
            {
                report.load_scale = self.hint_scale;
            }
            probe.report = Some(report);
        }
        let message = Message::Report(slot);
        self.network.send_probe(self.now, client, number, message);
    }

    /// Returns the key that a probe carries: that of its round's query, where replicas use it.
    fn hint(&self, purpose: Purpose) -> Option<KeyNumber> {
        let Purpose::Round(round, _) = purpose else {
            return None;
        };
        if self.hint_scale == LoadScale::ONE {
            return None;
        }
        let round = self.rounds.find(round)?;
        self.queries.find(round.query)?.key_number
    }

    /// Drops the probes at a replica that has stopped. They are never answered.
    pub(super) fn forget_probes(&mut self, number: u32) {
        self.probes
            .retain(|_, probe| !(probe.is_at_work && probe.replica == number));
    }

    /// Handles the answer to a probe, or its refusal, when it arrives at its client.
    #[inline]
    pub(super) fn report_comes(&mut self, slot: u32) {
        let client = self.probes.get(slot as usize).map(|probe| probe.client);
        let free_at = client.and_then(|client| self.is_busy_until(client));
        match free_at {
            Some(at) => self.timers.push(at, Timer::Report(slot)),
            None => self.handle_report(slot),
        }
    }

    /// Passes the answer to its client.
    #[inline]
    pub(super) fn handle_report(&mut self, slot: u32) {
        let Some(mut probe) = self.probes.try_remove(slot as usize) else {
            return;
        };
        if let Some(report) = &mut probe.report {
            self.divide(probe.client, probe.replica, report);
        }
        let now = Instant::from_nanos(self.now);
        match probe.purpose {
            Purpose::Policy(id) => {
                if let Some(client) = self.balancing.client(probe.client) {
                    let report = probe.report.as_ref();
                    let lost = Event::ProbeLost(id);
                    client.handle(now, report.map_or(lost, |report| Event::Report(id, report)));
                }
                if let Some(report) = &probe.report {
                    self.share_answer(probe.client, probe.replica, report);
                }
            }
            Purpose::Round(key, id) => {
                if let Some(Round { asked, .. }) = self.rounds.find_mut(key) {
                    match &probe.report {
                        Some(report) => asked.handle_report(id, report),
                        None => asked.handle_lost(id),
                    }
                    if asked.is_ready() {
                        self.end_round(key);
                    }
                }
            }
        }
        self.poll_client(probe.client);
    }

    /// Sends the probes of a synchronous round.
    pub(super) fn begin_round(&mut self, client: u32, query: Key, round: ProbeRound) {
        let deadline = round.deadline().as_nanos();
        let targets: Vec<_> = round.targets().collect();
        let key = self.rounds.insert(|serial| Round {
            serial,
            query,
            asked: round,
        });
        self.timers.push(deadline, Timer::Round(key));
        for replica in targets {
            self.send_probe(client, replica, Purpose::Round(key, replica));
        }
    }

    /// Decides with the answers that have arrived, unless the query has been given up meanwhile;
    /// `false` if the round has ended.
    pub(super) fn end_round(&mut self, key: Key) -> bool {
        let Some(Round {
            query,
            asked: round,
            ..
        }) = self.rounds.remove(key)
        else {
            return false;
        };
        let found = self.queries.find(query);
        let found = found.map(|query| (query.client, self.asked_first(query)));
        let avoid = self.replicas_of(query);
        if let Some((number, first)) = found
            && let Some(client) = self.balancing.client(number)
        {
            let now = Instant::from_nanos(self.now);
            let avoid = self.replicas.ids_of(&avoid);
            let asked = policy::Query {
                round: Some(&round),
                ..asked(first, &avoid)
            };
            let decision = (client.policy).choose(now, asked, &mut client.draw, None);
            match decision.pick() {
                Some(pick) => self.send_picked(query, pick),
                None => self.turn_away(query),
            }
            self.poll_client(number);
        }
        true
    }
}
