//! State under the queue's lock: the waiting queries, and which of them are tied.
//!
//! A copy may start in the same moment as the message arrives that the other one has started. Under
//! one lock, one of them is first.

use super::{Asks, Permit, Shed};
use crate::wire::tie::Tie;
use slackwater_core::Instant;
use slackwater_core::overload::{Admission, Admit, Left, Place, Started, Waits};
use slackwater_core::tail::{Comes, TieName, Ties};
use tokio::sync::oneshot;

/// The task that waits for an answer.
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

    /// Sends the answer. A client that has left in the meantime does not need it.
    pub(super) fn answer(self, answer: Result<Permit, Shed>) {
        let _ = self.answer.send(answer);
    }
}

/// A query that starts.
pub(super) struct Beginning {
    pub(super) started: Started,
    /// The tie, if the other copy's replica must be notified. It ends with the query.
    pub(super) tie: Option<Tie>,
}

/// The result of a query that is not rejected.
pub(super) enum Arrived {
    Begins(Beginning),
    Waits(Waits<Waiter>),
}

pub(super) struct State {
    pub(super) admission: Admission<Waiter>,
    /// `None`: no queries are tied.
    pub(super) ties: Option<Ties<Place>>,
}

impl State {
    /// Checks whether an arriving query is tied.
    ///
    /// # Errors
    ///
    /// The other copy has started elsewhere.
    fn come(&mut self, now: Instant, tie: Option<Tie>) -> Result<Option<Tie>, Shed> {
        let (Some(ties), Some(tie)) = (&mut self.ties, tie) else {
            return Ok(None);
        };
        match ties.come(now, tie.name) {
            Comes::Tied => Ok(Some(tie)),
            Comes::Untied => Ok(None),
            Comes::Cancelled => Err(self.admission.refuse_copy()),
        }
    }

    /// Handles a query's arrival. Returns `None` if it must wait or be rejected. A tie that is not
    /// valid is cleared.
    ///
    /// # Errors
    ///
    /// The other copy has started elsewhere.
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

    /// Handles the arrival again, with a waiter to notify.
    ///
    /// # Errors
    ///
    /// The query is rejected.
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

    /// Starts a query at its arrival.
    fn begins(&mut self, now: Instant, started: Started, tie: Option<Tie>) -> Beginning {
        let tie = tie.filter(|tie| {
            let ties = self.ties.as_mut();
            ties.is_some_and(|ties| ties.start(now, tie.name))
        });
        Beginning { started, tie }
    }

    /// Removes the next query that leaves the queue now, as [`Admission::poll`].
    pub(super) fn poll(&mut self, now: Instant) -> Option<(Left<Waiter>, Option<Tie>)> {
        let left = self.admission.poll(now)?;
        let tie = match &left {
            Left::Shed(refused) => {
                self.end(now, refused.value.tie);
                None
            }
            // A copy whose client has left does not start anything.
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

    /// Removes a waiting query that leaves.
    pub(super) fn leave(&mut self, now: Instant, place: Place) -> Option<Waiter> {
        let waiter = self.admission.leave(place)?;
        self.end(now, waiter.tie);
        Some(waiter)
    }

    /// Handles the start of the other copy elsewhere. Returns the waiter of the copy here, if any.
    pub(super) fn tied_copy_started(&mut self, now: Instant, name: TieName) -> Option<Waiter> {
        let place = self.ties.as_mut()?.cancel(now, name)?;
        self.admission.copy_started(place)
    }

    /// Ends a copy's tie, when the copy ends.
    pub(super) fn end(&mut self, now: Instant, tie: Option<Tie>) {
        if let (Some(ties), Some(tie)) = (&mut self.ties, tie) {
            ties.end(now, tie.name);
        }
    }
}
