//! The mistakes of a scenario: every impossible value, by the path of its field.
//!
//! Possible is not sensible: a load above the fleet's capacity may be played, and so may replicas
//! that fail every query. Everything has a largest value, so that a scenario without mistakes ends,
//! and fits into memory under a policy that can carry its load.

mod checks;
mod prompts;
mod quota;
#[cfg(test)]
mod tests;

use super::{
    Antagonists, Cache, Change, ClassHandling, Cost, Event, Failure, FailureCost, Group, Hedge,
    Hobble, Keys, Load, Mix, Network, Scenario, Service, Sharing, Stall, Zones,
};
use crate::number::significant as count;
use checks::{Checks, above, below};
use core::ops::Bound;
use core::time::Duration;
use slackwater_core::tail::COPIES_MAX;

/// What is wrong with a scenario, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The field's path as in the TOML form: `fleet[1].cores`.
    pub field: String,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// The longest time anywhere: ten days.
const TIME_MAX: Duration = Duration::from_hours(240);
/// The longest deadline: up to here latencies can be distinguished.
const DEADLINE_MAX: Duration = Duration::from_secs(1_000);
/// The highest rate, in queries a second.
const RATE_MAX: f64 = 1e7;
/// The most queries in a run, warm-up included.
const QUERIES_MAX: f64 = 2e9;
/// The most queries in progress at once that a scenario may cause under every policy.
const UNDER_WAY_MAX: f64 = 1e8;
/// The most samples of utilization: replicas times seconds.
const SAMPLES_MAX: f64 = 1e8;
/// The most cores of a machine, also as a multiple of an allocation.
const CORES_MAX: f64 = 1e5;
/// The largest bucket, in core-seconds.
const BUCKET_MAX: f64 = 1e9;
/// The most workers of a replica.
const WORKERS_MAX: usize = 100_000;
/// The slowest replica.
const SLOWNESS_MAX: f64 = 1e6;
/// The widest spread of a logarithm. Beyond it, means are of a size that no run ever reaches.
const SIGMA_MAX: f64 = 5.0;
/// The largest share of one client in units of another's, and the largest tail index. Larger values
/// have no further effect.
const FACTOR_MAX: f64 = 1e9;
/// The longest trace.
const TRACE_MAX: usize = 10_000_000;
/// The most machines in a neighbourhood.
const MACHINES_MAX: usize = 1_000_000;
/// The shortest mean time between stalls: more frequent stalls are a slow replica.
const STALL_EVERY_MIN: Duration = Duration::from_millis(1);

impl Scenario {
    /// Returns all mistakes, in the order of the fields; none: the scenario can be played.
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut checks = Checks::default();
        checks.within("load", |checks| self.load.check(checks));
        if let Some(prompts) = &self.load.prompts {
            let engines = self.replicas();
            checks.within("load.prompts", |checks| prompts.check(engines, checks));
        }
        checks.within("cost", |checks| self.cost.check(checks));
        self.check_fleet(&mut checks);
        self.check_classes(&mut checks);
        self.check_keys(&mut checks);
        if let Some(antagonists) = &self.antagonists {
            self.check_antagonists(antagonists, &mut checks);
        }
        checks.within("network", |checks| self.network.check(checks));
        if let Some(zones) = &self.zones {
            let (clients, replicas) = (self.load.clients.len(), self.replicas());
            checks.within("zones", |checks| zones.check(clients, replicas, checks));
        }
        for (number, event) in self.events.iter().enumerate() {
            let replicas = self.replicas();
            checks.within(&format!("event[{number}]"), |checks| {
                event.check(replicas, checks);
            });
        }
        checks.time(
            "deadline",
            self.deadline,
            above(Duration::ZERO, DEADLINE_MAX),
        );
        checks.time("warmup", self.warmup, Duration::ZERO..=TIME_MAX);
        checks.time("span", self.span, above(Duration::ZERO, TIME_MAX));
        if checks.found_nothing() {
            self.check_size(&mut checks);
        }
        checks.into_mistakes()
    }

    fn check_fleet(&self, checks: &mut Checks) {
        checks.that("fleet", !self.fleet.is_empty(), || {
            "has no replicas: give at least one group".to_owned()
        });
        let replicas = self.replicas();
        checks.that("fleet", replicas <= Self::REPLICAS_MAX, || {
            format!(
                "has {replicas} replicas, but at most {} can be played",
                Self::REPLICAS_MAX
            )
        });
        for (number, group) in self.fleet.iter().enumerate() {
            checks.within(&format!("fleet[{number}]"), |checks| group.check(checks));
        }
    }

    /// Checks what the classes of queries need of the fleet, and what they exclude.
    fn check_classes(&self, checks: &mut Checks) {
        let has_queue = self.fleet.iter().any(|group| group.queue.is_some());
        checks.that("load.mix", !has_queue || self.load.mix.is_none(), || {
            "cannot be combined with queue, whose replicas know when a query will be ready"
                .to_owned()
        });
        match self.load.classes.map(|classes| classes.handling) {
            None | Some(ClassHandling::Ignored) => {}
            Some(ClassHandling::Charged { long_counts_as }) => {
                let count = usize::try_from(long_counts_as).unwrap_or(usize::MAX);
                checks.count("load.classes.long_counts_as", count, 2..=WORKERS_MAX);
            }
            Some(ClassHandling::Apart { long_replicas }) => {
                let most = self.replicas().saturating_sub(1).max(1);
                checks.count("load.classes.long_replicas", long_replicas, 1..=most);
                let alone = self.load.siblings.is_none()
                    && self.load.client_cpu.is_none()
                    && self.replay.is_none();
                checks.that("load.classes", alone, || {
                    "cannot have replicas apart with siblings, client_cpu or a replay".to_owned()
                });
            }
        }
    }

    /// Checks that there are caches only if queries have keys, and keys only if queries are drawn.
    fn check_keys(&self, checks: &mut Checks) {
        let has_keys = self.load.keys.is_some();
        for (number, group) in self.fleet.iter().enumerate() {
            let fits = has_keys || group.cache.is_none();
            checks.that(&format!("fleet[{number}].cache"), fits, || {
                "would do nothing: queries carry no keys".to_owned()
            });
        }
        checks.that("load.keys", !has_keys || self.replay.is_none(), || {
            "cannot be combined with a replay, whose queries have no keys".to_owned()
        });
    }

    fn check_antagonists(&self, antagonists: &Antagonists, checks: &mut Checks) {
        let shares = |group: &Group| matches!(group.service, Service::Shared(_));
        checks.that("antagonists", self.fleet.iter().any(shares), || {
            "would do nothing: no replica of the fleet shares a CPU that has no quota".to_owned()
        });
        checks.within("antagonists", |checks| {
            antagonists.check(self.replicas(), checks);
        });
    }

    /// Checks the run as a whole: each value may be possible, and all of them together too much.
    fn check_size(&self, checks: &mut Checks) {
        let queries = self.load.rate * (self.warmup.as_secs_f64() + self.span.as_secs_f64());
        checks.that("load.rate", queries <= QUERIES_MAX, || {
            format!(
                "comes to {} queries within warm-up and span, but at most {} can be played: lower it, or shorten them",
                count(queries),
                count(QUERIES_MAX)
            )
        });
        let under_way = self.under_way_least();
        checks.that("load.rate", queries > QUERIES_MAX || under_way <= UNDER_WAY_MAX, || {
            format!(
                "comes to {} queries under way at once or more, whatever the policy, but at most {} can be played: lower it, give the fleet more capacity, \
                 or let expired queries be dropped with cancel_expired = true",
                count(under_way),
                count(UNDER_WAY_MAX)
            )
        });
        let samples = self.replicas() as f64 * self.span.as_secs_f64();
        checks.that("span", samples <= SAMPLES_MAX, || {
            format!(
                "comes to {} replica-seconds, but at most {} can be measured: shorten it, or take fewer replicas",
                count(samples),
                count(SAMPLES_MAX)
            )
        });
    }
}

impl Load {
    fn check(&self, checks: &mut Checks) {
        checks.number("rate", self.rate, above(0.0, RATE_MAX));
        checks.count("clients", self.clients.len(), 1..=Scenario::CLIENTS_MAX);
        for (number, share) in self.clients.iter().enumerate() {
            checks.number(
                &format!("clients[{number}]"),
                *share,
                above(0.0, FACTOR_MAX),
            );
        }
        if let Some(swing) = &self.swing {
            let period = above(Duration::ZERO, TIME_MAX);
            checks.time("swing.period", swing.period, period);
            checks.number("swing.amplitude", swing.amplitude, 0.0..1.0);
        }
        if let Some(hedge) = &self.hedge {
            checks.within("hedge", |checks| hedge.check(checks));
        }
        if let Some(delay) = self.tie {
            checks.time("tie", delay, Duration::ZERO..=TIME_MAX);
            checks.that("tie", self.hedge.is_none(), || {
                "cannot be combined with hedge, expected one of the two".to_owned()
            });
        }
        if let Some(subsets) = &self.subsets {
            checks.count("subset.size", subsets.size, 1..=Scenario::REPLICAS_MAX);
            checks.that("subset", self.classes.is_none(), || {
                "cannot be combined with classes, which have replicas of their own".to_owned()
            });
        }
        if let Some(siblings) = &self.siblings {
            let workers = siblings.workers;
            checks.count("siblings.workers", workers, 1..=Scenario::CLIENTS_MAX);
        }
        if let Some(mix) = &self.mix {
            checks.within("mix", |checks| mix.check(checks));
        }
        if let Some(classes) = &self.classes {
            let some = above(Duration::ZERO, TIME_MAX);
            checks.time("classes.long_from", classes.long_from, some);
        }
        if let Some(keys) = &self.keys {
            checks.within("keys", |checks| keys.check(checks));
        }
        if let Some(cpu) = &self.client_cpu {
            let some = Duration::ZERO..=TIME_MAX;
            checks.time("client_cpu.query", cpu.query, some.clone());
            checks.time("client_cpu.probe", cpu.probe, some);
        }
    }
}

impl Keys {
    fn check(&self, checks: &mut Checks) {
        checks.count("count", self.count, 1..=Self::MAX);
        checks.number("zipf", self.zipf, 0.0..=SIGMA_MAX);
        checks.number("hot_share", self.hot_share, 0.0..=1.0);
    }
}

impl Cache {
    fn check(&self, service: &Service, checks: &mut Checks) {
        checks.count("entries", self.entries, 1..=Keys::MAX);
        checks.time("miss_cost", self.miss_cost, Duration::ZERO..=TIME_MAX);
        let costs = !matches!(service, Service::LatencyTrace(_));
        checks.that("miss_cost", costs, || {
            "has no effect with the replicas' own trace, which sets the latency of every query"
                .to_owned()
        });
    }
}

impl Mix {
    fn check(&self, checks: &mut Checks) {
        checks.number("shares[0]", self.shares[0], 0.0..=1.0);
        checks.number("shares[1]", self.shares[1], 0.0..=1.0);
        checks.time("turn", self.turn, above(Duration::ZERO, TIME_MAX));
        checks.time("io_wait", self.io_wait, Duration::ZERO..=TIME_MAX);
        checks.number("cost", self.cost, above(0.0, 1.0));
    }
}

impl Hedge {
    fn check(&self, checks: &mut Checks) {
        checks.number("after_quantile", self.after_quantile, 0.0..=1.0);
        checks.number("budget", self.budget, 0.0..=1.0);
        checks.time("delay_min", self.delay_min, Duration::ZERO..=TIME_MAX);
        checks.count("copies_max", self.copies_max, 2..=COPIES_MAX as usize);
    }
}

impl Cost {
    fn check(&self, checks: &mut Checks) {
        let some = above(Duration::ZERO, TIME_MAX);
        match self {
            Self::Fixed(mean) | Self::Exponential(mean) => checks.time("mean", *mean, some),
            Self::ClippedNormal { mean, deviation } => {
                checks.time("mean", *mean, some);
                checks.time("deviation", *deviation, Duration::ZERO..=TIME_MAX);
            }
            Self::Lognormal { median, sigma } => {
                checks.time("median", *median, some);
                checks.number("sigma", *sigma, 0.0..=SIGMA_MAX);
            }
            Self::Pareto { least, alpha } => {
                checks.time("least", *least, some);
                checks.number("alpha", *alpha, above(1.0, FACTOR_MAX));
            }
            Self::Bimodal {
                cheap,
                dear,
                dear_share,
            } => {
                checks.time("cheap", *cheap, some);
                checks.time("dear", *dear, some);
                checks.number("dear_share", *dear_share, 0.0..=1.0);
            }
            Self::Trace(costs) => {
                check_trace(costs, checks);
                checks.that("trace", costs.is_empty() || self.mean_ns() > 0.0, || {
                    "costs nothing at all: at least one cost must be above 0s".to_owned()
                });
            }
        }
    }
}

fn check_trace(trace: &[Duration], checks: &mut Checks) {
    checks.count("trace", trace.len(), 1..=TRACE_MAX);
    if let Some(longest) = trace.iter().max() {
        checks.time("trace", *longest, Duration::ZERO..=TIME_MAX);
    }
}

impl Group {
    fn check(&self, checks: &mut Checks) {
        checks.count("count", self.count, 1..=Scenario::REPLICAS_MAX);
        match &self.service {
            Service::Shared(sharing) => sharing.check(checks),
            Service::Quota(quota) => quota.check(checks),
            Service::Fifo { workers } => checks.count("workers", *workers, 1..=WORKERS_MAX),
            Service::Batch(batching) => {
                checks.count("batch_max", batching.max, 1..=WORKERS_MAX);
                checks.number("batch_added", batching.added, 0.0..=1.0);
            }
            Service::Latency => {}
            Service::LatencyTrace(trace) => check_trace(trace, checks),
        }
        if let Some(queue) = &self.queue {
            checks.count("queue.at_once", queue.at_once, 1..=WORKERS_MAX);
            let is_shared = matches!(self.service, Service::Shared(_));
            checks.that("queue", is_shared && self.io_wait.is_zero(), || {
                "is only for a shared CPU without io_wait".to_owned()
            });
        }
        checks.number("slowness", self.slowness, above(0.0, SLOWNESS_MAX));
        if let Some(failure) = &self.failure {
            checks.within("failure", |checks| failure.check(checks));
        }
        if let Some(stall) = &self.stall {
            checks.within("stall", |checks| stall.check(checks));
        }
        if let Some(hobble) = &self.hobble {
            checks.within("hobble", |checks| hobble.check(&self.service, checks));
        }
        checks.time("extra_delay", self.extra_delay, Duration::ZERO..=TIME_MAX);
        checks.time("io_wait", self.io_wait, Duration::ZERO..=TIME_MAX);
        checks.time("probe_cost", self.probe_cost, Duration::ZERO..=TIME_MAX);
        let replays = matches!(self.service, Service::Latency | Service::LatencyTrace(_));
        checks.that("probe_cost", self.probe_cost.is_zero() || !replays, || {
            "would do nothing: the replica replays latencies".to_owned()
        });
        let is_batch = matches!(self.service, Service::Batch(_));
        checks.that("probe_cost", self.probe_cost.is_zero() || !is_batch, || {
            "is not for a service of batches: probes are no part of a batch".to_owned()
        });
        if let Some(cache) = &self.cache {
            checks.within("cache", |checks| cache.check(&self.service, checks));
        }
        checks.number("report_noise", self.report_noise, 0.0..=SIGMA_MAX);
    }
}

impl Sharing {
    fn check(&self, checks: &mut Checks) {
        checks.number("cores", self.cores, above(0.0, CORES_MAX));
        checks.number("bucket", self.bucket, 0.0..=BUCKET_MAX);
        checks.number("burst", self.burst, 1.0..=CORES_MAX);
        checks.number("contention_loss", self.contention_loss, 0.0..1.0);
    }
}

impl Failure {
    fn check(&self, checks: &mut Checks) {
        checks.number("share", self.share, 0.0..=1.0);
        match self.cost {
            FailureCost::Share(share) => checks.number("cost_share", share, 0.0..=1.0),
            FailureCost::Fixed(cost) => checks.time("cost", cost, Duration::ZERO..=TIME_MAX),
        }
        check_window(self.from, self.until, checks);
    }
}

impl Stall {
    fn check(&self, checks: &mut Checks) {
        checks.time("every", self.every, STALL_EVERY_MIN..=TIME_MAX);
        checks.time("lasts", self.lasts, above(Duration::ZERO, TIME_MAX));
    }
}

impl Hobble {
    fn check(&self, service: &Service, checks: &mut Checks) {
        check_window(self.from, self.until, checks);
        checks.number("capacity", self.capacity, above(0.0, 1.0));
        if let Some(latency) = self.latency {
            let replays = matches!(service, Service::Latency | Service::LatencyTrace(_));
            checks.that("latency", replays, || {
                "is for replicas that replay latencies: here `capacity` says it all".to_owned()
            });
            checks.time("latency", latency, Duration::ZERO..=TIME_MAX);
        }
    }
}

/// Checks a window of time, which must not be empty and may last indefinitely.
fn check_window(from: Duration, until: Duration, checks: &mut Checks) {
    checks.time("from", from, Duration::ZERO..=TIME_MAX);
    checks.time("until", until, (Bound::Excluded(from), Bound::Unbounded));
}

impl Antagonists {
    fn check(&self, replicas: usize, checks: &mut Checks) {
        checks.number("spare_median", self.headroom_median, 0.0..=CORES_MAX);
        checks.number("sigma_below", self.sigma_below, 0.0..=SIGMA_MAX);
        checks.number("sigma_above", self.sigma_above, 0.0..=SIGMA_MAX);
        checks.number("spare_max", self.headroom_max, 0.0..=CORES_MAX);
        checks.time("slow", self.slow, above(Duration::ZERO, TIME_MAX));
        checks.time("fast", self.fast, above(Duration::ZERO, TIME_MAX));
        let shares = [self.slow_share, self.fast_share];
        checks.number("slow_share", self.slow_share, 0.0..=1.0);
        checks.number("fast_share", self.fast_share, 0.0..=1.0);
        let too_much = shares.iter().all(|share| *share <= 1.0) && shares.iter().sum::<f64>() > 1.0;
        checks.that("fast_share", !too_much, || {
            "comes to more than 1 with slow_share, expected 1 at the most".to_owned()
        });
        checks.count(
            "full_machines",
            self.full_machines,
            0..=self.machines.max(replicas),
        );
        if self.full_machines > 0 {
            checks.time("full_for", self.full_for, above(Duration::ZERO, TIME_MAX));
        }
        checks.count("machines", self.machines, 0..=MACHINES_MAX);
    }
}

impl Zones {
    fn check(&self, clients: usize, replicas: usize, checks: &mut Checks) {
        for (field, zones, expected) in [
            ("clients", &self.clients, clients),
            ("replicas", &self.replicas, replicas),
        ] {
            checks.that(field, zones.len() == expected, || {
                format!("has {} entries, expected {expected}", zones.len())
            });
            checks.that(field, zones.iter().all(|&zone| zone < Self::MAX), || {
                format!("has a zone of {} or more", Self::MAX)
            });
        }
        checks.time("delay", self.delay, Duration::ZERO..=TIME_MAX);
    }
}

impl Network {
    fn check(&self, checks: &mut Checks) {
        let (least, most) = (self.delay.least, self.delay.most);
        checks.within("delay", |checks| {
            checks.time("least", least, Duration::ZERO..=TIME_MAX);
            checks.time("most", most, least..=TIME_MAX);
        });
        checks.number("probe_loss", self.probe_loss, 0.0..=1.0);
    }
}

impl Event {
    fn check(&self, replicas: usize, checks: &mut Checks) {
        checks.time("at", self.at, Duration::ZERO..=TIME_MAX);
        checks.count("replica", self.replica, below(replicas));
        let any = Duration::ZERO..=TIME_MAX;
        match self.change {
            Change::Crash { known_after } => checks.time("known_after", known_after, any),
            Change::Drain { leaves_after } => checks.time("leaves_after", leaves_after, any),
            Change::Join {
                cold_slowness,
                warm_after,
            } => {
                checks.number("cold_slowness", cold_slowness, 1.0..=SLOWNESS_MAX);
                checks.time("warm_after", warm_after, any);
            }
            Change::Restart {
                down_for,
                cold_slowness,
                warm_after,
            } => {
                checks.time("down_for", down_for, any.clone());
                checks.number("cold_slowness", cold_slowness, 1.0..=SLOWNESS_MAX);
                checks.time("warm_after", warm_after, any);
            }
            Change::Suspend { suspended_for } => {
                checks.time(
                    "suspended_for",
                    suspended_for,
                    above(Duration::ZERO, TIME_MAX),
                );
            }
        }
    }
}
