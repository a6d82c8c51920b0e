//! The clients and their queries: how many clients, their rates, kinds of queries, and second
//! copies.

use super::cost::nanoseconds;
use super::keys::Keys;
use super::prompts::Prompts;
use core::f64::consts::TAU;
use core::time::Duration;

/// The clients and their queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Queries a second, of all clients together.
    pub rate: f64,
    /// Each client's share of the rate, up to a common factor. There are as many clients as
    /// entries, all above 0.
    pub clients: Vec<f64>,
    /// How queries are spread in time.
    pub arrivals: Arrivals,
    /// A rate that rises and falls in time; `None`: it is constant. `rate` is the mean.
    pub swing: Option<Swing>,
    /// A second copy for queries that take long.
    pub hedge: Option<Hedge>,
    /// A second copy of every query, this much later, on another replica: the copy that starts
    /// first cancels the other. Twice the mean network delay, as the article advises, is enough for
    /// a replica that starts at once to stop the second copy before it starts. It cannot be
    /// combined with `hedge`. `[The Tail at Scale, "Tied requests"]`
    pub tie: Option<Duration>,
    /// Clients that use a part of the fleet each; `None`: each uses all of it.
    pub subsets: Option<Subsets>,
    /// Clients that share what they know; `None`: each uses only what it measures itself.
    pub siblings: Option<Siblings>,
    /// Queries that mostly wait for something else than the CPU, beside the usual ones; `None`: all
    /// are of one kind.
    pub mix: Option<Mix>,
    /// CPU cost of the clients' own work; `None`: nothing.
    pub client_cpu: Option<ClientCpu>,
    /// Short and long queries, where the class of each is known; `None`: no class is known.
    pub classes: Option<Classes>,
    /// The keys that queries carry; `None`: they carry none.
    pub keys: Option<Keys>,
    /// Conversations with a language model instead of queries: then only the rate and the number of
    /// clients of this load count, and of a group of the fleet only its size and slowness. `None`:
    /// there are none.
    pub prompts: Option<Box<Prompts>>,
}

/// How queries are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps, client after client.
    Regular,
}

/// A rate that follows a sine, as over a day:
/// `rate(t) = rate · (1 + amplitude · sin(2π · t / period))`, from the start of the run. Each gap
/// between two queries belongs to the rate at its beginning, so a period should be far longer than
/// a gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swing {
    /// From one peak to the next.
    pub period: Duration,
    /// How far the rate rises above its mean, and falls below it, as a share of the mean: from 0 to
    /// below 1.
    pub amplitude: f64,
}

impl Swing {
    /// Returns the rate at this time after the start of the run, as a multiple of the mean.
    pub(crate) fn factor(&self, at_ns: f64) -> f64 {
        1.0 + self.amplitude * (TAU * at_ns / nanoseconds(self.period)).sin()
    }
}

/// A second copy, on another replica, of a query that has been in flight for long. The first answer
/// counts, and the loser is cancelled. `[The Tail at Scale, "Hedged requests"]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hedge {
    /// The copy is sent once the query has been in flight for longer than this quantile of the
    /// client's recent latencies; 0.95 in the article.
    pub after_quantile: f64,
    /// The most further copies for each query, on average.
    pub budget: f64,
    /// The copy is never sent before this much time has passed.
    pub delay_min: Duration,
    /// The most copies of a query, including the first: 2 to 4. Each further copy is sent when the
    /// query has been in flight for twice as long as at the last one.
    pub copies_max: usize,
    /// Whether a replica drops a further copy that arrives while it has no core or worker free for
    /// it, so that only spare capacity pays for copies.
    pub needs_room: bool,
}

/// Short and long queries, by their cost. Latencies are also measured by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes {
    /// Queries that cost at least this much are long.
    pub long_from: Duration,
    /// What clients and replicas do with the class.
    pub handling: ClassHandling,
}

/// What clients and replicas do with the class of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassHandling {
    /// Nothing: the class is only measured.
    Ignored,
    /// Long queries go to the last replicas of the fleet, as many as this, and short ones to the
    /// others. Each client has a policy for each class.
    Apart {
        /// At least 1, and fewer than all.
        long_replicas: usize,
    },
    /// A long query counts as this many requests in flight, in replicas' reports and in the count
    /// of its client.
    Charged {
        /// From 2 up; the ratio of the mean costs is the obvious value.
        long_counts_as: u32,
    },
}

/// Clients that use a part of the fleet each, and probe no other replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subsets {
    /// Replicas of each client: at least 1. All, if there are fewer.
    pub size: usize,
    /// Whether subsets overlap evenly, because clients know their numbers; otherwise they are
    /// random.
    pub numbered: bool,
}

/// Clients that are workers of one proxy, and share what they know at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Siblings {
    /// Workers of each proxy, in the order of the clients. The last proxy may have fewer.
    pub workers: usize,
    /// Whether they share the replicas' answers to their probes.
    pub answers: bool,
    /// Whether they share where they have sent their queries.
    pub queries: bool,
}

/// The CPU time of a client's own work. Each client has one core, on which all its work queues. A
/// query counts from its arrival, and its replica is chosen when its turn comes. Probes and their
/// answers wait for their turns, too. Responses do not: their cost is part of a query's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientCpu {
    /// CPU time for each query.
    pub query: Duration,
    /// CPU time for each probe with its answer, even if the answer comes too late or not at all.
    pub probe: Duration,
}

/// Two kinds of queries: usual ones, and some that mostly wait for something else than the CPU. How
/// many arrive of each kind changes in turns, and with it a replica's capacity in queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// The share of queries that mostly wait, in the odd turns and in the even ones, each from 0 to
    /// 1.
    pub shares: [f64; 2],
    /// Length of a turn.
    pub turn: Duration,
    /// The longest wait of such a query without the CPU before its work; waits are uniform.
    pub io_wait: Duration,
    /// The cost of such a query, as a share of its usual cost: above 0, at most 1.
    pub cost: f64,
}

impl Load {
    /// Returns `clients` clients of equal rate, `rate` queries a second together, Poisson, no
    /// hedging.
    pub fn even(rate: f64, clients: usize) -> Self {
        Self {
            rate,
            clients: vec![1.0; clients],
            arrivals: Arrivals::Poisson,
            swing: None,
            hedge: None,
            tie: None,
            subsets: None,
            siblings: None,
            mix: None,
            client_cpu: None,
            classes: None,
            keys: None,
            prompts: None,
        }
    }
}

impl Mix {
    /// Returns the mean cost of a query, as a share of the usual cost, while the share `waiting` of
    /// queries mostly wait.
    fn mean_cost(&self, waiting: f64) -> f64 {
        1.0 - waiting * (1.0 - self.cost)
    }

    /// Returns the share of queries that mostly wait, in the mean over both turns.
    fn mean_share(&self) -> f64 {
        f64::midpoint(self.shares[0], self.shares[1])
    }
}

impl Load {
    /// Returns the highest rate over time, in queries a second.
    pub(crate) fn peak_rate(&self) -> f64 {
        self.rate * (1.0 + self.swing.map_or(0.0, |swing| swing.amplitude))
    }

    /// Returns the mean cost of queries over time, as a multiple of the usual cost: at most 1.
    pub(crate) fn mean_cost(&self) -> f64 {
        self.mix.map_or(1.0, |mix| mix.mean_cost(mix.mean_share()))
    }

    /// Returns the mean cost of queries in the turn in which they cost least, as a multiple of the
    /// usual cost.
    pub(crate) fn least_mean_cost(&self) -> f64 {
        self.mix
            .map_or(1.0, |mix| mix.mean_cost(mix.shares[0].max(mix.shares[1])))
    }

    /// Returns how long a query of the mix waits in the mean before its work, in seconds.
    pub(crate) fn mean_wait(&self) -> f64 {
        self.mix.map_or(0.0, |mix| {
            mix.mean_share() * mix.io_wait.as_secs_f64() / 2.0
        })
    }
}
