//! Changes of the fleet at a given time.

use core::time::Duration;

/// A change that happens once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Time after the start of the run.
    pub at: Duration,
    /// The replica, by its number from 0.
    pub replica: usize,
    /// The change.
    pub change: Change,
}

/// A change of a replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// It stops at once. Queries there are lost, later ones are refused, and clients notice it
    /// after `known_after`.
    Crash {
        /// How long clients still treat it as part of the fleet.
        known_after: Duration,
    },
    /// It takes no new queries, reports that it is draining, finishes its queries and leaves the
    /// fleet `leaves_after` later.
    Drain {
        /// Time from draining to leaving.
        leaves_after: Duration,
    },
    /// It joins (or comes back), empty. Queries cost `cold_slowness` times as much at first,
    /// falling linearly to normal within `warm_after`.
    Join {
        /// From 1 up.
        cold_slowness: f64,
        /// 0: warm at once.
        warm_after: Duration,
    },
    /// It restarts: it crashes, clients get no notice, and it takes queries again `down_for` later
    /// with a new incarnation, as cold as one that joins.
    Restart {
        /// While it is down, it refuses queries and probes.
        down_for: Duration,
        /// From 1 up.
        cold_slowness: f64,
        /// 0: warm at once.
        warm_after: Duration,
    },
    /// It is suspended, as a process with SIGSTOP, and resumes `suspended_for` later. Connections
    /// and the queries in them stay, arriving queries wait unread, and no probe is answered. This
    /// does not change a replica that is down.
    Suspend {
        /// How long it is suspended.
        suspended_for: Duration,
    },
}
