//! Overrides that a process passes to its successor, where they are in force from the first request
//! on, and so are the policies that clusters have chosen.
//!
//! Their form is that of `GET /overrides`, so processes of different versions understand each other
//! as far as their admin servers do.

use core::net::SocketAddr;
use core::time::Duration;
use slackwater_admin::Overrides;
use slackwater_config::{
    ChosenPolicy, ClusterPolicy, Fault, PolicyCluster, SettingOverride, SettingOverrides,
};
use slackwater_proxy::orders::{Order, Orders};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The overrides that a process received from its predecessor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HandedOver {
    pub(super) settings: SettingOverrides,
    /// By service.
    pub(super) orders: BTreeMap<String, Orders>,
}

/// Encodes the overrides for a successor; `None` if there are none. The successor tries refused
/// policies itself.
pub(super) fn encode(mut overrides: Overrides) -> Option<String> {
    overrides.control_plane_refused.clear();
    if overrides == Overrides::default() {
        return None;
    }
    // Plain data can always be serialized.
    serde_json::to_string(&overrides).ok()
}

/// Decodes the overrides of a predecessor.
///
/// # Errors
///
/// The text cannot be decoded.
pub(super) fn understand(told: &str) -> Result<HandedOver, Fault> {
    let fault = |what: &dyn core::fmt::Display| {
        Fault::runtime(format!(
            "what is changed at run time is told in a way that this version does not know: {what}; clear it with POST \
             /overrides/clear, and upgrade then"
        ))
    };
    let overrides: Overrides = serde_json::from_str(told).map_err(|error| fault(&error))?;
    let mut handed_over = HandedOver::default();
    for it in overrides.settings {
        let set = SettingOverride {
            value: it.value,
            since: at(it.since_ms),
            instead_of: it.instead_of,
        };
        handed_over.settings.restore(it.service, it.key, set);
    }
    let mut chosen = BTreeMap::<_, (PolicyCluster, SystemTime, Vec<_>)>::new();
    // An older version does not name the cluster. Its policy may be another cluster's by now,
    // so it waits for the control plane.
    let named = overrides.control_plane.into_iter();
    for it in named.filter(|it| !it.cluster.is_empty()) {
        let by = PolicyCluster {
            name: it.cluster,
            server: it.server,
        };
        let (.., keys) = chosen
            .entry(it.service)
            .or_insert_with(|| (by, at(it.since_ms), Vec::new()));
        keys.push((it.key, it.value));
    }
    for (service, (by, since, keys)) in chosen {
        let policy = Arc::new(ClusterPolicy::restored(keys));
        let chosen = ChosenPolicy { policy, by, since };
        handed_over.settings.choose(&service, chosen);
    }
    for it in overrides.replicas {
        let address: SocketAddr = (it.address.parse())
            .map_err(|_| fault(&format_args!("{:?} is no address", it.address)))?;
        let order = Order {
            name: it.replica,
            is_drained: it.drained,
            weight: it.weight,
            since: at(it.since_ms.unwrap_or_default()),
        };
        let orders = handed_over.orders.entry(it.service).or_default();
        orders.restore(address, order);
    }
    Ok(handed_over)
}

fn at(since_ms: u64) -> SystemTime {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(since_ms));
    at.unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_admin::{PolicyRefused, ReplicaOverridden, SettingChosen, SettingOverridden};
    use slackwater_config::testing::replica;

    #[test]
    fn overrides_round_trip_and_empty_ones_are_not_encoded() {
        assert_eq!(encode(Overrides::default()), None);
        let overrides = Overrides {
            settings: vec![SettingOverridden {
                service: "web".to_owned(),
                key: "policy".to_owned(),
                value: "\"random\"".to_owned(),
                instead_of: Some("\"prequal\"".to_owned()),
                since_ms: 7,
            }],
            replicas: vec![ReplicaOverridden {
                service: "web".to_owned(),
                replica: replica(1).name,
                address: replica(1).address.to_string(),
                drained: true,
                weight: Some(3),
                since_ms: Some(8),
            }],
            control_plane: vec![SettingChosen {
                service: "web".to_owned(),
                key: "policy".to_owned(),
                value: "\"prequal\"".to_owned(),
                cluster: "web".to_owned(),
                server: "http://xds:1/".to_owned(),
                since_ms: 9,
            }],
            control_plane_refused: Vec::new(),
        };
        let text = encode(overrides).expect("something");
        let understood = understand(&text).expect("the same version");
        let settings: Vec<_> = understood.settings.iter().collect();
        let set = SettingOverride {
            value: "\"random\"".to_owned(),
            since: at(7),
            instead_of: Some("\"prequal\"".to_owned()),
        };
        assert_eq!(settings, [("web", "policy", &set)]);
        let chosen = &understood.settings.chosen()["web"];
        let keys: Vec<_> = chosen.policy.keys().collect();
        assert_eq!(
            (keys, chosen.since),
            (vec![("policy", "\"prequal\"")], at(9))
        );
        assert_eq!(
            (&*chosen.by.name, &*chosen.by.server),
            ("web", "http://xds:1/")
        );
        let orders = Orders::default().with(&replica(1), Some(true), Some(Some(3)), at(8));
        assert_eq!(
            understood.orders,
            BTreeMap::from([("web".to_owned(), orders)])
        );
    }

    #[test]
    fn a_policy_of_an_unnamed_cluster_is_dropped_and_refusals_are_not_encoded() {
        let older = r#"{"settings": [], "replicas": [], "control_plane": [{"service": "web",
            "key": "policy", "value": "\"prequal\"", "since_ms": 9}]}"#;
        let understood = understand(older).expect("an older version");
        assert_eq!(understood, HandedOver::default());
        let refused = Overrides {
            control_plane_refused: vec![PolicyRefused {
                service: "web".to_owned(),
                cluster: "web".to_owned(),
                why: "needs probes".to_owned(),
                since_ms: 9,
            }],
            ..Overrides::default()
        };
        assert_eq!(encode(refused), None);
    }

    #[test]
    fn unknown_overrides_are_rejected_and_not_dropped() {
        for odd in [
            "",
            "{}",
            r#"{"settings": [], "replicas": [{"service": "a", "replica": "b", "address": "c", "drained": true,
                "weight": null, "since_ms": 1}]}"#,
        ] {
            let why = understand(odd).expect_err(odd).to_string();
            assert!(why.contains("upgrade then"), "{why}");
        }
    }
}
