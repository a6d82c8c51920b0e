//! The replicas: how they serve queries, what they run on, and in which ways they are bad.

use super::cost::nanoseconds;
use core::time::Duration;
use slackwater_core::tracker::TrackerConfig;
use std::sync::Arc;

/// Replicas of one kind.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a choice of its own, as a scenario file has it"
)]
pub struct Group {
    /// How many.
    pub count: usize,
    /// How they serve.
    pub service: Service,
    /// Queries cost this many times as much here; 1 is normal, 2 is half as fast.
    pub slowness: f64,
    /// How they fail, if they do.
    pub failure: Option<Failure>,
    /// Pauses in which they do nothing at all: garbage collection.
    pub stall: Option<Stall>,
    /// A spell of lower capacity.
    pub hobble: Option<Hobble>,
    /// Waiting without the CPU that each query does before its work, up to this long, uniformly; 0:
    /// none.
    pub io_wait: Duration,
    /// Whether they answer probes. What is sent to replicas that don't is lost on the way: no agent
    /// is installed there.
    pub answers_probes: bool,
    /// CPU that an answer to a probe takes, at speed 1, in line with the queries that are served;
    /// 0: it costs nothing and never waits. Not where latencies are replayed.
    pub probe_cost: Duration,
    /// Whether they learn what they can carry and what a query costs them, and say so in their
    /// reports. `[Decision 0009]`
    pub learns_capacity: bool,
    /// Whether the system tells those that learn it what CPU time they use and wait for, and how
    /// many cores there are. `false`: they learn from RIF and latency alone.
    pub tells_cpu: bool,
    /// How far capacity and cost in each report are from what was learned: each is multiplied by
    /// exp(this · z), z being normal; 0: not at all.
    pub report_noise: f64,
    /// Whether each response carries a report, as the answer to a probe is one.
    pub carries_reports: bool,
    /// How they estimate the latency that they report.
    pub tracker: TrackerConfig,
}

/// How a replica serves queries.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// All queries share the CPU; each has one core at the most.
    Shared(Sharing),
    /// All queries share what CPU time a container's quota lets them have; each has one core at the
    /// most.
    Quota(Quota),
    /// `workers` queries at a time, the others wait in order of arrival.
    Fifo {
        /// From 1 up; 1 is a single-threaded server.
        workers: usize,
    },
    /// Every query takes its cost as latency, however many there are: a replayed latency, no queue.
    Latency,
    /// As `Latency`, but from a trace of its own instead of the scenario's cost.
    LatencyTrace(Arc<[Duration]>),
}

/// A CPU that queries share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing {
    /// What the replica is allocated, in cores; utilization is measured against it.
    pub cores: f64,
    /// Spare time beyond allocation and neighbours: how much the replica may have used above its
    /// capacity before it is held to it, in core-seconds; 0 holds it at once. It refills while the
    /// replica is below its capacity.
    pub bucket: f64,
    /// While the bucket lasts, the replica may use this many times its capacity.
    pub burst: f64,
    /// The share of its work that a replica loses to contention while it is held, from 0 to below
    /// 1.
    pub contention_loss: f64,
}

/// A quota of CPU time, as containers have it: the kernel's CFS bandwidth control, `cpu.max` of a
/// cgroup.
///
/// The replica runs until it has used `cpu` in the present period, and then not at all until the
/// next one begins. What it leaves of a period is lost. Periods begin at a random time of each
/// replica's own, and from there on by the clock, whether or not there is work. [`Antagonists`] do
/// nothing to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    /// CPU time for each period, of all cores together: from 1 ms, as the kernel has it, to
    /// `at_once` times the period, with which it is never used up.
    pub cpu: Duration,
    /// From the beginning of a period to that of the next: from 1 ms to 1 s, as the kernel has it;
    /// the usual one is 100 ms.
    pub period: Duration,
    /// Cores that it may use at once while the quota lasts, above 0.
    pub at_once: f64,
    /// Who else uses the same quota; `None`: nobody.
    pub neighbour: Option<Neighbour>,
}

/// Somebody within the same quota, who comes for a time and goes for a time. While it is there it
/// burns all that it gets: its share of the cores, and what the replica leaves of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Of the cores, what the replica cannot have while it is there: above 0 and below 1. Of a
    /// quota that is used up it has taken the same share at the least.
    pub share: f64,
    /// It stays, and stays away, for a time drawn uniformly: at least so long, from 1 ms.
    pub least: Duration,
    /// At most so long.
    pub most: Duration,
}

impl Quota {
    /// The cores that it comes to; what the replica's system tells it.
    pub fn cores(&self) -> f64 {
        nanoseconds(self.cpu) / nanoseconds(self.period)
    }

    /// What the replica has of them in the long run: a neighbour is there for half of the time.
    pub fn allocation(&self) -> f64 {
        let taken = self.neighbour.map_or(0.0, |it| it.share / 2.0);
        self.cores() * (1.0 - taken)
    }
}

/// A neighbourhood: how much spare capacity each machine has, beyond the replica's allocation.
///
/// `spare(t) = cores · median · exp(s · z)`, with s one of `sigma_below` (z < 0) and `sigma_above`,
/// and z the weighted sum of a static normal and of two Ornstein-Uhlenbeck processes: three time
/// scales, whose shares of the variance add up to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Antagonists {
    /// Median spare capacity as a multiple of the allocation.
    pub spare_median: f64,
    /// s for z below 0.
    pub sigma_below: f64,
    /// s for z above 0.
    pub sigma_above: f64,
    /// Spare capacity ends here, in cores: the machine's size.
    pub spare_max: f64,
    /// Time constant of the slower process.
    pub slow: Duration,
    /// The slower process' share of the variance; with `fast_share` at most 1. What both leave
    /// never changes.
    pub slow_share: f64,
    /// Time constant of the faster process.
    pub fast: Duration,
    /// The faster process' share of the variance.
    pub fast_share: f64,
    /// So many machines of the neighbourhood at a time have no spare capacity at all; 0: none ever.
    pub full_machines: usize,
    /// How long a machine stays full before another one takes its turn. Turns change one by one,
    /// `full_for / full_machines` apart, so that there are always exactly `full_machines`.
    pub full_for: Duration,
    /// How many machines take turns, the fleet's among them: a small fleet may live in a large
    /// neighbourhood. Less than the fleet counts as the fleet.
    pub machines: usize,
}

/// A replica that answers some queries with an error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// The share of queries that fail, from 0 to 1.
    pub share: f64,
    /// What a failing query costs.
    pub cost: FailureCost,
    /// When it begins, after the start of the run.
    pub from: Duration,
    /// When it ends.
    pub until: Duration,
    /// So long after the start of the run its reports tell of failures. After that they say that no
    /// query fails, whether or not that is so.
    pub reported_until: Duration,
}

/// What a query costs that fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FailureCost {
    /// A share of its cost: 0 fails at once, 1 fails at the end.
    Share(f64),
    /// Always the same, whatever the query would have cost.
    Fixed(Duration),
}

/// Pauses of a replica, independent on each replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    /// Time between the end of one pause and the beginning of the next: the mean of an exponential,
    /// or always this.
    pub every: Duration,
    /// Whether it is always this. The first pause then begins at a random time within `every`.
    pub regular: bool,
    /// How long a pause lasts.
    pub lasts: Duration,
}

/// A spell of lower capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hobble {
    /// When it begins, after the start of the run.
    pub from: Duration,
    /// When it ends.
    pub until: Duration,
    /// What is left of the capacity (of the speed, where queries do not share a CPU, or one with a
    /// quota): above 0, at most 1.
    pub capacity: f64,
    /// Latency of every query that arrives in the spell, where replicas replay latencies; replaces
    /// the trace's.
    pub latency: Option<Duration>,
}

impl Group {
    /// `count` healthy replicas that serve so.
    pub fn healthy(count: usize, service: Service) -> Self {
        Self {
            count,
            service,
            slowness: 1.0,
            failure: None,
            stall: None,
            hobble: None,
            io_wait: Duration::ZERO,
            answers_probes: true,
            probe_cost: Duration::ZERO,
            learns_capacity: false,
            tells_cpu: true,
            report_noise: 0.0,
            carries_reports: false,
            tracker: TrackerConfig::default(),
        }
    }
}
