//! What is valid but probably not meant: settings that do nothing, rates that cannot keep the pool filled, an admin
//! server that the network can reach.

use super::health::HealthCheck;
use super::model::ServiceConfig;
use super::policies::{PolicySections, all_sections, has_probes, readers_of, reads};
use crate::toml_reader::{Reader, Remark, Said, Severity};
use slackwater_core::policy::prequal::PrequalConfig;

/// The fields of `[prequal]` that `prequal_sync` reads.
const SYNC_FIELDS: [&str; 3] = ["rif_limit_quantile", "sync_probes", "sync_deadline"];

fn warning(said: &Said, message: impl Into<String>) -> Remark {
    Remark {
        severity: Severity::Warning,
        about: said.mistake(message),
    }
}

/// Settings that the selected policy does not read.
pub(super) fn unread(
    reader: &Reader<'_>,
    prefix: &str,
    policy: &str,
    policies: &PolicySections,
) -> Vec<Remark> {
    let mut remarks = unread_sections(reader, prefix, policy);
    remarks.extend(unread_fields(policy, policies));
    remarks
}

fn unread_sections(reader: &Reader<'_>, prefix: &str, policy: &str) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for section in all_sections() {
        if let Some(said) = reader.said_section(&format!("{prefix}{section}"))
            && !reads(policy, section)
        {
            remarks.push(warning(&said, does_nothing(policy, section)));
        }
    }
    if let Some(said) = reader.said_section(&format!("{prefix}probe"))
        && !has_probes(policy)
    {
        remarks.push(warning(&said, does_nothing(policy, "prequal")));
    }
    remarks
}

fn does_nothing(policy: &str, section: &str) -> String {
    if section == "prequal" && !has_probes(policy) {
        return format!("does nothing with policy = {policy:?}, which sends no probes");
    }
    let readers: Vec<_> = readers_of(section)
        .map(|reader| format!("{reader:?}"))
        .collect();
    format!(
        "does nothing with policy = {policy:?}, only with {}",
        readers.join(", ")
    )
}

/// Fields of `[prequal]` that are for other policies than the selected one, which reads the section, too.
fn unread_fields(policy: &str, policies: &PolicySections) -> Vec<Remark> {
    let is_unread = |field: &str| match policy {
        "prequal" => field.starts_with("sync_"),
        "prequal_sync" => !SYNC_FIELDS.contains(&field),
        _ => reads(policy, "prequal") && SYNC_FIELDS.contains(&field),
    };
    let reader_of = |field: &str| match field {
        "sync_probes" | "sync_deadline" => "prequal_sync",
        _ => "prequal",
    };
    (policies.said_in("prequal"))
        .filter(|(field, _)| is_unread(field))
        .map(|(field, said)| {
            warning(
                said,
                format!(
                    "does nothing with policy = {policy:?}, only with {:?}",
                    reader_of(field)
                ),
            )
        })
        .collect()
}

/// A section `probe` where no probe is sent.
pub(super) fn unused_probes(reader: &Reader<'_>, prefix: &str) -> Option<Remark> {
    let said = reader.said_section(&format!("{prefix}probe"))?;
    Some(warning(
        &said,
        "does nothing with prequal.local_only = true, which sends no probes",
    ))
}

/// Rates or a pool that were set so that probing refills the pool no faster than removal by rate drains it. `[A10]`
///
/// Defaults that come to the same are nobody's mistake and nothing to be told. In a fleet no larger than the pool it is so
/// whatever the rates are, and the pool then holds a report of every replica anyway.
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
    let (field, said) = (policies.said_in("prequal")).find(|(field, _)| causes.contains(field))?;
    let remedy = match field {
        "probe_rate" => "raise it, or lower prequal.remove_rate",
        "remove_rate" => "lower it, or raise prequal.probe_rate",
        _ => "lower it, or prequal.remove_rate",
    };
    Some(warning(
        said,
        format!(
            "with {replicas} replicas reports are removed from the pool at least as fast as probes bring new ones, so it \
             shrinks to two; {remedy}"
        ),
    ))
}

/// An admin server beyond loopback.
pub(super) fn exposed_admin(address: core::net::SocketAddr, said: Option<&Said>) -> Option<Remark> {
    let said = said.filter(|_| !address.ip().to_canonical().is_loopback())?;
    Some(warning(
        said,
        format!(
            "{address} is not loopback: whoever reaches it can read the status, and nothing asks who they are"
        ),
    ))
}

/// Decisions that nobody could ask for.
pub(super) fn untold_decisions(said: &Said) -> Remark {
    warning(
        said,
        "does nothing without admin.listen: decisions are told by the admin server, and none is kept",
    )
}

/// A backup that nothing would ever tell from the others that it is needed; `said` is where it was given.
pub(super) fn blind_tiers(service: &ServiceConfig, said: &Said) -> Option<Remark> {
    let is_blind = service.health.check == HealthCheck::None && !service.sends_probes();
    is_blind.then(|| Remark {
        severity: Severity::Warning,
        about: said.mistake(
            "is of a tier that is never used: without health checks and without probes nobody finds out that those of a \
             lower one are away; expected [health], or a policy and a transport with probes",
        ),
    })
}
