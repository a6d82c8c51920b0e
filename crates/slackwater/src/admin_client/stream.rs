//! A stream of events from a running process.

use super::address::Address;
use super::client::{Connection, Failure, Wanted, answer, ask};
use super::sse::{self, Event};
use bytes::Bytes;
use core::time::Duration;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

/// Read timeout of the stream. The server sends a keep-alive every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(40);

/// An open stream of events.
#[derive(Debug)]
pub(crate) struct Stream {
    body: Incoming,
    reader: sse::Reader,
    /// Events that are parsed and not returned yet; the last one is the next.
    events: Vec<Event>,
    _connection: Connection,
}

impl Stream {
    /// Opens the stream.
    pub(crate) async fn open(address: &Address) -> Result<Self, Failure> {
        let wanted = Wanted::read("/events", "text/event-stream");
        let (answer, connection) = ask(address, wanted).await?;
        let kind = answer.headers().get(CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
            let what = "its /events is no stream of events: it is something else than slackwater";
            return Err(Failure::Strange(what.to_owned()));
        }
        Ok(Self {
            body: answer.into_body(),
            reader: sse::Reader::new(sse::EVENT_BYTES_MAX),
            events: Vec::new(),
            _connection: connection,
        })
    }

    /// The next event.
    pub(crate) async fn next(&mut self) -> Result<Event, Failure> {
        loop {
            if let Some(event) = self.events.pop() {
                return Ok(event);
            }
            let frame = timeout(SILENCE_MAX, self.body.frame()).await;
            let frame = frame.map_err(|_| Failure::Late)?;
            let frame = frame.ok_or(Failure::Ended)?.map_err(Failure::Broken)?;
            if let Some(bytes) = frame.data_ref() {
                let read = self.reader.feed(bytes, &mut self.events);
                read.map_err(|bad| Failure::Strange(bad.to_string()))?;
                self.events.reverse();
            }
        }
    }
}

/// Requests a path that answers with JSON.
pub(crate) async fn json(address: &Address, path: &str) -> Result<Bytes, Failure> {
    let answer = answer(address, Wanted::read(path, "application/json")).await?;
    Ok(answer.into_body())
}
