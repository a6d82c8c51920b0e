//! What earlier observations of a replica add to the signs at hand: when it was down, since when it
//! is ejected, and since when it reports that it drains.

use super::GATHERING_MAX;
use super::reports::is_within;
use crate::attempt_failure::{DownAfter, FailureKind};
use crate::replica_state::{ReplicaState, Signs, of_health};
use core::time::Duration;
use std::time::SystemTime;

/// The most time from a request that an agent refuses because its server is gone until this
/// process sees the agent's report that it drains. An agent waits up to 3 s for connections.
const WITHDRAWING_MAX: Duration = Duration::from_secs(10);

/// Earlier observations of a replica.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct History {
    /// When it was last found to be down for failed attempts no longer.
    recovered_at: Option<SystemTime>,
    ejection: Option<Ejection>,
    /// When it was found to report that it drains, if it does.
    draining_since: Option<SystemTime>,
}

/// When a replica was found to be ejected.
#[derive(Clone, Copy, Debug)]
struct Ejection {
    at: SystemTime,
    /// Its failed attempts until then.
    failures: u64,
}

impl History {
    /// Adds an observation, and fills in the signs that depend on earlier ones. `was_down`: at the
    /// last observation it was down for failed attempts. `failures`: failed attempts in all.
    pub(super) fn observe(
        &mut self,
        now: SystemTime,
        signs: &mut Signs,
        was_down: bool,
        failures: u64,
    ) {
        self.draining_since = (signs.draining).then(|| self.draining_since.unwrap_or(now));
        signs.server_gone = (self.draining_since).is_some_and(|at| is_server_gone(at, now, signs));
        if was_down && signs.no_response(DownAfter::FIRST).is_none() {
            self.recovered_at = Some(now);
        }
        signs.down_lately = is_within(DownAfter::LATELY, self.recovered_at, now);
        self.ejection = Ejection::observe(self.ejection, now, signs, failures);
        signs.trials_unanswered =
            (self.ejection).is_some_and(|it| it.is_unanswered(now, signs, failures));
    }
}

impl Ejection {
    /// The replica's ejection, given the earlier one that was found; `None` if it is not ejected.
    fn observe(
        earlier: Option<Self>,
        now: SystemTime,
        signs: &Signs,
        failures: u64,
    ) -> Option<Self> {
        let health = signs.health.as_ref()?;
        let is_ejected = matches!(of_health(health.state), Some((ReplicaState::Ejected, _)));
        // Falling counts mean that the service was built again, with new counts.
        let earlier = earlier.filter(|it| it.at <= now && it.failures <= failures);
        is_ejected.then(|| earlier.unwrap_or(Self { at: now, failures }))
    }

    /// Whether there were attempts since the ejection, and none of them got a response.
    fn is_unanswered(&self, now: SystemTime, signs: &Signs, failures: u64) -> bool {
        let age = now.duration_since(self.at).unwrap_or_default();
        // If the first failure in a row came before the ejection, no response came after it.
        let failing = signs.failing.as_ref();
        failures > self.failures
            && failing.is_some_and(|failing| failing.first_age + GATHERING_MAX >= age)
    }
}

/// Whether a replica that reports that it drains is an agent without a server, and no drain was
/// planned. An agent reports so at once after it refused requests because its server is gone.
fn is_server_gone(draining_since: SystemTime, now: SystemTime, signs: &Signs) -> bool {
    let draining_for = now.duration_since(draining_since).unwrap_or_default();
    (signs.failing.as_ref().map(|failing| &failing.last)).is_some_and(|last| {
        last.kind == FailureKind::Withdrawn && last.age <= draining_for + WITHDRAWING_MAX
    })
}
