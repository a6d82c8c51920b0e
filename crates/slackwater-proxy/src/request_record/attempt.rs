//! One attempt of a request at one replica: why it was sent there, what the policy knew, and what
//! became of it.

use super::record::CopyKind;
use core::time::Duration;
use http::StatusCode;
use slackwater_core::named;
use slackwater_core::policy::{Explanation, Outcome};
use slackwater_telemetry::trace::SpanId;
use slackwater_tower::client::PickView;
use slackwater_tower::response::GrpcStatus;

named! {
    /// What an attempt is to its request.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AttemptKind by as_str {
        /// The first.
        First = "first",
        /// Another one after a failure.
        Retry = "retry",
        /// A second copy, as the first was late.
        Hedge = "hedge",
        /// The second copy of a tied request.
        Tie = "tie",
        /// A copy for a replica on trial, whose answer nobody waits for.
        Trial = "trial",
    }
}

impl AttemptKind {
    /// What it is as a second copy, whose answer the client may get in place of the first one's.
    pub(super) const fn copy(self) -> Option<CopyKind> {
        match self {
            Self::Hedge => Some(CopyKind::Hedge),
            Self::Tie => Some(CopyKind::Tie),
            Self::First | Self::Retry | Self::Trial => None,
        }
    }
}

impl From<CopyKind> for AttemptKind {
    fn from(kind: CopyKind) -> Self {
        match kind {
            CopyKind::Hedge => Self::Hedge,
            CopyKind::Tie => Self::Tie,
        }
    }
}

/// One attempt. Times are counted from the request's head.
#[derive(Debug)]
pub struct AttemptRecord {
    pub(crate) kind: AttemptKind,
    /// Its replica's name.
    pub(crate) replica: Box<str>,
    /// Its span, and where its replica is; `None`: its request becomes none.
    pub(crate) span: Option<(SpanId, Box<str>)>,
    /// Why it went there.
    pub(crate) pick: PickView,
    /// What that was chosen from, where that may be wanted.
    pub(crate) explanation: Option<Box<Explanation>>,
    /// After how long the first copy was late, or how long after it this one was to set out; of a
    /// second copy alone.
    pub(crate) due_after: Option<Duration>,
    /// When it set out.
    pub(crate) sent: Duration,
    /// To a new connection; `None`: there was one already, or none came about.
    pub(crate) connect: Option<Duration>,
    /// When the head of the response was here.
    pub(crate) head: Option<Duration>,
    pub(crate) status: Option<StatusCode>,
    /// Of a gRPC call, how the replica says that it ended.
    pub(crate) grpc_status: Option<GrpcStatus>,
    /// `None`: it is still out.
    pub(crate) end: Option<AttemptEnd>,
}

/// How an attempt ended.
#[derive(Debug)]
pub(crate) struct AttemptEnd {
    pub(crate) at: Duration,
    /// As the policy was told.
    pub(crate) outcome: Outcome,
    /// In words, where the outcome alone does not say it.
    pub(crate) cause: Option<Box<str>>,
}
