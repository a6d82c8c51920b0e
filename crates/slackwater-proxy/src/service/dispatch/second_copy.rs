//! Why a request may be sent twice: it may turn out to be late, or it is tied. When the second copy
//! is sent, and to whom, is the reason's to say; what happens then is the same (`hedged_pair`).

use super::Service;
use super::hedging::{HedgeWatch, Hedging};
use super::tying::{Tied, Tying};
use crate::forward::RequestBody;
use crate::request_record::{CopyKind, RecordHandle};
use crate::service::attempt::Attempt;
use http::{HeaderMap, Request};
use slackwater_core::ReplicaId;
use slackwater_core::overload::Priority;
use slackwater_core::policy::Query;
use slackwater_core::tail::WatchEnd;
use slackwater_tower::wire::asks::set_priority;
use tokio::time::Instant;

/// A request that may be sent twice, and why.
#[derive(Debug)]
pub(crate) enum CopyPlan<'s> {
    /// If it is late.
    Late(HedgeWatch<'s>),
    /// Two replicas are to have it.
    Tied(Tied<'s>),
}

/// Where the second copy goes.
#[derive(Debug)]
pub(crate) enum CopyTarget<'s> {
    /// To whom the policy has next.
    Pick(&'s Hedging),
    /// To whom it had at the beginning.
    Chosen(Box<Attempt>, &'s Tying),
}

impl Service {
    /// Whether and why a request may be sent twice that goes by that route, and to `first` to begin
    /// with. One that is tied is not watched besides.
    pub(crate) fn copy_plan(
        &self,
        route: usize,
        first: &Attempt,
        request: &Request<RequestBody>,
        record: &RecordHandle,
    ) -> Option<CopyPlan<'_>> {
        if let Some(tied) = self.tie(first, record) {
            return Some(CopyPlan::Tied(tied));
        }
        let hedging = self.hedging.as_ref()?;
        Some(CopyPlan::Late(hedging.begin(route, request)))
    }
}

impl<'s> CopyPlan<'s> {
    /// When to ask [`Self::is_to_be_copied`]; `None`: never.
    pub(super) fn due_at(&self) -> Option<Instant> {
        match self {
            Self::Late(watching) => watching.due_at(),
            Self::Tied(tied) => Some(tied.due_at()),
        }
    }

    /// There was no second copy: when to ask again; `None`: never.
    pub(super) fn again_at(&mut self) -> Option<Instant> {
        match self {
            Self::Late(watching) => {
                watching.unsent();
                watching.due_at()
            }
            Self::Tied(_) => None,
        }
    }

    /// The first copy goes out, and there may be a second.
    pub(crate) fn begin(&self, request: &mut Request<RequestBody>) {
        if let Self::Tied(tied) = self {
            tied.name_first(request);
        }
    }

    /// Whether to send a second copy now; it is paid for.
    pub(super) fn is_to_be_copied(&mut self) -> bool {
        match self {
            Self::Late(watching) => watching.is_to_be_copied(),
            Self::Tied(tied) => tied.pay(),
        }
    }

    /// Where to send it.
    pub(crate) fn next(&mut self, copy: &mut Request<RequestBody>) -> Option<CopyTarget<'s>> {
        match self {
            Self::Late(watching) => {
                // Where requests queue, it waits behind those that have no other copy.
                set_priority(copy.headers_mut(), Priority::Shadow);
                Some(CopyTarget::Pick(watching.hedging()))
            }
            Self::Tied(tied) => {
                let second = tied.send_second(copy)?;
                Some(CopyTarget::Chosen(second, tied.tying()))
            }
        }
    }

    /// It was not sent.
    pub(crate) fn unsent(&mut self) {
        match self {
            Self::Late(watching) => watching.unsent(),
            Self::Tied(tied) => tied.refund(),
        }
    }

    /// A replica has dropped one of both, for the other had begun.
    pub(crate) fn dropped(&mut self) {
        if let Self::Tied(tied) = self {
            tied.tying().count_dropped();
            tied.refund();
        }
    }

    /// The first copy was answered, with these fields.
    pub(crate) fn answered(self, headers: &HeaderMap) {
        match self {
            Self::Late(watching) => watching.answered(headers),
            Self::Tied(tied) => tied.end(WatchEnd::Answered),
        }
    }

    pub(crate) fn end(self, end: WatchEnd) {
        match self {
            Self::Late(watching) => watching.end(end),
            Self::Tied(tied) => tied.end(end),
        }
    }
}

impl CopyTarget<'_> {
    pub(crate) const fn kind(&self) -> CopyKind {
        match self {
            Self::Pick(_) => CopyKind::Hedge,
            Self::Chosen(..) => CopyKind::Tie,
        }
    }

    /// The replica for the second copy, of which those to `avoid` are none; `None`: there is
    /// nowhere to send it to.
    pub(crate) async fn attempt(
        self,
        service: &Service,
        avoid: &[ReplicaId],
        record: &RecordHandle,
    ) -> Option<Box<Attempt>> {
        match self {
            Self::Pick(hedging) => {
                let mut next = service.pick(Query::hedge(avoid), record).await?;
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
