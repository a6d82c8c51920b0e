//! Who may be chosen: the checks' verdicts, as the policy hears them.

use super::fleet::Members;
use crate::health::Health;
use std::rc::Rc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Tells the policy of verdicts, until dropped.
#[derive(Debug)]
pub(super) struct Availability(JoinHandle<()>);

impl Drop for Availability {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Availability {
    /// Follows `health`, on the current runtime. Who is down when he joins is out of the choice already.
    pub(super) fn follow(mut health: watch::Receiver<Health>, members: Rc<Members>) -> Self {
        members.hear(&health.borrow_and_update());
        Self(tokio::task::spawn_local(async move {
            while health.changed().await.is_ok() {
                members.hear(&health.borrow_and_update());
            }
        }))
    }
}
