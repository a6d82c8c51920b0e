//! The reasons for a second copy of a request: it may turn out to be late, or it is tied. The
//! reason decides when the second copy is sent and to which replica; the rest is the same for both
//! (`hedged_pair`).

use super::hedging::{HedgeWatch, Hedging};
use super::tying::{Tied, Tying};
use super::{PickedFor, Service};
use crate::forward::{RequestBody, RequestTemplate};
use crate::request_record::AttemptKind;
use crate::service::attempt::Attempt;
use slackwater_core::ReplicaId;
use slackwater_core::overload::Priority;
use slackwater_core::policy::Query;
use slackwater_core::tail::WatchEnd;
use slackwater_http::{Fields, Request};
use slackwater_tower::wire::asks::set_priority;
use tokio::time::Instant;

/// A request that may get a second copy, and why.
#[derive(Debug)]
pub(crate) enum CopyPlan<'s> {
    /// The second copy is sent if the request is late.
    Late(HedgeWatch<'s>),
    /// Two replicas get the request.
    Tied(Tied<'s>),
}

/// Destination of the second copy.
#[derive(Debug)]
pub(crate) enum CopyTarget<'s> {
    /// The replica that the policy picks next.
    Pick(&'s Hedging),
    /// The replica that was picked at the start.
    Chosen(Box<Attempt>, &'s Tying),
}

impl Service {
    /// Decides whether a request on that route, whose first copy goes to `first`, may get a second
    /// copy. A tied request is not hedged.
    pub(crate) fn copy_plan(
        &self,
        route: usize,
        first: &Attempt,
        request: &Request<RequestBody>,
        picked_for: PickedFor<'_>,
    ) -> Option<CopyPlan<'_>> {
        if let Some(tied) = self.tie(first, picked_for) {
            return Some(CopyPlan::Tied(tied));
        }
        let hedging = self.hedging.as_ref()?;
        Some(CopyPlan::Late(hedging.begin(route, request)))
    }
}

impl<'s> CopyPlan<'s> {
    /// Prepares the first copy, if it may get a second. Returns when to call
    /// [`Self::is_to_be_copied`], and from what the second is made; `None` for never.
    pub(super) fn begin(
        &mut self,
        request: &mut Request<RequestBody>,
    ) -> Option<(Instant, RequestTemplate)> {
        let due_at = match self {
            Self::Late(watching) => watching.due_at(),
            Self::Tied(tied) => Some(tied.due_at()),
        };
        let begun = due_at.and_then(|due_at| Some((due_at, RequestTemplate::of(request)?)));
        match (self, &begun) {
            (Self::Tied(tied), Some(_)) => tied.name_first(request),
            (Self::Tied(tied), None) => tied.release(),
            (Self::Late(_), _) => (),
        }
        begun
    }

    /// Records that no second copy was sent. Returns when to ask again; `None` for never.
    pub(super) fn again_at(&mut self) -> Option<Instant> {
        match self {
            Self::Late(watching) => {
                watching.unsent();
                watching.due_at()
            }
            Self::Tied(tied) => {
                tied.release();
                None
            }
        }
    }

    /// Whether to send a second copy now. If so, the budget has paid for it.
    pub(super) fn is_to_be_copied(&mut self) -> bool {
        match self {
            Self::Late(watching) => watching.is_to_be_copied(),
            Self::Tied(tied) => tied.pay(),
        }
    }

    /// Returns the destination of the second copy.
    pub(crate) fn next(&mut self, copy: &mut Request<RequestBody>) -> Option<CopyTarget<'s>> {
        match self {
            Self::Late(watching) => {
                // In a queue, it waits behind requests that have no other copy.
                set_priority(copy.headers_mut(), Priority::Shadow);
                Some(CopyTarget::Pick(watching.hedging()))
            }
            Self::Tied(tied) => {
                let second = tied.send_second(copy)?;
                Some(CopyTarget::Chosen(second, tied.tying()))
            }
        }
    }

    /// Refunds a second copy that was not sent.
    pub(crate) fn unsent(&mut self) {
        match self {
            Self::Late(watching) => watching.unsent(),
            Self::Tied(tied) => tied.refund(),
        }
    }

    /// Records that a replica has dropped one copy because the other had started.
    pub(crate) fn dropped(&mut self) {
        if let Self::Tied(tied) = self {
            tied.tying().count_dropped();
            tied.refund();
        }
    }

    /// Records that the first copy was answered, with these header fields.
    pub(crate) fn answered(self, headers: &Fields) {
        if let Self::Late(watching) = self {
            watching.answered(headers);
        }
    }

    pub(crate) fn end(self, end: WatchEnd) {
        if let Self::Late(watching) = self {
            watching.end(end);
        }
    }
}

impl CopyTarget<'_> {
    pub(crate) const fn kind(&self) -> AttemptKind {
        match self {
            Self::Pick(_) => AttemptKind::Hedge,
            Self::Chosen(..) => AttemptKind::Tie,
        }
    }

    /// Makes the attempt of the second copy at a replica that is not in `avoid`; `None` if there is
    /// none.
    pub(crate) async fn attempt(
        self,
        service: &Service,
        avoid: &[ReplicaId],
        picked_for: PickedFor<'_>,
    ) -> Option<Box<Attempt>> {
        match self {
            Self::Pick(hedging) => {
                let mut next = service.pick(Query::hedge(avoid), picked_for).await?;
                if !service.fleet.may_choose(next.replica()) || !next.try_acquire() {
                    next.cancel();
                    return None;
                }
                next.replica().counts().hedges.add_one();
                hedging.sent();
                Some(next)
            }
            Self::Chosen(mut chosen, tying) => {
                if !chosen.try_acquire() {
                    chosen.cancel();
                    return None;
                }
                tying.sent();
                Some(chosen)
            }
        }
    }
}
