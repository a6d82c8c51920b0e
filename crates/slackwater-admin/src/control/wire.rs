//! The requests that change something, and their responses, documented field by field in
//! `docs/reference/admin.md`.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The body of `POST /replica`. Fields that are left out stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReplicaChange {
    /// Optional if there is only one service.
    pub service: Option<String>,
    /// Its name, or its address if several replicas have that name.
    pub replica: String,
    /// Whether it is drained: it gets no new requests, finishes the requests in flight, and is
    /// still probed.
    pub drained: Option<bool>,
    /// From 0 to 65,535, overriding the fleet's source; `null`: removes the override.
    #[serde(default, deserialize_with = "present")]
    pub weight: Option<Option<u16>>,
}

/// The body of `POST /settings`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// Optional if there is only one service.
    pub service: Option<String>,
    /// Keys of the service as in the configuration, with their values; `null`: removes the
    /// override.
    pub set: Map<String, Value>,
    /// Changes nothing, only reports what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// The body of `POST /reload`, which may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// Changes nothing, only reports what would change.
    #[serde(default)]
    pub dry_run: bool,
}

/// The body of `POST /overrides/clear`, which may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Clear {
    /// Only for this service; left out: for all.
    pub service: Option<String>,
}

/// The overrides set at run time: `GET /overrides`, and the answer to `POST /overrides/clear`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overrides {
    /// Keys of services.
    pub settings: Vec<SettingOverridden>,
    /// Replicas.
    pub replicas: Vec<ReplicaOverridden>,
    /// Keys of services that clusters of the control plane set, with the policies that they choose.
    /// They are under `settings`, over the file and the flags.
    #[serde(default)]
    pub control_plane: Vec<SettingChosen>,
    /// Policies that clusters of the control plane choose and that are not applied.
    #[serde(default)]
    pub control_plane_refused: Vec<PolicyRefused>,
}

/// A policy that a cluster of the control plane chooses and that is not applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyRefused {
    /// The service.
    pub service: String,
    /// The name of the cluster.
    pub cluster: String,
    /// What is wrong with it, beside the configuration.
    pub why: String,
    /// When it was first refused for this reason, in milliseconds since 1970.
    pub since_ms: u64,
}

/// A key that a cluster of the control plane sets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingChosen {
    /// The service.
    pub service: String,
    /// The key as in the configuration.
    pub key: String,
    /// The value in TOML.
    pub value: String,
    /// The name of the cluster; empty in the answer of an older version.
    #[serde(default)]
    pub cluster: String,
    /// The address of the control plane; empty in the answer of an older version.
    #[serde(default)]
    pub server: String,
    /// When it came into force, in milliseconds since 1970.
    pub since_ms: u64,
}

/// A key that is set at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingOverridden {
    /// The service.
    pub service: String,
    /// The key as in the configuration.
    pub key: String,
    /// The value in TOML.
    pub value: String,
    /// The previous value in TOML; `null` if the key had no effect.
    pub instead_of: Option<String>,
    /// Time of the change, in milliseconds since 1970.
    pub since_ms: u64,
}

/// A replica with overrides; also the answer to `POST /replica`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplicaOverridden {
    /// The service.
    pub service: String,
    /// Its name.
    pub replica: String,
    /// Destination of its requests.
    pub address: String,
    /// Whether it is drained.
    pub drained: bool,
    /// The overriding weight; `null`: none.
    pub weight: Option<u16>,
    /// Time of the last change, in milliseconds since 1970; `null` without overrides.
    pub since_ms: Option<u64>,
}

/// The answer to `POST /settings`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingsChanged {
    /// Nothing was changed.
    pub dry_run: bool,
    /// The keys whose value has changed.
    pub changed: Vec<Changed>,
    /// Other consequences.
    #[serde(flatten)]
    pub meaning: Meaning,
}

/// A key whose value has changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changed {
    /// The key as in the configuration.
    pub key: String,
    /// The old value in TOML; `null` if it had no effect.
    pub from: Option<String>,
    /// The new value in TOML; `null` if it has no effect.
    pub to: Option<String>,
}

/// The answer to `POST /reload`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reloaded {
    /// Nothing was changed.
    pub dry_run: bool,
    /// The consequences.
    #[serde(flatten)]
    pub meaning: Meaning,
}

/// The consequences of another configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Meaning {
    /// Services that are new or built again, without what their policies had learned. Requests in
    /// flight finish as they started.
    pub services_started: Vec<String>,
    /// Services that are removed.
    pub services_ended: Vec<String>,
    /// Listeners that open.
    pub listeners_opened: Vec<String>,
    /// Listeners that close.
    pub listeners_closed: Vec<String>,
    /// Settings that stay unchanged until a restart.
    pub need_restart: Vec<String>,
    /// Remarks on settings that are valid but probably not meant.
    pub remarks: Vec<String>,
}

/// A field with the value `null` differs from a missing one.
#[expect(
    clippy::option_option,
    reason = "left out, null and a value are three things"
)]
fn present<'de, T, D>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_is_set_left_out_or_removed() {
        let read = |text: &str| serde_json::from_str::<ReplicaChange>(text).map(|it| it.weight);
        assert_eq!(read(r#"{"replica": "a"}"#).ok(), Some(None));
        assert_eq!(
            read(r#"{"replica": "a", "weight": null}"#).ok(),
            Some(Some(None))
        );
        assert_eq!(
            read(r#"{"replica": "a", "weight": 0}"#).ok(),
            Some(Some(Some(0)))
        );
        for odd in ["65536", "-1", "1.5", "\"1\""] {
            let text = format!("{{\"replica\": \"a\", \"weight\": {odd}}}");
            assert!(read(&text).is_err(), "{odd}");
        }
        let odd = read(r#"{"replica": "a", "drain": true}"#).unwrap_err();
        assert!(
            odd.to_string()
                .starts_with("unknown field `drain`, expected"),
            "{odd}"
        );
    }
}
