//! Turns a request record into a log line, if the request is logged.

use super::line::{Facts, Id, LineWriter};
use super::queue::Queue;
use super::sample::Sample;
use crate::request_record::ids::RequestId;
use crate::request_record::{
    AttemptKind, Consumer, Described, Detail, Interest, RequestRecord, UnreadableRequest,
};
use core::cell::RefCell;
use core::net::IpAddr;
use core::time::Duration;
use http::{HeaderValue, Version};
use slackwater_config::AccessLogSettings;
use slackwater_http::{Fields, Value};
use slackwater_telemetry::trace::TraceId;
use slackwater_tower::client::PickView;
use slackwater_tower::response::GrpcStatus;
use std::sync::Arc;
use std::time::SystemTime;

/// One worker's lines.
#[derive(Debug)]
pub(crate) struct Lines {
    with_query: bool,
    sample: RefCell<Sample>,
    writer: RefCell<LineWriter>,
    queue: Arc<Queue>,
}

impl Lines {
    pub(super) fn new(settings: &AccessLogSettings, queue: Arc<Queue>) -> Self {
        Self {
            with_query: settings.query,
            sample: RefCell::new(Sample::new(settings.sample, settings.always_slower_than)),
            writer: RefCell::new(LineWriter::new(settings.format)),
            queue,
        }
    }

    fn write(&self, facts: &impl Facts) {
        let mut writer = self.writer.borrow_mut();
        self.queue.push(|line| writer.add(line, facts));
    }
}

impl Consumer for Lines {
    /// Every request is of interest: whether its line is written is known only at its end.
    fn wants(&self, _headers: &Fields) -> Option<Interest> {
        Some(Interest {
            detail: Detail::Summary,
            mark: 0,
        })
    }

    fn shows_query(&self) -> bool {
        self.with_query
    }

    fn over(&self, record: &RequestRecord, _mark: u8) {
        let total = record.total();
        if self.sample.borrow_mut().takes(record.failed(), total) {
            self.write(&LoggedRecord {
                record,
                described: record.described(),
                id: record.id(),
                total,
                with_query: self.with_query,
            });
        }
    }

    #[cold]
    fn refused(&self, refused: &UnreadableRequest<'_>) {
        let failed = refused.status.is_server_error();
        if self.sample.borrow_mut().takes(failed, Duration::ZERO) {
            self.write(refused);
        }
    }
}

/// A record as its line shows it.
struct LoggedRecord<'r> {
    record: &'r RequestRecord,
    described: &'r Described,
    /// Drawn before the queue is locked.
    id: &'r RequestId,
    /// The time is read once if the end was not recorded.
    total: Duration,
    with_query: bool,
}

// A default would be that of a request that could not be read.
#[warn(clippy::missing_trait_methods)]
impl Facts for LoggedRecord<'_> {
    fn at(&self) -> SystemTime {
        self.record.at
    }

    fn client(&self) -> IpAddr {
        self.record.client
    }

    fn client_text(&self) -> Option<&[u8]> {
        self.record.origin.text_of(self.record.client)
    }

    fn listener(&self) -> &str {
        self.record.listener()
    }

    fn method(&self) -> &str {
        self.record.method.as_str()
    }

    fn path(&self) -> &[u8] {
        self.described.path()
    }

    fn query(&self) -> Option<&[u8]> {
        self.described.query().filter(|_| self.with_query)
    }

    fn protocol(&self) -> &'static [u8; 8] {
        match self.record.version {
            Version::HTTP_10 => b"HTTP/1.0",
            Version::HTTP_2 => b"HTTP/2.0",
            _ => b"HTTP/1.1",
        }
    }

    fn host(&self) -> Option<&[u8]> {
        self.described.host()
    }

    /// The query strings of other pages are as private as our own.
    fn referer(&self) -> Option<&[u8]> {
        let referer = self.described.referer()?;
        if self.with_query {
            return Some(referer);
        }
        let end = memchr::memchr(b'?', referer);
        Some(&referer[..end.unwrap_or(referer.len())])
    }

    fn user_agent(&self) -> Option<&[u8]> {
        self.described.user_agent()
    }

    fn service(&self) -> &str {
        self.record.service.as_deref().unwrap_or("-")
    }

    fn replica(&self) -> Option<&str> {
        self.record.replica.as_deref()
    }

    fn attempts(&self) -> u32 {
        self.record.attempts
    }

    fn hedge(&self) -> Option<&'static str> {
        self.record.copy(AttemptKind::Hedge)
    }

    fn tie(&self) -> Option<&'static str> {
        self.record.copy(AttemptKind::Tie)
    }

    fn shadow(&self) -> Option<&str> {
        self.record.shadow.as_deref()
    }

    fn pick(&self) -> Option<&PickView> {
        self.record.pick.as_ref()
    }

    fn status(&self) -> u16 {
        self.record.status.map_or(0, |status| status.as_u16())
    }

    fn grpc_status(&self) -> Option<u8> {
        self.record.grpc_status.map(GrpcStatus::code)
    }

    fn bytes_in(&self) -> u64 {
        let upload = self.record.upload.as_ref();
        upload.map_or(0, |upload| upload.bytes())
    }

    fn bytes_out(&self) -> u64 {
        self.record.bytes_out
    }

    fn queue(&self) -> Option<Duration> {
        self.record.queue
    }

    fn connect(&self) -> Option<Duration> {
        self.record.connect
    }

    fn first_byte(&self) -> Option<Duration> {
        self.record.first_byte
    }

    fn total(&self) -> Duration {
        self.total
    }

    fn end(&self) -> &'static str {
        self.record.ended().as_str()
    }

    fn error(&self) -> Option<&[u8]> {
        self.record.error.as_ref().map(HeaderValue::as_bytes)
    }

    fn trace(&self) -> Option<TraceId> {
        self.record.traced.as_ref().map(|traced| traced.trace())
    }

    fn id(&self) -> Id<'_> {
        match self.id {
            RequestId::InHeader(id) => Id::Given(id.as_bytes()),
            RequestId::Drawn(digits) => Id::Drawn(digits),
        }
    }
}

impl Facts for UnreadableRequest<'_> {
    fn at(&self) -> SystemTime {
        self.at
    }

    fn client(&self) -> IpAddr {
        self.client
    }

    fn listener(&self) -> &str {
        self.listener.as_str()
    }

    fn method(&self) -> &'static str {
        "-"
    }

    fn service(&self) -> &'static str {
        "-"
    }

    fn status(&self) -> u16 {
        self.status.as_u16()
    }

    fn bytes_out(&self) -> u64 {
        self.bytes_out
    }

    fn error(&self) -> Option<&[u8]> {
        self.error.map(Value::as_bytes)
    }

    fn id(&self) -> Id<'_> {
        Id::Drawn(&self.id)
    }
}

#[cfg(test)]
mod tests;
