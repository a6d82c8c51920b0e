//! Capacity: picks by how much of a replica's capacity is in use, and by the cost of a query there.
//! `[Decision 0009]`
//!
//! RIF shows how much load a replica has, not how much it can take. If replicas report their
//! capacity K, the share in use, RIF / K, decides. If they report the cost of a query, so does the
//! time that a query takes without waiting. The replica with the lowest product of the two is
//! picked, with the probes and the pool of Prequal.
//!
//! Reports also come with responses, if replicas send them. They are from replicas that were
//! picked, which is a biased sample for hot and cold. But each shows what its replica has left as
//! well as a probe does. So few probes are sent, and no report is removed before it expires.
//!
//! A replica that had more than its share of this client's recent queries counts as having a part
//! of a query more. `[Decision 0014]`
//!
//! While any available replica reports no capacity, this is exactly Prequal: its rule and its
//! probes, without the reports of responses.

use crate::fixed::{ONE, Rate, banded, mul_div};
use crate::policy::comparison::{CHANCE, Comparison, Equals, Factor, Step, Unit, Values};
use crate::policy::entry::{Carried, PolicyEntry, Reports};
use crate::policy::pooled::{PoolMoment, PoolRule, Pooled};
use crate::policy::prequal::{PrequalConfig, hot_cold};
use crate::policy::probed::rank::{Load, Order, Place};
use crate::policy::probed::{Client, Probed};
use crate::policy::query::PickReason;
use crate::policy::settings::{ConfigError, Settings, Valid, require, section};
use crate::policy::turns;
use crate::policy::usual::{Usual, UsualNow};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use alloc::boxed::Box;
use core::time::Duration;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["prequal", "capacity"],
    reports: Reports::Pool,
    has_rif_quantile: true,
    carried: Carried::Capacity,
    comparisons: &[&COMPARISON, &hot_cold::COMPARISON, &CHANCE],
    why_hot_cold: "not all replicas report their capacity, so the hot-cold rule decided",
    ..PolicyEntry::new(
        "capacity",
        "probes, least of its capacity in use",
        "Picks the lowest product of the capacity in use and the cost of a request. While some replica reports no capacity, the hot-cold rule decides.",
        |s| Box::new(Capacity::new(s.prequal.clone(), &s.capacity)),
    )
};

/// How reports are compared while all replicas report their capacity. The share in use is that of
/// 85 % of the capacity. It includes this request and the turn surcharge, and reports fade to the
/// usual value with age. "Times longer" follows from the share and the capacity.
const COMPARISON: Comparison = Comparison {
    name: "capacity_in_use",
    formula: "score = cost of a request × times longer(in use, capacity)",
    shared: &[],
    factors: &[
        Factor::requests("in_flight", "requests in flight", 1),
        Factor::requests("turn_surcharge", "turn surcharge", turns::FINE),
        Factor::requests("capacity", "capacity", ONE_RIF),
        Factor::share("in_use", "in use"),
        Factor::time("cost_us", "cost of a request", 1_000),
        Factor::new("times_longer", "times longer", Unit::Count, MILLION),
        Factor::time("score_us", "score", 1_000 * FRACTION),
        Factor::time("latency_us", "latency", 1_000),
    ],
    order: &[Step::lowest("score_us"), Step::lowest("latency_us")],
    equals: Equals::Draw,
};

/// Picks by the share of capacity in use, and by cost.
pub type Capacity = Probed<Pooled<LeastInUse>>;

/// Settings of [`Capacity`] besides those of its probes and pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacitySettings {
    /// Probes per query while all replicas report their capacity and at least half of the responses
    /// carry reports: 0 to 16, default 0.5, fractions allowed. 0 leaves idle probes and the reports
    /// of responses. Otherwise the rate of [`PrequalConfig`] applies.
    pub probe_rate: Rate,
    /// How far a replica's cost may differ from the mean of all and still count as the mean, in
    /// millionths of it: 0 to 10,000,000, default 250,000. At 0 every difference counts, even
    /// chance. If costs differ by less, the share of capacity in use decides alone.
    pub cost_band_millionths: u32,
}

/// Valid settings of [`Capacity`].
pub type CapacityConfig = Valid<CapacitySettings>;

impl Default for CapacitySettings {
    fn default() -> Self {
        Self {
            probe_rate: Rate::from_millionths(ONE / 2).unwrap_or(Rate::ZERO),
            cost_band_millionths: ONE / 4,
        }
    }
}

impl Settings for CapacitySettings {
    fn check(&self) -> Result<(), ConfigError> {
        let most = Rate::per_query(16).unwrap_or(Rate::MAX);
        let probe_rate = self.probe_rate <= most;
        require(probe_rate, "probe_rate", "from 0 to 16 a query")?;
        let band = self.cost_band_millionths <= 10 * ONE;
        require(band, "cost_band_millionths", "from 0 to 10,000,000")
    }
}

section! { CapacitySettings in "capacity" {
    /// Probes for each request while all replicas report a capacity and half of the responses carry
    /// reports; else `prequal.probe_rate` applies. 0: only idle probes.
    probe_rate in Rate: probe_rate;
    /// Costs this close to the mean cost, relatively, count as equal to it. 0: none do.
    cost_band in Factor: cost_band_millionths;
} }

impl Capacity {
    /// The policy with an empty fleet, and the probes and pool of `config`.
    pub fn new(config: PrequalConfig, capacity: &CapacityConfig) -> Self {
        Self::with(Pooled::new(LeastInUse::new(capacity), &config), config)
    }
}

/// Usable part of a capacity: a seventh is kept in reserve for chance. In millionths, as all
/// constants below.
const USABLE: u64 = 850_000;
/// With all of the capacity in use, a query is assumed to take this much longer than on an idle
/// replica: of two replicas without queues, the emptier one is better.
const CROWDING: u64 = 300_000;
/// Beyond capacity, a query is assumed to take this much longer for each capacity's worth of
/// others. It waits for them, and they wait for it, so it costs more than its own time, and the
/// more the more queries share the replica.
const OVERLOAD: u64 = 2_500_000;
/// Largest share of capacity in use; higher ones count as this. Below it nothing overflows.
const IN_USE_MAX: u64 = 1 << 50;
/// Reports with responses, per query, below which probes are needed. Without any such reports, half
/// a probe per query makes small or unequal fleets perform much worse.
const CARRIED_MIN: Rate = match Rate::from_millionths(ONE / 2) {
    Some(rate) => rate,
    None => Rate::MAX,
};
const MILLION: u64 = ONE as u64;
/// The cost of a query if no replica reports one: all are then equal, and the value does not
/// matter.
const COST_UNKNOWN_NS: u64 = 1_000_000;

/// The last report of a replica.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    /// 0 if it reports none.
    capacity_millirif: u32,
    cost_ns: Option<u64>,
    received_at: Instant,
}

/// One request in flight, in thousandths.
const ONE_RIF: u64 = 1_000;

/// The rule of [`Capacity`].
#[derive(Debug)]
pub struct LeastInUse {
    probe_rate: Rate,
    cost_band: u64,
    /// Replicas that have reported since they became available.
    reported: ReplicaMap<Reported>,
    with_capacity: usize,
    without_capacity: usize,
    costs: usize,
    cost_sum_ns: u128,
    /// Usual share of capacity in use, in millionths.
    usual: Usual,
}

impl LeastInUse {
    fn new(capacity: &CapacitySettings) -> Self {
        Self {
            probe_rate: capacity.probe_rate,
            cost_band: capacity.cost_band_millionths.into(),
            reported: ReplicaMap::default(),
            with_capacity: 0,
            without_capacity: 0,
            costs: 0,
            cost_sum_ns: 0,
            usual: Usual::default(),
        }
    }

    /// Whether all replicas that have reported also reported their capacity.
    fn is_known(&self) -> bool {
        self.with_capacity > 0 && self.without_capacity == 0
    }

    fn count(&mut self, reported: Reported) {
        if reported.capacity_millirif > 0 {
            self.with_capacity += 1;
        } else {
            self.without_capacity += 1;
        }
        if let Some(cost_ns) = reported.cost_ns {
            self.costs += 1;
            self.cost_sum_ns += u128::from(cost_ns);
        }
    }

    fn forget_report(&mut self, replica: ReplicaId) {
        let Some(&reported) = self.reported.find(replica) else {
            return;
        };
        self.reported.remove(replica);
        if reported.capacity_millirif > 0 {
            self.with_capacity -= 1;
        } else {
            self.without_capacity -= 1;
        }
        if let Some(cost_ns) = reported.cost_ns {
            self.costs -= 1;
            self.cost_sum_ns -= u128::from(cost_ns);
        }
    }

    fn mean_cost_ns(&self) -> u64 {
        let mean = self.cost_sum_ns.checked_div(self.costs as u128);
        mean.map_or(COST_UNKNOWN_NS, |mean| {
            u64::try_from(mean).unwrap_or(u64::MAX).max(1)
        })
    }

    /// First the expected time of a query, in 1/1024 of a nanosecond; between equals, the reported
    /// latency.
    fn place(&self, moment: Moment, replica: ReplicaId, load: Load, ahead: u64) -> Place {
        Place {
            first: self.terms(moment, replica, load, ahead).taken,
            second: load.latency_ns,
        }
    }

    fn terms(&self, moment: Moment, replica: ReplicaId, load: Load, ahead: u64) -> Terms {
        let Moment {
            now,
            usual,
            mean_cost_ns,
        } = moment;
        let reported = self.reported.find(replica).copied().unwrap_or_default();
        let capacity = u64::from(reported.capacity_millirif);
        let told = in_use(load.rif, capacity);
        let in_use = usual.aged(told, now.ns_since(reported.received_at));
        let in_use = (in_use + share(ahead, turns::FINE, capacity)).min(IN_USE_MAX);
        // A replica that runs one query at a time delays no other query.
        let shares = capacity.max(ONE_RIF);
        let overload = MILLION + mul_div(OVERLOAD - MILLION, shares - ONE_RIF, shares);
        let waiting = MILLION + mul_div(in_use.saturating_sub(MILLION), overload, MILLION);
        let crowding = MILLION + mul_div(in_use, CROWDING, MILLION);
        let cost_ns = reported.cost_ns.unwrap_or(mean_cost_ns);
        let cost_ns = banded(cost_ns, mean_cost_ns, self.cost_band);
        let longer = mul_div(waiting, crowding, MILLION);
        let taken = mul_div(cost_ns.saturating_mul(FRACTION), longer, MILLION);
        let behind = behind(in_use, capacity);
        Terms {
            capacity,
            in_use,
            cost_ns,
            longer: mul_div(longer, behind, MILLION),
            taken: mul_div(taken, behind, MILLION),
        }
    }

    /// What all reports are compared by now. `None` while not all replicas report their capacity.
    fn moment(&self, now: Instant) -> Option<Moment> {
        self.is_known().then(|| Moment {
            now,
            usual: self.usual.now(),
            mean_cost_ns: self.mean_cost_ns(),
        })
    }
}

/// The terms of a replica's place.
#[derive(Clone, Copy, Debug)]
struct Terms {
    capacity: u64,
    in_use: u64,
    cost_ns: u64,
    longer: u64,
    taken: u64,
}

/// What all reports are compared by.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Instant,
    usual: UsualNow,
    mean_cost_ns: u64,
}

/// Share of the usable capacity that one query and `others` use, in millionths.
fn in_use(others: u64, capacity_millirif: u64) -> u64 {
    share(others.saturating_add(1), 1, capacity_millirif).min(IN_USE_MAX)
}

/// Share of the usable capacity that `queries` use, in millionths. `queries` counts in fractions of
/// a query, `parts` to one.
fn share(queries: u64, parts: u64, capacity_millirif: u64) -> u64 {
    let queries = queries.saturating_mul(ONE_RIF * MILLION);
    let usable = capacity_millirif.max(ONE_RIF) * USABLE;
    mul_div(queries / parts, MILLION, usable)
}

/// Factor by which a query takes longer than its cost behind the others that make up this share, in
/// millionths. With a capacity below one, the earlier queries take longer than their cost, and this
/// one does not: with none before it, quota has accumulated.
fn behind(in_use: u64, capacity_millirif: u64) -> u64 {
    if capacity_millirif >= ONE_RIF {
        return MILLION;
    }
    let with_this = mul_div(in_use, USABLE, MILLION).max(MILLION);
    let before = mul_div(with_this - MILLION, ONE_RIF, capacity_millirif);
    mul_div(before.saturating_add(MILLION), MILLION, with_this)
}

/// Fractions of a nanosecond in places.
const FRACTION: u64 = 1 << 10;

impl PoolRule for LeastInUse {
    const NAME: &'static str = ENTRY.name;

    fn rif_limit(&self, client: &Client) -> Option<Rif> {
        client.rif_limit()
    }

    fn order(&self, now: Instant, rif_limit: Option<Rif>, client: &Client) -> impl Order {
        let limit = hot_cold::unscaled(rif_limit);
        let moment = self.moment(now);
        move |replica: ReplicaId, load| {
            let Some(moment) = moment else {
                return hot_cold::place(load, limit);
            };
            let (_, turn) = client.fleet.sent_to(replica);
            self.place(moment, replica, load, turn.ahead)
        }
    }

    fn reason(&self, first: u64) -> PickReason {
        if self.is_known() {
            PickReason::LowestScore
        } else {
            hot_cold::reason(first)
        }
    }

    fn comparison(&self, rif_limit: Option<Rif>) -> (&'static Comparison, Values) {
        if self.is_known() {
            (&COMPARISON, Values::NONE)
        } else {
            (&hot_cold::COMPARISON, hot_cold::shared(rif_limit))
        }
    }

    fn values(&self, pool: PoolMoment<'_>, replica: ReplicaId, load: Load) -> Values {
        let Some(moment) = self.moment(pool.now) else {
            return hot_cold::values(load, hot_cold::unscaled(pool.rif_limit));
        };
        let (_, turn) = pool.client.fleet.sent_to(replica);
        let terms = self.terms(moment, replica, load, turn.ahead);
        Values::of([
            load.rif,
            turn.ahead,
            terms.capacity,
            terms.in_use,
            terms.cost_ns,
            terms.longer,
            terms.taken,
            load.latency_ns,
        ])
    }

    fn reported(&self, replica: ReplicaId) -> (Option<u32>, Option<Duration>) {
        let reported = self.reported.find(replica).copied().unwrap_or_default();
        let capacity = Some(reported.capacity_millirif).filter(|&millirif| millirif > 0);
        (capacity, reported.cost_ns.map(Duration::from_nanos))
    }

    fn takes_carried(&self) -> bool {
        self.is_known()
    }

    fn takes_turns(&self) -> bool {
        self.is_known()
    }

    fn probe_rate(&self, carried_rate: Rate, client: &Client) -> Rate {
        if self.is_known() && carried_rate >= CARRIED_MIN {
            self.probe_rate
        } else {
            client.config.probe_rate
        }
    }

    fn add_replica(&mut self, replica: ReplicaId) {
        self.reported.reserve(replica);
    }

    fn forget(&mut self, replica: ReplicaId) {
        self.forget_report(replica);
    }

    fn handle_report(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport) {
        self.forget_report(replica);
        if let Some(capacity_millirif) = report.capacity_millirif {
            let in_use = in_use(report.rif.count().into(), capacity_millirif.into());
            self.usual
                .learn(in_use, report.known_latency().map(span_ns));
        }
        let reported = Reported {
            capacity_millirif: report.capacity_millirif.unwrap_or(0),
            cost_ns: report.cost.map(span_ns),
            received_at: now,
        };
        self.count(reported);
        self.reported.insert(replica, reported);
    }
}
