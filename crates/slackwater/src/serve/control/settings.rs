//! Settings of a service that are set at run time and override the file and the flags.

use super::super::running::Running;
use super::super::written::{Choices, Read, Written};
use super::fault;
use super::replicas::find_service;
use core::net::SocketAddr;
use slackwater_admin::{Changed, Refused, SettingsChange, SettingsChanged};
use slackwater_config::SettingOverrides;
use slackwater_config::toml_reader::Mistakes;
use std::time::SystemTime;

/// Sets the settings, or reports what would change in a dry run. If any part is mistaken, nothing
/// changes.
pub(super) async fn change(
    running: &mut Running,
    written: &mut Written,
    by: SocketAddr,
    change: SettingsChange,
) -> Result<SettingsChanged, Refused> {
    let services = running.services();
    let service = find_service(&services, change.service.as_deref())?;
    let service = service.config.name.clone();
    let (mut set, now) = (written.set.clone(), SystemTime::now());
    let mut mistaken = Vec::new();
    for (key, value) in &change.set {
        let place = (service.as_str(), key.as_str());
        mistaken.extend(set.set(running.config(), place, value, now).err());
    }
    if !mistaken.is_empty() {
        return Err(Refused::Mistaken(mistaken.join("\n")));
    }
    // The settings are checked as part of the whole configuration before anything changes.
    let read = written
        .load_with(set, Choices::new())
        .await
        .map_err(fault)?;
    let read = read.map_err(|mistakes| refused(&mistakes))?;
    let changed: Vec<_> = (change.set.keys())
        .map(|key| Changed {
            key: key.clone(),
            from: running.config().shown_value(&service, key),
            to: read.loaded.config.shown_value(&service, key),
        })
        .filter(|changed| changed.from != changed.to)
        .collect();
    let meaning = super::meaning(
        &running.proxy.would_change(&read.loaded.config),
        &read.loaded.remarks,
        &read.sources.refused,
    );
    if !change.dry_run {
        put_in_force(running, written, read).await?;
        for changed in &changed {
            let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
            tracing::info!(
                peer = %by,
                service,
                key = changed.key,
                from = shown(&changed.from),
                to = shown(&changed.to),
                "setting changed at run time"
            );
        }
        for remark in &meaning.remarks {
            tracing::info!("{remark}");
        }
    }
    Ok(SettingsChanged {
        dry_run: change.dry_run,
        changed,
        meaning,
    })
}

/// Replaces all settings that are set at run time. A policy of a cluster that contradicts the rest
/// without them is dropped: it must not keep the operator from removing overrides.
pub(super) async fn take(
    running: &mut Running,
    written: &mut Written,
    mut set: SettingOverrides,
) -> Result<(), Refused> {
    let choices = set.take_chosen();
    let read = written.load_with(set, choices).await.map_err(fault)?;
    let read = read.map_err(|mistakes| refused(&mistakes))?;
    put_in_force(running, written, read).await
}

async fn put_in_force(
    running: &mut Running,
    written: &mut Written,
    read: Read,
) -> Result<(), Refused> {
    let Read { loaded, sources } = read;
    running.proxy.reload(loaded.config).await.map_err(fault)?;
    written.take(sources, running.config());
    running.status.set_settings(written);
    Ok(())
}

fn refused(mistakes: &Mistakes) -> Refused {
    Refused::Mistaken(mistakes.lines().join("\n"))
}
