//! Policies that clusters of the control plane choose, put in force as they come.
//!
//! A chosen policy is a layer over the file and the flags, and under what the operator sets at run
//! time. It is applied as a reload is: completely or not at all, and no request is lost. One that
//! the rest of the configuration forbids leaves the one before in force, and is tried again when
//! something else changes, or after a while, because host names may have failed to resolve. A
//! control plane that changes its mind often is slowed down, because each change is a reload.

use super::log_reload;
use super::refusals::Refusal;
use super::running::Running;
use super::written::{Choices, Read, Written};
use core::num::NonZeroU16;
use core::time::Duration;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, select_all};
use slackwater_config::{ChosenPolicy, ClusterPolicy, Config, Fault, SettingOverrides};
use slackwater_discovery::Discovery;
use slackwater_proxy::ServiceParts;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::time::{Instant, sleep_until};

/// How long a policy that could not be applied waits until it is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_mins(1);

/// Shortest time between two changes of a service's policy. A reload takes milliseconds, and a
/// policy has learned its replicas in about a second.
const PACE_MIN: Duration = Duration::from_secs(1);

/// Longest time between two changes of a service's policy: long enough that reloads cost nothing,
/// and still short for a person who waits for a change.
const PACE_MAX: Duration = Duration::from_mins(1);

/// Policies by service.
type Policies = BTreeMap<String, Arc<ClusterPolicy>>;

/// The next time at which a service's policy may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    next_at: Instant,
    wait: Duration,
}

impl Pace {
    /// The pace after a change at `now`. The wait doubles while changes come as soon as they may,
    /// and is the shortest again after a time of quiet.
    fn after(before: Option<Self>, now: Instant) -> Self {
        let wait = match before {
            Some(before) if now < before.next_at + PACE_MAX => PACE_MAX.min(before.wait * 2),
            _ => PACE_MIN,
        };
        Self {
            next_at: now + wait,
            wait,
        }
    }
}

/// Policies that could not be applied, and when others may be.
#[derive(Debug, Default)]
pub(super) struct ClusterPolicies {
    refused: Policies,
    try_again_at: Option<Instant>,
    paces: BTreeMap<String, Pace>,
    /// Why the configuration could not be loaded or applied, whatever the policies are.
    failure: Option<String>,
}

impl ClusterPolicies {
    /// Waits until a cluster has chosen a policy that is not in force, and that may be applied now.
    /// It waits for the services and the settings of now: ask again when they change.
    pub(super) fn changed(
        &self,
        services: &[ServiceParts],
        set: &SettingOverrides,
    ) -> impl Future<Output = ()> + use<> {
        let mut changes: Vec<BoxFuture<'static, ()>> = Vec::new();
        for service in services {
            let Some(mut policies) = service.discovery.policy().cloned() else {
                continue;
            };
            let name = &service.config.name;
            // A refused policy was tried last. If there is none, it is the one in force.
            let tried = self.refused.get(name).cloned();
            let tried = tried.unwrap_or_else(|| in_force(set, name));
            let not_before = self.paces.get(name).map(|pace| pace.next_at);
            let change = async move {
                let is_other = |policy: &Option<Arc<ClusterPolicy>>| {
                    policy.as_ref().is_some_and(|policy| *policy != tried)
                };
                if policies.wait_for(is_other).await.map(drop).is_err() {
                    // The source was replaced, and so are the services.
                    core::future::pending::<()>().await;
                }
                // A newer policy that comes meanwhile takes the place of this one.
                if let Some(at) = not_before {
                    sleep_until(at).await;
                }
            };
            changes.push(change.boxed());
        }
        changes.extend(self.try_again_at.map(|at| sleep_until(at).boxed()));
        async move {
            if changes.is_empty() {
                return core::future::pending().await;
            }
            select_all(changes).await;
        }
    }

    /// Tries all policies again, at once: the operator has changed the rest of the configuration.
    pub(super) fn forget_refused(&mut self) {
        self.refused.clear();
        self.try_again_at = None;
        self.paces.clear();
    }

    /// Puts the policies that are not in force yet in force.
    pub(super) async fn apply(&mut self, running: &mut Running, written: &mut Written) {
        let now = Instant::now();
        let mut again = Policies::new();
        if self.try_again_at.is_some_and(|at| at <= now) {
            again = core::mem::take(&mut self.refused);
            self.try_again_at = None;
        }
        let services = running.services();
        let found = services.iter().map(|it| (&*it.config.name, &*it.discovery));
        let known = known(found);
        self.forget_withdrawn(&known, written);
        running.status.set_settings(written);
        let mut choices = pending(&known, running.config(), &written.set);
        // A policy that is only tried again is no change of its cluster's.
        let is_again = |name: &str, chosen: &ChosenPolicy| again.get(name) == Some(&chosen.policy);
        choices.retain(|name, chosen| {
            let may_change = self.paces.get(name).is_none_or(|pace| pace.next_at <= now);
            (may_change || is_again(name, chosen)) && self.refused.get(name) != Some(&chosen.policy)
        });
        if choices.is_empty() {
            return;
        }
        let applied = self.put_in_force(running, written, &choices).await;
        for (name, _) in choices.iter().filter(|(name, it)| !is_again(name, it)) {
            let pace = Pace::after(self.paces.get(name).copied(), now);
            self.paces.insert(name.clone(), pace);
        }
        match applied {
            Ok(()) => self.failure = None,
            Err(fault) => self.fail(&choices, &fault),
        }
        running.status.set_settings(written);
    }

    /// Forgets refused policies that their clusters do not choose any more.
    fn forget_withdrawn(&mut self, known: &Policies, written: &mut Written) {
        let is_chosen = |name: &str, policy: &Arc<_>| known.get(name) == Some(policy);
        self.refused.retain(|name, policy| is_chosen(name, policy));
        written
            .refusals
            .retain(|name, refused| is_chosen(name, &refused.policy));
    }

    /// # Errors
    ///
    /// The configuration cannot be loaded or put in force, whatever the policies are.
    async fn put_in_force(
        &mut self,
        running: &mut Running,
        written: &mut Written,
        choices: &Choices,
    ) -> Result<(), Fault> {
        let set = written.set.clone();
        let Read { loaded, sources } = written.load_with(set, choices.clone()).await??;
        self.refuse(&sources.refused);
        if sources.refused.len() == choices.len() {
            written.refuse(sources.refused);
            return Ok(());
        }
        let reloaded = running.proxy.reload(loaded.config).await?;
        written.log_new_remarks(&loaded.remarks);
        written.take(sources, running.config());
        log_choices(choices, &written.set, running.config());
        log_reload(&reloaded);
        Ok(())
    }

    /// Leaves these policies alone for a while.
    fn refuse(&mut self, refused: &[(String, Refusal)]) {
        for (service, refusal) in refused {
            let policy = Arc::clone(&refusal.chosen.policy);
            self.refused.insert(service.clone(), policy);
            self.try_again_at = Some(Instant::now() + TRY_AGAIN_AFTER);
        }
    }

    /// Tries these policies again later: something else than they is wrong.
    fn fail(&mut self, choices: &Choices, fault: &Fault) {
        let why = Some(fault.to_string());
        if self.failure != why {
            tracing::warn!(
                services = choices.keys().cloned().collect::<Vec<_>>().join(", "),
                "policies of clusters wait, as the configuration fails without them: {fault}; \
                 correct it and reload"
            );
        }
        self.failure = why;
        let policies = choices.iter();
        let policies = policies.map(|(name, chosen)| (name.clone(), Arc::clone(&chosen.policy)));
        self.refused.extend(policies);
        self.try_again_at = Some(Instant::now() + TRY_AGAIN_AFTER);
    }

    /// Applies the policies that are known at the start, so that the first requests find them, and
    /// returns the configuration. A policy that sets the port of probes needs another source of the
    /// fleet: it is left to [`apply`](Self::apply).
    pub(super) async fn at_start(
        &mut self,
        config: Config,
        fleets: &[Arc<Discovery>],
        written: &mut Written,
    ) -> Config {
        let names = config.services.iter().map(|service| &*service.name);
        let found = names.zip(fleets.iter().map(|discovery| &**discovery));
        let known = known(found);
        self.forget_withdrawn(&known, written);
        let mut choices = pending(&known, &config, &written.set);
        while !choices.is_empty() {
            let set = written.set.clone();
            let read = match written.load_with(set, choices.clone()).await {
                Ok(Ok(read)) => read,
                Ok(Err(mistakes)) => {
                    self.fail(&choices, &mistakes.into());
                    break;
                }
                Err(fault) => {
                    self.fail(&choices, &fault);
                    break;
                }
            };
            let count = choices.len();
            if probe_ports(&config) != probe_ports(&read.loaded.config) {
                choices.retain(|name, chosen| {
                    probe_port(&chosen.policy) == probe_port(&in_force(&written.set, name))
                });
                if choices.len() < count {
                    continue;
                }
                break;
            }
            let Read { loaded, sources } = read;
            self.refuse(&sources.refused);
            written.log_new_remarks(&loaded.remarks);
            written.take(sources, &loaded.config);
            log_choices(&choices, &written.set, &loaded.config);
            return loaded.config;
        }
        config
    }
}

/// The port of probes that a policy sets, in TOML.
fn probe_port(policy: &ClusterPolicy) -> Option<&str> {
    let mut keys = policy.keys();
    keys.find(|(key, _)| *key == "probe.port")
        .map(|(_, port)| port)
}

fn probe_ports(config: &Config) -> Vec<Option<NonZeroU16>> {
    let services = config.services.iter();
    services.map(|service| service.probe.port).collect()
}

/// The policy of a service's cluster that is in force; empty if there is none.
fn in_force(set: &SettingOverrides, service: &str) -> Arc<ClusterPolicy> {
    let chosen = set.chosen().get(service);
    chosen.map_or_else(Arc::default, |chosen| Arc::clone(&chosen.policy))
}

/// The policies that clusters choose now.
fn known<'d>(found: impl Iterator<Item = (&'d str, &'d Discovery)>) -> Policies {
    found
        .filter_map(|(name, discovery)| {
            let policy = discovery.policy()?.borrow().clone()?;
            Some((name.to_owned(), policy))
        })
        .collect()
}

/// The policies that are known and not in force.
fn pending(known: &Policies, config: &Config, set: &SettingOverrides) -> Choices {
    let since = SystemTime::now();
    let others = known
        .iter()
        .filter(|(name, policy)| **policy != in_force(set, name));
    others
        .filter_map(|(name, policy)| {
            let chosen = ChosenPolicy {
                policy: Arc::clone(policy),
                by: config.policy_cluster(name)?,
                since,
            };
            Some((name.clone(), chosen))
        })
        .collect()
}

/// Logs those of these policies that are in force now.
fn log_choices(choices: &Choices, set: &SettingOverrides, config: &Config) {
    let applied = choices.iter();
    let applied = applied.filter(|(name, chosen)| in_force(set, name) == chosen.policy);
    for (service, chosen) in applied {
        let in_force = config.services.iter().find(|it| it.name == *service);
        let in_force = in_force.map_or("none", |it| it.policy.name);
        let keys: Vec<_> = chosen.policy.keys().map(|(key, _)| key).collect();
        if keys.is_empty() {
            let told = "the cluster chooses no policy any more: that of the configuration applies";
            tracing::info!(service, policy = in_force, "{told}");
        } else {
            let keys = keys.join(", ");
            tracing::info!(
                service,
                policy = in_force,
                keys,
                "policy chosen by the cluster"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::refusals::tests::refusal;

    #[test]
    fn the_wait_between_changes_grows_while_they_come_and_shrinks_after_quiet() {
        let mut now = Instant::now();
        let mut pace = Pace::after(None, now);
        let mut waits = Vec::new();
        for _ in 0..8 {
            waits.push(pace.wait.as_secs());
            assert_eq!(pace.next_at, now + pace.wait);
            now = pace.next_at;
            pace = Pace::after(Some(pace), now);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        now = pace.next_at + PACE_MAX;
        assert_eq!(Pace::after(Some(pace), now).wait, PACE_MIN);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_policy_is_tried_again_after_a_minute() {
        let mut policies = ClusterPolicies::default();
        policies.refuse(&[("web".to_owned(), refusal("\"a\"", "needs probes", 1))]);
        let (now, set) = (Instant::now(), SettingOverrides::default());
        policies.changed(&[], &set).await;
        assert_eq!(now.elapsed(), Duration::from_mins(1));
        policies.forget_refused();
        let tried = policies.changed(&[], &set);
        let hour = Duration::from_hours(1);
        assert!(tokio::time::timeout(hour, tried).await.is_err());
    }
}
