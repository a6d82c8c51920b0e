//! Who may be chosen: the checks' verdicts and the tier in use, as the policy hears them.

use super::WorkerFleet;
use super::tiers;
use crate::health::Health;
use std::rc::Rc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Tells the policy of verdicts, until dropped.
#[derive(Debug)]
pub(crate) struct Availability(JoinHandle<()>);

impl Drop for Availability {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Availability {
    /// Follows `health` and what replicas say, on the current runtime, and says when another tier
    /// is in use. Who is down when he joins is out of the choice already.
    pub(crate) fn follow(
        mut health: watch::Receiver<Health>,
        fleet: Rc<WorkerFleet>,
        changed: impl Fn() + 'static,
    ) -> Self {
        health.mark_changed();
        Self(tokio::task::spawn_local(async move {
            let looks = tiers::watch(Rc::clone(&fleet), &changed);
            let hears = async {
                while health.changed().await.is_ok() {
                    health.mark_unchanged();
                    if fleet.update_availability() {
                        changed();
                    }
                }
            };
            tokio::join!(looks, hears);
        }))
    }
}
