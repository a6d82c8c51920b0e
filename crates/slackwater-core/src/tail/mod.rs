//! Whether to try again, and when.
//!
//! Decisions about a query's further tries, as values: a budget that keeps retries from drowning a
//! fleet that already fails ([`RetryBudget`]), the wait before each ([`Backoff`]), and when further
//! copies of a query that is late go out while the first is still awaited ([`Hedger`]). At a
//! replica: which of a query's two tied copies it serves ([`Ties`]). Which failures may be retried
//! at all, and on which replica, is not decided here: the first is the protocol's business, the
//! second the policy's ([`Query::retry`](crate::policy::Query::retry),
//! [`Query::hedge`](crate::policy::Query::hedge)).

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
