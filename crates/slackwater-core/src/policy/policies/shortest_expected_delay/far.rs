//! Zones: replicas in other zones count as slower, so that a query leaves its client's zone only
//! when the replicas there are full, slow or gone. `[Decision 0026]`
//!
//! ```text
//! score of a far replica = away × score + round trip to its zone
//! away = 4 while the own zone has room, else 1.3
//! ```
//!
//! The own zone has room while its replicas use no more than their capacity, in the mean, and
//! little more of it than the replicas elsewhere, and a query takes at most 1.3 times as long
//! there. All means are over the last probes, as many as [`RecentMean`] remembers. While there is
//! room, a far replica is better only than a near one that has twice as much as it can carry. There
//! is no room where the own zone is full, overloaded or slow, or its clients are more than
//! elsewhere. Then the score decides, which is a time: the round trip is added as it is. 1.3 is
//! what a replica counts with whose usable capacity is in use, compared with an idle one, so one
//! that delays no query is still the best. There is no share of traffic to compute, so nothing lags
//! behind.
//!
//! While no replica reports a capacity, no client knows when one is full. Then the own zone has
//! room while its replicas have little more requests in flight than others, however slow it is, and
//! if not, a far replica counts 1.5 times, and the round trip as a share of the mean latency for
//! each request in flight.

use super::{CROWDING, IN_USE_MAX, UNIT, UNIT_BITS};
use crate::fixed::{mul_div, mul_shift};
use crate::policy::probed::recent_mean::RecentMean;
use crate::replica::{ReplicaId, ReplicaMap};
use crate::time::span_ns;
use core::time::Duration;

/// How much longer a query counts as taking in another zone, besides the way: as long as with all
/// of the usable capacity in use, compared with none.
const AWAY: u64 = UNIT + CROWDING;
/// How much longer it counts as taking while no replica reports a capacity.
const AWAY_WITHOUT_CAPACITY: u64 = UNIT * 3 / 2;
/// How much longer it counts as taking while the own zone has room.
const AWAY_FROM_ROOM: u64 = UNIT * 4;
/// The most of their usable capacity that the replicas of the own zone may have in use and still
/// have room, in the mean: about the whole capacity. Some of them have less in use, and get the
/// query.
const IN_USE_WITH_ROOM: u64 = UNIT * 5 / 4;
/// How much more the replicas of the own zone may have in use than others and still have room: an
/// eighth of the usable capacity. Chance alone often makes half of that of equal loads.
const MORE_MAX: u64 = UNIT / 8;
/// Longer round trips count as this, so that nothing overflows.
const ROUND_TRIP_MAX_NS: u64 = 1_000_000_000;
/// The largest share of the mean time that a round trip counts as.
const SHARE_MAX: u32 = 1 << (UNIT_BITS + 10);

/// What is known of zones.
#[derive(Debug, Default)]
pub(super) struct Zones {
    /// The round trips to the replicas that are in other zones.
    ns: ReplicaMap<u64>,
    /// Whether any replica was ever far: without one, no report needs a look.
    any: bool,
    /// The replicas of the own zone.
    near: Means,
    /// The replicas of all other zones.
    far: Means,
}

/// What some replicas reported.
#[derive(Debug, Default)]
struct Means {
    /// What they have in use, in units.
    in_use: RecentMean,
    /// How long a query would have taken, as a share of the mean time alone; in units.
    time: RecentMean,
}

impl Zones {
    pub(super) fn insert(&mut self, replica: ReplicaId, round_trip: Duration) {
        self.any = true;
        self.ns
            .insert(replica, span_ns(round_trip).min(ROUND_TRIP_MAX_NS));
    }

    /// A replica that joins is near until told otherwise.
    pub(super) fn remove(&mut self, replica: ReplicaId) {
        self.ns.remove(replica);
    }

    /// Whether any replica was ever far. If not, there is nothing to learn or to look up.
    #[inline]
    pub(super) const fn any(&self) -> bool {
        self.any
    }

    /// Takes in what a replica had in use when it answered a probe, and the score that it had then,
    /// wherever it is.
    pub(super) fn learn(&mut self, away: Away, in_use: u64, score: u64) {
        let zone = if away == Away::NEAR {
            &mut self.near
        } else {
            &mut self.far
        };
        zone.in_use.record(in_use.min(IN_USE_MAX));
        zone.time.record(score >> UNIT_BITS);
    }

    /// Forgets what is in use: loads are in another unit from now on.
    pub(super) fn forget_loads(&mut self) {
        (self.near, self.far) = Default::default();
    }

    /// Whether the own zone has room.
    pub(super) fn has_room(&self, by_capacity: bool) -> bool {
        let (near, far) = (self.near.in_use.mean(), self.far.in_use.mean());
        if by_capacity {
            near <= IN_USE_WITH_ROOM && near <= far + MORE_MAX && !self.is_slow()
        } else {
            near <= far + far / 16 + MORE_MAX
        }
    }

    /// Whether a query takes so long in the own zone that one elsewhere counts as shorter.
    fn is_slow(&self) -> bool {
        let (near, far) = (self.near.time.mean(), self.far.time.mean());
        far > 0 && near > mul_shift(far, AWAY, UNIT_BITS)
    }

    /// How far a replica is, where the mean query takes this long.
    pub(super) fn of(&self, replica: ReplicaId, mean_ns: u64) -> Away {
        let Some(&round_trip_ns) = self.ns.find(replica) else {
            return Away::NEAR;
        };
        let share = mul_div(round_trip_ns, UNIT, mean_ns.max(1));
        Away(u32::try_from(share).unwrap_or(u32::MAX).min(SHARE_MAX) + 1)
    }
}

/// Whether a replica is in another zone, and how far: one more than the round trip as a share of
/// the mean time, in units; 0 for one in this client's zone, or if it is not known where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Away(u32);

impl Away {
    /// In this client's zone, or it is not known where.
    pub(super) const NEAR: Self = Self(0);

    /// The score with the distance. `stays`: the own zone has room.
    #[inline]
    pub(super) fn applied_to(self, score: u64, by_capacity: bool, stays: bool) -> u64 {
        match self.0.checked_sub(1) {
            None => score,
            Some(share) => from_afar(score, share.into(), by_capacity, stays),
        }
    }
}

/// The score of a replica in another zone, whose round trip is this share of the mean time.
#[inline(never)]
fn from_afar(score: u64, share: u64, by_capacity: bool, stays: bool) -> u64 {
    let (factor, way) = if by_capacity {
        (AWAY, share << UNIT_BITS)
    } else {
        (AWAY_WITHOUT_CAPACITY + share, 0)
    };
    let factor = if stays {
        factor.max(AWAY_FROM_ROOM)
    } else {
        factor
    };
    mul_shift(score, factor, UNIT_BITS).saturating_add(way)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::trial::Trial;
    use crate::policy::{Event, Policy, ShortestExpectedDelay};
    use crate::replica::ReplicaIds;
    use crate::report::{LoadReport, Rif};

    const MS: Duration = Duration::from_millis(1);
    const MEAN_NS: u64 = 10_000_000;

    fn away(round_trip: Duration) -> Away {
        let replica = ReplicaIds::new().allocate().expect("room");
        let mut round_trips = Zones::default();
        assert_eq!(round_trips.of(replica, MEAN_NS), Away::NEAR);
        round_trips.insert(replica, round_trip);
        let away = round_trips.of(replica, MEAN_NS);
        round_trips.remove(replica);
        assert_eq!(round_trips.of(replica, MEAN_NS), Away::NEAR);
        away
    }

    #[test]
    fn near_replica_counts_as_it_is() {
        for score in [0, 7, u64::MAX] {
            assert_eq!(Away::NEAR.applied_to(score, true, true), score);
        }
    }

    #[test]
    fn way_is_added_to_a_time_that_counts_as_1_3_times_longer() {
        let one = UNIT * UNIT;
        // 10 ms alone: 13 ms and the way.
        for (ms, tenths) in [(0, 13), (5, 18), (20, 33)] {
            let score = away(MS * ms).applied_to(one, true, false);
            assert!(score.abs_diff(one / 10 * tenths) < one / 100_000, "{ms}");
        }
        // Four times as long: 52 ms and the way.
        let score = away(MS * 20).applied_to(4 * one, true, false);
        assert!(score.abs_diff(one / 10 * 72) < one / 100_000);
    }

    #[test]
    fn without_capacities_the_way_counts_for_each_request() {
        let one = UNIT * UNIT;
        for (requests, ms, tenths) in [(1, 0, 15), (1, 5, 20), (3, 5, 60)] {
            let score = away(MS * ms).applied_to(requests * one, false, false);
            assert!(score.abs_diff(one / 10 * tenths) < one / 100_000, "{ms}");
        }
    }

    #[test]
    fn longest_way_does_not_overflow() {
        let longest = away(Duration::MAX);
        assert_eq!(longest, away(Duration::from_secs(1)));
        for by_capacity in [false, true] {
            assert_eq!(longest.applied_to(u64::MAX, by_capacity, false), u64::MAX);
        }
        let replica = ReplicaIds::new().allocate().expect("room");
        let mut round_trips = Zones::default();
        round_trips.insert(replica, Duration::MAX);
        assert_eq!(round_trips.of(replica, 0), Away(SHARE_MAX + 1));
    }

    #[test]
    fn near_replica_with_twice_its_load_is_better_while_there_is_room() {
        let away = away(Duration::ZERO);
        assert_eq!(away.applied_to(UNIT, true, true), 4 * UNIT);
        assert_eq!(away.applied_to(UNIT, true, false), UNIT * 13 / 10);
    }

    /// Whether a zone has room whose replicas, and those elsewhere, have this in use and take this
    /// long for a query.
    fn has_room([near, far]: [(u64, u64); 2], by_capacity: bool) -> bool {
        let mut zones = Zones::default();
        let mut ids = ReplicaIds::new();
        let [_, distant] = [(); 2].map(|()| ids.allocate().expect("room"));
        zones.insert(distant, MS);
        zones.learn(Away::NEAR, near.0, near.1 * UNIT);
        zones.learn(zones.of(distant, MEAN_NS), far.0, far.1 * UNIT);
        let has_room = zones.has_room(by_capacity);
        zones.forget_loads();
        assert!(zones.has_room(by_capacity), "nothing is known");
        has_room
    }

    #[test]
    fn own_zone_has_room_within_its_capacity_and_an_eighth_above_others() {
        let room = |near, far, by_capacity| has_room([(near, UNIT), (far, UNIT)], by_capacity);
        let full = UNIT * 5 / 4;
        assert!(room(full, full, true));
        assert!(!room(full + 1, 2 * UNIT, true), "it is full");
        assert!(room(UNIT / 2 + UNIT / 8, UNIT / 2, true));
        assert!(!room(UNIT / 2 + UNIT / 8 + 1, UNIT / 2, true));
        // Without capacities no client knows when it is full.
        let more = 8 * UNIT * 17 / 16 + UNIT / 8;
        assert!(room(more, 8 * UNIT, false));
        assert!(!room(more + 1, 8 * UNIT, false));
    }

    #[test]
    fn own_zone_that_takes_1_3_times_as_long_as_others_has_no_room() {
        let in_use = UNIT / 2;
        let room = |near, far| has_room([(in_use, near), (in_use, far)], true);
        let longest = 10_000 * AWAY / UNIT;
        assert!(room(longest, 10_000));
        assert!(!room(longest + 1, 10_000));
        assert!(room(longest + 1, 0), "of the others nothing is known");
    }

    /// The default policy before two replicas of which nothing is known.
    fn pair() -> (Trial<ShortestExpectedDelay>, [ReplicaId; 2]) {
        let policy = ShortestExpectedDelay::new(
            crate::policy::prequal::PrequalConfig::default(),
            &super::super::ShortestExpectedDelayConfig::default(),
        );
        let trial = Trial::new(policy, 2);
        let pair = [trial.replicas[0], trial.replicas[1]];
        (trial, pair)
    }

    #[test]
    fn query_leaves_a_slow_zone_that_has_as_much_in_use_as_others() {
        let (mut trial, [near, distant]) = pair();
        trial.handle(Event::Far(distant, MS));
        let mut leaves = |cost: Duration| {
            for (replica, cost) in [(near, cost), (distant, 10 * MS)] {
                let report = LoadReport {
                    capacity_millirif: Some(10_000),
                    cost: Some(cost),
                    ..LoadReport::new(Rif::new(4), Some(10 * MS))
                };
                trial.handle(Event::SiblingReport(replica, &report));
            }
            trial.pick().replica() == distant
        };
        assert!(!leaves(10 * MS));
        assert!(leaves(40 * MS));
    }

    /// A near and a far replica, 10 ms apart, that have answered probes with this many requests in
    /// flight, at a capacity of ten and a cost of 10 ms. Returns whether the query goes to the far
    /// one.
    fn leaves([near, far]: [u32; 2], capacity_millirif: Option<u32>) -> bool {
        let (mut trial, [own, distant]) = pair();
        trial.handle(Event::Far(distant, 10 * MS));
        // The first report of a capacity changes the unit of all loads.
        for rif in [[0, 0], [near, far]] {
            for (replica, rif) in [own, distant].into_iter().zip(rif) {
                let report = LoadReport {
                    capacity_millirif,
                    cost: capacity_millirif.map(|_| 10 * MS),
                    ..LoadReport::new(Rif::new(rif), Some(10 * MS))
                };
                trial.handle(Event::SiblingReport(replica, &report));
            }
        }
        trial.pick().replica() == distant
    }

    #[test]
    fn query_leaves_its_zone_when_it_would_wait_longer_than_the_way() {
        let first = |far: u32, capacity| (0..60).find(|&near| leaves([near, far], capacity));
        // With this one u is 1.29: 2.347 times longer. There it is 0.12: 1.3 * 1.035, and the way.
        assert_eq!(first(0, Some(10_000)), Some(10));
        assert!(!leaves([12, 12], Some(10_000)), "both are full");
        assert_eq!(first(2, None), Some(7), "8 requests, and not 3 * 2.5");
    }

    #[test]
    fn replica_that_is_found_to_be_far_counts_so_at_once() {
        let (mut trial, [near, distant]) = pair();
        for (replica, rif) in [(near, 2), (distant, 0)] {
            let report = LoadReport::new(Rif::new(rif), Some(10 * MS));
            trial.handle(Event::SiblingReport(replica, &report));
        }
        let pick = trial.pick();
        assert_eq!(pick.replica(), distant);
        trial.handle(Event::Far(distant, 10 * MS));
        assert_eq!(trial.pick().replica(), near);
    }

    #[test]
    fn zone_that_is_lost_is_left_at_once() {
        let (mut trial, [near, distant]) = pair();
        trial.handle(Event::Far(distant, 10 * MS));
        let report = LoadReport::new(Rif::new(0), Some(10 * MS));
        for replica in [near, distant] {
            trial.handle(Event::SiblingReport(replica, &report));
        }
        assert_eq!(trial.pick().replica(), near);
        trial.handle(Event::Available(near, false));
        assert_eq!(trial.pick().replica(), distant);
        assert_eq!(trial.policy.fleet().available(), [distant]);
    }
}
