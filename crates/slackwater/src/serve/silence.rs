//! Says in the log, once, that a replica answers no probes, and what it is balanced by instead. `[A13]`
//!
//! A replica counts as silent here while it is so for any worker, and lost likewise; when it is heard again, that is said, too. Policies that
//! send no probes have nothing to say.

use super::status::Workers;
use crate::admin::{LOST_NOTE, silent_note};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Weak;

/// How often is looked. What comes and goes in between is not worth a line.
const PERIOD: Duration = Duration::from_secs(1);

/// A replica: its service's name and its address.
pub(super) type Key = (String, SocketAddr);

/// Silent replicas, in the order of the configuration; what they are called.
pub(super) type Silent = Vec<(Key, SilentReplica)>;

/// What the log says of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SilentReplica {
    pub(super) name: String,
    pub(super) probe_address: SocketAddr,
    pub(super) policy: &'static str,
    /// It answered before, and others still do.
    pub(super) is_lost: bool,
}

impl SilentReplica {
    fn note(&self) -> &'static str {
        if self.is_lost {
            return LOST_NOTE;
        }
        silent_note(self.policy)
    }
}

/// Watches until the workers are gone.
pub(super) async fn watch(workers: Weak<Workers>) {
    let mut before: BTreeMap<Key, SilentReplica> = BTreeMap::new();
    loop {
        tokio::time::sleep(PERIOD).await;
        let Some(workers) = workers.upgrade() else {
            return;
        };
        let (found, known) = workers.silent();
        let mut now: BTreeMap<Key, SilentReplica> = BTreeMap::new();
        for (key, replica) in &found {
            let merged = now.entry(key.clone()).or_insert_with(|| replica.clone());
            merged.is_lost |= replica.is_lost;
        }
        for (key, _) in found {
            let Some(replica) = now.get(&key) else {
                continue;
            };
            if before.get(&key).map(SilentReplica::note) != Some(replica.note()) {
                tracing::warn!(
                    service = key.0,
                    replica = replica.name,
                    probes_to = %replica.probe_address,
                    "{}",
                    replica.note()
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
