//! A client's HTTP/1.1 connection: requests are read and answered one after the other.
//!
//! One task serves it. An idle connection holds no buffer. RFC 9112

use super::Handler;
use super::Phase;
use super::Requests;
use super::date;
use super::runners::Runners;
use super::tunnel::{end_replica_side, relay};
use crate::forward::answer::refuse;
use crate::forward::counts::ClientEnd;
use crate::forward::head::Origin;
use crate::forward::head::Refusal;
use crate::forward::request::RequestBody;
use crate::forward::response::{Answer, ResponseBody, Watch};
use crate::forward::session::{Inbound, RequestFraming, RequestInFlight, Session};
use crate::forward::wire::buffers;
use crate::forward::wire::turn::{self, ROUNDS_MAX};
use crate::forward::wire::{BodySender, Fill, Out, Stream};
use bytes::Bytes;
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, ready};
use futures_util::FutureExt;
use http::{HeaderValue, Method, StatusCode, Version, header};
use http_body::Body;
use slackwater_http::Value;
use slackwater_http::http1::{
    BadKind, BadMessage, BodyLength, Framing, HeadLimits, HeadSearch, RequestHead, ResponseExtras,
    SoFar, encode_response, parse_request,
};
use slackwater_http::{Request, Response};
use slackwater_tower::wire::carried::CarriedField;
use std::rc::Rc;
use tokio::io::AsyncWrite;
use tokio::task::coop::consume_budget;

/// Serves requests of all connections of a worker.
pub(super) type Exchanges = Runners<Job, After>;

/// A request that is served.
#[derive(Debug)]
pub(super) struct Job {
    inbound: Rc<Inbound>,
    request: Box<Request<RequestBody>>,
    asked: Asked,
    origin: Rc<Origin>,
}

/// Serves requests with this handler.
pub(super) fn exchanges<H: Handler>(handler: &Rc<H>) -> Exchanges {
    let handler = Rc::clone(handler);
    Runners::new(move |job| exchange(job, Rc::clone(&handler)))
}

/// Serves a connection to its end.
pub(super) async fn serve<H: Handler>(
    inbound: &Rc<Inbound>,
    origin: &Rc<Origin>,
    requests: &Requests<H>,
) {
    let limits = inbound.session.clients.head_limits;
    loop {
        let Some(head) = next_head(inbound, limits).await else {
            return end(inbound).await;
        };
        let after = match head.and_then(|head| begin(inbound, limits, &head, origin)) {
            Ok(job) => requests.http1.run(job).await,
            // Boxed, so that other connections do not carry its size.
            Err(bad) => Box::pin(turn_away(inbound, bad, origin, &*requests.handler)).await,
        };
        match after {
            // Thousands of requests may have been read at once, and the proxy may answer them
            // itself, without a wait. Other connections must get their turn in between.
            After::GoOn if !inbound.unread.borrow().is_empty() => consume_budget().await,
            After::GoOn => (),
            After::Linger => {
                // After an unreadable head this changes nothing: the first reason counts.
                answered(&inbound.session);
                return linger(inbound).await;
            }
            After::End => {
                answered(&inbound.session);
                return shut(inbound).await;
            }
            After::Lost => return,
        }
    }
}

/// Records that the connection ends after a response.
fn answered(session: &Session) {
    session.ended_by(match session.phase() {
        Phase::Serving => ClientEnd::Answered,
        _ => ClientEnd::Drain,
    });
}

/// State of a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The next request may be read.
    GoOn,
    /// The connection ends.
    End,
    /// The connection ends, and the client is or may be still sending.
    Linger,
    /// The connection is lost.
    Lost,
}

/// Properties of a request that determine how its response is sent.
#[derive(Clone, Copy, Debug)]
struct Asked {
    is_head: bool,
    /// If a CONNECT does not become a tunnel, the client may already have sent data for one.
    is_connect: bool,
    version: Version,
    keep_alive: bool,
}

/// Reads the next request head. Returns `None` if the connection ends before it.
async fn next_head(inbound: &Inbound, limits: HeadLimits) -> Option<Result<Bytes, BadMessage>> {
    let mut search = HeadSearch::default();
    poll_fn(|cx| {
        loop {
            {
                let mut unread = inbound.unread.borrow_mut();
                match search.look(&mut unread, limits) {
                    SoFar::Whole(end) => return Poll::Ready(Some(Ok(unread.split_to(end)))),
                    SoFar::Bad(bad) => return Poll::Ready(Some(Err(bad))),
                    SoFar::Unfinished => (),
                }
                if !unread.is_empty() {
                    // It may have arrived while the previous request was answered.
                    inbound.session.in_head();
                }
            }
            match inbound.poll_read_more(cx) {
                Poll::Ready(Ok(true)) => (),
                Poll::Ready(more) => {
                    inbound.session.ended_by(ClientEnd::of_read(&more));
                    return Poll::Ready(None);
                }
                // All data that had arrived is read, so a client whose connection is closed here
                // had sent nothing.
                Poll::Pending
                    if inbound.session.phase() >= Phase::Draining
                        && inbound.unread.borrow().is_empty() =>
                {
                    inbound.session.ended_by(ClientEnd::Drain);
                    return Poll::Ready(None);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}

fn refusal(bad: BadMessage) -> Refusal {
    Refusal {
        status: match bad.kind {
            BadKind::Malformed => StatusCode::BAD_REQUEST,
            BadKind::Coding => StatusCode::NOT_IMPLEMENTED,
            BadKind::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            BadKind::TargetTooLong => StatusCode::URI_TOO_LONG,
            BadKind::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        },
        reason: bad.reason,
    }
}

/// Starts the request with this head.
fn begin(
    inbound: &Rc<Inbound>,
    limits: HeadLimits,
    head: &Bytes,
    origin: &Rc<Origin>,
) -> Result<Job, BadMessage> {
    let mut head = parse_request(head, limits, buffers::lend_headers())?;
    (inbound.session.clients).set_certificate(&mut head.headers, origin);
    let asked = Asked {
        is_head: head.method == Method::HEAD,
        is_connect: head.method == Method::CONNECT,
        version: head.version,
        keep_alive: head.keep_alive,
    };
    Ok(Job {
        inbound: Rc::clone(inbound),
        request: request(inbound, limits, head),
        asked,
        origin: Rc::clone(origin),
    })
}

/// Answers what is not a request. No other request can follow it.
async fn turn_away<H: Handler>(
    inbound: &Rc<Inbound>,
    bad: BadMessage,
    origin: &Origin,
    handler: &H,
) -> After {
    inbound.session.ended_by(ClientEnd::Protocol);
    let in_flight = RequestInFlight::new(&inbound.session);
    let response = refuse::<H::Watch>(refusal(bad));
    handler.unreadable(&response, origin);
    let asked = Asked {
        is_head: false,
        is_connect: false,
        version: Version::HTTP_11,
        keep_alive: false,
    };
    match respond(inbound, response, asked, &in_flight).await {
        After::Lost => After::Lost,
        _ => After::Linger,
    }
}

/// Serves one request and its response.
async fn exchange<H: Handler>(job: Job, handler: Rc<H>) -> After {
    let Job {
        inbound,
        request,
        asked,
        origin,
    } = job;
    let in_flight = RequestInFlight::new(&inbound.session);
    let response = {
        let mut handling = pin!(handler.handle(request, &origin));
        poll_fn(|cx| {
            if let Poll::Ready(response) = handling.as_mut().poll(cx) {
                return Poll::Ready(Some(response));
            }
            inbound.poll_left(cx).map(|()| None)
        })
        .await
    };
    if let Some(response) = response {
        respond(&inbound, response, asked, &in_flight).await
    } else {
        inbound.session.ended_by(ClientEnd::Client);
        After::Lost
    }
}

fn request(
    inbound: &Rc<Inbound>,
    limits: HeadLimits,
    head: RequestHead,
) -> Box<Request<RequestBody>> {
    let clients = &inbound.session.clients;
    // CONNECT already makes a tunnel, so it cannot upgrade.
    let may_change = head.method != Method::CONNECT && head.body == BodyLength::Known(0);
    let upgrade = (head.upgrade && may_change)
        .then(|| allowed_upgrade(&clients.upgrades, head.headers.get(header::UPGRADE)))
        .flatten();
    let turn = RequestFraming {
        body: head.body,
        expects_continue: head.expects_continue,
        upgrade,
        version: head.version,
    };
    let upload = inbound.begin(turn, limits);
    let mut request = Request::new(RequestBody::http1(upload, &inbound.session));
    *request.method_mut() = head.method;
    *request.uri_mut() = head.target;
    *request.version_mut() = head.version;
    *request.headers_mut() = head.headers;
    Box::new(request)
}

/// Returns the first protocol that the client requests and that may be passed through. Any other
/// upgrade is ignored, and the request is handled as usual. RFC 9110 §7.8
fn allowed_upgrade(allowed: &[HeaderValue], asked: Option<Value<'_>>) -> Option<HeaderValue> {
    let asked = asked?.as_bytes();
    asked.split(|byte| *byte == b',').find_map(|token| {
        let token = token.trim_ascii();
        let mut allowed = allowed.iter();
        allowed
            .find(|allowed| allowed.as_bytes().eq_ignore_ascii_case(token))
            .cloned()
    })
}

/// Sends a response.
async fn respond<W: Watch>(
    inbound: &Inbound,
    mut response: Answer<W>,
    asked: Asked,
    in_flight: &RequestInFlight,
) -> After {
    // A body that the replica did not need is discarded, as far as it has arrived: the connection
    // can only be kept if nothing of it is left.
    if inbound.is_body_left() {
        inbound.skip_body();
    }
    if asked.version == Version::HTTP_10 {
        // An HTTP/1.0 client receives no trailers.
        response.headers_mut().remove(header::TRAILER);
    }
    let is_tunnel = response.body_mut().tunnel().is_some();
    let framing = if is_tunnel {
        Framing::Absent
    } else {
        framing(&response, asked)
    };
    let keep_alive = asked.keep_alive
        && !asked.is_connect
        && framing != Framing::UntilClose
        && inbound.session.phase() == Phase::Serving
        && !inbound.is_broken()
        && !inbound.is_body_left();
    let mut out = inbound.begin_response();
    let upgrade = inbound.upgrade().filter(|_| is_tunnel);
    encode(
        &mut out,
        &response,
        asked,
        framing,
        (!is_tunnel).then_some(keep_alive),
        upgrade.as_ref(),
    );
    buffers::take_headers_back(core::mem::take(response.headers_mut()));
    // From here on the connection carries another protocol, so it cannot be used for further
    // requests.
    if is_tunnel {
        let (end, is_relayed) = relay(inbound, out, response.body_mut()).await;
        if let Some(replica) = response.into_body().end_tunnel(end)
            && is_relayed
        {
            tokio::task::spawn_local(end_replica_side(replica));
        }
        inbound.session.ended_by(ClientEnd::Tunnel);
        return if is_relayed {
            After::Linger
        } else {
            After::Lost
        };
    }
    let mut sender = BodySender::new(framing);
    let is_until_close = framing == Framing::UntilClose;
    if is_until_close {
        // An orderly close would mark the response as complete.
        inbound.stream.borrow().end_in_order(false);
    }
    let body = response.body_mut();
    let sent = poll_fn(|cx| poll_send(cx, inbound, &mut sender, body, &mut out, in_flight)).await;
    if !sent {
        return After::Lost;
    }
    if is_until_close {
        inbound.stream.borrow().end_in_order(true);
    }
    drop(response);
    if !inbound.is_body_done() || inbound.is_broken() {
        return After::Linger;
    }
    match keep_alive {
        true => After::GoOn,
        // The client requested the close, so it sends nothing more.
        false if !asked.keep_alive && !asked.is_connect && inbound.unread.borrow().is_empty() => {
            After::End
        }
        false => After::Linger,
    }
}

/// Sends a body. Returns whether all of it was sent.
fn poll_send<W: Watch>(
    cx: &mut Context<'_>,
    inbound: &Inbound,
    sender: &mut BodySender,
    body: &mut ResponseBody<W>,
    out: &mut Out,
    in_flight: &RequestInFlight,
) -> Poll<bool> {
    for _ in 0..ROUNDS_MAX {
        let Ok(fill) = sender.fill(cx, body, out) else {
            inbound.session.ended_by(ClientEnd::Broken);
            // Data from before the error is still sent to the client.
            let _ = inbound.poll_flush(out, cx);
            return Poll::Ready(false);
        };
        match inbound.poll_flush(out, cx) {
            Poll::Ready(Ok(())) if fill == Fill::Done => return Poll::Ready(true),
            Poll::Ready(Ok(())) if fill == Fill::Full => (),
            Poll::Ready(Err(_)) => {
                inbound.session.ended_by(ClientEnd::Client);
                return Poll::Ready(false);
            }
            flushed @ (Poll::Ready(Ok(())) | Poll::Pending) => {
                in_flight.await_replica(flushed.is_ready() && body.awaits_replica());
                if body.poll_untaken(cx).is_ready() {
                    inbound.session.ended_by(ClientEnd::Broken);
                    return Poll::Ready(false);
                }
                let has_left = inbound.poll_discard(cx).is_ready()
                    || inbound.poll_left(cx).is_ready()
                    || inbound.is_broken();
                return if has_left {
                    inbound.session.ended_by(ClientEnd::Client);
                    Poll::Ready(false)
                } else {
                    Poll::Pending
                };
            }
        }
    }
    turn::end(cx);
    Poll::Pending
}

/// Chooses the framing of a response. RFC 9112 §6
fn framing<W: Watch>(response: &Response<ResponseBody<W>>, asked: Asked) -> Framing {
    let status = response.status();
    let body = response.body();
    if status.is_informational() || status == StatusCode::NO_CONTENT {
        return Framing::Absent;
    }
    if asked.is_head || status == StatusCode::NOT_MODIFIED {
        return Framing::Described;
    }
    let said = || {
        let length = response.headers().get(header::CONTENT_LENGTH)?;
        length.to_str().ok()?.parse().ok()
    };
    match body.size_hint().exact().or_else(said) {
        Some(length) => Framing::Known(length),
        None if asked.version == Version::HTTP_10 => Framing::UntilClose,
        None => Framing::Chunked,
    }
}

/// Writes a head. `keep_alive` is whether the connection stays open after it; `None` if the
/// response does not determine that.
fn encode<W: Watch>(
    out: &mut Out,
    response: &Response<ResponseBody<W>>,
    asked: Asked,
    framing: Framing,
    keep_alive: Option<bool>,
    upgrade: Option<&HeaderValue>,
) {
    let is_old = asked.version == Version::HTTP_10;
    let extras = ResponseExtras {
        connection: match keep_alive {
            None => None,
            Some(true) => is_old.then_some("keep-alive"),
            Some(false) => (!is_old).then_some("close"),
        },
        upgrade,
        date: None,
        line: response.body().load.as_ref().map(CarriedField::line),
    };
    let (status, headers) = (response.status(), response.headers());
    // The proxy's own answer to HEAD carries the length that its body would have.
    let framing = match (framing, response.body().own_length()) {
        (Framing::Described, Some(length)) if length > 0 => Framing::Known(length),
        _ => framing,
    };
    let write = |out: &mut Out, extras: ResponseExtras<'_>| {
        encode_response(out.text(), asked.version, status, headers, framing, extras);
    };
    if headers.contains_key(header::DATE) {
        write(out, extras);
    } else {
        date::with_now(|date| {
            let extras = ResponseExtras {
                date: Some(date),
                ..extras
            };
            write(out, extras);
        });
    }
}

/// Closes a connection between two requests. TLS needs a close alert, without which the end would
/// look like a truncation. For TCP, closing the socket is enough.
async fn end(inbound: &Inbound) {
    let is_tls = matches!(*inbound.stream.borrow(), Stream::Tls(_));
    if is_tls {
        shut(inbound).await;
    }
}

/// Closes a connection that was idle for too long, without a wait for its client.
pub(super) fn end_idle(inbound: &Inbound) {
    let _ = end(inbound).now_or_never();
}

/// Closes a connection in order.
async fn shut(inbound: &Inbound) {
    // An error is ignored: the client may be gone already.
    let _ = poll_fn(|cx| Pin::new(&mut *inbound.stream.borrow_mut()).poll_shutdown(cx)).await;
}

/// Closes a connection on which the client may still be sending. An immediate close would reset it,
/// and the client could lose the answer before it has read it. RFC 9112 §9.6
async fn linger(inbound: &Inbound) {
    inbound.session.linger();
    shut(inbound).await;
    poll_fn(|cx| {
        loop {
            match ready!(inbound.poll_read(cx)) {
                Ok(read) if !read.is_empty() => (),
                _ => return Poll::Ready(()),
            }
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::Rules;
    use crate::forward::client::testing::Refuser;
    use crate::forward::session::{ClientSettings, Clients};
    use crate::forward::time::Deadlines;
    use crate::forward::wire::Memory;
    use core::time::Duration;
    use slackwater_config::{ForwardedSettings, Limits, Timeouts};
    use std::io::{Read, Write};
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn requests_that_arrived_together_are_not_answered_in_one_turn() {
        const REQUESTS: usize = 2000;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut client = std::net::TcpStream::connect(address).expect("it listens");
        let requests = "GET / HTTP/1.1\r\nhost: x\r\n\r\n".repeat(REQUESTS);
        client.write_all(requests.as_bytes()).expect("written");
        let reading = std::thread::spawn(move || {
            client.shutdown(std::net::Shutdown::Write).expect("open");
            let mut answers = String::new();
            client.read_to_string(&mut answers).expect("answers");
            answers.matches("HTTP/1.1 404").count()
        });
        let (stream, peer) = listener.accept().await.expect("a client");
        let (timeouts, limits) = (Timeouts::default(), Limits::default());
        let settings = ClientSettings::new(&timeouts, &limits, &[]);
        let deadlines = Deadlines::new(Duration::from_secs(1));
        let memory = Memory::of_worker(1);
        let clients = Clients::new(&settings, &deadlines, &memory);
        let session = Rc::new(Session::new(&clients));
        let inbound = Inbound::new(Stream::Tcp(stream), Bytes::new(), &session);
        let rules = Rules::new(&ForwardedSettings::default(), &limits);
        let origin = Rc::new(Origin::new(&rules, peer, "x".parse().expect("a host"), 0));
        let requests = Requests::of(&Rc::new(Refuser));
        let mut turns = 0;
        let mut serving = Box::pin(serve(&inbound, &origin, &requests));
        poll_fn(|cx| {
            turns += 1;
            serving.as_mut().poll(cx)
        })
        .await;
        drop(serving);
        drop((inbound, session));
        // What the runtime lets a task do in one turn.
        assert!(turns > REQUESTS / 128, "{turns} turns");
        assert_eq!(reading.join().expect("it reads"), REQUESTS);
    }
}
