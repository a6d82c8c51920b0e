//! Who may be chosen: the checks' verdicts, as the policy hears them.

use super::flight::Member;
use crate::health::{Health, Verdict};
use slackwater_tower::client::Balancer;
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
    /// Follows `health`, on the current runtime.
    pub(super) fn follow(
        mut health: watch::Receiver<Health>,
        balancer: Balancer,
        members: Vec<Rc<Member>>,
    ) -> Self {
        // Already now: who is down when a service begins gets nothing at all.
        tell(&health.borrow_and_update(), &balancer, &members);
        Self(tokio::task::spawn_local(async move {
            while health.changed().await.is_ok() {
                tell(&health.borrow_and_update(), &balancer, &members);
            }
        }))
    }
}

fn tell(health: &Health, balancer: &Balancer, members: &[Rc<Member>]) {
    for member in members {
        let found = health.get(&member.address);
        let is_down = found.is_some_and(|found| found.verdict == Verdict::Down);
        balancer.set_available(member.id, !is_down);
    }
}
