//! What a replica counts with, and the score that it has by it: the expected delay.

use super::far::Away;
use super::{CROWDING, IN_USE_MAX, ONE_RIF, UNIT, UNIT_BITS};
use crate::fixed::{mul_div, mul_shift};
use crate::policy::turns::FINE_BITS;

/// Usable part of a capacity, in thousandths: a seventh is kept in reserve for chance.
const USABLE: u64 = 850;
/// Beyond capacity, a query is assumed to take this much longer for each capacity's worth of
/// others. It waits for them, and they wait for it, so it costs more than its own time, and the
/// more the more queries share the replica. In units.
const OVERLOAD: u64 = UNIT * 5 / 2;
/// Most requests in flight, in 1/1024. More count as this, so that their share does not overflow.
const IN_FLIGHT_MAX: u64 = u32::MAX as u64;

/// What a replica counts with since its latest report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Time of a query alone, as a share of the mean.
    pub(super) alone: u64,
    /// Share of the usable capacity that one request takes, in 1/1024. While no capacity is known,
    /// all of it.
    pub(super) request: u64,
    /// How much longer a query takes for each capacity's worth of others.
    pub(super) overload: u64,
    /// In thousandths of a request.
    pub(super) capacity: u32,
    /// Whether it is in another zone, and how far.
    pub(super) away: Away,
    /// The lowest score that it can have.
    pub(super) score_min: u64,
}

impl Known {
    /// A replica of this capacity, in thousandths of a request.
    pub(super) fn with_capacity(capacity: u32, alone: u64) -> Self {
        // A replica that runs one query at a time delays no other query.
        let shares = u64::from(capacity).max(ONE_RIF);
        Self {
            alone,
            request: (UNIT << FINE_BITS) * ONE_RIF / USABLE * ONE_RIF / shares,
            overload: UNIT + (OVERLOAD - UNIT) * (shares - ONE_RIF) / shares,
            capacity,
            away: Away::NEAR,
            score_min: 0,
        }
    }

    /// A replica in a fleet where none reports a capacity.
    pub(super) const fn without_capacity(alone: u64) -> Self {
        Self {
            alone,
            request: UNIT << FINE_BITS,
            overload: 0, // not used
            capacity: 1_000,
            away: Away::NEAR,
            score_min: 0,
        }
    }

    /// The share of the usable capacity that these requests take. `requests` in 1/1024.
    #[inline]
    pub(super) fn share(&self, requests: u64) -> u64 {
        (requests.min(IN_FLIGHT_MAX) * self.request) >> (2 * FINE_BITS)
    }

    /// [`Self::score_there`] with the way to another zone. `stays`: the own zone has room.
    #[inline]
    pub(super) fn score(&self, in_use: u64, by_capacity: bool, stays: bool) -> u64 {
        let score = self.score_there(in_use, by_capacity);
        (self.away).applied_to(score, by_capacity, stays)
    }

    /// Time that a query takes and costs others, as a share of the mean time alone, in units of
    /// units. While no capacity is known, it is in proportion to what is in use.
    #[inline]
    pub(super) fn score_there(&self, in_use: u64, by_capacity: bool) -> u64 {
        let times_longer = if by_capacity {
            self.times_longer(in_use)
        } else {
            in_use
        };
        times_longer.saturating_mul(self.alone)
    }

    /// Factor by which a query takes longer than alone, and by which it makes others take longer,
    /// with this share of the usable capacity in use.
    #[inline]
    pub(super) fn times_longer(&self, in_use: u64) -> u64 {
        let in_use = in_use.min(IN_USE_MAX);
        let crowding = UNIT + in_units(in_use, CROWDING);
        if in_use <= UNIT {
            return crowding;
        }
        let waiting = UNIT + in_units(in_use - UNIT, self.overload);
        let longer = in_units(waiting, crowding);
        if u64::from(self.capacity) >= ONE_RIF {
            return longer;
        }
        mul_shift(longer, self.behind(in_use), UNIT_BITS)
    }

    /// Factor by which a query takes longer than its cost behind the others that make up this
    /// share, with a capacity below one. The earlier queries take longer than their cost, and this
    /// one does not: with none before it, quota has accumulated.
    #[cold]
    fn behind(&self, in_use: u64) -> u64 {
        let with_this = (in_use * USABLE / ONE_RIF).max(UNIT);
        let before = mul_div(with_this - UNIT, ONE_RIF, self.capacity.into());
        mul_div(before.saturating_add(UNIT), UNIT, with_this)
    }
}

/// A product of values in units, which is below 2^64.
const fn in_units(a: u64, b: u64) -> u64 {
    (a * b) >> UNIT_BITS
}
