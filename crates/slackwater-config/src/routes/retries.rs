//! Which requests are tried again, and after what.

use crate::table::named;
use core::time::Duration;
use http::{HeaderName, Method, Request, Response, StatusCode};
use slackwater_http::GRPC_STATUS;

/// The `grpc-status` of a server that is not there, `UNAVAILABLE`.
const GRPC_UNAVAILABLE: &str = "14";

/// Which requests are tried again, and after what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryRules {
    /// Tries of one request at most, the first one among them: 1 to 10, default 3. 1: none is tried
    /// again, whatever happened.
    pub attempts_max: u32,
    /// The methods whose requests may be tried again after a replica may have heard them; default
    /// the idempotent ones.
    pub methods: RetryMethods,
    /// A request with this field may be tried again whatever its method; default `idempotency-key`.
    pub mark_header: Option<HeaderName>,
    /// After which failures; default all of them.
    pub on: RetryCauses,
    /// After which statuses of a response, from 400 to 599; default 502, 503 and 504.
    pub statuses: Vec<StatusCode>,
    /// From a try's dispatch to its response's head, where another try may follow: 1 ms to 24
    /// hours. Default none: a try may take all of `timeouts.first_byte`, and then there is no time
    /// for another one.
    pub attempt_timeout: Option<Duration>,
    /// Of a request's body so much is kept for another try: 0 to 16 MiB, default 64 KiB. A request
    /// with a larger body is not tried again once the replica may have had some of it. 0: only
    /// requests without a body are.
    pub body_bytes_max: u32,
}

named! {
    /// The methods that may be tried again.
    pub enum RetryMethods {
        /// None.
        None = "none",
        /// Those that only ask (RFC 9110 §9.2.1): GET, HEAD, OPTIONS, TRACE.
        Safe = "safe",
        /// Those that do the same when done twice (RFC 9110 §9.2.2): the safe ones, PUT and DELETE.
        Idempotent = "idempotent",
        /// All: the service says that doing twice does no harm.
        All = "all",
    }
}

impl RetryMethods {
    /// Whether `method` is among them.
    pub fn contain(self, method: &Method) -> bool {
        match self {
            Self::None => false,
            Self::Safe => method.is_safe(),
            Self::Idempotent => method.is_idempotent(),
            Self::All => true,
        }
    }
}

/// What may go wrong with a replica that may have heard the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryCauses {
    /// The connection broke before the response's head was complete.
    pub reset: bool,
    /// The head did not come within `attempt_timeout`.
    pub timeout: bool,
    /// A gRPC response that is nothing but the status `UNAVAILABLE`.
    pub grpc_unavailable: bool,
}

impl RetryCauses {
    /// Every cause.
    pub const ALL: Self = Self {
        reset: true,
        timeout: true,
        grpc_unavailable: true,
    };

    /// The causes of either.
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
    /// Whether the request may be tried again although a replica may have heard it.
    pub fn may_repeat<B>(&self, request: &Request<B>) -> bool {
        self.may_follow(request)
            && (self.methods.contain(request.method())
                || (self.mark_header.as_ref())
                    .is_some_and(|mark| request.headers().contains_key(mark)))
    }

    /// Whether a request may be tried again at all: whatever it does, if it turns out that nobody
    /// had it. A tunnel may carry anything.
    pub fn may_follow<B>(&self, request: &Request<B>) -> bool {
        self.attempts_max > 1 && *request.method() != Method::CONNECT
    }

    /// Whether a response is one that a request that may be repeated is tried again after.
    pub fn refuse<B>(&self, response: &Response<B>) -> bool {
        self.statuses.contains(&response.status())
            || (self.on.grpc_unavailable
                && (response.headers().get(GRPC_STATUS))
                    .is_some_and(|status| status == GRPC_UNAVAILABLE))
    }
}
