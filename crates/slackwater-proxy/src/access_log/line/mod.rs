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
use escape::{add_quoted, add_quoted_or_dash};
use fields::{Fields, Json, Text};
use slackwater_config::AccessLogFormat;
use slackwater_core::Rif;
use slackwater_telemetry::date::Date;
use slackwater_telemetry::trace::TraceId;
use slackwater_tower::client::PickView;
use std::time::SystemTime;
use values::{SecondText, add_address, add_fraction, add_number, as_micros};

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
    pub(super) id: &'a [u8],
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
    pub(super) fn add(&mut self, to: &mut Line<'_>, facts: &Facts<'_>) {
        match self.format {
            AccessLogFormat::Text => add_text_line(to, &mut self.second, facts),
            AccessLogFormat::Json => add_json_line(to, &mut self.second, facts),
        }
    }
}

/// Adds the combined log format, followed by the rest as `key=value`.
fn add_text_line(to: &mut Line<'_>, second: &mut SecondText, facts: &Facts<'_>) {
    let request = facts.request;
    add_address(to, facts.client);
    to.put_array(b" - - [");
    let (second, _) = second.of(facts.at, Date::common);
    to.put(second.as_bytes());
    to.put_array(b"] \"");
    // A method is a token, in which nothing has to be escaped.
    to.put(request.method.as_bytes());
    to.put_array(b" ");
    add_quoted(to, request.path.as_bytes());
    if let Some(query) = request.query {
        to.put_array(b"?");
        add_quoted(to, query.as_bytes());
    }
    to.put_array(b" ");
    to.put(request.protocol.as_bytes());
    to.put_array(b"\" ");
    add_number(to, facts.status.into());
    to.put_array(b" ");
    add_number(to, facts.bytes_out);
    to.put_array(b" \"");
    add_quoted_or_dash(to, request.referer);
    to.put_array(b"\" \"");
    add_quoted_or_dash(to, request.user_agent);
    to.put_array(b"\"");
    let fields = &mut Text(to);
    facts.host(fields);
    facts.listener(fields);
    facts.service(fields);
    facts.pick(fields);
    facts.bytes_in(fields);
    facts.times(fields);
    facts.grpc_status(fields);
    facts.outcome(fields);
    to.put_array(b"\n");
}

/// Adds a JSON object. Unknown values are left out.
fn add_json_line(to: &mut Line<'_>, second: &mut SecondText, facts: &Facts<'_>) {
    let request = facts.request;
    let (second, micros) = second.of(facts.at, Date::rfc3339_second);
    to.put_array(b"{\"time\":\"");
    to.put(second.as_bytes());
    to.put_array(b".");
    add_fraction(to, micros);
    to.put_array(b"Z\",\"client\":\"");
    add_address(to, facts.client);
    to.put_array(b"\"");
    let fields = &mut Json(to);
    facts.listener(fields);
    facts.host(fields);
    fields.text(b"method", Some(request.method.as_bytes()));
    fields.text(b"path", Some(request.path.as_bytes()));
    fields.text(b"query", request.query.map(str::as_bytes));
    fields.word(b"protocol", Some(request.protocol.as_bytes()));
    fields.number(b"status", Some(facts.status.into()));
    facts.grpc_status(fields);
    facts.bytes_in(fields);
    fields.number(b"bytes_out", Some(facts.bytes_out));
    facts.service(fields);
    facts.pick(fields);
    facts.times(fields);
    facts.outcome(fields);
    fields.text(b"referer", request.referer);
    fields.text(b"user_agent", request.user_agent);
    to.put_array(b"}\n");
}

/// The fields that both formats name. The formats differ only in where some of them stand.
impl Facts<'_> {
    fn host(&self, to: &mut impl Fields) {
        to.text(b"host", self.request.host);
    }

    fn listener(&self, to: &mut impl Fields) {
        to.word(b"listener", Some(self.listener.as_bytes()));
    }

    fn service(&self, to: &mut impl Fields) {
        to.text(b"service", Some(self.service.as_bytes()));
    }

    fn bytes_in(&self, to: &mut impl Fields) {
        to.number(b"bytes_in", Some(self.bytes_in));
    }

    fn grpc_status(&self, to: &mut impl Fields) {
        to.number(b"grpc_status", self.grpc_status.map(u64::from));
    }

    /// Where the request was sent, and why.
    fn pick(&self, to: &mut impl Fields) {
        let report = self.pick.and_then(|pick| pick.chosen);
        let rif = |rif: Rif| u64::from(rif.count());
        let reason = self.pick.map(|pick| pick.reason.as_str());
        let rif_limit = self.pick.and_then(|pick| pick.rif_limit);
        to.text(b"replica", self.replica.map(str::as_bytes));
        to.number(b"attempts", Some(self.attempts.into()));
        to.word(b"hedge", self.hedge.map(str::as_bytes));
        to.word(b"tie", self.tie.map(str::as_bytes));
        to.text(b"shadow", self.shadow.map(str::as_bytes));
        to.word(b"reason", reason.map(str::as_bytes));
        to.number(b"rif_limit", rif_limit.map(rif));
        to.number(b"rif", report.map(|report| rif(report.rif)));
        let latency = report.and_then(|report| report.latency);
        to.number(b"latency_us", latency.map(as_micros));
        to.number(b"age_us", report.map(|report| as_micros(report.age)));
    }

    fn times(&self, to: &mut impl Fields) {
        to.number(b"queue_us", self.queue.map(as_micros));
        to.number(b"connect_us", self.connect.map(as_micros));
        to.number(b"first_byte_us", self.first_byte.map(as_micros));
        to.number(b"total_us", Some(as_micros(self.total)));
    }

    /// How the request ended, and the ids by which to find it elsewhere.
    fn outcome(&self, to: &mut impl Fields) {
        let trace = self.trace.map(|trace| hex::digits(trace.0.get()));
        to.word(b"end", Some(self.end.as_bytes()));
        to.text(b"error", self.error);
        to.word(b"trace_id", trace.as_ref().map(<[u8; 32]>::as_slice));
        to.text(b"id", Some(self.request.id));
    }
}
