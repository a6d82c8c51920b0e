//! One exchange on an HTTP/2 connection to a replica.
//!
//! It has no task of its own: the task that waits for the response drives both directions, as over
//! HTTP/1.1. Dropping it resets the stream, unless it has ended both ways.

use super::multiplex::StreamPermit;
use crate::forward::head::hygiene;
use crate::forward::request::RequestBody;
use crate::forward::wire::buffers;
use crate::forward::wire::{Incoming, Loan, Outgoing, StreamReader, Unsent, beyond_first};
use bytes::Bytes;
use core::task::{Context, Poll};
use http::{HeaderValue, Method, header};
use http_body::{Body, Frame};
use slackwater_http::Request;
use slackwater_http::http2::{Lost, Reason, ResponseHead};
use std::io;

/// A request that is being sent, until the response head arrives.
#[derive(Debug)]
pub(crate) struct Sending {
    reader: StreamReader,
    /// `None` if all of it is sent, or the replica accepts no more of it.
    outgoing: Option<Outgoing>,
    /// The response's loan from its client's memory budget.
    loan: Loan,
}

/// Why there is no response.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoResponse {
    /// The stream or its connection failed.
    Lost(Lost),
    /// The client broke off its request.
    Client,
}

/// A request body that is not fully sent.
#[derive(Debug)]
struct UnsentBody {
    outgoing: Outgoing,
    body: RequestBody,
}

impl Sending {
    /// Sends the head of a request. An error means that nothing is sent or changed: the connection
    /// has ended, or takes no more requests.
    pub(crate) fn begin(
        permit: &StreamPermit,
        request: &mut Request<RequestBody>,
    ) -> Result<Self, Lost> {
        permit.check()?;
        let is_end = request.body().is_end_stream();
        set_content_length(request);
        let (reader, writer) =
            permit.begin(request.method(), request.uri(), request.headers(), is_end);
        let mut loan = Loan::of(request.body().budget().cloned());
        if let Some(more) = loan.raise(beyond_first(0)) {
            reader.widen(more);
        }
        Ok(Self {
            loan,
            reader,
            outgoing: (!is_end).then(|| Outgoing::new(writer)),
        })
    }

    /// Sends, and waits for the head of the final response. `body` is the request's, which also
    /// sends interim responses to its client.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut RequestBody,
    ) -> Poll<Result<ResponseHead, NoResponse>> {
        if let Some(outgoing) = &mut self.outgoing {
            match outgoing.poll_send(cx, body) {
                Poll::Pending => (),
                Poll::Ready(Err(Unsent::Body)) => {
                    outgoing.reset(Reason::CANCEL);
                    return Poll::Ready(Err(NoResponse::Client));
                }
                // If the replica accepts no more of it, the response states the reason.
                Poll::Ready(_) => self.outgoing = None,
            }
        }
        while let Some(mut head) = self.reader.next_interim() {
            hygiene::prepare_interim(&mut head.headers);
            body.send_interim(head.status, &head.headers);
            buffers::take_headers_back(head.headers);
        }
        self.reader.poll_response(cx).map_err(NoResponse::Lost)
    }

    /// Returns the response body, which continues to send the rest of the request. `length` is the
    /// length in the head.
    pub(crate) fn into_download(
        self,
        length: Option<u64>,
        body: &mut RequestBody,
        permit: StreamPermit,
    ) -> Download {
        let upload = |outgoing| {
            let body = body.take();
            Box::new(UnsentBody { outgoing, body })
        };
        Download {
            incoming: Incoming::new(self.reader, length),
            loan: self.loan,
            taken: 0,
            upload: self.outgoing.map(upload),
            _permit: permit,
        }
    }
}

/// Adds `content-length` if the length is known, for recipients that need it in advance. Methods
/// that usually have a body also get it when it is 0. RFC 9110 §8.6
fn set_content_length(request: &mut Request<RequestBody>) {
    let Some(length) = request.body().size_hint().exact() else {
        return;
    };
    let is_usual = matches!(
        *request.method(),
        Method::POST | Method::PUT | Method::PATCH
    );
    let headers = request.headers_mut();
    if (length > 0 || is_usual) && !headers.contains_key(header::CONTENT_LENGTH) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// A response body that is being received, and the rest of its request.
#[derive(Debug)]
pub(crate) struct Download {
    incoming: Incoming,
    /// Boxed, because it is seldom there: most requests are sent before their response begins.
    upload: Option<Box<UnsentBody>>,
    loan: Loan,
    /// Octets that the client has taken.
    taken: u64,
    /// Released when this is dropped.
    _permit: StreamPermit,
}

impl Download {
    pub(crate) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    /// Remaining octets, if known.
    pub(crate) const fn left(&self) -> Option<u64> {
        self.incoming.left()
    }

    /// Continues to send the request. A failure to send all of it does not affect the response,
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
            // The client reads the response, so the window grows.
            if let Some(more) = self.loan.raise(beyond_first(self.taken)) {
                self.incoming.widen(more);
            }
        }
        polled
    }
}
