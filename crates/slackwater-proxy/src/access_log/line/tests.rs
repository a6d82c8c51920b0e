//! The lines of both formats, byte for byte.

use super::escape::is_special;
use super::given::{GivenFacts, GivenRequest};
use super::*;
use crate::access_log::buffer::LineBuffer;
use core::num::NonZeroU128;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use slackwater_core::ReplicaIds;
use slackwater_core::policy::{PickReason, PooledView};
use std::time::UNIX_EPOCH;

fn line(format: AccessLogFormat, facts: &GivenFacts<'_>) -> String {
    let mut lines = LineBuffer::new();
    assert!(lines.add(|line| LineWriter::new(format).add(line, facts)));
    String::from_utf8(lines.lines().to_owned()).expect("lines are UTF-8")
}

fn request<'a>() -> GivenRequest<'a> {
    GivenRequest {
        method: "GET",
        path: b"/a",
        query: None,
        protocol: b"HTTP/1.1",
        host: None,
        referer: None,
        user_agent: None,
        id: Id::Given(b"7f"),
    }
}

fn facts<'a>(request: &'a GivenRequest<'a>) -> GivenFacts<'a> {
    GivenFacts {
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
    let full = GivenRequest {
        query: Some(b"q=1"),
        host: Some(b"example.com"),
        referer: Some(b"http://r/"),
        user_agent: Some(b"curl/8"),
        id: Id::Given(b"abc"),
        ..request()
    };
    let pick = pick();
    let facts = GivenFacts {
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
    let told = GivenFacts {
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
    let hostile = GivenRequest {
        path: b"/\"\n{}",
        query: Some("\u{85}\n".as_bytes()),
        host: Some(&broken),
        referer: Some(evil),
        user_agent: Some(evil),
        id: Id::Given(evil),
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

/// Any text, of which short and plain ones, long ones and hostile ones are equally likely.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z/.]{0,20}",
        "[ -~]{0,80}",
        ".{0,20}",
        "[\\PC\"\\\\\\x00-\\x1f\u{80}-\u{9f}\u{2028}\u{FEFF}]{0,20}"
    ]
}

/// What a header may contain, and more: text, or any bytes.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        texts().prop_map(String::into_bytes),
        vec(any::<u8>(), 0..40),
        // One byte that may need an escape, at each place of a block.
        (
            vec(select(b"az~ ".as_slice()), 0..40),
            any::<u8>(),
            any::<prop::sample::Index>()
        )
            .prop_map(|(mut text, byte, at)| {
                text.insert(at.index(text.len() + 1), byte);
                text
            }),
    ]
}

fn spans() -> impl Strategy<Value = Duration> {
    let figures = prop_oneof![
        0..200_u64,
        0..1_000_000_u64,
        any::<u32>().prop_map(u64::from),
        0..1_u64 << 53
    ];
    (figures, 0..1_000_u64)
        .prop_map(|(micros, ns)| Duration::from_micros(micros) + Duration::from_nanos(ns))
}

fn clients() -> impl Strategy<Value = IpAddr> {
    let segments =
        core::array::from_fn::<_, 8, _>(|_| prop_oneof![2 => Just(0), 1 => any::<u16>()]);
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 4]>()
            .prop_map(|octets| core::net::Ipv4Addr::from(octets).to_ipv6_mapped().into()),
        segments.prop_map(IpAddr::from),
    ]
}

fn picks() -> impl Strategy<Value = PickView> {
    let (rif_limit, latency) = (option::of(any::<u32>()), option::of(spans()));
    let chosen = option::of((any::<u32>(), latency, spans()));
    (rif_limit, chosen).prop_map(|(rif_limit, chosen)| {
        let mut view = pick();
        view.rif_limit = rif_limit.map(Rif::new);
        view.chosen = chosen.map(|(rif, latency, age)| PooledView {
            replica: view.replica,
            rif: Rif::new(rif),
            latency,
            age,
            uses_left: 1,
            local: false,
            hot: false,
        });
        view
    })
}

proptest! {
    #[test]
    fn lines_are_byte_for_byte_those_of_the_standard_formatting(
        (path, query, service) in (texts(), option::of(texts()), texts()),
        (replica, shadow) in (option::of(texts()), option::of(texts())),
        headers in (option::of(bytes()), option::of(bytes()), option::of(bytes()), bytes(), option::of(bytes())),
        (client, ats) in (clients(), vec(spans(), 1..4)),
        (attempts, bytes_in, bytes_out) in any::<(u32, u64, u64)>(),
        (status, grpc_status, trace) in (0..1_000_u16, option::of(any::<u8>()), any::<u128>()),
        (hedge, tie) in (option::of(Just("won")), option::of(Just("lost"))),
        pick in option::of(picks()),
        (queue, connect, first_byte, total) in (option::of(spans()), option::of(spans()), option::of(spans()), spans()),
    ) {
        let (host, referer, user_agent, id, error) = &headers;
        let drawn = hex::digits(trace);
        let request = GivenRequest {
            method: "OPTIONS",
            path: path.as_bytes(),
            query: query.as_deref().map(str::as_bytes),
            protocol: b"HTTP/2.0",
            host: host.as_deref(),
            referer: referer.as_deref(),
            user_agent: user_agent.as_deref(),
            id: if attempts % 2 == 0 { Id::Given(id) } else { Id::Drawn(&drawn) },
        };
        for format in [AccessLogFormat::Text, AccessLogFormat::Json] {
            // Several lines of one writer, so that the text of a second is used again or replaced.
            let (mut writer, mut lines) = (LineWriter::new(format), LineBuffer::new());
            for at in &ats {
                let facts = GivenFacts {
                    request: &request,
                    at: UNIX_EPOCH + *at,
                    client,
                    listener: "[::1]:80",
                    service: &service,
                    replica: replica.as_deref(),
                    attempts,
                    hedge,
                    tie,
                    shadow: shadow.as_deref(),
                    pick: pick.as_ref(),
                    status,
                    grpc_status,
                    bytes_in,
                    bytes_out,
                    queue,
                    connect,
                    first_byte,
                    total,
                    end: "client_gone",
                    error: error.as_deref(),
                    trace: NonZeroU128::new(trace).map(TraceId),
                };
                lines.clear();
                prop_assert!(lines.add(|line| writer.add(line, &facts)));
                let expected = reference::line(format, &facts);
                prop_assert_eq!(str::from_utf8(lines.lines()), Ok(&*expected));
            }
        }
    }
}
