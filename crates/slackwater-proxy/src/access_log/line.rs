//! The form of a log line: text in the style of web servers, or JSON.
//!
//! Everything that a client or a replica sent is escaped: quotes, backslashes, and everything that
//! could end a line or control a terminal.

use core::fmt::{self, Display};
use core::net::IpAddr;
use core::time::Duration;
use slackwater_config::AccessLogFormat;
use slackwater_core::Rif;
use slackwater_telemetry::date::Date;
use slackwater_telemetry::trace::TraceId;
use slackwater_tower::client::PickView;
use std::io::Write;
use std::time::SystemTime;

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

/// Writes a line, including its newline.
pub(super) fn write_line(to: &mut Vec<u8>, format: AccessLogFormat, facts: &Facts<'_>) {
    // Writing to a vector cannot fail.
    let _ = match format {
        AccessLogFormat::Text => write_text(to, facts),
        AccessLogFormat::Json => write_json(to, facts),
    };
}

/// Writes the combined log format, followed by the rest as `key=value`.
fn write_text(to: &mut Vec<u8>, facts: &Facts<'_>) -> std::io::Result<()> {
    let request = facts.request;
    write!(
        to,
        "{} - - [{}] \"{} {}{} {}\" {} {} \"{}\" \"{}\"",
        facts.client,
        Date::of(facts.at).common(),
        Quoted(request.method.as_bytes()),
        Quoted(request.path.as_bytes()),
        question(request.query),
        request.protocol,
        facts.status,
        facts.bytes_out,
        Dashed(request.referer),
        Dashed(request.user_agent),
    )?;
    write!(
        to,
        " host=\"{}\" listener={} service=\"{}\" replica=\"{}\" attempts={} hedge={} tie={} shadow=\"{}\" reason={}",
        Dashed(request.host),
        facts.listener,
        Quoted(facts.service.as_bytes()),
        Dashed(facts.replica.map(str::as_bytes)),
        facts.attempts,
        facts.hedge.unwrap_or("-"),
        facts.tie.unwrap_or("-"),
        Dashed(facts.shadow.map(str::as_bytes)),
        facts.reason().unwrap_or("-"),
    )?;
    for (key, figure) in facts.figures() {
        write!(to, " {key}={}", DashedFigure(figure))?;
    }
    write!(
        to,
        " bytes_in={} queue_us={} connect_us={} first_byte_us={} total_us={} grpc_status={} end={} error=\"{}\" trace_id={} id=\"{}\"",
        facts.bytes_in,
        Micros(facts.queue),
        Micros(facts.connect),
        Micros(facts.first_byte),
        facts.total.as_micros(),
        DashedFigure(facts.grpc_status.map(u128::from)),
        facts.end,
        Dashed(facts.error),
        DashedTrace(facts.trace),
        Quoted(request.id),
    )?;
    to.push(b'\n');
    Ok(())
}

/// Writes a JSON object. Unknown values are left out.
fn write_json(to: &mut Vec<u8>, facts: &Facts<'_>) -> std::io::Result<()> {
    let request = facts.request;
    write!(to, "{{\"time\":\"{}\"", Date::of(facts.at).rfc3339())?;
    write!(to, ",\"client\":\"{}\"", facts.client)?;
    write!(to, ",\"listener\":\"{}\"", facts.listener)?;
    optional(to, "host", request.host)?;
    write!(to, ",\"method\":\"{}\"", Json(request.method.as_bytes()))?;
    write!(to, ",\"path\":\"{}\"", Json(request.path.as_bytes()))?;
    optional(to, "query", request.query.map(str::as_bytes))?;
    write!(to, ",\"protocol\":\"{}\"", request.protocol)?;
    write!(to, ",\"status\":{}", facts.status)?;
    if let Some(status) = facts.grpc_status {
        write!(to, ",\"grpc_status\":{status}")?;
    }
    write!(to, ",\"bytes_in\":{}", facts.bytes_in)?;
    write!(to, ",\"bytes_out\":{}", facts.bytes_out)?;
    write!(to, ",\"service\":\"{}\"", Json(facts.service.as_bytes()))?;
    optional(to, "replica", facts.replica.map(str::as_bytes))?;
    write!(to, ",\"attempts\":{}", facts.attempts)?;
    optional(to, "hedge", facts.hedge.map(str::as_bytes))?;
    optional(to, "tie", facts.tie.map(str::as_bytes))?;
    optional(to, "shadow", facts.shadow.map(str::as_bytes))?;
    optional(to, "reason", facts.reason().map(str::as_bytes))?;
    for (key, figure) in facts.figures() {
        if let Some(figure) = figure {
            write!(to, ",\"{key}\":{figure}")?;
        }
    }
    for (key, span) in [
        ("queue_us", facts.queue),
        ("connect_us", facts.connect),
        ("first_byte_us", facts.first_byte),
        ("total_us", Some(facts.total)),
    ] {
        if let Some(span) = span {
            write!(to, ",\"{key}\":{}", span.as_micros())?;
        }
    }
    write!(to, ",\"end\":\"{}\"", facts.end)?;
    optional(to, "error", facts.error)?;
    if let Some(trace) = facts.trace {
        write!(to, ",\"trace_id\":\"{trace}\"")?;
    }
    write!(to, ",\"id\":\"{}\"", Json(request.id))?;
    optional(to, "referer", request.referer)?;
    optional(to, "user_agent", request.user_agent)?;
    to.extend_from_slice(b"}\n");
    Ok(())
}

impl Facts<'_> {
    fn reason(&self) -> Option<&'static str> {
        self.pick.map(|pick| pick.reason.as_str())
    }

    /// Returns the figures that the pick was based on, as far as they are known.
    fn figures(&self) -> [(&'static str, Option<u128>); 4] {
        let chosen = self.pick.and_then(|pick| pick.chosen);
        let rif_limit = self.pick.and_then(|pick| pick.rif_limit);
        let rif = |rif: Rif| u128::from(rif.count());
        [
            ("rif_limit", rif_limit.map(rif)),
            ("rif", chosen.map(|chosen| rif(chosen.rif))),
            (
                "latency_us",
                chosen.and_then(|chosen| Some(chosen.latency?.as_micros())),
            ),
            ("age_us", chosen.map(|chosen| chosen.age.as_micros())),
        ]
    }
}

fn optional(to: &mut Vec<u8>, key: &str, value: Option<&[u8]>) -> std::io::Result<()> {
    value.map_or(Ok(()), |value| write!(to, ",\"{key}\":\"{}\"", Json(value)))
}

fn question(query: Option<&str>) -> impl Display {
    fmt::from_fn(move |f| match query {
        Some(query) => write!(f, "?{}", Quoted(query.as_bytes())),
        None => Ok(()),
    })
}

/// Whole microseconds, or a dash.
struct Micros(Option<Duration>);

impl Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        DashedFigure(self.0.map(|span| span.as_micros())).fmt(f)
    }
}

/// A number, or a dash.
struct DashedFigure(Option<u128>);

impl Display for DashedFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(figure) => figure.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// A trace's id, or a dash.
struct DashedTrace(Option<TraceId>);

impl Display for DashedTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(trace) => trace.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// Bytes in quotes, or a dash if there are none.
struct Dashed<'a>(Option<&'a [u8]>);

impl Display for Dashed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quoted(self.0.unwrap_or(b"-")).fmt(f)
    }
}

/// Bytes between quotes: printable ASCII as it is, everything else as `\xHH`.
struct Quoted<'a>(&'a [u8]);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        let mut rest = self.0;
        while !rest.is_empty() {
            let plain = rest.iter().take_while(|byte| is_plain(**byte)).count();
            let (plain, tail) = rest.split_at(plain);
            // Printable ASCII is UTF-8.
            f.write_str(str::from_utf8(plain).unwrap_or_default())?;
            rest = match tail.split_first() {
                Some((byte @ (b'"' | b'\\'), tail)) => {
                    write!(f, "\\{}", char::from(*byte))?;
                    tail
                }
                Some((byte, tail)) => {
                    write!(f, "\\x{byte:02X}")?;
                    tail
                }
                None => tail,
            };
        }
        Ok(())
    }
}

/// Bytes in a JSON string; invalid UTF-8 becomes U+FFFD.
struct Json<'a>(&'a [u8]);

impl Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for piece in chunk.valid().split_inclusive(is_special) {
                let special = piece.chars().next_back().filter(|last| is_special(*last));
                let plain = &piece[..piece.len() - special.map_or(0, char::len_utf8)];
                f.write_str(plain)?;
                if let Some(special) = special {
                    write!(f, "\\u{:04x}", u32::from(special))?;
                }
            }
            if !chunk.invalid().is_empty() {
                f.write_str("\u{FFFD}")?;
            }
        }
        Ok(())
    }
}

/// Whether JSON or a terminal would interpret the character, or whether it is invisible or changes
/// the order of the text. All such characters are below U+10000.
const fn is_special(c: char) -> bool {
    matches!(
        c,
        '"' | '\\'
            | '\0'..='\x1F'
            | '\x7F'..='\u{9F}'
            | '\u{AD}'
            | '\u{61C}'
            | '\u{180E}'
            | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{FEFF}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU128;
    use slackwater_core::ReplicaIds;
    use slackwater_core::policy::{PickReason, PooledView};
    use slackwater_tower::client::PickView;
    use std::time::UNIX_EPOCH;

    fn line(format: AccessLogFormat, facts: &Facts<'_>) -> String {
        let mut line = Vec::new();
        write_line(&mut line, format, facts);
        String::from_utf8(line).expect("lines are UTF-8")
    }

    fn request<'a>() -> RequestFacts<'a> {
        RequestFacts {
            method: "GET",
            path: "/a",
            query: None,
            protocol: "HTTP/1.1",
            host: None,
            referer: None,
            user_agent: None,
            id: b"7f",
        }
    }

    fn facts<'a>(request: &'a RequestFacts<'a>) -> Facts<'a> {
        Facts {
            request,
            at: UNIX_EPOCH + Duration::from_micros(1_798_761_599_000_042),
            client: [10, 0, 0, 9].into(),
            listener: "10.0.0.1:80",
            service: "default",
            replica: None,
            attempts: 0,
            hedge: None,
            tie: None,
            shadow: None,
            pick: None,
            status: 503,
            grpc_status: None,
            bytes_in: 0,
            bytes_out: 41,
            queue: None,
            connect: None,
            first_byte: None,
            total: Duration::from_nanos(12_999),
            end: "complete",
            error: Some(b"no_replica"),
            trace: None,
        }
    }

    fn pick() -> PickView {
        let replica = ReplicaIds::new().allocate().expect("room");
        let mut pick = PickView::without_report(replica, PickReason::Cold);
        pick.rif_limit = Some(Rif::new(5));
        pick.chosen = Some(PooledView {
            replica,
            rif: Rif::new(2),
            latency: Some(Duration::from_micros(3_100)),
            age: Duration::from_micros(40),
            uses_left: 1,
            local: false,
            hot: false,
        });
        pick
    }

    #[test]
    fn text_line_extends_the_combined_log_format() {
        let bare = request();
        assert_eq!(
            line(AccessLogFormat::Text, &facts(&bare)),
            "10.0.0.9 - - [31/Dec/2026:23:59:59 +0000] \"GET /a HTTP/1.1\" 503 41 \"-\" \"-\" host=\"-\" \
             listener=10.0.0.1:80 service=\"default\" replica=\"-\" attempts=0 hedge=- tie=- shadow=\"-\" reason=- \
             rif_limit=- rif=- latency_us=- age_us=- bytes_in=0 queue_us=- \
             connect_us=- first_byte_us=- total_us=12 grpc_status=- end=complete error=\"no_replica\" trace_id=- id=\"7f\"\n"
        );
        let full = RequestFacts {
            query: Some("q=1"),
            host: Some(b"example.com"),
            referer: Some(b"http://r/"),
            user_agent: Some(b"curl/8"),
            id: b"abc",
            ..request()
        };
        let pick = pick();
        let facts = Facts {
            replica: Some("10.0.0.7:80"),
            attempts: 2,
            hedge: Some("won"),
            tie: Some("lost"),
            shadow: Some("10.0.0.9:80"),
            pick: Some(&pick),
            status: 200,
            grpc_status: Some(14),
            queue: Some(Duration::from_micros(3)),
            connect: Some(Duration::from_micros(40)),
            first_byte: Some(Duration::from_micros(500)),
            error: None,
            trace: Some(TraceId(
                NonZeroU128::new(0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c).expect("not 0"),
            )),
            ..facts(&full)
        };
        assert_eq!(
            line(AccessLogFormat::Text, &facts),
            "10.0.0.9 - - [31/Dec/2026:23:59:59 +0000] \"GET /a?q=1 HTTP/1.1\" 200 41 \"http://r/\" \"curl/8\" \
             host=\"example.com\" listener=10.0.0.1:80 service=\"default\" replica=\"10.0.0.7:80\" attempts=2 hedge=won tie=lost shadow=\"10.0.0.9:80\" \
             reason=cold rif_limit=5 rif=2 latency_us=3100 age_us=40 bytes_in=0 queue_us=3 connect_us=40 first_byte_us=500 total_us=12 grpc_status=14 end=complete error=\"-\" trace_id=0af7651916cd43dd8448eb211c80319c id=\"abc\"\n"
        );
    }

    #[test]
    fn json_line_has_the_known_fields_only() {
        let bare = request();
        assert_eq!(
            line(AccessLogFormat::Json, &facts(&bare)),
            "{\"time\":\"2026-12-31T23:59:59.000042Z\",\"client\":\"10.0.0.9\",\"listener\":\"10.0.0.1:80\",\
             \"method\":\"GET\",\"path\":\"/a\",\"protocol\":\"HTTP/1.1\",\"status\":503,\"bytes_in\":0,\"bytes_out\":41,\
             \"service\":\"default\",\"attempts\":0,\"total_us\":12,\"end\":\"complete\",\"error\":\"no_replica\",\"id\":\"7f\"}\n"
        );
        let pick = pick();
        let told = Facts {
            pick: Some(&pick),
            status: 200,
            grpc_status: Some(14),
            ..facts(&bare)
        };
        let told = line(AccessLogFormat::Json, &told);
        let figures =
            r#""reason":"cold","rif_limit":5,"rif":2,"latency_us":3100,"age_us":40,"total_us""#;
        assert!(told.contains(figures), "{told}");
        let statuses = r#","status":200,"grpc_status":14,"bytes_in""#;
        assert!(told.contains(statuses), "{told}");
    }

    #[test]
    fn clients_cannot_forge_log_lines() {
        let evil = "\r\n\"\\\t\x1b[2J\u{7f}\u{9b}é\u{2028}\u{202E}\u{2066}\u{200B}".as_bytes();
        let broken = [evil, b"\xff\n"].concat();
        let hostile = RequestFacts {
            path: "/\"\n{}",
            query: Some("\u{85}\n"),
            host: Some(&broken),
            referer: Some(evil),
            user_agent: Some(evil),
            id: evil,
            ..request()
        };
        let text = line(AccessLogFormat::Text, &facts(&hostile));
        assert!(
            text.trim_end_matches('\n')
                .bytes()
                .all(|byte| matches!(byte, b' '..=b'~')),
            "{text:?}"
        );
        assert!(
            text.contains(r#"\x0D\x0A\"\\\x09\x1B[2J\x7F\xC2\x9B\xC3\xA9"#),
            "{text}"
        );
        // Every quote that a client sent is escaped, so the remaining quotes come in pairs.
        let bare = text.replace(r"\\", "").replace(r#"\""#, "");
        assert_eq!(bare.matches('"').count() % 2, 0, "{text}");

        let json = line(AccessLogFormat::Json, &facts(&hostile));
        assert!(
            !json
                .trim_end_matches('\n')
                .contains(is_special_outside_json),
            "{json:?}"
        );
        let read: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(read["path"], "/\"\n{}");
        assert_eq!(read["user_agent"].as_str().map(str::as_bytes), Some(evil));
        assert!(read["host"].as_str().expect("text").ends_with("\u{FFFD}\n"));
    }

    fn is_special_outside_json(c: char) -> bool {
        is_special(c) && c != '"' && c != '\\'
    }
}
