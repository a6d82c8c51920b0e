//! A connection, tested by its input and output.

mod answers;
mod ends;
mod floods;
mod flow;
mod requests;
mod rules;

use super::connection::PREFACE;
use super::frame::{FrameHead, HEAD_BYTES, flag, kind};
use super::head::HeadLimits;
use super::settings::FRAME_BYTES_FIRST;
use super::*;
use crate::fields::Fields;
use bytes::{Bytes, BytesMut};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::task::{Context, Poll, Waker};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use std::io::IoSlice;
use std::sync::Arc;
use std::task::Wake;

/// A frame that was sent: kind, flags, stream, payload.
type Sent = (u8, u8, u32, Vec<u8>);

/// The most streams at once in these tests.
const STREAMS_MAX: u32 = 10;

const STREAM_WINDOW: u32 = 100_000;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

impl Woken {
    fn new() -> (Arc<Self>, Waker) {
        let woken = Arc::new(Self::default());
        (Arc::clone(&woken), Waker::from(woken))
    }

    /// Whether it was woken since the last call.
    fn take(&self) -> bool {
        self.0.swap(0, Relaxed) > 0
    }
}

/// A context that wakes no task.
fn idly() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

struct Peer {
    connection: Connection,
}

impl Peer {
    fn new(role: Role) -> Self {
        let connection = Connection::new(Config {
            role,
            streams_max: STREAMS_MAX,
            stream_window: STREAM_WINDOW,
            connection_window: 1 << 20,
            is_secure: false,
            head: HeadLimits {
                bytes_max: 16 << 10,
                fields_max: 100,
            },
            stock: Stock::default(),
        });
        Self { connection }
    }

    /// A server that has received the client's preface and settings.
    fn server() -> Self {
        let mut peer = Self::new(Role::Server);
        peer.feed(PREFACE);
        peer.feed(&settings(&[]));
        peer.sent();
        peer
    }

    /// A client that has received the server's settings.
    fn client() -> Self {
        let mut peer = Self::new(Role::Client);
        peer.feed(&settings(&[]));
        peer.sent();
        peer
    }

    fn feed(&mut self, octets: &[u8]) {
        let mut rest = Bytes::copy_from_slice(octets);
        while !rest.is_empty() {
            rest = self.connection.receive(rest);
        }
    }

    /// Returns the output since the last call, as frames.
    fn sent(&mut self) -> Vec<Sent> {
        let octets = self.octets();
        let mut octets = octets.strip_prefix(PREFACE).unwrap_or(&octets);
        let mut frames = Vec::new();
        while let Some(head) = FrameHead::read(octets) {
            let (payload, rest) = octets[HEAD_BYTES..].split_at(head.length);
            frames.push((head.kind, head.flags, head.stream, payload.to_vec()));
            octets = rest;
        }
        assert!(octets.is_empty(), "frames are whole");
        frames
    }

    fn octets(&mut self) -> Vec<u8> {
        let mut octets = Vec::new();
        while !self.connection.out().is_empty() {
            let mut slices = [IoSlice::new(&[]); 3];
            let count = self.connection.out().slices(&mut slices);
            let part: Vec<u8> = (slices[..count].iter())
                .flat_map(|part| part.to_vec())
                .collect();
            octets.extend(&part);
            self.connection.written(part.len());
        }
        octets
    }

    /// Takes the next request.
    fn request(&mut self) -> Key {
        self.connection.next_request().expect("a request").0
    }

    /// Starts a request without a body, as a client.
    fn get(&mut self) -> Key {
        let uri = "http://x/".parse().expect("a URI");
        self.connection
            .begin(&Method::GET, &uri, &Fields::new(), true)
    }

    /// Starts a request whose body follows, as a client.
    fn post(&mut self) -> Key {
        let uri = "http://x/".parse().expect("a URI");
        self.connection
            .begin(&Method::POST, &uri, &Fields::new(), false)
    }

    fn ok(&mut self, key: Key, is_end: bool) {
        let headers = Fields::new();
        let told = self
            .connection
            .respond(key, StatusCode::OK, &headers, is_end);
        assert_eq!(told, Ok(()));
    }

    fn send(&mut self, key: Key, piece: &mut Bytes, is_last: bool) -> Poll<Result<(), Lost>> {
        self.connection.poll_send(key, piece, is_last, &idly())
    }

    /// Returns all data of a stream that has arrived.
    fn data(&mut self, key: Key) -> Vec<u8> {
        let mut all = Vec::new();
        while !self.connection.streams[key].inbox.is_empty()
            && let Poll::Ready(Some(Ok(Piece::Data(data)))) =
                self.connection.poll_piece(key, &idly())
        {
            all.extend(data);
        }
        all
    }

    fn drop_stream(&mut self, key: Key) {
        self.connection.leave_reading(key);
        self.connection.leave_writing(key);
    }

    /// Returns the reason of the GOAWAY with which the connection has ended.
    fn goaway(&mut self) -> Option<Reason> {
        let sent = self.sent();
        let (last, others) = sent.split_last()?;
        assert!(others.iter().all(|frame| frame.0 != kind::GOAWAY));
        assert!(self.connection.is_over());
        (last.0 == kind::GOAWAY).then(|| Reason(number(&last.3[4..])))
    }

    /// Returns the streams that were reset, with their reasons.
    fn resets(&mut self) -> Vec<(u32, Reason)> {
        let sent = self.sent();
        let resets = sent.iter().filter(|frame| frame.0 == kind::RST_STREAM);
        resets
            .map(|frame| (frame.2, Reason(number(&frame.3))))
            .collect()
    }
}

fn number(octets: &[u8]) -> u32 {
    u32::from_be_bytes(*octets.first_chunk().expect("four octets"))
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let head = FrameHead {
        length: payload.len(),
        kind,
        flags,
        stream,
    };
    [&head.octets()[..], payload].concat()
}

fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let payload: Vec<u8> = pairs
        .iter()
        .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
        .collect();
    frame(kind::SETTINGS, 0, 0, &payload)
}

fn number_frame(kind: u8, stream: u32, number: u32) -> Vec<u8> {
    frame(kind, 0, stream, &number.to_be_bytes())
}

fn window_update(stream: u32, more: u32) -> Vec<u8> {
    number_frame(kind::WINDOW_UPDATE, stream, more)
}

fn reset(stream: u32, reason: Reason) -> Vec<u8> {
    number_frame(kind::RST_STREAM, stream, reason.0)
}

fn goaway(last: u32, reason: Reason) -> Vec<u8> {
    let payload = [last.to_be_bytes(), reason.0.to_be_bytes()].concat();
    frame(kind::GOAWAY, 0, 0, &payload)
}

/// Encodes a block in the plainest form of HPACK.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut octets = Vec::new();
    for (name, value) in fields {
        octets.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "a length of one octet");
            octets.push(u8::try_from(text.len()).expect("short"));
            octets.extend(text.as_bytes());
        }
    }
    octets
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "x"),
    (":path", "/"),
];

fn headers(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let flags = flag::END_HEADERS | flags;
    frame(kind::HEADERS, flags, stream, &block(fields))
}

/// A request without a body.
fn get(stream: u32) -> Vec<u8> {
    headers(stream, flag::END_STREAM, &GET)
}

/// A request whose body follows.
fn open(stream: u32) -> Vec<u8> {
    headers(stream, 0, &GET)
}

fn data(stream: u32, flags: u8, octets: &[u8]) -> Vec<u8> {
    frame(kind::DATA, flags, stream, octets)
}

fn large(length: usize) -> Bytes {
    BytesMut::zeroed(length).freeze()
}

#[test]
fn preface_and_settings_are_sent_first() {
    let mut server = Peer::new(Role::Server);
    let sent = server.sent();
    assert_eq!(sent[0].0, kind::SETTINGS);
    assert!(sent[0].3.starts_with(&[0, 3, 0, 0, 0, 10]), "streams");
    let more = (1 << 20) - 65_535;
    assert_eq!(sent[1].3, u32::to_be_bytes(more), "the connection's window");
    let mut client = Peer::new(Role::Client);
    let octets = client.octets();
    assert!(octets.starts_with(PREFACE));
    let settings = &octets[PREFACE.len() + HEAD_BYTES..];
    assert!(settings.starts_with(&[0, 2, 0, 0, 0, 0]), "no push");
}

#[test]
fn input_may_be_split_at_any_byte() {
    let mut octets = PREFACE.to_vec();
    octets.extend(settings(&[(5, 20_000)]));
    octets.extend(open(1));
    // Padded, with data after it.
    octets.extend(data(1, flag::PADDED, &[3, b'a', b'b', 0, 0, 0]));
    octets.extend(data(1, 0, &[b'c'; 700]));
    octets.extend(headers(1, flag::END_STREAM, &[("x", "y")]));
    octets.extend(get(3));
    for size in [1, 2, 3, 7, 10, 50, octets.len()] {
        let mut server = Peer::new(Role::Server);
        for part in octets.chunks(size) {
            server.feed(part);
        }
        let first = server.request();
        let expected = [&b"ab"[..], &[b'c'; 700]].concat();
        assert_eq!(server.data(first), expected, "{size}");
        let mut piece = || server.connection.poll_piece(first, &idly());
        let trailers =
            HeaderMap::from_iter([(HeaderName::from_static("x"), HeaderValue::from_static("y"))]);
        assert!(matches!(piece(), Poll::Ready(Some(Ok(Piece::Trailers(it)))) if it == trailers));
        assert!(matches!(piece(), Poll::Ready(None)));
        server.request();
        assert!(server.connection.ended().is_none());
    }
}

#[test]
fn invalid_preface_closes_the_connection() {
    let mut server = Peer::new(Role::Server);
    server.feed(b"PRI * HTTP/2.0\r\n\r\nXX");
    assert!(server.connection.is_over() && server.octets().is_empty());
}

#[test]
fn first_frame_must_be_settings() {
    let mut server = Peer::new(Role::Server);
    server.feed(PREFACE);
    server.feed(&frame(kind::PING, 0, 0, &[0; 8]));
    assert_eq!(server.goaway(), Some(Reason::PROTOCOL_ERROR));
    let mut client = Peer::new(Role::Client);
    client.feed(&frame(kind::SETTINGS, flag::ACK, 0, &[]));
    assert_eq!(client.goaway(), Some(Reason::PROTOCOL_ERROR));
}

#[test]
fn socket_owner_is_woken_once_for_new_output() {
    let mut server = Peer::server();
    let (woken, waker) = Woken::new();
    server.connection.enter(&Context::from_waker(&waker));
    server.feed(&[get(1), get(3), get(5)].concat());
    let key = server.request();
    server.ok(key, true);
    assert!(!woken.take(), "it is at it");
    server.connection.leave();
    let key = server.request();
    server.ok(key, true);
    assert!(woken.take());
    let key = server.request();
    server.ok(key, true);
    assert!(!woken.take());
    server.connection.enter(&Context::from_waker(&waker));
    assert_eq!(server.sent().len(), 3);
    server.connection.leave();
}
