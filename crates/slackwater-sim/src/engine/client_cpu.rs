//! The one core that each client has for its own work: queries and probes wait in line for it.

use super::{Engine, nanos};
use crate::machine::{NEVER, Time};
use crate::scenario::Scenario;

/// What each client's core is busy with.
#[derive(Debug)]
pub(super) struct ClientCpus {
    query_ns: Time,
    probe_ns: Time,
    /// When each client's core has done all that waits for it.
    free_at: Vec<Time>,
}

impl ClientCpus {
    /// `None` where clients' own work costs nothing.
    pub(super) fn new(scenario: &Scenario) -> Option<Self> {
        let cpu = scenario.load.client_cpu?;
        Some(Self {
            query_ns: nanos(cpu.query),
            probe_ns: nanos(cpu.probe),
            free_at: vec![0; scenario.load.clients.len()],
        })
    }

    /// Takes work in; when it is done.
    fn work(&mut self, now: Time, client: u32, work_ns: Time) -> Time {
        let Some(free_at) = self.free_at.get_mut(client as usize) else {
            return NEVER;
        };
        *free_at = now.max(*free_at).saturating_add(work_ns);
        *free_at
    }
}

impl Engine {
    /// When a client that has a query from now on can choose for it; `None`: at once.
    #[inline]
    pub(super) fn query_waits(&mut self, client: u32) -> Option<Time> {
        let cpus = self.client_cpus.as_mut()?;
        Some(cpus.work(self.now, client, cpus.query_ns))
    }

    /// When a probe that a client wants to send leaves; `None`: at once.
    #[inline]
    pub(super) fn probe_waits(&mut self, client: u32) -> Option<Time> {
        let cpus = self.client_cpus.as_mut()?;
        Some(cpus.work(self.now, client, cpus.probe_ns))
    }

    /// When a client that is busy has time for an answer that comes now; `None`: at once.
    #[inline]
    pub(super) fn is_busy_until(&mut self, client: u32) -> Option<Time> {
        let cpus = self.client_cpus.as_mut()?;
        Some(cpus.work(self.now, client, 0)).filter(|&at| at > self.now)
    }
}
