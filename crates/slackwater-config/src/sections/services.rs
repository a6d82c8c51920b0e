//! Services: fleets with a policy each. A service is `[services.NAME]` with the sections in it. A
//! single service may have its keys at the top of the file instead; it is then called `default`.
//!
//! Every key of a service is read with a prefix: empty or `services.NAME.`.

use super::discovery::{DiscoverySettings, FleetSource};
use super::fleet::{Listener, note_loops, read_replicas};
use super::health;
use super::hedge::HedgingSettings;
use super::key::KeyRouting;
use super::key_use::KeyUse;
use super::kinds::{NAME_BYTES_MAX, is_name};
use super::model::{ProbeTransport, ServiceConfig, Timeouts};
use super::passive_health::read_passive_health;
use super::policies::PolicySections;
use super::policies::foreign_names::policy;
use super::probe::ProbeSection;
use super::proxy_protocol::note_proxy_protocol_out;
use super::remarks;
use super::replica::read_replica_settings;
use super::retries::RetrySettings;
use super::sticky::StickySettings;
use super::subset::SubsetSettings;
use super::tie::TyingSettings;
use super::zone::ZoneSettings;
use crate::table::{self, Described, Judge, Kind, Meaning, settings};
use crate::toml_reader::values::{Unfit, quote};
use crate::toml_reader::{Reader, Remark, Setting};
use serde_json::json;
use slackwater_core::policy::{DEFAULT_POLICY, POLICIES, PolicyEntry, PolicySettings, Reports};
use toml::de::DeValue;

/// The name of the service at the top of the file.
pub(super) const DEFAULT: &str = "default";
/// The most services.
const SERVICES_MAX: usize = 1024;

settings! {
    /// The keys of a service that are in no section.
    pub(super) struct ServiceKeys in "" {
        /// How the replica of each request is chosen ([which one for which
        /// fleet](../explanation/choosing-a-policy.md)). If no policy is named, the log says so
        /// once at the start.
        policy: &'static PolicyEntry = &DEFAULT_POLICY, PolicyName;
    } then {
        /// The servers that take the requests. Each address once; not this process itself.
        replicas: Described("a list of 1 to 65,536 addresses or tables", r#"{"anyOf": [{"type": "string"}]}"#), "required";
    }
}

/// The name of a policy.
struct PolicyName;

impl Kind<&'static PolicyEntry> for PolicyName {
    fn read(&self, value: &DeValue<'_>) -> Result<&'static PolicyEntry, Unfit> {
        let names: Vec<_> = POLICIES.iter().map(|entry| (entry.name, entry)).collect();
        policy(value, &names)
    }

    fn show(&self, value: &&'static PolicyEntry) -> Option<String> {
        Some(quote(value.name))
    }

    fn meaning(&self, _: &Judge<'_, &'static PolicyEntry>) -> Meaning {
        let names: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
        Meaning::of(
            "one of the [names below](#the-policies)",
            json!({"enum": names}),
        )
    }
}

/// Reads all services. Remarks go to `remarks`, names of services without a policy to
/// `policies_unnamed`. `own` are this process's listeners: clients' and the admin server's. `whole`
/// applies to all services.
pub(super) fn read_services(
    reader: &mut Reader<'_>,
    own: (&[Listener], Option<&Listener>),
    whole: (&Timeouts, &ZoneSettings),
    remarks: &mut Vec<Remark>,
    policies_unnamed: &mut Vec<String>,
) -> Vec<ServiceConfig> {
    let named = reader.take_tables("services");
    if !reader.has("services") {
        let prefix = String::new();
        let service =
            Section { prefix, own }.read(reader, DEFAULT, whole, remarks, policies_unnamed);
        return vec![service];
    }
    if named.is_empty() && reader.has_section("services") {
        reader.add_mistake_near(
            "services",
            "names no service, expected sections such as [services.web]".to_owned(),
        );
    }
    if let Some((_, definition)) = named.get(SERVICES_MAX) {
        let told = format!("is one too many, expected at most {SERVICES_MAX} services");
        reader.add_mistake(definition.mistake(told));
    }
    let mut services = Vec::new();
    for (name, definition) in named.into_iter().take(SERVICES_MAX) {
        if !is_name(&name) {
            reader.give_up(&definition.field);
            reader.add_mistake(definition.mistake(format!(
                "found the name {name:?}, expected from 1 to {NAME_BYTES_MAX} letters, digits, - and _"
            )));
            continue;
        }
        let prefix = format!("services.{name}.");
        services.push(Section { prefix, own }.read(
            reader,
            &name,
            whole,
            remarks,
            policies_unnamed,
        ));
    }
    services
}

/// The prefix of a service's keys, and the addresses that cannot be its replicas.
struct Section<'o> {
    prefix: String,
    own: (&'o [Listener], Option<&'o Listener>),
}

impl Section<'_> {
    fn read(
        &self,
        reader: &mut Reader<'_>,
        name: &str,
        (timeouts, zone): (&Timeouts, &ZoneSettings),
        remarks: &mut Vec<Remark>,
        policies_unnamed: &mut Vec<String>,
    ) -> ServiceConfig {
        let prefix = self.prefix.as_str();
        let keys: ServiceKeys = table::read(reader, prefix);
        let policy = Setting {
            value: keys.policy,
            definition: reader.definition(&format!("{prefix}policy")),
        };
        if policy.definition.is_none() {
            policies_unnamed.push(name.to_owned());
        }
        let probe = ProbeSection::read(reader, prefix);
        let mut policies = PolicySections::read(reader, prefix);
        let (discovery, idle) = DiscoverySettings::read(reader, prefix);
        remarks.extend(idle);
        let replica = read_replica_settings(reader, prefix, |_| true, remarks);
        note_proxy_protocol_out(reader, prefix, &replica, &probe);
        let replicas = match discovery.source {
            FleetSource::List => read_replicas(reader, prefix, probe.port, replica.tls.as_ref()),
            FleetSource::Dns(_)
            | FleetSource::File(_)
            | FleetSource::Kubernetes(_)
            | FleetSource::Xds(_) => Vec::new(),
        };
        let retries = RetrySettings::read(reader, prefix);
        let hedge = HedgingSettings::read(reader, prefix, remarks);
        let tie = TyingSettings::read(reader, prefix, policy.value, remarks);
        let queue = table::read(reader, prefix);
        let health = table::read(reader, prefix);
        remarks.extend(health::unused(reader, prefix, &health));
        let failure_penalty = (policies.set_keys().iter())
            .find(|it| policy.value.failure_penalty == Some((it.section, it.key)));
        let failure_penalty = failure_penalty.map(|it| &it.definition);
        let (passive_health, idle) =
            read_passive_health(reader, prefix, failure_penalty, discovery.warm_up);
        remarks.extend(idle);
        let (sticky, sticky_remarks) = StickySettings::read(reader, prefix);
        let key = KeyRouting::read(reader, prefix, probe.hint_homes(), remarks);
        // Remember what the user set: without a transport, `local_only` is set below in any case.
        let sync = &policies.settings.prequal;
        let (is_local_only, sync_probes) = (sync.local_only, sync.sync_probes);
        let sync_probes_at = (policies.set_keys().iter()).find(|it| it.key == "sync_probes");
        let key_use = KeyUse {
            policy: policy.value,
            probe: &probe,
            sticky: &sticky,
            sync_probes,
            sync_probes_at: sync_probes_at.map(|it| &it.definition),
            replicas: replicas.len(),
        };
        remarks.extend(key_use.remarks(&key, reader, prefix));
        let subset: SubsetSettings = table::read(reader, prefix);
        remarks.extend(subset.remarks(&sticky, &key, reader, prefix));
        let timeouts = read_service_timeouts(reader, prefix, timeouts);
        note_loops(reader, self.own.0, self.own.1, &replicas);

        if probe.transport.value == ProbeTransport::None {
            if policy.value.may_be_local() {
                send_no_probes(&mut policies.settings);
            }
            note_blind(reader, &policy, &probe.transport);
        }

        remarks.extend(remarks::unread(reader, prefix, &policy, &policies, &probe));
        probe.note_tls(reader, replica.tls.is_some());
        remarks.extend(probe.remarks());
        remarks.extend(sticky_remarks);
        let may_be_local = policy.value.may_be_local();
        if is_local_only && may_be_local && probe.transport.value != ProbeTransport::None {
            remarks.extend(remarks::unused_probes(reader, prefix, &probe));
        }
        // The fleet's size is known only for a list; DNS and files may change it later.
        if policy.value.removes_by_rate()
            && let Ok(fleet @ 1..) = u32::try_from(replicas.len())
        {
            let config = &policies.settings.prequal;
            remarks.extend(remarks::refilling(&policies, config, fleet));
        }
        // One replica of a higher tier is enough for a remark about tiers.
        let backup = replicas.iter().find(|(replica, _)| replica.tier > 0);
        let backup = backup.map(|(_, definition)| definition.clone());
        let zoned = (replicas.iter()).find(|(replica, _)| replica.zone.name().is_some());
        let zoned = zoned.map(|(_, definition)| definition.clone());
        let service = ServiceConfig {
            name: name.to_owned(),
            policy: policy.value,
            policy_settings: policies.settings,
            discovery,
            subset,
            replicas: replicas.into_iter().map(|(replica, _)| replica).collect(),
            probe: probe.into_settings(replica.tls.is_some()),
            replica,
            retries,
            hedge,
            tie,
            queue,
            health,
            passive_health,
            sticky,
            zone: zone.clone(),
            key,
            timeouts,
        };
        remarks.extend(backup.and_then(|backup| remarks::blind_tiers(&service, &backup)));
        remarks.extend(zoned.and_then(|zoned| remarks::idle_replica_zone(&service, &zoned)));
        service
    }
}

/// Turns probes off for policies that work without them.
fn send_no_probes(settings: &mut PolicySettings) {
    let mut prequal = settings.prequal.clone().into_inner();
    prequal.local_only = true;
    if let Ok(valid) = prequal.validate() {
        settings.prequal = valid;
    }
}

/// Records a mistake if the policy needs probe responses and there is no transport.
fn note_blind(
    reader: &mut Reader<'_>,
    policy: &Setting<&'static PolicyEntry>,
    transport: &Setting<ProbeTransport>,
) {
    let why = match policy.value.reports {
        Reports::Round => "which probes replicas for each query",
        Reports::Polled => "which polls replicas all the time",
        Reports::None | Reports::Pool | Reports::Latest => return,
    };
    if let Some(definition) = &transport.definition {
        let name = policy.value.name;
        reader.add_mistake(definition.mistake(format!(
            "found \"none\" with policy = {name:?}, {why}; expected \"udp\" or \"http\""
        )));
    }
}

/// Reads the service's own timeouts; the others keep the process-wide values.
fn read_service_timeouts(reader: &mut Reader<'_>, prefix: &str, whole: &Timeouts) -> Timeouts {
    let mut timeouts = whole.clone();
    table::read_keys(reader, prefix, &mut timeouts, |name| {
        Timeouts::OF_SERVICE.contains(&name)
    });
    timeouts
}
