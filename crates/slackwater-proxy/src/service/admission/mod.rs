//! Admission: which requests run and which wait. Limits of requests in flight for a service and for
//! each of its replicas, with queues, and counts of requests before they reach a replica.
//!
//! | | file |
//! |---|---|
//! | the limit of a service | `limiter` |
//! | the limit of each replica | `replica_limiter` |
//! | requests that wait for either, first in, first out | `wait_queue` |
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

/// Index of this worker, counted from 0, and the number of workers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerIndex {
    pub(crate) index: u16,
    pub(crate) workers: u16,
}
