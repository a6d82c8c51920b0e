//! The lines of both formats as `core::fmt` writes them: slow, and easy to check by eye.

use super::escape::is_special;
use super::given::{GivenFacts, GivenRequest};
use super::*;
use core::fmt::Display;

/// Returns the line with these facts, including its newline.
pub(super) fn line(format: AccessLogFormat, facts: &GivenFacts<'_>) -> String {
    match format {
        AccessLogFormat::Text => text(facts),
        AccessLogFormat::Json => json(facts),
    }
}

fn text(facts: &GivenFacts<'_>) -> String {
    let request = facts.request;
    let query = request.query.map(|query| format!("?{}", quoted(query)));
    let mut line = format!(
        "{} - - [{}] \"{} {}{} {}\" {} {} \"{}\" \"{}\"",
        facts.client,
        Date::of(facts.at).common(),
        quoted(request.method),
        quoted(request.path),
        query.unwrap_or_default(),
        quoted(request.protocol),
        facts.status,
        facts.bytes_out,
        quoted(request.referer.unwrap_or(b"-")),
        quoted(request.user_agent.unwrap_or(b"-")),
    );
    let text = |value: Option<&[u8]>| Some(format!("\"{}\"", quoted(value.unwrap_or(b"-"))));
    let (pick, times, trace) = (picked(facts), times(facts), trace(facts));
    for (key, value) in [
        ("host", text(request.host)),
        ("listener", Some(facts.listener.to_owned())),
        ("service", text(Some(facts.service.as_bytes()))),
        ("replica", text(facts.replica.map(str::as_bytes))),
        ("attempts", Some(facts.attempts.to_string())),
        ("hedge", facts.hedge.map(str::to_owned)),
        ("tie", facts.tie.map(str::to_owned)),
        ("shadow", text(facts.shadow.map(str::as_bytes))),
        (
            "reason",
            facts.pick.map(|pick| pick.reason.as_str().to_owned()),
        ),
    ]
    .into_iter()
    .chain(pick)
    .chain([("bytes_in", Some(facts.bytes_in.to_string()))])
    .chain(times)
    .chain([
        ("grpc_status", shown(facts.grpc_status)),
        ("end", Some(facts.end.to_owned())),
        ("error", text(facts.error)),
        ("trace_id", trace),
        ("id", text(Some(id(request)))),
    ]) {
        let value = value.as_deref().unwrap_or("-");
        line.extend([" ", key, "=", value]);
    }
    line + "\n"
}

fn json(facts: &GivenFacts<'_>) -> String {
    let request = facts.request;
    let string = |text: &[u8]| Some(format!("\"{}\"", escaped(text)));
    let word = |word: Option<&str>| word.map(|word| format!("\"{word}\""));
    let time = Date::of(facts.at).rfc3339().to_string();
    let known = [
        ("time", word(Some(&time))),
        ("client", word(Some(&facts.client.to_string()))),
        ("listener", word(Some(facts.listener))),
        ("host", request.host.and_then(string)),
        ("method", string(request.method.as_bytes())),
        ("path", string(request.path)),
        ("query", request.query.and_then(string)),
        ("protocol", string(request.protocol)),
        ("status", shown(Some(facts.status))),
        ("grpc_status", shown(facts.grpc_status)),
        ("bytes_in", shown(Some(facts.bytes_in))),
        ("bytes_out", shown(Some(facts.bytes_out))),
        ("service", string(facts.service.as_bytes())),
        (
            "replica",
            facts.replica.and_then(|name| string(name.as_bytes())),
        ),
        ("attempts", shown(Some(facts.attempts))),
        ("hedge", word(facts.hedge)),
        ("tie", word(facts.tie)),
        (
            "shadow",
            facts.shadow.and_then(|name| string(name.as_bytes())),
        ),
        ("reason", word(facts.pick.map(|pick| pick.reason.as_str()))),
    ]
    .into_iter()
    .chain(picked(facts))
    .chain(times(facts))
    .chain([
        ("end", word(Some(facts.end))),
        ("error", facts.error.and_then(string)),
        ("trace_id", word(trace(facts).as_deref())),
        ("id", string(id(request))),
        ("referer", request.referer.and_then(string)),
        ("user_agent", request.user_agent.and_then(string)),
    ])
    .filter_map(|(key, value)| Some(format!("\"{key}\":{}", value?)));
    format!("{{{}}}\n", known.collect::<Vec<_>>().join(","))
}

type Shown = (&'static str, Option<String>);

fn picked(facts: &GivenFacts<'_>) -> [Shown; 4] {
    let chosen = facts.pick.and_then(|pick| pick.chosen);
    let limit = facts.pick.and_then(|pick| pick.rif_limit);
    let latency = chosen.and_then(|chosen| chosen.latency);
    [
        ("rif_limit", shown(limit.map(Rif::count))),
        ("rif", shown(chosen.map(|chosen| chosen.rif.count()))),
        ("latency_us", shown(latency.map(|span| span.as_micros()))),
        ("age_us", shown(chosen.map(|chosen| chosen.age.as_micros()))),
    ]
}

fn times(facts: &GivenFacts<'_>) -> [Shown; 4] {
    [
        ("queue_us", facts.queue),
        ("connect_us", facts.connect),
        ("first_byte_us", facts.first_byte),
        ("total_us", Some(facts.total)),
    ]
    .map(|(key, span)| (key, shown(span.map(|span| span.as_micros()))))
}

fn trace(facts: &GivenFacts<'_>) -> Option<String> {
    shown(facts.trace)
}

fn id<'a>(request: &GivenRequest<'a>) -> &'a [u8] {
    match request.id {
        Id::Given(id) => id,
        Id::Drawn(digits) => digits,
    }
}

fn shown(value: Option<impl Display>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// Printable ASCII as it is, except quotes and backslashes; everything else as `\xHH`.
fn quoted(text: impl AsRef<[u8]>) -> String {
    let escaped = text.as_ref().iter().map(|byte| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(*byte)),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    });
    escaped.collect()
}

/// Special characters as `\uHHHH`, invalid UTF-8 as U+FFFD.
fn escaped(text: &[u8]) -> String {
    let escaped = String::from_utf8_lossy(text);
    let escaped = escaped.chars().map(|c| match c {
        c if is_special(c) => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    });
    escaped.collect()
}
