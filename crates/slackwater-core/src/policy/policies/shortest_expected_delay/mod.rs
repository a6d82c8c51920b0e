//! Shortest expected delay: picks by how long a query is expected to take, and by what it costs the
//! others. `[Decision 0020]`
//!
//! ```text
//! u     = requests in flight, with this one, as a share of the usable capacity
//! score = time of a query alone × times longer(u)
//! ```
//!
//! Each replica counts with what it reports, so one fleet may be mixed:
//!
//! | it reports | its capacity | the time of a query alone |
//! |---|---|---|
//! | capacity and cost | as reported | the cost |
//! | neither, and others do | the mean of the others | mean cost × mean latency / theirs |
//! | neither, and no replica does | 1 | its mean latency |
//! | no answer to probes | as in the last two rows | as there, from this client's own queries |
//!
//! With known capacities, "times longer" has two factors. Of two replicas that delay no query, the
//! emptier one is better. Beyond capacity, a query waits for the others and they wait for it. While
//! no replica reports a capacity, each request in flight counts alike: the score is (RIF + 1) ×
//! mean latency. IPVS calls that rule *shortest expected delay*; here the weights are learned
//! instead of configured.
//!
//! A replica whose latency or cost differs little from the mean of all counts as the mean, so equal
//! replicas are compared by requests in flight alone. A replica that had more than its share of
//! this client's recent queries counts as having a part of a query more. Of equals, the one whose
//! last turn is longest ago is picked `[Decision 0014]`.
//!
//! A report of little load counts less as it ages `[Decision 0012]`. In a large fleet only the
//! newest reports are compared, so that each client compares other ones.
//!
//! What is learned of each replica is in `learned`, and what long-running requests hide of it in
//! `long_running`. Zones are in `far`.

mod compared;
mod far;
mod known;
mod learned;
mod long_running;
mod sum;
#[cfg(test)]
mod tests;

use crate::fixed::{ONE, Rate, banded, mul_div, mul_shift};
use crate::policy::comparison::{Comparison, Values};
use crate::policy::entry::{Carried, PolicyEntry, Reports};
use crate::policy::latest::{
    FEWEST_IN_FLIGHT, From, LatestLoad, LatestReports, LatestRule, Reported, Update,
};
use crate::policy::prequal::PrequalConfig;
use crate::policy::probed::Probed;
use crate::policy::probed::rank::Place;
use crate::policy::query::PickReason;
use crate::policy::settings::{ConfigError, Settings, Valid, require, section};
use crate::policy::turns::FINE;
use crate::policy::usual::{Usual, UsualNow};
use crate::replica::ReplicaId;
use crate::time::Instant;
use alloc::boxed::Box;
use compared::{BY_CAPACITY, BY_LATENCY};
use core::time::Duration;
use far::Zones;
use known::Known;
use learned::{Learned, Table};

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["prequal", "shortest_expected_delay"],
    reports: Reports::Latest,
    carried: Carried::Capacity,
    uses_zones: true,
    comparisons: &[&BY_LATENCY, &BY_CAPACITY, &FEWEST_IN_FLIGHT],
    ..PolicyEntry::new(
        "shortest_expected_delay",
        "probes, shortest expected delay",
        "Probes replicas for their load and picks the shortest expected delay: by capacity in use and cost where replicas report them, else by requests in flight and mean latency.",
        |s| {
            Box::new(ShortestExpectedDelay::new(
                s.prequal.clone(),
                &s.shortest_expected_delay,
            ))
        },
    )
};

/// Picks by how long a query is expected to take.
pub type ShortestExpectedDelay = Probed<LatestReports<ExpectedDelay>>;

/// Settings of [`ShortestExpectedDelay`] besides those of its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortestExpectedDelaySettings {
    /// Probes per query while at least five of six responses carry reports with a capacity, and the
    /// mean capacity is at least one request: 0 to 16, default 0.5, fractions allowed. 0 leaves
    /// idle probes and the reports of responses. Otherwise the rate of [`PrequalConfig`] applies.
    /// While two thirds of the queries that replicas report are this client's, it sends
    /// `probe_rate_min` of them, and half a probe or more.
    pub probe_rate: Rate,
    /// How far a replica's mean latency may differ from the mean of all and still count as that, in
    /// millionths of it: 0 to 10,000,000, default 150,000. At 0 every difference counts, even
    /// chance. At 10,000,000 none does, and requests in flight decide alone.
    pub latency_band_millionths: u32,
    /// How far a replica's cost may differ from the mean of all and still count as that, in
    /// millionths of it: 0 to 10,000,000, default 250,000. 0 and 10,000,000 as above.
    pub cost_band_millionths: u32,
}

/// Valid settings of [`ShortestExpectedDelay`].
pub type ShortestExpectedDelayConfig = Valid<ShortestExpectedDelaySettings>;

impl Default for ShortestExpectedDelaySettings {
    fn default() -> Self {
        Self {
            probe_rate: millionths(ONE / 2),
            latency_band_millionths: 150_000,
            cost_band_millionths: 250_000,
        }
    }
}

impl Settings for ShortestExpectedDelaySettings {
    fn check(&self) -> Result<(), ConfigError> {
        let most = Rate::per_query(16).unwrap_or(Rate::MAX);
        require(
            self.probe_rate <= most,
            "probe_rate",
            "from 0 to 16 a query",
        )?;
        for (band, key) in [
            (self.latency_band_millionths, "latency_band_millionths"),
            (self.cost_band_millionths, "cost_band_millionths"),
        ] {
            require(band <= 10 * ONE, key, "from 0 to 10,000,000")?;
        }
        Ok(())
    }
}

section! { ShortestExpectedDelaySettings in "shortest_expected_delay" {
    /// Probes for each request while five of six responses carry reports with a capacity, and the
    /// mean is at least one request; else `prequal.probe_rate` applies. 0: only idle probes.
    probe_rate in Rate: probe_rate;
    /// Mean latencies this close to the mean of all, relatively, count as equal to it. 0: none do.
    /// 10: requests in flight alone decide.
    latency_band in Factor: latency_band_millionths;
    /// Costs this close to the mean cost, relatively, count as equal to it. 0: none do.
    cost_band in Factor: cost_band_millionths;
} }

impl ShortestExpectedDelay {
    /// The policy with an empty fleet. The pool settings of `config` have no effect here.
    pub fn new(config: PrequalConfig, settings: &ShortestExpectedDelayConfig) -> Self {
        let rule = ExpectedDelay {
            probe_rate: settings.probe_rate,
            latency_band: settings.latency_band_millionths.into(),
            cost_band: settings.cost_band_millionths.into(),
            table: Table::default(),
            zones: Zones::default(),
            usual: Usual::default(),
        };
        Self::with(LatestReports::new(rule, &config), config)
    }
}

/// One, as shares and factors are computed: with a power of two, a pick needs shifts in place of
/// divisions.
const UNIT_BITS: u32 = 20;
const UNIT: u64 = 1 << UNIT_BITS;
/// One request in flight, in thousandths, as capacities are reported.
const ONE_RIF: u64 = 1_000;
/// With all of the capacity in use, a query is assumed to take this much longer than on an idle
/// replica: of two replicas without queues, the emptier one is better. In units.
const CROWDING: u64 = UNIT * 3 / 10;
/// Largest share of capacity in use; higher ones count as this. Below it nothing overflows.
const IN_USE_MAX: u64 = UNIT << 12;
/// Largest factor by which a replica counts as slower, or faster, than the mean.
const DIFFERENCE_MAX: u64 = 4;
/// Largest factor by which the queries of a replica with a capacity count as dearer than the mean.
const DEARER_MAX: u64 = 1_000;
/// Reports with responses, per query, from which on fewer probes are sent: with half a probe, four
/// reports in three queries, which are enough. Fewer make small or unequal fleets perform worse.
const CARRIED_MIN: Rate = millionths(ONE / 6 * 5);
/// Fewest probes per query of a client that sends most of them, to notice others.
const PROBES_OF_MOST_MIN: Rate = millionths(ONE / 2);

const fn millionths(millionths: u32) -> Rate {
    match Rate::from_millionths(millionths) {
        Some(rate) => rate,
        None => Rate::MAX,
    }
}

/// The rule of [`ShortestExpectedDelay`].
#[derive(Debug)]
pub struct ExpectedDelay {
    probe_rate: Rate,
    latency_band: u64,
    cost_band: u64,
    table: Table,
    zones: Zones,
    /// Usual share of the capacity in use. While no capacity is known it is counted as 1.
    usual: Usual,
}

/// What all replicas are compared by at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    usual: UsualNow,
    /// Whether any replica reports a capacity.
    by_capacity: bool,
    /// Whether this client's zone has room, so that queries stay there.
    stays: bool,
}

/// A value as a share of the mean. One within the band of it counts as the mean.
fn relative(value: u64, mean: u64, band_millionths: u64) -> u64 {
    if banded(value, mean, band_millionths) == mean {
        UNIT
    } else {
        mul_div(value, UNIT, mean)
    }
}

impl ExpectedDelay {
    /// Mean latency that a replica counts with, as a share of [`Table::mean_latency`].
    fn latency(&self, learned: Learned) -> u64 {
        let Some(latency) = learned.latency() else {
            return UNIT;
        };
        let share = relative(latency, self.table.mean_latency(), self.latency_band);
        share.clamp(UNIT / DIFFERENCE_MAX, UNIT * DIFFERENCE_MAX)
    }

    /// Cost that a replica with a known capacity counts with, as a share of the mean cost.
    fn cost(&self, learned: Learned) -> u64 {
        if learned.cost_ns == 0 {
            return UNIT;
        }
        let share = relative(learned.cost_ns, self.table.mean_cost_ns(), self.cost_band);
        share.clamp(1, UNIT * DEARER_MAX)
    }

    /// The share in use that a replica counts with: of little load, less with age, and with the
    /// turn surcharge.
    #[inline]
    fn in_use(load: LatestLoad, known: &Known, moment: &Moment) -> u64 {
        let reported = known.share(load.in_flight + FINE);
        moment.usual.aged(reported, load.age_ns) + known.share(load.turn.ahead)
    }

    /// Like [`LatestRule::known`], by what was learned of the replica.
    #[expect(
        clippy::inline_always,
        reason = "each report needs it once, and the call would be a third of its time"
    )]
    #[inline(always)]
    fn known_by(&self, replica: ReplicaId, learned: Learned, others: u32) -> Known {
        let mut known = if learned.capacity_millirif > 0 {
            Known::with_capacity(learned.capacity_millirif, self.cost(learned))
        } else if let Some(mean) = self.table.mean_capacity() {
            Known::with_capacity(
                u32::try_from(mean).unwrap_or(u32::MAX),
                self.latency(learned),
            )
        } else {
            let share = self.latency(learned);
            Known::without_capacity(self.table.long_running().counted(share, UNIT))
        };
        let by_capacity = self.table.knows_capacity();
        let in_use = known.share((u64::from(others) + 1) * FINE);
        known.score_min = known.score_there(in_use, by_capacity);
        if self.zones.any() {
            known.away = self.zones.of(replica, self.mean_ns());
            known.score_min = (known.away).applied_to(known.score_min, by_capacity, false);
        }
        known
    }

    /// Returns whether loads are in another unit than before: shares of a capacity, or requests.
    fn handle_new_unit(&mut self, knew_capacity: bool) -> bool {
        let is_new = self.table.knows_capacity() != knew_capacity;
        if is_new {
            self.usual = Usual::default();
            self.zones.forget_loads();
        }
        is_new
    }

    /// The mean time of a query: the cost where capacities are known, else the latency.
    fn mean_ns(&self) -> u64 {
        if self.table.knows_capacity() {
            self.table.mean_cost_ns()
        } else {
            self.table.mean_latency() / FINE
        }
    }

    /// The time that 1 in a product of this many units stands for, in 1/1024 ns.
    fn time(&self, share: u64, units: u32) -> u64 {
        let mean = if self.table.knows_capacity() {
            self.table.mean_cost_ns() * FINE
        } else {
            self.table.mean_latency()
        };
        mul_shift(mean, share, units * UNIT_BITS)
    }
}

impl LatestRule for ExpectedDelay {
    const NAME: &'static str = ENTRY.name;
    const NEWEST_MAX: usize = 16;
    const TAKES_TURNS: bool = true;
    const FIRST_MIN: Option<fn(&Known) -> u64> = Some(|known| known.score_min);

    type Known = Known;
    type Moment = Moment;

    fn known(&self, replica: ReplicaId, others: u32) -> Known {
        self.known_by(replica, self.table.of(replica), others)
    }

    fn moment(&self) -> Moment {
        Moment {
            usual: self.usual.now(),
            by_capacity: self.table.knows_capacity(),
            stays: self.zones.any() && self.zones.has_room(self.table.knows_capacity()),
        }
    }

    /// First the score; between equals, the one whose last turn is longest ago.
    #[expect(
        clippy::inline_always,
        reason = "each pick needs it twice or more, in one place"
    )]
    #[inline(always)]
    fn place(&self, load: LatestLoad, known: &Known, moment: &Moment) -> Place {
        let in_use = Self::in_use(load, known, moment);
        Place {
            first: known.score(in_use, moment.by_capacity, moment.stays),
            second: load.turn.last,
        }
    }

    fn comparison(&self) -> &'static Comparison {
        if self.table.knows_capacity() {
            &BY_CAPACITY
        } else {
            &BY_LATENCY
        }
    }

    fn values(&self, load: LatestLoad, known: &Known, moment: &Moment) -> Values {
        let in_use = Self::in_use(load, known, moment);
        let alone = self.time(known.alone, 1);
        let score = self.time(known.score(in_use, moment.by_capacity, moment.stays), 2);
        let (ahead, last) = (load.turn.ahead, load.turn.last);
        if moment.by_capacity {
            let in_use = mul_div(in_use, ONE.into(), UNIT);
            Values::of([
                load.in_flight,
                known.capacity.into(),
                in_use,
                alone,
                score,
                last,
            ])
        } else {
            let in_flight = in_use.saturating_sub(known.share(ahead));
            let in_flight = mul_div(in_flight, ONE.into(), UNIT);
            Values::of([in_flight, alone, ahead, score, last])
        }
    }

    fn reason(_first: u64) -> PickReason {
        PickReason::LowestScore
    }

    fn reported(&self, replica: ReplicaId) -> (Option<u32>, Option<Duration>) {
        let learned = self.table.of(replica);
        let capacity = Some(learned.capacity_millirif).filter(|&capacity| capacity > 0);
        let cost = Some(learned.cost_ns).filter(|&cost_ns| cost_ns > 0);
        (capacity, cost.map(Duration::from_nanos))
    }

    fn handle_report(&mut self, now: Instant, reported: Reported) -> Update<Known> {
        let before = self.table.knows_capacity();
        let learned = self.table.handle_report(now, reported);
        let of_all = self.handle_new_unit(before);
        let known = self.known_by(reported.replica, learned, reported.others);
        let requests = (u64::from(reported.rif.count()) + 1) * FINE;
        (self.usual).learn(known.share(requests), reported.latency_ns);
        if self.zones.any() && reported.from != From::Response {
            let in_use = known.share(requests - FINE);
            let score = known.score_there(known.share(requests), self.table.knows_capacity());
            self.zones.learn(known.away, in_use, score);
        }
        Update { known, of_all }
    }

    fn handle_own_latency(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        latency_ns: u64,
        failed: bool,
    ) {
        (self.table).handle_own_latency(now, replica, latency_ns, failed);
    }

    fn takes_carried(&self) -> bool {
        true
    }

    fn probe_rate(&self, carried_rate: Rate, sends_most: bool, config: &PrequalConfig) -> Rate {
        // Each query is more than a replica can carry, so a report is soon old.
        if (self.table.mean_capacity()).is_some_and(|mean| mean < ONE_RIF) {
            config.probe_rate
        } else if carried_rate >= CARRIED_MIN {
            self.probe_rate
        } else if sends_most {
            let fewest = config.probe_rate_min.max(PROBES_OF_MOST_MIN);
            fewest.min(config.probe_rate)
        } else {
            config.probe_rate
        }
    }

    fn add_replica(&mut self, replica: ReplicaId) {
        self.table.add(replica);
        self.zones.remove(replica);
    }

    fn set_far(&mut self, replica: ReplicaId, round_trip: Duration) {
        self.zones.insert(replica, round_trip);
    }

    fn forget(&mut self, replica: ReplicaId) -> bool {
        let before = self.table.knows_capacity();
        self.table.forget(replica);
        self.handle_new_unit(before)
    }
}
