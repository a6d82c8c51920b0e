//! Shortest expected delay: RIF times how slow a replica is, as its own reports tell over time.
//! `[Decision 0010]`
//!
//! A query that goes to a replica waits for those that are there, and each of them takes as long as
//! the replica makes it take. So the replica with the lowest product of the two is chosen, RIF plus
//! this query times its mean latency: the rule that IPVS calls *shortest expected delay*, with
//! weights that are learned instead of configured.
//!
//! Latency of the moment would run away: it is noise as much as news, and what looks fast is sent
//! more by every client at once. So it is a mean over a time in which a replica serves many
//! queries, the more of them the less one report is like the next, and over several reports at the
//! least; and a replica that differs from the mean of all by little counts as the mean: equal
//! replicas go by RIF alone.
//!
//! Who has had more than its turn of this client's queries lately counts as having a part of a
//! query more, and of equals the one is chosen whose last turn is longest ago `[Decision 0014]`:
//! what a replica has just done no report tells of.
//!
//! A replica that stood still is another matter: what it reported then tells nothing of how fast it
//! is when it is back, and would keep it out for as long as the memory is. Its first report that is
//! no longer many times the others' ends that. `[Decision 0016]`
//!
//! A RIF that was reported is soon another. Over the time that a query takes it fades to what
//! replicas have as a rule, so that an old low report draws no crowd; and of a large fleet only the
//! newest reports are compared.

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

/// What is known of the policy.
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

/// How replicas are compared. Requests in flight are those of this client now and those of others
/// as far as their report still counts.
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

/// Chooses by RIF times mean latency.
pub type ShortestExpectedDelay = Probed<LatestReports<ExpectedDelay>>;

/// Settings of [`ShortestExpectedDelay`] besides those of its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortestExpectedDelaySettings {
    /// By how much a replica's mean latency may differ from the mean of all and still count as
    /// that, in millionths of it: 0 to 10,000,000, default 150,000. At 0 every difference counts,
    /// chance and all; at 10,000,000 none does, and RIF decides alone.
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
    /// The policy with an empty fleet; of `config`, what concerns the pool has no meaning here.
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

/// A mean latency is over so many reports at the least, and counts from then on.
const REPORTS_MIN: u64 = 8;
/// And over the time in which a replica serves some queries: so many for each unit of
/// [`ExpectedDelay::unlike`], as chance needs to cancel out.
const MEMORY_QUERIES_PER_UNLIKE: u64 = 512;
/// But 128 at the least, and no more than 2,048, so that it is seen that a replica has changed.
const MEMORY_QUERIES_MIN: u64 = 128;
const MEMORY_QUERIES_MAX: u64 = 2_048;
/// Nor is it longer than a minute for that.
const MEMORY_NS_MAX: u64 = 60_000_000_000;
/// One latency differs from the next by so many means at the most.
const UNLIKE_MEANS_MAX: u64 = 16;
/// In that time it is taken to have this RIF at the least and at the most, whatever replicas have
/// as a rule. In 1/1024.
const MEMORY_RIF_MIN: u64 = FINE / 16;
const MEMORY_RIF_MAX: u64 = 4 * FINE;
/// A replica counts as so many times slower, or faster, than the mean at most.
const DIFFERENCE_MAX: u64 = 4;
/// One whose mean latency is so many times the others', as a power of two, has stood still: 16
/// times.
const STILL_BITS: u64 = 4;
/// And it goes on when it reports no more than so many times the others': four times.
const GOES_ON_BITS: u64 = 2;
/// What is usual is a mean over so many reports of all.
const USUAL_REPORTS: u64 = 300;
/// Latencies of an hour and more count as this, so that no sum overflows.
const LATENCY_MAX_NS: u64 = 1 << 42;
const MILLION: u64 = ONE as u64;
/// The mean latency where nobody has told any: then RIF decides alone, and it does not matter what
/// it is.
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

/// What was learned of a replica.
#[derive(Clone, Copy, Debug, Default)]
struct Learned {
    /// In 1/1024 ns.
    latency: u64,
    /// What was reported last, in nanoseconds.
    newest_ns: u64,
    /// At most [`REPORTS_MIN`]; 0 where nothing is known.
    reports: u64,
    /// When the first of these came.
    since: Instant,
    /// When the last one did.
    at: Instant,
}

/// The rule of [`ShortestExpectedDelay`].
#[derive(Debug)]
pub struct ExpectedDelay {
    band_millionths: u64,
    learned: ReplicaMap<Learned>,
    /// Of how many replicas something was learned, and the sum of their latencies, in 1/1024 ns.
    reporting: u64,
    sum: u128,
    /// The sum of these latencies' logarithms to the base of two, rounded down.
    bits: u64,
    /// What queries take, in nanoseconds, by recent reports.
    typical_ns: RunningMean,
    /// How unlike one latency and the next of a replica are, by recent reports: the square of by
    /// how much they differ, as a part of its mean latency, in millionths. 200,000 to 700,000 where
    /// replicas share CPU; some millions where quotas hold them now and then.
    unlike: RunningMean,
    /// What other clients have in flight at a replica, in 1/1024, by recent reports.
    usual_others: RunningMean,
    /// What replicas have in flight, in 1/1024, by recent reports; of this client's own while that
    /// alone counts.
    usual_rif: RunningMean,
}

impl ExpectedDelay {
    /// How long the memory of a mean latency is.
    fn memory_ns(&self) -> u64 {
        let rif = self.usual_rif.value;
        let rif = rif.clamp(MEMORY_RIF_MIN, MEMORY_RIF_MAX);
        let time_of = |queries| mul_div(self.typical_ns.value, queries * FINE, rif);
        let queries = self.unlike.value * MEMORY_QUERIES_PER_UNLIKE / MILLION;
        let longer_ns = time_of(queries.min(MEMORY_QUERIES_MAX)).min(MEMORY_NS_MAX);
        time_of(MEMORY_QUERIES_MIN).max(longer_ns)
    }

    /// Whether the replica has stood still, and does no more by what it has reported: as many times
    /// slower than the others, by their geometric mean, as no replica is that serves queries. Of
    /// that mean no few that stand still make much.
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

    /// The mean latency of a replica moves to what it has reported. One that is not known, where no
    /// query has ended for long, moves it to the mean of all: so a replica that was slow once is
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
            // All the time for which it has been heard counts alike until the memory is full, or
            // what the first few reports said would be half of it for long. And of one that comes
            // right after another, next to nothing is new: no time has passed.
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

    /// What a query is taken to take at a replica where no other is, in 1/1024 ns.
    fn latency(&self, replica: ReplicaId) -> u64 {
        let mean = self.mean();
        let learned = self.learned.find(replica);
        let Some(learned) = learned.filter(|learned| learned.reports >= REPORTS_MIN) else {
            return mean;
        };
        banded(learned.latency, mean, self.band_millionths)
            .clamp(mean / DIFFERENCE_MAX, mean * DIFFERENCE_MAX)
    }

    /// What is taken to be in flight there now, in 1/1024.
    fn in_flight(&self, load: LatestLoad) -> u64 {
        let own = u64::from(load.rif.count().saturating_sub(load.others.unwrap_or(0)));
        self.others(load).saturating_add(own * FINE)
    }

    /// What other clients are taken to have there now, in 1/1024.
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

    /// First the expected delay, in 1/1024 ns; between equals, whose last turn is longest ago.
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

/// The expected delay behind so many queries, in 1/1024 of them, where one takes so long, in 1/1024
/// ns.
fn delay(in_flight: u64, latency: u64, turn: Turn) -> u64 {
    let queue = u128::from(in_flight) + u128::from(FINE) + u128::from(turn.ahead);
    let delay = u128::from(latency) * queue / u128::from(FINE);
    u64::try_from(delay).unwrap_or(u64::MAX)
}

/// The logarithm to the base of two, rounded down; 0 of 0.
fn bits(latency: u64) -> u64 {
    u64::from(latency.max(1).ilog2())
}
