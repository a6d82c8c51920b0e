//! What is valid but probably not meant: settings that do nothing, rates that cannot keep the pool filled, an admin
//! server that the network can reach.

use super::model::has_probes;
use super::prequal::PrequalSection;
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

/// Settings of the probing policies that the selected policy does not read.
pub(super) fn unread(reader: &Reader<'_>, policy: &str, prequal: &PrequalSection) -> Vec<Remark> {
    let said_sections = ["prequal", "probe"].map(|section| reader.said_section(section));
    let unread_fields = |read_by_other: &dyn Fn(&str) -> bool, other: &str| {
        let said = prequal.said.iter();
        said.filter(|(field, _)| read_by_other(field))
            .map(|(_, said)| {
                warning(
                    said,
                    format!("does nothing with policy = {policy:?}, only with {other:?}"),
                )
            })
            .collect()
    };
    match policy {
        "prequal" => unread_fields(&|field| field.starts_with("sync_"), "prequal_sync"),
        "prequal_sync" => unread_fields(&|field| !SYNC_FIELDS.contains(&field), "prequal"),
        _ if has_probes(policy) => Vec::new(),
        _ => (said_sections.iter().flatten())
            .map(|said| {
                warning(
                    said,
                    format!("does nothing with policy = {policy:?}, which sends no probes"),
                )
            })
            .collect(),
    }
}

/// A section `[probe]` where no probe is sent.
pub(super) fn unused_probes(reader: &Reader<'_>) -> Option<Remark> {
    let said = reader.said_section("probe")?;
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
    prequal: &PrequalSection,
    config: &PrequalConfig,
    replicas: u32,
) -> Option<Remark> {
    let is_small = u64::from(replicas) <= u64::from(config.pool_capacity);
    if is_small || config.refills(replicas) || config.local_only {
        return None;
    }
    let causes = ["probe_rate", "remove_rate", "pool_capacity"];
    let (field, said) = (prequal.said.iter()).find(|(field, _)| causes.contains(field))?;
    let remedy = match *field {
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
