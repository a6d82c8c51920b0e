//! The form of a log line: text in the style of web servers, or JSON.
//!
//! Everything that a client or a replica sent is escaped: quotes, backslashes, and everything that
//! could end a line or control a terminal.
//!
//! A line is added to a buffer piece by piece, without an allocation.

mod escape;
mod fields;
#[cfg(test)]
mod given;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod values;

use super::buffer::Line;
use crate::hex;
use crate::request_record::Ended;
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

/// The id of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Id<'a> {
    /// The client's.
    Given(&'a [u8]),
    /// Hexadecimal digits of the proxy's own.
    Drawn(&'a [u8; 32]),
}

/// What a line shows. Each fact is read when it is written, and not copied before. The queue is
/// locked then, so no fact may take long. The defaults are those of a request that could not be
/// read.
pub(super) trait Facts {
    /// When the request arrived or was refused. The clock was read before.
    fn at(&self) -> SystemTime;
    fn client(&self) -> IpAddr;
    /// The client's address as text, if that exists already.
    fn client_text(&self) -> Option<&[u8]> {
        None
    }
    fn listener(&self) -> &str;
    fn method(&self) -> &str;
    fn path(&self) -> &[u8] {
        b"-"
    }
    fn query(&self) -> Option<&[u8]> {
        None
    }
    fn protocol(&self) -> &'static [u8; 8] {
        b"HTTP/1.1"
    }
    fn host(&self) -> Option<&[u8]> {
        None
    }
    fn referer(&self) -> Option<&[u8]> {
        None
    }
    fn user_agent(&self) -> Option<&[u8]> {
        None
    }
    fn service(&self) -> &str;
    fn replica(&self) -> Option<&str> {
        None
    }
    fn attempts(&self) -> u32 {
        0
    }
    fn hedge(&self) -> Option<&'static str> {
        None
    }
    fn tie(&self) -> Option<&'static str> {
        None
    }
    fn shadow(&self) -> Option<&str> {
        None
    }
    /// Why that replica was picked.
    fn pick(&self) -> Option<&PickView> {
        None
    }
    fn status(&self) -> u16;
    /// Status of a gRPC call, if known.
    fn grpc_status(&self) -> Option<u8> {
        None
    }
    fn bytes_in(&self) -> u64 {
        0
    }
    fn bytes_out(&self) -> u64;
    fn queue(&self) -> Option<Duration> {
        None
    }
    fn connect(&self) -> Option<Duration> {
        None
    }
    fn first_byte(&self) -> Option<Duration> {
        None
    }
    fn total(&self) -> Duration {
        Duration::ZERO
    }
    fn end(&self) -> &'static str {
        Ended::Complete.as_str()
    }
    fn error(&self) -> Option<&[u8]>;
    /// Trace id of a sampled request.
    fn trace(&self) -> Option<TraceId> {
        None
    }
    /// The id, which was drawn before.
    fn id(&self) -> Id<'_>;
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
    pub(super) fn add<'l>(&mut self, line: Line<'l>, facts: &impl Facts) -> Line<'l> {
        match self.format {
            AccessLogFormat::Text => text_line(line, &mut self.second, facts),
            AccessLogFormat::Json => json_line(line, &mut self.second, facts),
        }
    }
}

/// Adds the combined log format, followed by the rest as `key=value`.
fn text_line<'l>(line: Line<'l>, second: &mut SecondText, facts: &impl Facts) -> Line<'l> {
    let second = second.of(facts.at(), Date::common);
    let line = client(line, facts).put_array(b" - - [");
    let line = line.put_mostly::<26>(second.as_bytes()).put_array(b"] \"");
    // A method is a token, in which nothing has to be escaped.
    let line = line.put_mostly::<3>(facts.method().as_bytes());
    let mut line = line.put_array(b" ").quoted(facts.path());
    if let Some(query) = facts.query() {
        line = line.put_array(b"?").quoted(query);
    }
    let line = line.put_array(b" ").put_array(facts.protocol());
    let line = line.put_array(b"\" ").number(facts.status().into());
    let line = line.put_array(b" ").number(facts.bytes_out());
    let line = line.put_array(b" \"").quoted_or_dash(facts.referer());
    let line = line.put_array(b"\" \"").quoted_or_dash(facts.user_agent());
    let fields = Text(line.put_array(b"\""))
        .text(b"host", facts.host())
        .word(b"listener", Some(facts.listener().as_bytes()))
        .text(b"service", Some(facts.service().as_bytes()));
    let fields = pick(fields, facts).number(b"bytes_in", Some(facts.bytes_in()));
    let fields = times(fields, facts).number(b"grpc_status", facts.grpc_status().map(u64::from));
    let Text(line) = outcome(fields, facts);
    line.put_array(b"\n")
}

/// Adds a JSON object. Unknown values are left out.
fn json_line<'l>(line: Line<'l>, second: &mut SecondText, facts: &impl Facts) -> Line<'l> {
    let at = facts.at();
    let line = line.put_array(b"{\"time\":\"");
    let line = line.put_mostly::<19>(second.of(at, Date::rfc3339_second).as_bytes());
    let line = line.put_array(b".").fraction(second.micros(at));
    let line = line.put_array(b"Z\",\"client\":\"");
    let fields = Json(client(line, facts).put_array(b"\""))
        .word(b"listener", Some(facts.listener().as_bytes()))
        .text(b"host", facts.host())
        // A method is a token, in which nothing has to be escaped.
        .word(b"method", Some(facts.method().as_bytes()))
        .text(b"path", Some(facts.path()))
        .text(b"query", facts.query())
        .word(b"protocol", Some(facts.protocol()))
        .number(b"status", Some(facts.status().into()))
        .number(b"grpc_status", facts.grpc_status().map(u64::from))
        .number(b"bytes_in", Some(facts.bytes_in()))
        .number(b"bytes_out", Some(facts.bytes_out()))
        .text(b"service", Some(facts.service().as_bytes()));
    let fields = times(pick(fields, facts), facts);
    let Json(line) = outcome(fields, facts)
        .text(b"referer", facts.referer())
        .text(b"user_agent", facts.user_agent());
    line.put_array(b"}\n")
}

/// Adds the address of the client.
fn client<'l>(line: Line<'l>, facts: &impl Facts) -> Line<'l> {
    match facts.client_text() {
        Some(text) => line.put(text),
        None => line.address(facts.client()),
    }
}

/// Adds where the request was sent, and why.
fn pick<F: Fields>(to: F, facts: &impl Facts) -> F {
    let pick = facts.pick();
    let reason = pick.map(|pick| pick.reason.as_str());
    let report = pick.and_then(|pick| pick.chosen.as_ref());
    let rif_limit = pick.and_then(|pick| pick.rif_limit);
    let rif = |rif: Rif| u64::from(rif.count());
    let to = to
        .text(b"replica", facts.replica().map(str::as_bytes))
        .number(b"attempts", Some(facts.attempts().into()))
        .word(b"hedge", facts.hedge().map(str::as_bytes))
        .word(b"tie", facts.tie().map(str::as_bytes))
        .text(b"shadow", facts.shadow().map(str::as_bytes))
        .word(b"reason", reason.map(str::as_bytes));
    if rif_limit.is_none() && report.is_none() {
        return to.unknown((b"rif_limit", b"rif", b"latency_us", b"age_us"));
    }
    let latency = report.and_then(|report| report.latency);
    to.number(b"rif_limit", rif_limit.map(rif))
        .number(b"rif", report.map(|report| rif(report.rif)))
        .number(b"latency_us", latency.map(as_micros))
        .number(b"age_us", report.map(|report| as_micros(report.age)))
}

/// Adds how long the parts of the request took.
fn times<F: Fields>(to: F, facts: &impl Facts) -> F {
    to.number(b"queue_us", facts.queue().map(as_micros))
        .number(b"connect_us", facts.connect().map(as_micros))
        .number(b"first_byte_us", facts.first_byte().map(as_micros))
        .number(b"total_us", Some(as_micros(facts.total())))
}

/// Adds how the request ended, and the ids by which to find it elsewhere.
fn outcome<F: Fields>(to: F, facts: &impl Facts) -> F {
    let trace = facts.trace().map(|trace| hex::digits(trace.0.get()));
    let to = to
        .word(b"end", Some(facts.end().as_bytes()))
        .text(b"error", facts.error())
        .word(b"trace_id", trace.as_ref().map(<[u8; 32]>::as_slice));
    match facts.id() {
        Id::Given(id) => to.text(b"id", Some(id)),
        Id::Drawn(digits) => to.digits(b"id", digits),
    }
}
