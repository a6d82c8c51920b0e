//! Heads that are accepted, and those that are refused; splits do not change the result.

use super::*;
use crate::fields::Fields;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, Version};
use proptest::prelude::*;

mod cuts;
mod differential;

const LIMITS: HeadLimits = HeadLimits {
    bytes_max: 4096,
    fields_max: 8,
};

fn request(head: &str) -> Result<RequestHead, BadMessage> {
    parse_request(
        &Bytes::copy_from_slice(head.as_bytes()),
        LIMITS,
        Fields::new(),
    )
}

fn response(method: &Method, head: &str) -> Result<ResponseHead, BadMessage> {
    let head = Bytes::copy_from_slice(head.as_bytes());
    parse_response(&head, method, LIMITS, Fields::new())
}

fn refused(head: &str) -> BadKind {
    match request(head) {
        Ok(read) => panic!("{head:?} was read as {read:?}"),
        Err(bad) => bad.kind,
    }
}

#[test]
fn valid_request_is_parsed() {
    let head = request("POST /a?b=c HTTP/1.1\r\nHost: x:1\r\nX-A:  1\t\r\nx-a: 2\r\nContent-Length: 5\r\nExpect: 100-Continue\r\n\r\n")
        .expect("valid");
    assert_eq!(head.method, Method::POST);
    assert_eq!(head.target.to_string(), "/a?b=c");
    assert_eq!(head.version, Version::HTTP_11);
    assert_eq!(head.headers.get("host").expect("a host"), "x:1");
    let values: Vec<_> = head.headers.get_all("x-a").collect();
    assert_eq!(values, ["1", "2"]);
    assert_eq!(head.body, BodyLength::Known(5));
    assert!(head.keep_alive && head.expects_continue && !head.upgrade);
}

#[test]
fn target_may_contain_unencoded_ascii_but_not_other_characters() {
    let target = |target: &str| {
        request(&format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n"))
            .map(|head| head.target.to_string())
            .map_err(|bad| bad.kind)
    };
    for good in [
        "/a?b={}|^`\\[]'",
        "/a|b{c}\"^",
        "/%C3%A9%00?%zz",
        "/-._~!$&'()*+,;=:@/?/",
    ] {
        assert_eq!(target(good), Ok(good.into()));
    }
    for bad in ["/\u{e9}", "/a?\u{e9}", "/a\x7f", "http://x/\u{e9}"] {
        assert_eq!(target(bad), Err(BadKind::Malformed), "{bad}");
    }
}

#[test]
fn all_forms_of_request_target_are_parsed() {
    let target = |line: &str| {
        request(&format!("{line} HTTP/1.1\r\nhost: x\r\n\r\n"))
            .map(|head| head.target.to_string())
            .map_err(|bad| bad.kind)
    };
    assert_eq!(target("GET http://y:2/a"), Ok("http://y:2/a".into()));
    assert_eq!(target("OPTIONS *"), Ok("*".into()));
    assert_eq!(target("CONNECT x:1"), Ok("x:1".into()));
    for bad in [
        "GET x:1",
        "GET x",
        "CONNECT /",
        "GET /a#b",
        "GET /a\u{7f}",
        "GET /a b",
        "GET ",
        "GET  /",
        "\r\nGET /",
        "GET \t/",
        "GET\t/",
        "G(T /",
    ] {
        assert_eq!(target(bad), Err(BadKind::Malformed), "{bad:?}");
    }
    let long = format!("GET /{}", "x".repeat(70_000));
    assert_eq!(target(&long), Err(BadKind::TargetTooLong));
}

#[test]
fn keep_alive_follows_version_and_connection_field() {
    for (version, connection, stays) in [
        ("1.1", "", true),
        ("1.1", "connection: close\r\n", false),
        ("1.1", "connection: keep-alive, Close\r\n", false),
        ("1.0", "", false),
        ("1.0", "connection: Keep-Alive\r\n", true),
        (
            "1.0",
            "connection: keep-alive\r\nconnection: close\r\n",
            false,
        ),
    ] {
        let head = format!("GET / HTTP/{version}\r\nhost: x\r\n{connection}\r\n");
        let read = request(&head).expect("valid");
        assert_eq!(read.keep_alive, stays, "{head:?}");
        let head = format!("HTTP/{version} 200 OK\r\n{connection}content-length: 0\r\n\r\n");
        let read = response(&Method::GET, &head).expect("valid");
        assert_eq!(read.keep_alive, stays, "{head:?}");
    }
}

#[test]
fn http_1_0_request_ignores_expect_and_upgrade() {
    let fields = "host: x\r\nexpect: 100-continue\r\nconnection: upgrade\r\nupgrade: y\r\n\r\n";
    let read = request(&format!("GET / HTTP/1.0\r\n{fields}")).expect("valid");
    assert!(!read.expects_continue && !read.upgrade);
    let read = request(&format!("GET / HTTP/1.1\r\n{fields}")).expect("valid");
    assert!(read.expects_continue && read.upgrade);
}

#[test]
fn connect_needs_host_and_port_and_has_no_body() {
    let connect = |target: &str, fields: &str| {
        let head = format!("CONNECT {target} HTTP/1.1\r\nhost: x\r\n{fields}\r\n");
        request(&head).map_err(|bad| bad.kind)
    };
    for good in ["x:443", "192.0.2.1:1", "[2001:db8::1]:65535"] {
        let read = connect(good, "content-length: 0\r\n").expect(good);
        assert_eq!(
            read.target.authority().map(http::uri::Authority::as_str),
            Some(good)
        );
        assert_eq!(read.body, BodyLength::Known(0));
    }
    for bad in [
        "x",
        "x:",
        "x:0",
        "x:65536",
        "x:-1",
        "x:a",
        ":443",
        "u@x:443",
        "u:1@x:443",
        "x:443/",
        "x:443?a",
        "/",
        "*",
        "http://x:443/",
        "x:443:444",
        "[x:443",
    ] {
        assert_eq!(connect(bad, "").err(), Some(BadKind::Malformed), "{bad}");
    }
    for body in ["content-length: 1\r\n", "transfer-encoding: chunked\r\n"] {
        let read = connect("x:443", body);
        assert_eq!(read.err(), Some(BadKind::Malformed), "{body}");
    }
}

#[test]
fn successful_connect_opens_a_tunnel_without_framing_fields() {
    let framed = "content-length: 5\r\n";
    for (status, opens) in [
        ("200", true),
        ("204", true),
        ("299", true),
        ("302", false),
        ("407", false),
    ] {
        for fields in ["", framed, "transfer-encoding: chunked\r\n"] {
            let head = format!("HTTP/1.1 {status} X\r\n{fields}\r\n");
            let read = response(&Method::CONNECT, &head).expect("valid");
            assert_eq!(read.is_tunnel, opens, "{status} {fields}");
            assert_eq!(read.headers.is_empty(), opens || fields.is_empty());
            assert!(!opens || read.body == BodyLength::Known(0) && !read.keep_alive);
            let usual = response(&Method::GET, &head).expect("valid");
            assert!(!usual.is_tunnel);
        }
    }
}

#[test]
fn ambiguous_requests_are_rejected() {
    for bad in [
        "content-length: 1\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 1\r\n",
        "content-length: 5\r\ncontent-length: 5\r\n",
        "content-length: 5, 5\r\n",
        "content-length: +5\r\n",
        "transfer-encoding: chunked, chunked\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        "transfer-encoding : chunked\r\n",
        "content-length\t: 5\r\n",
        " content-length: 5\r\n",
        "a: b\r\n c\r\n",
        "a: b\r\n\tc\r\n",
        "a: b\n",
        "a: b\nc: d\r\n",
        "a: b\rc: d\r\n",
        "a: b\0\r\n",
        "a: \u{b}b\r\n",
        "a: \u{7f}\r\n",
        ": b\r\n",
        "a\r\n",
        "a b: c\r\n",
        "host: y\r\n",
    ] {
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\n{bad}\r\n");
        assert_eq!(refused(&head), BadKind::Malformed, "{bad:?}");
    }
    assert_eq!(refused("GET / HTTP/1.1\r\n\r\n"), BadKind::Malformed);
    for bare in [
        "GET / HTTP/1.1\nhost: x\r\n\r\n",
        "\nGET / HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET\n/ HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET /\n HTTP/1.1\r\nhost: x\r\n\r\n",
        "GET / HTTP/1.1\n\r\nhost: x\r\n\r\n",
    ] {
        assert_eq!(refused(bare), BadKind::Malformed, "{bare:?}");
    }
    assert_eq!(
        refused("POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n"),
        BadKind::Malformed
    );
    assert_eq!(
        refused("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n"),
        BadKind::Coding
    );
}

#[test]
fn unsupported_version_differs_from_malformed_version() {
    for (version, kind) in [
        ("HTTP/2.0", BadKind::Version),
        ("HTTP/0.9", BadKind::Version),
        ("HTTP/1.2", BadKind::Malformed),
        ("http/1.1", BadKind::Malformed),
        ("HTTP/1.1 ", BadKind::Malformed),
        ("HTTP/11", BadKind::Malformed),
        ("", BadKind::Malformed),
    ] {
        let head = format!("GET / {version}\r\nhost: x\r\n\r\n");
        assert_eq!(refused(&head), kind, "{version:?}");
    }
}

#[test]
fn number_of_fields_is_bounded() {
    let with = |fields: usize, limits| {
        let fields = "a: b\r\n".repeat(fields);
        let head = Bytes::from(format!("GET / HTTP/1.0\r\n{fields}\r\n"));
        parse_request(&head, limits, Fields::new()).map_err(|bad| bad.kind)
    };
    assert!(with(8, LIMITS).is_ok());
    assert_eq!(with(9, LIMITS).err(), Some(BadKind::HeadTooLarge));
    let many = HeadLimits {
        fields_max: 300,
        ..LIMITS
    };
    assert!(with(300, many).is_ok());
    assert_eq!(with(301, many).err(), Some(BadKind::HeadTooLarge));
}

#[test]
fn response_body_length_follows_method_status_and_fields() {
    use BodyLength::{Chunked, Known, UntilClose};
    let (get, head) = (&Method::GET, &Method::HEAD);
    for (method, status, fields, length) in [
        (get, "200", "content-length: 5\r\n", Known(5)),
        (get, "200", "transfer-encoding: chunked\r\n", Chunked),
        (get, "200", "", UntilClose),
        (head, "200", "content-length: 5\r\n", Known(0)),
        (head, "200", "transfer-encoding: chunked\r\n", Known(0)),
        (head, "200", "", Known(0)),
        (get, "204", "content-length: 0\r\n", Known(0)),
        (get, "304", "content-length: 5\r\n", Known(0)),
        (get, "103", "link: x\r\n", Known(0)),
        (
            get,
            "101",
            "connection: upgrade\r\nupgrade: x\r\n",
            Known(0),
        ),
    ] {
        let read = response(method, &format!("HTTP/1.1 {status} X\r\n{fields}\r\n"))
            .unwrap_or_else(|bad| panic!("{status} {fields:?}: {bad}"));
        assert_eq!(read.body, length, "{method} {status} {fields:?}");
        assert_eq!(read.is_tunnel, status == "101");
        assert_eq!(read.keep_alive, length != UntilClose && !read.is_tunnel);
        assert_eq!(read.upgrade.is_some(), status == "101");
    }
}

#[test]
fn status_204_drops_content_length_and_304_keeps_it() {
    let fields = "content-length: 5\r\n";
    let read = response(&Method::GET, &format!("HTTP/1.1 204 X\r\n{fields}\r\n"));
    assert!(read.expect("valid").headers.is_empty());
    let read = response(&Method::GET, &format!("HTTP/1.1 304 X\r\n{fields}\r\n"));
    let headers = read.expect("valid").headers;
    let value = headers.get("content-length").expect("a length");
    assert_eq!(value, "5");
}

#[test]
fn responses_are_parsed_as_strictly_as_requests() {
    for bad in [
        "bananas\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length : 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n",
        "\r\nHTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    ] {
        assert!(response(&Method::GET, bad).is_err(), "{bad:?}");
    }
    let status =
        |line: &str| response(&Method::GET, &format!("{line}\r\n\r\n")).map(|read| read.status);
    assert_eq!(status("HTTP/1.1 200"), Ok(StatusCode::OK));
    assert_eq!(status("HTTP/1.1 200 "), Ok(StatusCode::OK));
    assert_eq!(
        status("HTTP/1.1 299 Not so usual"),
        StatusCode::from_u16(299).map_err(|_| unreachable!())
    );
}

#[test]
fn response_204_with_a_body_closes_the_connection() {
    let keeps = |method: &Method, head: &str| {
        let head = response(method, &format!("HTTP/1.1 {head}\r\n\r\n")).expect("valid");
        assert_eq!(head.body, BodyLength::Known(0));
        head.keep_alive
    };
    let get = Method::GET;
    assert!(keeps(&get, "204 No Content"));
    assert!(keeps(&get, "204 No Content\r\ncontent-length: 0"));
    assert!(!keeps(&get, "204 No Content\r\ncontent-length: 5"));
    assert!(!keeps(&get, "204 No Content\r\ntransfer-encoding: chunked"));
    // In these, it is the length that the body would have.
    assert!(keeps(&get, "304 Not Modified\r\ncontent-length: 5"));
    assert!(keeps(&Method::HEAD, "200 OK\r\ncontent-length: 5"));
}

#[test]
fn capacity_of_fields_is_reused() {
    let mut used = Fields::new();
    used.append("x", HeaderValue::try_from("v".repeat(64)).expect("a value"));
    used.clear();
    let head = Bytes::from_static(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    let read = parse_request(&head, LIMITS, used).expect("valid");
    assert!(read.headers.capacity() >= 64);
}

proptest! {
    /// A valid request is parsed, and gives the same result after it is written and parsed again.
    #[test]
    fn parsed_request_round_trips(
        name in "[xX]-[a-zA-Z0-9-]{1,12}",
        value in "[ -~\u{e9}\t]{0,20}",
        target in "/[a-zA-Z0-9._~!$&'()*+,;=:@/?%-]{0,20}",
        length in proptest::option::of(any::<u64>()),
    ) {
        let framing = length.map_or("transfer-encoding: chunked".to_owned(), |length| format!("content-length: {length}"));
        let head = format!("PUT {target} HTTP/1.1\r\nhost: x\r\n{name}: {value}\r\n{framing}\r\n\r\n");
        let read = request(&head).expect("as it is written");
        let bytes = head.as_bytes();
        prop_assert_eq!(end_of_head(bytes, 0), Some(bytes.len()));
        prop_assert!((0..bytes.len()).all(|cut| is_head_so_far(&bytes[..cut])));
        let framing = match read.body {
            BodyLength::Known(length) => Framing::Known(length),
            _ => Framing::Chunked,
        };
        let mut out = bytes::BytesMut::new();
        encode_request(&mut out, &read.method, &read.target, &read.headers, framing, None);
        let reread = parse_request(&out.freeze(), LIMITS, Fields::new()).expect("ours");
        prop_assert_eq!(read.target, reread.target);
        prop_assert_eq!(read.body, reread.body);
        prop_assert_eq!(read.headers.len(), reread.headers.len());
        for (name, value) in read.headers.iter() {
            let name = core::str::from_utf8(name).expect("ASCII");
            let again = reread.headers.get(name).expect(name);
            prop_assert_eq!(value, again);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
        let head = Bytes::from(octets);
        let _ = parse_request(&head, LIMITS, Fields::new());
        let _ = parse_response(&head, &Method::GET, LIMITS, Fields::new());
    }
}
