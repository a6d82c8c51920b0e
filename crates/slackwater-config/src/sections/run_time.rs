//! Settings that are changed at run time, overriding the file and the flags: single keys of
//! services. Under the operator's settings are those of the policies that clusters of the control
//! plane choose.
//!
//! The keys are those of the configuration. The same reader reads them over the file and the flags,
//! so an invalid value is rejected with the same message. Keys that name destinations or files, and
//! settings of the process, cannot be changed at run time.

use super::assemble::assemble;
use super::cluster_policy::ClusterPolicy;
use super::discovery::FleetSource;
use super::json_value::to_toml;
use super::services::DEFAULT;
use super::{Config, Variables};
use crate::toml_reader::{Layer, Reader, Source};
use serde_json::Value;
use slackwater_xds::FleetName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;
use toml::de::DeValue;

/// The most overrides.
const OVERRIDES_MAX: usize = 1024;

/// The override of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingOverride {
    /// The value in TOML.
    pub value: String,
    /// When it was set.
    pub since: SystemTime,
    /// The previous value in TOML; `None` if the key had no effect.
    pub instead_of: Option<String>,
}

/// A cluster of a control plane, which may choose the policy of its service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyCluster {
    /// Name of the cluster.
    pub name: String,
    /// Address of the control plane.
    pub server: String,
}

/// The policy that a service's cluster chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChosenPolicy {
    /// The policy; empty if the cluster chooses none.
    pub policy: Arc<ClusterPolicy>,
    /// The cluster. The policy applies only while the service's fleet is this cluster's.
    pub by: PolicyCluster,
    /// When it came into force.
    pub since: SystemTime,
}

/// What is set at run time: the operator's overrides by service and key, and under them the
/// policies that clusters choose, by service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingOverrides {
    set: BTreeMap<(String, String), SettingOverride>,
    chosen: BTreeMap<String, ChosenPolicy>,
}

impl SettingOverrides {
    /// Iterates over the operator's overrides, with their service and key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &SettingOverride)> {
        let all = self.set.iter();
        all.map(|((service, key), set)| (service.as_str(), key.as_str(), set))
    }

    /// Number of the operator's overrides.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// Whether the operator has set nothing.
    pub fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// Sets a key of a service; `null` removes the override. `before` is the configuration in
    /// force.
    ///
    /// # Errors
    ///
    /// Fails if the key cannot be set at run time, or if the value is of a kind that no key has.
    pub fn set(
        &mut self,
        before: &Config,
        (service, key): (&str, &str),
        value: &Value,
        now: SystemTime,
    ) -> Result<(), String> {
        if let Some(why) = why_not(key) {
            return Err(format!("{key}: {why}"));
        }
        let place = (service.to_owned(), key.to_owned());
        if value.is_null() {
            self.set.remove(&place);
            return Ok(());
        }
        let value = to_toml(value).map_err(|why| format!("{key}: {why}"))?;
        let instead_of = match self.set.get(&place) {
            Some(set) if set.value == value => return Ok(()),
            Some(set) => set.instead_of.clone(),
            None => before.shown_value(service, key),
        };
        let set = SettingOverride {
            value,
            since: now,
            instead_of,
        };
        self.set.insert(place, set);
        if self.set.len() > OVERRIDES_MAX {
            return Err(format!(
                "{key}: is one too many, expected at most {OVERRIDES_MAX} at a time; what is to stay belongs in the file"
            ));
        }
        Ok(())
    }

    /// Restores an override from another process. It is validated when it is applied over the file
    /// and the flags.
    pub fn restore(&mut self, service: String, key: String, set: SettingOverride) {
        self.set.insert((service, key), set);
    }

    /// The policies that clusters choose, by service.
    pub const fn chosen(&self) -> &BTreeMap<String, ChosenPolicy> {
        &self.chosen
    }

    /// Sets the policy that a service's cluster chooses; an empty one removes the one before.
    pub fn choose(&mut self, service: &str, chosen: ChosenPolicy) {
        if chosen.policy.is_empty() {
            self.chosen.remove(service);
        } else {
            self.chosen.insert(service.to_owned(), chosen);
        }
    }

    /// Removes the policies that clusters choose, and returns them.
    pub fn take_chosen(&mut self) -> BTreeMap<String, ChosenPolicy> {
        core::mem::take(&mut self.chosen)
    }

    /// Removes the policies of clusters that are no longer the fleet of their service.
    pub fn forget_other_clusters(&mut self, config: &Config) {
        self.chosen
            .retain(|service, chosen| config.policy_cluster(service).as_ref() == Some(&chosen.by));
    }

    /// Removes the operator's overrides of a service, or of all services.
    pub fn forget(&mut self, service: Option<&str>) {
        let is_meant = |name: &str| service.is_none_or(|service| service == name);
        self.set.retain(|(name, _), _| !is_meant(name));
    }

    /// Removes the overrides of services that `config` does not have, and returns these services.
    /// Policies of clusters end with their services, too, and where the fleet is another cluster's.
    pub fn forget_absent(&mut self, config: &Config) -> BTreeSet<String> {
        self.forget_other_clusters(config);
        let names: BTreeSet<_> = (config.services.iter())
            .map(|service| service.name.as_str())
            .collect();
        let mut gone = BTreeSet::new();
        self.set.retain(|(service, _), _| {
            let stays = names.contains(service.as_str());
            if !stays {
                gone.insert(service.clone());
            }
            stays
        });
        gone
    }

    /// Applies all this over the file and the flags. What is for services that the file does not
    /// have is ignored, and so is a cluster's policy where the fleet is not a cluster's any more.
    pub(super) fn put_over<'s>(&'s self, reader: &mut Reader<'s>) {
        let is_named = reader.has("services");
        let prefix = |reader: &Reader<'_>, service: &str| {
            let section = format!("services.{service}");
            if is_named {
                reader.has(&section).then(|| section + ".")
            } else {
                (service == DEFAULT).then(String::new)
            }
        };
        for (service, chosen) in &self.chosen {
            let Some(prefix) = prefix(reader, service) else {
                continue;
            };
            if reader.has(&format!("{prefix}discovery.xds_cluster")) {
                for (key, value) in chosen.policy.keys() {
                    put(reader, &(prefix.clone() + key), value, Layer::ControlPlane);
                }
            }
        }
        for ((service, key), set) in &self.set {
            if let Some(prefix) = prefix(reader, service) {
                put(reader, &(prefix + key), &set.value, Layer::Operator);
            }
        }
    }
}

impl Config {
    /// The cluster that may choose the policy of a service.
    pub fn policy_cluster(&self, service: &str) -> Option<PolicyCluster> {
        let service = self.services.iter().find(|it| it.name == service)?;
        let FleetSource::Xds(FleetName::Cluster(name)) = &service.discovery.source else {
            return None;
        };
        Some(PolicyCluster {
            name: name.clone(),
            server: self.xds.server.as_ref()?.to_string(),
        })
    }

    /// The value in force of a service's key, in TOML; `None` if the key has no effect.
    pub fn shown_value(&self, service: &str, key: &str) -> Option<String> {
        let all: toml::Table = self.to_toml().parse().ok()?;
        let mut found = all.get("services")?.get(service)?;
        for step in key.split('.') {
            found = found.get(step)?;
        }
        Some(found.to_string())
    }
}

fn put<'s>(reader: &mut Reader<'s>, field: &str, value: &'s str, layer: Layer) {
    // `to_toml` wrote it, in this process or in its predecessor.
    if let Ok(value) = DeValue::parse(value) {
        reader.put_over(field, value.into_inner(), layer);
    }
}

/// All keys: first those of a service, then those of the process.
static KEYS: LazyLock<(BTreeSet<String>, BTreeSet<String>)> = LazyLock::new(|| {
    let source = Source::new("keys".into(), "[services.x]\n".to_owned());
    let reader = Reader::new(Some(&source), Vec::new());
    let fields = reader.map_or_else(
        |_| Vec::new(),
        |reader| assemble(reader, &Variables::default()).0,
    );
    let own = |field: &String| field.strip_prefix("services.x.").map(str::to_owned);
    let of_service: BTreeSet<_> = fields.iter().filter_map(own).collect();
    let of_process = fields.into_iter().filter(|field| own(field).is_none());
    let of_process = of_process.filter(|field| !of_service.contains(field));
    let of_process = of_process.collect();
    (of_service, of_process)
});

/// Returns why a key cannot be set at run time.
fn why_not(key: &str) -> Option<&'static str> {
    let is_within = |section: &str| {
        let rest = key.strip_prefix(section);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let says_where = [
        "replicas",
        "discovery.file",
        "discovery.dns",
        "discovery.srv",
        "discovery.xds",
        "discovery.xds_cluster",
        "discovery.kubernetes",
    ];
    if says_where.into_iter().any(is_within) {
        return Some(
            "determines the fleet, which the file defines; a replica can be drained, or have another weight",
        );
    }
    if ["replica.tls", "probe.key_file", "key.seed_file"]
        .into_iter()
        .any(is_within)
    {
        return Some("names files, or what is trusted; change it in the file, and reload");
    }
    let (of_service, of_process) = &*KEYS;
    let top = |field: &str| field.split('.').next().unwrap_or_default().to_owned();
    let is_known = of_service.iter().any(|field| top(field) == top(key));
    if !is_known || of_process.contains(key) {
        return Some("is no setting of a service; those of the process are changed in the file");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sections::{Loaded, Overrides};
    use serde_json::json;

    const SHORT: &str =
        "listen = \"127.0.0.1:8080\"\nreplicas = [\"10.0.0.1:80\"]\npolicy = \"random\"\n";
    const NAMED: &str = "listen = \"127.0.0.1:8080\"\n[services.web]\nreplicas = [\"10.0.0.1:80\"]\npolicy = \"random\"\n[[routes]]\nservice = \"web\"\n";

    fn load(text: &str, flags: &Overrides, over: &SettingOverrides) -> Result<Loaded, String> {
        let source = Source::new("a.toml".into(), text.to_owned());
        Config::load_over(Some(&source), flags, over).map_err(|mistakes| mistakes.in_a_line())
    }

    fn over(service: &str, settings: &[(&str, Value)]) -> SettingOverrides {
        let none = SettingOverrides::default();
        let before = load(SHORT, &Overrides::default(), &none).expect("valid");
        let mut over = none;
        for (key, value) in settings {
            let set = over.set(
                &before.config,
                (service, key),
                value,
                SystemTime::UNIX_EPOCH,
            );
            set.expect("may be set");
        }
        over
    }

    #[test]
    fn overrides_take_precedence_over_file_and_flags() {
        let set = [
            ("policy", json!("prequal")),
            ("prequal.pool_capacity", json!(20)),
            ("hedge.enabled", json!(true)),
            ("timeouts.connect", json!("300ms")),
        ];
        for (text, service) in [(SHORT, "default"), (NAMED, "web")] {
            let over = over(service, &set);
            let loaded = load(text, &Overrides::default(), &over).expect("valid");
            let found = |key| loaded.config.shown_value(service, key);
            assert_eq!(found("policy").as_deref(), Some("\"prequal\""));
            assert_eq!(found("prequal.pool_capacity").as_deref(), Some("20"));
            assert_eq!(found("hedge.enabled").as_deref(), Some("true"));
            assert_eq!(found("timeouts.connect").as_deref(), Some("\"300ms\""));
        }
        let flags = Overrides {
            policy: Some("round_robin".to_owned()),
            ..Overrides::default()
        };
        let flagged = load(SHORT, &flags, &SettingOverrides::default()).expect("valid");
        assert_eq!(flagged.config.services[0].policy.name, "round_robin");
        let loaded = load(SHORT, &flags, &over("default", &set)).expect("valid");
        assert_eq!(loaded.config.services[0].policy.name, "prequal");
    }

    #[test]
    fn invalid_overrides_have_the_messages_of_the_reader() {
        for (key, value, expected) in [
            (
                "policy",
                json!("prequel"),
                "override: policy: found \"prequel\"",
            ),
            (
                "prequal.pool_capacity",
                json!(1),
                "override: prequal.pool_capacity: found 1, expected",
            ),
            (
                "prequal.pool_size",
                json!(1),
                "override: prequal.pool_size: unknown key",
            ),
            (
                "policy.name",
                json!(1),
                "override: policy.name: policy is no section",
            ),
            (
                "hedge.enabled",
                json!("yes"),
                "override: hedge.enabled: found \"yes\", expected true or false",
            ),
            (
                "retries.statuses",
                json!([200]),
                "override: retries.statuses[0]: found 200, expected",
            ),
        ] {
            let over = over("default", &[(key, value)]);
            let told = load(SHORT, &Overrides::default(), &over).expect_err("mistaken");
            assert!(told.starts_with(expected), "{told}");
        }
    }

    #[test]
    fn process_keys_and_destinations_cannot_be_set_at_run_time() {
        let config = load(SHORT, &Overrides::default(), &SettingOverrides::default());
        let config = config.expect("valid").config;
        for (key, expected) in [
            ("replicas", "determines the fleet"),
            ("replicas[0].weight", "determines the fleet"),
            ("discovery.file", "determines the fleet"),
            ("discovery.dns", "determines the fleet"),
            ("replica.tls.ca", "names files"),
            ("replica.tls", "names files"),
            ("probe.key_file", "names files"),
            ("listen", "is no setting of a service"),
            ("workers", "is no setting of a service"),
            ("timeouts.head", "is no setting of a service"),
            ("admin.token_file", "is no setting of a service"),
            ("tls.client_ca", "is no setting of a service"),
            ("access_log.to", "is no setting of a service"),
            ("", "is no setting of a service"),
        ] {
            let mut over = SettingOverrides::default();
            let place = ("default", key);
            let refused = over.set(&config, place, &json!("x"), SystemTime::UNIX_EPOCH);
            let told = refused.expect_err(key);
            assert!(told.starts_with(&format!("{key}: {expected}")), "{told}");
            assert!(over.is_empty());
        }
        for strange in [
            json!({"a": 1}),
            json!([[1]]),
            json!([null]),
            json!(u64::MAX),
        ] {
            let place = ("default", "prequal.pool_capacity");
            let mut over = SettingOverrides::default();
            let refused = over.set(&config, place, &strange, SystemTime::UNIX_EPOCH);
            assert!(refused.is_err(), "{strange}");
        }
    }

    #[test]
    fn list_of_service_keys_without_override_is_complete() {
        let (of_service, _) = &*KEYS;
        assert!(of_service.len() > 60, "{of_service:?}");
        let refused = of_service.iter().filter(|key| why_not(key).is_some());
        let refused: Vec<_> = refused.map(String::as_str).collect();
        let on_purpose = [
            "discovery.dns",
            "discovery.file",
            "discovery.kubernetes",
            "discovery.srv",
            "discovery.xds",
            "discovery.xds_cluster",
            "key.seed_file",
            "probe.key_file",
            "replica.tls.ca",
            "replica.tls.certificate",
            "replica.tls.key",
            "replica.tls.server_name",
            "replica.tls.verify",
            "replicas",
        ];
        assert_eq!(refused, on_purpose);
    }

    #[test]
    fn override_keeps_the_previous_value_and_its_start() {
        let config = load(SHORT, &Overrides::default(), &SettingOverrides::default());
        let config = config.expect("valid").config;
        let at = |seconds| SystemTime::UNIX_EPOCH + core::time::Duration::from_secs(seconds);
        let mut over = SettingOverrides::default();
        let mut set = |value, now| {
            let place = ("default", "policy");
            over.set(&config, place, &value, at(now))
                .expect("may be set");
            over.iter().next().map(|(_, _, set)| set.clone())
        };
        let first = set(json!("prequal"), 1).expect("set");
        assert_eq!(first.instead_of.as_deref(), Some("\"random\""));
        assert_eq!(
            set(json!("prequal"), 2).map(|it| it.since),
            Some(at(1)),
            "no change"
        );
        let other = set(json!("round_robin"), 3).expect("set");
        assert_eq!((other.since, other.instead_of), (at(3), first.instead_of));
        assert_eq!(set(Value::Null, 4), None);
        over.set(&config, ("gone", "policy"), &json!("random"), at(5))
            .expect("may be set");
        assert_eq!(
            over.forget_absent(&config),
            BTreeSet::from(["gone".to_owned()])
        );
        assert!(over.is_empty());
    }
}
