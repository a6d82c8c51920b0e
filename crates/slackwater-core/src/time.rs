//! Points in time in the core.
//!
//! The core never reads a clock. Its driver (a proxy, a simulator, a test) passes the time, in
//! nanoseconds since an epoch that the driver chooses. Spans are [`core::time::Duration`].

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, AddAssign};
use core::time::Duration;

/// A point on the driver's clock: nanoseconds since the driver's epoch, from 0 to 2^64 − 1 (584
/// years).
///
/// Arithmetic saturates: a time beyond the end is the end, and the span from a later time to an
/// earlier one is zero. A clock that steps back is therefore a harmless event, not an error.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The driver's epoch, time zero.
    pub const EPOCH: Self = Self(0);

    /// The last point of the clock.
    pub(crate) const END: Self = Self(u64::MAX);

    /// The point `ns` nanoseconds after the epoch.
    pub const fn from_nanos(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Like [`Instant::saturating_since`], in nanoseconds: cheaper than a `Duration` if it is only
    /// compared.
    pub(crate) const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The point `ns` nanoseconds later.
    pub(crate) const fn plus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// The span since `earlier`; zero if `earlier` is not earlier.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The span since the epoch.
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Instant({:?})", Duration::from_nanos(self.0))
    }
}

/// An optional instant in the size of an instant, for tables as long as the fleet. The last instant
/// counts as none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MaybeInstant {
    /// Distance to the last instant.
    rest: Option<NonZeroU64>,
}

impl MaybeInstant {
    pub(crate) const NONE: Self = Self { rest: None };

    pub(crate) fn get(self) -> Option<Instant> {
        self.rest.map(|rest| Instant(u64::MAX - rest.get()))
    }
}

impl From<Instant> for MaybeInstant {
    fn from(instant: Instant) -> Self {
        Self {
            rest: NonZeroU64::new(u64::MAX - instant.0),
        }
    }
}

/// A span in whole nanoseconds; one of more than 584 years counts as 2^64 − 1 ns.
pub(crate) const fn span_ns(span: Duration) -> u64 {
    match span.as_secs().checked_mul(1_000_000_000) {
        Some(ns) => ns.saturating_add(span.subsec_nanos() as u64),
        None => u64::MAX,
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span_ns(span)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, span: Duration) {
        *self = *self + span;
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let late = Instant::from_nanos(u64::MAX - 1);
        assert_eq!(late + Duration::from_secs(1), Instant::from_nanos(u64::MAX));
        assert_eq!(late + Duration::MAX, Instant::from_nanos(u64::MAX));
        assert_eq!(Instant::EPOCH.saturating_since(late), Duration::ZERO);
        assert_eq!(
            late.saturating_since(Instant::from_nanos(u64::MAX - 5))
                .as_nanos(),
            4
        );
    }

    #[test]
    fn maybe_instant_round_trips() {
        for ns in [0, 1, u64::MAX / 2, u64::MAX - 1] {
            let instant = Instant::from_nanos(ns);
            assert_eq!(MaybeInstant::from(instant).get(), Some(instant));
        }
        assert_eq!(MaybeInstant::NONE.get(), None);
        assert_eq!(
            MaybeInstant::default(),
            MaybeInstant::NONE,
            "and not the epoch"
        );
        assert_eq!(size_of::<MaybeInstant>(), size_of::<Instant>());
    }
}
