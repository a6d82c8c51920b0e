//! A service in one worker: its replicas, the balancer that picks from them, and its requests.
//!
//! A service is made from its configuration alone and shares nothing with others. It can therefore
//! be replaced between requests; requests in flight keep the one that they started with.
//!
//! Each module uses only modules above it in this table:
//!
//! | module | content |
//! |---|---|
//! | `keys` | keys of requests, and hints of their probes |
//! | `admission` | limits of requests in flight, queues, and their counts |
//! | `fleet` | the replicas that the policy may pick, and the operator's orders for them |
//! | `attempt` | one attempt of a request, and what is learned from it |
//! | `dispatch` | the attempts of a request, one after another or two at once |

mod admission;
mod attempt;
mod dispatch;
mod fleet;
mod keys;

pub(crate) use admission::WorkerIndex;
pub(crate) use attempt::{Attempt, settle};
pub(crate) use dispatch::{DispatchOptions, Service, ServiceUpdates, ServiceView};
pub(crate) use fleet::InFlightCounts;
pub use fleet::orders;
pub(crate) use keys::RequestKey;
