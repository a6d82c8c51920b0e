//! How a query ended.

use crate::named;

named! {
    /// How a query ended, as the client sees it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Outcome by as_str {
        /// The replica answered it.
        Success = "success",
        /// The replica answered with an error: a status of 500 or more, or a gRPC status that
        /// blames the server.
        Failed = "failed",
        /// The replica did not answer in time.
        TimedOut = "timed_out",
        /// The replica broke off: a reset, a connection closed before the response was whole.
        Broken = "broken",
        /// The replica pushed back: a response that rejects the query and allows a later retry. It
        /// is a sign of load, not of failure. Its latency is not a sample, and in a policy's rank
        /// it counts like a failure, because a fast rejection does not mean a fast replica. `[E5]`
        PushedBack = "pushed_back",
        /// No connection to the replica: it never received the query.
        NoConnection = "no_connection",
        /// The client gave up, or dropped the ticket.
        Dropped = "dropped",
    }
}

impl Outcome {
    /// Whether the replica answered the query, be it with an error. The query rate that it reports
    /// counts such queries, and also those that break off after their head.
    pub(crate) const fn is_answer(self) -> bool {
        matches!(self, Self::Success | Self::Failed)
    }

    /// Whether the query failed and its replica is to blame. A pushback is not a failure, and a
    /// query that the client gave up shows nothing.
    pub const fn is_failure(self) -> bool {
        matches!(
            self,
            Self::Failed | Self::TimedOut | Self::Broken | Self::NoConnection
        )
    }
}
