//! What a request's record becomes in the log, and whether it does.

use super::line::write_line;
use super::queue::Queue;
use super::sample::Sample;
use crate::request_record::{
    Consumer, CopyKind, Detail, Ended, Interest, RequestRecord, UnreadableRequest,
};
use core::cell::RefCell;
use core::net::IpAddr;
use core::time::Duration;
use http::{HeaderMap, HeaderValue, Version};
use slackwater_config::{AccessLogFormat, AccessLogSettings};
use slackwater_telemetry::trace::TraceId;
use slackwater_tower::client::PickView;
use slackwater_tower::response::GrpcStatus;
use std::sync::Arc;
use std::time::SystemTime;

/// One worker's lines.
#[derive(Debug)]
pub(crate) struct Lines {
    format: AccessLogFormat,
    with_query: bool,
    sample: RefCell<Sample>,
    queue: Arc<Queue>,
    /// Where lines are put together.
    line: RefCell<Vec<u8>>,
}

impl Lines {
    pub(super) fn new(settings: &AccessLogSettings, queue: Arc<Queue>) -> Self {
        Self {
            format: settings.format,
            with_query: settings.query,
            sample: RefCell::new(Sample::new(settings.sample, settings.always_slower_than)),
            queue,
            line: RefCell::default(),
        }
    }

    fn write(&self, facts: &Facts<'_>) {
        let mut line = self.line.borrow_mut();
        line.clear();
        write_line(&mut line, self.format, facts);
        self.queue.push(&line);
    }
}

impl Consumer for Lines {
    /// Of each, for a line may turn out to be due.
    fn wants(&self, _headers: &HeaderMap) -> Option<Interest> {
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
        let referer = bytes(record.referer.as_ref());
        let request = RequestFacts {
            method: record.method.as_str(),
            path: record.path(),
            query: record.uri.query().filter(|_| self.with_query),
            protocol: protocol(record.version),
            host: bytes(record.host.as_ref()),
            referer: referer.map(|referer| shown_referer(referer, self.with_query)),
            user_agent: bytes(record.user_agent.as_ref()),
            id: record.id().as_bytes(),
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
            id: refused.id.as_bytes(),
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
            error: bytes(refused.error),
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

/// Queries of other pages are as private as our own.
fn shown_referer(referer: &[u8], with_query: bool) -> &[u8] {
    let mut parts = referer.split(|byte| *byte == b'?');
    parts.next().filter(|_| !with_query).unwrap_or(referer)
}

/// What a line tells of a request.
#[derive(Debug)]
pub(super) struct RequestFacts<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) protocol: &'static str,
    pub(super) host: Option<&'a [u8]>,
    pub(super) referer: Option<&'a [u8]>,
    pub(super) user_agent: Option<&'a [u8]>,
    pub(super) id: &'a [u8],
}

/// What a line tells.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub(super) request: &'a RequestFacts<'a>,
    pub(super) at: SystemTime,
    pub(super) client: IpAddr,
    pub(super) listener: &'a str,
    pub(super) service: &'a str,
    pub(super) replica: Option<&'a str>,
    pub(super) attempts: u32,
    pub(super) hedge: Option<&'static str>,
    pub(super) tie: Option<&'static str>,
    pub(super) shadow: Option<&'a str>,
    /// Why that replica.
    pub(super) pick: Option<&'a PickView>,
    pub(super) status: u16,
    /// Of a gRPC call, as far as it is told.
    pub(super) grpc_status: Option<u8>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) queue: Option<Duration>,
    pub(super) connect: Option<Duration>,
    pub(super) first_byte: Option<Duration>,
    pub(super) total: Duration,
    pub(super) end: &'static str,
    pub(super) error: Option<&'a [u8]>,
    /// Of a request that is sampled.
    pub(super) trace: Option<TraceId>,
}

#[cfg(test)]
mod tests;
