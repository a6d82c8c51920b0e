//! Who sends queries: how many clients, at what rates, and whether they try twice.

use core::time::Duration;

/// The clients and their queries.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Queries a second, of all clients together.
    pub rate: f64,
    /// Each client's share of the rate, up to a common factor; as many clients as entries, all above 0.
    pub clients: Vec<f64>,
    /// How queries are spread in time.
    pub arrivals: Arrivals,
    /// A second copy for queries that take long.
    pub hedge: Option<Hedge>,
    /// A second copy of every query, so much later, on another replica: whichever begins first cancels the other. Twice the mean
    /// network delay, as the article advises, is enough for a replica that begins at once to stop the second before it begins.
    /// Not beside `hedge`. `[The Tail at Scale, "Tied requests"]`
    pub tie: Option<Duration>,
    /// Clients that tell each other what they know; `None`: each knows but what it sees itself.
    pub siblings: Option<Siblings>,
}

/// How queries are spread in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps, client after client.
    Regular,
}

/// A second copy, on another replica, of a query that has been out for long; the first answer counts, the loser is
/// cancelled. `[The Tail at Scale, "Hedged requests"]`
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hedge {
    /// Sent once the query has been out for longer than this quantile of the client's recent latencies; 0.95 in the
    /// article.
    pub after_quantile: f64,
    /// At most so many further copies for each query.
    pub budget: f64,
    /// Never before this much has passed.
    pub delay_min: Duration,
    /// So many copies of a query, the first among them, and no more: 2 to 4. Each further one goes out when the query has been
    /// out for twice as long as when the last one did.
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
        }
    }
}
