//! Decides whether a request that failed on a kept connection may be sent again on another one.
//!
//! It may if not a byte of it was written, or if an HTTP/2 replica reports that it did not process
//! the request (`REFUSED_STREAM`, or a `GOAWAY` that excludes it, RFC 9113 §8.7). Otherwise only
//! one case qualifies: an HTTP/1.1 replica closed an idle connection while the request was on its
//! way. This looks the same as a replica that crashed on the request. So only safe methods are
//! repeated (RFC 9110 §9.2.1), and only if the connection ended immediately.

use super::failure::{Cause, Failure};
use crate::forward::replica::http1::{NoResponse, Sending};
use crate::forward::replica::http2;
use crate::forward::request::{
    BodyState, Progress, ReplayableBody, ReplayableRequest, RequestBody,
};
use core::time::Duration;
use http_body::Body;
use slackwater_http::Request;
use slackwater_http::http2::Lost;

/// A connection that closes later than this after a request was sent was not already closing. The
/// value covers a round trip within a region, and excludes nearly all requests that an application
/// has worked on.
const IDLE_CLOSE_MAX: Duration = Duration::from_millis(100);

/// An attempt on one connection that got no response.
pub(crate) struct FailedSend {
    pub(crate) cause: Cause,
    /// The request, if nothing of it was written.
    pub(crate) unsent: Option<Box<Request<RequestBody>>>,
    /// The request, if it was sent and can be sent again.
    pub(crate) replayable: Option<ReplayableRequest>,
    pub(crate) ending: Ending,
}

/// How an attempt ended, as far as it matters for a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The replica reports that it did not process the request.
    TurnedAway,
    /// An HTTP/1.1 connection was closed without a response.
    Closed,
    /// Anything else.
    Other,
}

impl FailedSend {
    /// Makes the result of an attempt whose request cannot be sent again.
    pub(crate) const fn new(cause: Cause) -> Self {
        Self {
            cause,
            unsent: None,
            replayable: None,
            ending: Ending::Other,
        }
    }

    /// Makes the result of an HTTP/1.1 attempt without a response.
    pub(crate) fn http1(
        failed: Result<NoResponse, Cause>,
        mut sending: Sending,
        mut request: Box<Request<RequestBody>>,
        had_body: bool,
        replay: Option<ReplayableBody>,
    ) -> Self {
        let mut ending = Ending::Other;
        let mut is_unsent = false;
        let cause = match failed {
            Err(cause) => cause,
            Ok(NoResponse::Client) if request.body().is_too_large() => Cause::TooLarge,
            Ok(NoResponse::Client) => Cause::ClientBroken,
            Ok(NoResponse::Coding) => Cause::Coding,
            Ok(NoResponse::HeadTooLarge) => Cause::HeadTooLarge,
            Ok(failed) => {
                if let NoResponse::Closed { wrote, read, .. } = failed {
                    is_unsent = !wrote;
                    ending = if read { Ending::Other } else { Ending::Closed };
                }
                Cause::Broken(Box::new(failed))
            }
        };
        // If only trailers were taken from the body, they cannot be put back.
        let first = sending.take_first();
        if is_unsent && (!had_body || !first.is_empty() || !request.body().is_end_stream()) {
            request.body_mut().put_back(first);
            return Self {
                unsent: Some(request),
                ending,
                ..Self::new(cause)
            };
        }
        Self {
            replayable: ReplayableRequest::new(request, had_body, replay),
            ending,
            ..Self::new(cause)
        }
    }

    /// Makes the result of an HTTP/2 attempt that could not be started.
    pub(super) fn not_begun(lost: Lost, request: Box<Request<RequestBody>>) -> Self {
        Self {
            unsent: Some(request),
            ..Self::new(Cause::Broken(Box::new(lost)))
        }
    }

    /// Makes the result of an HTTP/2 attempt without a response.
    pub(crate) fn http2(
        failed: http2::NoResponse,
        progress: Option<&Progress>,
        replayable: Option<ReplayableRequest>,
    ) -> Self {
        let of_client = match progress.map(Progress::state) {
            Some(BodyState::Broken) => Some(Cause::ClientBroken),
            Some(BodyState::TooLarge) => Some(Cause::TooLarge),
            _ => None,
        };
        let lost = match failed {
            http2::NoResponse::Lost(lost) if of_client.is_none() => lost,
            _ => return Self::new(of_client.unwrap_or(Cause::ClientBroken)),
        };
        let ending = if lost.is_turned_away() {
            Ending::TurnedAway
        } else {
            Ending::Other
        };
        let cause = match lost {
            Lost::HeadTooLarge => Cause::HeadTooLarge,
            lost => Cause::Broken(Box::new(lost)),
        };
        Self {
            replayable,
            ending,
            ..Self::new(cause)
        }
    }

    /// Returns the request for another connection, and whether the replica may have received it
    /// already.
    pub(crate) fn replay(
        self,
        took: Duration,
    ) -> Result<(Box<Request<RequestBody>>, bool), Failure> {
        if let Some(request) = self.unsent {
            return Ok((request, false));
        }
        let is_turned_away = self.ending == Ending::TurnedAway;
        let is_idle_close = self.ending == Ending::Closed && took <= IDLE_CLOSE_MAX;
        let is_harmless = is_turned_away
            || (self.replayable.as_ref()).is_some_and(|s| is_idle_close && s.is_safe());
        let request = self.replayable.and_then(ReplayableRequest::into_request);
        match request {
            Some(request) if is_harmless => Ok((request, !is_turned_away)),
            request => Err(Failure {
                cause: self.cause,
                request,
                is_unsent: is_turned_away,
            }),
        }
    }

    /// Returns the failure, with the request if it can be sent again.
    pub(crate) fn fail(self) -> Failure {
        let is_unsent = self.unsent.is_some() || self.ending == Ending::TurnedAway;
        let replay = || self.replayable.and_then(ReplayableRequest::into_request);
        Failure {
            cause: self.cause,
            request: self.unsent.or_else(replay),
            is_unsent,
        }
    }
}
