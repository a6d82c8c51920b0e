//! Requests in flight at each replica from one worker.
//!
//! The policy counts only those at the parts that it has. A replica may be stopped once none is
//! left, so the counts here also include requests that began before the replica's weight or the
//! settings of its service changed, or before it left and returned.

use crate::forward::Level;
use core::cell::RefCell;
use core::net::SocketAddr;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Weak};

/// Counts by service name and replica address. Each exists while a fleet or an attempt uses it.
type Counts = BTreeMap<(Rc<str>, SocketAddr), Weak<Level>>;

/// A worker's counts, for one service.
#[derive(Debug, Default)]
pub(crate) struct InFlightCounts {
    service: Rc<str>,
    /// Shared by all services, also by those that were replaced or removed.
    counts: Rc<RefCell<Counts>>,
}

impl InFlightCounts {
    /// Returns the counts for the service of that name.
    pub(crate) fn of_service(&self, name: &str) -> Self {
        Self {
            service: name.into(),
            counts: Rc::clone(&self.counts),
        }
    }

    /// Returns the count of a replica.
    pub(super) fn of_replica(&self, address: SocketAddr) -> Arc<Level> {
        let mut counts = self.counts.borrow_mut();
        let replica = (Rc::clone(&self.service), address);
        let known = counts.entry(replica).or_default();
        known.upgrade().unwrap_or_else(|| {
            let count = Arc::default();
            *known = Arc::downgrade(&count);
            count
        })
    }

    /// Removes the counts that are no longer used.
    pub(super) fn sweep(&self) {
        let mut counts = self.counts.borrow_mut();
        counts.retain(|_, count| count.strong_count() > 0);
    }
}
