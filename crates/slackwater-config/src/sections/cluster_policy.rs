//! The policy that a cluster of the control plane chooses, as keys of a service.
//!
//! The configuration is the one of gRPC clients (`go/grpc`), so that one cluster means the same to
//! both: the keys of a service in camel case, and a few fields of gRPC's own ([`FOREIGN`]). Numbers
//! may be doubles. Unknown fields are ignored, with a remark. A wrong value is a mistake, with the
//! words of the reader of files.

use super::assemble::assemble;
use super::json_value::to_toml;
use super::key::KeyRouting;
use super::policies::policy_rows;
use super::probe::ProbeKeys;
use super::variables::Variables;
use crate::table::rows::rows;
use crate::toml_reader::{Layer, Reader, Source};
use serde_json::{Map, Value, json};
use slackwater_core::policy::DEFAULT_POLICY;
use slackwater_xds::{PolicyConfig, PolicyMistake};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use toml::de::DeValue;

/// The most unknown fields that a remark names.
const NAMED_MAX: usize = 8;

/// A configuration in which only the policy is of interest.
const AROUND: &str = "listen = \"127.0.0.1:0\"\nreplicas = [\"127.0.0.1:1\"]\n";

/// The policy that a cluster chooses, with its settings, as keys of a service. Empty if it chooses
/// none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPolicy(
    /// Values in TOML.
    BTreeMap<String, String>,
);

/// The keys that a field of gRPC's sets. `Err`: what was expected.
type ForeignKeys = Result<Vec<(&'static str, Value)>, &'static str>;

/// What a field of gRPC's is here.
enum Foreign {
    /// It sets keys.
    Keys(fn(&Value) -> ForeignKeys),
    /// It has no meaning here, for this reason.
    Nothing(&'static str),
}

/// Fields that are no key in camel case.
const FOREIGN: &[(&str, Foreign)] = &[
    ("health", Foreign::Keys(health)),
    ("key.metadata", Foreign::Keys(metadata)),
    ("probe.transport", Foreign::Keys(transport)),
    (
        "explain",
        Foreign::Nothing("decisions.* is for the process"),
    ),
    ("key.secret", Foreign::Nothing("key.seed_file applies")),
    ("probe.key", Foreign::Nothing("probe.key_file applies")),
];

fn health(value: &Value) -> ForeignKeys {
    const ERRORS: &str = "error_aversion.enabled";
    match value.as_str() {
        Some("standard") => Ok(vec![(ERRORS, json!(true))]),
        Some("off") => Ok(vec![
            (ERRORS, json!(false)),
            ("latency_probation.enabled", json!(false)),
        ]),
        _ => Err("\"standard\" or \"off\""),
    }
}

fn metadata(value: &Value) -> ForeignKeys {
    match value.as_str() {
        Some(name) if !name.is_empty() => Ok(vec![("key.by", json!([format!("grpc:{name}")]))]),
        _ => Err("the name of metadata, such as \"x-user\""),
    }
}

fn transport(value: &Value) -> ForeignKeys {
    match value.as_str() {
        // Replicas that answer probes of gRPC may answer none of the proxy's: it keeps its own.
        Some("grpc") => Ok(Vec::new()),
        Some(_) => Ok(vec![("probe.transport", value.clone())]),
        None => Err("\"grpc\", \"udp\", \"http\" or \"none\""),
    }
}

/// The keys of a service by the names that they have in a configuration of gRPC clients.
static KEYS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let not = |others: &'static [&str]| move |key: &String| !others.contains(&key.as_str());
    let key = rows::<KeyRouting>("").into_iter().map(|row| row.key);
    let probe = rows::<ProbeKeys>("").into_iter().map(|row| row.key);
    let is_of_probe = |key: &String| ["probe.port", "probe.path"].contains(&key.as_str());
    let keys = policy_rows().into_iter().map(|row| row.key);
    let keys = keys.chain(key.filter(not(&["key.by", "key.seed_file"])));
    let keys = keys.chain(probe.filter(is_of_probe));
    let keys = keys.chain(["policy".to_owned()]);
    keys.map(|key| (camel_case(&key), key)).collect()
});

/// Fields that have fields.
static SECTIONS: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let fields = KEYS.keys().map(String::as_str);
    let fields = fields.chain(FOREIGN.iter().map(|(field, _)| *field));
    let sections = fields.filter_map(|field| field.split_once('.'));
    sections.map(|(section, _)| section).collect()
});

/// `shortest_expected_delay.probe_rate` is `shortestExpectedDelay.probeRate`.
fn camel_case(key: &str) -> String {
    let mut words = key.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(word.ceil_char_boundary(1));
        name + &initial.to_ascii_uppercase() + rest
    })
}

impl ClusterPolicy {
    /// Checks a configuration, as a control plane's client does before it accepts a cluster.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn check(config: &PolicyConfig) -> Result<(), PolicyMistake> {
        Self::read(config).map(drop)
    }

    /// Reads a configuration. Also returns what was ignored, in sentences.
    ///
    /// # Errors
    ///
    /// Returns the first mistake.
    pub fn read(config: &PolicyConfig) -> Result<(Self, Vec<String>), PolicyMistake> {
        let mut reading = Reading::default();
        reading.object("", config.fields())?;
        let policy = reading.keys.entry("policy".to_owned());
        policy.or_insert_with(|| (json!(DEFAULT_POLICY.name).to_string(), "policy".to_owned()));
        reading.finish()
    }

    /// Whether no policy is chosen.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys with their values in TOML.
    pub fn keys(&self) -> impl Iterator<Item = (&str, &str)> {
        let keys = self.0.iter();
        keys.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// A policy with these keys, which are validated when they are applied.
    pub fn restored(keys: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(keys.into_iter().collect())
    }
}

/// A configuration that is being read.
#[derive(Default)]
struct Reading {
    /// Values in TOML, and the fields that set them.
    keys: BTreeMap<String, (String, String)>,
    unknown: Vec<String>,
    remarks: Vec<String>,
}

impl Reading {
    fn object(&mut self, path: &str, fields: &Map<String, Value>) -> Result<(), PolicyMistake> {
        for (name, value) in fields {
            let field = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            // As in JSON of Protocol Buffers, null counts as absent.
            if value.is_null() {
                continue;
            }
            self.field(field, value)?;
        }
        if path == "key" && fields.get("metadata").is_none_or(Value::is_null) {
            let told = "is missing, expected the name of the metadata that has a call's key";
            return Err(mistake("key.metadata".to_owned(), told));
        }
        Ok(())
    }

    fn field(&mut self, field: String, value: &Value) -> Result<(), PolicyMistake> {
        if let Some(key) = KEYS.get(&field) {
            return self.set(key, field, value);
        }
        match FOREIGN.iter().find(|(name, _)| *name == field) {
            Some((_, Foreign::Keys(keys))) => {
                let keys = keys(value).map_err(|expected| {
                    mistake(field.clone(), format!("found {value}, expected {expected}"))
                })?;
                if keys.is_empty() {
                    let told = format!("{field} {value} is gRPC's own and ignored");
                    self.remarks.push(told);
                }
                for (key, value) in keys {
                    self.set(key, field.clone(), &value)?;
                }
            }
            Some((_, Foreign::Nothing(why))) => {
                self.remarks.push(format!("{field} is ignored: {why}"));
            }
            None if !SECTIONS.contains(field.as_str()) => self.unknown.push(field),
            None => {
                let Some(fields) = value.as_object() else {
                    return Err(mistake(field, format!("found {value}, expected an object")));
                };
                self.object(&field, fields)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &str, field: String, value: &Value) -> Result<(), PolicyMistake> {
        match to_toml(value) {
            Ok(value) => {
                self.keys.insert(key.to_owned(), (value, field));
                Ok(())
            }
            Err(told) => Err(mistake(field, told)),
        }
    }

    /// Checks the keys beside each other.
    fn finish(mut self) -> Result<(ClusterPolicy, Vec<String>), PolicyMistake> {
        let source = Source::new("cluster".into(), AROUND.to_owned());
        let read = Reader::new(Some(&source), Vec::new()).and_then(|mut reader| {
            for (key, (value, _)) in &self.keys {
                // `to_toml` wrote it.
                if let Ok(value) = DeValue::parse(value) {
                    reader.put_over(key, value.into_inner(), Layer::ControlPlane);
                }
            }
            assemble(reader, &Variables::default()).1
        });
        if let Err(mistakes) = read
            && let Some(first) = mistakes.first()
        {
            let key = first.field.split('[').next().unwrap_or_default();
            let field = self.keys.get(key).map(|(_, field)| field.clone());
            let field = field.unwrap_or_else(|| camel_case(key));
            return Err(mistake(field, &first.message));
        }
        if !self.unknown.is_empty() {
            let named = self.unknown.iter().take(NAMED_MAX);
            let named = named.cloned().collect::<Vec<_>>().join(", ");
            let more = self.unknown.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            self.remarks
                .push(format!("unknown fields are ignored: {named}{more}"));
        }
        let of_policy = |told: &String| format!("load_balancing_policy: {told}");
        let remarks = self.remarks.iter().map(of_policy).collect();
        let keys = self.keys.into_iter();
        let policy = ClusterPolicy(keys.map(|(key, (value, _))| (key, value)).collect());
        Ok((policy, remarks))
    }
}

fn mistake(field: String, message: impl Into<String>) -> PolicyMistake {
    PolicyMistake {
        field,
        message: message.into(),
    }
}

#[cfg(test)]
mod tests;
