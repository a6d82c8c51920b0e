//! Whether a request that failed on a kept connection may be sent again on another one.
//!
//! Always when not a byte of it was written, or an HTTP/2 replica says that it was not processed
//! (`REFUSED_STREAM`, or a `GOAWAY` that leaves it out, RFC 9113 §8.7). Otherwise only for the race
//! that keeping connections brings with it: an HTTP/1.1 replica closed an idle connection while the
//! request was on its way. That cannot be told from a replica that fell over the request, so only
//! safe methods are repeated (RFC 9110 §9.2.1), and only when the end came at once.

use super::failure::{Cause, Failure};
use crate::forward::replica::http1::{NoResponse, Sending};
use crate::forward::replica::http2::{self, NotBegun};
use crate::forward::request::{
    BodyState, Progress, ReplayableBody, ReplayableRequest, RequestBody,
};
use core::time::Duration;
use http::Request;
use http_body::Body;
use slackwater_http::http2::Lost;

/// A connection that closes later than this after a request was sent was not closing already. It
/// covers the way there and back within a region, and leaves out nearly everything that an
/// application has worked on.
const IDLE_CLOSE_MAX: Duration = Duration::from_millis(100);

/// An attempt on one connection that brought no response.
pub(crate) struct FailedSend {
    pub(crate) cause: Cause,
    /// The request, if nothing of it was written.
    pub(crate) unsent: Option<Box<Request<RequestBody>>>,
    /// The request once more, if it can be had.
    pub(crate) replayable: Option<ReplayableRequest>,
    pub(crate) ending: Ending,
}

/// How an attempt ended, as far as it matters for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The replica says that it did not process the request.
    TurnedAway,
    /// An HTTP/1.1 connection was closed in place of a response.
    Closed,
    /// Anything else.
    Other,
}

impl FailedSend {
    /// What it means for the request that there is no response over HTTP/1.1.
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
        // Trailers alone, taken in vain, cannot be put back.
        let first = sending.take_first();
        if is_unsent && (!had_body || !first.is_empty() || !request.body().is_end_stream()) {
            request.body_mut().put_back(first);
            return Self {
                cause,
                unsent: Some(request),
                replayable: None,
                ending,
            };
        }
        Self {
            cause,
            unsent: None,
            replayable: ReplayableRequest::itself(request, had_body, replay),
            ending,
        }
    }

    /// What it means for the request that it could not even be begun over HTTP/2.
    pub(super) fn not_begun(NotBegun(lost, request): NotBegun) -> Self {
        Self {
            cause: Cause::Broken(Box::new(lost)),
            unsent: Some(request),
            replayable: None,
            ending: Ending::Other,
        }
    }

    /// What it means for the request that there is no response over HTTP/2.
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
            _ => {
                return Self {
                    cause: of_client.unwrap_or(Cause::ClientBroken),
                    unsent: None,
                    replayable: None,
                    ending: Ending::Other,
                };
            }
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
            cause,
            unsent: None,
            replayable,
            ending,
        }
    }

    /// The request for another connection, and whether the replica may have had it already.
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

    /// The failure, with the request if it can be had again.
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
