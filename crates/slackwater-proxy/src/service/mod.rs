//! A service in one worker: its replicas, the balancer that picks from them, and its requests.
//!
//! A service is made from its configuration alone and shares nothing with others. It can therefore
//! be replaced between requests; requests in flight keep the one that they started with.
//!
//! Each folder uses those above it in this table and none below it:
//!
//! | folder | content |
//! |---|---|
//! | `admission` | limits of requests at once, queues before them, and what was counted there |
//! | `fleet` | the replicas that the policy may choose from, and what is wanted of them |
//! | `attempt` | one attempt at a request, and what is learned from it |
//! | `dispatch` | a service at work: a request's attempts, one after another or two at once |

mod admission;
mod attempt;
mod dispatch;
mod fleet;

pub(crate) use admission::WorkerIndex;
pub(crate) use attempt::Attempt;
pub(crate) use dispatch::{DispatchOptions, Service, ServiceUpdates, ServiceView};
pub use fleet::orders;
