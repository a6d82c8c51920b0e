//! What the queue's lock guards: those that wait, and which of them have a twin.
//!
//! A copy that begins and the word that its twin has begun may come at the same moment; under one
//! lock one of them is first.

use super::{Asks, Permit, Shed};
use crate::wire::tie::Tie;
use slackwater_core::Instant;
use slackwater_core::overload::{Admission, Admit, Left, Place, Started, Waits};
use slackwater_core::tail::{Comes, TieName, Ties};
use tokio::sync::oneshot;

/// Who waits, to be told.
pub(super) struct Waiter {
    answer: oneshot::Sender<Result<Permit, Shed>>,
    tie: Option<Tie>,
}

impl Waiter {
    pub(super) const fn new(
        answer: oneshot::Sender<Result<Permit, Shed>>,
        tie: Option<Tie>,
    ) -> Self {
        Self { answer, tie }
    }

    /// Who has left meanwhile need not know.
    pub(super) fn answer(self, answer: Result<Permit, Shed>) {
        let _ = self.answer.send(answer);
    }
}

/// A query that begins.
pub(super) struct Beginning {
    pub(super) started: Started,
    /// Its twin's replica is to be told, and the tie ends with it.
    pub(super) tie: Option<Tie>,
}

/// What becomes of a query that is not turned away.
pub(super) enum Arrived {
    Begins(Beginning),
    Waits(Waits<Waiter>),
}

pub(super) struct State {
    pub(super) admission: Admission<Waiter>,
    /// `None`: nobody has a twin.
    pub(super) ties: Option<Ties<Place>>,
}

impl State {
    /// Whether a query that comes has a twin.
    ///
    /// # Errors
    ///
    /// The twin has begun elsewhere.
    fn come(&mut self, now: Instant, tie: Option<Tie>) -> Result<Option<Tie>, Shed> {
        let (Some(ties), Some(tie)) = (&mut self.ties, tie) else {
            return Ok(None);
        };
        match ties.come(now, tie.name) {
            Comes::Tied => Ok(Some(tie)),
            Comes::Untied => Ok(None),
            Comes::Cancelled => Err(self.admission.refuse_twin()),
        }
    }

    /// A query comes; `None` if it has to wait, or cannot. Nothing is left of a tie that is none.
    ///
    /// # Errors
    ///
    /// Its twin has begun elsewhere.
    pub(super) fn start_at_once(
        &mut self,
        now: Instant,
        asks: Asks,
        tie: &mut Option<Tie>,
    ) -> Result<Option<Beginning>, Shed> {
        *tie = self.come(now, *tie)?;
        let started = self.admission.start_at_once(now, asks);
        Ok(started.map(|started| self.begins(now, started, *tie)))
    }

    /// It comes again, with somebody to tell.
    ///
    /// # Errors
    ///
    /// It is turned away.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        asks: Asks,
        waiter: Waiter,
    ) -> Result<Arrived, Shed> {
        let tie = self.come(now, waiter.tie)?;
        match self.admission.arrive(now, asks, Waiter { tie, ..waiter }) {
            Admit::Start(started, _) => Ok(Arrived::Begins(self.begins(now, started, tie))),
            Admit::Shed(refused) => Err(refused.shed),
            Admit::Wait(waits) => {
                if let Some(displaced) = &waits.displaced {
                    self.end(now, displaced.value.tie);
                }
                if let (Some(ties), Some(tie)) = (&mut self.ties, tie) {
                    ties.wait(now, tie.name, waits.place);
                }
                Ok(Arrived::Waits(waits))
            }
        }
    }

    /// A query begins as it comes.
    fn begins(&mut self, now: Instant, started: Started, tie: Option<Tie>) -> Beginning {
        let tie = tie.filter(|tie| {
            let ties = self.ties.as_mut();
            ties.is_some_and(|ties| ties.start(now, tie.name))
        });
        Beginning { started, tie }
    }

    /// Who leaves the queue now, as [`Admission::poll`].
    pub(super) fn poll(&mut self, now: Instant) -> Option<(Left<Waiter>, Option<Tie>)> {
        let left = self.admission.poll(now)?;
        let tie = match &left {
            Left::Shed(refused) => {
                self.end(now, refused.value.tie);
                None
            }
            // One whose client has left begins nothing.
            Left::Start(_, waiter) if waiter.answer.is_closed() => {
                self.end(now, waiter.tie);
                None
            }
            Left::Start(_, waiter) => waiter.tie.filter(|tie| {
                let ties = self.ties.as_mut();
                ties.is_some_and(|ties| ties.begin(now, tie.name))
            }),
        };
        Some((left, tie))
    }

    /// Somebody who waits leaves.
    pub(super) fn leave(&mut self, now: Instant, place: Place) -> Option<Waiter> {
        let waiter = self.admission.leave(place)?;
        self.end(now, waiter.tie);
        Some(waiter)
    }

    /// The twin of a copy has begun elsewhere: who waits with it.
    pub(super) fn twin_begun(&mut self, now: Instant, name: TieName) -> Option<Waiter> {
        let place = self.ties.as_mut()?.cancel(now, name)?;
        self.admission.twin_started(place)
    }

    /// A copy is over, and its tie with it.
    pub(super) fn end(&mut self, now: Instant, tie: Option<Tie>) {
        if let (Some(ties), Some(tie)) = (&mut self.ties, tie) {
            ties.end(now, tie.name);
        }
    }
}
