//! The policy that a cluster of the control plane chooses, as keys of a service.
//!
//! The configuration is the one of gRPC clients (`go/grpc`), so that one cluster means the same to
//! both: the keys of a service in camel case, and a few fields of gRPC's own ([`FOREIGN`]). Numbers
//! may be doubles. Unknown fields are ignored, with a remark. A value that gRPC clients reject is a
//! mistake. `vectors/cluster-policy` has values that both accept or reject. `docs/decisions/0025`
//! has the differences.

mod values;

use super::assemble::assemble;
use super::key::KeyRouting;
use super::policies::policy_rows;
use super::probe::ProbeKeys;
use super::variables::Variables;
use crate::table::rows::rows;
use crate::toml_reader::{Layer, Reader, Source};
use serde_json::{Map, Value, json};
use slackwater_core::policy::DEFAULT_POLICY;
use slackwater_xds::{PolicyConfig, PolicyMistake, brief};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use toml::de::DeValue;
use values::{check_explain, check_name, health, metadata, transport, unfit, value_of};

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
    /// It has no meaning here, for this reason. The function returns what was expected.
    Nothing(fn(&Value) -> Option<&'static str>, &'static str),
}

/// The key of gRPC clients' own probes.
const PROBE_KEY: &str = "probe.key";

/// The key of what carries probes. Without it, gRPC clients send probes over gRPC.
const TRANSPORT: &str = "probe.transport";

/// Keys of the section `probe` that gRPC clients use with `"udp"` and `"http"` alone.
const OF_PROBES: [&str; 2] = ["probe.port", "probe.path"];

/// Fields that are no key in camel case.
const FOREIGN: &[(&str, Foreign)] = &[
    ("health", Foreign::Keys(health)),
    ("key.metadata", Foreign::Keys(metadata)),
    (TRANSPORT, Foreign::Keys(transport)),
    (
        "explain",
        Foreign::Nothing(check_explain, "decisions.* is for the process"),
    ),
    (
        "key.secret",
        Foreign::Nothing(check_name, "key.seed_file applies"),
    ),
    (
        PROBE_KEY,
        Foreign::Nothing(check_name, "probe.key_file applies"),
    ),
];

/// The keys of a service by the names that they have in a configuration of gRPC clients.
static KEYS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let not = |others: &'static [&str]| move |key: &String| !others.contains(&key.as_str());
    let key = rows::<KeyRouting>("").into_iter().map(|row| row.key);
    let probe = rows::<ProbeKeys>("").into_iter().map(|row| row.key);
    let is_of_probe = |key: &String| OF_PROBES.contains(&key.as_str());
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
    has_probe_key: bool,
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
            // A point in a name separates no section from its key.
            if name.contains('.') {
                self.unknown.push(field);
                continue;
            }
            self.field(field, value)?;
        }
        if path == "key" && fields.get("metadata").is_none_or(Value::is_null) {
            let message = "is missing, expected the name of the metadata that has a call's key";
            return Err(mistake("key.metadata".to_owned(), message));
        }
        Ok(())
    }

    fn field(&mut self, field: String, value: &Value) -> Result<(), PolicyMistake> {
        if let Some(key) = KEYS.get(&field) {
            return self.set(key, field, value);
        }
        match FOREIGN.iter().find(|(name, _)| *name == field) {
            Some((_, Foreign::Keys(keys))) => {
                let keys = keys(value);
                let keys =
                    keys.map_err(|expected| mistake(field.clone(), unfit(value, expected)))?;
                if keys.is_empty() {
                    let remark = format!("{field} {value} is gRPC's own and ignored");
                    self.remarks.push(remark);
                }
                for (key, value) in keys {
                    self.set(key, field.clone(), &value)?;
                }
            }
            Some((_, Foreign::Nothing(check, why))) => {
                if let Some(expected) = check(value) {
                    return Err(mistake(field, unfit(value, expected)));
                }
                self.remarks.push(format!("{field} is ignored: {why}"));
                self.has_probe_key |= field == PROBE_KEY;
            }
            None if !SECTIONS.contains(field.as_str()) => self.unknown.push(field),
            None => {
                let Some(fields) = value.as_object() else {
                    return Err(mistake(field, unfit(value, "an object")));
                };
                self.object(&field, fields)?;
            }
        }
        Ok(())
    }

    fn set(&mut self, key: &str, field: String, value: &Value) -> Result<(), PolicyMistake> {
        match value_of(key, value) {
            Ok(value) => {
                self.keys.insert(key.to_owned(), (value, field));
                Ok(())
            }
            Err(message) => Err(mistake(field, message)),
        }
    }

    /// Checks `probe.key`, and ignores what gRPC clients ignore with their own transport.
    fn settle_probes(&mut self) -> Result<(), PolicyMistake> {
        let transport = self.keys.get(TRANSPORT).map(|(value, _)| value.as_str());
        let is_signed = matches!(transport, Some("\"udp\"" | "\"http\""));
        if self.has_probe_key && !is_signed {
            let found = transport.unwrap_or("\"grpc\"");
            let message =
                format!("found with probe.transport {found}, expected \"udp\" or \"http\"");
            return Err(mistake(PROBE_KEY.to_owned(), message));
        }
        if transport.is_none() {
            for key in OF_PROBES {
                if self.keys.remove(key).is_some() {
                    let remark =
                        format!("{key} is ignored without probe.transport \"udp\" or \"http\"");
                    self.remarks.push(remark);
                }
            }
        }
        Ok(())
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
        self.settle_probes()?;
        if !self.unknown.is_empty() {
            let named = self.unknown.iter().take(NAMED_MAX);
            let named = named
                .map(|field| brief(field))
                .collect::<Vec<_>>()
                .join(", ");
            let more = self.unknown.len().saturating_sub(NAMED_MAX);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            self.remarks
                .push(format!("unknown fields are ignored: {named}{more}"));
        }
        let of_policy = |remark: &String| format!("load_balancing_policy: {remark}");
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
