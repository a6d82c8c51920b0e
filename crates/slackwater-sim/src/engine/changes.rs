//! What befalls the fleet at given times, and what is sampled at given times.

use super::Engine;
use super::query::slot_number;
use crate::machine::Time;
use crate::scenario::{Change, Event, Scenario};
use core::time::Duration;
use slackwater_core::{Instant, ReplicaId};

/// Requests in flight are sampled this often, in nanoseconds.
const SAMPLE_NS: Time = 10_000_000;
const SECOND_NS: Time = 1_000_000_000;

/// What happens at a given time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Appointment {
    /// One of the scenario's events.
    Event(Event),
    /// Clients learn that the replica that they know by this name is gone.
    Forget(usize, ReplicaId),
    /// A replica that drains leaves, if it has not stopped before.
    Leave { replica: usize, incarnation: u64 },
    /// A replica that restarts is up again, if it has not stopped once more.
    Up { replica: usize, incarnation: u64 },
    /// Requests in flight are sampled.
    Sample,
    /// A second is over.
    Second,
}

impl Engine {
    /// Introduces the replicas that are there at the start, and makes all appointments that are known by then.
    pub(super) fn begin(&mut self, scenario: &Scenario) {
        for replica in 0..self.replicas.all().len() {
            if self.replicas.at(replica).is_up {
                self.introduce(replica);
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
            } => {
                let replica = self.replicas.at_mut(replica);
                replica.is_up |= replica.incarnation == incarnation;
            }
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
                if let Some(id) = self.replicas.at(replica).id {
                    self.later(known_after, Appointment::Forget(replica, id));
                }
            }
            Change::Drain { leaves_after } => {
                let drained = self.replicas.at_mut(replica);
                drained.is_draining = true;
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
                self.stop(replica);
                if let Some(id) = self.replicas.at(replica).id {
                    self.forget(replica, id);
                }
                let joining = self.replicas.at_mut(replica);
                joining.is_up = true;
                let warm_after_ns = super::nanos(warm_after);
                joining
                    .machine
                    .begin_cold(self.now, cold_slowness, warm_after_ns);
                self.introduce(replica);
                self.poll_clients();
            }
            Change::Restart { down_for } => {
                self.stop(replica);
                let incarnation = self.replicas.at(replica).incarnation;
                let up = Appointment::Up {
                    replica,
                    incarnation,
                };
                self.later(down_for, up);
            }
        }
    }

    fn later(&mut self, span: Duration, appointment: Appointment) {
        let at = self.now.saturating_add(super::nanos(span));
        self.agenda.push(at, appointment);
    }

    /// The process is gone, and its queries break off.
    fn stop(&mut self, replica: usize) {
        self.break_off(slot_number(replica));
        self.replicas.at_mut(replica).stop(self.now);
        self.replicas.changed(replica);
    }

    /// Clients get to know a replica.
    fn introduce(&mut self, replica: usize) {
        if let Some(id) = self.balancing.add(Instant::from_nanos(self.now)) {
            self.replicas.name(replica, id);
        }
    }

    /// Clients forget a replica, if that is still its name.
    fn forget(&mut self, replica: usize, id: ReplicaId) {
        if self.replicas.at(replica).id == Some(id) {
            self.replicas.at_mut(replica).id = None;
            self.balancing.remove(Instant::from_nanos(self.now), id);
        }
    }

    /// No new query is taken, and clients know; what is there is finished.
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
