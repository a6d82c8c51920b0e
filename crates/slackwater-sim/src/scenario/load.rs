//! Who sends queries: how many clients, at what rates, of what kinds, and whether they try twice.

use core::time::Duration;

/// The clients and their queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Queries a second, of all clients together.
    pub rate: f64,
    /// Each client's share of the rate, up to a common factor; as many clients as entries, all
    /// above 0.
    pub clients: Vec<f64>,
    /// How queries are spread in time.
    pub arrivals: Arrivals,
    /// A second copy for queries that take long.
    pub hedge: Option<Hedge>,
    /// A second copy of every query, so much later, on another replica: whichever begins first
    /// cancels the other. Twice the mean network delay, as the article advises, is enough for a
    /// replica that begins at once to stop the second before it begins. Not beside `hedge`. `[The
    /// Tail at Scale, "Tied requests"]`
    pub tie: Option<Duration>,
    /// Clients that tell each other what they know; `None`: each knows but what it sees itself.
    pub siblings: Option<Siblings>,
    /// Queries that mostly wait for something else than the CPU, beside the usual ones; `None`: all
    /// are of one kind.
    pub mix: Option<Mix>,
    /// What clients' own work costs them; `None`: nothing.
    pub client_cpu: Option<ClientCpu>,
}

/// How queries are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps, client after client.
    Regular,
}

/// A second copy, on another replica, of a query that has been out for long; the first answer
/// counts, the loser is cancelled. `[The Tail at Scale, "Hedged requests"]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hedge {
    /// Sent once the query has been out for longer than this quantile of the client's recent
    /// latencies; 0.95 in the article.
    pub after_quantile: f64,
    /// At most so many further copies for each query.
    pub budget: f64,
    /// Never before this much has passed.
    pub delay_min: Duration,
    /// So many copies of a query, the first among them, and no more: 2 to 4. Each further one goes
    /// out when the query has been out for twice as long as when the last one did.
    pub copies_max: usize,
}

/// Clients that are workers of one proxy, and tell each other at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Siblings {
    /// So many workers to each proxy, in the order of the clients; the last proxy may have fewer.
    pub workers: usize,
    /// They tell what replicas have answered to their probes.
    pub answers: bool,
    /// They tell where they have sent their queries.
    pub queries: bool,
}

/// What a client's own work takes of the one core that it has for it, and for which all that it
/// does waits in line. A query counts from its arrival, and is chosen for when its turn is over;
/// probes are sent, and their answers taken in, in turn, too. Responses pass by: what they cost is
/// part of what a query does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientCpu {
    /// Each query.
    pub query: Duration,
    /// Each probe with its answer, also one that comes too late or not at all.
    pub probe: Duration,
}

/// Two kinds of queries: usual ones, and some that mostly wait for something else than the CPU. How
/// many of each come changes in turns, and with it what a replica can carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// The share of queries that mostly wait, in the odd turns and in the even ones, each from 0 to
    /// 1.
    pub shares: [f64; 2],
    /// How long a turn is.
    pub turn: Duration,
    /// Before its work, each of them waits without the CPU, uniformly up to this long.
    pub io_wait: Duration,
    /// What each of them costs, as a share of what it would cost otherwise: above 0, at most 1.
    pub cost: f64,
}

impl Load {
    /// `clients` clients of equal rate, `rate` queries a second together, Poisson, no hedging.
    pub fn even(rate: f64, clients: usize) -> Self {
        Self {
            rate,
            clients: vec![1.0; clients],
            arrivals: Arrivals::Poisson,
            hedge: None,
            tie: None,
            siblings: None,
            mix: None,
            client_cpu: None,
        }
    }
}

impl Mix {
    /// What a query costs in the mean, as a share of a usual one's, while so many mostly wait.
    fn mean_cost(&self, waiting: f64) -> f64 {
        1.0 - waiting * (1.0 - self.cost)
    }

    /// The share of queries that mostly wait, in the mean over both turns.
    fn mean_share(&self) -> f64 {
        f64::midpoint(self.shares[0], self.shares[1])
    }
}

impl Load {
    /// What queries cost in the mean over time, as a multiple of what usual ones do: at most 1.
    pub(crate) fn mean_cost(&self) -> f64 {
        self.mix.map_or(1.0, |mix| mix.mean_cost(mix.mean_share()))
    }

    /// The same while they cost least.
    pub(crate) fn least_mean_cost(&self) -> f64 {
        self.mix
            .map_or(1.0, |mix| mix.mean_cost(mix.shares[0].max(mix.shares[1])))
    }

    /// How long a query waits in the mean, of its own, before its work, in seconds.
    pub(crate) fn mean_wait(&self) -> f64 {
        self.mix.map_or(0.0, |mix| {
            mix.mean_share() * mix.io_wait.as_secs_f64() / 2.0
        })
    }
}
