//! Shortest expected delay: RIF × mean latency, which is learned from each replica's reports over
//! time. `[Decision 0010]`
//!
//! A query at a replica waits for those already there, and each of them takes as long as the
//! replica needs. So the replica with the lowest (RIF + 1) × mean latency is picked. IPVS calls
//! this rule *shortest expected delay*; here the weights are learned instead of configured.
//!
//! The current latency would be unstable: much of it is noise, and a replica that looks fast gets
//! more queries from every client at once. So the mean is taken over a time in which a replica
//! serves many queries, and over several reports at least. The more one report differs from the
//! next, the more queries are needed. A replica that differs little from the mean of all counts as
//! the mean, so equal replicas are compared by RIF alone.
//!
//! A replica that had more than its share of this client's recent queries counts as having a part
//! of a query more. Of equals, the one whose last turn is longest ago is picked `[Decision 0014]`.
//! This covers recent picks that no report shows yet.
//!
//! A replica that stood still is a special case: its reports from then do not show how fast it is
//! when it is back, and would keep it out for as long as the memory is. Its first report that is no
//! longer many times the others' clears them. `[Decision 0016]`
//!
//! A reported RIF is soon outdated. Over the time that a query takes, it fades to the usual RIF, so
//! that an old low report attracts no crowd. In a large fleet only the newest reports are compared.

use crate::fixed::{ONE, banded, follow, mul_div};
use crate::policy::comparison::{Comparison, Equals, Factor, Step, Values};
use crate::policy::entry::{PolicyEntry, Reports};
use crate::policy::latest::{FEWEST_IN_FLIGHT, LatestLoad, LatestReports, LatestRule, Reported};
use crate::policy::prequal::PrequalConfig;
use crate::policy::probed::Probed;
use crate::policy::probed::rank::Place;
use crate::policy::query::PickReason;
use crate::policy::settings::{ConfigError, Settings, Valid, require, section};
use crate::policy::turns::{FINE, Turn};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::report::Rif;
use crate::time::Instant;
use alloc::boxed::Box;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["prequal", "shortest_expected_delay"],
    reports: Reports::Latest,
    comparisons: &[&COMPARISON, &FEWEST_IN_FLIGHT],
    ..PolicyEntry::new(
        "shortest_expected_delay",
        "probes, RIF times mean latency",
        "Probes replicas for their load and picks the lowest product of requests in flight and mean latency.",
        |s| {
            Box::new(ShortestExpectedDelay::new(
                s.prequal.clone(),
                &s.shortest_expected_delay,
            ))
        },
    )
};

/// How replicas are compared. Requests in flight are this client's own now, and those of others to
/// the degree that their report still counts.
const COMPARISON: Comparison = Comparison {
    name: "expected_delay",
    formula: "expected delay = (requests in flight + 1 + turn surcharge) × mean latency",
    shared: &[],
    factors: &[
        Factor::requests("in_flight", "requests in flight", FINE),
        Factor::time("mean_latency_us", "mean latency", FINE * 1_000),
        Factor::requests("turn_surcharge", "turn surcharge", FINE),
        Factor::time("expected_delay_us", "expected delay", FINE * 1_000),
        Factor::count("last_turn", "last turn"),
    ],
    order: &[Step::lowest("expected_delay_us"), Step::lowest("last_turn")],
    equals: Equals::Draw,
};

/// Picks by RIF × mean latency.
pub type ShortestExpectedDelay = Probed<LatestReports<ExpectedDelay>>;

/// Settings of [`ShortestExpectedDelay`] besides those of its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortestExpectedDelaySettings {
    /// How far a replica's mean latency may differ from the mean of all and still count as that, in
    /// millionths of it: 0 to 10,000,000, default 150,000. At 0 every difference counts, even
    /// chance. At 10,000,000 none does, and RIF decides alone.
    pub latency_band_millionths: u32,
}

/// Valid settings of [`ShortestExpectedDelay`].
pub type ShortestExpectedDelayConfig = Valid<ShortestExpectedDelaySettings>;

impl Default for ShortestExpectedDelaySettings {
    fn default() -> Self {
        Self {
            latency_band_millionths: 150_000,
        }
    }
}

impl Settings for ShortestExpectedDelaySettings {
    fn check(&self) -> Result<(), ConfigError> {
        let valid = self.latency_band_millionths <= 10 * ONE;
        require(valid, "latency_band_millionths", "from 0 to 10,000,000")
    }
}

section! { ShortestExpectedDelaySettings in "shortest_expected_delay" {
    /// Mean latencies this close to the mean of all, relatively, count as equal to it. 0: none do.
    /// 10: requests in flight alone decide.
    latency_band in Factor: latency_band_millionths;
} }

impl ShortestExpectedDelay {
    /// The policy with an empty fleet. The pool settings of `config` have no effect here.
    pub fn new(config: PrequalConfig, settings: &ShortestExpectedDelayConfig) -> Self {
        let rule = ExpectedDelay {
            band_millionths: settings.latency_band_millionths.into(),
            learned: ReplicaMap::default(),
            reporting: 0,
            sum: 0,
            bits: 0,
            typical_ns: RunningMean::default(),
            unlike: RunningMean::default(),
            usual_others: RunningMean::default(),
            usual_rif: RunningMean::default(),
        };
        Self::with(LatestReports::new(rule, &config), config)
    }
}

/// Fewest reports of a mean latency. It counts from then on.
const REPORTS_MIN: u64 = 8;
/// The memory also covers a time in which a replica serves some queries: this many for each unit of
/// [`ExpectedDelay::unlike`], so that chance cancels out,
const MEMORY_QUERIES_PER_UNLIKE: u64 = 512;
/// but from 128 to 2,048, so that a change of the replica is noticed,
const MEMORY_QUERIES_MIN: u64 = 128;
const MEMORY_QUERIES_MAX: u64 = 2_048;
/// and at most a minute for that.
const MEMORY_NS_MAX: u64 = 60_000_000_000;
/// Largest difference between one latency and the next, in means.
const UNLIKE_MEANS_MAX: u64 = 16;
/// Smallest and largest RIF that is assumed for that time. In 1/1024.
const MEMORY_RIF_MIN: u64 = FINE / 16;
const MEMORY_RIF_MAX: u64 = 4 * FINE;
/// Largest factor by which a replica counts as slower, or faster, than the mean.
const DIFFERENCE_MAX: u64 = 4;
/// A replica has stood still if its mean latency is this many times the others', as a power of two:
/// 16 times.
const STILL_BITS: u64 = 4;
/// It has recovered when it reports at most this many times the others' latency: four times.
const GOES_ON_BITS: u64 = 2;
/// Reports of all replicas in the mean that is usual.
const USUAL_REPORTS: u64 = 300;
/// Latencies of an hour or more count as this, so that no sum overflows.
const LATENCY_MAX_NS: u64 = 1 << 42;
const MILLION: u64 = ONE as u64;
/// The mean latency while none is reported. RIF then decides alone, and the value does not matter.
const LATENCY_UNKNOWN: u64 = 1_000_000 * FINE;

/// A mean over about [`USUAL_REPORTS`] values.
#[derive(Clone, Copy, Debug, Default)]
struct RunningMean {
    value: u64,
    count: u64,
}

impl RunningMean {
    fn record(&mut self, newest: u64) {
        self.count = (self.count + 1).min(USUAL_REPORTS);
        self.value = follow(self.value, newest, self.count);
    }
}

/// What was learned about a replica.
#[derive(Clone, Copy, Debug, Default)]
struct Learned {
    /// In 1/1024 ns.
    latency: u64,
    /// The last reported latency, in nanoseconds.
    newest_ns: u64,
    /// At most [`REPORTS_MIN`]. 0 if nothing is known.
    reports: u64,
    /// When the first of these reports came.
    since: Instant,
    /// When the last of these reports came.
    at: Instant,
}

/// The rule of [`ShortestExpectedDelay`].
#[derive(Debug)]
pub struct ExpectedDelay {
    band_millionths: u64,
    learned: ReplicaMap<Learned>,
    /// Number of replicas with a learned latency, and the sum of their latencies, in 1/1024 ns.
    reporting: u64,
    sum: u128,
    /// Sum of the base-two logarithms of these latencies, rounded down.
    bits: u64,
    /// Latency of queries in nanoseconds, by recent reports.
    typical_ns: RunningMean,
    /// How much one latency of a replica differs from the next, by recent reports: the squared
    /// difference, relative to its mean latency, in millionths. 200,000 to 700,000 if replicas
    /// share CPU; some millions if quotas stop them now and then.
    unlike: RunningMean,
    /// What other clients have in flight at a replica, in 1/1024, by recent reports.
    usual_others: RunningMean,
    /// What replicas have in flight, in 1/1024, by recent reports. Only this client's own while
    /// that alone counts.
    usual_rif: RunningMean,
}

impl ExpectedDelay {
    /// Length of the memory of a mean latency.
    fn memory_ns(&self) -> u64 {
        let rif = self.usual_rif.value;
        let rif = rif.clamp(MEMORY_RIF_MIN, MEMORY_RIF_MAX);
        let time_of = |queries| mul_div(self.typical_ns.value, queries * FINE, rif);
        let queries = self.unlike.value * MEMORY_QUERIES_PER_UNLIKE / MILLION;
        let longer_ns = time_of(queries.min(MEMORY_QUERIES_MAX)).min(MEMORY_NS_MAX);
        time_of(MEMORY_QUERIES_MIN).max(longer_ns)
    }

    /// Whether the replica has stood still and its report shows that it no longer does. It has
    /// stood still if it is slower than the others by a factor that no working replica reaches. The
    /// others count by their geometric mean, since a few of them that stand still move it little.
    fn goes_on(&self, replica: ReplicaId, latency_ns: Option<u64>) -> bool {
        let Some(learned) = self.learned.find(replica) else {
            return false;
        };
        let others = self.reporting.saturating_sub(1);
        if learned.reports < REPORTS_MIN || others == 0 {
            return false;
        }
        let bits_of_others = self.bits - bits(learned.latency);
        let is_beyond = |latency, times_bits| {
            let bound = bits_of_others + times_bits * others;
            bits(latency) * others >= bound
        };
        let is_slow = |ns: u64| is_beyond(ns.min(LATENCY_MAX_NS) * FINE, GOES_ON_BITS);
        is_beyond(learned.latency, STILL_BITS) && !latency_ns.is_some_and(is_slow)
    }

    /// Moves the mean latency of a replica towards its report. An unknown one, when no query has
    /// ended for long, moves it towards the mean of all, so that a replica that was slow once is
    /// tried again.
    fn learn(&mut self, now: Instant, replica: ReplicaId, latency_ns: Option<u64>) {
        if self.goes_on(replica, latency_ns) {
            self.forget(replica);
        }
        let memory_ns = self.memory_ns();
        let mean = self.mean();
        let Some(learned) = self.learned.find_mut(replica) else {
            return;
        };
        let newest = match latency_ns {
            Some(latency_ns) => {
                let latency_ns = latency_ns.min(LATENCY_MAX_NS);
                self.typical_ns.record(latency_ns);
                if learned.reports > 0 {
                    let differs = latency_ns.abs_diff(learned.newest_ns) * FINE;
                    let means = mul_div(differs, MILLION, learned.latency.max(1));
                    let means = means.min(UNLIKE_MEANS_MAX * MILLION);
                    self.unlike.record(means * means / MILLION);
                }
                learned.newest_ns = latency_ns;
                latency_ns * FINE
            }
            None if learned.reports > 0 => mean,
            None => return,
        };
        self.sum -= u128::from(learned.latency);
        self.bits -= bits(learned.latency);
        if learned.reports < REPORTS_MIN {
            if learned.reports == 0 {
                self.reporting += 1;
                learned.since = now;
            }
            learned.reports += 1;
            learned.latency = follow(learned.latency, newest, learned.reports);
        } else {
            // The whole time since its first report counts equally until the memory is full.
            // Otherwise the first few reports would be half of it for long. A report right after
            // another adds almost nothing, since no time has passed.
            let remembered_ns = memory_ns.min(learned.at.ns_since(learned.since));
            if let Some(spans) = remembered_ns.checked_div(now.ns_since(learned.at)) {
                let parts = REPORTS_MIN.max(spans.saturating_add(1));
                learned.latency = follow(learned.latency, newest, parts);
            }
        }
        learned.at = now;
        self.sum += u128::from(learned.latency);
        self.bits += bits(learned.latency);
    }

    /// The mean of all replicas, in 1/1024 ns.
    fn mean(&self) -> u64 {
        let mean = self.sum.checked_div(self.reporting.into());
        mean.map_or(LATENCY_UNKNOWN, |mean| {
            u64::try_from(mean).unwrap_or(u64::MAX).max(1)
        })
    }

    /// Expected latency of a query that is alone at a replica, in 1/1024 ns.
    fn latency(&self, replica: ReplicaId) -> u64 {
        let mean = self.mean();
        let learned = self.learned.find(replica);
        let Some(learned) = learned.filter(|learned| learned.reports >= REPORTS_MIN) else {
            return mean;
        };
        banded(learned.latency, mean, self.band_millionths)
            .clamp(mean / DIFFERENCE_MAX, mean * DIFFERENCE_MAX)
    }

    /// Estimated requests in flight there now, in 1/1024.
    fn in_flight(&self, load: LatestLoad) -> u64 {
        let own = u64::from(load.rif.count().saturating_sub(load.others.unwrap_or(0)));
        self.others(load).saturating_add(own * FINE)
    }

    /// Estimated requests of other clients there now, in 1/1024.
    fn others(&self, load: LatestLoad) -> u64 {
        let Some(others) = load.others else {
            return 0;
        };
        let reported = u128::from(others) * u128::from(FINE);
        let fades_in_ns = u128::from(self.typical_ns.value);
        if fades_in_ns == 0 {
            return u64::try_from(reported).unwrap_or(u64::MAX);
        }
        let age_ns = u128::from(load.age_ns);
        let usual = u128::from(self.usual_others.value);
        let faded = (reported * fades_in_ns + usual * age_ns) / (fades_in_ns + age_ns);
        u64::try_from(faded).unwrap_or(u64::MAX)
    }
}

impl LatestRule for ExpectedDelay {
    const NAME: &'static str = ENTRY.name;
    const COMPARISON: &'static Comparison = &COMPARISON;
    const NEWEST_MAX: usize = 16;
    const TAKES_TURNS: bool = true;

    /// First the expected delay, in 1/1024 ns; between equals, the one whose last turn is longest
    /// ago.
    fn place(&self, load: LatestLoad, _rif_limit: Option<Rif>) -> Place {
        Place {
            first: delay(self.in_flight(load), self.latency(load.replica), load.turn),
            second: load.turn.last,
        }
    }

    fn values(&self, load: LatestLoad, _rif_limit: Option<Rif>) -> Values {
        let (in_flight, latency) = (self.in_flight(load), self.latency(load.replica));
        Values::of([
            in_flight,
            latency,
            load.turn.ahead,
            delay(in_flight, latency, load.turn),
            load.turn.last,
        ])
    }

    fn reason(_first: u64) -> PickReason {
        PickReason::LowestScore
    }

    fn handle_report(&mut self, now: Instant, reported: Reported) {
        let others = reported.others.unwrap_or(0);
        self.usual_others.record(u64::from(others) * FINE);
        self.usual_rif
            .record(u64::from(reported.rif.count()) * FINE);
        self.learn(now, reported.replica, reported.latency_ns);
    }

    fn add_replica(&mut self, replica: ReplicaId) {
        self.learned.insert(replica, Learned::default());
    }

    fn forget(&mut self, replica: ReplicaId) {
        if let Some(learned) = self.learned.find_mut(replica) {
            self.reporting -= u64::from(learned.reports > 0);
            self.sum -= u128::from(learned.latency);
            self.bits -= bits(learned.latency);
            *learned = Learned::default();
        }
    }

    fn forget_all(&mut self) {
        for learned in self.learned.values_mut() {
            *learned = Learned::default();
        }
        self.reporting = 0;
        self.sum = 0;
        self.bits = 0;
        self.typical_ns = RunningMean::default();
        self.unlike = RunningMean::default();
        self.usual_others = RunningMean::default();
        self.usual_rif = RunningMean::default();
    }
}

/// Expected delay behind `in_flight` queries, in 1/1024 of a query, at this latency per query, in
/// 1/1024 ns.
fn delay(in_flight: u64, latency: u64, turn: Turn) -> u64 {
    let queue = u128::from(in_flight) + u128::from(FINE) + u128::from(turn.ahead);
    let delay = u128::from(latency) * queue / u128::from(FINE);
    u64::try_from(delay).unwrap_or(u64::MAX)
}

/// The base-two logarithm, rounded down. 0 for 0.
fn bits(latency: u64) -> u64 {
    u64::from(latency.max(1).ilog2())
}
