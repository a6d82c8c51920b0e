//! How long requests take as their clients see it, from the request's head to the response's head and to its end.
//!
//! An [`Account`] is a request's own. It goes with the request to whoever gives the response that is passed on, and closes with
//! that response; one that is dropped before is of a request whose client has left. Moments that somebody has read anyway are
//! taken over: for most requests the clock is not looked at once more.

use crate::admin::{LatencyFacts, RESPONSE_CLASSES, ResponseClass};
use crate::latency_histogram::LatencyHistogram;
use core::array::from_fn;
use http::StatusCode;
use slackwater_core::Instant;
use slackwater_tower::clock::Clock;
use std::rc::Rc;
use std::sync::Arc;

/// What a worker knows of a service's requests, by what became of them.
#[derive(Debug, Default)]
pub(super) struct ServiceLatency {
    first_byte: [LatencyHistogram; RESPONSE_CLASSES],
    total: [LatencyHistogram; RESPONSE_CLASSES],
}

impl ServiceLatency {
    /// As it is now.
    pub(super) fn read(&self) -> LatencyFacts {
        LatencyFacts {
            first_byte: from_fn(|class| self.first_byte[class].read()),
            total: from_fn(|class| self.total[class].read()),
        }
    }
}

/// A worker's own handle, which requests can share without a locked instruction.
#[derive(Debug)]
pub(super) struct Book {
    pub(super) latency: Arc<ServiceLatency>,
    clock: Clock,
}

impl Book {
    /// With nothing in it, by that clock.
    pub(super) fn new(clock: Clock) -> Rc<Self> {
        Rc::new(Self {
            latency: Arc::default(),
            clock,
        })
    }
}

/// One request's.
#[derive(Debug)]
pub(super) struct Account {
    /// `None` once it is closed.
    book: Option<Rc<Book>>,
    began: Instant,
    class: ResponseClass,
}

impl Account {
    /// A request has come.
    pub(super) fn open(book: &Rc<Book>, began: Instant) -> Self {
        Self {
            book: Some(Rc::clone(book)),
            began,
            class: ResponseClass::Incomplete,
        }
    }

    /// The head of its response was there at that moment.
    pub(super) fn head(&mut self, status: StatusCode, at: Instant) {
        self.class = ResponseClass::of(status);
        if let Some(book) = &self.book {
            book.latency.first_byte[self.class.index()].add(at.saturating_since(self.began));
        }
    }

    /// Its response was complete at that moment.
    pub(super) fn complete(mut self, at: Instant) {
        self.close(self.class, at);
    }

    /// The rest of its response will not come, or is not wanted.
    pub(super) fn break_off(mut self, at: Instant) {
        self.close(ResponseClass::Incomplete, at);
    }

    fn close(&mut self, class: ResponseClass, at: Instant) {
        if let Some(book) = self.book.take() {
            book.latency.total[class.index()].add(at.saturating_since(self.began));
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Some(now) = self.book.as_ref().map(|book| book.clock.now()) {
            self.close(ResponseClass::Incomplete, now);
        }
    }
}
