//! Changes of the fleet at given times, and samples at given times.

use super::Engine;
use super::query::slot_number;
use crate::machine::Time;
use crate::scenario::{Change, Event, Scenario};
use core::time::Duration;
use slackwater_core::{Instant, ReplicaId};

/// Requests in flight are sampled this often, in nanoseconds.
const SAMPLE_NS: Time = 10_000_000;
const SECOND_NS: Time = 1_000_000_000;

/// Something that happens at a given time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Appointment {
    /// One of the scenario's events.
    Event(Event),
    /// A client receives a recorded change of the fleet, by its position in the replay.
    News(usize),
    /// Clients remove the replica that has this id.
    Forget(usize, ReplicaId),
    /// A draining replica leaves, unless it has stopped before.
    Leave { replica: usize, incarnation: u64 },
    /// A restarting replica is up again, unless it has stopped once more.
    Up {
        replica: usize,
        incarnation: u64,
        cold: Cold,
    },
    /// A suspended replica resumes.
    Resume(usize),
    /// Requests in flight are sampled.
    Sample,
    /// A second is over.
    Second,
}

/// How slow a replica is after its start, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cold {
    slowness: f64,
    warm_after: Time,
}

impl Cold {
    fn new(slowness: f64, warm_after: Duration) -> Self {
        Self {
            slowness,
            warm_after: super::nanos(warm_after),
        }
    }
}

impl Engine {
    /// Adds the replicas that exist at the start, and schedules all appointments that are known by
    /// then.
    pub(super) fn begin(&mut self, scenario: &Scenario) {
        match &self.known_parts {
            Some(known_parts) => {
                for (place, at) in known_parts.times() {
                    self.agenda.push(at, Appointment::News(place));
                }
            }
            None => {
                for replica in 0..self.replicas.all().len() {
                    if self.replicas.at(replica).is_up {
                        self.introduce(replica);
                    }
                }
            }
        }
        for &event in &scenario.events {
            self.agenda
                .push(super::nanos(event.at), Appointment::Event(event));
        }
        let begins = super::nanos(scenario.warmup);
        self.agenda.push(begins % SECOND_NS, Appointment::Second);
        self.agenda.push(begins, Appointment::Sample);
        self.poll_clients();
    }

    pub(super) fn keep(&mut self, appointment: Appointment) {
        match appointment {
            Appointment::Event(event) => self.befall(event),
            Appointment::News(place) => self.deliver_change(place),
            Appointment::Forget(replica, id) => {
                self.forget(replica, id);
                self.poll_clients();
            }
            Appointment::Leave {
                replica,
                incarnation,
            } => self.leave(replica, incarnation),
            Appointment::Up {
                replica,
                incarnation,
                cold,
            } => {
                if self.replicas.at(replica).incarnation == incarnation {
                    self.come_up(replica, cold);
                }
            }
            Appointment::Resume(replica) => self.resume(replica),
            Appointment::Sample => self.sample(),
            Appointment::Second => self.read(),
        }
    }

    fn befall(
        &mut self,
        Event {
            replica, change, ..
        }: Event,
    ) {
        match change {
            Change::Crash { known_after } => {
                self.stop(replica);
                // Clients keep the id until they notice the crash.
                if let Some(id) = self.replicas.at(replica).id {
                    self.later(known_after, Appointment::Forget(replica, id));
                }
            }
            Change::Drain { leaves_after } => {
                let drained = self.replicas.at_mut(replica);
                drained.is_draining = true;
                // If it stops before, the incarnation changes and it does not leave.
                let incarnation = drained.incarnation;
                let leave = Appointment::Leave {
                    replica,
                    incarnation,
                };
                self.later(leaves_after, leave);
            }
            Change::Join {
                cold_slowness,
                warm_after,
            } => {
                // A replica that is still up starts again, with a new id.
                self.stop(replica);
                if let Some(id) = self.replicas.at(replica).id {
                    self.forget(replica, id);
                }
                self.come_up(replica, Cold::new(cold_slowness, warm_after));
                self.introduce(replica);
                self.poll_clients();
            }
            Change::Restart {
                down_for,
                cold_slowness,
                warm_after,
            } => {
                // The id stays, because clients get no notice.
                self.stop(replica);
                let incarnation = self.replicas.at(replica).incarnation;
                let up = Appointment::Up {
                    replica,
                    incarnation,
                    cold: Cold::new(cold_slowness, warm_after),
                };
                self.later(down_for, up);
            }
            Change::Suspend { suspended_for } => self.suspend(replica, suspended_for),
        }
    }

    fn come_up(&mut self, replica: usize, cold: Cold) {
        let coming = self.replicas.at_mut(replica);
        coming.is_up = true;
        coming
            .machine
            .begin_cold(self.now, cold.slowness, cold.warm_after);
    }

    /// Suspends the process, if it is up.
    fn suspend(&mut self, replica: usize, suspended_for: Duration) {
        let suspended = self.replicas.at_mut(replica);
        if suspended.is_up {
            let until = self.now.saturating_add(super::nanos(suspended_for));
            suspended.suspend(self.now, until);
            self.replicas.changed(replica);
            self.agenda.push(until, Appointment::Resume(replica));
        }
    }

    /// Resumes the process if it is time. It then reads what has arrived meanwhile.
    fn resume(&mut self, replica: usize) {
        for slot in self.replicas.at_mut(replica).resume(self.now) {
            self.serve(slot);
        }
    }

    fn later(&mut self, span: Duration, appointment: Appointment) {
        let at = self.now.saturating_add(super::nanos(span));
        self.agenda.push(at, appointment);
    }

    /// Stops the process. Its queries break off.
    fn stop(&mut self, replica: usize) {
        self.break_off(slot_number(replica));
        self.replicas.at_mut(replica).stop(self.now);
        self.forget_probes(slot_number(replica));
        self.replicas.changed(replica);
        self.resume(replica); // queries that it has not read are refused
    }

    /// Adds a replica at all clients.
    fn introduce(&mut self, replica: usize) {
        let now = Instant::from_nanos(self.now);
        let has_it = |client| {
            let parts = self.parts.as_ref();
            let number = slot_number(replica);
            parts.is_none_or(|parts| parts.of(client).contains(&number))
                && (self.members.as_ref()).is_none_or(|members| members.has(client, number))
        };
        let identity = self.identity_of(replica);
        if let Some(id) = self.balancing.add(now, replica, identity, has_it) {
            self.replicas.name(replica, id);
        }
    }

    /// Removes a replica at all clients, if it still has this id.
    fn forget(&mut self, replica: usize, id: ReplicaId) {
        if self.replicas.at(replica).id == Some(id) {
            self.replicas.at_mut(replica).id = None;
            self.balancing.remove(Instant::from_nanos(self.now), id);
        }
    }

    /// Removes a replica that takes no new query. Queries that are there are finished.
    fn leave(&mut self, replica: usize, incarnation: u64) {
        let leaving = self.replicas.at_mut(replica);
        if leaving.incarnation != incarnation {
            return;
        }
        leaving.is_up = false;
        if let Some(id) = leaving.id {
            self.forget(replica, id);
            self.poll_clients();
        }
    }

    fn poll_clients(&mut self) {
        for client in 0..slot_number(self.clients) {
            self.poll_client(client);
        }
    }

    fn sample(&mut self) {
        if !self.meter.measures(self.now) {
            return;
        }
        for replica in self.replicas.all() {
            self.meter.rif(replica.rif().count());
        }
        self.agenda.push(self.now + SAMPLE_NS, Appointment::Sample);
    }

    fn read(&mut self) {
        let measured = self.meter.measures_second(self.now);
        for replica in self.replicas.all_mut() {
            let used = replica.read(self.now);
            if measured {
                self.meter.utilization(used);
            }
        }
        self.agenda.push(self.now + SECOND_NS, Appointment::Second);
    }
}
