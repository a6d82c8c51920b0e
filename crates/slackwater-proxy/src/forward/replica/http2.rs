//! One exchange on an HTTP/2 connection to a replica.
//!
//! No task of its own: whoever waits for the response drives both directions, as over HTTP/1.1.
//! Dropping it resets the stream, unless it has ended both ways.

use super::multiplex::StreamPermit;
use crate::forward::head::hygiene;
use crate::forward::request::RequestBody;
use crate::forward::wire::buffers;
use crate::forward::wire::{Incoming, Loan, Outgoing, StreamReader, Unsent, beyond_first};
use bytes::Bytes;
use core::task::{Context, Poll};
use http::{HeaderMap, HeaderValue, Method, Request, header};
use http_body::{Body, Frame};
use slackwater_http::http2::{Lost, Reason, ResponseHead};
use std::io;

/// A request on its way, until the head of its response is there.
#[derive(Debug)]
pub(crate) struct Sending {
    reader: StreamReader,
    /// The request's body, and the way back to its client.
    body: RequestBody,
    /// `None` when all of it is sent, or no more of it is wanted.
    outgoing: Option<Outgoing>,
    /// What its response may have of the client's budget.
    loan: Loan,
}

/// Why there is no response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoResponse {
    /// The stream or its connection failed.
    Lost(Lost),
    /// The client broke its request off.
    Client,
}

/// A request that was not even begun, and is whole: the connection has ended, or takes no more.
#[derive(Debug)]
pub(crate) struct NotBegun(pub(crate) Lost, pub(crate) Box<Request<RequestBody>>);

/// A request's body that is not sent to its end yet.
#[derive(Debug)]
struct UnsentBody {
    outgoing: Outgoing,
    body: RequestBody,
}

impl Sending {
    /// Puts the head of a request on its way.
    pub(crate) fn begin(
        permit: &StreamPermit,
        request: Box<Request<RequestBody>>,
    ) -> Result<Self, NotBegun> {
        if let Err(lost) = permit.check() {
            return Err(NotBegun(lost, request));
        }
        let (mut head, body) = request.into_parts();
        let is_end = body.is_end_stream();
        set_content_length(&mut head.headers, &head.method, &body);
        let (reader, writer) = permit.begin(&head.method, &head.uri, head.headers, is_end);
        let mut loan = Loan::of(body.budget().cloned());
        if let Some(more) = loan.raise(beyond_first(0)) {
            reader.widen(more);
        }
        Ok(Self {
            loan,
            reader,
            body,
            outgoing: (!is_end).then(|| Outgoing::new(writer)),
        })
    }

    /// Sends, and waits for the head of the final response.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, NoResponse>> {
        if let Some(outgoing) = &mut self.outgoing {
            match outgoing.poll_send(cx, &mut self.body) {
                Poll::Pending => (),
                Poll::Ready(Err(Unsent::Body)) => {
                    outgoing.reset(Reason::CANCEL);
                    return Poll::Ready(Err(NoResponse::Client));
                }
                // If the replica wants no more of it, the response says why.
                Poll::Ready(_) => self.outgoing = None,
            }
        }
        while let Some(mut head) = self.reader.next_interim() {
            hygiene::prepare_interim(&mut head.headers);
            self.body.send_interim(head.status, &head.headers);
            buffers::take_headers_back(head.headers);
        }
        self.reader.poll_response(cx).map_err(NoResponse::Lost)
    }

    /// The response's body, which goes on sending what is left of the request. `length` is what its
    /// head says.
    pub(crate) fn into_download(self, length: Option<u64>, permit: StreamPermit) -> Download {
        let body = self.body;
        Download {
            incoming: Incoming::new(self.reader, length),
            loan: self.loan,
            taken: 0,
            upload: (self.outgoing).map(|outgoing| UnsentBody { outgoing, body }),
            _permit: permit,
        }
    }
}

/// Tells a body's length where it is known, for who prefers to know it first. Methods that usually
/// have a body say, too, when they have none. RFC 9110 §8.6
fn set_content_length(headers: &mut HeaderMap, method: &Method, body: &RequestBody) {
    let Some(length) = body.size_hint().exact() else {
        return;
    };
    let is_usual = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
    if (length > 0 || is_usual) && !headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// A response's body on its way in, and what is left of its request on its way out.
#[derive(Debug)]
pub(crate) struct Download {
    incoming: Incoming,
    upload: Option<UnsentBody>,
    loan: Loan,
    /// Octets that its client has taken.
    taken: u64,
    /// Given back when this is dropped.
    _permit: StreamPermit,
}

impl Download {
    pub(crate) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// Octets to come, if that is known.
    pub(crate) const fn left(&self) -> Option<u64> {
        self.incoming.left()
    }

    /// Goes on sending the request. That it can't be sent to its end leaves the response as it is,
    /// unless the client broke it off.
    pub(crate) fn poll_upload(&mut self, cx: &mut Context<'_>) {
        let Some(upload) = &mut self.upload else {
            return;
        };
        if let Poll::Ready(sent) = upload.outgoing.poll_send(cx, &mut upload.body) {
            if let Err(Unsent::Body) = sent {
                upload.outgoing.reset(Reason::CANCEL);
            }
            self.upload = None;
        }
    }

    pub(crate) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.poll_upload(cx);
        let polled = self.incoming.poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.taken += data.len() as u64;
            // Its client takes what comes, so more of it may come at once.
            if let Some(more) = self.loan.raise(beyond_first(self.taken)) {
                self.incoming.widen(more);
            }
        }
        polled
    }
}
