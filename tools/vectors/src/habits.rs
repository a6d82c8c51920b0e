//! What differs from one scenario to another: the load, and the troubles.

use crate::chance::Chance;

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;

/// What a replica puts into its reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reporter {
    /// Requests in flight only.
    Rif,
    /// Requests in flight and the latency.
    Latency,
    /// All of that, capacity and cost.
    Capacity,
    /// Capacity and cost, and seldom a latency.
    CapacityOnly,
    /// A latency of zero: its clock is too coarse.
    Zero,
    /// Values at the ends of their ranges.
    Extreme,
}

/// What differs from one scenario to another.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    /// Mean time between two queries.
    pub(crate) gap_ns: u64,
    /// The step of the clock.
    pub(crate) grain_ns: u64,
    /// When a query is given up.
    pub(crate) deadline_ns: u64,
    /// How often in a thousand the driver reports heads.
    pub(crate) heads: u32,
    /// How many in a thousand of these responses then run on for seconds.
    pub(crate) streams: u32,
    pub(crate) retries: u32,
    pub(crate) hedges: u32,
    pub(crate) pinned: u32,
    pub(crate) carried: u32,
    pub(crate) siblings: u32,
    /// How often in a thousand a probe is not answered normally.
    pub(crate) probe_trouble: u32,
    /// Mean time between changes of the fleet.
    pub(crate) change_ns: u64,
    /// Mean time between changes of how its replicas do.
    pub(crate) condition_ns: u64,
    /// How many in a thousand of these changes are the same for all replicas.
    pub(crate) alike: u32,
    /// How often in a thousand the clock steps back.
    pub(crate) steps_back: u32,
    pub(crate) reporters: [Reporter; 3],
    /// How many in a thousand report how many queries they finish.
    pub(crate) rates: u32,
    /// How many in a thousand answer no probes.
    pub(crate) unprobed: u32,
    pub(crate) cores: u32,
    pub(crate) base_ns: u64,
    /// How busy other clients keep the fleet, in thousandths of its cores.
    pub(crate) load: u32,
}

impl Habits {
    /// Draws them, for a long scenario or another.
    pub(crate) fn drawn(chance: &mut Chance, is_guarded: bool, is_long: bool) -> Self {
        // Health judges over seconds.
        let gap_ns = if is_guarded {
            chance.one_of(&[MS, 4 * MS, 10 * MS, 20 * MS, 40 * MS, 150 * MS, 500 * MS])
        } else {
            chance.one_of(&[200 * US, MS, 4 * MS, 15 * MS, 15 * MS, 40 * MS, 150 * MS])
        };
        let grains = [50 * MS, 10 * MS, MS].into_iter();
        let grain_ns = grains
            .filter(|_| chance.in_1000(300))
            .find(|&grain| grain <= gap_ns);
        let base_ns = gap_ns / 20 * chance.one_of(&[1_u64, 4, 20, 40, 80, 200]);
        let often = |chance: &mut Chance, times: &[u32]| chance.one_of(times);
        let reporter = |chance: &mut Chance| {
            chance.one_of(&[
                Reporter::Latency,
                Reporter::Latency,
                Reporter::Capacity,
                Reporter::Capacity,
                Reporter::CapacityOnly,
                Reporter::Rif,
                Reporter::Zero,
                Reporter::Extreme,
            ])
        };
        let first = reporter(chance);
        let is_mixed = chance.in_1000(400);
        let mut other = || if is_mixed { reporter(chance) } else { first };
        let reporters = [first, other(), other()];
        let changes: &[u32] = if is_guarded {
            &[10, 40, 150, 500]
        } else {
            &[5, 15, 40, 200]
        };
        Self {
            gap_ns,
            grain_ns: grain_ns.unwrap_or(1),
            deadline_ns: base_ns.saturating_mul(often(chance, &[10, 30, 100]).into()),
            heads: often(chance, &[0, 500, 900]),
            streams: if is_long { often(chance, &[0, 300]) } else { 0 },
            retries: often(chance, &[0, 700, 1_000]),
            hedges: often(chance, &[0, 100, 400]),
            pinned: often(chance, &[0, 0, 50, 200]),
            carried: often(chance, &[0, 0, 300, 900]),
            siblings: often(chance, &[0, 0, 300, 700]),
            probe_trouble: often(chance, &[0, 20, 60, 100, 400]),
            change_ns: gap_ns.saturating_mul(often(chance, changes).into()),
            condition_ns: gap_ns.saturating_mul(often(chance, &[8, 15, 30, 80]).into()),
            alike: often(chance, &[0, 30, 150]),
            steps_back: often(chance, &[0, 0, 5, 30]),
            reporters,
            rates: often(chance, &[0, 0, 300, 1_000]),
            unprobed: often(chance, &[0, 0, 0, 0, 100, 100, 400, 1_000]),
            cores: often(chance, &[1, 1, 2, 4, 16]),
            base_ns,
            load: often(chance, &[0, 100, 500, 900, 1_500, 6_000]),
        }
    }
}
