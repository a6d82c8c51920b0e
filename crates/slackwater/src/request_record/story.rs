//! Handles on a record, for whoever carries the request and its attempts.

use super::attempt::{Attempt, AttemptEnd, AttemptKind};
use super::record::{CopyKind, Directory, Ended, Record};
use super::recorder::{CONSUMERS_MAX, Detail};
use crate::forward::{Progress, X_SLACKWATER_ERROR};
use core::cell::{Cell, RefCell};
use core::time::Duration;
use http::{Response, StatusCode};
use http_body::Body;
use slackwater_core::policy::{Explanation, Outcome};
use slackwater_tower::client::PickView;
use std::rc::Rc;

/// A record that is being made.
#[derive(Debug)]
struct Shared {
    detail: Detail,
    /// What each consumer noted; `None`: it wants nothing of this request.
    marks: [Option<u8>; CONSUMERS_MAX],
    /// Stories that are told of it.
    stories: Cell<usize>,
    record: RefCell<Record>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let record = self.record.borrow();
        (record.recorder()).tell(self.marks, |consumer, mark| {
            consumer.finished(&record, mark)
        });
    }
}

/// A handle on a request's record; where nobody wants one there is none, and nothing happens. When the last one is dropped the
/// request is over. If it was not told how the request ended, then the client was cut off, or else it left.
#[derive(Debug, Default)]
pub(crate) struct Story(Option<Rc<Shared>>);

impl Clone for Story {
    fn clone(&self) -> Self {
        if let Some(shared) = &self.0 {
            shared.stories.set(shared.stories.get() + 1);
        }
        Self(self.0.clone())
    }
}

impl Drop for Story {
    fn drop(&mut self) {
        let Some(shared) = &self.0 else {
            return;
        };
        shared.stories.set(shared.stories.get() - 1);
        if shared.stories.get() > 0 {
            return;
        }
        let mut record = shared.record.borrow_mut();
        record.total = Some(record.began.elapsed());
        drop(record);
        let record = shared.record.borrow();
        record.recorder().tell(shared.marks, |consumer, mark| {
            consumer.over(&record, mark);
        });
    }
}

impl Story {
    pub(super) fn begin(
        record: Record,
        detail: Detail,
        marks: [Option<u8>; CONSUMERS_MAX],
    ) -> Self {
        Self(Some(Rc::new(Shared {
            detail,
            marks,
            stories: Cell::new(1),
            record: RefCell::new(record),
        })))
    }

    /// The service that the request goes to, and who knows it.
    pub(crate) fn route(&self, service: &Rc<str>, directory: &Rc<impl Directory + 'static>) {
        self.note(|record| {
            record.service = Some(Rc::clone(service));
            record.directory = Some(Rc::clone(directory) as Rc<dyn Directory>);
        });
    }

    /// The request is sent to a replica, which was chosen so. Of several attempts the last one is told.
    pub(crate) fn attempt(&self, replica: &str, pick: &PickView, upload: Option<Rc<Progress>>) {
        self.note(|record| {
            record.replica = Some(replica.into());
            record.pick = Some(*pick);
            record.leading = record.tries.len().checked_sub(1);
            record.attempts += 1;
            record.queue = Some(record.began.elapsed());
            record.upload = upload;
            record.connect = None;
            record.status = None;
            record.first_byte = None;
        });
    }

    /// A second copy of it is sent, while the first is out.
    pub(crate) fn copied(&self, kind: CopyKind) {
        self.note(|record| {
            record.attempts += 1;
            record.copy = Some((kind, "lost"));
        });
    }

    /// The head of the second copy's response is here, and it is the one that is passed on.
    pub(crate) fn copy_won(&self, replica: &str, pick: Option<&PickView>, status: StatusCode) {
        self.note(|record| {
            record.copy = record.copy.map(|(kind, _)| (kind, "won"));
            record.replica = Some(replica.into());
            record.pick = pick.copied();
            let is_copy = |attempt: &Attempt| attempt.kind.is_copy();
            record.leading = record.tries.iter().rposition(is_copy);
            record.connect = None;
        });
        self.head(status);
    }

    /// A copy of it is sent to that replica, which is out, to see how it does.
    pub(crate) fn tried_out(&self, replica: &str) {
        self.note(|record| record.shadow = Some(replica.into()));
    }

    /// A new connection was made for it, which took so long.
    pub(crate) fn connected(&self, took: Duration) {
        self.note(|record| record.connect = Some(took));
    }

    /// The head of a replica's response is here.
    pub(crate) fn head(&self, status: StatusCode) {
        self.note(|record| {
            record.status = Some(status);
            record.first_byte = Some(record.began.elapsed());
        });
    }

    /// This goes back to the client: if it is no replica's response but one of our own, it is complete with that. `status`
    /// is what it stands for; gRPC has statuses of its own.
    pub(crate) fn answer<B: Body>(&self, status: StatusCode, response: &Response<B>) {
        self.note(|record| {
            if record.status.is_none() {
                record.status = Some(status);
                record.bytes_out = response.body().size_hint().exact().unwrap_or_default();
                record.error = response.headers().get(X_SLACKWATER_ERROR).cloned();
                record.ended = Some(Ended::Complete);
            }
        });
    }

    /// Bytes of the response's body went to the client.
    pub(crate) fn passed(&self, bytes: usize) {
        // A usize has at most 64 bits.
        self.note(|record| record.bytes_out += bytes as u64);
    }

    /// How it ended.
    pub(crate) fn end(&self, ended: Ended) {
        self.note(|record| record.ended = Some(ended));
    }

    /// Room for what the next choice is made from, if that may be wanted.
    pub(crate) fn explanation(&self) -> Option<Box<Explanation>> {
        let shared = self.0.as_ref()?;
        (shared.detail >= Detail::Choices).then(|| Box::new(Explanation::new()))
    }

    /// An attempt sets out; where attempts are not noted, nothing happens.
    pub(crate) fn begin_attempt(
        &self,
        kind: AttemptKind,
        replica: &str,
        pick: &PickView,
        explanation: Option<Box<Explanation>>,
    ) -> AttemptNotes {
        let shared = self.0.as_ref();
        let Some(shared) = shared.filter(|shared| shared.detail >= Detail::Attempts) else {
            return AttemptNotes::default();
        };
        let mut record = shared.record.borrow_mut();
        let sent = record.began.elapsed();
        let place = record.tries.len();
        record.tries.push(Attempt {
            kind,
            replica: replica.into(),
            pick: *pick,
            explanation,
            due_after: None,
            sent,
            connect: None,
            head: None,
            status: None,
            end: None,
        });
        drop(record);
        AttemptNotes(Some((Rc::clone(shared), place)))
    }

    fn note(&self, note: impl FnOnce(&mut Record)) {
        if let Some(shared) = &self.0 {
            note(&mut shared.record.borrow_mut());
        }
    }
}

/// A handle on one attempt of a request, which may outlive the request.
#[derive(Debug, Default)]
pub(crate) struct AttemptNotes(Option<(Rc<Shared>, usize)>);

impl AttemptNotes {
    /// A new connection was made for it, which took so long.
    pub(crate) fn connected(&self, took: Duration) {
        self.note(|attempt, _| attempt.connect = Some(took));
    }

    /// It is a second copy, which was due so long after the first.
    pub(crate) fn due_after(&self, span: Duration) {
        self.note(|attempt, _| attempt.due_after = Some(span));
    }

    /// The head of its response is here.
    pub(crate) fn head(&self, status: StatusCode) {
        self.note(|attempt, now| {
            attempt.head = Some(now);
            attempt.status = Some(status);
        });
    }

    /// It has ended, and that is all that is noted of it.
    pub(crate) fn end(&mut self, outcome: Outcome, cause: impl FnOnce() -> Option<Box<str>>) {
        self.note(|attempt, at| {
            attempt.end = Some(AttemptEnd {
                at,
                outcome,
                cause: cause(),
            });
        });
        self.0 = None;
    }

    fn note(&self, note: impl FnOnce(&mut Attempt, Duration)) {
        if let Some((shared, place)) = &self.0 {
            let record = &mut *shared.record.borrow_mut();
            let now = record.began.elapsed();
            if let Some(attempt) = record.tries.get_mut(*place) {
                note(attempt, now);
            }
        }
    }
}
