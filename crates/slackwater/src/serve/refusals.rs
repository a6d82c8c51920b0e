//! Policies of clusters that are not applied, and why.
//!
//! They are listed in `GET /overrides`. Each reason is logged once as a warning, however often the
//! policy is tried.

use slackwater_admin::PolicyRefused;
use slackwater_config::{ChosenPolicy, SettingOverrides};
use slackwater_telemetry::date::since_epoch_ms;
use std::collections::BTreeMap;

/// A policy that the rest of the configuration forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The policy, and since when it is refused.
    pub(super) chosen: ChosenPolicy,
    /// What is wrong with it.
    pub(super) why: String,
}

/// The refused policies by service.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<String, Noted>);

#[derive(Debug)]
struct Noted {
    refusal: Refusal,
    is_logged: bool,
}

impl Refusals {
    /// Adds a refusal. One with the reason of the refusal before counts as the same.
    pub(super) fn add(&mut self, service: String, refusal: Refusal) {
        if let Some(before) = self.0.get_mut(&service)
            && before.refusal.why == refusal.why
        {
            tracing::debug!(
                service,
                "policy of the cluster still not applied: {}",
                refusal.why
            );
            before.refusal.chosen.policy = refusal.chosen.policy;
            before.refusal.chosen.by = refusal.chosen.by;
            return;
        }
        let is_logged = false;
        self.0.insert(service, Noted { refusal, is_logged });
    }

    /// Keeps only the refusals that `is_kept` returns true for.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&str, &ChosenPolicy) -> bool) {
        self.0
            .retain(|service, noted| is_kept(service, &noted.refusal.chosen));
    }

    /// Removes the refusals of policies that are in force now.
    pub(super) fn forget_applied(&mut self, set: &SettingOverrides) {
        self.retain(|service, refused| {
            let in_force = set.chosen().get(service);
            in_force.is_none_or(|in_force| in_force.policy != refused.policy)
        });
    }

    /// Logs the refusals that are not logged yet. It is separate from [`add`](Self::add), because
    /// the first configuration is loaded before the log starts.
    pub(super) fn log(&mut self) {
        for (service, noted) in self.0.iter_mut().filter(|(_, noted)| !noted.is_logged) {
            tracing::warn!(
                service,
                cluster = noted.refusal.chosen.by.name,
                "policy of the cluster not applied: {}; correct this in the file or in the cluster",
                noted.refusal.why
            );
            noted.is_logged = true;
        }
    }

    /// The refusals for `GET /overrides`.
    pub(super) fn shown(&self) -> Vec<PolicyRefused> {
        let all = self.0.iter();
        all.map(|(service, Noted { refusal, .. })| PolicyRefused {
            service: service.clone(),
            cluster: refusal.chosen.by.name.clone(),
            why: refusal.why.clone(),
            since_ms: since_epoch_ms(refusal.chosen.since),
        })
        .collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use core::time::Duration;
    use slackwater_config::{ClusterPolicy, PolicyCluster};
    use std::sync::Arc;
    use std::time::UNIX_EPOCH;

    /// A policy of this name that is refused since `at`, in milliseconds.
    pub(in super::super) fn refusal(policy: &str, why: &str, at: u64) -> Refusal {
        let keys = [("policy".to_owned(), policy.to_owned())];
        Refusal {
            chosen: ChosenPolicy {
                policy: Arc::new(ClusterPolicy::restored(keys)),
                by: PolicyCluster::default(),
                since: UNIX_EPOCH + Duration::from_millis(at),
            },
            why: why.to_owned(),
        }
    }

    #[test]
    fn a_reason_is_new_once_and_ends_with_its_policy() {
        let mut refusals = Refusals::default();
        let mut add = |refusal| {
            refusals.add("web".to_owned(), refusal);
            let is_new = refusals.0.values().any(|noted| !noted.is_logged);
            refusals.log();
            (is_new, refusals.shown()[0].since_ms)
        };
        assert_eq!(add(refusal("\"a\"", "needs probes", 1)), (true, 1));
        assert_eq!(add(refusal("\"a\"", "needs probes", 2)), (false, 1));
        assert_eq!(add(refusal("\"b\"", "needs probes", 3)), (false, 1));
        assert_eq!(add(refusal("\"b\"", "unknown", 4)), (true, 4));

        let mut set = SettingOverrides::default();
        set.choose("web", refusal("\"a\"", "", 5).chosen);
        refusals.forget_applied(&set);
        assert_eq!(refusals.shown().len(), 1, "another one is in force");
        set.choose("web", refusal("\"b\"", "", 6).chosen);
        refusals.forget_applied(&set);
        assert_eq!(refusals.shown(), []);
    }
}
