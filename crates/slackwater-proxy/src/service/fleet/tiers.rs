//! Backup replicas: which tier of replicas is in use.
//!
//! Requests go to the lowest tier that has a usable replica, and only to that tier. A replica is
//! not usable if it is down, reports that it drains, or is unreachable: it has stopped answering
//! probes while others have not. A replica that never answered any probe counts as usable. If no
//! replica is usable, unreachable ones count; if there are none either, tiers are ignored and all
//! replicas may be picked, as always when none is available.

use super::WorkerFleet;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use core::time::Duration;
use std::rc::Rc;

/// The tier in use, which the admin server can read.
#[derive(Debug, Default)]
pub(crate) struct TierInUse(AtomicU8);

impl TierInUse {
    const ANY: u8 = u8::MAX;

    /// `None` for any.
    pub(crate) fn read(&self) -> Option<u8> {
        Some(self.0.load(Relaxed)).filter(|tier| *tier != Self::ANY)
    }

    /// Sets the tier. Returns whether it has changed.
    pub(crate) fn set(&self, tier: Option<u8>) -> bool {
        let tier = tier.unwrap_or(Self::ANY);
        self.0.swap(tier, Relaxed) != tier
    }
}

/// State of one replica that has a weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TierCandidate {
    pub(crate) tier: u8,
    /// Whether its health checks failed.
    pub(crate) is_down: bool,
    /// Whether the replica itself, or its operator, drains it.
    pub(super) is_draining: bool,
    /// Whether it has stopped answering probes, while others answer.
    pub(crate) is_lost: bool,
}

/// Polling interval for draining and unreachable replicas. Verdicts of checks apply immediately.
const INTERVAL: Duration = Duration::from_millis(100);

/// Returns the tier in use; `None` if no tier has a usable replica.
pub(super) fn active(fleet: &[TierCandidate]) -> Option<u8> {
    let stands = |it: &&TierCandidate| !it.is_down && !it.is_draining;
    let lowest = |it: &mut dyn Iterator<Item = &TierCandidate>| it.map(|it| it.tier).min();
    lowest(&mut fleet.iter().filter(|it| stands(it) && !it.is_lost))
        .or_else(|| lowest(&mut fleet.iter().filter(stands)))
}

/// Polls while there are several tiers.
pub(crate) async fn watch(fleet: Rc<WorkerFleet>, changed: &impl Fn()) {
    let mut every = tokio::time::interval(INTERVAL);
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        fleet.several_tiers().await;
        every.tick().await;
        if fleet.look_at_tiers() {
            changed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn standing(tier: u8) -> TierCandidate {
        TierCandidate {
            tier,
            is_down: false,
            is_draining: false,
            is_lost: false,
        }
    }

    const fn down(tier: u8) -> TierCandidate {
        TierCandidate {
            is_down: true,
            ..standing(tier)
        }
    }

    const fn draining(tier: u8) -> TierCandidate {
        TierCandidate {
            is_draining: true,
            ..standing(tier)
        }
    }

    const fn lost(tier: u8) -> TierCandidate {
        TierCandidate {
            is_lost: true,
            ..standing(tier)
        }
    }

    #[test]
    fn the_lowest_tier_with_a_usable_replica_is_in_use() {
        for (fleet, tier) in [
            (&[standing(1), standing(0)][..], Some(0)),
            (&[standing(1), down(0), standing(0)], Some(0)),
            (&[standing(2), standing(1), down(0), draining(0)], Some(1)),
            (&[standing(5), lost(0), down(1)], Some(5)),
            (&[standing(3)], Some(3)),
            (&[], None),
        ] {
            assert_eq!(active(fleet), tier, "{fleet:?}");
        }
    }

    #[test]
    fn unreachable_replicas_count_as_usable_if_all_are() {
        assert_eq!(active(&[lost(0), lost(1)]), Some(0));
        assert_eq!(active(&[down(0), lost(1), lost(2)]), Some(1));
    }

    #[test]
    fn without_a_usable_replica_tiers_are_ignored() {
        assert_eq!(active(&[down(0), draining(1), down(1)]), None);
    }
}
