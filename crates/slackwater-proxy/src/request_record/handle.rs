//! Handles on a record, for the code that runs the request and its attempts.

use super::attempt::{AttemptEnd, AttemptKind, AttemptRecord};
use super::record::{Directory, Ended, RequestRecord, SecondCopy};
use super::recorder::{Detail, Marks};
use crate::forward::{Progress, X_SLACKWATER_ERROR};
use core::cell::{Cell, RefCell};
use core::time::Duration;
use http::{HeaderValue, Method, StatusCode};
use http_body::Body;
use slackwater_config::ReplicaAddress;
use slackwater_config::routes::Route;
use slackwater_core::Instant as CoreInstant;
use slackwater_core::policy::{Explanation, Outcome};
use slackwater_http::{Fields, Response};
use slackwater_telemetry::facts::ResponseClass;
use slackwater_tower::client::PickView;
use slackwater_tower::clock::Clock;
use slackwater_tower::response::GrpcStatus;
use std::rc::Rc;

/// A record in progress, or the memory of one that is over, for the next.
#[derive(Debug)]
pub(super) struct SharedRecord {
    detail: Detail,
    marks: Marks,
    /// Number of handles of the request itself; those of its attempts may outlive them.
    handles: Cell<usize>,
    /// `None` once it is over.
    record: RefCell<Option<RequestRecord>>,
}

/// One of the owners of a record in progress. The last one finishes it.
#[derive(Clone, Debug)]
struct Owner(Rc<SharedRecord>);

impl Drop for Owner {
    #[inline]
    fn drop(&mut self) {
        if Rc::strong_count(&self.0) == 1 {
            self.finish();
        }
    }
}

impl Owner {
    /// Finishes the record, of which this is the last owner.
    #[inline(never)]
    fn finish(&mut self) {
        let Some(shared) = Rc::get_mut(&mut self.0) else {
            return;
        };
        let over = shared.record.get_mut();
        let Some(record) = over else {
            return;
        };
        let recorder = Rc::clone(record.recorder());
        recorder.notify(shared.marks, |consumer, mark| {
            consumer.finished(record, mark);
        });
        recorder.trace(record);
        if let Some(directory) = &record.directory
            && let Some(reference) = record.reference()
        {
            directory.exemplify(record, reference);
        }
        let described = record.take_described();
        *over = None;
        recorder.keep_for_reuse(Rc::clone(&self.0), described);
    }
}

impl SharedRecord {
    /// Reports that the request is over.
    ///
    /// Not inlined into the drop of a handle: most handles are empty, or not the last of a request.
    #[inline(never)]
    fn end(&self) {
        self.note(|record| {
            // The response has ended now if its end was recorded.
            let total = record.total.unwrap_or_else(|| record.began.elapsed());
            record.total = Some(total);
        });
        if let Some(record) = &*self.record.borrow() {
            record.recorder().notify(self.marks, |consumer, mark| {
                consumer.over(record, mark);
            });
        }
    }

    fn note<T>(&self, note: impl FnOnce(&mut RequestRecord) -> T) -> Option<T> {
        self.record.borrow_mut().as_mut().map(note)
    }
}

/// A handle on a request record. If no consumer needs the record, the handle is empty and does
/// nothing. The request is over when the last handle is dropped. If no end was recorded by then,
/// the client was cut off or has left.
#[derive(Debug, Default)]
pub(crate) struct RecordHandle(Option<Owner>);

impl Clone for RecordHandle {
    fn clone(&self) -> Self {
        if let Some(Owner(shared)) = &self.0 {
            shared.handles.set(shared.handles.get() + 1);
        }
        Self(self.0.clone())
    }
}

impl Drop for RecordHandle {
    #[inline]
    fn drop(&mut self) {
        let Some(Owner(shared)) = &self.0 else {
            return;
        };
        shared.handles.set(shared.handles.get() - 1);
        if shared.handles.get() == 0 {
            shared.end();
        }
    }
}

impl RecordHandle {
    /// Begins a record, in the memory of `reused` if there is any.
    #[inline]
    pub(super) fn begin(
        record: impl FnOnce() -> RequestRecord,
        (detail, marks): (Detail, Marks),
        reused: Option<Rc<SharedRecord>>,
    ) -> Self {
        let mut shared = reused.unwrap_or_else(|| {
            Rc::new(SharedRecord {
                detail,
                marks,
                handles: Cell::new(0),
                record: RefCell::new(None),
            })
        });
        // No other owner has it yet.
        if let Some(shared) = Rc::get_mut(&mut shared) {
            (shared.detail, shared.marks) = (detail, marks);
            shared.handles.set(1);
            *shared.record.get_mut() = Some(record());
        }
        Self(Some(Owner(shared)))
    }

    /// Records the service of the request, and the directory of its replicas.
    pub(crate) fn route(&self, service: &Rc<str>, directory: &Rc<impl Directory + 'static>) {
        self.note(|record| {
            record.service = Some(Rc::clone(service));
            record.directory = Some(Rc::clone(directory) as Rc<dyn Directory>);
        });
    }

    /// Returns when the request began on this clock, which is that of its service; `None` without a
    /// record. Later times that were read from it save the record a read.
    pub(crate) fn begin_on(&self, clock: Clock) -> Option<CoreInstant> {
        let Owner(shared) = self.0.as_ref()?;
        shared.note(|record| *record.began_at.insert(clock.at(record.began)))
    }

    /// Returns a handle for histograms, which state how they counted the request, if that may
    /// become an exemplar.
    pub(crate) fn of_counts(&self) -> Self {
        let owner = self.0.as_ref();
        // Without attempts, the request is neither traced nor kept.
        if owner.is_none_or(|Owner(shared)| shared.detail < Detail::Attempts) {
            return Self::default();
        }
        self.clone()
    }

    /// Records that the request, or a second copy of it, is sent to a replica because of this pick.
    /// Of several attempts, the last one counts. A first copy is sent at the time of its pick.
    pub(crate) fn attempt(
        &self,
        kind: AttemptKind,
        replica: &Rc<str>,
        (pick, picked_at): (&PickView, Option<CoreInstant>),
        upload: Option<Rc<Progress>>,
    ) {
        self.note(|record| {
            record.attempts += 1;
            record.first_picked = record.first_picked.or(picked_at);
            if kind.is_copy() {
                record.copy = Some(Box::new(SecondCopy {
                    kind,
                    won: false,
                    replica: Rc::clone(replica),
                    pick: *pick,
                    sent: record.began.elapsed(),
                    connect: None,
                }));
                return;
            }
            record.replica = Some(Rc::clone(replica));
            record.pick = Some(*pick);
            record.leading = record.attempt_records.len().checked_sub(1);
            record.queue = Some(record.since_head(picked_at));
            record.upload = upload;
            record.connect = None;
        });
    }

    /// Records that a copy is sent to that replica, which is taken out, as a trial.
    pub(crate) fn tried_out(&self, replica: &Rc<str>) {
        self.note(|record| {
            record.attempts += 1;
            record.shadow = Some(Rc::clone(replica));
        });
    }

    /// Records that a new connection was opened for that attempt, and how long it took.
    pub(crate) fn connected(&self, kind: AttemptKind, took: Duration) {
        self.note(|record| match &mut record.copy {
            Some(copy) if kind.is_copy() => copy.connect = Some(took),
            _ => record.connect = Some(took),
        });
    }

    /// Records that the client gets the response of that attempt, which is the last one or the
    /// second copy. The head may already contain the status of a gRPC call.
    pub(crate) fn pass_on(&self, kind: AttemptKind, grpc_status: Option<GrpcStatus>) {
        self.pass_on_at(kind, grpc_status, None);
    }

    /// Like [`Self::pass_on`], at a time on the clock of the service.
    pub(crate) fn pass_on_at(
        &self,
        kind: AttemptKind,
        grpc_status: Option<GrpcStatus>,
        at: Option<CoreInstant>,
    ) {
        self.note(|record| {
            record.first_byte = at.map(|_| record.since_head(at));
            if kind.is_copy() {
                record.lead_by_copy();
            }
            record.is_passed_on = true;
            record.grpc_status = grpc_status;
        });
    }

    /// Records the status of a gRPC call in the trailers of that response.
    pub(crate) fn grpc_ended(&self, status: GrpcStatus) {
        self.note(|record| record.grpc_status = Some(status));
    }

    /// Records the response to the client. If it is the proxy's own, the request is complete with
    /// it. `stands_for` is its HTTP status before a conversion to gRPC, which has its own statuses.
    pub(crate) fn answer<B: Body>(&self, stands_for: StatusCode, response: &Response<B>) {
        self.note(|record| {
            record.status = Some(response.status());
            if record.is_passed_on {
                let first_byte = record.first_byte;
                record.first_byte = first_byte.or_else(|| Some(record.began.elapsed()));
                return;
            }
            record.is_own_failure = stands_for.is_server_error();
            record.grpc_status = GrpcStatus::of(response.headers());
            // A response to HEAD has only the head.
            let length = response.body().size_hint().exact();
            let length = length.filter(|_| record.method != Method::HEAD);
            record.bytes_out = length.unwrap_or_default();
            record.error = response
                .headers()
                .get(X_SLACKWATER_ERROR)
                .map(HeaderValue::from);
            record.ended = Some(Ended::Complete);
        });
    }

    /// Records that bytes of the response body were sent to the client.
    pub(crate) fn passed(&self, bytes: usize) {
        // A usize has at most 64 bits.
        self.note(|record| record.bytes_out += bytes as u64);
    }

    /// Records how a histogram of times to the response head counted the request.
    pub(crate) fn first_byte_counted(&self, class: ResponseClass, took: Duration) {
        self.note(|record| record.counted.first_byte = Some((class, took)));
    }

    /// Records how a histogram of total times counted the request.
    pub(crate) fn total_counted(&self, class: ResponseClass, took: Duration) {
        self.note(|record| record.counted.total = Some((class, took)));
    }

    /// Makes the request start earlier by this span.
    #[cfg(test)]
    pub(crate) fn goes_on_for(&self, span: Duration) {
        self.note(|record| record.began -= span);
    }

    /// Records how the request ended.
    pub(crate) fn end(&self, ended: Ended) {
        self.note(|record| record.ended = Some(ended));
    }

    /// Records how the request ended, and when, on the clock of the service.
    pub(crate) fn end_at(&self, ended: Ended, at: Option<CoreInstant>) {
        self.note(|record| {
            record.ended = Some(ended);
            record.total = at.map(|_| record.since_head(at));
        });
    }

    /// Returns space for the explanation of the next pick, if a consumer may want it.
    pub(crate) fn explanation(&self) -> Option<Box<Explanation>> {
        let Owner(shared) = self.0.as_ref()?;
        (shared.detail >= Detail::Choices).then(|| Box::new(Explanation::new()))
    }

    /// Records the route of the request.
    pub(crate) fn matched(&self, route: &Route) {
        self.note(|record| {
            if record.traced.is_some() {
                let path = route.when.path.as_ref();
                record.path_of_route = path.map(ToString::to_string);
            }
        });
    }

    /// Records the start of an attempt. Does nothing if attempts are not recorded.
    pub(crate) fn begin_attempt(
        &self,
        kind: AttemptKind,
        replica: &Rc<str>,
        pick: &PickView,
        explanation: Option<Box<Explanation>>,
    ) -> AttemptHandle {
        let owner = self.0.as_ref();
        let Some(owner) = owner.filter(|owner| owner.0.detail >= Detail::Attempts) else {
            return AttemptHandle::default();
        };
        let place = owner.0.note(|record| {
            record.attempt_records.push(AttemptRecord {
                kind,
                replica: Rc::clone(replica),
                span: None,
                pick: *pick,
                explanation,
                due_after: None,
                sent: record.began.elapsed(),
                connect: None,
                head: None,
                status: None,
                grpc_status: None,
                end: None,
            });
            record.attempt_records.len() - 1
        });
        AttemptHandle(place.map(|place| (owner.clone(), place)))
    }

    fn note(&self, note: impl FnOnce(&mut RequestRecord)) {
        if let Some(Owner(shared)) = &self.0 {
            shared.note(note);
        }
    }
}

/// A handle on one attempt of a request, which may outlive the request.
#[derive(Debug, Default)]
pub(crate) struct AttemptHandle(Option<(Owner, usize)>);

impl AttemptHandle {
    /// Records the address of the attempt and, if the request is traced, adds its span to the
    /// headers.
    pub(crate) fn mark(&self, address: &ReplicaAddress, headers: &mut Fields) {
        let Some((Owner(shared), place)) = &self.0 else {
            return;
        };
        shared.note(|record| {
            if let (Some(traced), Some(attempt)) =
                (&record.traced, record.attempt_records.get_mut(*place))
            {
                let span = traced.begin_attempt(headers);
                attempt.span = Some((span, address.to_string().into()));
            }
        });
    }

    /// Records that a new connection was opened for it, and how long it took.
    pub(crate) fn connected(&self, took: Duration) {
        self.note(|attempt, _| attempt.connect = Some(took));
    }

    /// Records that it is a second copy, which was due this long after the first.
    pub(crate) fn due_after(&self, span: Duration) {
        self.note(|attempt, _| attempt.due_after = Some(span));
    }

    /// Records that the response head arrived. It may already contain the status of a gRPC call.
    pub(crate) fn head(&self, status: StatusCode, grpc_status: Option<GrpcStatus>) {
        self.note(|attempt, now| {
            attempt.head = Some(now);
            attempt.status = Some(status);
            attempt.grpc_status = grpc_status;
        });
    }

    /// Records the status of a gRPC call in the trailers.
    pub(crate) fn grpc_ended(&self, status: GrpcStatus) {
        self.note(|attempt, _| attempt.grpc_status = Some(status));
    }

    /// Records the end of the attempt, after which nothing more is recorded.
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

    fn note(&self, note: impl FnOnce(&mut AttemptRecord, Duration)) {
        if let Some((Owner(shared), place)) = &self.0 {
            shared.note(|record| {
                let now = record.began.elapsed();
                if let Some(attempt) = record.attempt_records.get_mut(*place) {
                    note(attempt, now);
                }
            });
        }
    }
}
