//! Heads as they come in and as they go out.

use super::super::body::RequestBody;
use super::*;
use ReplicaProtocol::{H2c, Http1};

fn origin() -> Origin {
    Origin {
        listener: 0,
        client: HeaderValue::from_static("192.0.2.7"),
        local: Authority::from_static("198.51.100.1:8080"),
    }
}

fn request(
    target: &'static str,
    version: Version,
    fields: &[(&'static str, &'static str)],
) -> Request<RequestBody> {
    let mut builder = Request::builder().uri(target).version(version);
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    builder
        .body(RequestBody::default())
        .expect("a valid request")
}

fn prepared(
    protocol: ReplicaProtocol,
    target: &'static str,
    version: Version,
    fields: &[(&'static str, &'static str)],
) -> Request<RequestBody> {
    let mut request = request(target, version, fields);
    prepare_request(&mut request, protocol, &origin()).expect("not refused");
    request
}

fn refused(version: Version, fields: &[(&'static str, &'static str)]) -> u16 {
    let mut request = request("/", version, fields);
    prepare_request(&mut request, Http1, &origin())
        .expect_err("should be refused")
        .status
        .as_u16()
}

fn field<'a>(request: &'a Request<RequestBody>, name: &str) -> Vec<&'a str> {
    let values = request.headers().get_all(name);
    values
        .iter()
        .map(|value| value.to_str().expect("text"))
        .collect()
}

#[test]
fn fields_of_one_connection_do_not_pass() {
    let request = prepared(
        Http1,
        "/a",
        Version::HTTP_11,
        &[
            ("host", "x"),
            ("connection", "close, X-Private"),
            ("connection", "x-other"),
            ("x-private", "1"),
            ("x-other", "2"),
            ("x-public", "3"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eA=="),
            ("transfer-encoding", "chunked"),
            ("te", "gzip"),
            ("upgrade", "websocket"),
        ],
    );
    let mut names: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["host", "via", "x-forwarded-for", "x-public"]);
}

#[test]
fn what_frames_or_addresses_a_message_cannot_be_declared_away() {
    let request = prepared(
        Http1,
        "/",
        Version::HTTP_11,
        &[
            ("host", "x"),
            ("content-length", "5"),
            ("connection", "host, content-length"),
        ],
    );
    assert_eq!(field(&request, "host"), ["x"]);
    assert_eq!(field(&request, "content-length"), ["5"]);
}

#[test]
fn trailers_stay_welcome() {
    let fields = [
        ("host", "x"),
        ("te", "deflate, trailers"),
        ("connection", "te"),
    ];
    let to_http2 = prepared(H2c, "/", Version::HTTP_11, &fields);
    assert_eq!(field(&to_http2, "te"), ["trailers"]);
    assert!(field(&to_http2, "connection").is_empty());
    let to_http1 = prepared(Http1, "/", Version::HTTP_11, &fields);
    assert_eq!(field(&to_http1, "te"), ["trailers"]);
    assert_eq!(field(&to_http1, "connection"), ["te"]);
}

#[test]
fn the_client_joins_those_it_was_forwarded_for() {
    let alone = prepared(Http1, "/", Version::HTTP_11, &[("host", "x")]);
    assert_eq!(field(&alone, "x-forwarded-for"), ["192.0.2.7"]);
    let chain = prepared(
        Http1,
        "/",
        Version::HTTP_11,
        &[
            ("host", "x"),
            ("x-forwarded-for", "203.0.113.1, 203.0.113.2"),
            ("x-forwarded-for", "203.0.113.3"),
        ],
    );
    assert_eq!(
        field(&chain, "x-forwarded-for"),
        ["203.0.113.1, 203.0.113.2, 203.0.113.3, 192.0.2.7"]
    );
}

#[test]
fn the_target_is_put_where_the_replica_looks_for_it() {
    let from_http2 = prepared(Http1, "http://shop.example/cart?id=1", Version::HTTP_2, &[]);
    assert_eq!(from_http2.uri(), "/cart?id=1");
    assert_eq!(field(&from_http2, "host"), ["shop.example"]);
    assert_eq!(from_http2.version(), Version::HTTP_11);

    let absolute = prepared(
        Http1,
        "http://me@a.example:81/p",
        Version::HTTP_11,
        &[("host", "b.example")],
    );
    assert_eq!(absolute.uri(), "/p");
    assert_eq!(field(&absolute, "host"), ["a.example:81"]);

    let to_http2 = prepared(H2c, "/p?q", Version::HTTP_11, &[("host", "a.example:81")]);
    assert_eq!(to_http2.uri(), "http://a.example:81/p?q");
    assert!(field(&to_http2, "host").is_empty());
    assert_eq!(to_http2.version(), Version::HTTP_2);

    let old = prepared(Http1, "/", Version::HTTP_10, &[]);
    assert_eq!(field(&old, "host"), ["198.51.100.1:8080"]);
    let old_to_http2 = prepared(H2c, "/x", Version::HTTP_10, &[]);
    assert_eq!(old_to_http2.uri(), "http://198.51.100.1:8080/x");
}

#[test]
fn cookies_are_one_field_in_http1() {
    let fields = [("cookie", "a=1"), ("cookie", "b=2")];
    let joined = prepared(Http1, "http://x/", Version::HTTP_2, &fields);
    assert_eq!(field(&joined, "cookie"), ["a=1; b=2"]);
    let split = prepared(H2c, "http://x/", Version::HTTP_2, &fields);
    assert_eq!(field(&split, "cookie"), ["a=1", "b=2"]);
}

#[test]
fn what_can_be_read_in_two_ways_is_refused() {
    assert_eq!(refused(Version::HTTP_11, &[]), 400);
    assert_eq!(
        refused(Version::HTTP_11, &[("host", "a"), ("host", "b")]),
        400
    );
    assert_eq!(refused(Version::HTTP_11, &[("host", "a b")]), 400);
    assert_eq!(refused(Version::HTTP_11, &[("host", "a@b")]), 400);
    assert_eq!(
        refused(
            Version::HTTP_11,
            &[("host", "a"), ("transfer-encoding", "gzip, chunked")]
        ),
        501
    );
    let mut tunnel = request("a.example:443", Version::HTTP_11, &[("host", "a")]);
    *tunnel.method_mut() = Method::CONNECT;
    let refusal = prepare_request(&mut tunnel, Http1, &origin()).expect_err("no tunnels");
    assert_eq!(refusal.status.as_u16(), 501);
}

#[test]
fn a_response_loses_the_fields_of_its_connection() {
    let mut response = Response::builder()
        .version(Version::HTTP_10)
        .header("connection", "keep-alive, x-hop")
        .header("keep-alive", "timeout=5")
        .header("x-hop", "1")
        .header("transfer-encoding", "chunked")
        .header("trailer", "x-sum")
        .header("set-cookie", "a")
        .header("set-cookie", "b")
        .body(())
        .expect("a valid response");
    assert!(prepare_response(&mut response));
    assert_eq!(response.version(), Version::HTTP_11);
    let mut names: Vec<&str> = response.headers().keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["set-cookie", "trailer"]);
    assert_eq!(response.headers().get_all("set-cookie").iter().count(), 2);

    let mut coded = Response::new(());
    coded.headers_mut().insert(
        "transfer-encoding",
        HeaderValue::from_static("gzip, chunked"),
    );
    assert!(!prepare_response(&mut coded));
}

#[test]
fn a_transfer_coding_overrides_a_length() {
    let both = [
        ("host", "x"),
        ("content-length", "5"),
        ("transfer-encoding", "chunked"),
    ];
    for protocol in [Http1, H2c] {
        let request = prepared(protocol, "/", Version::HTTP_11, &both);
        assert!(field(&request, "content-length").is_empty());
    }
    let mut response = Response::builder()
        .header("content-length", "5")
        .header("transfer-encoding", "chunked")
        .body(())
        .expect("a valid response");
    assert!(prepare_response(&mut response));
    assert!(response.headers().is_empty());
}

#[test]
fn expectations_are_met_here_or_refused() {
    let fields = [("host", "x"), ("expect", "100-Continue")];
    for protocol in [Http1, H2c] {
        let request = prepared(protocol, "/", Version::HTTP_11, &fields);
        assert!(field(&request, "expect").is_empty());
    }
    let unknown = [("host", "x"), ("expect", "100-continue, x")];
    assert_eq!(refused(Version::HTTP_11, &unknown), 417);
}

#[test]
fn a_host_is_a_host_for_http2_replicas_too() {
    let target = "http://me@a.example:81/p";
    for version in [Version::HTTP_11, Version::HTTP_2] {
        let request = prepared(H2c, target, version, &[("host", "x")]);
        assert_eq!(request.uri(), "http://a.example:81/p");
    }
    let mut with_user = request("/", Version::HTTP_11, &[("host", "u@x")]);
    let refusal = prepare_request(&mut with_user, H2c, &origin()).expect_err("not a host");
    assert_eq!(refusal.status.as_u16(), 400);
}

#[test]
fn only_options_asks_about_the_whole_server() {
    for protocol in [Http1, H2c] {
        let mut other = request("*", Version::HTTP_11, &[("host", "x")]);
        let refusal = prepare_request(&mut other, protocol, &origin()).expect_err("not OPTIONS");
        assert_eq!(refusal.status.as_u16(), 400);
        for (target, path) in [("*", "*"), ("http://x/", "/")] {
            let mut options = request(target, Version::HTTP_11, &[("host", "x")]);
            *options.method_mut() = Method::OPTIONS;
            prepare_request(&mut options, protocol, &origin()).expect("not refused");
            assert_eq!(options.uri().path(), path, "{target}");
        }
    }
}

#[test]
fn a_request_that_comes_back_is_in_a_loop() {
    let fields = [("host", "x"), ("via", "1.0 edge, 2 other")];
    let mut passed = prepared(Http1, "/", Version::HTTP_11, &fields);
    assert_eq!(field(&passed, "via").len(), 2);
    assert!(field(&passed, "via")[1].starts_with("1.1 slackwater-"));
    let refusal = prepare_request(&mut passed, Http1, &origin()).expect_err("a loop");
    assert_eq!(refusal.status.as_u16(), 508);
}
