//! Queries with keys before replicas with caches: our rule beside those of other load balancers.

mod cases;
mod findings;
#[cfg(test)]
mod tests;

use super::{Cell, Effort, Figure, Findings, Played, Words};

pub(super) use cases::around;

/// Rules by key.
#[derive(Debug)]
pub(super) struct Keyed;

impl Figure for Keyed {
    fn words(&self) -> Words {
        Words {
            name: "keyed",
            title: "Queries with keys before replicas with caches: latency, hits and balance",
            about: "16 replicas of four workers each, first come first served. A query takes 10 ms (exponential), and 20 ms more if its key is not \
         among the last 1,000 of its replica. 20,000 keys by Zipf's law, exponent 0.9. 1, 4, 16 or 64 balancers; a network of 0.1 to 0.3 ms each way. \
         Troubles: one replica has a third of the speed; one further key has a tenth of all queries; one replica restarts with an empty cache and is \
         down for a second, or joins, when the measurement begins. The rules of nginx (ring), HAProxy (ring_bounded) and Envoy (maglev_bounded) are \
         played as published, with a factor of 1.25; they count what one balancer has in flight. Ours counts what replicas report and what this \
         balancer has sent since. prequal_sync sends the key with its probes to the key's first two replicas and a random one; a replica that has \
         the key in its cache reports a third of its load, and the wait for the answers is part of the latency. Balance is the most queries of a \
         replica, as a multiple of the mean.",
        }
    }

    fn cells(&self, effort: &Effort) -> Vec<Cell> {
        cases::cells(effort)
    }

    fn findings(&self, played: &[Played]) -> Findings {
        findings::findings(played)
    }
}
