//! The one core that each client has for its own work. Queries and probes queue for it.

use super::{Engine, nanos};
use crate::machine::{NEVER, Time};
use crate::scenario::Scenario;

/// The work of each client's core.
#[derive(Debug)]
pub(super) struct ClientCpus {
    query_ns: Time,
    probe_ns: Time,
    /// When each client's core has finished all work in its queue.
    free_at: Vec<Time>,
}

impl ClientCpus {
    /// Returns `None` where clients' own work costs nothing.
    pub(super) fn new(scenario: &Scenario) -> Option<Self> {
        let cpu = scenario.load.client_cpu?;
        Some(Self {
            query_ns: nanos(cpu.query),
            probe_ns: nanos(cpu.probe),
            free_at: vec![0; scenario.load.clients.len()],
        })
    }

    /// Adds work and returns when it is done.
    fn work(&mut self, now: Time, client: u32, work_ns: Time) -> Time {
        let Some(free_at) = self.free_at.get_mut(client as usize) else {
            return NEVER;
        };
        *free_at = now.max(*free_at).saturating_add(work_ns);
        *free_at
    }
}

impl Engine {
    /// Returns when a client that receives a query now can choose a replica for it; `None`: at
    /// once.
    #[inline]
    pub(super) fn query_waits(&mut self, client: u32) -> Option<Time> {
        let cpus = self.client_cpus.as_mut()?;
        Some(cpus.work(self.now, client, cpus.query_ns))
    }

    /// Returns when a probe that a client sends now leaves; `None`: at once.
    #[inline]
    pub(super) fn probe_waits(&mut self, client: u32) -> Option<Time> {
        let cpus = self.client_cpus.as_mut()?;
        Some(cpus.work(self.now, client, cpus.probe_ns))
    }

    /// Returns when a busy client can handle an answer that arrives now; `None`: at once.
    #[inline]
    pub(super) fn is_busy_until(&mut self, client: u32) -> Option<Time> {
        let cpus = self.client_cpus.as_mut()?;
        Some(cpus.work(self.now, client, 0)).filter(|&at| at > self.now)
    }
}
