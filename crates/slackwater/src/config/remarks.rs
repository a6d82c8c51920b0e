//! What is valid but probably not meant: settings that do nothing, rates that cannot keep the pool filled, an admin
//! server that the network can reach.

use super::mistake::{Remark, Severity};
use super::model::has_probes;
use super::prequal::PrequalSection;
use super::reader::{Reader, Said};
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

/// Whether probing refills the pool faster than removal by rate drains it. `[A10]`
pub(super) fn refilling(
    prequal: &PrequalSection,
    config: &PrequalConfig,
    replicas: u32,
    fallback: &Said,
) -> Option<Remark> {
    if config.refills(replicas) || config.local_only {
        return None;
    }
    // With the defaults a small fleet is nobody's mistake, so it is only worth a note.
    let rates = ["probe_rate", "remove_rate", "pool_capacity"];
    let said = (prequal.said.iter()).find(|(field, _)| rates.contains(field));
    let (severity, said) = match said {
        Some((_, said)) => (Severity::Warning, said),
        None => (Severity::Note, fallback),
    };
    Some(Remark {
        severity,
        about: said.mistake(format!(
            "with {replicas} replicas, probes refill the pool no faster than remove_rate drains it: \
             (1 - {}/{replicas}) x {} <= {}; removal by rate then stops at two reports [A10]",
            config.pool_capacity, config.probe_rate, config.remove_rate
        )),
    })
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
