//! Blocks that are encoded, octet by octet.

use super::super::decoder::Decoder;
use super::super::encoder::Encoder;
use super::super::table::Kind;
use super::{octets, texts};
use crate::fields::FieldValue;
use bytes::BytesMut;
use http::header::HeaderValue;
use http::{Method, StatusCode};

fn block(encoder: &mut Encoder, fields: &[(&'static str, &str)]) -> Vec<u8> {
    let mut out = BytesMut::new();
    encoder.encode(Kind::Head, &mut out, |block| {
        for (name, value) in fields {
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a value");
            block.header(name.as_ref(), value.value());
        }
    });
    out.to_vec()
}

#[test]
fn repeated_field_gets_an_index() {
    let mut encoder = Encoder::new();
    let usual = [("content-type", "application/grpc"), ("x-a", "b")];
    let full = [
        &octets("0f 10 10")[..],
        b"application/grpc",
        &octets("00 03")[..],
        b"x-a\x01b",
    ];
    assert_eq!(block(&mut encoder, &usual), full.concat());
    let told = [
        &octets("5f 10")[..],
        b"application/grpc",
        &octets("40 03")[..],
        b"x-a\x01b",
    ];
    assert_eq!(block(&mut encoder, &usual), told.concat());
    assert_eq!(block(&mut encoder, &usual), octets("bf be"));
    assert_eq!(block(&mut encoder, &usual), octets("bf be"));
}

#[test]
fn changing_fields_do_not_evict_indexed_fields() {
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new();
    let mut last = 0;
    for number in 0..2000 {
        let id = number.to_string();
        let written = block(&mut encoder, &[("x-usual", "yes"), ("x-request-id", &id)]);
        let read = texts(&mut decoder, &written);
        assert_eq!(
            read,
            ["x-usual: yes".to_owned(), format!("x-request-id: {id}")]
        );
        last = written.len();
    }
    assert_eq!(last, 1 + 1 + 1 + 12 + 1 + 4);
    assert_eq!(decoder.bytes(), 7 + 3 + 32);
}

#[test]
fn field_is_matched_by_name_and_value() {
    let alike = [
        ("x-ab", "c"),
        ("x-a", "bc"),
        ("x-abc", ""),
        ("age", "x-ab"),
        ("etag", "x-ab"),
        ("x-ab", "d"),
    ];
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new();
    // Each several times, and each after each.
    for first in alike {
        for second in alike {
            for field in [first, first, second, second, first] {
                let read = texts(&mut decoder, &block(&mut encoder, &[field]));
                assert_eq!(read, [format!("{}: {}", field.0, field.1)]);
            }
        }
    }
}

#[test]
fn secrets_are_never_indexed() {
    for name in [
        "authorization",
        "cookie",
        "set-cookie",
        "proxy-authorization",
    ] {
        let mut encoder = Encoder::new();
        for _ in 0..3 {
            let written = block(&mut encoder, &[(name, "secret")]);
            assert_eq!(written[0] & 0xf0, 0x10, "{name}");
            assert!(written.ends_with(b"\x06secret"), "{name}");
        }
    }
    let mut encoder = Encoder::new();
    let mut value = HeaderValue::from_static("b");
    value.set_sensitive(true);
    for _ in 0..3 {
        let mut out = BytesMut::new();
        encoder.encode(Kind::Head, &mut out, |block| {
            block.header(b"a", value.value());
        });
        assert_eq!(out[..], octets("10 01 61 01 62"));
    }
}

#[test]
fn connection_specific_fields_are_omitted() {
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    ] {
        assert_eq!(block(&mut Encoder::new(), &[(name, "a")]), b"", "{name}");
    }
}

#[test]
fn large_field_gets_no_index() {
    // With name and overhead, a quarter of the table, and one octet more.
    for (length, is_told) in [(1024 - 1 - 32, true), (1024 - 32, false)] {
        let mut encoder = Encoder::new();
        let value = "x".repeat(length);
        block(&mut encoder, &[("a", &value)]);
        let written = block(&mut encoder, &[("a", &value)]);
        assert_eq!(written[0] == 0x40, is_told, "{length}");
    }
}

#[test]
fn table_size_update_is_sent() {
    let usual = [("a", "b")];
    let first_octets = |sizes: &[u32]| {
        let mut encoder = Encoder::new();
        for _ in 0..3 {
            block(&mut encoder, &usual);
        }
        for size in sizes {
            encoder.set_table_bytes_max(*size);
        }
        let written = block(&mut encoder, &usual);
        // The change is sent once.
        let next = block(&mut encoder, &usual);
        assert_ne!(
            next.first().map(|octet| octet & 0xe0),
            Some(0x20),
            "{sizes:?}"
        );
        written
    };
    assert_eq!(first_octets(&[]), octets("be"));
    assert_eq!(first_octets(&[4096]), octets("be"));
    assert_eq!(first_octets(&[1 << 20]), octets("be"));
    assert_eq!(first_octets(&[100]), octets("3f 45 be"));
    // Too small for the field, which is evicted.
    assert_eq!(first_octets(&[33]), octets("3f 02 00 01 61 01 62"));
    assert_eq!(first_octets(&[0]), octets("20 00 01 61 01 62"));
    // Down and up again: both are sent, because the field was evicted in between.
    assert_eq!(
        first_octets(&[0, 200]),
        octets("20 3f a9 01 40 01 61 01 62")
    );
    assert_eq!(
        first_octets(&[0, 1 << 20]),
        octets("20 3f e1 1f 40 01 61 01 62")
    );
    assert_eq!(first_octets(&[200, 100]), octets("3f 45 be"));
}

#[test]
fn pseudo_header_fields_use_static_indices() {
    let mut encoder = Encoder::new();
    let mut decoder = Decoder::new();
    for _ in 0..3 {
        for method in [Method::GET, Method::POST, Method::PUT, Method::CONNECT] {
            let mut out = BytesMut::new();
            encoder.encode(Kind::Head, &mut out, |block| block.method(&method));
            assert_eq!(texts(&mut decoder, &out), [format!(":method: {method}")]);
        }
        for scheme in ["http", "https", "ftp"] {
            let mut out = BytesMut::new();
            encoder.encode(Kind::Head, &mut out, |block| {
                block.scheme(&scheme.parse().expect("a scheme"));
            });
            assert_eq!(texts(&mut decoder, &out), [format!(":scheme: {scheme}")]);
        }
        for path in ["/", "/index.html", "/a?b", "*"] {
            let mut out = BytesMut::new();
            encoder.encode(Kind::Head, &mut out, |block| block.path(path));
            assert_eq!(texts(&mut decoder, &out), [format!(":path: {path}")]);
        }
        for status in (100..=999).filter(|status| *status != 101) {
            let mut out = BytesMut::new();
            let code = StatusCode::from_u16(status).expect("a status");
            encoder.encode(Kind::Head, &mut out, |block| block.status(code));
            assert_eq!(texts(&mut decoder, &out), [format!(":status: {status}")]);
        }
    }
    let mut out = BytesMut::new();
    encoder.encode(Kind::Head, &mut out, |block| {
        block.method(&Method::GET);
        block.method(&Method::POST);
        block.path("/");
        for status in [200, 204, 206, 304, 400, 404, 500] {
            block.status(StatusCode::from_u16(status).expect("a status"));
        }
    });
    assert_eq!(out[..], octets("82 83 84 88 89 8a 8b 8c 8d 8e"));
}
