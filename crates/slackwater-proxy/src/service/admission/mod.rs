//! Which requests run and which wait: limits of requests at once, of a service and of each of its
//! replicas, with queues before them; and what was counted of requests before any replica had them.
//!
//! | | file |
//! |---|---|
//! | the limit of a service | `limiter` |
//! | the limit of each replica | `replica_limiter` |
//! | requests that wait for either, first come, first served | `wait_queue` |
//! | budgets for further copies, and all counts | `budgets`, `counts` |

mod budgets;
mod counts;
mod limiter;
mod replica_limiter;
mod wait_queue;

pub(crate) use budgets::Budgets;
pub(crate) use counts::ServiceCounts;
pub(crate) use limiter::{Limiter, Permit, share};
pub(crate) use replica_limiter::{ReplicaLimiter, ReplicaLimiters, ReplicaPermit};

/// Which of how many workers this is, counted from 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerIndex {
    pub(crate) index: u16,
    pub(crate) workers: u16,
}
