//! Turns a request record into a log line, if the request is logged.

use super::line::{Facts, Id, LineWriter, RequestFacts};
use super::queue::Queue;
use super::sample::Sample;
use crate::request_record::ids::RequestId;
use crate::request_record::{
    Consumer, CopyKind, Detail, Ended, Interest, RequestRecord, UnreadableRequest,
};
use core::cell::RefCell;
use core::time::Duration;
use http::{HeaderValue, Version};
use slackwater_config::AccessLogSettings;
use slackwater_http::{Fields, Value};
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

    fn write(&self, facts: &Facts<'_>) {
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

    fn over(&self, record: &RequestRecord, _mark: u8) {
        let total = record.total();
        if !self.sample.borrow_mut().takes(record.failed(), total) {
            return;
        }
        let referer = record.described.referer();
        let request = RequestFacts {
            method: record.method.as_str(),
            path: record.path(),
            query: record.uri.query().filter(|_| self.with_query),
            protocol: protocol(record.version),
            host: record.host(),
            referer: referer.map(|referer| shown_referer(referer, self.with_query)),
            user_agent: record.described.user_agent(),
            id: match record.id() {
                RequestId::InHeader(id) => Id::Given(id.as_bytes()),
                RequestId::Drawn(digits) => Id::Drawn(digits),
            },
        };
        self.write(&Facts {
            request: &request,
            at: record.at,
            client: record.client,
            listener: record.listener.as_str(),
            service: record.service.as_deref().unwrap_or("-"),
            replica: record.replica.as_deref(),
            attempts: record.attempts,
            hedge: record.copy(CopyKind::Hedge),
            tie: record.copy(CopyKind::Tie),
            shadow: record.shadow.as_deref(),
            pick: record.pick.as_ref(),
            status: record.status.map_or(0, |status| status.as_u16()),
            grpc_status: record.grpc_status.map(GrpcStatus::code),
            bytes_in: record.upload.as_ref().map_or(0, |upload| upload.bytes()),
            bytes_out: record.bytes_out,
            queue: record.queue,
            connect: record.connect,
            first_byte: record.first_byte,
            total,
            end: record.ended().as_str(),
            error: bytes(record.error.as_ref()),
            trace: record.traced.as_ref().map(|traced| traced.trace()),
        });
    }

    fn refused(&self, refused: &UnreadableRequest<'_>) {
        let failed = refused.status.is_server_error();
        if !self.sample.borrow_mut().takes(failed, Duration::ZERO) {
            return;
        }
        let request = RequestFacts {
            method: "-",
            path: "-",
            query: None,
            protocol: protocol(Version::HTTP_11),
            host: None,
            referer: None,
            user_agent: None,
            id: Id::Drawn(&refused.id),
        };
        self.write(&Facts {
            request: &request,
            at: SystemTime::now(),
            client: refused.client,
            listener: refused.listener.as_str(),
            service: "-",
            replica: None,
            attempts: 0,
            hedge: None,
            tie: None,
            shadow: None,
            pick: None,
            status: refused.status.as_u16(),
            grpc_status: None,
            bytes_in: 0,
            bytes_out: refused.bytes_out,
            queue: None,
            connect: None,
            first_byte: None,
            total: Duration::ZERO,
            end: Ended::Complete.as_str(),
            error: refused.error.map(Value::as_bytes),
            trace: None,
        });
    }
}

fn bytes(value: Option<&HeaderValue>) -> Option<&[u8]> {
    value.map(HeaderValue::as_bytes)
}

const fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// The query strings of other pages are as private as our own.
fn shown_referer(referer: &[u8], with_query: bool) -> &[u8] {
    let mut parts = referer.split(|byte| *byte == b'?');
    parts.next().filter(|_| !with_query).unwrap_or(referer)
}

#[cfg(test)]
mod tests;
