//! Whether to try again, and when.
//!
//! Decisions about a query's further tries, as values: a budget that keeps retries from drowning a fleet that already
//! fails ([`RetryBudget`]), and the wait before each ([`Backoff`]). Which failures may be retried at all, and on which
//! replica, is not decided here: the first is the protocol's business, the second the policy's
//! ([`Query::retry`](crate::policy::Query::retry)).

mod backoff;
mod budget;

pub use backoff::{Backoff, BackoffConfig, BackoffSettings};
pub use budget::{RetryBudget, RetryBudgetConfig, RetryBudgetSettings};
