//! Passes the verdicts of health checks and the tier in use to the policy, so that it picks only
//! replicas that may be picked.

use super::WorkerFleet;
use super::tiers;
use crate::health::Health;
use std::rc::Rc;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// Follows `health` and the replicas' reports on the current runtime until the handle is dropped,
/// and calls `changed` when another tier is in use. A replica that is down when it joins is already
/// excluded.
pub(crate) fn follow(
    mut health: watch::Receiver<Health>,
    fleet: Rc<WorkerFleet>,
    changed: impl Fn() + 'static,
) -> AbortOnDropHandle<()> {
    health.mark_changed();
    AbortOnDropHandle::new(tokio::task::spawn_local(async move {
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
