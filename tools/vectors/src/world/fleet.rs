//! The fleet of a scenario changes: replicas join and leave, restart, drain, and are taken out.

use super::{Action, World};
use crate::keys::Change;
use crate::machine::{Condition, Machine};
use slackwater_core::ReplicaId;
use slackwater_core::keys::Identity;
use slackwater_core::policy::{Event, Outcome, ProbeId};

/// Most replicas of a scenario.
const REPLICAS_MAX: usize = 100;

impl World {
    pub(super) fn fleet_change(&mut self) {
        self.names_change();
        let after = 1 + self.chance.wide(self.habits.change_ns.saturating_mul(2));
        self.plan(after, Action::FleetChange);
        match self.chance.within(0, 25) {
            0..=5 => self.join(),
            6..=9 => self.leave(),
            10..=14 => self.toggle(),
            15..=17 => self.restart(),
            18 | 19 => {
                let chosen = self.any_replica();
                if let Some(machine) = chosen.and_then(|id| self.machine_mut(id)) {
                    machine.draining = !machine.draining;
                }
            }
            20 => self.offer_all(false),
            21 => self.offer_all(true),
            22 => self.repeat_news(),
            23 => {
                // All leave; others join later.
                while let Some(machine) = self.machines.pop() {
                    self.gone.push(machine.id);
                    self.handle(Event::Removed(machine.id));
                    self.ids.release(machine.id);
                }
            }
            24 => {
                for machine in &mut self.machines {
                    machine.condition = Condition::Stopped;
                }
                self.join();
            }
            _ => {
                let chosen = self.any_replica();
                if let Some(machine) = chosen.and_then(|id| self.machine_mut(id)) {
                    machine.answers_probes = !machine.answers_probes;
                }
            }
        }
    }

    /// A replica joins, or with keys all parts of a server.
    pub(super) fn join(&mut self) {
        let Some(keys) = &mut self.keys else {
            let _ = self.join_one();
            return;
        };
        for identity in keys.server() {
            let id = self.join_one();
            if let (Some(id), Some(identity)) = (id, identity) {
                self.identify(id, identity);
            }
        }
    }

    fn join_one(&mut self) -> Option<ReplicaId> {
        if self.machines.len() >= REPLICAS_MAX {
            return None;
        }
        let id = self.ids.allocate()?;
        let machine = Machine::new(id, &self.habits, &mut self.chance);
        self.machines.push(machine);
        self.handle(Event::Added(id));
        Some(id)
    }

    fn identify(&mut self, id: ReplicaId, identity: Identity) {
        if let Some(keys) = &mut self.keys {
            keys.named(id, identity);
        }
        self.handle(Event::Identified(id, identity));
    }

    /// With keys: a replica gets a name late or another one, or all parts of a server change.
    fn names_change(&mut self) {
        let known: Vec<ReplicaId> = self.machines.iter().map(|machine| machine.id).collect();
        let change = self.keys.as_mut().and_then(|keys| keys.change(&known));
        match change {
            None => {}
            Some(Change::Name(id, identity)) => self.identify(id, identity),
            Some(Change::Leave(parts)) => {
                for id in parts {
                    self.machines.retain(|machine| machine.id != id);
                    self.gone.push(id);
                    self.handle(Event::Removed(id));
                    self.ids.release(id);
                }
            }
            Some(Change::Offer(parts, offered)) => {
                for id in parts {
                    if let Some(machine) = self.machine_mut(id) {
                        machine.offered = offered;
                    }
                    self.handle(Event::Available(id, offered));
                }
            }
        }
    }

    fn leave(&mut self) {
        let count = u32::try_from(self.machines.len()).unwrap_or(0);
        // The last one seldom leaves.
        if count == 0 || count == 1 && !self.chance.in_1000(150) {
            return;
        }
        let place = self.chance.within(0, count - 1) as usize;
        let machine = self.machines.remove(place);
        self.gone.push(machine.id);
        self.handle(Event::Removed(machine.id));
        self.ids.release(machine.id);
    }

    fn toggle(&mut self) {
        if let Some(id) = self.any_replica()
            && let Some(machine) = self.machine_mut(id)
        {
            machine.offered = !machine.offered;
            let offered = machine.offered;
            self.handle(Event::Available(id, offered));
        }
    }

    /// The driver takes out all replicas, or puts all back.
    fn offer_all(&mut self, offered: bool) {
        let changed = self.machines.iter_mut().filter(|it| it.offered != offered);
        let changed: Vec<ReplicaId> = changed
            .map(|machine| {
                machine.offered = offered;
                machine.id
            })
            .collect();
        for id in changed {
            self.handle(Event::Available(id, offered));
        }
    }

    fn restart(&mut self) {
        let Some(id) = self.any_replica() else {
            return;
        };
        let incarnation = self.chance.number();
        if let Some(machine) = self.machine_mut(id) {
            machine.incarnation = Some(incarnation);
            machine.condition = Condition::Sound;
            machine.draining = false;
        }
        let broken: Vec<u64> = (self.sent.iter())
            .filter(|(_, sent)| sent.replica == id)
            .map(|(&query, _)| query)
            .collect();
        for query in broken {
            self.end(query, Outcome::Broken);
        }
    }

    /// The driver says again what is known, or something about a replica that has left.
    fn repeat_news(&mut self) {
        let Some(id) = self.any_replica() else {
            return;
        };
        if let Some(offered) = self.machine(id).map(|machine| machine.offered) {
            self.handle(Event::Added(id));
            self.handle(Event::Available(id, offered));
        } else {
            self.handle(Event::Removed(id));
            self.handle(Event::Available(id, false));
            self.handle(Event::ProbeLost(ProbeId::from_bits(id.to_bits())));
        }
    }
}
