//! What `{:?}` shows of balancers and what they hand out: the policy by its name, and each replica
//! by its address, with its state and its requests in flight.

use super::balancer::{Balancer, Shared};
use super::driver::Driver;
use super::lease::Lease;
use core::fmt;
use slackwater_core::policy::{ReplicaView, Snapshot};
use std::sync::TryLockError;

/// A longer list is cut off here.
const REPLICAS_MAX: usize = 16;

impl fmt::Debug for Balancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shared.fmt(f)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let driver = match self.driver.try_lock() {
            Ok(driver) => Some(driver),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            // To wait would hang a thread that has the lock itself.
            Err(TryLockError::WouldBlock) => None,
        };
        let mut shown = f.debug_struct("Balancer");
        if let Some(driver) = driver {
            let snapshot = driver.policy.snapshot(self.clock.now());
            shown
                .field("policy", &driver.policy.name())
                .field("in_flight", &driver.in_flight)
                .field("replicas", &Replicas(&driver, &snapshot));
        }
        shown.field("prober", &self.prober).finish_non_exhaustive()
    }
}

/// Each replica with its state.
struct Replicas<'a>(&'a Driver, &'a Snapshot);

impl Replicas<'_> {
    /// The state of a replica that health limits, which the policy does not know.
    fn limited(&self, view: &ReplicaView) -> Option<&'static str> {
        let mut health = self.1.health.iter();
        let health = health.find(|it| it.replica == view.replica)?;
        health.state.replica_state()
    }
}

impl fmt::Debug for Replicas<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let views = &self.1.replicas;
        let mut map = f.debug_map();
        for view in views.iter().take(REPLICAS_MAX) {
            match self.0.replicas.addrs(view.replica) {
                Some(addrs) => map.key(&addrs.query),
                None => map.key(&view.replica),
            };
            match self.limited(view) {
                Some(state) => map.value(&format_args!("{state}, {} in flight", view.in_flight)),
                None => map.value(&format_args!("{view}")),
            };
        }
        if views.len() > REPLICAS_MAX {
            return map.finish_non_exhaustive();
        }
        map.finish()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("replica", &self.replica())
            .field("addr", &self.addr())
            .field("reason", &self.reason())
            .finish_non_exhaustive()
    }
}
