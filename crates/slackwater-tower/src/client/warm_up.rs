//! Replicas that are warming up get less than their share at first.
//!
//! To a policy, a replica that has just joined looks best: nothing in flight, no slow answer seen.
//! If it got all traffic at once, it would serve it with cold caches and no connections. So each
//! query avoids it with a probability that falls to zero over its warm-up. Otherwise the policy
//! decides as always. This is outside of the policies on purpose: it works for all of them, and
//! none needs to implement it.

use core::time::Duration;
use slackwater_core::policy::{Policy, Query};
use slackwater_core::{Draw, Instant, ReplicaId};

/// The least part of its share that a new replica gets, in percent, so that it can warm up at all.
const SHARE_MIN_PERCENT: u64 = 10;

/// With more replicas than this warming up at once, none is avoided: each query compares with all
/// of them.
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
    /// The replica's share in millionths, which rises from the minimum to a whole over the span.
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

/// The replicas that are warming up.
#[derive(Debug, Default)]
pub(super) struct WarmUps {
    warming: Vec<Warming>,
    /// Buffer for the replicas that one query avoids.
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

    /// Returns the replicas that a query must avoid: those that it has tried, and some of those
    /// that are warming up, at random. Returns `None` if only those that it has tried are to be
    /// avoided. Takes one draw for each available replica that is warming up.
    ///
    /// No replica is avoided for its warm-up while more than half of the available ones are warming
    /// up, since the others could not carry the traffic. Nor is it if no available replica would be
    /// left: a cold replica is better than one that is down. A replica that the query is pinned to
    /// is never avoided: what the query needs is only there.
    #[inline]
    pub(super) fn avoid(
        &mut self,
        now: Instant,
        policy: &dyn Policy,
        query: Query<'_>,
        draw: &mut dyn Draw,
    ) -> Option<&[ReplicaId]> {
        if self.warming.is_empty() {
            return None;
        }
        self.draw_avoided(now, policy, query, draw)
    }

    fn draw_avoided(
        &mut self,
        now: Instant,
        policy: &dyn Policy,
        query: Query<'_>,
        draw: &mut dyn Draw,
    ) -> Option<&[ReplicaId]> {
        self.warming.retain(|warming| warming.share(now) < WHOLE);
        if self.warming.len() > WARMING_MAX {
            return None;
        }
        self.avoid.clear();
        let fleet = policy.fleet();
        let mut new = 0;
        for warming in &self.warming {
            let replica = warming.replica;
            if !fleet.is_available(replica) {
                continue;
            }
            new += 1;
            let drawn = (u128::from(draw.draw()) * u128::from(WHOLE)) >> 64;
            if drawn >= u128::from(warming.share(now)) && query.pinned != Some(replica) {
                self.avoid.push(replica);
            }
        }
        let available = fleet.available().len();
        if self.avoid.is_empty() || new * 2 > available {
            return None;
        }
        for &tried in query.avoid {
            if !self.avoid.contains(&tried) {
                self.avoid.push(tried);
            }
        }
        let avoided = self.avoid.iter();
        let avoided = avoided.filter(|&&replica| fleet.is_available(replica));
        (avoided.count() < available).then_some(&*self.avoid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_core::policy::{Event, RoundRobin};
    use slackwater_core::{NoDraw, ReplicaIds};

    const SPAN: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Instant {
        Instant::EPOCH + Duration::from_secs(seconds)
    }

    /// Makes a fleet of `old` replicas and `new` ones, which joined at 0. All ids, the new ones
    /// last.
    fn fleet(old: usize, new: usize) -> (WarmUps, RoundRobin, Vec<ReplicaId>) {
        let (mut ids, mut warm_ups) = (ReplicaIds::new(), WarmUps::default());
        let mut policy = RoundRobin::default();
        let names: Vec<_> = (0..old + new).filter_map(|_| ids.allocate()).collect();
        for (at_place, &name) in names.iter().enumerate() {
            policy.handle(at(0), Event::Added(name), &mut NoDraw);
            if at_place >= old {
                warm_ups.add(at(0), name, SPAN);
            }
        }
        (warm_ups, policy, names)
    }

    fn high() -> u64 {
        u64::MAX
    }

    /// Whether a query at `seconds` avoids the one new replica, if `millionths` is drawn.
    fn avoids(seconds: u64, millionths: u64) -> bool {
        let (mut warm_ups, policy, names) = fleet(1, 1);
        let mut draw = || u64::MAX / WHOLE * millionths + u64::MAX / WHOLE / 2;
        let avoided = warm_ups.avoid(at(seconds), &policy, Query::first(), &mut draw);
        assert!(avoided.is_none_or(|avoided| avoided == &names[1..]));
        avoided.is_some()
    }

    #[test]
    fn share_of_a_new_replica_rises_to_a_full_share() {
        for (seconds, share) in [(0, 100_000), (1, 100_000), (2, 200_000), (9, 900_000)] {
            assert!(!avoids(seconds, share - 1), "{seconds}");
            assert!(avoids(seconds, share), "{seconds}");
        }
        assert!(!avoids(10, WHOLE - 1));
    }

    #[test]
    fn tried_replicas_are_avoided_too_and_departed_ones_forgotten() {
        let (mut warm_ups, mut policy, names) = fleet(6, 3);
        warm_ups.remove(names[6]);
        policy.handle(at(0), Event::Removed(names[6]), &mut NoDraw);
        let tried = [names[0], names[8]];
        let query = Query::retry(&tried);
        let avoided = warm_ups.avoid(at(1), &policy, query, &mut high);
        assert_eq!(avoided, Some([names[7], names[8], names[0]].as_slice()));
        assert_eq!(warm_ups.avoid(at(1), &policy, query, &mut || 0), None);
        assert_eq!(warm_ups.avoid(at(11), &policy, query, &mut high), None);
        assert!(warm_ups.warming.is_empty());
    }

    #[test]
    fn too_many_new_replicas_are_not_avoided() {
        let avoids = |old, new| {
            let (mut warm_ups, policy, _) = fleet(old, new);
            let avoided = warm_ups.avoid(at(1), &policy, Query::first(), &mut high);
            avoided.is_some()
        };
        assert!(avoids(2, 2));
        assert!(!avoids(1, 2));
        assert!(avoids(1000, WARMING_MAX));
        assert!(!avoids(1000, WARMING_MAX + 1));
    }

    #[test]
    fn only_available_replicas_count() {
        let (mut warm_ups, mut policy, names) = fleet(4, 3);
        let mut avoided = |policy: &RoundRobin| {
            let avoided = warm_ups.avoid(at(1), policy, Query::first(), &mut high);
            avoided.map(<[_]>::to_vec)
        };
        assert_eq!(avoided(&policy), Some(names[4..].to_vec()));
        policy.handle(at(1), Event::Available(names[0], false), &mut NoDraw);
        assert_eq!(avoided(&policy), Some(names[4..].to_vec()));
        policy.handle(at(1), Event::Available(names[1], false), &mut NoDraw);
        assert_eq!(avoided(&policy), None, "three of five");
        policy.handle(at(1), Event::Available(names[4], false), &mut NoDraw);
        assert_eq!(avoided(&policy), Some(names[5..].to_vec()), "two of four");
    }

    #[test]
    fn new_replica_is_preferred_to_a_down_one() {
        let (mut warm_ups, mut policy, names) = fleet(3, 1);
        policy.handle(at(1), Event::Available(names[0], false), &mut NoDraw);
        let mut avoided = |tried: &[ReplicaId]| {
            let avoided = warm_ups.avoid(at(1), &policy, Query::retry(tried), &mut high);
            avoided.map(<[_]>::len)
        };
        assert_eq!(avoided(&names[..2]), Some(3), "names[2] is left");
        assert_eq!(avoided(&names[1..3]), None);
    }

    #[test]
    fn pinned_query_does_not_avoid_its_replica() {
        let (mut warm_ups, policy, names) = fleet(2, 2);
        let mut avoided = |replica| {
            let avoided = warm_ups.avoid(at(1), &policy, Query::pinned(replica), &mut high);
            avoided.map(<[_]>::to_vec)
        };
        assert_eq!(avoided(names[2]), Some(vec![names[3]]));
        assert_eq!(avoided(names[0]), Some(names[2..].to_vec()));
    }
}
