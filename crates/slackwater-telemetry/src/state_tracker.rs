//! Since when each replica has been in its state, and which changes of state are not reported yet.

mod merge;

use crate::facts::ServiceFacts;
use crate::replica_state::{ReplicaState, Standing, Why};
use merge::signs;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A service's name and a replica's address.
type Key = (String, String);

/// A replica that is in another state than when changes were last taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The service's name.
    pub service: String,
    /// The replica's name.
    pub replica: String,
    /// The state before; `None` of a replica that is new.
    pub from: Option<ReplicaState>,
    /// The state now.
    pub standing: Standing,
}

#[derive(Debug)]
struct Known {
    name: String,
    standing: Standing,
    /// As changes were last taken, or as it was expected of a new one; `None` if it is new and not
    /// as expected.
    taken: Option<ReplicaState>,
}

/// The states of the replicas of a process, as they were last seen.
#[derive(Debug, Default)]
pub struct StateTracker(Mutex<BTreeMap<Key, Known>>);

impl StateTracker {
    /// The facts that `gather` finds, with the standing of each replica filled in. A replica that
    /// is not among them is forgotten.
    pub fn observe(
        &self,
        now: SystemTime,
        gather: impl FnOnce() -> Vec<ServiceFacts>,
    ) -> Vec<ServiceFacts> {
        // Facts are gathered under the lock, so that what is found later is noted later.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = core::mem::take(&mut *known);
        let mut services = gather();
        for service in &mut services {
            let all = signs(service);
            for (replica, signs) in service.replicas.iter_mut().zip(all) {
                let key = (service.name.clone(), replica.address.clone());
                let earlier = before.remove(&key);
                let (state, why) = signs.state();
                let since = match &earlier {
                    Some(earlier) if earlier.standing.state == state => earlier.standing.since,
                    Some(_) => Some(now),
                    None => None,
                };
                let health = signs.health.as_ref();
                replica.standing = Standing {
                    state,
                    since,
                    why,
                    share_millionths: health.map(|health| health.share_millionths),
                    signs,
                };
                let noted = Known {
                    name: replica.name.clone(),
                    standing: replica.standing.clone(),
                    taken: earlier.map_or_else(|| expected(&replica.standing), |it| it.taken),
                };
                known.insert(key, noted);
            }
        }
        services
    }

    /// What has changed since this was last called. A replica that is first seen in a state that
    /// was configured, or that pushes requests back for a moment, is not among it.
    pub fn take_changes(&self) -> Vec<StateChange> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Vec::new();
        for ((service, _), known) in known.iter_mut() {
            // This lasts for moments, and is in the metrics.
            if known.standing.why == Why::Pushback {
                continue;
            }
            let from = known.taken.replace(known.standing.state);
            if from != known.taken {
                changes.push(StateChange {
                    service: service.clone(),
                    replica: known.name.clone(),
                    from,
                    standing: known.standing.clone(),
                });
            }
        }
        changes
    }
}

/// The state that a new replica is in without any news; `None` if its state is news.
fn expected(standing: &Standing) -> Option<ReplicaState> {
    let state = standing.state;
    match standing.why {
        Why::Pushback => Some(ReplicaState::Available),
        _ => (state == ReplicaState::Available || state.is_on_purpose()).then_some(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{HealthFacts, ReplicaFacts};
    use core::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// A service of replicas, each down or not.
    fn fleet(replicas: &[(&str, bool)]) -> Vec<ServiceFacts> {
        let replica = |&(name, is_down): &(&str, bool)| ReplicaFacts {
            name: name.to_owned(),
            address: name.to_owned(),
            weight: 1,
            health: Some(HealthFacts {
                verdict: if is_down { "down" } else { "up" }.to_owned(),
                last_failure: Some("refused".to_owned()),
                ..HealthFacts::default()
            }),
            ..ReplicaFacts::default()
        };
        vec![ServiceFacts {
            name: "web".to_owned(),
            replicas: replicas.iter().map(replica).collect(),
            ..ServiceFacts::default()
        }]
    }

    fn see(tracker: &StateTracker, seconds: u64, replicas: &[(&str, bool)]) -> Vec<Standing> {
        let services = tracker.observe(at(seconds), || fleet(replicas));
        let all = services.into_iter().flat_map(|service| service.replicas);
        all.map(|replica| replica.standing).collect()
    }

    #[test]
    fn a_state_is_told_with_since_when_and_why_and_at_first_since_the_start() {
        let tracker = StateTracker::default();
        let first = see(&tracker, 1, &[("a", false), ("b", true)]);
        let told = |it: &Standing| (it.state, it.since, it.why());
        let refused = Some("health checks failed: refused".to_owned());
        assert_eq!(told(&first[0]), (ReplicaState::Available, None, None));
        assert_eq!(told(&first[1]), (ReplicaState::Down, None, refused.clone()));
        see(&tracker, 5, &[("a", true), ("b", true)]);
        let later = see(&tracker, 9, &[("a", true), ("b", false)]);
        assert_eq!(told(&later[0]), (ReplicaState::Down, Some(at(5)), refused));
        assert_eq!(
            told(&later[1]),
            (ReplicaState::Available, Some(at(9)), None)
        );
        // One that leaves is forgotten.
        see(&tracker, 10, &[("b", false)]);
        let back = see(&tracker, 11, &[("a", true), ("b", false)]);
        assert_eq!((back[0].since, back[1].since), (None, Some(at(9))));
    }

    #[test]
    fn a_change_is_taken_once_however_often_it_is_seen() {
        let tracker = StateTracker::default();
        let taken = || {
            let changes = tracker.take_changes().into_iter();
            let change = |it: StateChange| (it.replica, it.from, it.standing.state);
            changes.map(change).collect::<Vec<_>>()
        };
        see(&tracker, 1, &[("a", false), ("b", true)]);
        see(&tracker, 2, &[("a", false), ("b", true)]);
        let (up, down) = (ReplicaState::Available, ReplicaState::Down);
        assert_eq!(taken(), [("b".to_owned(), None, down)]);
        assert_eq!(taken(), []);
        see(&tracker, 3, &[("a", true), ("b", false)]);
        see(&tracker, 4, &[("a", false), ("b", false)]);
        assert_eq!(taken(), [("b".to_owned(), Some(down), up)]);
    }

    #[test]
    fn what_is_configured_or_lasts_for_a_moment_is_no_news() {
        use crate::replica_state::HealthSigns;
        use slackwater_core::policy::HealthState;

        let tracker = StateTracker::default();
        let mut services = fleet(&[("a", false)]);
        services[0].replicas[0].weight = 0;
        tracker.observe(at(1), || services);
        assert_eq!(tracker.take_changes(), []);
        see(&tracker, 2, &[("a", false)]);
        let changes = tracker.take_changes();
        let from: Vec<_> = changes.iter().map(|change| change.from).collect();
        assert_eq!(from, [Some(ReplicaState::Disabled)]);
        let mut known = tracker.0.lock().unwrap();
        let standing = &mut known.values_mut().next().unwrap().standing;
        standing.signs.health = Some(HealthSigns {
            state: HealthState::PushingBack,
            share_millionths: 500_000,
            success_millionths: 1_000_000,
            latency: None,
            median_success_millionths: 0,
            median_latency: None,
        });
        (standing.state, standing.why) = standing.signs.state();
        assert_eq!(standing.state, ReplicaState::Limited);
        drop(known);
        assert_eq!(tracker.take_changes(), []);
    }
}
