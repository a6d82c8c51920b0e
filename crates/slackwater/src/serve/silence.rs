//! Says in the log, once, that a replica answers no probes, and what it is balanced by instead. `[A13]`
//!
//! A replica counts as silent here while it is so for any worker, and lost likewise; when it is heard again, that is said, too. Policies that
//! send no probes have nothing to say.

use core::time::Duration;
use slackwater_admin::{LOST_NOTE, silent_note};
use slackwater_proxy::{UnprobedKey, UnprobedReplica, Workers};
use std::collections::BTreeMap;
use std::sync::Weak;

/// How often is looked. What comes and goes in between is not worth a line.
const PERIOD: Duration = Duration::from_secs(1);

fn note(replica: &UnprobedReplica) -> &'static str {
    if replica.is_lost {
        return LOST_NOTE;
    }
    silent_note(replica.policy)
}

/// Watches until the workers are gone.
pub(super) async fn watch(workers: Weak<Workers>) {
    let mut before: BTreeMap<UnprobedKey, UnprobedReplica> = BTreeMap::new();
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(workers) = workers.upgrade() else {
            return;
        };
        let (found, known) = workers.unprobed();
        let mut now: BTreeMap<UnprobedKey, UnprobedReplica> = BTreeMap::new();
        for (key, replica) in &found {
            let merged = now.entry(key.clone()).or_insert_with(|| replica.clone());
            merged.is_lost |= replica.is_lost;
        }
        for (key, _) in found {
            let Some(replica) = now.get(&key) else {
                continue;
            };
            if before.get(&key).map(note) != Some(note(replica)) {
                tracing::warn!(
                    service = key.0,
                    replica = replica.name,
                    probes_to = %replica.probe_address,
                    "{}",
                    note(replica)
                );
                before.insert(key, replica.clone());
            }
        }
        // Whoever has left answers nothing either.
        let heard = before
            .iter()
            .filter(|(key, _)| known.contains(*key) && !now.contains_key(*key));
        for ((service, _), replica) in heard {
            tracing::info!(service, replica = replica.name, "answers probes");
        }
        before = now;
    }
}
