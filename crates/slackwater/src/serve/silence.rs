//! Says in the log, once, that a replica answers no probes, and what it is balanced by instead. `[A13]`
//!
//! A replica counts as silent here while it is so for any worker; when it is heard again, that is said, too. Policies that
//! send no probes have nothing to say.

use super::status::Workers;
use crate::admin::silent_note;
use core::time::Duration;
use std::sync::Weak;

/// How often is looked. A replica is called silent only after several lost probes, so nothing is missed in between.
const PERIOD: Duration = Duration::from_secs(1);

/// Watches until the workers are gone.
pub(super) async fn watch(workers: Weak<Workers>) {
    let mut silent = Vec::new();
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(workers) = workers.upgrade() else {
            return;
        };
        let before = core::mem::replace(&mut silent, workers.silent());
        for (index, replica) in workers.config.replicas.iter().enumerate() {
            let was_silent = before.get(index).copied().unwrap_or(false);
            let is_silent = silent.get(index).copied().unwrap_or(false);
            match (was_silent, is_silent) {
                (false, true) => tracing::warn!(
                    replica = replica.name,
                    probes_to = %replica.probe_address,
                    "{}",
                    silent_note(workers.config.policy.name)
                ),
                (true, false) => tracing::info!(replica = replica.name, "answers probes"),
                _ => (),
            }
        }
    }
}
