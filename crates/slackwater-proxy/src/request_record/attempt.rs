//! One attempt of a request at one replica: why it was sent there, the policy's data for the pick,
//! and how it ended.

use core::time::Duration;
use http::StatusCode;
use slackwater_core::named;
use slackwater_core::policy::{Explanation, Outcome};
use slackwater_telemetry::trace::SpanId;
use slackwater_tower::client::PickView;
use slackwater_tower::response::GrpcStatus;
use std::rc::Rc;

named! {
    /// Role of an attempt in its request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AttemptKind by as_str {
        /// The first attempt.
        First = "first",
        /// Another attempt after a failure.
        Retry = "retry",
        /// A second copy, because the first was late.
        Hedge = "hedge",
        /// The second copy of a tied request.
        Tie = "tie",
        /// A copy for a replica on trial, whose response no client gets.
        Trial = "trial",
    }
}

impl AttemptKind {
    /// Whether this is a second copy, whose response the client may get in place of the first
    /// one's.
    pub(super) const fn is_copy(self) -> bool {
        matches!(self, Self::Hedge | Self::Tie)
    }
}

/// One attempt. Times are relative to the request head.
#[derive(Debug)]
pub struct AttemptRecord {
    pub(crate) kind: AttemptKind,
    /// Name of the replica.
    pub(crate) replica: Rc<str>,
    /// Span of the attempt, and address of its replica; `None` if the request is not traced.
    pub(crate) span: Option<(SpanId, Box<str>)>,
    /// Why the replica was picked.
    pub(crate) pick: PickView,
    /// The candidates of the pick, if a consumer may want them.
    pub(crate) explanation: Option<Box<Explanation>>,
    /// For a second copy only: the delay after which the first copy counted as late, or the delay
    /// of a tied copy.
    pub(crate) due_after: Option<Duration>,
    /// When it was sent.
    pub(crate) sent: Duration,
    /// Time to open a new connection; `None` if one was open already, or none could be opened.
    pub(crate) connect: Option<Duration>,
    /// When the response head arrived.
    pub(crate) head: Option<Duration>,
    pub(crate) status: Option<StatusCode>,
    /// Status of a gRPC call, as the replica sent it.
    pub(crate) grpc_status: Option<GrpcStatus>,
    /// `None` while it is in flight.
    pub(crate) end: Option<AttemptEnd>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) struct AttemptEnd {
    pub(crate) at: Duration,
    /// The outcome that was reported to the policy.
    pub(crate) outcome: Outcome,
    /// Details in words, if the outcome alone does not contain them.
    pub(crate) cause: Option<Box<str>>,
}
