//! Classes of queries: which class a query is of, and what follows for its client and its replica.
//!
//! Where long queries have replicas of their own, each client has a second policy for them, as if
//! it were another client: its number is the client's plus the number of clients. The first policy
//! has the first replicas, and the second one the others.

use crate::Scenario;
use crate::scenario::{ClassHandling, Classes, nanoseconds};
use core::ops::Range;

/// A query's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Short = 0,
    Long = 1,
}

impl Class {
    pub(super) fn of(cost_ns: f64, classes: &Classes) -> Self {
        if cost_ns >= nanoseconds(classes.long_from) {
            Self::Long
        } else {
            Self::Short
        }
    }
}

fn handling(scenario: &Scenario) -> Option<ClassHandling> {
    scenario.load.classes.map(|classes| classes.handling)
}

/// Returns the number of clients, where a client that has two policies is two.
pub(super) fn clients(scenario: &Scenario) -> usize {
    let clients = scenario.load.clients.len();
    match handling(scenario) {
        Some(ClassHandling::Apart { .. }) => 2 * clients,
        _ => clients,
    }
}

/// Returns the number of the client that chooses for a query of this class.
pub(super) fn client(
    client: u32,
    clients: u32,
    class: Option<Class>,
    classes: Option<&Classes>,
) -> u32 {
    match classes.map(|classes| classes.handling) {
        Some(ClassHandling::Apart { .. }) if class == Some(Class::Long) => client + clients,
        _ => client,
    }
}

/// Returns the requests in flight that a query of this class counts as.
pub(super) fn weight(class: Option<Class>, classes: Option<&Classes>) -> u32 {
    match classes.map(|classes| classes.handling) {
        Some(ClassHandling::Charged { long_counts_as }) if class == Some(Class::Long) => {
            long_counts_as
        }
        _ => 1,
    }
}

/// Returns whether reports count each request in flight by its class.
pub(super) fn are_charged(scenario: &Scenario) -> bool {
    matches!(handling(scenario), Some(ClassHandling::Charged { .. }))
}

/// The replicas that each client has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// Clients up to here have the first replicas.
    clients: u32,
    /// Replicas up to here are for them.
    replicas: u32,
    /// All replicas.
    all: u32,
}

impl Parts {
    /// Returns `None` where all clients have all replicas.
    pub(super) fn new(scenario: &Scenario) -> Option<Self> {
        let Some(ClassHandling::Apart { long_replicas }) = handling(scenario) else {
            return None;
        };
        let all = scenario.replicas();
        Some(Self {
            clients: number(scenario.load.clients.len()),
            replicas: number(all.saturating_sub(long_replicas)),
            all: number(all),
        })
    }

    /// Returns the numbers of the replicas that a client has.
    pub(super) const fn of(self, client: u32) -> Range<u32> {
        if client < self.clients {
            0..self.replicas
        } else {
            self.replicas..self.all
        }
    }
}

/// Clients and replicas are far fewer than 2^32.
fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
