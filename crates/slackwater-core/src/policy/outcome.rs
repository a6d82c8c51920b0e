//! How a query ended.

use crate::named;

named! {
    /// How a query ended, as the client sees it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Outcome by as_str {
        /// The replica answered it.
        Success = "success",
        /// The replica answered with an error: a status of 500 or more, a gRPC status that blames
        /// the server.
        Failed = "failed",
        /// The replica did not answer in the time that it had.
        TimedOut = "timed_out",
        /// The replica broke off: a reset, a connection closed before the response was whole.
        Broken = "broken",
        /// The replica wants less: a response that refuses the query and says that it may be tried
        /// again later. It tells of load, not of failure. Its latency is no sample, and to a
        /// policy's rank it counts as a failure does: who refuses at once is not therefore fast.
        /// `[E5]`
        PushedBack = "pushed_back",
        /// The replica could not be reached, and never saw the query.
        Unreachable = "unreachable",
        /// The client gave up, or dropped the ticket.
        Dropped = "dropped",
    }
}

impl Outcome {
    /// The query failed, and its replica is to blame. A push-back is no failure, and what the
    /// client gave up tells nothing.
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::TimedOut | Self::Broken | Self::Unreachable
        )
    }
}
