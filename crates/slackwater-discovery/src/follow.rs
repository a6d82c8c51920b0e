//! Follows a source, and publishes each fleet to its readers.
//!
//! One task for each service of the process follows its source, regardless of the number of
//! workers. Each fleet that the guard accepts is published as a whole new value through a watch
//! channel; the outcome of the last list is available for the status. The log has each message
//! once, even if a source repeats itself.

use super::guard::{Guard, Verdict, replicas};
#[cfg(feature = "kubernetes")]
use super::kubernetes::{KubernetesBasis, KubernetesSource};
use super::subset::subset_of;
use super::{ControlPlane, Fleet, Source};
use slackwater_config::{ClusterPolicy, GuardSettings, ReplicaConfig};
use slackwater_core::subset::Subset;
use slackwater_telemetry::facts::SourceState;
use slackwater_xds::FleetName;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// At most this many replicas that join or leave are named in the log; the rest are counted.
const NAMED_MAX: usize = 8;

/// A fleet that is followed. Dropping it stops the source.
#[derive(Debug)]
pub struct Discovery {
    fleets: watch::Sender<Arc<Fleet>>,
    /// The list that was accepted last, of which the fleet is the subset; `None` until then.
    lists: watch::Receiver<Option<Arc<Fleet>>>,
    states: watch::Receiver<SourceState>,
    /// The control plane, and its name for the fleet.
    plane: Option<(ControlPlane, FleetName)>,
    /// The policy that the source chooses.
    policy: Option<watch::Receiver<Option<Arc<ClusterPolicy>>>>,
    /// Whether a start waits for the source's first answer.
    is_awaited: bool,
    task: Option<AbortOnDropHandle<()>>,
    /// What a source of pods was made from.
    #[cfg(feature = "kubernetes")]
    basis: Option<KubernetesBasis>,
}

/// The lists that are accepted, and those of their replicas that this process uses.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// When a new list is accepted.
    pub guard: GuardSettings,
    /// The part of an accepted list that is the fleet.
    pub subset: Subset,
}

impl Discovery {
    /// A fleet that does not change by itself: the subset of this list.
    pub fn of_list(list: Fleet, subset: &Subset, fleets: watch::Sender<Arc<Fleet>>) -> Self {
        publish(&fleets, subset_of(&list, subset));
        let state = SourceState {
            source: "list".to_owned(),
            ..SourceState::default()
        };
        Self {
            fleets,
            lists: watch::channel(Some(Arc::new(list))).1,
            states: watch::channel(state).1,
            plane: None,
            policy: None,
            is_awaited: false,
            task: None,
            #[cfg(feature = "kubernetes")]
            basis: None,
        }
    }

    /// Follows a source from now on. Until the first list is accepted, the fleet is that of
    /// `first`, a list that this source has returned already, or else the current value of
    /// `fleets`. Needs a tokio runtime. `service` is for the log.
    pub fn follow(
        service: &str,
        source: impl Source,
        rules: Rules,
        first: Option<Arc<Fleet>>,
        fleets: watch::Sender<Arc<Fleet>>,
    ) -> Self {
        let (list_sender, lists) = watch::channel(first.clone());
        let is_own = first.is_some();
        let first = first.unwrap_or_else(|| Arc::clone(&fleets.borrow()));
        publish(&fleets, subset_of(&first, &rules.subset));
        let (state_sender, states) = watch::channel(SourceState {
            source: source.name(),
            answered_at: source.opened_at(),
            ..SourceState::default()
        });
        let follower = Follower {
            service: service.to_owned(),
            guard: Guard::new(rules.guard, first, is_own),
            subset: rules.subset,
            fleets: fleets.clone(),
            lists: list_sender,
            states: state_sender,
        };
        Self {
            fleets,
            lists,
            states,
            plane: source.control_plane(),
            policy: source.policy(),
            is_awaited: source.is_awaited(),
            task: Some(AbortOnDropHandle::new(tokio::spawn(follower.run(source)))),
            #[cfg(feature = "kubernetes")]
            basis: None,
        }
    }

    /// Follows the pods of a cluster, as [`follow`](Self::follow) does.
    #[cfg(feature = "kubernetes")]
    pub fn follow_pods(
        service: &str,
        source: KubernetesSource,
        rules: Rules,
        first: Option<Arc<Fleet>>,
        fleets: watch::Sender<Arc<Fleet>>,
    ) -> Self {
        let basis = Some(source.basis().clone());
        let mut discovery = Self::follow(service, source, rules, first, fleets);
        discovery.basis = basis;
        discovery
    }

    /// Whether a source of pods would report the fleets that are followed: the cluster, the
    /// credentials, the service and all rules are the same.
    #[cfg(feature = "kubernetes")]
    pub fn follows_like(&self, source: &KubernetesSource) -> bool {
        self.basis.as_ref() == Some(source.basis())
    }

    /// Waits until the cluster or the control plane has answered for the first time. `None` if it
    /// already has, or if the source is another one. It waits without an end if the source is
    /// dropped before.
    pub fn first_answer(&self) -> Option<impl Future<Output = ()> + Send + 'static> {
        let mut states = self.states.clone();
        if !self.is_awaited || states.borrow().answered_at.is_some() {
            return None;
        }
        Some(async move {
            let answered = states.wait_for(|state| state.answered_at.is_some()).await;
            if answered.map(drop).is_err() {
                core::future::pending::<()>().await;
            }
        })
    }

    /// Channel with the current fleet and all later ones.
    pub const fn fleets(&self) -> &watch::Sender<Arc<Fleet>> {
        &self.fleets
    }

    /// The current fleet.
    pub fn fleet(&self) -> Arc<Fleet> {
        Arc::clone(&self.fleets.borrow())
    }

    /// The list that was accepted last, of which the fleet is the subset; `None` unless the source
    /// of this name has returned one.
    pub fn list_of(&self, source: &str) -> Option<Arc<Fleet>> {
        let is_of = self.states.borrow().source == source;
        self.lists.borrow().clone().filter(|_| is_of)
    }

    /// The outcome of the last list.
    pub fn state(&self) -> SourceState {
        let plane = self.plane.as_ref();
        SourceState {
            listed: (self.lists.borrow().as_ref())
                .map_or_else(|| self.fleet().len(), |it| it.len()),
            xds: plane.map(|(plane, name)| plane.state(name)),
            ..self.states.borrow().clone()
        }
    }

    /// The control plane that reports the fleet.
    pub fn control_plane(&self) -> Option<&ControlPlane> {
        self.plane.as_ref().map(|(plane, _)| plane)
    }

    /// The policy that the source chooses for the service, now and later; `None` if it never does.
    /// The value is `None` until it is known, and an empty policy if there is none.
    pub const fn policy(&self) -> Option<&watch::Receiver<Option<Arc<ClusterPolicy>>>> {
        self.policy.as_ref()
    }

    /// Waits until the source has returned for the first time, with a fleet or with a failure. A
    /// static list, and a file that could be opened, count as having returned.
    pub async fn spoken(&self) {
        if self.task.is_some() {
            let mut states = self.states.clone();
            let _ = states.wait_for(SourceState::has_spoken).await;
        }
    }
}

/// Publishes a fleet, if it is another one. Returns the previous one if so.
fn publish(fleets: &watch::Sender<Arc<Fleet>>, next: Fleet) -> Option<Arc<Fleet>> {
    let mut before = None;
    fleets.send_if_modified(|fleet| {
        if fleet.change_to(&next).is_empty() {
            return false;
        }
        before = Some(core::mem::replace(fleet, Arc::new(next)));
        true
    });
    before
}

struct Follower {
    service: String,
    guard: Guard,
    subset: Subset,
    fleets: watch::Sender<Arc<Fleet>>,
    lists: watch::Sender<Option<Arc<Fleet>>>,
    states: watch::Sender<SourceState>,
}

impl Follower {
    async fn run(mut self, mut source: impl Source) {
        loop {
            let result = self.next_result(&mut source).await;
            match result {
                Ok(fleet) => {
                    let verdict = self.guard.offer(Instant::now(), fleet);
                    self.act_on(verdict);
                    // A start that waits for the answer finds the fleet.
                    self.answered();
                }
                Err(why) => {
                    self.guard.forget_waiting();
                    self.fail(&why);
                    if source.has_answered() {
                        self.answered();
                    }
                }
            }
        }
    }

    /// Waits for the source's next result. Meanwhile a list that waits may be accepted.
    async fn next_result(&mut self, source: &mut impl Source) -> Result<Fleet, String> {
        let mut next = source.next();
        loop {
            let Some(deadline) = self.guard.deadline() else {
                return next.await;
            };
            tokio::select! {
                result = &mut next => return result,
                () = tokio::time::sleep_until(deadline) => {
                    let verdict = self.guard.poll(Instant::now());
                    if let Some(verdict) = verdict {
                        self.act_on(verdict);
                    }
                }
            }
        }
    }

    fn answered(&self) {
        self.states
            .send_modify(|state| state.answered_at = Some(SystemTime::now()));
    }

    fn act_on(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Kept(why) => return self.fail(&why),
            Verdict::Same | Verdict::Taken => {
                let list = self.guard.fleet();
                self.lists.send_replace(Some(Arc::clone(list)));
                let before = publish(&self.fleets, subset_of(list, &self.subset));
                if let Some(before) = before {
                    self.states.send_modify(|state| state.changes += 1);
                    self.log_change(&before, &self.fleets.borrow());
                }
            }
        }
        let recovered = self
            .states
            .send_if_modified(|state| state.failure.take().is_some());
        if recovered {
            tracing::info!(
                service = self.service,
                source = self.source(),
                "discovery recovered"
            );
        }
    }

    fn fail(&self, why: &str) {
        let is_new = self.states.borrow().failure.as_deref() != Some(why);
        self.states.send_modify(|state| {
            state.failures += 1;
            state.failure = Some(why.to_owned());
        });
        if is_new {
            tracing::warn!(
                service = self.service,
                source = self.source(),
                replicas = self.fleets.borrow().len(),
                "discovery failed, fleet unchanged: {why}"
            );
        }
    }

    fn source(&self) -> String {
        self.states.borrow().source.clone()
    }

    fn log_change(&self, before: &Fleet, after: &Fleet) {
        let change = before.change_to(after);
        let all = |places: &[usize]| {
            let named = places
                .iter()
                .filter_map(|&place| after.replicas().get(place));
            names(named.map(|replica: &ReplicaConfig| replica.name.clone()))
        };
        let left = change.left.iter();
        let is_gone = |replica: &&ReplicaConfig| left.clone().any(|at| *at == replica.address);
        let gone = before.replicas().iter().filter(is_gone);
        tracing::info!(
            service = self.service,
            joined = all(&change.joined),
            left = names(gone.map(|replica| replica.name.clone())),
            altered = all(&change.altered),
            "fleet changed: {}{}",
            replicas(after.len()),
            of_more(self.guard.fleet().len(), after.len())
        );
    }
}

/// Formats the length of the list that a subset is of; empty if it has no more replicas.
fn of_more(listed: usize, used: usize) -> String {
    if listed == used {
        return String::new();
    }
    format!(", a subset of {listed}")
}

/// Joins names, and counts the rest: "a, b and 3 more".
fn names(mut all: impl Iterator<Item = String>) -> String {
    let text = all.by_ref().take(NAMED_MAX).collect::<Vec<_>>().join(", ");
    let more = all.count();
    if more == 0 {
        return text;
    }
    format!("{text} and {more} more")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{FromChannel, fleet, holding};
    use core::time::Duration;
    use slackwater_core::Quantile;
    use tokio::sync::mpsc;

    type Say = mpsc::UnboundedSender<Result<Fleet, String>>;

    fn followed(settings: GuardSettings) -> (Say, Discovery) {
        let (say, channel) = mpsc::unbounded_channel();
        let rules = Rules {
            guard: settings,
            subset: Subset::random(0, 0),
        };
        let (first, fleets) = (Some(Arc::new(fleet(&[1]))), holding(&[1]));
        let discovery = Discovery::follow("web", FromChannel(channel), rules, first, fleets);
        (say, discovery)
    }

    async fn until(discovery: &Discovery, is_so: impl Fn(&SourceState) -> bool) {
        let mut states = discovery.states.clone();
        states.wait_for(is_so).await.expect("followed");
    }

    #[tokio::test(start_paused = true)]
    async fn fleets_are_published_only_when_they_change() {
        let (say, discovery) = followed(GuardSettings::default());
        let mut fleets = discovery.fleets().subscribe();
        assert_eq!(fleets.borrow().len(), 1);
        for numbers in [&[1_u8][..], &[1, 2], &[2, 1], &[2, 1, 1]] {
            say.send(Ok(fleet(numbers))).expect("heard");
        }
        discovery.spoken().await;
        say.send(Err("enough".to_owned())).expect("heard");
        until(&discovery, |state| state.failures == 1).await;
        assert_eq!(discovery.state().changes, 1, "two by two is the same");
        assert!(fleets.has_changed().expect("followed"));
        assert_eq!(fleets.borrow_and_update().len(), 2);
        assert!(
            !fleets.has_changed().expect("followed"),
            "a failure is none"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_in_the_state_until_the_source_recovers() {
        let (say, discovery) = followed(GuardSettings::default());
        say.send(Err("no answer".to_owned())).expect("heard");
        discovery.spoken().await;
        let state = discovery.state();
        assert_eq!(state.failure.as_deref(), Some("no answer"));
        assert_eq!(
            (state.source.as_str(), state.answered_at),
            ("channel", None)
        );
        say.send(Ok(fleet(&[]))).expect("heard");
        until(&discovery, |state| state.failures == 2).await;
        let failure = discovery.state().failure.expect("an empty list");
        assert!(failure.starts_with("the list is empty"), "{failure}");
        assert_eq!(discovery.fleet().len(), 1);
        say.send(Ok(fleet(&[1]))).expect("heard");
        until(&discovery, |state| state.failure.is_none()).await;
        assert_eq!(discovery.state().changes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_list_is_accepted_after_the_keep_time() {
        let settings = GuardSettings {
            keep_share: Quantile::ONE,
            keep_time: Duration::from_secs(30),
        };
        let (say, discovery) = followed(settings);
        say.send(Ok(fleet(&[2]))).expect("heard");
        let began = Instant::now();
        let mut fleets = discovery.fleets().subscribe();
        fleets.changed().await.expect("followed");
        assert_eq!(began.elapsed().as_secs(), 30);
        assert_eq!(discovery.fleet().replicas(), fleet(&[2]).replicas());
        drop(discovery);
        say.closed().await;
        assert!(
            fleets.changed().await.is_err(),
            "the source is not followed any more"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_shorter_list_is_not_accepted_after_the_source_fails() {
        let settings = GuardSettings {
            keep_share: Quantile::ONE,
            keep_time: Duration::from_secs(30),
        };
        let (say, discovery) = followed(settings);
        say.send(Ok(fleet(&[2]))).expect("heard");
        say.send(Err("no answer".to_owned())).expect("heard");
        until(&discovery, |state| state.failures == 2).await;
        tokio::time::advance(Duration::from_mins(1)).await;
        say.send(Err("none yet".to_owned())).expect("heard");
        until(&discovery, |state| state.failures == 3).await;
        assert_eq!(discovery.state().changes, 0);
        assert_eq!(discovery.fleet().replicas(), fleet(&[1]).replicas());
    }

    #[tokio::test(start_paused = true)]
    async fn a_static_list_counts_as_reported() {
        let all = Subset::random(0, 0);
        let discovery = Discovery::of_list(fleet(&[1, 2]), &all, holding(&[]));
        discovery.spoken().await;
        assert_eq!(discovery.fleet().len(), 2);
        assert_eq!(discovery.state().source, "list");
    }

    /// The guard compares whole lists, so that a list that loses replicas outside of the subset is
    /// noticed as well.
    #[tokio::test(start_paused = true)]
    async fn a_subset_is_published_and_the_whole_list_is_guarded() {
        let settings = GuardSettings {
            keep_share: Quantile::from_millionths(500_000).expect("a share"),
            ..GuardSettings::default()
        };
        let (say, channel) = mpsc::unbounded_channel();
        let subset = Subset::random(2, 1);
        let rules = Rules {
            guard: settings,
            subset,
        };
        let all: Vec<u8> = (1..=20).collect();
        let first = Some(Arc::new(fleet(&all)));
        let discovery = Discovery::follow("web", FromChannel(channel), rules, first, holding(&[]));
        let used = discovery.fleet();
        assert_eq!((used.len(), discovery.state().listed), (2, 20));
        let last_byte = |replica: &ReplicaConfig| match replica.address.ip() {
            core::net::IpAddr::V4(ip) => ip.octets()[3],
            core::net::IpAddr::V6(_) => 0,
        };
        let used: Vec<_> = used.replicas().iter().map(last_byte).collect();
        say.send(Ok(fleet(&used))).expect("heard");
        until(&discovery, |state| state.failures == 1).await;
        let others: Vec<u8> = (1..=30).filter(|n| !used.contains(n)).collect();
        say.send(Ok(fleet(&others))).expect("heard");
        until(&discovery, |state| state.changes == 1).await;
        assert_eq!((discovery.fleet().len(), discovery.state().listed), (2, 28));
    }

    /// As after a reload that changes only the subset: it is taken from the whole list at once, and
    /// the next list is compared with the whole one.
    #[tokio::test(start_paused = true)]
    async fn a_successor_begins_with_the_whole_list() {
        let all: Vec<u8> = (1..=20).collect();
        let (say, before) = followed(GuardSettings::default());
        say.send(Ok(fleet(&all))).expect("heard");
        until(&before, |state| state.answered_at.is_some()).await;
        let (say, channel) = mpsc::unbounded_channel();
        let rules = Rules {
            guard: GuardSettings {
                keep_share: Quantile::from_millionths(500_000).expect("a share"),
                ..GuardSettings::default()
            },
            subset: Subset::random(2, 1),
        };
        let fleets = before.fleets().clone();
        let after = Discovery::follow(
            "web",
            FromChannel(channel),
            rules,
            before.list_of("channel"),
            fleets,
        );
        assert_eq!((after.fleet().len(), after.state().listed), (2, 20));
        let part = Fleet::new(after.fleet().replicas().iter().cloned());
        say.send(Ok(part)).expect("heard");
        until(&after, |state| state.failures == 1).await;
        assert_eq!(after.state().listed, 20);
    }

    /// As after a reload that names another source.
    #[tokio::test(start_paused = true)]
    async fn another_source_s_fleet_stays_until_the_first_list() {
        let (_, before) = followed(GuardSettings::default());
        assert!(before.list_of("channel").is_some());
        let list = before.list_of("dns web.test:80");
        assert!(list.is_none());
        let (say, channel) = mpsc::unbounded_channel();
        let rules = Rules {
            guard: GuardSettings {
                keep_share: Quantile::ONE,
                ..GuardSettings::default()
            },
            subset: Subset::random(0, 0),
        };
        let fleets = before.fleets().clone();
        let after = Discovery::follow("web", FromChannel(channel), rules, list, fleets);
        assert_eq!((after.fleet().len(), after.state().listed), (1, 1));
        assert!(after.list_of("channel").is_none(), "not its own");
        say.send(Ok(fleet(&[2, 3]))).expect("heard");
        until(&after, |state| state.answered_at.is_some()).await;
        assert_eq!(after.fleet().replicas(), fleet(&[2, 3]).replicas());
        assert!(after.list_of("channel").is_some());
    }

    #[test]
    fn names_beyond_the_limit_are_counted() {
        let all = (0..10).map(|n| n.to_string());
        assert_eq!(names(all), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
        assert_eq!(names((0..2).map(|n| n.to_string())), "0, 1");
    }
}
