//! Decides which changes of state are reported at once, and which wait, so that flapping replicas
//! and large services do not fill the log.

use crate::replica_state::ReplicaState;
use core::time::Duration;
use std::collections::BTreeMap;
use std::time::SystemTime;

/// A change for the better is reported once within this time. A change for the worse never waits,
/// and it can follow only a reported one for the better, so both are limited.
pub(super) const BETTER_EVERY: Duration = Duration::from_mins(1);
/// Replicas that become unprobed are collected while further ones join them, at most this long.
const COLLECTING_MAX: Duration = Duration::from_secs(10);
/// Time between two reports of unprobed replicas of a service.
const UNPROBED_EVERY: Duration = Duration::from_mins(1);

/// Whether less than `time` has passed. A clock that was set back makes it longer ago.
pub(super) fn is_within(time: Duration, since: Option<SystemTime>, now: SystemTime) -> bool {
    since.is_some_and(|at| now.duration_since(at).is_ok_and(|it| it < time))
}

/// When each change of a replica for the better was last reported.
#[derive(Clone, Debug, Default)]
pub(super) struct Reported(BTreeMap<ReplicaState, SystemTime>);

impl Reported {
    /// Whether this change must wait. If not, it counts as reported.
    pub(super) fn holds(
        &mut self,
        from: Option<ReplicaState>,
        to: ReplicaState,
        now: SystemTime,
    ) -> bool {
        let Some(from) = from else { return false };
        // An operator who drains and undrains a replica sees each of it at once.
        if to >= from || from.is_on_purpose() || to.is_on_purpose() {
            return false;
        }
        if is_within(BETTER_EVERY, self.0.get(&to).copied(), now) {
            return true;
        }
        self.0.insert(to, now);
        false
    }
}

/// The replicas of a service that became unprobed and are not reported yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Unprobed {
    count: usize,
    since: Option<SystemTime>,
    reported_at: Option<SystemTime>,
}

impl Unprobed {
    /// Whether this change is collected with others. A change from a worse state is not.
    pub(super) fn is_collected(from: Option<ReplicaState>, to: ReplicaState) -> bool {
        to == ReplicaState::Unprobed && from.is_none_or(|from| from < to)
    }

    /// Whether `count` unprobed replicas are due for a report now.
    pub(super) fn is_due(&mut self, count: usize, now: SystemTime) -> bool {
        let joined = count != self.count;
        self.count = count;
        if count == 0 {
            self.since = None;
            return false;
        }
        let since = Some(*self.since.get_or_insert(now));
        if (joined && is_within(COLLECTING_MAX, since, now))
            || is_within(UNPROBED_EVERY, self.reported_at, now)
        {
            return false;
        }
        *self = Self {
            reported_at: Some(now),
            ..Self::default()
        };
        true
    }
}

#[cfg(test)]
mod tests;
