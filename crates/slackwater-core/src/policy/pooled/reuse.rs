//! How many queries one report may decide: equation (1), and the solution where it has none.
//!
//! `[A9]` `[Prequal §4 "Probe reuse and removal", eq. 1]` `[Decision 0001]`

use crate::draw::{Draw, below};
use crate::fixed::{ONE, Rate};

/// Largest floor under the reuse limit, in millionths of a use: with one or two replicas, or almost
/// no reports, the balance at two entries is unbounded. `[Decision 0001]`
const FLOOR_MAX: i128 = 16 * ONE as i128;

/// What the reuse limit depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Balance {
    /// m
    pub(super) pool_capacity: u16,
    /// n
    pub(super) replicas: u32,
    /// `r_probe`: reports that arrive per query.
    pub(super) probe_rate: Rate,
    /// `r_remove`
    pub(super) remove_rate: Rate,
    /// δ
    pub(super) pool_drift: Rate,
    pub(super) reuse_max: u16,
}

impl Balance {
    /// The reuse limit in millionths of a use.
    ///
    /// A pool of m entries in a fleet of n gains (1 − m/n) · `r_probe` reports per query (the
    /// others replace an entry of their replica). It loses `r_remove`, and one for each report that
    /// is used up. So
    ///
    /// > b = max{1, (1 + δ) / ((1 − m/n) · `r_probe` − `r_remove`)}
    ///
    /// lets it grow by a margin of δ: equation (1). Clients that use the same full pool again and
    /// again herd, so `reuse_max` caps this. The cap must not take the uses without which the pool
    /// runs dry: the pool must not fall below the two entries that a choice needs `[A8]`. The same
    /// balance at two entries, with nothing removed `[A10]`, is
    ///
    /// > floor = max{1, (1 + δ) / ((1 − 2/n) · `r_probe`)}
    ///
    /// which is never above equation (1), and is its literal 1 at three probes per query. It is
    /// used alone where equation (1) has no solution: if its denominator is not positive, the pool
    /// cannot grow to m, however often its reports are used. `[Decision 0001]` `[Decision 0005]`
    pub(super) fn reuse_limit(&self) -> u32 {
        let n = i128::from(self.replicas);
        let probe_rate = i128::from(self.probe_rate.millionths());
        let gain = |occupied: i128| (n - occupied) * probe_rate;
        let uses = |gain: i128| {
            let margin = i128::from(ONE) + i128::from(self.pool_drift.millionths());
            (gain > 0).then(|| margin * n * i128::from(ONE) / gain)
        };
        let (once, cap) = (
            i128::from(ONE),
            i128::from(self.reuse_max) * i128::from(ONE),
        );
        let floor = uses(gain(2)).map_or(FLOOR_MAX, |floor| floor.clamp(once, FLOOR_MAX));
        let removed = n * i128::from(self.remove_rate.millionths());
        let equation_1 = uses(gain(i128::from(self.pool_capacity)) - removed);
        let reuse_limit = equation_1.map_or(floor, |uses| uses.min(cap).max(floor));
        u32::try_from(reuse_limit).unwrap_or(u32::MAX)
    }
}

/// Rounds a reuse limit in millionths up or down at random to a whole number of uses, so that the
/// mean holds. Drawn once, when the report enters the pool. `[A9]`
pub(super) fn draw_uses(reuse_limit: u32, draw: &mut dyn Draw) -> u32 {
    let (whole, fraction) = (reuse_limit / ONE, reuse_limit % ONE);
    if fraction > 0 && below(draw, ONE) < fraction {
        whole + 1
    } else {
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::SplitMix64;

    fn balance(replicas: u32, probe_millionths: u32, remove_millionths: u32) -> Balance {
        let rate = |millionths| Rate::from_millionths(millionths).expect("in range");
        Balance {
            pool_capacity: 16,
            replicas,
            probe_rate: rate(probe_millionths),
            remove_rate: rate(remove_millionths),
            pool_drift: rate(ONE),
            reuse_max: 1024,
        }
    }

    fn capped(reuse_max: u16, balance: Balance) -> u32 {
        Balance {
            reuse_max,
            ..balance
        }
        .reuse_limit()
    }

    #[test]
    fn reuse_limit_matches_numbers_of_the_paper() {
        // 25/19 at the baseline, and Figure 8's sweep at r_remove = 1/4.
        assert_eq!(balance(100, 3_000_000, 1_000_000).reuse_limit(), 1_315_789);
        let sweep = [
            (4_000_000, 1_000_000),
            (2_830_000, 1_000_000),
            (2_000_000, 1_398_601),
            (1_000_000, 3_389_830),
            (500_000, 11_764_705),
        ];
        for (probe_rate, expected) in sweep {
            assert_eq!(
                balance(100, probe_rate, 250_000).reuse_limit(),
                expected,
                "{probe_rate}"
            );
        }
    }

    #[test]
    fn without_a_solution_of_equation_1_pool_balances_at_two_entries() {
        // n ≤ 24 at the defaults: 1, as equation (1) reads literally, except for the smallest
        // fleets.
        for replicas in 6..=24 {
            assert_eq!(
                balance(replicas, 3_000_000, 1_000_000).reuse_limit(),
                ONE,
                "{replicas}"
            );
        }
        assert_eq!(balance(5, 3_000_000, 1_000_000).reuse_limit(), 1_111_111);
        assert_eq!(balance(5, 500_000, 1_000_000).reuse_limit(), 6_666_666);
        assert_eq!(balance(100, 1_000_000, 1_000_000).reuse_limit(), 2_040_816);
    }

    #[test]
    fn reuse_limit_is_capped() {
        let herding = balance(25, 3_000_000, 1_000_000);
        assert_eq!(herding.reuse_limit(), 25 * ONE);
        for reuse_max in [1, 2, 24] {
            assert_eq!(capped(reuse_max, herding), u32::from(reuse_max) * ONE);
        }
        assert_eq!(capped(26, herding), 25 * ONE);
        assert_eq!(capped(1, balance(100, 3_000_000, 1_000_000)), ONE);
    }

    #[test]
    fn reuse_cap_leaves_enough_uses_to_fill_the_pool() {
        // Half a probe per query: equation (1) gives 11.76, two entries need 2 / (0.98 · 0.5).
        let sparse = balance(100, 500_000, 250_000);
        assert_eq!(capped(1, sparse), 4_081_632);
        assert_eq!(capped(5, sparse), 5 * ONE);
        // This floor also applies where equation (1) has no solution.
        assert_eq!(capped(1, balance(5, 500_000, 1_000_000)), 6_666_666);
    }

    #[test]
    fn reuse_floor_is_at_most_sixteen_uses() {
        for replicas in 0..=2 {
            assert_eq!(
                balance(replicas, 3_000_000, 1_000_000).reuse_limit(),
                16 * ONE,
                "{replicas}"
            );
        }
        let nothing_ever_comes_in = balance(100, 0, 0);
        assert_eq!(nothing_ever_comes_in.reuse_limit(), 16 * ONE);
        assert_eq!(capped(1, nothing_ever_comes_in), 16 * ONE);
        // 2 / (0.98 · 0.128) = 15.94. With a little less it would be more than sixteen.
        assert_eq!(balance(100, 128_000, 1_000_000).reuse_limit(), 15_943_877);
        assert_eq!(balance(100, 127_000, 1_000_000).reuse_limit(), 16 * ONE);
        assert_eq!(balance(1 << 20, 16_000_000, 0).reuse_limit(), ONE);
    }

    #[test]
    fn random_rounding_preserves_the_mean() {
        let mut draw = SplitMix64::new(5);
        let drawn: u32 = (0..100_000).map(|_| draw_uses(1_315_789, &mut draw)).sum();
        // Binomial: mean 131,579, standard deviation 147; the limit is five of them.
        assert!((130_844..132_314).contains(&drawn), "{drawn}");
        let mut no_draw = || -> u64 { panic!("a whole number needs no draw") };
        assert_eq!(draw_uses(3 * ONE, &mut no_draw), 3);
        assert_eq!(
            draw_uses(1_000_001, &mut || u64::MAX),
            1,
            "the largest draw rounds down"
        );
        assert_eq!(draw_uses(1_000_001, &mut || 0), 2, "the smallest rounds up");
    }
}
