//! Overrides that a process passes to its successor, where they are in force from the first request
//! on, and so are the policies that clusters have chosen.
//!
//! Their form is that of `GET /overrides`, so processes of different versions understand each other
//! as far as their admin servers do.

use core::net::SocketAddr;
use core::time::Duration;
use slackwater_admin::Overrides;
use slackwater_config::{ClusterPolicy, Fault, SettingOverride, SettingOverrides};
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

/// Encodes the overrides for a successor; `None` if there are none.
pub(super) fn encode(overrides: &Overrides) -> Option<String> {
    if *overrides == Overrides::default() {
        return None;
    }
    // Plain data can always be serialized.
    serde_json::to_string(overrides).ok()
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
    let mut chosen = BTreeMap::<_, (SystemTime, Vec<_>)>::new();
    for it in overrides.control_plane {
        let (_, keys) = (chosen.entry(it.service)).or_insert((at(it.since_ms), Vec::new()));
        keys.push((it.key, it.value));
    }
    for (service, (since, keys)) in chosen {
        let policy = Arc::new(ClusterPolicy::restored(keys));
        handed_over.settings.choose(&service, policy, since);
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
    use slackwater_admin::{ReplicaOverridden, SettingChosen, SettingOverridden};
    use slackwater_config::testing::replica;

    #[test]
    fn overrides_round_trip_and_empty_ones_are_not_encoded() {
        assert_eq!(encode(&Overrides::default()), None);
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
                since_ms: 9,
            }],
        };
        let text = encode(&overrides).expect("something");
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
        let orders = Orders::default().with(&replica(1), Some(true), Some(Some(3)), at(8));
        assert_eq!(
            understood.orders,
            BTreeMap::from([("web".to_owned(), orders)])
        );
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
