//! Tracks when each replica entered its state, and which changes have not been reported yet.

mod history;
mod merge;
mod reports;
mod window;

use crate::attempt_failure::{AttemptEvidence, FailureKind, LastFailure};
use crate::facts::ServiceFacts;
use crate::replica_state::{ReplicaState, ServiceStanding, Standing, Why};
use core::time::Duration;
use history::History;
use merge::{service_standing, signs};
use reports::{BETTER_EVERY, Reported, Unprobed, is_within};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use window::Window;

/// A failure of the same kind is reported again after this time without one.
const QUIET: Duration = Duration::from_mins(1);

/// How much older a failure may be than the last observation, because gathering takes a moment.
const GATHERING_MAX: Duration = Duration::from_millis(100);

/// A service's name and a replica's address.
type Key = (String, String);

/// A replica whose state has changed since changes were last taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The service's name.
    pub service: String,
    /// The replica's name.
    pub replica: String,
    /// Destination of its requests.
    pub address: String,
    /// The state before; `None` for a new replica.
    pub from: Option<ReplicaState>,
    /// The state now.
    pub standing: Standing,
}

/// An attempt that got no response: the first one, the first of another kind, or the first after a
/// quiet time. Closed connections do not count: servers close idle connections, sometimes while a
/// request is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstFailure {
    /// The service's name.
    pub service: String,
    /// The replica's name.
    pub replica: String,
    /// Destination of its requests.
    pub address: String,
    /// The failure.
    pub last: LastFailure,
}

/// A service whose replicas have all started to fail, or no longer all fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceChange {
    /// The service's name.
    pub service: String,
    /// Its current state.
    pub standing: ServiceStanding,
    /// How long all replicas had failed, if they did; zero if that is unknown.
    pub lasted: Option<Duration>,
}

/// Changes since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Failed attempts at replicas whose state has not changed.
    pub failures: Vec<FirstFailure>,
    /// Replicas whose state has changed.
    pub changes: Vec<StateChange>,
    /// Replicas that became unprobed, together with those of their service that did so at about the
    /// same time. A replica that was in a worse state before is among `changes`.
    pub unprobed: Vec<StateChange>,
    /// Services whose replicas have all started to fail, or no longer all fail.
    pub services: Vec<ServiceChange>,
}

#[derive(Debug)]
struct Known {
    name: String,
    standing: Standing,
    /// The state when changes were last taken, or the expected state of a new replica; `None` if a
    /// new replica is in an unexpected state.
    taken: Option<ReplicaState>,
    failures: Failures,
    history: History,
    reported: Reported,
}

/// The failed attempts at a replica, as of the last observation.
#[derive(Clone, Debug, Default)]
struct Failures {
    /// Total number of failures.
    count: u64,
    /// Time of the last observation.
    observed_at: Option<SystemTime>,
    /// The kinds that were reported, each with the time at which its last failure was seen.
    reported: BTreeMap<FailureKind, SystemTime>,
    /// A failure that has not been reported yet.
    news: Option<LastFailure>,
}

impl Failures {
    /// Updates the failures from the workers' records of the replica at this index.
    fn observe(&mut self, now: SystemTime, service: &ServiceFacts, place: usize) {
        let count = failure_count(service, place);
        let last = evidence(service, place).filter_map(|it| it.last.as_ref());
        let last = last.filter(|last| last.kind != FailureKind::Closed);
        let newest = last.min_by_key(|last| last.age);
        let before = core::mem::replace(&mut self.count, count);
        let elapsed = (self.observed_at.replace(now))
            .map(|at| now.duration_since(at).unwrap_or_default() + GATHERING_MAX);
        // An old failure is not reported again only because another kind has raised the count.
        let newest = newest.filter(|last| elapsed.is_none_or(|elapsed| last.age <= elapsed));
        // Falling counts mean that the service was built again, with new counts.
        let Some(last) = newest.filter(|_| count > before || (count < before && count > 0)) else {
            return;
        };
        let seen = self.reported.insert(last.kind, now);
        let is_known =
            seen.is_some_and(|seen| now.duration_since(seen).unwrap_or_default() < QUIET);
        if !is_known {
            self.news = Some(last.clone());
        }
    }
}

/// The workers' records of the replica at this index.
fn evidence(service: &ServiceFacts, place: usize) -> impl Iterator<Item = &AttemptEvidence> {
    let workers = service.workers.iter();
    workers.filter_map(move |worker| worker.evidence.get(place))
}

/// Attempts at the replica at this index that got no response, since the service was built.
fn failure_count(service: &ServiceFacts, place: usize) -> u64 {
    evidence(service, place).map(|it| it.failures).sum()
}

/// A period in which all replicas of a service fail.
#[derive(Clone, Copy, Debug)]
struct Outage {
    /// Start; `None` if it began before the process saw the service.
    since: Option<SystemTime>,
    /// When it ended, if that is not reported yet.
    ended_at: Option<SystemTime>,
}

/// The last observation of a service.
#[derive(Debug, Default)]
struct KnownService {
    window: Window,
    standing: ServiceStanding,
    /// The outage when changes were last taken.
    taken: Option<Outage>,
    /// When the end of an outage was last reported.
    end_taken_at: Option<SystemTime>,
    unprobed: Unprobed,
    seen_at: Option<SystemTime>,
}

/// All observations.
#[derive(Debug, Default)]
struct States {
    replicas: BTreeMap<Key, Known>,
    services: BTreeMap<String, KnownService>,
}

/// The last observed states of a process's replicas and services.
#[derive(Debug, Default)]
pub struct StateTracker(Mutex<States>);

impl StateTracker {
    /// Returns the facts that `gather` finds, with the standing of each replica and service filled
    /// in. Forgets replicas and services that are no longer among them.
    pub fn observe(
        &self,
        now: SystemTime,
        gather: impl FnOnce() -> Vec<ServiceFacts>,
    ) -> Vec<ServiceFacts> {
        // Facts are gathered under the lock, so that a later observation is always stored later.
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = core::mem::take(&mut *states);
        let mut services = gather();
        for service in &mut services {
            let all = signs(now, service);
            for (place, mut signs) in all.into_iter().enumerate() {
                let Some(replica) = service.replicas.get(place) else {
                    break;
                };
                let key = (service.name.clone(), replica.address.clone());
                let earlier = before.replicas.remove(&key);
                let mut history = earlier
                    .as_ref()
                    .map_or_else(History::default, |it| it.history);
                let was_down = (earlier.as_ref())
                    .is_some_and(|it| matches!(it.standing.why, Why::NoResponse(_)));
                history.observe(now, &mut signs, was_down, failure_count(service, place));
                let (state, why) = signs.state();
                let since = match &earlier {
                    Some(earlier) if earlier.standing.state == state => earlier.standing.since,
                    Some(_) => Some(now),
                    None => None,
                };
                let health = signs.health.as_ref();
                let standing = Standing {
                    state,
                    since,
                    why,
                    share_millionths: health.map(|health| health.share_millionths),
                    signs,
                };
                let (taken, mut failures, reported) = match earlier {
                    Some(earlier) => (earlier.taken, earlier.failures, earlier.reported),
                    None => (
                        expected(&standing),
                        Failures::default(),
                        Reported::default(),
                    ),
                };
                failures.observe(now, service, place);
                let known = Known {
                    name: replica.name.clone(),
                    standing: standing.clone(),
                    taken,
                    failures,
                    history,
                    reported,
                };
                states.replicas.insert(key, known);
                if let Some(replica) = service.replicas.get_mut(place) {
                    replica.standing = standing;
                }
            }
            let mut known = before.services.remove(&service.name).unwrap_or_default();
            let standing = service_standing(&service.replicas);
            let since = if known.standing.all_fail {
                known.standing.since
            } else {
                known.seen_at.map(|_| now)
            };
            known.standing = ServiceStanding {
                since: since.filter(|_| standing.all_fail),
                ..standing
            };
            known.seen_at = Some(now);
            service.standing = known.standing.clone();
            service.recent = known.window.observe(now, service);
            states.services.insert(service.name.clone(), known);
        }
        services
    }

    /// What has happened since this was last called. A replica that is first seen in a state that
    /// was configured, or that pushes requests back for a moment, is not among it. A change that
    /// is held back, so that the log is not flooded, is among it later if it still holds then.
    pub fn take_news(&self) -> News {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let States { replicas, services } = &mut *states;
        let unprobed = due_unprobed(replicas, services);
        let mut news = News::default();
        for ((service, address), known) in replicas {
            let failure = known.failures.news.take();
            let (from, to) = (known.taken, known.standing.state);
            let seen_at = known.failures.observed_at.unwrap_or(SystemTime::UNIX_EPOCH);
            // Pushback is short, and is in the metrics.
            let is_collected = Unprobed::is_collected(from, to);
            let is_held = known.standing.why == Why::Pushback
                || from == Some(to)
                || (is_collected && !unprobed.contains(service))
                || known.reported.holds(from, to, seen_at);
            if !is_held {
                known.taken = Some(to);
                let changes = if is_collected {
                    &mut news.unprobed
                } else {
                    &mut news.changes
                };
                changes.push(StateChange {
                    service: service.clone(),
                    replica: known.name.clone(),
                    address: address.clone(),
                    from,
                    standing: known.standing.clone(),
                });
                // A change for the worse already contains the reason.
                if known.standing.state.is_alarming() {
                    continue;
                }
            }
            if let Some(last) = failure {
                news.failures.push(FirstFailure {
                    service: service.clone(),
                    replica: known.name.clone(),
                    address: address.clone(),
                    last,
                });
            }
        }
        for (service, known) in services {
            let all_fail = known.standing.all_fail;
            if let Some(outage) = &mut known.taken {
                outage.ended_at = if all_fail {
                    None
                } else {
                    outage.ended_at.or(known.seen_at)
                };
            }
            let seen_at = known.seen_at.unwrap_or(SystemTime::UNIX_EPOCH);
            // The rate of reported ends is limited, and with it that of outages. A service that has
            // lost all replicas has not recovered.
            let is_held = known.standing.wanted > 0
                && known.taken.is_some()
                && is_within(BETTER_EVERY, known.end_taken_at, seen_at);
            if all_fail == known.taken.is_some() || is_held {
                continue;
            }
            let outage = known.taken.take();
            if outage.is_some() {
                known.end_taken_at = known.seen_at;
            }
            let lasted = outage.map(|outage| {
                let ended = outage.ended_at.zip(outage.since);
                let lasted = ended.map(|(ended, began)| ended.duration_since(began));
                lasted.and_then(Result::ok).unwrap_or_default()
            });
            known.taken = all_fail.then_some(Outage {
                since: known.standing.since,
                ended_at: None,
            });
            news.services.push(ServiceChange {
                service: service.clone(),
                standing: known.standing.clone(),
                lasted,
            });
        }
        news
    }
}

/// The services for which newly unprobed replicas must be reported now.
fn due_unprobed(
    replicas: &BTreeMap<Key, Known>,
    services: &mut BTreeMap<String, KnownService>,
) -> BTreeSet<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for ((service, _), known) in replicas {
        let (from, to) = (known.taken, known.standing.state);
        if from != Some(to) && Unprobed::is_collected(from, to) {
            *counts.entry(service).or_default() += 1;
        }
    }
    let due = services.iter_mut().filter_map(|(service, known)| {
        let count = counts.get(service.as_str()).copied().unwrap_or(0);
        let seen_at = known.seen_at.unwrap_or(SystemTime::UNIX_EPOCH);
        (known.unprobed.is_due(count, seen_at)).then(|| service.clone())
    });
    due.collect()
}

/// The state of a new replica that is not reported; `None` if its state must be reported.
fn expected(standing: &Standing) -> Option<ReplicaState> {
    let state = standing.state;
    match standing.why {
        Why::Pushback => Some(ReplicaState::Available),
        _ => (state == ReplicaState::Available || state.is_on_purpose()).then_some(state),
    }
}

#[cfg(test)]
mod tests;
