//! One worker's TLS handshakes at one listener: those in progress, and counts of how they ended.
//!
//! A handshake costs memory and time before the client has sent a request, so the number of
//! concurrent ones is limited. A new one above the limit ends the oldest, not the newest: a
//! handshake takes a few round trips, so the oldest has most likely been abandoned, or was never
//! meant to complete. The connection sets the deadlines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use core::cell::{Cell, RefCell};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use http::HeaderValue;
use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, HandshakeKind};
use slackwater_config::tls::{HttpVersion, Server};
use slackwater_telemetry::facts::HandshakeFacts;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio_rustls::{TlsAcceptor, TlsStream};

/// Answer to a client that speaks HTTP without TLS.
const PLAIN_ANSWER: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 49\r\n\
    connection: close\r\n\r\nthis port speaks HTTPS, the request came by HTTP\n";

/// Maximum amount of a plain client's request that is read, so that it receives the answer instead
/// of a reset.
const PLAIN_BYTES_MAX: usize = 64 << 10;

/// Results of the handshakes at one listener; [`HandshakeFacts`] explains each. All workers share
/// the counts, because a handshake costs a thousand times as much as counting it.
#[derive(Debug, Default)]
pub struct HandshakeCounts {
    full: AtomicU64,
    resumed: AtomicU64,
    failed: AtomicU64,
    timed_out: AtomicU64,
    plain: AtomicU64,
    displaced: AtomicU64,
}

impl HandshakeCounts {
    /// Returns the current counts, for the listener of that name.
    pub fn read(&self, listener: &str) -> HandshakeFacts {
        HandshakeFacts {
            listener: listener.to_owned(),
            full: self.full.load(Relaxed),
            resumed: self.resumed.load(Relaxed),
            failed: self.failed.load(Relaxed),
            timed_out: self.timed_out.load(Relaxed),
            plain: self.plain.load(Relaxed),
            displaced: self.displaced.load(Relaxed),
        }
    }
}

fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Relaxed);
}

/// Performs the handshakes of one worker at one listener.
#[derive(Debug)]
pub struct Handshakes {
    server: RefCell<watch::Receiver<Server>>,
    acceptor: RefCell<Acceptor>,
    under_way: UnderWay,
    counts: Arc<HandshakeCounts>,
    passes_certificate: bool,
}

struct Acceptor(TlsAcceptor);

impl core::fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Acceptor")
    }
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Secured {
    pub(crate) stream: Box<TlsStream<TcpStream>>,
    /// Negotiated by ALPN; HTTP/1.1 without ALPN.
    pub(crate) protocol: HttpVersion,
    /// The client's verified certificate in the format of `Client-Cert` (RFC 9440 §2.1), if it is
    /// forwarded.
    pub(crate) certificate: Option<HeaderValue>,
}

/// Why a connection is not secured.
#[derive(Debug)]
pub(crate) enum NotSecured {
    /// The client left, or was notified if possible.
    Ended,
    /// The client speaks HTTP without TLS. [`refuse_plain`] answers it.
    Plain(TcpStream),
}

impl Handshakes {
    /// Allows `open_max` concurrent handshakes, at least one. Client certificates are kept for
    /// replicas if `passes_certificate`.
    pub fn new(
        mut server: watch::Receiver<Server>,
        open_max: usize,
        passes_certificate: bool,
        counts: Arc<HandshakeCounts>,
    ) -> Self {
        let acceptor = acceptor(&server.borrow_and_update());
        Self {
            server: RefCell::new(server),
            acceptor: RefCell::new(acceptor),
            under_way: UnderWay::new(open_max),
            counts,
            passes_certificate,
        }
    }

    /// Performs one handshake, without a timeout; the caller sets a deadline.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Result<Secured, NotSecured> {
        let mut first = [0];
        if !matches!(stream.peek(&mut first).await, Ok(1)) {
            // The client left, or only checked whether the port is open.
            return Err(NotSecured::Ended);
        }
        // HTTP begins with a method; TLS begins with 22, and its old forms with 128.
        if first[0].is_ascii_alphabetic() {
            add_one(&self.counts.plain);
            return Err(NotSecured::Plain(stream));
        }
        let acceptor = self.acceptor();
        let slot = self.under_way.enter();
        let ended = tokio::select! {
            accepted = acceptor.accept(stream) => accepted,
            () = slot.displaced() => {
                add_one(&self.counts.displaced);
                return Err(NotSecured::Ended);
            }
        };
        match ended {
            Ok(accepted) => Ok(self.secured(accepted)),
            Err(error) => {
                add_one(&self.counts.failed);
                log_failure(&error);
                Err(NotSecured::Ended)
            }
        }
    }

    /// Counts a handshake that was not done in time.
    pub(crate) fn count_timed_out(&self) {
        add_one(&self.counts.timed_out);
    }

    fn acceptor(&self) -> TlsAcceptor {
        let mut server = self.server.borrow_mut();
        // An error means that the publisher is gone; the current value stays in use.
        if server.has_changed().unwrap_or(false) {
            *self.acceptor.borrow_mut() = acceptor(&server.borrow_and_update());
        }
        self.acceptor.borrow().0.clone()
    }

    fn secured(&self, accepted: tokio_rustls::server::TlsStream<TcpStream>) -> Secured {
        let (_, session) = accepted.get_ref();
        match session.handshake_kind() {
            Some(HandshakeKind::Resumed) => add_one(&self.counts.resumed),
            _ => add_one(&self.counts.full),
        }
        let protocol = match session.alpn_protocol() {
            Some(agreed) if agreed == HttpVersion::Http2.alpn() => HttpVersion::Http2,
            _ => HttpVersion::Http1,
        };
        let certificate = (session.peer_certificates())
            .and_then(|chain| chain.first())
            .filter(|_| self.passes_certificate)
            .and_then(client_cert);
        Secured {
            stream: Box::new(accepted.into()),
            protocol,
            certificate,
        }
    }
}

fn acceptor(server: &Server) -> Acceptor {
    Acceptor(TlsAcceptor::from(Arc::clone(&server.config)))
}

/// Encodes a certificate as a byte sequence of structured fields: base64 between colons. RFC 9440
/// §2.2, RFC 8941 §3.3.5
fn client_cert(certificate: &CertificateDer<'_>) -> Option<HeaderValue> {
    HeaderValue::try_from(format!(":{}:", STANDARD.encode(certificate))).ok()
}

/// Answers in plain text, and continues to read until the client has read the answer, or has sent
/// too much.
pub(crate) async fn refuse_plain(mut stream: TcpStream) {
    if stream.write_all(PLAIN_ANSWER).await.is_err() || stream.shutdown().await.is_err() {
        return;
    }
    let mut ignored = [0; 1024];
    let mut left = PLAIN_BYTES_MAX;
    while let Ok(read @ 1..) = stream.read(&mut ignored).await {
        let Some(rest) = left.checked_sub(read) else {
            return;
        };
        left = rest;
    }
}

/// Logged at debug level only, because client failures are frequent.
fn log_failure(error: &io::Error) {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    if let Some(rustls::Error::AlertReceived(AlertDescription::UnknownCA)) = inner {
        tracing::debug!("TLS handshake failed: client does not trust the certificate's authority");
    } else {
        tracing::debug!(%error, "TLS handshake failed");
    }
}

/// Handshakes in progress, ordered by age.
#[derive(Debug)]
struct UnderWay {
    open: RefCell<BTreeMap<u64, Rc<Notify>>>,
    next: Cell<u64>,
    open_max: usize,
}

/// A handshake in progress, until dropped.
#[derive(Debug)]
struct HandshakeSlot<'u> {
    under_way: &'u UnderWay,
    number: u64,
    displaced: Rc<Notify>,
}

impl UnderWay {
    fn new(open_max: usize) -> Self {
        Self {
            open: RefCell::new(BTreeMap::new()),
            next: Cell::new(0),
            open_max: open_max.max(1),
        }
    }

    /// Adds a handshake, which displaces the oldest if there are too many.
    fn enter(&self) -> HandshakeSlot<'_> {
        let number = self.next.replace(self.next.get() + 1);
        let displaced = Rc::new(Notify::new());
        let mut open = self.open.borrow_mut();
        if open.len() >= self.open_max
            && let Some((_, oldest)) = open.pop_first()
        {
            oldest.notify_one();
        }
        open.insert(number, Rc::clone(&displaced));
        HandshakeSlot {
            under_way: self,
            number,
            displaced,
        }
    }
}

impl HandshakeSlot<'_> {
    /// Waits until a newer handshake displaces this one.
    async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for HandshakeSlot<'_> {
    fn drop(&mut self) {
        self.under_way.open.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn handshake_beyond_the_limit_displaces_the_oldest_one() {
        let under_way = UnderWay::new(2);
        let is_displaced = |slot: &HandshakeSlot<'_>| slot.displaced().now_or_never().is_some();
        let first = under_way.enter();
        let second = under_way.enter();
        assert!(!is_displaced(&first) && !is_displaced(&second));
        let third = under_way.enter();
        assert!(is_displaced(&first));
        assert!(!is_displaced(&second) && !is_displaced(&third));
        drop(first);
        drop(second);
        let fourth = under_way.enter();
        assert!(!is_displaced(&third), "there was room");
        let fifth = under_way.enter();
        assert!(is_displaced(&third));
        assert!(!is_displaced(&fourth) && !is_displaced(&fifth));
        drop((third, fourth, fifth));
        assert!(under_way.open.borrow().is_empty());
    }

    #[test]
    fn the_plain_answer_has_its_declared_length() {
        let text = core::str::from_utf8(PLAIN_ANSWER).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{}",
            body.len()
        );
    }

    #[test]
    fn certificates_are_forwarded_as_structured_bytes() {
        let value = client_cert(&CertificateDer::from(vec![0xff, 0xee, 0x00]));
        assert_eq!(value, Some(HeaderValue::from_static(":/+4A:")));
    }
}
