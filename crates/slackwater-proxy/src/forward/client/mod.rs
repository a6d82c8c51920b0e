//! Clients' connections from accept to close. The first bytes decide between HTTP/1.1 and HTTP/2;
//! every step has a deadline, and the shutdown is graceful.
//!
//! An HTTP/1.1 client that closes its sending side counts as gone. When a client leaves, its
//! request's future is dropped with everything that it holds.
//!
//! | | file |
//! |---|---|
//! | listeners, and the connections that they accept | `listen`, `accept` |
//! | HTTP/1.1, and the date in its heads | `http1`, `date` |
//! | HTTP/2 | `http2` |
//! | a connection that has switched to another protocol | `tunnel` |
//! | the memory of requests in progress | `runners` |

mod accept;
mod date;
mod http1;
mod http2;
mod listen;
mod runners;
#[cfg(test)]
mod testing;
mod tunnel;

pub use accept::{AcceptLoop, BoundListener};
pub use listen::{advice_on_port, listen};

use crate::forward::counts::ClientEnd;
use crate::forward::head::Origin;
use crate::forward::request::RequestBody;
use crate::forward::response::{Answer, Watch};
use crate::forward::session::{Clients, Inbound, Phase, Session};
use crate::forward::wire::Stream;
use crate::tls::Handshakes;
use bytes::Bytes;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use slackwater_config::tls::HttpVersion;
use slackwater_http::Request;
use std::rc::Rc;
use tokio::net::TcpStream;

/// Handles requests.
pub trait Handler: 'static {
    /// Observer of how forwarded requests ended.
    type Watch: Watch + 'static;

    /// Returns the response to a request. The future is dropped when the client leaves.
    fn handle(
        &self,
        request: Box<Request<RequestBody>>,
        origin: &Rc<Origin>,
    ) -> impl Future<Output = Answer<Self::Watch>>;

    /// Called for a request that could not be read, with the answer that its client receives.
    fn unreadable(&self, _answer: &Answer<Self::Watch>, _origin: &Origin) {}
}

/// A handler, and the memory for its requests.
#[derive(Debug)]
struct Requests<H> {
    handler: Rc<H>,
    http1: http1::Exchanges,
    http2: http2::Exchanges,
}

impl<H: Handler> Requests<H> {
    fn of(handler: &Rc<H>) -> Self {
        Self {
            handler: Rc::clone(handler),
            http1: http1::exchanges(handler),
            http2: http2::exchanges(handler),
        }
    }
}

impl Clients {
    /// Serves a connection to its end.
    async fn carry<H: Handler>(
        self: &Rc<Self>,
        mut stream: TcpStream,
        mut origin: Box<Origin>,
        handshakes: Option<Rc<Handshakes>>,
        requests: Rc<Requests<H>>,
    ) {
        let session = Rc::new(Session::new(self));
        // What only some connections need is boxed, so that the others do not carry its size.
        if origin.proxied().is_some()
            && !Box::pin(session.carry_proxy_header(&mut stream, &mut origin)).await
        {
            return;
        }
        let (inbound, speaks_http2) = if let Some(handshakes) = handshakes {
            let Some(secured) = Box::pin(session.carry_handshake(&handshakes, stream)).await else {
                return;
            };
            origin.is_tls = true;
            origin.certificate = secured.certificate;
            let inbound = Inbound::new(Stream::Tls(secured.stream), Bytes::new(), &session);
            // Without ALPN it is HTTP/1.1: HTTP/2 must be negotiated. RFC 9113 §3.2
            (inbound, secured.protocol == HttpVersion::Http2)
        } else {
            let inbound = Inbound::new(Stream::Tcp(stream), Bytes::new(), &session);
            let Some(Some(speaks_http2)) =
                session.carry(pin!(speaks_http2(&inbound)), |_| ()).await
            else {
                return;
            };
            (inbound, speaks_http2)
        };
        origin.cut = Rc::clone(&session.cut);
        let origin = Rc::from(origin);
        if speaks_http2 {
            Box::pin(http2::serve(self, inbound, origin, requests)).await;
        } else {
            let serving = pin!(http1::serve(&inbound, &origin, &requests));
            // HTTP/1.1 checks the phase itself, so there is nothing to do when it changes.
            let ended = session.carry(serving, |_| ()).await;
            if ended.is_none() && session.was_idle() {
                http1::end_idle(&inbound);
            }
        }
    }
}

/// Whether the client speaks HTTP/2: no method of HTTP/1.1 starts with these letters. Returns
/// `None` if the connection ends before that is known.
async fn speaks_http2(inbound: &Inbound) -> Option<bool> {
    const START: &[u8] = b"PRI";
    poll_fn(|cx| {
        loop {
            {
                let unread = inbound.unread.borrow();
                let start = &unread[..unread.len().min(START.len())];
                if !START.starts_with(start) || start.len() == START.len() {
                    return Poll::Ready(Some(start == START));
                }
            }
            match inbound.poll_read_more(cx) {
                Poll::Ready(Ok(true)) => (),
                Poll::Ready(more) => {
                    inbound.session.ended_by(ClientEnd::of_read(&more));
                    return Poll::Ready(None);
                }
                Poll::Pending if inbound.session.phase() >= Phase::Draining => {
                    inbound.session.ended_by(ClientEnd::Drain);
                    return Poll::Ready(None);
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await
}
