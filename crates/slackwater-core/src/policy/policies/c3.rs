//! C3: replicas scored by their response time and the cube of their queue, with the probes and the
//! pool of Prequal.
//!
//! `[Prequal §5.2 "C3"]`, after Suresh, Canini, Schmid, Feldmann: "C3: Cutting Tail Latency in
//! Cloud Data Stores via Adaptive Replica Selection", NSDI 2015. Let os be the client's own queries
//! in flight at a replica, n the number of clients, and let these be exponentially weighted moving
//! averages: q̄ of the RIF that it reports, 1/μ̄ of the latency that it reports, and R̄ of the
//! response times that the client measures. Then
//!
//! > q̂ = 1 + os · n + q̄, and the lowest Ψ = R̄ − 1/μ̄ + q̂³ · 1/μ̄ wins.
//!
//! C3's rate control is left out, as in the paper. R̄ moves only with the client's own queries, so
//! it keeps a replica that once answered slowly from the queries that could correct it. This is an
//! addition to C3: an R̄ that no response has moved for ten seconds is forgotten, and 1/μ̄ stands
//! for it as if it had never existed. Reports still count; only the client's own memory ends. It
//! ends by time and not by report, because a client has several reports between two of its queries
//! to the same replica. In steady traffic R̄ is therefore that of C3.

use crate::fixed::{ONE, Quantile};
use crate::policy::comparison::{CHANCE, Comparison, Equals, Factor, Step, Values};
use crate::policy::entry::{PolicyEntry, Reports};
use crate::policy::pooled::{PoolRule, Pooled};
use crate::policy::prequal::PrequalConfig;
use crate::policy::probed::rank::{Load, Order, Place};
use crate::policy::probed::{Client, Probed};
use crate::policy::query::{Head, PickReason};
use crate::policy::settings::{ConfigError, Settings, Valid, require, section};
use crate::replica::{ReplicaId, ReplicaMap};
use crate::report::{LoadReport, Rif};
use crate::time::{Instant, span_ns};
use alloc::boxed::Box;
use core::time::Duration;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["prequal", "c3"],
    reports: Reports::Pool,
    comparisons: &[&COMPARISON, &CHANCE],
    ..PolicyEntry::new(
        "c3",
        "probes, response time and queue cubed",
        "Probes replicas for their load and picks the lowest score, made of the response time and the cube of the queue.",
        |s| Box::new(C3::new(s.prequal.clone(), &s.c3)),
    )
};

/// R̄ is forgotten if no response has come for this long. A client of the paper's testbed sends a
/// query to the same replica about every second. A client that sends much less uses reports alone.
const RESPONSE_AGE_MAX: Duration = Duration::from_secs(10);

/// How reports are compared. Times are shown in microseconds and computed in nanoseconds.
const COMPARISON: Comparison = Comparison {
    name: "cubic_score",
    formula: "score = response time − service time + (1 + own in flight × clients + mean reported \
              in flight)³ × service time",
    shared: &[Factor::count("clients", "clients").float()],
    factors: &[
        Factor::requests("own_in_flight", "own in flight", 1),
        Factor::requests("mean_in_flight", "mean reported in flight", 1).float(),
        Factor::time("service_time_us", "service time", 1_000).float(),
        Factor::time("response_time_us", "response time", 1_000).float(),
        Factor::time("score_us", "score", 1_000).float(),
    ],
    order: &[Step::lowest("score_us")],
    equals: Equals::Draw,
};

/// Chooses by response time and the cube of the queue.
pub type C3 = Probed<Pooled<CubicScore>>;

/// Settings of [`C3`] besides those of its probes and pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct C3Settings {
    /// Number of clients of the fleet (n): 1 to 1,000,000, default 1. Each is assumed to send as
    /// much as this one, so one own query counts as n. If the number is too high, a client never
    /// sends two queries to the same replica.
    pub clients: u32,
    /// Weight of the newest value in each average: above 0 to 1, default 0.3. At 1 there is no
    /// memory.
    pub newest_weight: Quantile,
}

/// Valid settings of [`C3`].
pub type C3Config = Valid<C3Settings>;

impl Default for C3Settings {
    fn default() -> Self {
        Self {
            clients: 1,
            newest_weight: Quantile::from_millionths(300_000).unwrap_or(Quantile::ONE),
        }
    }
}

impl Settings for C3Settings {
    fn check(&self) -> Result<(), ConfigError> {
        let clients = (1..=1_000_000).contains(&self.clients);
        require(clients, "clients", "from 1 to 1,000,000")?;
        let remembers = self.newest_weight > Quantile::ZERO;
        require(remembers, "newest_weight", "above 0 and at most 1")
    }
}

section! { C3Settings in "c3" {
    /// Clients of the replicas: each worker of each proxy is one. Own requests in flight count this
    /// many times.
    clients in U32: clients;
    /// Weight of the newest value in each average. 1: no memory.
    newest_weight in Quantile: newest_weight;
} }

impl C3 {
    /// C3 with an empty fleet; probes and pool are as `config` says.
    pub fn new(config: PrequalConfig, c3: &C3Config) -> Self {
        Self::with(Pooled::new(CubicScore::new(c3), &config), config)
    }
}

/// Averages of a replica; times in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Averages {
    /// q̄
    rif: Option<f64>,
    /// 1/μ̄
    service_ns: Option<f64>,
    /// R̄
    response_ns: Option<f64>,
    /// When a response last moved R̄.
    responded_at: Instant,
}

impl Averages {
    fn forget_old_response(&mut self, now: Instant) {
        if now.ns_since(self.responded_at) >= span_ns(RESPONSE_AGE_MAX) {
            self.response_ns = None;
        }
    }
}

/// The terms of a score, and the score.
#[derive(Clone, Copy, Debug)]
struct Terms {
    rif: f64,
    service_ns: f64,
    response_ns: f64,
    score_ns: f64,
}

/// The rule of [`C3`].
#[derive(Debug)]
pub struct CubicScore {
    clients: f64,
    newest_weight: f64,
    averages: ReplicaMap<Averages>,
}

impl CubicScore {
    fn new(c3: &C3Settings) -> Self {
        Self {
            clients: f64::from(c3.clients),
            newest_weight: f64::from(c3.newest_weight.millionths()) / f64::from(ONE),
            averages: ReplicaMap::default(),
        }
    }

    /// Ψ, in nanoseconds.
    ///
    /// If a replica has never reported a latency, `stand_in_ns` stands for 1/μ̄: the median of the
    /// pool `[A7]`. If no latency is in the pool either, R̄ stands for it, and at least one
    /// nanosecond: beside an R̄ of milliseconds, a cube of nanoseconds would count for nothing. If
    /// the replica has never answered this client, 1/μ̄ stands for R̄: nothing is known about the
    /// network there, and the first two terms cancel out.
    fn score(&self, replica: ReplicaId, own_in_flight: u32, stand_in_ns: f64) -> f64 {
        self.terms(replica, own_in_flight, stand_in_ns).score_ns
    }

    fn terms(&self, replica: ReplicaId, own_in_flight: u32, stand_in_ns: f64) -> Terms {
        let averages = self.averages.find(replica).copied().unwrap_or_default();
        let rif = averages.rif.unwrap_or(0.0);
        let queue = 1.0 + f64::from(own_in_flight) * self.clients + rif;
        let stand_in_ns = Some(stand_in_ns).filter(|&stand_in_ns| stand_in_ns > 0.0);
        let service_ns = (averages.service_ns.or(stand_in_ns))
            .or(averages.response_ns)
            .map_or(1.0, |service_ns| service_ns.max(1.0));
        let response_ns = averages.response_ns.unwrap_or(service_ns);
        Terms {
            rif,
            service_ns,
            response_ns,
            score_ns: response_ns - service_ns + queue * queue * queue * service_ns,
        }
    }

    fn note(average: &mut Option<f64>, newest_weight: f64, newest: f64) {
        let before = average.unwrap_or(newest);
        *average = Some(before + newest_weight * (newest - before));
    }
}

impl PoolRule for CubicScore {
    const NAME: &'static str = ENTRY.name;

    fn order(&self, _rif_limit: Option<Rif>, client: &Client) -> impl Order {
        move |replica, load: Load| {
            let own_in_flight = client.fleet.in_flight(replica);
            let stand_in_ns = nanoseconds(Duration::from_nanos(load.latency_ns));
            Place {
                first: ascending(self.score(replica, own_in_flight, stand_in_ns)),
                second: 0,
            }
        }
    }

    fn reason(_first: u64) -> PickReason {
        PickReason::LowestScore
    }

    fn comparison(&self, _rif_limit: Option<Rif>) -> (&'static Comparison, Values) {
        (&COMPARISON, Values::of([self.clients.to_bits()]))
    }

    fn values(
        &self,
        replica: ReplicaId,
        load: Load,
        _rif_limit: Option<Rif>,
        client: &Client,
    ) -> Values {
        let own_in_flight = client.fleet.in_flight(replica);
        let stand_in_ns = nanoseconds(Duration::from_nanos(load.latency_ns));
        let terms = self.terms(replica, own_in_flight, stand_in_ns);
        let floats = [
            terms.rif,
            terms.service_ns,
            terms.response_ns,
            terms.score_ns,
        ];
        let [rif, service, response, score] = floats.map(f64::to_bits);
        Values::of([own_in_flight.into(), rif, service, response, score])
    }

    fn add_replica(&mut self, replica: ReplicaId) {
        self.averages.insert(replica, Averages::default());
    }

    fn remove_replica(&mut self, replica: ReplicaId) {
        self.averages.remove(replica);
    }

    fn handle_report(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport) {
        let Some(averages) = self.averages.find_mut(replica) else {
            return;
        };
        averages.forget_old_response(now);
        let rif = f64::from(report.rif.count());
        Self::note(&mut averages.rif, self.newest_weight, rif);
        if let Some(latency) = report.known_latency() {
            let service_ns = nanoseconds(latency);
            Self::note(&mut averages.service_ns, self.newest_weight, service_ns);
        }
    }

    /// A query that failed, or was given up, would have taken at least this long. It counts if that
    /// is above the average or its stand-in, and never makes its replica look better.
    fn handle_head(&mut self, now: Instant, replica: ReplicaId, head: Head) {
        let Some(averages) = self.averages.find_mut(replica) else {
            return;
        };
        averages.forget_old_response(now);
        let response_ns = nanoseconds(head.latency);
        let expected_ns = averages.response_ns.or(averages.service_ns);
        if !head.failed() || expected_ns.is_some_and(|expected_ns| response_ns > expected_ns) {
            Self::note(&mut averages.response_ns, self.newest_weight, response_ns);
            averages.responded_at = now;
        }
    }
}

fn nanoseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e9
}

/// Maps floating-point numbers to whole numbers in the same order.
fn ascending(value: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    let bits = value.to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Outcome;
    use crate::policy::settings::check_ranges;
    use crate::replica::ReplicaIds;

    const MS: f64 = 1e6;

    fn rule(clients: u32) -> (CubicScore, ReplicaId) {
        let mut rule = CubicScore::new(&C3Settings {
            clients,
            newest_weight: Quantile::from_millionths(ONE / 2).expect("a half"),
        });
        let replica = ReplicaIds::new().allocate().expect("room");
        rule.add_replica(replica);
        (rule, replica)
    }

    fn report(rule: &mut CubicScore, replica: ReplicaId, rif: u32, latency_ms: u64) {
        let latency = (latency_ms > 0).then(|| Duration::from_millis(latency_ms));
        let report = LoadReport::new(Rif::new(rif), latency);
        rule.handle_report(Instant::EPOCH, replica, &report);
    }

    fn outcome(failed: bool) -> Outcome {
        if failed {
            Outcome::PushedBack
        } else {
            Outcome::Success
        }
    }

    fn head(rule: &mut CubicScore, replica: ReplicaId, latency_ms: u64, failed: bool) {
        let latency = Duration::from_millis(latency_ms);
        let outcome = outcome(failed);
        rule.handle_head(Instant::EPOCH, replica, Head { latency, outcome });
    }

    /// The score in milliseconds, to the microsecond.
    fn score(rule: &CubicScore, replica: ReplicaId, own_in_flight: u32) -> f64 {
        (rule.score(replica, own_in_flight, 7.0 * MS) / 1e3).round() / 1e3
    }

    #[track_caller]
    fn same(left: f64, right: f64) {
        assert!((left - right).abs() < 1e-9, "{left} is not {right}");
    }

    #[test]
    fn response_time_stands_for_an_unknown_service_time() {
        let (mut rule, replica) = rule(1);
        report(&mut rule, replica, 3, 0);
        let unknown = rule.score(replica, 0, 0.0);
        same(unknown, 64.0); // nothing is known, and one nanosecond stands for it
        head(&mut rule, replica, 10, false);
        same(rule.score(replica, 0, 0.0), 64.0 * 10.0 * MS);
        // A latency in the pool comes first.
        same(
            rule.score(replica, 0, 7.0 * MS),
            (10.0 - 7.0 + 64.0 * 7.0) * MS,
        );
    }

    #[test]
    fn score_matches_the_formula_of_the_paper() {
        let (mut rule, replica) = rule(1);
        report(&mut rule, replica, 2, 10);
        head(&mut rule, replica, 25, false);
        same(score(&rule, replica, 0), 25.0 - 10.0 + 27.0 * 10.0);
        same(score(&rule, replica, 1), 25.0 - 10.0 + 64.0 * 10.0);
        // Averages with a weight of one half: q̄ = 1, 1/μ̄ = 15, R̄ = 30.
        report(&mut rule, replica, 0, 20);
        head(&mut rule, replica, 35, false);
        same(score(&rule, replica, 0), 30.0 - 15.0 + 8.0 * 15.0);
    }

    #[test]
    fn own_rif_is_multiplied_by_the_number_of_clients() {
        let (mut rule, replica) = rule(10);
        report(&mut rule, replica, 2, 1);
        same(score(&rule, replica, 0), 27.0);
        same(score(&rule, replica, 3), 33.0 * 33.0 * 33.0);
    }

    #[test]
    fn unknown_service_time_uses_a_stand_in() {
        let (mut rule, replica) = rule(1);
        report(&mut rule, replica, 1, 0);
        same(score(&rule, replica, 0), 8.0 * 7.0);
        assert!(rule.score(replica, 1, 0.0) > rule.score(replica, 0, 0.0));
        head(&mut rule, replica, 9, false);
        same(score(&rule, replica, 0), 9.0 - 7.0 + 8.0 * 7.0);
        report(&mut rule, replica, 1, 5);
        report(&mut rule, replica, 1, 0);
        same(score(&rule, replica, 0), 9.0 - 5.0 + 8.0 * 5.0);
    }

    #[test]
    fn a_failure_never_lowers_a_score() {
        let (mut rule, replica) = rule(1);
        report(&mut rule, replica, 0, 10);
        let unknown = score(&rule, replica, 0);
        head(&mut rule, replica, 1, true);
        same(score(&rule, replica, 0), unknown);
        head(&mut rule, replica, 20, false);
        head(&mut rule, replica, 1, true);
        same(score(&rule, replica, 0), 20.0);
        head(&mut rule, replica, 40, true);
        same(score(&rule, replica, 0), 30.0);
    }

    #[test]
    fn slow_failure_counts_without_an_earlier_response() {
        let (mut rule, replica) = rule(1);
        head(&mut rule, replica, 5_000, true);
        same(score(&rule, replica, 0), 7.0); // ignored: there is no average to compare with
        report(&mut rule, replica, 0, 10);
        head(&mut rule, replica, 5_000, true);
        same(score(&rule, replica, 0), 5_000.0);
    }

    #[test]
    fn response_time_expires_ten_seconds_after_the_last_response() {
        let (mut rule, replica) = rule(1);
        let at = |ns| Instant::EPOCH + RESPONSE_AGE_MAX + Duration::from_nanos(ns);
        let same_report = LoadReport::new(Rif::ZERO, Some(Duration::from_millis(10)));
        report(&mut rule, replica, 0, 10);
        head(&mut rule, replica, 30, false);
        let answer = Head {
            latency: Duration::from_millis(50),
            outcome: Outcome::Success,
        };
        rule.handle_head(Instant::from_nanos(5), replica, answer);
        for ns in 0..5 {
            rule.handle_report(at(ns), replica, &same_report);
            same(score(&rule, replica, 0), 40.0);
        }
        // A failure that does not count does not keep it, either.
        let failure = Head {
            latency: Duration::from_millis(1),
            outcome: Outcome::Failed,
        };
        rule.handle_head(at(4), replica, failure);
        rule.handle_report(at(5), replica, &same_report);
        same(score(&rule, replica, 0), 10.0);
        rule.handle_head(at(6), replica, answer);
        same(score(&rule, replica, 0), 50.0); // the first one of a new average
    }

    #[test]
    fn late_response_does_not_revive_an_expired_average() {
        let late = |failed, latency_ms| {
            let (mut rule, replica) = rule(1);
            report(&mut rule, replica, 0, 10);
            head(&mut rule, replica, 5_000, false);
            let latency = Duration::from_millis(latency_ms);
            let now = Instant::EPOCH + RESPONSE_AGE_MAX;
            let outcome = outcome(failed);
            rule.handle_head(now, replica, Head { latency, outcome });
            score(&rule, replica, 0)
        };
        same(late(false, 20), 20.0);
        same(late(true, 20), 20.0); // above the 10 ms that stand for it
        same(late(true, 5), 10.0); // below the stand-in: ignored
    }

    #[test]
    fn scores_keep_their_order_as_integers() {
        let scores = [-f64::INFINITY, -2e9, -1.0, -1e-300, 0.0, 1e-300, 1.0, 3e30];
        assert!(scores.is_sorted_by_key(|&score| ascending(score)));
        assert!(
            scores
                .map(ascending)
                .windows(2)
                .all(|pair| pair[0] < pair[1])
        );
    }

    #[test]
    fn departed_replica_is_forgotten() {
        let (mut rule, replica) = rule(1);
        report(&mut rule, replica, 5, 10);
        rule.remove_replica(replica);
        report(&mut rule, replica, 5, 10);
        head(&mut rule, replica, 5, false);
        same(score(&rule, replica, 0), 7.0);
    }

    #[test]
    fn settings_out_of_range_are_rejected() {
        check_ranges::<C3Settings>(&[
            ("clients", |s| s.clients = 0),
            ("clients", |s| s.clients = 1_000_001),
            ("newest_weight", |s| s.newest_weight = Quantile::ZERO),
        ]);
    }
}
