//! The two sides of a row: one sends a message up to its end, the other reports what it has
//! received of it.

use super::table::{Ends, Row, Then, WHOLE};
use super::wire::{self, Frame, Progress};
use super::{frames, table::Form};
use crate::proxy::PATIENCE;
use core::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// The reader of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Http11,
    /// Only for clients.
    Http10,
    Http2,
}

/// A replica that plays one row after the other.
pub(super) struct Replica {
    pub(super) address: SocketAddr,
    part: Arc<Mutex<Option<Part>>>,
    task: tokio::task::JoinHandle<()>,
}

/// A replica's role in a row.
enum Part {
    Reads(Watch),
    Writes(Script, oneshot::Receiver<()>),
}

/// A reader's reports on its message.
pub(super) struct Watch {
    /// The part of the body that must arrive before it ends.
    before: &'static str,
    /// Reports that this part has arrived.
    came: Option<oneshot::Sender<()>>,
    /// Reports how the message ended.
    seen: oneshot::Sender<String>,
    ends: Ends,
}

/// The message of a sender.
#[derive(Clone, Copy)]
struct Script {
    form: Form,
    before: &'static str,
    bytes: fn(u32) -> Vec<u8>,
    then: Then,
}

impl Script {
    const fn of(row: &Row) -> Self {
        Self {
            form: row.form,
            before: row.before,
            bytes: row.bytes,
            then: row.then,
        }
    }

    /// Ends a message. Returns the connection if it is still open.
    async fn end(self, mut stream: TcpStream, number: u32) -> Option<TcpStream> {
        // The proxy may have closed the connection by then.
        let _ = stream.write_all(&(self.bytes)(number)).await;
        match self.then {
            Then::Stays => (),
            Then::Fin => drop(stream.shutdown().await),
            Then::Rst => {
                stream.set_zero_linger().unwrap();
                return None;
            }
        }
        Some(stream)
    }
}

/// The reports on a message.
pub(super) struct Seen {
    came: oneshot::Receiver<()>,
    seen: oneshot::Receiver<String>,
}

impl Seen {
    /// Waits until the part of the body that must arrive before its end has arrived; `false` if the
    /// body ended before.
    pub(super) async fn came(&mut self) -> bool {
        let came = timeout(PATIENCE, &mut self.came).await;
        came.expect("no beginning in time").is_ok()
    }

    /// Returns how the message ended.
    pub(super) async fn end(self) -> String {
        let seen = timeout(PATIENCE, self.seen).await;
        seen.expect("no end in time")
            .expect("a reader that says so")
    }
}

impl Watch {
    pub(super) fn new(before: &'static str, ends: Ends) -> (Self, Seen) {
        let ((saw_it, came), (saw, seen)) = (oneshot::channel(), oneshot::channel());
        let watch = Self {
            before,
            came: Some(saw_it),
            seen: saw,
            ends,
        };
        (watch, Seen { came, seen })
    }

    fn has(&mut self, body: &[u8]) {
        if body.starts_with(self.before.as_bytes())
            && let Some(came) = self.came.take()
        {
            let _ = came.send(());
        }
    }

    fn saw(self, what: impl Into<String>) {
        let _ = self.seen.send(what.into());
    }

    /// A complete message must have the right body.
    fn is_whole(body: &[u8]) -> String {
        if body == WHOLE.as_bytes() {
            "whole".to_owned()
        } else {
            format!("whole, but {:?}", String::from_utf8_lossy(body))
        }
    }

    /// Reads a message over HTTP/1. Returns the connection if it stays open.
    async fn http1(mut self, mut stream: TcpStream) -> Option<TcpStream> {
        let mut octets = Vec::new();
        loop {
            let message = wire::http1(&octets);
            let (body, progress) = message.unwrap_or((Vec::new(), Progress::Unfinished));
            self.has(&body);
            let is_whole = progress == Progress::Whole;
            if is_whole && self.ends == Ends::Whole {
                self.saw(Self::is_whole(&body));
                return Some(stream);
            }
            match stream.read_buf(&mut octets).await {
                Ok(1..) if is_whole => self.saw("whole, and more"),
                Ok(1..) => continue,
                _ if is_whole => self.saw(Self::is_whole(&body) + ", then closed"),
                Ok(0) if progress == Progress::UntilClose => self.saw(Self::is_whole(&body)),
                Err(_) if progress == Progress::UntilClose => self.saw("cut off by a reset"),
                _ => self.saw("cut off"),
            }
            return None;
        }
    }

    /// Reads the response to the first request over HTTP/2.
    async fn http2(mut self, mut stream: TcpStream) {
        let mut body = Vec::new();
        loop {
            let Some(frame) = Frame::read(&mut stream).await else {
                return self.saw("the connection ended");
            };
            if frame.stream == 1 {
                match self.frame(&frame, &mut body) {
                    Some(goes_on) => self = goes_on,
                    None => return,
                }
            }
        }
    }

    /// Handles a frame of the message's stream. Returns `self` while the message continues.
    fn frame(mut self, frame: &Frame, body: &mut Vec<u8>) -> Option<Self> {
        if frame.kind == frames::DATA {
            body.extend_from_slice(&frame.payload);
        }
        self.has(body);
        if frame.is_end() {
            self.saw(Self::is_whole(body));
        } else if let Some(reset) = frame.resets() {
            self.saw(reset);
        } else {
            return Some(self);
        }
        None
    }
}

impl Replica {
    /// Starts a replica that reads requests, of the kind that `reader` is.
    pub(super) async fn reads(reader: Reader) -> Self {
        Self::start(move |stream, part| async move {
            match reader {
                Reader::Http2 => read_http2(stream, &part).await,
                _ => read_http1(stream, &part).await,
            }
        })
        .await
    }

    /// Starts a replica that writes responses, in the form of each row.
    pub(super) async fn writes() -> Self {
        Self::start(|stream, part| async move {
            let mut start = [0];
            let is_http2 = stream.peek(&mut start).await.is_ok() && start == *b"P";
            if is_http2 {
                write_http2(stream, &part).await;
            } else {
                write_http1(stream, &part).await;
            }
        })
        .await
    }

    async fn start<F>(
        serve: impl Fn(TcpStream, Arc<Mutex<Option<Part>>>) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let part = Arc::<Mutex<Option<Part>>>::default();
        let shared = Arc::clone(&part);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self {
            address,
            part,
            task,
        }
    }

    /// Reads the next request.
    pub(super) fn expects(&self, before: &'static str, ends: Ends) -> Seen {
        let (watch, seen) = Watch::new(before, ends);
        *self.part.lock().unwrap() = Some(Part::Reads(watch));
        seen
    }

    /// Returns what the replica sees of a row's request through this proxy.
    pub(super) async fn sees(&self, row: &Row, proxy: SocketAddr) -> String {
        let mut seen = self.expects(row.before, row.ends);
        let mut client = TcpStream::connect(proxy).await.unwrap();
        let start = wire::request(row.form, row.before);
        client.write_all(&start).await.unwrap();
        if !seen.came().await {
            return "not even its beginning".to_owned();
        }
        // Kept open until the replica has reported.
        let _client = Script::of(row).end(client, 1).await;
        seen.end().await
    }

    /// Returns what a client of this proxy sees of a row's response.
    pub(super) async fn shows(&self, row: &Row, proxy: SocketAddr, reader: Reader) -> String {
        let (watch, seen) = Watch::new(row.before, row.ends);
        let Seen { came, seen } = seen;
        *self.part.lock().unwrap() = Some(Part::Writes(Script::of(row), came));
        get(proxy, reader, watch).await;
        seen.await.expect("a reader that says so")
    }
}

/// Sends a request to this proxy, and reads the response.
pub(super) async fn get(proxy: SocketAddr, reader: Reader, watch: Watch) {
    let mut client = TcpStream::connect(proxy).await.unwrap();
    let request = match reader {
        Reader::Http11 => b"GET /down HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        Reader::Http10 => b"GET /down HTTP/1.0\r\nhost: x\r\n\r\n".to_vec(),
        Reader::Http2 => [frames::preface(), frames::get(1, "/down")].concat(),
    };
    client.write_all(&request).await.unwrap();
    let reading = async move {
        match reader {
            Reader::Http2 => watch.http2(client).await,
            _ => drop(watch.http1(client).await),
        }
    };
    timeout(PATIENCE, reading).await.expect("no end in time");
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read_http1(mut stream: TcpStream, part: &Mutex<Option<Part>>) {
    loop {
        // Waits for a request, or the end of the connection.
        if !matches!(stream.peek(&mut [0]).await, Ok(1..)) {
            return;
        }
        let Some(Part::Reads(watch)) = part.lock().unwrap().take() else {
            return;
        };
        let Some(mut open) = watch.http1(stream).await else {
            return;
        };
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let _ = open.write_all(answer).await;
        stream = open;
    }
}

async fn read_http2(mut stream: TcpStream, part: &Mutex<Option<Part>>) {
    let Some(mut next) = begin_http2(&mut stream).await else {
        return;
    };
    loop {
        let number = next;
        let Some(Part::Reads(mut watch)) = part.lock().unwrap().take() else {
            return;
        };
        let mut body = Vec::new();
        loop {
            let Some(frame) = Frame::read(&mut stream).await else {
                return watch.saw("the connection ended");
            };
            if frame.stream == number {
                match watch.frame(&frame, &mut body) {
                    Some(goes_on) => watch = goes_on,
                    None => break,
                }
            }
        }
        let answer = frames::headers(number, &[(":status", "200")]);
        let _ = stream.write_all(&answer).await;
        let Some(following) = next_request(&mut stream).await else {
            return;
        };
        next = following;
    }
}

async fn write_http1(mut stream: TcpStream, part: &Mutex<Option<Part>>) {
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if !matches!(stream.read_buf(&mut head).await, Ok(1..)) {
                return;
            }
        }
        let Some(Part::Writes(script, came)) = part.lock().unwrap().take() else {
            return;
        };
        let start = wire::response(script.form, 0, script.before);
        if stream.write_all(&start).await.is_err() || came.await.is_err() {
            return;
        }
        let Some(open) = script.end(stream, 0).await else {
            return;
        };
        stream = open;
    }
}

async fn write_http2(mut stream: TcpStream, part: &Mutex<Option<Part>>) {
    let mut next = begin_http2(&mut stream).await;
    while let Some(number) = next {
        let Some(Part::Writes(script, came)) = part.lock().unwrap().take() else {
            return;
        };
        let start = wire::response(script.form, number, script.before);
        if stream.write_all(&start).await.is_err() || came.await.is_err() {
            return;
        }
        let Some(open) = script.end(stream, number).await else {
            return;
        };
        stream = open;
        next = next_request(&mut stream).await;
    }
}

/// Begins a replica's connection over HTTP/2. Returns the first request's stream.
async fn begin_http2(stream: &mut TcpStream) -> Option<u32> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await.ok()?;
    let settings = frames::frame(frames::SETTINGS, 0, 0, &[]);
    stream.write_all(&settings).await.ok()?;
    next_request(stream).await
}

/// Returns the stream of the next request; `None` at the end of the connection.
async fn next_request(stream: &mut TcpStream) -> Option<u32> {
    loop {
        let frame = Frame::read(stream).await?;
        if frame.kind == frames::HEADERS {
            return Some(frame.stream);
        }
    }
}
