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
//! | neither, and others do | the mean of the others | mean cost × mean latency / that of all |
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
//! What is learned of each replica is in `learned`.

mod learned;

use crate::fixed::{ONE, Rate, banded, mul_div};
use crate::policy::comparison::{Comparison, Equals, Factor, Step, Values};
use crate::policy::entry::{Carried, PolicyEntry, Reports};
use crate::policy::latest::{FEWEST_IN_FLIGHT, LatestLoad, LatestReports, LatestRule, Reported};
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
use core::time::Duration;
use learned::{Learned, Means, Table};

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["prequal", "shortest_expected_delay"],
    reports: Reports::Latest,
    carried: Carried::Capacity,
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

/// How replicas are compared while none reports a capacity. Requests in flight include this one,
/// and reports of little load count less with age.
const BY_LATENCY: Comparison = Comparison {
    name: "expected_delay",
    formula: "expected delay = (requests in flight + turn surcharge) × mean latency",
    shared: &[],
    factors: &[
        Factor::requests("in_flight", "requests in flight", MILLION),
        Factor::time("mean_latency_us", "mean latency", FINE * 1_000),
        Factor::requests("turn_surcharge", "turn surcharge", FINE),
        Factor::time("expected_delay_us", "expected delay", FINE * 1_000),
        Factor::count("last_turn", "last turn"),
    ],
    order: &[Step::lowest("expected_delay_us"), Step::lowest("last_turn")],
    equals: Equals::Draw,
};

/// How they are compared while some do. The share in use is that of 85 % of the capacity. It
/// includes this request and the turn surcharge, and reports of little load count less with age.
/// "Times longer" follows from the share and the capacity.
const BY_CAPACITY: Comparison = Comparison {
    name: "capacity_in_use",
    formula: "score = time alone × times longer(in use, capacity)",
    shared: &[],
    factors: &[
        Factor::requests("in_flight", "requests in flight", FINE),
        Factor::requests("capacity", "capacity", ONE_RIF),
        Factor::share("in_use", "in use"),
        Factor::time("alone_us", "time alone", FINE * 1_000),
        Factor::time("score_us", "score", FINE * 1_000),
        Factor::count("last_turn", "last turn"),
    ],
    order: &[Step::lowest("score_us"), Step::lowest("last_turn")],
    equals: Equals::Draw,
};

/// Picks by how long a query is expected to take.
pub type ShortestExpectedDelay = Probed<LatestReports<ExpectedDelay>>;

/// Settings of [`ShortestExpectedDelay`] besides those of its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortestExpectedDelaySettings {
    /// Probes per query while at least half of the responses carry reports with a capacity: 0 to
    /// 16, default 0.5, fractions allowed. 0 leaves idle probes and the reports of responses.
    /// Otherwise the rate of [`PrequalConfig`] applies.
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
            probe_rate: Rate::from_millionths(ONE / 2).unwrap_or(Rate::ZERO),
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
    /// Probes for each request while half of the responses carry reports with a capacity; else
    /// `prequal.probe_rate` applies. 0: only idle probes.
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
            learned: Table::default(),
            usual: Usual::default(),
        };
        Self::with(LatestReports::new(rule, &config), config)
    }
}

const MILLION: u64 = ONE as u64;
/// One request in flight, in thousandths, as capacities are reported.
const ONE_RIF: u64 = 1_000;
/// Usable part of a capacity: a seventh is kept in reserve for chance. In millionths, as the
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
/// Largest factor by which a replica counts as slower, or faster, than the mean.
const DIFFERENCE_MAX: u64 = 4;
/// Reports with responses, per query, from which on fewer probes are sent. Without any such
/// reports, half a probe per query makes small or unequal fleets perform much worse.
const CARRIED_MIN: Rate = match Rate::from_millionths(ONE / 2) {
    Some(rate) => rate,
    None => Rate::MAX,
};

/// The rule of [`ShortestExpectedDelay`].
#[derive(Debug)]
pub struct ExpectedDelay {
    probe_rate: Rate,
    latency_band: u64,
    cost_band: u64,
    learned: Table,
    /// Usual share of the capacity in use, in millionths. While no capacity is known it is counted
    /// as 1.
    usual: Usual,
}

/// What all replicas are compared by at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    means: Means,
    usual: UsualNow,
}

/// The terms of a replica's score.
#[derive(Clone, Copy, Debug)]
struct Terms {
    /// In thousandths of a request.
    capacity: u64,
    /// Requests in flight and the turn surcharge, as a share of the usable capacity, in millionths.
    /// While no capacity is known, in millionths of a request.
    in_use: u64,
    /// Time of a query alone, in 1/1024 ns.
    alone: u64,
    /// In 1/1024 ns.
    score: u64,
}

impl ExpectedDelay {
    fn terms(&self, load: LatestLoad, moment: &Moment) -> Terms {
        let learned = self.learned.of(load.replica);
        let requests = mul_div(load.in_flight + FINE, MILLION, FINE);
        let surcharge = load.turn.ahead * MILLION / FINE;
        let Some((mean_capacity, mean_cost)) = moment.means.known else {
            let in_use = moment.usual.aged(requests, load.age_ns) + surcharge;
            let alone = self.latency(learned, moment.means.latency);
            return Terms {
                capacity: ONE_RIF,
                in_use,
                alone,
                score: mul_div(alone, in_use, MILLION),
            };
        };
        let (capacity, alone) = match u64::from(learned.capacity_millirif) {
            0 => {
                let latency = self.latency(learned, moment.means.latency);
                let alone = mul_div(mean_cost, latency, moment.means.latency);
                (mean_capacity, alone)
            }
            capacity => (capacity, self.cost(learned, mean_cost)),
        };
        let reported = in_use(requests, capacity);
        let in_use = moment.usual.aged(reported, load.age_ns);
        let in_use = in_use + self::in_use(surcharge, capacity);
        Terms {
            capacity,
            in_use,
            alone,
            score: mul_div(alone, times_longer(in_use, capacity), MILLION),
        }
    }

    /// Mean latency that a replica counts with, in 1/1024 ns.
    fn latency(&self, learned: Learned, mean: u64) -> u64 {
        match learned.latency() {
            Some(latency) => banded(latency, mean, self.latency_band)
                .clamp(mean / DIFFERENCE_MAX, mean.saturating_mul(DIFFERENCE_MAX)),
            None => mean,
        }
    }

    /// Cost that a replica with a known capacity counts with, in 1/1024 ns.
    fn cost(&self, learned: Learned, mean: u64) -> u64 {
        match learned.cost {
            0 => mean,
            cost => banded(cost, mean, self.cost_band),
        }
    }
}

/// Share of the usable capacity that these requests use, in millionths. `requests` in millionths.
fn in_use(requests: u64, capacity_millirif: u64) -> u64 {
    let usable = capacity_millirif.max(ONE_RIF) * USABLE / ONE_RIF;
    mul_div(requests, MILLION, usable).min(IN_USE_MAX)
}

/// Factor by which a query takes longer than alone, and by which it makes others take longer, with
/// this share of the usable capacity in use. In millionths.
fn times_longer(in_use: u64, capacity_millirif: u64) -> u64 {
    // A replica that runs one query at a time delays no other query.
    let shares = capacity_millirif.max(ONE_RIF);
    let overload = MILLION + mul_div(OVERLOAD - MILLION, shares - ONE_RIF, shares);
    let waiting = MILLION + mul_div(in_use.saturating_sub(MILLION), overload, MILLION);
    let crowding = MILLION + mul_div(in_use, CROWDING, MILLION);
    let longer = mul_div(waiting, crowding, MILLION);
    mul_div(longer, behind(in_use, capacity_millirif), MILLION)
}

/// Factor by which a query takes longer than its cost behind the others that make up this share, in
/// millionths. With a capacity below one, the earlier queries take longer than their cost, and this
/// one does not: with none before it, quota has accumulated.
fn behind(in_use: u64, capacity_millirif: u64) -> u64 {
    if capacity_millirif >= ONE_RIF {
        return MILLION;
    }
    let with_this = mul_div(in_use, USABLE, MILLION).max(MILLION);
    let before = mul_div(with_this - MILLION, ONE_RIF, capacity_millirif.max(1));
    mul_div(before.saturating_add(MILLION), MILLION, with_this)
}

impl LatestRule for ExpectedDelay {
    const NAME: &'static str = ENTRY.name;
    const NEWEST_MAX: usize = 16;
    const TAKES_TURNS: bool = true;

    type Moment = Moment;

    fn moment(&self) -> Moment {
        Moment {
            means: self.learned.means(),
            usual: self.usual.now(),
        }
    }

    /// First the score, in 1/1024 ns; between equals, the one whose last turn is longest ago.
    fn place(&self, load: LatestLoad, moment: &Moment) -> Place {
        Place {
            first: self.terms(load, moment).score,
            second: load.turn.last,
        }
    }

    fn comparison(&self) -> &'static Comparison {
        if self.learned.knows_capacity() {
            &BY_CAPACITY
        } else {
            &BY_LATENCY
        }
    }

    fn values(&self, load: LatestLoad, moment: &Moment) -> Values {
        let terms = self.terms(load, moment);
        let (ahead, last) = (load.turn.ahead, load.turn.last);
        if moment.means.known.is_none() {
            let in_flight = terms.in_use.saturating_sub(ahead * MILLION / FINE);
            return Values::of([in_flight, terms.alone, ahead, terms.score, last]);
        }
        Values::of([
            load.in_flight,
            terms.capacity,
            terms.in_use,
            terms.alone,
            terms.score,
            last,
        ])
    }

    fn reason(_first: u64) -> PickReason {
        PickReason::LowestScore
    }

    fn reported(&self, replica: ReplicaId) -> (Option<u32>, Option<Duration>) {
        let learned = self.learned.of(replica);
        let capacity = Some(learned.capacity_millirif).filter(|&capacity| capacity > 0);
        let cost = Some(learned.cost / FINE).filter(|&cost_ns| cost_ns > 0);
        (capacity, cost.map(Duration::from_nanos))
    }

    fn handle_report(&mut self, now: Instant, reported: Reported) {
        let before = self.learned.knows_capacity();
        self.learned.handle_report(now, reported);
        if self.learned.knows_capacity() != before {
            self.usual = Usual::default(); // it had another unit
        }
        let requests = (u64::from(reported.rif.count()) + 1) * MILLION;
        let share = match u64::from(reported.capacity_millirif) {
            0 => match self.learned.means().known {
                Some((mean_capacity, _)) => in_use(requests, mean_capacity),
                None => requests,
            },
            capacity => in_use(requests, capacity),
        };
        self.usual.learn(share, reported.latency_ns);
    }

    fn handle_own_latency(&mut self, replica: ReplicaId, latency_ns: u64) {
        self.learned.handle_own_latency(replica, latency_ns);
    }

    fn takes_carried(&self) -> bool {
        true
    }

    fn probe_rate(&self, carried_rate: Rate, config: &PrequalConfig) -> Rate {
        if carried_rate >= CARRIED_MIN {
            self.probe_rate
        } else {
            config.probe_rate
        }
    }

    fn add_replica(&mut self, replica: ReplicaId) {
        self.learned.add(replica);
    }

    fn forget(&mut self, replica: ReplicaId) {
        self.learned.forget(replica);
    }
}
