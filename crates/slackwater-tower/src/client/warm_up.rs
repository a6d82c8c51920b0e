//! Replicas that are new, and get less than their share at first.
//!
//! To a policy a replica that has just joined is the best of all: nothing in flight, no slow answer seen. Sent everything at
//! once, it would meet it with cold caches and no connections. So each query keeps away from it with a probability that
//! falls to zero over its warm-up; whether it then is chosen is the policy's decision as ever. This is outside of the
//! policies on purpose: all have it alike, and none need know.

use core::time::Duration;
use slackwater_core::{Draw, Instant, ReplicaId};

/// A new replica gets this part of its share at least, in percent, so that it can warm up at all.
const SHARE_MIN_PERCENT: u64 = 10;

/// With more new ones than this at once, nobody is kept away from: each query compares with all of them.
const WARMING_MAX: usize = 64;

/// A whole share, in millionths.
const WHOLE: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct Warming {
    replica: ReplicaId,
    since: Instant,
    span: Duration,
}

impl Warming {
    /// In millionths, rising from the least to a whole over the span.
    fn share(&self, now: Instant) -> u64 {
        let (span, age) = (
            self.span.as_nanos(),
            now.saturating_since(self.since).as_nanos(),
        );
        if age >= span {
            return WHOLE;
        }
        let share = age * u128::from(WHOLE) / span;
        u64::try_from(share)
            .unwrap_or(WHOLE)
            .max(WHOLE / 100 * SHARE_MIN_PERCENT)
    }
}

/// The replicas that are new.
#[derive(Debug, Default)]
pub(super) struct WarmUps {
    warming: Vec<Warming>,
    /// Room for whom one query keeps away from.
    avoid: Vec<ReplicaId>,
}

impl WarmUps {
    pub(super) fn add(&mut self, now: Instant, replica: ReplicaId, span: Duration) {
        self.warming.retain(|warming| warming.share(now) < WHOLE);
        self.warming.push(Warming {
            replica,
            since: now,
            span,
        });
    }

    pub(super) fn remove(&mut self, replica: ReplicaId) {
        self.warming.retain(|warming| warming.replica != replica);
    }

    /// Whom a query must not go to: `tried`, and new replicas as the draws will have it. `None` if it is nobody but
    /// `tried`. Nobody new is kept away from while they are more than half of the `fleet`: the others could not carry
    /// what they would not. One draw for each new replica.
    #[inline]
    pub(super) fn avoid(
        &mut self,
        now: Instant,
        fleet: usize,
        tried: &[ReplicaId],
        draw: &mut dyn Draw,
    ) -> Option<&[ReplicaId]> {
        if self.warming.is_empty() {
            return None;
        }
        self.draw_avoided(now, fleet, tried, draw)
    }

    fn draw_avoided(
        &mut self,
        now: Instant,
        fleet: usize,
        tried: &[ReplicaId],
        draw: &mut dyn Draw,
    ) -> Option<&[ReplicaId]> {
        self.warming.retain(|warming| warming.share(now) < WHOLE);
        if self.warming.len() > WARMING_MAX || self.warming.len() * 2 > fleet {
            return None;
        }
        self.avoid.clear();
        for warming in &self.warming {
            let drawn = (u128::from(draw.draw()) * u128::from(WHOLE)) >> 64;
            if drawn >= u128::from(warming.share(now)) {
                self.avoid.push(warming.replica);
            }
        }
        if self.avoid.is_empty() {
            return None;
        }
        self.avoid.extend_from_slice(tried);
        Some(&self.avoid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::ReplicaIds;

    const SPAN: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Instant {
        Instant::EPOCH + Duration::from_secs(seconds)
    }

    fn warming(count: usize) -> (WarmUps, Vec<ReplicaId>) {
        let (mut ids, mut warm_ups) = (ReplicaIds::new(), WarmUps::default());
        let names: Vec<_> = (0..count).filter_map(|_| ids.allocate()).collect();
        for &name in &names {
            warm_ups.add(at(0), name, SPAN);
        }
        (warm_ups, names)
    }

    /// Whether a query at `seconds` avoids the one new replica, if `millionths` is drawn.
    fn avoids(seconds: u64, millionths: u64) -> bool {
        let (mut warm_ups, names) = warming(1);
        let mut draw = || u64::MAX / WHOLE * millionths + u64::MAX / WHOLE / 2;
        let avoided = warm_ups.avoid(at(seconds), 2, &[], &mut draw);
        assert!(avoided.is_none_or(|avoided| avoided == names));
        avoided.is_some()
    }

    #[test]
    fn a_new_replica_gets_a_share_that_rises_to_a_whole() {
        for (seconds, share) in [(0, 100_000), (1, 100_000), (2, 200_000), (9, 900_000)] {
            assert!(!avoids(seconds, share - 1), "{seconds}");
            assert!(avoids(seconds, share), "{seconds}");
        }
        assert!(!avoids(10, WHOLE - 1));
    }

    #[test]
    fn those_that_were_tried_are_avoided_too_and_the_gone_are_forgotten() {
        let (mut warm_ups, names) = warming(3);
        let tried = [names[2]];
        let (first, rest) = names.split_first().expect("three");
        warm_ups.remove(*first);
        let mut high = || u64::MAX;
        let avoided = warm_ups.avoid(at(1), 9, &tried, &mut high).expect("two");
        assert_eq!(avoided, [rest[0], rest[1], tried[0]]);
        assert_eq!(warm_ups.avoid(at(1), 9, &tried, &mut || 0), None);
        assert_eq!(warm_ups.avoid(at(11), 9, &tried, &mut high), None);
        assert!(warm_ups.warming.is_empty());
    }

    #[test]
    fn with_too_many_new_ones_nobody_is_kept_away_from() {
        let mut high = || u64::MAX;
        let (mut two, _) = warming(2);
        assert!(two.avoid(at(1), 4, &[], &mut high).is_some());
        assert!(two.avoid(at(1), 3, &[], &mut high).is_none());
        let (mut many, _) = warming(WARMING_MAX);
        assert!(many.avoid(at(1), 1000, &[], &mut high).is_some());
        let (mut too_many, _) = warming(WARMING_MAX + 1);
        assert!(too_many.avoid(at(1), 1000, &[], &mut high).is_none());
    }
}
