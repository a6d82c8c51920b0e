//! The replicas: how they serve queries, what they run on, and their troubles.

use super::cost::nanoseconds;
use super::keys::Cache;
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
    /// Number of replicas.
    pub count: usize,
    /// How they serve.
    pub service: Service,
    /// A limit of the queries in service, and the queue before it; `None`: all that a shared CPU
    /// receives is in service at once. Only with [`Service::Shared`].
    pub queue: Option<Queueing>,
    /// Queries cost this many times as much here; 1 is normal, 2 is half as fast.
    pub slowness: f64,
    /// How they fail, if they do.
    pub failure: Option<Failure>,
    /// Pauses in which they do nothing at all, such as garbage collection.
    pub stall: Option<Stall>,
    /// A spell of lower capacity.
    pub hobble: Option<Hobble>,
    /// Delay of each message to and from these replicas, in addition to the network's: replicas in
    /// another zone; 0: none.
    pub extra_delay: Duration,
    /// The longest wait of each query without the CPU before its work; waits are uniform; 0: none.
    pub io_wait: Duration,
    /// Whether they answer probes. Without an agent, probes are lost on the way.
    pub answers_probes: bool,
    /// CPU for an answer to a probe, at speed 1, queued with the queries but without `io_wait`; 0:
    /// it costs nothing and never waits. Not where latencies are replayed.
    pub probe_cost: Duration,
    /// Whether they learn their capacity and the cost of a query, and report them. `[Decision
    /// 0009]`
    pub learns_capacity: bool,
    /// Whether the operating system provides their CPU time, their waiting and the number of cores
    /// for learning. `false`: they learn from RIF and latency alone.
    pub tells_cpu: bool,
    /// Noise of the learned capacity and cost in each report: each is multiplied by exp(this · z),
    /// where z is normal; 0: none.
    pub report_noise: f64,
    /// Whether each response carries a report, like the answer to a probe.
    pub carries_reports: bool,
    /// A cache by key in each of them; `None`: every query costs what was drawn.
    pub cache: Option<Cache>,
    /// How they estimate the latency that they report.
    pub tracker: TrackerConfig,
}

/// How a replica serves queries.
#[derive(Clone, Debug, PartialEq)]
pub enum Service {
    /// All queries share the CPU. Each has at most one core.
    Shared(Sharing),
    /// All queries share the CPU time of a container's quota. Each has at most one core.
    Quota(Quota),
    /// `workers` queries at a time. Others wait in order of arrival.
    Fifo {
        /// At least 1; 1 is a single-threaded server.
        workers: usize,
    },
    /// Queries are served in batches, one batch at a time. Others wait in order of arrival.
    Batch(Batching),
    /// Every query takes its cost as latency, however many there are: a replayed latency, no queue.
    Latency,
    /// Same as `Latency`, but from its own trace instead of the scenario's cost.
    LatencyTrace(Arc<[Duration]>),
}

/// A replica's own queue, before a shared CPU. The replica knows the cost of each query, and when
/// its client stops waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queueing {
    /// The most queries in service at once: at least 1.
    pub at_once: usize,
    /// The query that is served first. Among equal ones it is the one that arrived first.
    pub order: Order,
    /// Whether a query is rejected, when its turn comes, if even a whole core would finish it after
    /// its client has stopped waiting.
    pub drops_late: bool,
}

/// The order of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// First come, first served. While all clients wait equally long, this is also the order of
    /// their deadlines.
    Arrival,
    /// The shortest query first. A query in service is not interrupted.
    Shortest,
    /// The query with the least remaining work first. A longer one in service gives way, and keeps
    /// what has been done.
    ShortestRemaining,
}

/// A server that takes many queries at once, such as a GPU that runs a model.
///
/// An idle server begins at once with the queries that wait, `max` at the most. A batch of n takes
/// the mean of its costs times 1 + `added` · (n − 1), and all of it ends together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batching {
    /// The most queries in a batch: at least 1.
    pub max: usize,
    /// The cost that each further query adds to a batch, as a share of the mean cost: 0 to 1. At 1
    /// batches gain nothing.
    pub added: f64,
}

impl Batching {
    /// Returns the time that a batch of `queries` takes, as a multiple of its mean cost.
    pub(crate) fn factor(&self, queries: usize) -> f64 {
        1.0 + self.added * queries.saturating_sub(1) as f64
    }

    /// Returns the work that is done at once in a whole batch: the server's capacity, in replicas
    /// that serve one query at a time.
    pub fn capacity(&self) -> f64 {
        self.max as f64 / self.factor(self.max)
    }
}

/// A CPU that queries share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing {
    /// The replica's allocation in cores, which is the base of utilization.
    pub cores: f64,
    /// How much the replica may use above its capacity before it is held to it, in core-seconds; 0
    /// holds it at once. The bucket refills while the replica is below its capacity.
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
/// The replica runs until it has used `cpu` in the present period, and then stops until the next
/// one begins. What is left of a period is lost. Periods begin at a random time for each replica,
/// and from there on by the clock, whether or not there is work. [`Antagonists`] have no effect on
/// it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quota {
    /// CPU time for each period, of all cores together: from 1 ms, as in the kernel, to `at_once`
    /// times the period, which is never used up.
    pub cpu: Duration,
    /// Length of a period: from 1 ms to 1 s, as in the kernel; 100 ms is usual.
    pub period: Duration,
    /// Cores that it may use at once while the quota lasts, above 0.
    pub at_once: f64,
    /// A neighbour that uses the same quota; `None`: none.
    pub neighbour: Option<Neighbour>,
}

/// A neighbour within the same quota that comes and goes. While it is there it burns all that it
/// gets: its share of the cores, and what the replica leaves of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// The share of the cores that it takes from the replica while it is there: above 0 and
    /// below 1. It has then taken at least the same share of a quota that is used up.
    pub share: f64,
    /// It stays, and stays away, for a time drawn uniformly. This is the shortest, from 1 ms.
    pub least: Duration,
    /// The longest such time.
    pub most: Duration,
}

impl Quota {
    /// Returns the cores that the quota amounts to, which the replica's operating system reports.
    pub fn cores(&self) -> f64 {
        nanoseconds(self.cpu) / nanoseconds(self.period)
    }

    /// Returns the replica's long-term share of these cores: a neighbour is there for half of the
    /// time.
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
    pub headroom_median: f64,
    /// s for z below 0.
    pub sigma_below: f64,
    /// s for z above 0.
    pub sigma_above: f64,
    /// The most spare capacity, in cores: the machine's size.
    pub headroom_max: f64,
    /// Time constant of the slower process.
    pub slow: Duration,
    /// The slower process' share of the variance; with `fast_share` at most 1. The rest of the
    /// variance is static.
    pub slow_share: f64,
    /// Time constant of the faster process.
    pub fast: Duration,
    /// The faster process' share of the variance.
    pub fast_share: f64,
    /// Number of machines of the neighbourhood that have no spare capacity at all at a time; 0:
    /// none ever.
    pub full_machines: usize,
    /// How long a machine stays full before another one takes its turn. Turns change one by one,
    /// `full_for / full_machines` apart, so that there are always exactly `full_machines`.
    pub full_for: Duration,
    /// Number of machines that take turns, including the fleet's: a small fleet may live in a large
    /// neighbourhood. A number below the fleet's size counts as the fleet's size.
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
    /// Until this time after the start of the run, its reports include failures. After that they
    /// claim that no query fails, whether or not that is true.
    pub reported_until: Duration,
}

/// The cost of a failing query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FailureCost {
    /// A share of its cost: 0 fails at once, 1 fails at the end.
    Share(f64),
    /// A fixed cost, whatever the query would have cost.
    Fixed(Duration),
}

/// Pauses of a replica, independent on each replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stall {
    /// Time between the end of one pause and the beginning of the next: the mean of an exponential,
    /// or a constant.
    pub every: Duration,
    /// Whether it is constant. The first pause then begins at a random time within `every`.
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
    /// The share of the capacity that is left, above 0, at most 1. It is the share of the speed
    /// where queries do not share a CPU, or share one with a quota.
    pub capacity: f64,
    /// Latency of every query that arrives in the spell, where replicas replay latencies. It
    /// replaces the trace's.
    pub latency: Option<Duration>,
}

impl Group {
    /// Returns `count` healthy replicas with this service.
    pub fn healthy(count: usize, service: Service) -> Self {
        Self {
            count,
            service,
            queue: None,
            slowness: 1.0,
            failure: None,
            stall: None,
            hobble: None,
            extra_delay: Duration::ZERO,
            io_wait: Duration::ZERO,
            answers_probes: true,
            probe_cost: Duration::ZERO,
            learns_capacity: false,
            tells_cpu: true,
            report_noise: 0.0,
            carries_reports: false,
            cache: None,
            tracker: TrackerConfig::default(),
        }
    }
}
