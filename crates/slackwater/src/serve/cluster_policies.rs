//! Policies that clusters of the control plane choose, put in force as they come.
//!
//! A chosen policy is a layer over the file and the flags, and under what the operator sets at run
//! time. It is applied as a reload is: completely or not at all, and no request is lost. One that
//! the rest of the configuration forbids leaves the one before in force, and is tried again when
//! something else changes, or after a while, because host names may have failed to resolve.

use super::running::Running;
use super::written::{Read, Written};
use core::num::NonZeroU16;
use core::time::Duration;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, select_all};
use slackwater_config::{ClusterPolicy, Config, Fault, SettingOverrides};
use slackwater_discovery::Discovery;
use slackwater_proxy::ServiceParts;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::time::{Instant, sleep_until};

/// How long a policy that could not be applied waits until it is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_mins(1);

/// Policies by service.
type Chosen = BTreeMap<String, Arc<ClusterPolicy>>;

/// Policies that could not be applied.
#[derive(Debug, Default)]
pub(super) struct ClusterPolicies {
    refused: Chosen,
    try_again_at: Option<Instant>,
}

impl ClusterPolicies {
    /// Waits until a cluster has chosen a policy that is not in force. It waits for the services
    /// and the settings of now: ask again when they change.
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
            let (in_force, refused) = (in_force(set, name), self.refused.get(name).cloned());
            let change = async move {
                let is_other = |policy: &Option<Arc<ClusterPolicy>>| {
                    let policy = policy.as_ref();
                    policy.is_some_and(|it| *it != in_force) && policy != refused.as_ref()
                };
                if policies.wait_for(is_other).await.map(drop).is_err() {
                    // The source was replaced, and so are the services.
                    core::future::pending::<()>().await;
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

    /// Tries all policies again: the rest of the configuration has changed.
    pub(super) fn forget_refused(&mut self) {
        *self = Self::default();
    }

    /// Puts the policies that are not in force yet in force.
    pub(super) async fn apply(&mut self, running: &mut Running, written: &mut Written) {
        if self.try_again_at.is_some_and(|at| at <= Instant::now()) {
            self.forget_refused();
        }
        let services = running.services();
        let found = services.iter().map(|it| (&*it.config.name, &*it.discovery));
        let mut pending = pending(found, &written.set);
        pending.retain(|name, policy| self.refused.get(name) != Some(policy));
        for choices in attempts(&pending) {
            let is_in_force = self.put_in_force(running, written, &choices).await;
            if is_in_force && choices.len() > 1 {
                return;
            }
        }
    }

    /// Returns whether these choices are all in force. Refuses a single one that cannot be.
    async fn put_in_force(
        &mut self,
        running: &mut Running,
        written: &mut Written,
        choices: &Chosen,
    ) -> bool {
        let applied = async {
            let read = read_with(written, choices).await?;
            let (loaded, source, set) = read.into_parts();
            running.proxy.reload(loaded.config).await?;
            Ok((loaded.remarks, source, set))
        };
        match applied.await {
            Ok((remarks, source, set)) => {
                written.take(source, set);
                running.status.set_settings(&written.set);
                log_choices(choices, running.config());
                for remark in remarks {
                    tracing::debug!("{remark}");
                }
                true
            }
            Err(fault) => {
                self.refuse(choices, &fault);
                false
            }
        }
    }

    fn refuse(&mut self, choices: &Chosen, fault: &Fault) {
        // If there are several, each is tried alone afterwards.
        if choices.len() > 1 {
            return;
        }
        for (service, policy) in choices {
            tracing::warn!(
                service,
                "policy of the cluster not applied, the one before stays: {fault}"
            );
            self.refused.insert(service.clone(), Arc::clone(policy));
        }
        self.try_again_at = Some(Instant::now() + TRY_AGAIN_AFTER);
    }

    /// Applies the policies that are known at the start, so that the first requests find them, and
    /// returns the configuration. A policy that sets the port of probes needs another source of the
    /// fleet: it is left to [`apply`](Self::apply).
    pub(super) async fn at_start(
        &mut self,
        mut config: Config,
        fleets: &[Arc<Discovery>],
        written: &mut Written,
    ) -> Config {
        let names = config.services.iter().map(|service| &*service.name);
        let found = names.zip(fleets.iter().map(|discovery| &**discovery));
        for choices in attempts(&pending(found, &written.set)) {
            match read_with(written, &choices).await {
                Ok(read) if probe_ports(&config) == probe_ports(&read.loaded.config) => {
                    let (loaded, source, set) = read.into_parts();
                    written.take(source, set);
                    log_choices(&choices, &loaded.config);
                    config = loaded.config;
                    if choices.len() > 1 {
                        break;
                    }
                }
                Ok(_) => (),
                Err(fault) => self.refuse(&choices, &fault),
            }
        }
        config
    }
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

/// The policies that are known and not in force.
fn pending<'d>(
    found: impl Iterator<Item = (&'d str, &'d Discovery)>,
    set: &SettingOverrides,
) -> Chosen {
    let known = found.filter_map(|(name, discovery)| {
        let policy = discovery.policy()?.borrow().clone()?;
        Some((name.to_owned(), policy))
    });
    let is_other = |(name, policy): &(String, Arc<ClusterPolicy>)| *policy != in_force(set, name);
    known.filter(is_other).collect()
}

/// All of the choices at once; then, if that fails, each by itself.
fn attempts(pending: &Chosen) -> Vec<Chosen> {
    let alone = pending.iter();
    let alone = alone.map(|(name, policy)| Chosen::from([(name.clone(), Arc::clone(policy))]));
    let all = (pending.len() > 1).then(|| pending.clone());
    all.into_iter().chain(alone).collect()
}

async fn read_with(written: &Written, choices: &Chosen) -> Result<Read, Fault> {
    let (mut set, now) = (written.set.clone(), SystemTime::now());
    for (service, policy) in choices {
        set.choose(service, Arc::clone(policy), now);
    }
    let read = written.load_with(set).await?;
    read.map_err(|mistakes| Fault::usage(mistakes.in_a_line()))
}

fn log_choices(choices: &Chosen, config: &Config) {
    for (service, policy) in choices {
        let in_force = config.services.iter().find(|it| it.name == *service);
        let in_force = in_force.map_or("none", |it| it.policy.name);
        let keys: Vec<_> = policy.keys().map(|(key, _)| key).collect();
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
