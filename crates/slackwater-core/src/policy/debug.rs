//! What `{:?}` shows of policies: their name and their replicas, and no tables.

use crate::policy::policies::PrequalSync;
use crate::policy::polled::{ChoosePolled, Polled};
use crate::policy::probed::{Keep, Probed};
use crate::policy::unprobed::{Choose, Unprobed};
use crate::policy::{Fleet, Policy, ReplicaView};
use core::fmt;

/// A longer list is cut off here.
const REPLICAS_MAX: usize = 16;

/// A replica's state and its queries in flight: `draining, 2 in flight`.
impl fmt::Display for ReplicaView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self {
            Self { draining: true, .. } => "draining",
            Self { lost: true, .. } => "unreachable",
            Self {
                available: false, ..
            } => "taken out",
            Self { unprobed: true, .. } => "unprobed",
            _ => "available",
        };
        write!(f, "{state}, {} in flight", self.in_flight)
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let views = self.views(|_| false);
        let mut map = f.debug_map();
        for view in views.iter().take(REPLICAS_MAX) {
            map.entry(&view.replica, &format_args!("{view}"));
        }
        if views.len() > REPLICAS_MAX {
            return map.finish_non_exhaustive();
        }
        map.finish()
    }
}

fn show(policy: &dyn Policy, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let counters = policy.counters();
    f.debug_struct("Policy")
        .field("name", &policy.name())
        .field("replicas", policy.fleet())
        .field("picks", &counters.picks.total())
        .field("probes_answered", &counters.probes_answered)
        .finish_non_exhaustive()
}

impl<K: Keep> fmt::Debug for Probed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, f)
    }
}

impl<C: ChoosePolled> fmt::Debug for Polled<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, f)
    }
}

impl<C: Choose> fmt::Debug for Unprobed<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, f)
    }
}

impl fmt::Debug for PrequalSync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, f)
    }
}
