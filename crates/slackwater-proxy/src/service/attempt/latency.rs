//! Latency of requests as clients see it, from the request head to the response head and to its
//! end.
//!
//! A [`RequestTimer`] belongs to one request. It moves with the request to the attempt whose
//! response is forwarded, and stops with that response. If it is dropped before, the client has
//! left. Existing timestamps are reused, so most requests need no further clock reading.

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

/// A worker's latencies of a service's requests, by the class of their response.
#[derive(Debug)]
pub(crate) struct ServiceLatency {
    first_byte: [LatencyHistogram; RESPONSE_CLASSES],
    total: [LatencyHistogram; RESPONSE_CLASSES],
    /// Requests that can be looked up. Only they and readers take the lock.
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
    /// Returns the current histograms.
    pub(crate) fn read(&self) -> LatencyFacts {
        LatencyFacts {
            first_byte: from_fn(|class| self.first_byte[class].read()),
            total: from_fn(|class| self.total[class].read()),
        }
    }

    /// Returns the exemplars. If they are read before [`Self::read`], each of them is counted
    /// there.
    pub(crate) fn exemplars(&self) -> ServiceExemplars {
        let exemplars = self.exemplars.lock();
        exemplars.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a counted request an exemplar.
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

/// A worker's own handle, which requests share without a locked instruction.
#[derive(Debug)]
pub(crate) struct LatencyMeter {
    pub(crate) latency: Arc<ServiceLatency>,
    clock: Clock,
}

impl LatencyMeter {
    /// Makes an empty meter with that clock.
    pub(crate) fn new(clock: Clock) -> Rc<Self> {
        Rc::new(Self {
            latency: Arc::default(),
            clock,
        })
    }
}

/// Timer of one request.
#[derive(Debug)]
pub(crate) struct RequestTimer {
    /// `None` once it is closed.
    meter: Option<Rc<LatencyMeter>>,
    began: Instant,
    class: ResponseClass,
    /// Records how the request was counted.
    record: RecordHandle,
}

impl RequestTimer {
    /// Starts the timer of a request.
    pub(crate) fn open(meter: &Rc<LatencyMeter>, began: Instant, record: &RecordHandle) -> Self {
        Self {
            meter: Some(Rc::clone(meter)),
            began,
            class: ResponseClass::ClientGone,
            record: record.of_counts(),
        }
    }

    /// Records that the response head arrived at that time.
    pub(crate) fn head(&mut self, status: StatusCode, at: Instant) {
        self.class = ResponseClass::of(status);
        self.first_byte(at);
    }

    fn first_byte(&self, at: Instant) {
        if let Some(meter) = &self.meter {
            let took = at.saturating_since(self.began);
            meter.latency.first_byte[self.class.index()].add(took);
            self.record.first_byte_counted(self.class, took);
        }
    }

    /// Records that the response was complete at that time.
    pub(crate) fn complete(mut self, at: Instant) {
        self.close(self.class, at);
    }

    /// Records that the response was complete at that time, with a gRPC status that blames the
    /// server.
    pub(crate) fn complete_as_failed(mut self, at: Instant) {
        self.close(self.class.with_grpc_failure(), at);
    }

    /// Records that the rest of the response will not arrive.
    pub(super) fn break_off(mut self, at: Instant) {
        self.close(ResponseClass::Broken, at);
    }

    /// Records that the client no longer needs the rest of the response.
    pub(crate) fn leave(mut self, at: Instant) {
        self.close(ResponseClass::ClientGone, at);
    }

    fn close(&mut self, class: ResponseClass, at: Instant) {
        // Without a head, the client waited for one until now. If a fleet hangs, this is all that
        // shows it.
        if self.class == ResponseClass::ClientGone {
            self.first_byte(at);
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn clients_that_leave_before_a_head_are_distinguished() {
        let meter = LatencyMeter::new(Clock::new());
        let begin = || RequestTimer::open(&meter, meter.clock.now(), &RecordHandle::default());
        let (before, mut after) = (begin(), begin());
        tokio::time::advance(Duration::from_millis(200)).await;
        after.head(StatusCode::OK, meter.clock.now());
        drop(before);
        after.leave(meter.clock.now());
        let LatencyFacts { first_byte, total } = meter.latency.read();
        let counts = |class: ResponseClass| {
            [&first_byte, &total].map(|latencies| latencies[class.index()].count())
        };
        assert_eq!(counts(ResponseClass::Success), [1, 0]);
        assert_eq!(counts(ResponseClass::ClientGone), [1, 2]);
        let waited = first_byte[ResponseClass::ClientGone.index()].quantile(0.5);
        assert!(
            waited.is_some_and(|waited| waited >= Duration::from_millis(196)),
            "{waited:?}"
        );
    }
}
