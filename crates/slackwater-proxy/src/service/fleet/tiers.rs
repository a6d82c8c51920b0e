//! Backups: which tier of replicas is in use.
//!
//! Requests go to the lowest tier that has anybody to take them, and to that one alone. Nobody
//! takes requests who is down by its checks, says that it drains, or is lost: it has stopped
//! answering probes, and others have not. One that never answered any counts as there. Where there
//! is nobody at all, tiers mean nothing either: everybody may be chosen, as ever when nobody may
//! be.

use super::WorkerFleet;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};
use core::time::Duration;
use std::rc::Rc;

/// The tier in use, where the admin server can read it.
#[derive(Debug, Default)]
pub(crate) struct TierInUse(AtomicU8);

impl TierInUse {
    const ANY: u8 = u8::MAX;

    /// `None`: any.
    pub(crate) fn read(&self) -> Option<u8> {
        Some(self.0.load(Relaxed)).filter(|tier| *tier != Self::ANY)
    }

    /// Whether that is another one than before.
    pub(crate) fn set(&self, tier: Option<u8>) -> bool {
        let tier = tier.unwrap_or(Self::ANY);
        self.0.swap(tier, Relaxed) != tier
    }
}

/// What is known of one replica that has a weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TierCandidate {
    pub(crate) tier: u8,
    /// Its checks say so.
    pub(crate) is_down: bool,
    /// It says so itself, or its operator does.
    pub(super) is_draining: bool,
    /// It has answered probes and does not any more, while others do.
    pub(crate) is_lost: bool,
}

/// How often it is looked at who drains or is lost. Verdicts of checks count at once.
const INTERVAL: Duration = Duration::from_millis(100);

/// The tier in use; `None` if nobody is there in any.
pub(super) fn active(fleet: &[TierCandidate]) -> Option<u8> {
    let stands = |it: &&TierCandidate| !it.is_down && !it.is_draining;
    let lowest = |it: &mut dyn Iterator<Item = &TierCandidate>| it.map(|it| it.tier).min();
    lowest(&mut fleet.iter().filter(|it| stands(it) && !it.is_lost))
        .or_else(|| lowest(&mut fleet.iter().filter(stands)))
}

/// Keeps looking, while there are several tiers.
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
    fn the_lowest_tier_with_anybody_in_it_is_in_use() {
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
    fn where_all_are_lost_nobody_is() {
        assert_eq!(active(&[lost(0), lost(1)]), Some(0));
        assert_eq!(active(&[down(0), lost(1), lost(2)]), Some(1));
    }

    #[test]
    fn where_nobody_is_there_tiers_mean_nothing() {
        assert_eq!(active(&[down(0), draining(1), down(1)]), None);
    }
}
