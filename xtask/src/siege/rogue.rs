//! Replicas that violate the protocol, on threads of this process. A function handles each
//! connection.

use crate::siege::wire::frames::{self, frame};
use core::net::{Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// A connection without data for this long is closed.
const IDLE_MAX: Duration = Duration::from_secs(20);

/// A proxy that reads nothing for this long is abandoned.
const WRITE_MAX: Duration = Duration::from_secs(5);

/// Size of a write of repeated bytes.
const PIECE: usize = 16 << 10;

/// The most bytes sent on one connection.
const BYTES_MAX: usize = 4 << 30;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4_096;

/// A replica's handling of a connection; `number` counts connections.
pub(super) type Conduct = fn(TcpStream, number: u64) -> io::Result<()>;

/// A replica that listens until it is dropped.
#[derive(Debug)]
pub(super) struct Rogue {
    pub(super) address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl Rogue {
    pub(super) fn start(conduct: Conduct) -> Result<Self, String> {
        let wrong = |error: io::Error| format!("a replica: {error}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(wrong)?;
        // A second call only makes the backlog longer. The default one overflows when attackers
        // open thousands of connections, and honest clients would have to wait for a
        // retransmission.
        rustix::net::listen(&listener, BACKLOG).map_err(|error| wrong(error.into()))?;
        let address = listener.local_addr().map_err(wrong)?;
        let over = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&over);
        let numbers = AtomicU64::new(0);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                std::thread::spawn(move || {
                    let timeouts = stream
                        .set_read_timeout(Some(IDLE_MAX))
                        .and(stream.set_write_timeout(Some(WRITE_MAX)))
                        .and(stream.set_nodelay(true));
                    // The proxy decides how it ends.
                    let _ = timeouts.and_then(|()| conduct(stream, number));
                });
            }
        });
        Ok(Self { address, over })
    }
}

impl Drop for Rogue {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the listener.
        let _ = TcpStream::connect(self.address);
    }
}

/// Reads the next request with its body, and returns its target; `None` at the end of the
/// connection.
pub(super) fn read_request(reader: &mut BufReader<TcpStream>) -> io::Result<Option<String>> {
    let (mut target, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if target.is_none() {
            target = Some(line.split(' ').nth(1).unwrap_or_default().to_owned());
        } else if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap_or_default();
        }
    }
    io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
    Ok(target)
}

/// The answer of an honest server.
pub(super) fn honest_response(target: &str) -> Vec<u8> {
    let body = format!("<served {target}>");
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// Honest, except for `/drip`, which gets endless chunks of one byte, and `/hang`, which gets no
/// answer.
pub(super) fn honest(stream: TcpStream, _: u64) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while let Some(target) = read_request(&mut reader)? {
        match target.as_str() {
            "/drip" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
                return repeat(&mut stream, b"1\r\nx\r\n");
            }
            "/hang" => {
                io::copy(&mut reader, &mut io::sink())?;
            }
            _ => stream.write_all(&honest_response(&target))?,
        }
    }
    Ok(())
}

/// HTTP/2: reads everything, answers nothing, and never extends a window.
pub(super) fn mute(stream: TcpStream, _: u64) -> io::Result<()> {
    http2(stream, |_| (Vec::new(), Vec::new()))
}

/// Reads HTTP/1.1 requests, and answers each with `head` and then `piece`, repeatedly.
fn endless(stream: TcpStream, head: &[u8], piece: &[u8]) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    while read_request(&mut reader)?.is_some() {
        stream.write_all(head)?;
        if !piece.is_empty() {
            return repeat(&mut stream, piece);
        }
    }
    Ok(())
}

fn repeat(stream: &mut TcpStream, piece: &[u8]) -> io::Result<()> {
    let times = (PIECE / piece.len()).max(1);
    let bytes = piece.repeat(times);
    for _ in 0..BYTES_MAX / bytes.len() {
        stream.write_all(&bytes)?;
    }
    Ok(())
}

/// Replicas over HTTP/1.1 that are hostile to every request.
pub(super) const HTTP1: &[(&str, Conduct)] = &[
    ("chunks of 1 byte", |stream, _| {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        endless(stream, head, b"1\r\nx\r\n")
    }),
    ("endless 1xx", |stream, _| {
        endless(stream, b"", b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
    }),
    ("endless trailers", |stream, _| {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n";
        endless(stream, head, b"x-trailer: x\r\n")
    }),
    ("an endless head", |stream, _| {
        endless(stream, b"HTTP/1.1 200 OK\r\n", b"x-field: x\r\n")
    }),
    ("an endless chunk extension", |stream, _| {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x=";
        endless(stream, head, b"xxxxxxxx")
    }),
    ("a chunk of 2^64 bytes", |stream, _| {
        let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10000000000000000\r\n";
        endless(stream, head, b"xxxxxxxx")
    }),
    ("two responses to one request", |stream, _| {
        let two = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx".repeat(2);
        endless(stream, &two, b"")
    }),
    ("no HTTP", |stream, _| {
        endless(stream, b"", b"\0\xff\r\n\r\n")
    }),
];

/// Replicas over HTTP/2 that are hostile to every request.
pub(super) const H2C: &[(&str, Conduct)] = &[
    ("PING flood", |stream, _| {
        http2(stream, |_| (Vec::new(), frames::ping()))
    }),
    ("SETTINGS flood", |stream, _| {
        http2(stream, |_| {
            let flip = [1, 65_535].map(|window| frames::settings(&[(4, window)]));
            (Vec::new(), flip.concat())
        })
    }),
    ("endless 1xx over h2c", |stream, _| {
        http2(stream, |id| {
            let block = [b"\x08\x03103".to_vec(), frames::field(b"link", b"x")].concat();
            (Vec::new(), frames::headers(id, &block, false))
        })
    }),
    ("DATA of 1 byte", |stream, _| {
        http2(stream, |id| {
            let head = frames::headers(id, b"\x88", false);
            (head, frame(frames::DATA, 0, id, b"x"))
        })
    }),
    ("empty DATA", |stream, _| {
        http2(stream, |id| {
            let head = frames::headers(id, b"\x88", false);
            (head, frame(frames::DATA, 0, id, b""))
        })
    }),
    ("an endless CONTINUATION", |stream, _| {
        http2(stream, |id| {
            let head = frame(frames::HEADERS, 0, id, b"\x88");
            let more = frames::field(b"x-field", b"x");
            (head, frame(frames::CONTINUATION, 0, id, &more))
        })
    }),
    ("a window beyond 2^31", |stream, _| {
        http2(stream, |id| {
            (Vec::new(), frames::window_update(id, 0x7fff_ffff))
        })
    }),
    ("RST_STREAM before every response", |stream, _| {
        http2(stream, |id| (frames::reset(id, 7), Vec::new()))
    }),
    ("GOAWAY before every response", |stream, _| {
        let goaway = frame(frames::GOAWAY, 0, 0, &[0; 8]);
        http2(stream, |_| (goaway.clone(), Vec::new()))
    }),
];

/// Speaks enough HTTP/2 to receive requests. Each is answered with the result of `answer` for its
/// stream: bytes that are written once, and bytes that are repeated.
fn http2(mut stream: TcpStream, answer: impl Fn(u32) -> (Vec<u8>, Vec<u8>)) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut preface = [0; frames::PREFACE.len()];
    reader.read_exact(&mut preface)?;
    stream.write_all(&frames::settings(&[]))?;
    loop {
        let (kind, flags, id) = read_frame(&mut reader)?;
        match kind {
            frames::SETTINGS if flags & 1 == 0 => {
                stream.write_all(&frame(frames::SETTINGS, 1, 0, b""))?;
            }
            frames::HEADERS => {
                let (once, again) = answer(id);
                stream.write_all(&once)?;
                if !again.is_empty() {
                    return repeat(&mut stream, &again);
                }
            }
            _ => {}
        }
    }
}

/// Kind, flags and stream of the next frame.
pub(super) fn read_frame(reader: &mut impl Read) -> io::Result<(u8, u8, u32)> {
    let mut head = [0; 9];
    reader.read_exact(&mut head)?;
    let length = u64::from(u32::from_be_bytes([0, head[0], head[1], head[2]]));
    io::copy(&mut reader.take(length), &mut io::sink())?;
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
    Ok((head[3], head[4], id))
}
