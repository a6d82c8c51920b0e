//! What happens to the fleet at a given time.

use core::time::Duration;

/// Something that happens once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When, after the start of the run.
    pub at: Duration,
    /// The replica, by its number from 0.
    pub replica: usize,
    /// What happens to it.
    pub change: Change,
}

/// What happens to a replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// It stops at once: queries there are lost, later ones are refused, clients learn of it after
    /// `known_after`.
    Crash {
        /// How long clients go on believing that it is there.
        known_after: Duration,
    },
    /// It takes no new queries, says so in its reports, finishes what it has and leaves the fleet
    /// `leaves_after` later.
    Drain {
        /// From draining to leaving.
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
    /// It restarts: crashes, clients learn of nothing, and takes queries again `down_for` later
    /// with a new incarnation, as cold as one that joins.
    Restart {
        /// While it is down, queries and probes there are refused.
        down_for: Duration,
        /// From 1 up.
        cold_slowness: f64,
        /// 0: warm at once.
        warm_after: Duration,
    },
    /// It stands still, as a process does that is sent SIGSTOP, and goes on `suspended_for` later.
    /// Connections and the queries in them stay, those that come meanwhile wait unread, and no
    /// probe is answered. Nothing happens to one that is down.
    Suspend {
        /// How long it stands still.
        suspended_for: Duration,
    },
}
