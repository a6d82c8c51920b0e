//! Remarks on settings that are valid but probably not meant: settings without effect, rates that
//! cannot keep the pool filled, an admin server that the network can reach.

use super::discovery::FleetSource;
use super::health::HealthCheck;
use super::idle::is_other;
use super::kubernetes::{KubernetesSettings, Topology};
use super::model::ServiceConfig;
use super::policies::PolicySections;
use super::probe::ProbeSection;
use super::zone::ZoneSettings;
use crate::routes::{Action, Route};
use crate::toml_reader::{Definition, Reader, Remark, Setting, Severity};
use slackwater_core::policy::prequal::{PrequalConfig, PrequalSettings};
use slackwater_core::policy::{POLICIES, PolicyEntry, Section};

fn warning(definition: &Definition, message: impl Into<String>) -> Remark {
    Remark {
        severity: Severity::Warning,
        about: definition.mistake(message),
    }
}

/// The policy, and where it was set; `None` for the default.
type Policy = Setting<&'static PolicyEntry>;

/// Settings that the selected policy does not read.
pub(super) fn unread(
    reader: &Reader<'_>,
    prefix: &str,
    policy: &Policy,
    policies: &PolicySections,
    probe: &ProbeSection,
) -> Vec<Remark> {
    let mut remarks = unread_sections(reader, prefix, policy, policies);
    if !policy.value.has_probes() {
        let why = sends_none(policy.value.name);
        remarks.extend(idle_probes(reader, prefix, probe, why));
    }
    remarks.extend(unread_fields(policy, policies));
    remarks
}

fn unread_sections(
    reader: &Reader<'_>,
    prefix: &str,
    policy: &Policy,
    policies: &PolicySections,
) -> Vec<Remark> {
    let mut remarks = Vec::new();
    let entry = policy.value;
    let is_unread = |section: &str| {
        !entry.reads(section) && policies.set_keys().iter().any(|it| it.section == section)
    };
    for &section in policies.names.iter().filter(|section| is_unread(section)) {
        if let Some(definition) = reader.section_definition(&format!("{prefix}{section}")) {
            let message = if section == PrequalSettings::NAME && !entry.has_probes() {
                sends_none(entry.name)
            } else {
                does_nothing(policy, |reader| reader.reads(section))
            };
            remarks.push(warning(&definition, message));
        }
    }
    remarks
}

fn sends_none(policy: &str) -> String {
    format!("does nothing with policy = {policy:?}, which sends no probes")
}

fn does_nothing(policy: &Policy, is_reader: impl Fn(&PolicyEntry) -> bool) -> String {
    let readers = POLICIES.iter().filter(|entry| is_reader(entry));
    let readers: Vec<_> = readers.map(|reader| format!("{:?}", reader.name)).collect();
    let (name, only) = (policy.value.name, readers.join(", "));
    if policy.definition.is_some() {
        return format!("does nothing with policy = {name:?}, only with {only}");
    }
    let which = if readers.len() == 1 {
        "it"
    } else {
        "one of them"
    };
    format!(
        "does nothing with policy = {name:?}, the default, only with {only}; name {which} as policy, or leave this out"
    )
}

/// Keys that only other policies read, in a section that the selected policy reads.
fn unread_fields(policy: &Policy, policies: &PolicySections) -> Vec<Remark> {
    let entry = policy.value;
    let set_keys = policies.set_keys().iter();
    set_keys
        .filter(|it| entry.reads(it.section) && !entry.reads_key(it.section, it.key))
        .map(|it| {
            let is_reader = |reader: &PolicyEntry| reader.reads_key(it.section, it.key);
            warning(&it.definition, does_nothing(policy, is_reader))
        })
        .collect()
}

/// Warns about a section `probe` where no probe is sent, as the setting demands.
pub(super) fn unused_probes(
    reader: &Reader<'_>,
    prefix: &str,
    probe: &ProbeSection,
) -> Option<Remark> {
    let why = "does nothing with prequal.local_only = true, which sends no probes";
    idle_probes(reader, prefix, probe, why.to_owned())
}

fn idle_probes(
    reader: &Reader<'_>,
    prefix: &str,
    probe: &ProbeSection,
    why: String,
) -> Option<Remark> {
    let definition = reader.section_definition(&format!("{prefix}probe"))?;
    (!probe.is_default()).then(|| warning(&definition, why))
}

/// Warns if the rates or the pool were set so that probing refills the pool no faster than removal
/// by rate drains it. `[A10]`
///
/// Defaults with the same result cause no warning. Neither does a fleet no larger than the pool:
/// its pool holds a report of every replica at any probe rate.
pub(super) fn refilling(
    policies: &PolicySections,
    config: &PrequalConfig,
    replicas: u32,
) -> Option<Remark> {
    let is_small = u64::from(replicas) <= u64::from(config.pool_capacity);
    if is_small || config.refills(replicas) || config.local_only {
        return None;
    }
    let causes = ["probe_rate", "remove_rate", "pool_capacity"];
    let (field, definition) =
        (policies.set_keys_in(PrequalSettings::NAME)).find(|(field, _)| causes.contains(field))?;
    let remedy = match field {
        "probe_rate" => "raise it, or lower prequal.remove_rate",
        "remove_rate" => "lower it, or raise prequal.probe_rate",
        _ => "lower it, or prequal.remove_rate",
    };
    Some(warning(
        definition,
        format!(
            "with {replicas} replicas reports are removed from the pool at least as fast as probes bring new ones, so it \
             shrinks to a few; {remedy}"
        ),
    ))
}

/// Warns about an admin server beyond loopback.
pub(super) fn exposed_admin(
    address: core::net::SocketAddr,
    definition: Option<&Definition>,
    may_change: bool,
) -> Option<Remark> {
    let definition = definition.filter(|_| !address.ip().to_canonical().is_loopback())?;
    let of_token = if may_change {
        "; the token travels in the clear"
    } else {
        ""
    };
    Some(warning(
        definition,
        format!(
            "{address} is not loopback: any client that reaches it can read the status without authentication{of_token}"
        ),
    ))
}

/// Warns about decisions without an admin server to show them.
pub(super) fn unshown_decisions(definition: &Definition) -> Remark {
    warning(
        definition,
        "does nothing without admin.listen: only the admin server shows decisions, so none is recorded",
    )
}

/// Warns about a backup tier that can never be used, because nothing detects that the lower tiers
/// have failed. `definition` is where the tier was set.
pub(super) fn blind_tiers(service: &ServiceConfig, definition: &Definition) -> Option<Remark> {
    let is_blind = service.health.check == HealthCheck::None && !service.sends_probes();
    is_blind.then(|| Remark {
        severity: Severity::Warning,
        about: definition.mistake(
            "is of a tier that is never used: without health checks and probes, nothing detects that the replicas \
             of a lower tier have failed; expected [health], or a policy and a transport with probes",
        ),
    })
}

/// Warns about keys of `[zone]` that do nothing. A zone that a variable names is no reason for a
/// remark: every pod of a deployment may have it.
pub(super) fn idle_zone(
    zone: &ZoneSettings,
    reader: &Reader<'_>,
    services: &[ServiceConfig],
    kubernetes: &KubernetesSettings,
) -> Option<Remark> {
    if zone.name.name().is_none() {
        let definition = reader.definition("zone.round_trip");
        let definition = definition.filter(|_| is_other(zone, "round_trip"))?;
        return Some(warning(&definition, "does nothing without zone.name"));
    }
    let follows_hints = |service: &ServiceConfig| {
        kubernetes.topology == Topology::Hints
            && matches!(service.discovery.source, FleetSource::Kubernetes(_))
    };
    let uses_zones = |service: &ServiceConfig| service.policy.uses_zones || follows_hints(service);
    let definition = reader.definition("zone.name")?;
    let first = services
        .first()
        .filter(|_| !services.iter().any(uses_zones));
    first.map(|service| warning(&definition, ignores_zones(service)))
}

/// Warns about the zone of a listed replica that does nothing. `definition` is where the replica
/// was set.
pub(super) fn idle_replica_zone(
    service: &ServiceConfig,
    definition: &Definition,
) -> Option<Remark> {
    if !service.policy.uses_zones {
        let message = format!("has a zone, which {}", ignores_zones(service));
        return Some(warning(definition, message));
    }
    let told = "has a zone, which does nothing without zone.name or SLACKWATER_ZONE";
    (service.zone.name.name().is_none()).then(|| warning(definition, told))
}

fn ignores_zones(service: &ServiceConfig) -> String {
    let policy = service.policy.name;
    format!("does nothing with policy = {policy:?}, which ignores zones")
}

/// Warns about services whose cookies have the same name, if one client may reach both: through a
/// listener and a host that both services' routes have in common.
pub(super) fn shared_cookies(
    reader: &Reader<'_>,
    services: &[ServiceConfig],
    routes: &[Route],
) -> Vec<Remark> {
    let leads_to = |route: &Route, service: usize| match &route.then {
        Action::Forward(forward) => {
            let mut parts = forward.services.parts().iter();
            parts.any(|(place, weight)| *place == service && *weight > 0)
        }
        _ => false,
    };
    let meet = |one: usize, other: usize| {
        let ways = |service| routes.iter().filter(move |route| leads_to(route, service));
        ways(one).any(|route| ways(other).any(|way| route.when.shares_clients(&way.when)))
    };
    let mut remarks = Vec::new();
    for (place, service) in services.iter().enumerate() {
        let before = services.iter().enumerate().take(place);
        let mut sharing = before.filter(|(other, before)| {
            service.sticky.shares_cookie(&before.sticky) && meet(place, *other)
        });
        if let Some((_, other)) = sharing.next()
            && let Some(definition) =
                reader.section_definition(&format!("services.{}.sticky", service.name))
        {
            remarks.push(Remark {
                severity: Severity::Warning,
                about: definition.mistake(format!(
                    "the cookie {:?} is that of service {:?}, too, and clients that reach both lose their replica with each \
                     change; give one of them another sticky.cookie",
                    service.sticky.cookie, other.name
                )),
            });
        }
    }
    remarks
}
