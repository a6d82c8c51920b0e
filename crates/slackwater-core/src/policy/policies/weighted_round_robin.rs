//! Weighted round robin: picks each replica in turn, as often as its reported CPU use allows.
//!
//! The policy that Prequal replaced `[Prequal §2]`, `[Prequal §5.2]`, in the form of gRPC (proposal
//! A58) and Envoy (client-side weighted round robin). A replica that finishes q queries a second,
//! fails e of them, and uses the share u of its CPU has the weight q / (u + penalty · e / q). If q
//! and u are proportional, that is the inverse of the cost of a query there, and all replicas use
//! the same CPU. Reports are polled, and smoothed before they are divided.
//!
//! A replica without a weight (never reported, in its blackout, report expired) has the mean of the
//! others. A report of an idle replica, which finished or used nothing, shows no cost and is
//! ignored: the replica keeps its weight until its last useful report expires. With fewer than two
//! weights this is plain round robin. Turns come from a static stride.

use crate::draw::Draw;
use crate::fixed::{ONE, Rate};
use crate::policy::candidates::Candidates;
use crate::policy::decay::left_after;
use crate::policy::entry::{Carried, PolicyEntry, Reports};
use crate::policy::polled::{ChoosePolled, Polled};
use crate::policy::query::PickReason;
use crate::policy::settings::{
    ConfigError, Settings, Valid, require, require_period, require_span, require_span_or_none,
    section,
};
use crate::policy::stride::{self, StaticStride, WEIGHT_MAX};
use crate::policy::unprobed::Choose;
use crate::replica::{ReplicaId, ReplicaMap};
use crate::report::LoadReport;
use crate::time::{Instant, span_ns};
use alloc::boxed::Box;
use core::time::Duration;

/// Facts about the policy.
pub(super) const ENTRY: PolicyEntry = PolicyEntry {
    sections: &["weighted_round_robin"],
    reports: Reports::Polled,
    comparisons: &[&stride::TURNS, &stride::LARGEST],
    carried: Carried::Rates,
    ..PolicyEntry::new(
        "weighted_round_robin",
        "in turn, by polled CPU for each query",
        "Takes replicas in turn, and more often those that need less CPU for a request.",
        |s| Box::new(WeightedRoundRobin::with(s.weighted_round_robin.clone())),
    )
};

/// Picks in turn, by weights from reported query rate, CPU and errors.
pub type WeightedRoundRobin = Polled<WeightedTurn>;

/// Valid settings of [`WeightedRoundRobin`].
pub type WeightedRoundRobinConfig = Valid<WeightedRoundRobinSettings>;

/// Settings of [`WeightedRoundRobin`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightedRoundRobinSettings {
    /// Polling interval of each replica: 1 ms to 1 hour, default 1 s. (gRPC has reports pushed,
    /// every 10 s by default.)
    pub interval: Duration,
    /// Time constant of the averages of query rate, CPU and errors: 0 to 1 hour, default 10 s. At 0
    /// each report counts unsmoothed, as in gRPC. The error of a report of one second is that of a
    /// mean over its queries: 10 % with 100 queries whose costs are exponentially distributed. With
    /// polls a second apart, 10 s cover about 20 of them, which makes that 2 %. The blackout waits
    /// for one time constant first.
    pub smoothing: Duration,
    /// Interval at which the turns take over new weights: 100 ms to 1 hour, default 1 s.
    pub update_period: Duration,
    /// Time after the first useful report for which a replica keeps the mean of the others: 0 to 1
    /// hour, default 10 s.
    pub blackout: Duration,
    /// Age at which a report expires. The next one starts a new blackout. Above 0 to 1 hour,
    /// default 3 minutes.
    pub expiration: Duration,
    /// CPU in use that the share of failed queries adds: 0 to 64, default 1, with which a replica
    /// that fails half of its queries counts as using half of its CPU more. At 0 errors do not
    /// count.
    pub error_penalty: Rate,
}

impl Default for WeightedRoundRobinSettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            smoothing: Duration::from_secs(10),
            update_period: Duration::from_secs(1),
            blackout: Duration::from_secs(10),
            expiration: Duration::from_mins(3),
            error_penalty: Rate::per_query(1).unwrap_or(Rate::ZERO),
        }
    }
}

impl Settings for WeightedRoundRobinSettings {
    fn check(&self) -> Result<(), ConfigError> {
        require_period(self.interval, "interval")?;
        require_span_or_none(self.smoothing, "smoothing")?;
        let update_periods = Duration::from_millis(100)..=Duration::from_hours(1);
        require(
            update_periods.contains(&self.update_period),
            "update_period",
            "from 100 ms to 1 hour",
        )?;
        require_span_or_none(self.blackout, "blackout")?;
        require_span(self.expiration, "expiration")
    }
}

section! { WeightedRoundRobinSettings in "weighted_round_robin" {
    /// How often each worker polls each replica.
    interval in Duration: interval;
    /// Time constant of the averages of request rate, CPU and errors. 0: no smoothing.
    smoothing in Duration: smoothing;
    /// How often the weights are updated.
    update_period in Duration: update_period;
    /// A replica has the mean weight for this long after its first useful report.
    blackout in Duration: blackout;
    /// Reports this old expire; the next one begins a new blackout.
    expiration in Duration: expiration;
    /// CPU that the share of failed requests adds. 0: failures do not count.
    error_penalty in Rate: error_penalty;
} }

/// The rule of [`WeightedRoundRobin`].
#[derive(Clone, Debug)]
pub struct WeightedTurn {
    config: WeightedRoundRobinConfig,
    spans: SpansNs,
    error_penalty: f64,
    loads: ReplicaMap<ReportedLoad>,
    stride: StaticStride,
    update_at: Instant,
}

/// The configured spans, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct SpansNs {
    smoothing: u64,
    blackout: u64,
    expiration: u64,
}

impl From<WeightedRoundRobinConfig> for WeightedTurn {
    fn from(config: WeightedRoundRobinConfig) -> Self {
        Self {
            spans: SpansNs {
                smoothing: span_ns(config.smoothing),
                blackout: span_ns(config.blackout),
                expiration: span_ns(config.expiration),
            },
            error_penalty: f64::from(config.error_penalty.millionths()) / 1e6,
            config,
            loads: ReplicaMap::default(),
            stride: StaticStride::default(),
            update_at: Instant::EPOCH,
        }
    }
}

impl Choose for WeightedTurn {
    const NAME: &'static str = ENTRY.name;
    const REASON: PickReason = PickReason::Turn;

    fn choose(&mut self, from: Candidates<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        if self.update_at <= from.now() {
            self.update(from.now(), from.replicas());
        }
        self.stride.choose(from, draw)
    }

    fn add_replica(&mut self, _now: Instant, replica: ReplicaId) {
        self.loads.reserve(replica);
        self.stride.reserve(replica);
    }

    fn remove_replica(&mut self, replica: ReplicaId) {
        self.loads.remove(replica);
        self.stride.forget(replica);
    }
}

impl ChoosePolled for WeightedTurn {
    const LEARNS_UNASKED: bool = true; // as in gRPC: cost does not depend on the client
    fn interval(&self) -> Duration {
        self.config.interval
    }

    fn handle_report(&mut self, now: Instant, replica: ReplicaId, report: &LoadReport) {
        let Some(load) = Load::of(report) else {
            return;
        };
        match self.loads.find_mut(replica) {
            Some(known) if now.ns_since(known.reported_at) < self.spans.expiration => {
                let span_ns = now.ns_since(known.reported_at);
                known
                    .load
                    .blend(load, left_after(span_ns, self.spans.smoothing));
                known.reported_at = now;
            }
            _ => {
                let first = ReportedLoad {
                    load,
                    since: now,
                    reported_at: now,
                };
                self.loads.insert(replica, first);
            }
        }
    }

    /// Does nothing: its report expires on its own.
    fn handle_silence(&mut self, _replica: ReplicaId) {}
}

impl WeightedTurn {
    /// Takes the current weights over into the turns of these replicas.
    fn update(&mut self, now: Instant, replicas: &[ReplicaId]) {
        self.update_at = now + self.config.update_period;
        let (mut count, mut sum, mut largest) = (0_u32, 0.0, 0.0_f64);
        for weight in replicas
            .iter()
            .filter_map(|&replica| self.weight(now, replica))
        {
            count += 1;
            sum += weight;
            largest = largest.max(weight);
        }
        for &replica in replicas {
            match self.weight(now, replica) {
                Some(weight) => self.stride.set(replica, scaled(weight, largest)),
                None => self.stride.forget(replica),
            }
        }
        // A single weight is its own mean, and all are equal: round robin.
        self.stride.set_others(if count > 0 {
            scaled(sum / f64::from(count), largest)
        } else {
            WEIGHT_MAX
        });
    }

    /// The weight of a replica, if it has one now.
    fn weight(&self, now: Instant, replica: ReplicaId) -> Option<f64> {
        let known = self.loads.find(replica)?;
        let expired = now.ns_since(known.reported_at) >= self.spans.expiration;
        let in_blackout = now.ns_since(known.since) < self.spans.blackout;
        if expired || in_blackout {
            return None;
        }
        Some(known.load.weight(self.error_penalty))
    }
}

/// Scales a weight so that the largest is [`WEIGHT_MAX`]. It is at least 1: every replica gets a
/// turn now and then.
fn scaled(weight: f64, largest: f64) -> u16 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most WEIGHT_MAX and not negative, and a cast of what is too large saturates"
    )]
    let scaled = (weight / largest * f64::from(WEIGHT_MAX) + 0.5) as u16;
    scaled.max(1)
}

/// The averages of a replica's reports.
#[derive(Clone, Copy, Debug, Default)]
struct ReportedLoad {
    load: Load,
    /// When the first useful report came.
    since: Instant,
    /// When the last one came.
    reported_at: Instant,
}

/// The terms of a weight.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Queries finished each second (q).
    query_rate: f64,
    /// CPU in use, as a share of what is allocated (u).
    cpu: f64,
    /// Share of queries that failed (e / q).
    error_share: f64,
}

impl Load {
    /// The terms of a report. `None` if a term of the weight is missing or 0.
    fn of(report: &LoadReport) -> Option<Self> {
        let query_rate_millis = report.query_rate_millis.filter(|&rate| rate > 0)?;
        let cpu_millionths = report.cpu_millionths.filter(|&cpu| cpu > 0)?;
        Some(Self {
            query_rate: f64::from(query_rate_millis) / 1e3,
            cpu: f64::from(cpu_millionths) / 1e6,
            error_share: f64::from(report.error_millionths.unwrap_or(0).min(ONE)) / 1e6,
        })
    }

    /// Moves the average to `next`, keeping the part `left` of the old value.
    fn blend(&mut self, next: Self, left: f64) {
        let blend = |average: f64, next: f64| average * left + next * (1.0 - left);
        *self = Self {
            query_rate: blend(self.query_rate, next.query_rate),
            cpu: blend(self.cpu, next.cpu),
            error_share: blend(self.error_share, next.error_share),
        };
    }

    fn weight(&self, error_penalty: f64) -> f64 {
        self.query_rate / (self.cpu + error_penalty * self.error_share)
    }
}

#[cfg(test)]
mod tests;
