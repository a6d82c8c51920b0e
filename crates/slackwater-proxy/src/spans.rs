//! Converts a request record to spans: one for the request, one for each attempt.
//!
//! Names and attributes follow OpenTelemetry's conventions for HTTP where they exist; the others
//! begin with `slackwater.`. docs/reference/tracing.md describes each, and a test compares the two.

use crate::request_record::{AttemptKind, AttemptRecord, Ended, RequestRecord};
use crate::traces::Traced;
use crate::traces::messages::{Attributes, Event, Span, Status, StatusCode, unix_nanos};
use core::time::Duration;
use http::{Method, Version};
use slackwater_core::policy::{Explanation, Outcome};
use slackwater_tower::response::GrpcStatus;
use std::borrow::Cow;

/// Shorter waits are not reported as waits.
const QUEUED_MIN: Duration = Duration::from_millis(1);

/// Exports a request after it and all of its attempts are over.
pub(crate) fn finish(record: &RequestRecord) {
    if let Some(traced) = &record.traced {
        traced.tracer().finish(&spans(record, traced));
    }
}

/// Returns the span of the request, and those of its attempts in their order.
fn spans(record: &RequestRecord, traced: &Traced) -> Vec<Span> {
    let attempts = record.attempt_records.iter().enumerate();
    let attempts = attempts.filter_map(|(place, attempt)| {
        let (span, address) = attempt.span.as_ref()?;
        let own = traced.attempt_span(*span);
        Some(attempt_span(record, place, address, own))
    });
    core::iter::once(server_span(record, traced))
        .chain(attempts)
        .collect()
}

fn server_span(record: &RequestRecord, traced: &Traced) -> Span {
    let route = record.path_of_route.as_deref();
    let status = record.status.map(|status| status.as_u16());
    let failure = failure(record);
    let mut attributes = Attributes::default();
    method(&mut attributes, &record.method);
    attributes.text("url.path", record.described().path());
    attributes.text("url.scheme", traced.scheme());
    attributes.optional("http.route", route);
    if let Some(host) = record.described().host() {
        server(&mut attributes, host);
    }
    attributes.text("client.address", record.client.to_string());
    attributes.text("network.protocol.name", "http");
    attributes.text("network.protocol.version", version(record.version));
    attributes.optional("user_agent.original", record.described().user_agent());
    if let Some(status) = status {
        attributes.number("http.response.status_code", status.into());
    }
    grpc_ended(&mut attributes, record.grpc_status);
    let uploaded = record.upload.as_ref().map_or(0, |upload| upload.bytes());
    attributes.number("http.request.body.size", uploaded);
    attributes.number("http.response.body.size", record.bytes_out);
    attributes.optional("error.type", failure.as_deref());
    attributes.text("slackwater.request_id", record.id().as_bytes());
    attributes.text("slackwater.listener", record.listener());
    attributes.optional("slackwater.service", record.service.as_deref());
    attributes.optional("slackwater.replica", record.replica.as_deref());
    attributes.number("slackwater.attempts", record.attempts.into());
    attributes.text("slackwater.end", record.ended().as_str());
    let name = name(&record.method);
    Span {
        name: route.map_or_else(|| name.to_owned(), |route| format!("{name} {route}")),
        start_time_unix_nano: unix_nanos(record.at),
        end_time_unix_nano: unix_nanos(record.at + record.total()),
        attributes: attributes.0,
        events: server_events(record),
        status: failure.is_some().then(error),
        ..traced.server_span()
    }
}

/// Returns why a request failed, as one word or as a status; `None` if it did not fail. Failures of
/// the client do not count.
fn failure(record: &RequestRecord) -> Option<String> {
    if !record.failed() {
        return None;
    }
    let own = record.error.as_ref().and_then(|error| error.to_str().ok());
    let by_grpc = record.grpc_status.filter(|status| status.blames_server());
    let told = match (record.ended(), by_grpc) {
        (cut @ (Ended::Broken | Ended::Stalled | Ended::CutOff), _) => cut.as_str().into(),
        (_, Some(status)) => grpc_name(status),
        _ => record
            .status
            .map_or("".into(), |status| status.as_u16().to_string().into()),
    };
    Some(own.map_or_else(|| told.into_owned(), str::to_owned))
}

fn server_events(record: &RequestRecord) -> Vec<Event> {
    let mut events = Vec::new();
    let first = record.attempt_records.first();
    if let Some(sent) = first
        .map(|first| first.sent)
        .filter(|sent| *sent >= QUEUED_MIN)
    {
        let mut attributes = Attributes::default();
        attributes.micros("slackwater.queue_us", sent);
        events.push(event(record, Duration::ZERO, "queued", attributes));
    }
    for (place, attempt) in record.attempt_records.iter().enumerate() {
        let name = match attempt.kind {
            AttemptKind::First => continue,
            AttemptKind::Retry => "retried",
            AttemptKind::Hedge => "hedged",
            AttemptKind::Tie => "tied",
            AttemptKind::Trial => "tried_out",
        };
        let mut attributes = Attributes::default();
        attributes.number("slackwater.attempt.number", number(place));
        attributes.text("slackwater.replica", &*attempt.replica);
        events.push(event(record, attempt.sent, name, attributes));
    }
    if let Some(head) = record.first_byte {
        events.push(event(record, head, "first_byte", Attributes::default()));
    }
    if let Some(error) = record.error.as_ref().filter(|_| record.failed()) {
        // The proxy's own answer: no replica was tried, or none answered.
        let name = if record.attempt_records.is_empty() {
            "shed"
        } else {
            "gave_up"
        };
        let mut attributes = Attributes::default();
        attributes.text("error.type", error);
        events.push(event(record, record.total(), name, attributes));
    }
    events
}

fn attempt_span(record: &RequestRecord, place: usize, address: &str, own: Span) -> Span {
    let attempt = &record.attempt_records[place];
    let end = attempt.end.as_ref();
    let outcome = end.map(|end| end.outcome);
    let status = attempt.status.map(|status| status.as_u16());
    let mut attributes = Attributes::default();
    method(&mut attributes, &record.method);
    server(&mut attributes, address.as_bytes());
    if let Some(status) = status {
        attributes.number("http.response.status_code", status.into());
    }
    grpc_ended(&mut attributes, attempt.grpc_status);
    if place > 0 && attempt.kind == AttemptKind::Retry {
        attributes.number("http.request.resend_count", number(place) - 1);
    }
    let is_refusal = status.is_some_and(|status| status >= 400);
    let failure = outcome.filter(|outcome| outcome.is_failure() || *outcome == Outcome::PushedBack);
    let failure = match (status, attempt.grpc_status) {
        (Some(status), _) if is_refusal => Some(status.to_string()),
        (_, Some(status)) if !status.is_ok() => Some(grpc_name(status).into_owned()),
        _ => failure.map(|outcome| outcome.as_str().to_owned()),
    };
    attributes.optional("error.type", failure.as_deref());
    attributes.optional("slackwater.service", record.service.as_deref());
    attributes.text("slackwater.replica", &*attempt.replica);
    attributes.number("slackwater.attempt.number", number(place));
    attributes.text("slackwater.attempt.kind", attempt.kind.as_str());
    attributes.boolean("slackwater.attempt.answered", record.is_answered_by(place));
    attributes.optional("slackwater.attempt.outcome", outcome.map(Outcome::as_str));
    attributes.optional(
        "slackwater.attempt.cause",
        end.and_then(|end| end.cause.as_deref()),
    );
    if let Some(took) = attempt.connect {
        attributes.micros("slackwater.attempt.connect_us", took);
    }
    pick(&mut attributes, record, attempt);
    let mut events = Vec::new();
    if !attempt.pick.probing.is_zero() {
        let mut attributes = Attributes::default();
        attributes.micros("slackwater.probing_us", attempt.pick.probing);
        let began = attempt.sent.saturating_sub(attempt.pick.probing);
        events.push(event(record, began, "probe_round", attributes));
    }
    if let Some(head) = attempt.head {
        events.push(event(record, head, "first_byte", Attributes::default()));
    }
    let ended = end.map_or_else(|| record.total(), |end| end.at);
    Span {
        name: name(&record.method).to_owned(),
        start_time_unix_nano: unix_nanos(record.at + attempt.sent),
        end_time_unix_nano: unix_nanos(record.at + ended.max(attempt.sent)),
        attributes: attributes.0,
        events,
        status: failure.is_some().then(error),
        ..own
    }
}

/// Adds why the replica was picked, and its report.
fn pick(attributes: &mut Attributes, record: &RequestRecord, attempt: &AttemptRecord) {
    let pick = &attempt.pick;
    if let Some(due_after) = attempt.due_after {
        attributes.micros("slackwater.attempt.due_after_us", due_after);
    }
    let explained = attempt.explanation.as_deref();
    let explained = explained.and_then(Explanation::runner_up);
    let runner_up = explained.or(pick.runner_up).zip(record.directory.as_ref());
    let runner_up = runner_up.and_then(|(replica, directory)| directory.name(replica));
    attributes.optional("slackwater.pick.runner_up", runner_up.as_deref());
    attributes.text("slackwater.pick.reason", pick.reason.as_str());
    attributes.number("slackwater.pick.candidates", pick.candidates.into());
    if let Some(limit) = pick.rif_limit {
        attributes.number("slackwater.pick.rif_limit", limit.count().into());
    }
    let Some(report) = &pick.chosen else {
        return;
    };
    attributes.number("slackwater.report.rif", report.rif.count().into());
    if let Some(latency) = report.latency {
        attributes.micros("slackwater.report.latency_us", latency);
    }
    attributes.micros("slackwater.report.age_us", report.age);
    attributes.boolean("slackwater.report.hot", report.hot);
    if report.uses_left != u32::MAX {
        attributes.number("slackwater.report.uses_left", report.uses_left.into());
    }
    attributes.boolean("slackwater.report.local", report.local);
}

/// Adds the status of a gRPC call by its name.
fn grpc_ended(attributes: &mut Attributes, status: Option<GrpcStatus>) {
    if let Some(status) = status {
        attributes.text("rpc.response.status_code", &*grpc_name(status));
    }
}

fn grpc_name(status: GrpcStatus) -> Cow<'static, str> {
    let name = status.name().map(Cow::Borrowed);
    name.unwrap_or_else(|| status.code().to_string().into())
}

/// Attempts count from 1, as in the access log.
fn number(place: usize) -> u64 {
    place as u64 + 1
}

const fn error() -> Status {
    Status {
        code: StatusCode::Error as i32,
    }
}

fn event(record: &RequestRecord, after: Duration, name: &str, attributes: Attributes) -> Event {
    Event {
        time_unix_nano: unix_nanos(record.at + after),
        name: name.to_owned(),
        attributes: attributes.0,
    }
}

/// Whether the method is well known. The number of other methods is unlimited.
fn is_known(method: &Method) -> bool {
    let known = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::CONNECT,
        Method::OPTIONS,
        Method::TRACE,
        Method::PATCH,
    ];
    known.contains(method)
}

fn method(attributes: &mut Attributes, method: &Method) {
    if is_known(method) {
        attributes.text("http.request.method", method.as_str());
    } else {
        attributes.text("http.request.method", "_OTHER");
        attributes.text("http.request.method_original", method.as_str());
    }
}

fn name(method: &Method) -> &str {
    if is_known(method) {
        method.as_str()
    } else {
        "HTTP"
    }
}

const fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        _ => "1.1",
    }
}

/// Adds the server of a request: a host with an optional port, or the path of a Unix socket.
fn server(attributes: &mut Attributes, written: &[u8]) {
    let colon = memchr::memrchr(b':', written).filter(|at| {
        let port = &written[at + 1..];
        !port.is_empty() && port.iter().all(u8::is_ascii_digit)
    });
    let host = colon.map_or(written, |at| &written[..at]);
    let port = colon.and_then(|at| core::str::from_utf8(&written[at + 1..]).ok()?.parse().ok());
    let host = host
        .strip_prefix(b"[")
        .and_then(|host| host.strip_suffix(b"]"))
        .unwrap_or(host);
    attributes.text("server.address", host);
    if let Some(port) = port {
        attributes.number("server.port", port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_page_lists_exactly_the_attributes_of_spans() {
        const OWN: &str = include_str!("spans.rs");
        let (code, _) = OWN.split_once("#[cfg(test)]").expect("tests are last");
        let is_attribute = |word: &&str| {
            let begins = |prefix| {
                word.strip_prefix(prefix)
                    .is_some_and(|rest| !rest.is_empty())
            };
            let spaces = [
                "client.",
                "error.",
                "http.",
                "network.",
                "rpc.",
                "server.",
                "slackwater.",
                "url.",
                "user_agent.",
            ];
            let is_name = |byte: u8| byte.is_ascii_lowercase() || b"._".contains(&byte);
            spaces.into_iter().any(begins) && word.bytes().all(is_name)
        };
        let attributes: BTreeSet<_> = code.split('"').filter(is_attribute).collect();
        let page = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/reference/tracing.md"
        );
        let page = std::fs::read_to_string(page).expect("the page");
        let rows = page.lines().filter(|line| line.starts_with('|'));
        let listed: BTreeSet<_> = rows
            .flat_map(|row| row.split('`'))
            .filter(is_attribute)
            .collect();
        assert!(attributes.len() > 30, "{attributes:?}");
        assert_eq!(attributes, listed);
        for event in [
            "queued",
            "retried",
            "hedged",
            "tied",
            "tried_out",
            "first_byte",
            "shed",
            "gave_up",
            "probe_round",
        ] {
            assert!(code.contains(&format!("\"{event}\"")), "{event}");
            assert!(page.contains(&format!("`{event}`")), "{event}");
        }
    }

    #[test]
    fn a_host_has_no_port_and_an_address_no_brackets() {
        for (written, address, port) in [
            ("shop.example", "shop.example", None),
            ("shop.example:81", "shop.example", Some(81)),
            ("[::1]:8080", "::1", Some(8080)),
            ("[::1]", "::1", None),
            ("unix:/run/app.sock", "unix:/run/app.sock", None),
            ("host:", "host:", None),
        ] {
            let (mut attributes, mut expected) = (Attributes::default(), Attributes::default());
            server(&mut attributes, written.as_bytes());
            expected.text("server.address", address);
            if let Some(port) = port {
                expected.number("server.port", port);
            }
            assert_eq!(attributes.0, expected.0, "{written}");
        }
    }

    #[test]
    fn unknown_methods_share_one_name() {
        let mut attributes = Attributes::default();
        let strange = Method::from_bytes(b"BREW").expect("a method");
        method(&mut attributes, &strange);
        let mut expected = Attributes::default();
        expected.text("http.request.method", "_OTHER");
        expected.text("http.request.method_original", "BREW");
        assert_eq!(attributes.0, expected.0);
        assert_eq!((name(&strange), name(&Method::PATCH)), ("HTTP", "PATCH"));
    }
}
