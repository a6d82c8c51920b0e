//! How long requests take as their clients see it, from the request's head to the response's head
//! and to its end.
//!
//! A [`RequestTimer`] belongs to one request. It goes with the request to the attempt whose
//! response is passed on, and stops with that response. A timer that is dropped before belongs to a
//! request whose client has left. Moments that are read anyway are reused: for most requests the
//! clock is not read once more.

use crate::request_record::{RecordHandle, RequestRecord};
use core::array::from_fn;
use http::StatusCode;
use slackwater_core::Instant;
use slackwater_telemetry::exemplars::{Exemplar, Reference};
use slackwater_telemetry::facts::{
    LatencyFacts, RESPONSE_CLASSES, ResponseClass, ServiceExemplars,
};
use slackwater_telemetry::latency_histogram::LatencyHistogram;
use slackwater_tower::clock::Clock;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

/// What a worker knows of a service's requests, by what became of them.
#[derive(Debug)]
pub(crate) struct ServiceLatency {
    first_byte: [LatencyHistogram; RESPONSE_CLASSES],
    total: [LatencyHistogram; RESPONSE_CLASSES],
    /// Of requests that can be looked up; nobody else comes near the lock but whoever reads.
    exemplars: Mutex<ServiceExemplars>,
}

impl Default for ServiceLatency {
    fn default() -> Self {
        Self {
            first_byte: from_fn(|_| LatencyHistogram::fine()),
            total: from_fn(|_| LatencyHistogram::fine()),
            exemplars: Mutex::default(),
        }
    }
}

impl ServiceLatency {
    /// As it is now.
    pub(crate) fn read(&self) -> LatencyFacts {
        LatencyFacts {
            first_byte: from_fn(|class| self.first_byte[class].read()),
            total: from_fn(|class| self.total[class].read()),
        }
    }

    /// Requests that stand for others. Whoever reads them before [`Self::read`] finds each of them
    /// counted there.
    pub(crate) fn exemplars(&self) -> ServiceExemplars {
        let exemplars = self.exemplars.lock();
        exemplars.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This request, which has been counted, stands for others from now on.
    pub(crate) fn exemplify(&self, record: &RequestRecord, reference: Reference) {
        let exemplars = self.exemplars.lock();
        let mut exemplars = exemplars.unwrap_or_else(PoisonError::into_inner);
        let of = |latency, reference| Exemplar {
            reference,
            latency,
            at: record.at + latency,
        };
        if let Some((class, latency)) = record.counted.first_byte {
            exemplars.first_byte[class.index()].keep(of(latency, reference.clone()));
        }
        if let Some((class, latency)) = record.counted.total {
            exemplars.total[class.index()].keep(of(latency, reference));
        }
    }
}

/// A worker's own handle, which requests can share without a locked instruction.
#[derive(Debug)]
pub(crate) struct LatencyMeter {
    pub(crate) latency: Arc<ServiceLatency>,
    clock: Clock,
}

impl LatencyMeter {
    /// With nothing in it, by that clock.
    pub(crate) fn new(clock: Clock) -> Rc<Self> {
        Rc::new(Self {
            latency: Arc::default(),
            clock,
        })
    }
}

/// One request's.
#[derive(Debug)]
pub(crate) struct RequestTimer {
    /// `None` once it is closed.
    meter: Option<Rc<LatencyMeter>>,
    began: Instant,
    class: ResponseClass,
    /// Hears how it was counted.
    record: RecordHandle,
}

impl RequestTimer {
    /// A request has come.
    pub(crate) fn open(meter: &Rc<LatencyMeter>, began: Instant, record: &RecordHandle) -> Self {
        Self {
            meter: Some(Rc::clone(meter)),
            began,
            class: ResponseClass::ClientGone,
            record: record.clone(),
        }
    }

    /// The head of its response was there at that moment.
    pub(crate) fn head(&mut self, status: StatusCode, at: Instant) {
        self.class = ResponseClass::of(status);
        if let Some(meter) = &self.meter {
            let took = at.saturating_since(self.began);
            meter.latency.first_byte[self.class.index()].add(took);
            self.record.first_byte_counted(self.class, took);
        }
    }

    /// Its response was complete at that moment.
    pub(crate) fn complete(mut self, at: Instant) {
        self.close(self.class, at);
    }

    /// Its response was complete at that moment, and its gRPC status blames the server.
    pub(crate) fn complete_as_failed(mut self, at: Instant) {
        self.close(self.class.with_grpc_failure(), at);
    }

    /// The rest of its response will not come.
    pub(super) fn break_off(mut self, at: Instant) {
        self.close(ResponseClass::Broken, at);
    }

    /// The rest of its response is not wanted.
    pub(crate) fn leave(mut self, at: Instant) {
        self.close(ResponseClass::ClientGone, at);
    }

    fn close(&mut self, class: ResponseClass, at: Instant) {
        if let Some(meter) = self.meter.take() {
            let took = at.saturating_since(self.began);
            meter.latency.total[class.index()].add(took);
            self.record.total_counted(class, took);
        }
    }
}

impl Drop for RequestTimer {
    fn drop(&mut self) {
        if let Some(now) = self.meter.as_ref().map(|meter| meter.clock.now()) {
            self.close(ResponseClass::ClientGone, now);
        }
    }
}
