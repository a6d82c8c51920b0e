//! Whether to try again, and when.
//!
//! Decisions about a query's further attempts, as values: a budget that keeps retries from
//! overloading a fleet that already fails ([`RetryBudget`]), the wait before each retry
//! ([`Backoff`]), and when further copies of a late query are sent while the first is in flight
//! ([`Hedger`]). At a replica: which of a query's two tied copies it serves ([`Ties`]). Which
//! failures may be retried is decided by the protocol, and on which replica by the policy
//! ([`Query::retry`](crate::policy::Query::retry), [`Query::hedge`](crate::policy::Query::hedge)).

mod backoff;
mod budget;
mod hedge;
mod tied;
mod window;

pub use backoff::{Backoff, BackoffConfig, BackoffSettings};
pub(crate) use budget::Tokens;
pub use budget::{RetryBudget, RetryBudgetConfig, RetryBudgetSettings, TieBudget};
pub use hedge::{COPIES_MAX, HedgeConfig, HedgeCounters, HedgeSettings, Hedger, Watch, WatchEnd};
pub use tied::{Comes, TieCounts, TieName, Ties, TiesConfig, TiesCounters, TiesSettings};
