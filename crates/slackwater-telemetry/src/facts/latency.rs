//! Latencies of requests as their clients saw them, by outcome.

use super::WorkerFacts;
use crate::exemplars::Exemplars;
use crate::latency_histogram::Latencies;
use core::array::from_fn;
use core::ops::AddAssign;
use core::time::Duration;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use slackwater_core::named;

/// Number of classes.
pub const RESPONSE_CLASSES: usize = ResponseClass::ALL.len();

named! {
    /// The outcome of a request, as its client sees it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ResponseClass by as_str {
        /// A complete response with a status from 100 to 199: a switch of protocol.
        Informational = "1xx",
        /// From 200 to 299.
        Success = "2xx",
        /// From 300 to 399.
        Redirect = "3xx",
        /// From 400 to 499.
        Client = "4xx",
        /// From 500 up.
        Server = "5xx",
        /// A complete response with a status from 200 to 299 whose gRPC status blames the server.
        GrpcFailed = "grpc_failed",
        /// The response was incomplete: the replica's connection broke, or the replica stalled.
        Broken = "broken",
        /// The client left, or its connection was cut off.
        ClientGone = "client_gone",
    }
}

impl ResponseClass {
    /// The class of a complete response.
    pub fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            ..200 => Self::Informational,
            200..300 => Self::Success,
            300..400 => Self::Redirect,
            400..500 => Self::Client,
            500.. => Self::Server,
        }
    }

    /// The class after the response's gRPC status, which blames the server.
    #[must_use]
    pub fn with_grpc_failure(self) -> Self {
        if self == Self::Success {
            Self::GrpcFailed
        } else {
            self
        }
    }

    /// Its index in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Latencies of one worker or of all, by [`ResponseClass::index`].
#[derive(Clone, Debug, Default)]
pub struct LatencyFacts {
    /// From the request's head to the response's; without the requests that ended before.
    pub first_byte: [Latencies; RESPONSE_CLASSES],
    /// From the request's head to the end of the response, or to the point where it broke off.
    pub total: [Latencies; RESPONSE_CLASSES],
}

impl LatencyFacts {
    /// Adds up the latencies of all workers.
    pub fn sum(workers: &[WorkerFacts]) -> Self {
        let mut sum = Self::default();
        for worker in workers {
            sum += &*worker.latency;
        }
        sum
    }
}

impl AddAssign<&Self> for LatencyFacts {
    fn add_assign(&mut self, other: &Self) {
        add_each(&mut self.first_byte, &other.first_byte);
        add_each(&mut self.total, &other.total);
    }
}

/// Adds two lists element by element.
fn add_each<T: for<'t> AddAssign<&'t T>>(sums: &mut [T], more: &[T]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum += more;
    }
}

/// Exemplars of both histograms, by [`ResponseClass::index`].
#[derive(Clone, Debug, Default)]
pub struct ServiceExemplars {
    /// For the time from the request's head to the response's.
    pub first_byte: [Exemplars; RESPONSE_CLASSES],
    /// For the time from the request's head to the end of the response.
    pub total: [Exemplars; RESPONSE_CLASSES],
}

impl ServiceExemplars {
    /// Returns the newest exemplars of all workers.
    pub fn newest(workers: &[WorkerFacts]) -> Self {
        let mut newest = Self::default();
        for WorkerFacts { exemplars, .. } in workers {
            add_each(&mut newest.first_byte, &exemplars.first_byte);
            add_each(&mut newest.total, &exemplars.total);
        }
        newest
    }
}

/// Requests of one class, since the service began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyStatus {
    /// One of the names of [`ResponseClass`].
    pub class: String,
    /// Number of requests.
    pub requests: u64,
    /// Time to the head of the response, in microseconds; of `client_gone`, until the client left
    /// without one.
    pub first_byte_us: Option<QuantileStatus>,
    /// Time to the end of the response, in microseconds.
    pub total_us: Option<QuantileStatus>,
}

/// Quantiles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuantileStatus {
    /// The median.
    pub p50: u64,
    /// The 90 % quantile.
    pub p90: u64,
    /// The 99 % quantile.
    pub p99: u64,
    /// The 99.9 % quantile.
    pub p999: u64,
}

/// Returns the classes that are not empty.
pub fn latency_status(facts: &LatencyFacts) -> Vec<LatencyStatus> {
    let classes = ResponseClass::ALL
        .iter()
        .zip(from_fn::<_, RESPONSE_CLASSES, _>(|it| it));
    let status = classes.map(|(class, index)| LatencyStatus {
        class: class.as_str().to_owned(),
        requests: facts.total[index].count(),
        first_byte_us: quantiles(&facts.first_byte[index]),
        total_us: quantiles(&facts.total[index]),
    });
    status
        .filter(|it| it.first_byte_us.is_some() || it.total_us.is_some())
        .collect()
}

/// Returns `None` if there are no latencies.
pub fn quantiles(latencies: &Latencies) -> Option<QuantileStatus> {
    let at = |part| {
        let us = |latency: Duration| u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        latencies.quantile(part).map(us)
    };
    Some(QuantileStatus {
        p50: at(0.5)?,
        p90: at(0.9)?,
        p99: at(0.99)?,
        p999: at(0.999)?,
    })
}
