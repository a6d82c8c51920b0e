//! The largest probe rate: a bucket of tokens, one for each probe. `[A4]` `[Decision 0011]`
//!
//! Every probe takes one, whatever its cause. Which probe is dropped when the bucket is empty is as
//! random as the targets, so no replica and no idle span is skipped permanently.

use crate::time::Instant;

/// Capacity of the bucket if that is more than a tenth of a second's worth: no query, and no idle
/// span, needs more probes at once.
const BURST_MIN: u64 = 16;
/// The price of a probe, in units that flow in per nanosecond at one probe a second.
const PROBE: u64 = 1_000_000_000;

/// A limit in probes per second.
#[derive(Clone, Debug)]
pub(super) struct RateCap {
    /// 0: unlimited.
    per_second: u64,
    level: u64,
    filled_at: Instant,
}

impl RateCap {
    /// A full bucket.
    pub(super) fn new(per_second: u32) -> Self {
        let per_second = per_second.into();
        Self {
            per_second,
            level: Self::most(per_second),
            filled_at: Instant::EPOCH,
        }
    }

    fn most(per_second: u64) -> u64 {
        (per_second / 10).max(BURST_MIN) * PROBE
    }

    /// Pays for a probe. Returns `false` if it must not be sent.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        if self.per_second == 0 {
            return true;
        }
        let flown = now.ns_since(self.filled_at).saturating_mul(self.per_second);
        self.filled_at = now;
        self.level = (self.level.saturating_add(flown)).min(Self::most(self.per_second));
        let enough = self.level >= PROBE;
        if enough {
            self.level -= PROBE;
        }
        enough
    }

    /// Refunds a probe that was not sent.
    pub(super) fn give_back(&mut self) {
        self.level = (self.level + PROBE).min(Self::most(self.per_second));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(cap: &mut RateCap, now: Instant) -> u64 {
        (0..1_000_000).take_while(|_| cap.take(now)).count() as u64
    }

    #[test]
    fn rate_cap_allows_its_rate_plus_a_burst() {
        for (per_second, burst) in [(1, 16), (160, 16), (170, 17), (1_000, 100)] {
            let mut cap = RateCap::new(per_second);
            assert_eq!(taken(&mut cap, Instant::from_nanos(7)), burst);
            let mut sent = 0;
            for ms in 1..=10_000 {
                sent += taken(&mut cap, Instant::from_nanos(7 + ms * 1_000_000));
            }
            assert_eq!(sent, 10 * u64::from(per_second), "to the probe");
            let much_later = Instant::from_nanos(1 << 62);
            assert_eq!(taken(&mut cap, much_later), burst, "nothing is saved up");
        }
    }

    #[test]
    fn returned_token_can_be_reused_once() {
        let mut cap = RateCap::new(10);
        cap.give_back();
        assert_eq!(taken(&mut cap, Instant::EPOCH), 16);
        cap.give_back();
        assert_eq!(taken(&mut cap, Instant::EPOCH), 1);
    }

    #[test]
    fn rate_of_zero_means_no_cap() {
        assert_eq!(taken(&mut RateCap::new(0), Instant::EPOCH), 1_000_000);
    }
}
