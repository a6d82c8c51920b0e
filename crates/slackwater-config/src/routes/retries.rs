//! The rules of retries: which requests, and after which failures.

use crate::table::named;
use core::time::Duration;
use http::{HeaderName, Method, StatusCode};
use slackwater_http::{GRPC_STATUS, Request, Response};

/// The `grpc-status` of an unavailable server, `UNAVAILABLE`.
const GRPC_UNAVAILABLE: &str = "14";

/// The rules of retries: which requests, and after which failures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryRules {
    /// Attempts of one request at most, including the first: 1 to 10, default 3. 1: no retries, for
    /// any failure.
    pub attempts_max: u32,
    /// The methods whose requests may be retried even if a replica may have received them; default
    /// the idempotent ones.
    pub methods: RetryMethods,
    /// A request with this header may be retried with any method; default `idempotency-key`.
    pub mark_header: Option<HeaderName>,
    /// Failures that cause a retry; default all of them.
    pub on: RetryCauses,
    /// Response statuses that cause a retry, from 400 to 599; default 502, 503 and 504.
    pub statuses: Vec<StatusCode>,
    /// Time from an attempt's dispatch to the head of its response, if another attempt may follow:
    /// 1 ms to 24 hours. Default none: an attempt may take all of `timeouts.first_byte`, which
    /// leaves no time for another one.
    pub attempt_timeout: Option<Duration>,
    /// Size of the replay buffer for a request's body: 0 to 16 MiB, default 64 KiB. A request with
    /// a larger body is not retried once a replica may have received a part of it.
    pub body_bytes_max: u32,
}

named! {
    /// The methods whose requests may be retried.
    pub enum RetryMethods {
        /// None.
        None = "none",
        /// The safe ones (RFC 9110 §9.2.1), which only read: GET, HEAD, OPTIONS, TRACE.
        Safe = "safe",
        /// The idempotent ones (RFC 9110 §9.2.2), which may be repeated without another effect: the
        /// safe ones, PUT and DELETE.
        Idempotent = "idempotent",
        /// All: the operator declares that repeating a request does no harm.
        All = "all",
    }
}

impl RetryMethods {
    /// Returns whether `method` may be retried.
    pub fn contain(self, method: &Method) -> bool {
        match self {
            Self::None => false,
            Self::Safe => method.is_safe(),
            Self::Idempotent => method.is_idempotent(),
            Self::All => true,
        }
    }
}

/// Failures after which the replica may have received the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryCauses {
    /// The connection broke before the response's head was complete.
    pub reset: bool,
    /// The head did not come within `attempt_timeout`.
    pub timeout: bool,
    /// A gRPC response that consists only of the status `UNAVAILABLE`.
    pub grpc_unavailable: bool,
}

impl RetryCauses {
    /// Every cause.
    pub const ALL: Self = Self {
        reset: true,
        timeout: true,
        grpc_unavailable: true,
    };

    /// The causes of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            reset: self.reset || other.reset,
            timeout: self.timeout || other.timeout,
            grpc_unavailable: self.grpc_unavailable || other.grpc_unavailable,
        }
    }
}

impl Default for RetryRules {
    fn default() -> Self {
        Self {
            attempts_max: 3,
            methods: RetryMethods::Idempotent,
            mark_header: Some(HeaderName::from_static("idempotency-key")),
            on: RetryCauses::ALL,
            statuses: vec![
                StatusCode::BAD_GATEWAY,
                StatusCode::SERVICE_UNAVAILABLE,
                StatusCode::GATEWAY_TIMEOUT,
            ],
            attempt_timeout: None,
            body_bytes_max: 64 << 10,
        }
    }
}

impl RetryRules {
    /// Returns whether the request may be retried even if a replica may have received it.
    pub fn may_repeat<B>(&self, request: &Request<B>) -> bool {
        self.may_follow(request)
            && (self.methods.contain(request.method())
                || (self.mark_header.as_ref())
                    .is_some_and(|mark| request.headers().contains_key(mark)))
    }

    /// Returns whether a request may be retried if no replica has received it, whatever its method.
    /// CONNECT may not: a tunnel may carry anything.
    pub fn may_follow<B>(&self, request: &Request<B>) -> bool {
        self.attempts_max > 1 && *request.method() != Method::CONNECT
    }

    /// Returns whether a response causes a retry of a request that may be repeated.
    pub fn refuse<B>(&self, response: &Response<B>) -> bool {
        self.statuses.contains(&response.status())
            || (self.on.grpc_unavailable
                && (response.headers().get(GRPC_STATUS))
                    .is_some_and(|status| status == GRPC_UNAVAILABLE))
    }
}
