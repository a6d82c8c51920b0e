//! Says in the log, once, that a replica answers no probes, and what it is balanced by instead. `[A13]`
//!
//! A replica counts as silent here while it is so for any worker; when it is heard again, that is said, too. Policies that
//! send no probes have nothing to say.

use super::status::Workers;
use crate::admin::silent_note;
use crate::config::ServiceConfig;
use core::time::Duration;
use std::sync::Weak;

/// How often is looked. A replica is called silent only after several lost probes, so nothing is missed in between.
const PERIOD: Duration = Duration::from_secs(1);

/// Watches until the workers are gone.
pub(super) async fn watch(workers: Weak<Workers>) {
    let mut silent: Vec<Vec<bool>> = Vec::new();
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(workers) = workers.upgrade() else {
            return;
        };
        let services = &workers.config.services;
        let now: Vec<_> = (0..services.len())
            .map(|index| workers.silent(index))
            .collect();
        for (index, service) in services.iter().enumerate() {
            let before = silent.get(index).map_or(&[][..], Vec::as_slice);
            tell(service, before, &now[index]);
        }
        silent = now;
    }
}

fn tell(service: &ServiceConfig, before: &[bool], now: &[bool]) {
    for (index, replica) in service.replicas.iter().enumerate() {
        let was_silent = before.get(index).copied().unwrap_or(false);
        let is_silent = now.get(index).copied().unwrap_or(false);
        match (was_silent, is_silent) {
            (false, true) => tracing::warn!(
                service = service.name,
                replica = replica.name,
                probes_to = %replica.probe_address,
                "{}",
                silent_note(service.policy.name)
            ),
            (true, false) => {
                tracing::info!(
                    service = service.name,
                    replica = replica.name,
                    "answers probes"
                );
            }
            _ => (),
        }
    }
}
