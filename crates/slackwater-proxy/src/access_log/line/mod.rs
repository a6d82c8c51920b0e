//! The form of a log line: text in the style of web servers, or JSON.
//!
//! Everything that a client or a replica sent is escaped: quotes, backslashes, and everything that
//! could end a line or control a terminal.
//!
//! A line is added to a buffer piece by piece, without an allocation.

mod escape;
mod fields;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod values;

use super::buffer::Line;
use crate::hex;
use core::net::IpAddr;
use core::time::Duration;
use fields::{Fields, Json, Text};
use slackwater_config::AccessLogFormat;
use slackwater_core::Rif;
use slackwater_telemetry::date::Date;
use slackwater_telemetry::trace::TraceId;
use slackwater_tower::client::PickView;
use std::time::SystemTime;
use values::{SecondText, as_micros};

/// Fields of a request that a line shows.
#[derive(Debug)]
pub(super) struct RequestFacts<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) query: Option<&'a str>,
    pub(super) protocol: &'static str,
    pub(super) host: Option<&'a [u8]>,
    pub(super) referer: Option<&'a [u8]>,
    pub(super) user_agent: Option<&'a [u8]>,
    pub(super) id: Id<'a>,
}

/// The id of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Id<'a> {
    /// The client's.
    Given(&'a [u8]),
    /// Hexadecimal digits of the proxy's own.
    Drawn(&'a [u8; 32]),
}

/// Everything that a line shows.
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
    /// Why that replica was picked.
    pub(super) pick: Option<&'a PickView>,
    pub(super) status: u16,
    /// Status of a gRPC call, if known.
    pub(super) grpc_status: Option<u8>,
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    pub(super) queue: Option<Duration>,
    pub(super) connect: Option<Duration>,
    pub(super) first_byte: Option<Duration>,
    pub(super) total: Duration,
    pub(super) end: &'static str,
    pub(super) error: Option<&'a [u8]>,
    /// Trace id of a sampled request.
    pub(super) trace: Option<TraceId>,
}

/// Writes lines of one format.
#[derive(Debug)]
pub(super) struct LineWriter {
    format: AccessLogFormat,
    second: SecondText,
}

impl LineWriter {
    pub(super) fn new(format: AccessLogFormat) -> Self {
        Self {
            format,
            second: SecondText::default(),
        }
    }

    /// Adds a line, including its newline.
    pub(super) fn add<'l>(&mut self, line: Line<'l>, facts: &Facts<'_>) -> Line<'l> {
        match self.format {
            AccessLogFormat::Text => text_line(line, &mut self.second, facts),
            AccessLogFormat::Json => json_line(line, &mut self.second, facts),
        }
    }
}

/// Adds the combined log format, followed by the rest as `key=value`.
fn text_line<'l>(line: Line<'l>, second: &mut SecondText, facts: &Facts<'_>) -> Line<'l> {
    let request = facts.request;
    let (second, _) = second.of(facts.at, Date::common);
    let line = line.address(facts.client).put_array(b" - - [");
    let line = line.put(second.as_bytes()).put_array(b"] \"");
    // A method is a token, in which nothing has to be escaped.
    let line = line.put(request.method.as_bytes()).put_array(b" ");
    let mut line = line.quoted(request.path.as_bytes());
    if let Some(query) = request.query {
        line = line.put_array(b"?").quoted(query.as_bytes());
    }
    let line = line.put_array(b" ").put(request.protocol.as_bytes());
    let line = line.put_array(b"\" ").number(facts.status.into());
    let line = line.put_array(b" ").number(facts.bytes_out);
    let line = line.put_array(b" \"").quoted_or_dash(request.referer);
    let line = line.put_array(b"\" \"").quoted_or_dash(request.user_agent);
    let fields = Text(line.put_array(b"\""));
    let fields = facts.host(fields);
    let fields = facts.listener(fields);
    let fields = facts.service(fields);
    let fields = facts.pick(fields);
    let fields = facts.bytes_in(fields);
    let fields = facts.times(fields);
    let fields = facts.grpc_status(fields);
    let Text(line) = facts.outcome(fields);
    line.put_array(b"\n")
}

/// Adds a JSON object. Unknown values are left out.
fn json_line<'l>(line: Line<'l>, second: &mut SecondText, facts: &Facts<'_>) -> Line<'l> {
    let request = facts.request;
    let (second, micros) = second.of(facts.at, Date::rfc3339_second);
    let line = line.put_array(b"{\"time\":\"").put(second.as_bytes());
    let line = line.put_array(b".").fraction(micros);
    let line = line.put_array(b"Z\",\"client\":\"").address(facts.client);
    let fields = facts.listener(Json(line.put_array(b"\"")));
    let fields = facts
        .host(fields)
        .text(b"method", Some(request.method.as_bytes()))
        .text(b"path", Some(request.path.as_bytes()))
        .text(b"query", request.query.map(str::as_bytes))
        .word(b"protocol", Some(request.protocol.as_bytes()))
        .number(b"status", Some(facts.status.into()));
    let fields = facts.grpc_status(fields);
    let fields = facts.bytes_in(fields);
    let fields = facts.service(fields.number(b"bytes_out", Some(facts.bytes_out)));
    let fields = facts.pick(fields);
    let fields = facts.times(fields);
    let fields = facts.outcome(fields);
    let Json(line) = fields
        .text(b"referer", request.referer)
        .text(b"user_agent", request.user_agent);
    line.put_array(b"}\n")
}

/// The fields that both formats name. The formats differ only in where some of them stand.
impl Facts<'_> {
    fn host<F: Fields>(&self, to: F) -> F {
        to.text(b"host", self.request.host)
    }

    fn listener<F: Fields>(&self, to: F) -> F {
        to.word(b"listener", Some(self.listener.as_bytes()))
    }

    fn service<F: Fields>(&self, to: F) -> F {
        to.text(b"service", Some(self.service.as_bytes()))
    }

    fn bytes_in<F: Fields>(&self, to: F) -> F {
        to.number(b"bytes_in", Some(self.bytes_in))
    }

    fn grpc_status<F: Fields>(&self, to: F) -> F {
        to.number(b"grpc_status", self.grpc_status.map(u64::from))
    }

    /// Where the request was sent, and why.
    fn pick<F: Fields>(&self, to: F) -> F {
        let reason = self.pick.map(|pick| pick.reason.as_str());
        let report = self.pick.and_then(|pick| pick.chosen);
        let latency = report.and_then(|report| report.latency);
        let rif_limit = self.pick.and_then(|pick| pick.rif_limit);
        let rif = |rif: Rif| u64::from(rif.count());
        let to = to
            .text(b"replica", self.replica.map(str::as_bytes))
            .number(b"attempts", Some(self.attempts.into()))
            .word(b"hedge", self.hedge.map(str::as_bytes))
            .word(b"tie", self.tie.map(str::as_bytes))
            .text(b"shadow", self.shadow.map(str::as_bytes))
            .word(b"reason", reason.map(str::as_bytes));
        if rif_limit.is_none() && report.is_none() {
            return to.unknown((b"rif_limit", b"rif", b"latency_us", b"age_us"));
        }
        to.number(b"rif_limit", rif_limit.map(rif))
            .number(b"rif", report.map(|report| rif(report.rif)))
            .number(b"latency_us", latency.map(as_micros))
            .number(b"age_us", report.map(|report| as_micros(report.age)))
    }

    fn times<F: Fields>(&self, to: F) -> F {
        to.number(b"queue_us", self.queue.map(as_micros))
            .number(b"connect_us", self.connect.map(as_micros))
            .number(b"first_byte_us", self.first_byte.map(as_micros))
            .number(b"total_us", Some(as_micros(self.total)))
    }

    /// How the request ended, and the ids by which to find it elsewhere.
    fn outcome<F: Fields>(&self, to: F) -> F {
        let trace = self.trace.map(|trace| hex::digits(trace.0.get()));
        let to = to
            .word(b"end", Some(self.end.as_bytes()))
            .text(b"error", self.error)
            .word(b"trace_id", trace.as_ref().map(<[u8; 32]>::as_slice));
        match self.request.id {
            Id::Given(id) => to.text(b"id", Some(id)),
            Id::Drawn(digits) => to.digits(b"id", digits),
        }
    }
}
