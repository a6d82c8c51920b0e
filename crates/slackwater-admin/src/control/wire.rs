//! What requests that change something say, and what they are answered: field by field in
//! `docs/reference/admin.md`.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The body of `POST /replica`. What is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReplicaChange {
    /// May be left out where there is one service only.
    pub service: Option<String>,
    /// Its name, or its address where several have that name.
    pub replica: String,
    /// It is to get no new requests; those that it has end, and it is probed on.
    pub drained: Option<bool>,
    /// From 0 to 65,535, in place of what its fleet says; `null`: as that says.
    #[serde(default, deserialize_with = "present")]
    pub weight: Option<Option<u16>>,
}

/// The body of `POST /settings`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// May be left out where there is one service only.
    pub service: Option<String>,
    /// Keys of the service as in the configuration, with their values; `null`: as file and flags
    /// say.
    pub set: Map<String, Value>,
    /// Nothing is changed: only said what would be.
    #[serde(default)]
    pub dry_run: bool,
}

/// The body of `POST /reload`, which may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Reload {
    /// Nothing is changed: only said what would be.
    #[serde(default)]
    pub dry_run: bool,
}

/// The body of `POST /overrides/clear`, which may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Clear {
    /// Of this service only; left out: of all.
    pub service: Option<String>,
}

/// What is set at run time: `GET /overrides`, and the answer to `POST /overrides/clear`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overrides {
    /// Keys of services.
    pub settings: Vec<SettingOverridden>,
    /// Single replicas.
    pub replicas: Vec<ReplicaOverridden>,
}

/// A key that is set at run time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingOverridden {
    /// Whose it is.
    pub service: String,
    /// As in the configuration.
    pub key: String,
    /// In TOML.
    pub value: String,
    /// What was in force before, in TOML; `null` where the key did nothing then.
    pub instead_of: Option<String>,
    /// When it was set, in milliseconds since 1970.
    pub since_ms: u64,
}

/// A replica of which something is wanted at run time; also the answer to `POST /replica`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplicaOverridden {
    /// Whose it is.
    pub service: String,
    /// Its name.
    pub replica: String,
    /// Where its requests go.
    pub address: String,
    /// It gets no new requests.
    pub drained: bool,
    /// In place of its fleet's; `null`: as that says.
    pub weight: Option<u16>,
    /// When that was last changed, in milliseconds since 1970; `null` where nothing is wanted of
    /// it.
    pub since_ms: Option<u64>,
}

/// The answer to `POST /settings`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettingsChanged {
    /// Nothing was changed.
    pub dry_run: bool,
    /// The keys of which something else is in force now.
    pub changed: Vec<Changed>,
    /// What else that means.
    #[serde(flatten)]
    pub meaning: Meaning,
}

/// A key of which something else is in force than before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changed {
    /// As in the configuration.
    pub key: String,
    /// In TOML; `null` where it did nothing.
    pub from: Option<String>,
    /// In TOML; `null` where it does nothing.
    pub to: Option<String>,
}

/// The answer to `POST /reload`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reloaded {
    /// Nothing was changed.
    pub dry_run: bool,
    /// What it means.
    #[serde(flatten)]
    pub meaning: Meaning,
}

/// What another configuration means, or would mean.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Meaning {
    /// Services that begin anew, without what their policies had learned, or for the first time.
    /// Requests that run end as they began.
    pub services_started: Vec<String>,
    /// Services that are no more.
    pub services_ended: Vec<String>,
    /// Listeners that open.
    pub listeners_opened: Vec<String>,
    /// Listeners that close.
    pub listeners_closed: Vec<String>,
    /// Settings that stay as they were, because they take a restart.
    pub need_restart: Vec<String>,
    /// What is valid but probably not meant.
    pub remarks: Vec<String>,
}

/// A field that is there is said, be it `null`.
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
    fn a_weight_may_be_said_not_said_and_taken_back() {
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
