//! Heads that are accepted, and those that are refused.

mod limits;
mod writes;

use super::*;
use core::fmt;

const LIMITS: HeadLimits = HeadLimits {
    bytes_max: 1000,
    fields_max: 10,
};

const GET: &[(&str, &str)] = &[
    (":method", "GET"),
    (":scheme", "http"),
    (":authority", "x"),
    (":path", "/a?b"),
];

/// Encodes a string without Huffman code.
fn string(text: &str) -> Vec<u8> {
    let mut written = Vec::new();
    let mut length = text.len();
    if length >= 0x7f {
        written.push(0x7f);
        length -= 0x7f;
        while length >= 0x80 {
            written.push(length.to_le_bytes()[0] | 0x80);
            length >>= 7;
        }
    }
    written.push(length.to_le_bytes()[0]);
    written.extend(text.bytes());
    written
}

/// Encodes literal fields, each with indexing.
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let field = |(name, value): &(&str, &str)| [vec![0x40], string(name), string(value)].concat();
    fields.iter().flat_map(field).collect()
}

fn request(fields: &[(&str, &str)]) -> Result<RequestHead, BadHead> {
    decode_request(&mut Decoder::new(), &block(fields), LIMITS, Fields::new())
}

fn response(fields: &[(&str, &str)]) -> Result<ResponseHead, BadHead> {
    decode_response(&mut Decoder::new(), &block(fields), LIMITS, Fields::new())
}

fn trailers(fields: &[(&str, &str)]) -> Result<HeaderMap, BadHead> {
    decode_trailers(&mut Decoder::new(), &block(fields), LIMITS)
}

/// Decodes a GET with more fields.
fn with(fields: &[(&str, &str)]) -> Result<RequestHead, BadHead> {
    request(&[GET, fields].concat())
}

/// Decodes a GET with another value.
fn replaced(name: &str, value: &str) -> Result<RequestHead, BadHead> {
    let mut fields = GET.to_vec();
    for field in &mut fields {
        if field.0 == name {
            field.1 = value;
        }
    }
    request(&fields)
}

fn without(name: &str) -> Result<RequestHead, BadHead> {
    let mut fields = GET.to_vec();
    fields.retain(|field| field.0 != name);
    request(&fields)
}

#[track_caller]
fn is_malformed<T: fmt::Debug>(decoded: Result<T, BadHead>) {
    let bad = decoded.expect_err("no head");
    assert!(matches!(bad, BadHead::Malformed(_)), "{bad:?}");
}

#[track_caller]
fn has_bad_octets<T: fmt::Debug>(decoded: Result<T, BadHead>) {
    let bad = decoded.expect_err("no head");
    assert!(matches!(bad, BadHead::Octets(_)), "{bad:?}");
}

#[test]
fn valid_request_is_decoded() {
    let head = with(&[
        ("content-length", "7"),
        ("te", "trailers"),
        ("a", ""),
        ("a", "b \u{e9}\tc"),
    ])
    .expect("a request");
    assert_eq!(head.method, Method::GET);
    assert_eq!(head.uri, Uri::from_static("http://x/a?b"));
    assert_eq!(head.length, Some(7));
    let values: Vec<_> = head.headers.get_all("a").collect();
    assert_eq!(values, ["".as_bytes(), "b \u{e9}\tc".as_bytes()]);
    assert_eq!(head.headers.len(), 4);
    assert_eq!(with(&[]).expect("a request").length, None);
}

#[test]
fn target_is_built_from_pseudo_header_fields() {
    let uri = |fields: &[(&str, &str)]| request(fields).map(|head| head.uri.to_string());
    assert_eq!(uri(GET), Ok("http://x/a?b".to_owned()));
    let without_host = without(":authority").expect("a request").uri;
    assert_eq!(without_host, Uri::from_static("/a?b"));
    assert_eq!(without_host.scheme(), None);
    assert_eq!(
        uri(&[(":method", "CONNECT"), (":authority", "x:1")]),
        Ok("x:1".to_owned())
    );
    let asterisk = request(&[
        (":method", "OPTIONS"),
        (":scheme", "https"),
        (":authority", "x"),
        (":path", "*"),
    ])
    .expect("a request");
    assert_eq!(asterisk.uri.path(), "*");
    assert_eq!(asterisk.uri.scheme(), Some(&Scheme::HTTPS));
    // A user is checked where a request's host is.
    let user = replaced(":authority", "u@x").expect("a request");
    assert_eq!(user.uri.authority().map(Authority::as_str), Some("u@x"));
    // Pseudo-header fields may have any order.
    let mut fields = GET.to_vec();
    fields.reverse();
    assert_eq!(uri(&fields), Ok("http://x/a?b".to_owned()));
    assert_eq!(
        replaced(":scheme", "ftp")
            .expect("a request")
            .uri
            .scheme_str(),
        Some("ftp")
    );
}

#[test]
fn pseudo_header_fields_are_required_unique_and_first() {
    for (name, value) in GET {
        is_malformed(with(&[(name, value)]));
        if *name != ":authority" {
            is_malformed(without(name));
        }
        let behind: Vec<_> = (GET.iter().filter(|field| field.0 != *name))
            .chain([&("a", "b"), &(*name, *value)])
            .copied()
            .collect();
        is_malformed(request(&behind));
    }
    is_malformed(with(&[(":status", "200")]));
    is_malformed(with(&[(":protocol", "websocket")]));
    is_malformed(request(&[]));
    for connect in [
        &[(":method", "CONNECT")][..],
        &[
            (":method", "CONNECT"),
            (":authority", "x:1"),
            (":scheme", "http"),
        ],
        &[
            (":method", "CONNECT"),
            (":authority", "x:1"),
            (":path", "/"),
        ],
        &[
            (":method", "CONNECT"),
            (":protocol", "websocket"),
            (":authority", "x"),
            (":scheme", "http"),
            (":path", "/"),
        ],
    ] {
        is_malformed(request(connect));
    }
}

#[test]
fn invalid_pseudo_header_values_are_rejected() {
    for path in [
        "",
        "a",
        "?a",
        "http://y/a",
        "/a b",
        "/a\r\nb: c",
        "/a#b",
        "#",
        "**",
        "*/",
        "/\u{7f}",
        "/\0",
    ] {
        is_malformed(replaced(":path", path));
    }
    for scheme in ["", "http://y/?", "ht tp", "h\r\n"] {
        is_malformed(replaced(":scheme", scheme));
    }
    for authority in ["", "x/y", "x\r\na: b", "x y", "x\0", "x?", "[::1", "x:1:2"] {
        is_malformed(replaced(":authority", authority));
    }
    for method in ["", "GET /b", "GET\r\n", "G\0", "G\u{e9}"] {
        has_bad_octets(replaced(":method", method));
    }
    assert_eq!(
        replaced(":method", "get")
            .expect("a request")
            .method
            .as_str(),
        "get"
    );
}

#[test]
fn connection_specific_fields_are_rejected() {
    for (name, value) in [
        ("connection", "close"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("te", "trailers, gzip"),
        ("te", ""),
    ] {
        is_malformed(with(&[(name, value)]));
        is_malformed(response(&[(":status", "200"), (name, value)]));
        is_malformed(trailers(&[(name, value)]));
    }
    // The static table's `transfer-encoding`, by its index.
    let block = [&block(GET)[..], &[0x80 | 0x39]].concat();
    is_malformed(decode_request(
        &mut Decoder::new(),
        &block,
        LIMITS,
        Fields::new(),
    ));
}

#[test]
fn invalid_octets_in_names_and_values_are_rejected() {
    for name in [
        "A", "aB", "", "a b", "a:", "a\r\nb", "a\0", "\u{e9}", ":a", ":", ":Path",
    ] {
        has_bad_octets(with(&[(name, "b")]));
        has_bad_octets(trailers(&[(name, "b")]));
    }
    for value in ["b\r\nc: d", "b\nc", "b\rc", "b\0c", "\u{7f}", "\u{1b}"] {
        has_bad_octets(with(&[("a", value)]));
        has_bad_octets(trailers(&[("a", value)]));
    }
    for value in [" b", "b ", "\tb", "b\t", " ", "\t"] {
        is_malformed(with(&[("a", value)]));
        is_malformed(trailers(&[("a", value)]));
    }
}

#[test]
fn content_length_must_be_one_number() {
    for good in [("0", 0), ("007", 7), ("18446744073709551615", u64::MAX)] {
        let head = with(&[("content-length", good.0)]).expect("a request");
        assert_eq!(head.length, Some(good.1));
    }
    for bad in [
        "",
        "+5",
        "-5",
        "5,5",
        "0x5",
        "5.0",
        "18446744073709551616",
        "5 5",
    ] {
        is_malformed(with(&[("content-length", bad)]));
        is_malformed(response(&[(":status", "200"), ("content-length", bad)]));
    }
    is_malformed(with(&[("content-length", "5"), ("content-length", "4")]));
    is_malformed(with(&[("content-length", "5"), ("content-length", "5")]));
}

#[test]
fn valid_response_is_decoded() {
    let head = response(&[(":status", "404"), ("content-length", "3"), ("a", "b")]);
    let head = head.expect("a response");
    assert_eq!(head.status, StatusCode::NOT_FOUND);
    assert_eq!(head.length, Some(3));
    assert_eq!(head.headers.get("a").expect("a field"), "b");
    let interim = response(&[(":status", "103")]).expect("a response");
    assert_eq!(interim.status, StatusCode::EARLY_HINTS);
}

#[test]
fn response_needs_one_status_and_no_request_fields() {
    is_malformed(response(&[]));
    is_malformed(response(&[("a", "b")]));
    is_malformed(response(&[(":status", "200"), (":status", "200")]));
    is_malformed(response(&[("a", "b"), (":status", "200")]));
    is_malformed(response(&[(":status", "101")]));
    for part in GET {
        is_malformed(response(&[(":status", "200"), *part]));
    }
    for status in ["", "20", "2000", "2x0", "099", "+20"] {
        has_bad_octets(response(&[(":status", status)]));
    }
}

#[test]
fn trailers_have_no_pseudo_header_fields() {
    let read = trailers(&[("grpc-status", "0")]).expect("trailers");
    assert_eq!(read["grpc-status"], "0");
    assert_eq!(trailers(&[]), Ok(HeaderMap::new()));
    is_malformed(trailers(&[(":status", "200")]));
    for part in GET {
        is_malformed(trailers(&[*part]));
    }
}

#[test]
fn rejected_head_keeps_the_dynamic_table_in_sync() {
    let large = "x".repeat(900);
    let refused: [&[(&str, &str)]; 6] = [
        &[("a", "b"), ("te", "gzip")],
        &[("a", "b"), ("B", "")],
        &[("a", "b"), ("c", "\n")],
        &[("a", "b"), ("c", &large)],
        &[("a", "b"), (":path", "/")],
        &[("a", "b"), (":b", "")],
    ];
    for fields in refused {
        for is_skipped in [false, true] {
            let mut decoder = Decoder::new();
            let block = block(&[GET, fields].concat());
            if is_skipped {
                assert_eq!(skip_block(&mut decoder, &block, LIMITS), Ok(()));
            } else {
                let read = decode_request(&mut decoder, &block, LIMITS, Fields::new());
                assert!(read.is_err(), "{read:?}");
            }
            // The last field but one.
            let read = decode_trailers(&mut decoder, &[0x80 | 0x3f], LIMITS);
            assert_eq!(read.expect("trailers")["a"], "b", "{fields:?}");
        }
    }
}

#[test]
fn unreadable_blocks_are_compression_errors() {
    let mut decoder = Decoder::new();
    for read in [
        decode_request(&mut decoder, &[0x80], LIMITS, Fields::new()).err(),
        decode_response(&mut decoder, &[0x80], LIMITS, Fields::new()).err(),
        decode_trailers(&mut decoder, &[0x80], LIMITS).err(),
        skip_block(&mut decoder, &[0x80], LIMITS).err(),
    ] {
        assert!(matches!(read, Some(BadHead::Compression(_))), "{read:?}");
    }
}
