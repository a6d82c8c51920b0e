//! An HTTP/2 connection, as server and as client, with a peer that sends anything and stream owners
//! that do everything that they may: nothing panics, and nothing is sent beyond the limits of
//! windows and frames.

#![no_main]

use bytes::Bytes;
use core::task::{Context, Poll, Waker};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use libfuzzer_sys::fuzz_target;
use slackwater_http::Fields;
use slackwater_http::http2::{
    Config, Connection, Ended, HeadLimits, Key, Piece, Reason, Role, Stock,
};
use std::collections::HashMap;
use std::io::IoSlice;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
/// GET http://x/
const REQUEST: &[u8] = &[0x82, 0x86, 0x84, 0x41, 1, b'x'];
/// 200
const RESPONSE: &[u8] = &[0x88];
const WINDOW: u64 = 65_535;
const STREAMS_MAX: u32 = 4;

/// A stream's owner, and its actions so far.
struct Owned {
    key: Key,
    reads: bool,
    writes: bool,
    has_begun: bool,
    has_ended: bool,
    unsent: Bytes,
    is_last: bool,
}

/// The most that the peer has allowed, and what it received.
struct Seen {
    is_client: bool,
    connection: u64,
    stream_window: u64,
    streams: HashMap<u32, u64>,
    data: u64,
    stream_data: HashMap<u32, u64>,
    unread: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

fn number(octets: &[u8]) -> u32 {
    octets
        .first_chunk()
        .map_or(0, |octets| u32::from_be_bytes(*octets))
}

impl Seen {
    /// Updates the limits for a frame from the peer.
    fn allow(&mut self, kind: u8, stream: u32, payload: &[u8]) {
        match kind {
            4 => {
                for setting in payload.chunks_exact(6).filter(|it| it[..2] == [0, 4]) {
                    self.stream_window += u64::from(number(&setting[2..]));
                }
            }
            8 => {
                let more = u64::from(number(payload) & 0x7fff_ffff);
                if stream == 0 {
                    self.connection += more;
                } else {
                    *self.streams.entry(stream).or_default() += more;
                }
            }
            _ => (),
        }
    }

    /// Checks octets to the peer.
    fn see(&mut self, octets: &[u8]) {
        self.unread.extend(octets);
        if self.is_client && self.unread.starts_with(PREFACE) {
            self.unread.drain(..PREFACE.len());
        }
        while let Some(&[l0, l1, l2, kind, flags, s0, s1, s2, s3]) = self.unread.first_chunk() {
            let length = number(&[0, l0, l1, l2]) as usize;
            let stream = number(&[s0, s1, s2, s3]);
            if self.unread.len() < 9 + length {
                return;
            }
            assert!(stream < 1 << 31, "a reserved bit");
            match kind {
                0 => {
                    self.data += length as u64;
                    *self.stream_data.entry(stream).or_default() += length as u64;
                }
                3 | 8 => assert_eq!(length, 4),
                4 => assert_eq!(length % 6 + usize::from(flags & 1) * length, 0),
                6 => assert_eq!(length, 8),
                1 | 7 | 9 => (),
                _ => panic!("a frame of kind {kind}"),
            }
            self.unread.drain(..9 + length);
        }
        assert!(self.data <= self.connection, "the connection's window");
        for (stream, data) in &self.stream_data {
            let more = self.streams.get(stream).copied().unwrap_or_default();
            assert!(*data <= self.stream_window + more, "a stream's window");
        }
    }
}

fn drain(connection: &mut Connection, most: usize, seen: &mut Seen) {
    let mut left = most;
    while left > 0 && !connection.out().is_empty() {
        let mut parts = [IoSlice::new(&[]); 4];
        let count = connection.out().slices(&mut parts);
        let octets: Vec<u8> =
            (parts[..count].iter().flat_map(|part| part.iter().copied())).collect();
        let octets = &octets[..octets.len().min(left)];
        seen.see(octets);
        let length = octets.len();
        connection.written(length);
        left -= length;
    }
}

fn send(connection: &mut Connection, owned: &mut Owned, cx: &Context<'_>) {
    if owned.has_ended || !owned.writes || !owned.has_begun {
        return;
    }
    match connection.poll_send(owned.key, &mut owned.unsent, owned.is_last, cx) {
        Poll::Ready(Ok(())) => {
            assert!(owned.unsent.is_empty());
            owned.has_ended = owned.is_last;
        }
        Poll::Ready(Err(_)) => owned.has_ended = true,
        Poll::Pending => (),
    }
}

fn read(connection: &mut Connection, owned: &Owned, cx: &Context<'_>) {
    if owned.reads {
        let _ = connection.poll_response(owned.key, cx);
        while let Poll::Ready(Some(Ok(piece))) = connection.poll_piece(owned.key, cx) {
            assert!(!matches!(piece, Piece::Data(data) if data.is_empty()));
        }
        let _ = connection.is_read(owned.key);
    }
}

// Steps: an action, its stream, flags and octets.
fuzz_target!(|input: (bool, Vec<(u8, u8, u8, &[u8])>)| {
    let (is_client, steps) = input;
    let cx = Context::from_waker(Waker::noop());
    let mut connection = Connection::new(Config {
        role: if is_client {
            Role::Client
        } else {
            Role::Server
        },
        streams_max: STREAMS_MAX,
        stream_window: 65_535,
        connection_window: 1 << 17,
        is_secure: false,
        head: HeadLimits {
            bytes_max: 1024,
            fields_max: 16,
        },
        stock: Stock::default(),
    });
    let mut seen = Seen {
        is_client,
        connection: WINDOW,
        stream_window: WINDOW,
        streams: HashMap::new(),
        data: 0,
        stream_data: HashMap::new(),
        unread: Vec::new(),
    };
    let mut all: Vec<Owned> = Vec::new();
    let mut next_request = 1;
    let mut cut = usize::MAX;
    let feed = |connection: &mut Connection, octets: &[u8], cut: usize| {
        for piece in octets.chunks(cut) {
            let mut rest = Bytes::copy_from_slice(piece);
            while !rest.is_empty() {
                rest = connection.receive(rest);
            }
        }
    };
    if !is_client {
        feed(&mut connection, PREFACE, cut);
    }
    feed(&mut connection, &SETTINGS, cut);
    for (action, which, flags, octets) in steps {
        let stream = [0, 1, 3, 5, 7, 9, 2, 1 << 30][usize::from(which % 8)];
        let at = usize::from(which).checked_rem(all.len());
        match action % 32 {
            kind @ 0..=10 => {
                seen.allow(kind, stream, octets);
                feed(&mut connection, &frame(kind, flags, stream, octets), cut);
            }
            11..=13 if is_client => {
                let block = [RESPONSE, octets].concat();
                feed(&mut connection, &frame(1, flags | 4, stream, &block), cut);
            }
            11..=13 => {
                let block = [REQUEST, octets].concat();
                let head = frame(1, (flags & 1) | 4, next_request, &block);
                next_request += 2;
                feed(&mut connection, &head, cut);
            }
            14 => {
                // From here on, frames may be split elsewhere, so the limits are unknown.
                (seen.connection, seen.stream_window) = (u64::MAX / 2, u64::MAX / 2);
                feed(&mut connection, octets, cut);
            }
            15 => {
                let data = vec![which; usize::from(flags) * 64];
                feed(&mut connection, &frame(0, flags & 1, stream, &data), cut);
            }
            16 | 17 => drain(&mut connection, usize::from(which) * 64, &mut seen),
            18 => cut = usize::from(which).max(1),
            19 => cut = usize::MAX,
            20 if is_client
                && connection.check().is_ok()
                && connection.has_room()
                && all.len() < 64 =>
            {
                let is_end = flags & 1 == 1;
                let method = if which % 2 == 0 {
                    Method::HEAD
                } else {
                    Method::POST
                };
                let uri = Uri::from_static("http://x/");
                let key = connection.begin(&method, &uri, &Fields::new(), is_end);
                all.push(Owned {
                    key,
                    reads: true,
                    writes: true,
                    has_begun: true,
                    has_ended: is_end,
                    unsent: Bytes::new(),
                    is_last: is_end,
                });
            }
            20 | 21 if !is_client => {
                if let Some(at) = at
                    && let owned = &mut all[at]
                    && owned.writes
                    && !owned.has_begun
                {
                    let is_end = flags & 1 == 1;
                    let headers = Fields::from_iter([("a", "b")]);
                    let status = StatusCode::OK;
                    let sent = connection.respond(owned.key, status, &headers, is_end);
                    owned.has_begun = true;
                    owned.has_ended = is_end || sent.is_err();
                }
            }
            action => {
                let Some(at) = at else {
                    continue;
                };
                let owned = &mut all[at];
                match action {
                    22 | 23 => {
                        if owned.unsent.is_empty() && !owned.is_last {
                            owned.unsent = Bytes::from(vec![which; usize::from(flags) * 256]);
                            owned.is_last = which >= 128;
                        }
                        send(&mut connection, owned, &cx);
                    }
                    24 => read(&mut connection, owned, &cx),
                    25 if owned.reads => {
                        owned.reads = false;
                        connection.leave_reading(owned.key);
                    }
                    26 if owned.writes => {
                        owned.writes = false;
                        connection.leave_writing(owned.key);
                    }
                    27 if owned.writes => connection.reset(owned.key, Reason::CANCEL),
                    28 if owned.writes
                        && owned.has_begun
                        && !owned.has_ended
                        && owned.unsent.is_empty() =>
                    {
                        let mut trailers = HeaderMap::new();
                        trailers.insert("grpc-status", HeaderValue::from_static("0"));
                        let _ = connection.send_trailers(owned.key, &trailers);
                        owned.has_ended = true;
                    }
                    29 if owned.writes => {
                        let _ = connection.poll_lost(owned.key, &cx);
                    }
                    30 if flags == 0 => connection.announce_leaving(),
                    31 if flags == 0 => connection.ask_whether_alive(),
                    31 if flags == 255 && which == 255 => connection.end(Ended::Closed),
                    _ => (),
                }
                if !owned.reads && !owned.writes {
                    all.swap_remove(at);
                }
            }
        }
        while let Some((key, _)) = connection.next_request() {
            all.push(Owned {
                key,
                reads: true,
                writes: true,
                has_begun: false,
                has_ended: false,
                unsent: Bytes::new(),
                is_last: false,
            });
        }
        if !connection.wants_more() {
            drain(&mut connection, usize::MAX, &mut seen);
        }
        let _ = (connection.is_over(), connection.streams_max());
    }
    drain(&mut connection, usize::MAX, &mut seen);
    for owned in &mut all {
        send(&mut connection, owned, &cx);
        read(&mut connection, owned, &cx);
        if owned.reads {
            connection.leave_reading(owned.key);
        }
        if owned.writes {
            connection.leave_writing(owned.key);
        }
    }
    drain(&mut connection, usize::MAX, &mut seen);
    assert!(connection.out().is_empty());
});
