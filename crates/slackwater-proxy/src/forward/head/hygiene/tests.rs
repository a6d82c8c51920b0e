//! Heads before and after they are prepared.

use super::*;
use crate::forward::head::Rules;
use ReplicaProtocol::{H2c, Http1};
use core::net::SocketAddr;
use http::uri::Authority;
use slackwater_config::{ForwardedSettings, Limits};

fn origin() -> Origin {
    let rules = Rules::new(&ForwardedSettings::default(), &Limits::default());
    let client = SocketAddr::from(([192, 0, 2, 7], 50_000));
    Origin::new(
        &rules,
        client,
        Authority::from_static("198.51.100.1:8080"),
        0,
    )
}

fn request(
    target: &'static str,
    version: Version,
    fields: &[(&'static str, &'static str)],
) -> Request<()> {
    let mut builder = http::Request::builder().uri(target).version(version);
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    builder.body(()).expect("a valid request").into()
}

fn prepared(
    protocol: ReplicaProtocol,
    target: &'static str,
    version: Version,
    fields: &[(&'static str, &'static str)],
) -> Request<()> {
    let mut request = request(target, version, fields);
    prepare_request(&mut request, protocol, Connect::Refuse, &origin()).expect("not refused");
    request
}

fn refused(version: Version, fields: &[(&'static str, &'static str)]) -> u16 {
    let mut request = request("/", version, fields);
    prepare_request(&mut request, Http1, Connect::Refuse, &origin())
        .expect_err("should be refused")
        .status
        .as_u16()
}

fn names(headers: &Fields) -> Vec<String> {
    let names = headers.keys();
    names.map(|name| name.escape_ascii().to_string()).collect()
}

fn field<'a>(request: &'a Request<()>, name: &'a str) -> Vec<&'a str> {
    let values = request.headers().get_all(name);
    values.map(|value| value.to_str().expect("text")).collect()
}

#[test]
fn hop_by_hop_fields_are_removed() {
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
    let mut names = names(request.headers());
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "host",
            "via",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-public"
        ]
    );
}

#[test]
fn framing_and_host_fields_cannot_be_declared_hop_by_hop() {
    let request = prepared(
        Http1,
        "/",
        Version::HTTP_11,
        &[
            ("host", "x"),
            ("content-length", "5"),
            ("client-cert", ":AAAA:"),
            ("connection", "host, content-length, Client-Cert"),
        ],
    );
    assert_eq!(field(&request, "client-cert"), [":AAAA:"]);
    assert_eq!(field(&request, "host"), ["x"]);
    assert_eq!(field(&request, "content-length"), ["5"]);
}

#[test]
fn te_field_is_reduced_to_trailers() {
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
fn target_has_the_form_that_the_protocol_requires() {
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

    let bare = "http://a.example?q";
    let without_path = prepared(Http1, bare, Version::HTTP_11, &[("host", "x")]);
    let path = without_path.uri().path_and_query().expect("a path");
    assert_eq!(path.as_str(), "/?q");
    let without_path = prepared(H2c, bare, Version::HTTP_11, &[("host", "x")]);
    let path = without_path.uri().path_and_query().expect("a path");
    assert_eq!(path.as_str(), "/?q");

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
fn ambiguous_requests_are_rejected() {
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
    for (version, protocol, connect) in [
        (Version::HTTP_11, Http1, Connect::Refuse),
        (Version::HTTP_2, Http1, Connect::Pass),
        (Version::HTTP_11, H2c, Connect::Pass),
    ] {
        let mut tunnel = tunnel(version, &[("host", "a.example:443")]);
        let refusal = prepare_request(&mut tunnel, protocol, connect, &origin());
        assert_eq!(refusal.expect_err("no tunnels").status.as_u16(), 501);
    }
}

fn tunnel(version: Version, fields: &[(&'static str, &'static str)]) -> Request<()> {
    let mut tunnel = request("a.example:443", version, fields);
    *tunnel.method_mut() = Method::CONNECT;
    tunnel
}

#[test]
fn a_tunnel_request_names_only_the_host_of_its_target() {
    let fields = [
        ("host", "other.example"),
        ("connection", "x-own"),
        ("x-own", "1"),
        ("proxy-authorization", "Basic YTpi"),
        ("upgrade", "websocket"),
    ];
    let mut tunnel = tunnel(Version::HTTP_11, &fields);
    prepare_request(&mut tunnel, Http1, Connect::Pass, &origin()).expect("not refused");
    assert_eq!(tunnel.uri(), "a.example:443");
    assert_eq!(field(&tunnel, "host"), ["a.example:443"]);
    assert_eq!(field(&tunnel, "proxy-authorization"), ["Basic YTpi"]);
    assert_eq!(field(&tunnel, "x-forwarded-for"), ["192.0.2.7"]);
    for gone in ["connection", "x-own", "upgrade"] {
        assert!(field(&tunnel, gone).is_empty(), "{gone}");
    }
}

/// Half of a thousand fields are named, in no order, and each name twice.
#[test]
fn all_fields_that_connection_names_are_removed() {
    let all: Vec<_> = (0..1_000).map(|number| format!("x-{number}")).collect();
    let odd = all.iter().skip(1).step_by(2).cycle().step_by(3);
    let listed: Vec<_> = odd.take(1_000).map(String::as_str).collect();
    let mut headers = Fields::new();
    for name in &all {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
        headers.append(name, "1");
    }
    let list = HeaderValue::from_str(&listed.join(", ")).expect("a value");
    headers.append(header::CONNECTION, list);
    let seen = Seen::in_head(&headers);
    strip(&mut headers, seen);
    let left: Vec<_> = all.iter().step_by(2).cloned().collect();
    assert_eq!(names(&headers), left);
}

#[test]
fn hop_by_hop_fields_are_removed_from_responses() {
    let mut response = Response::from(
        http::Response::builder()
            .version(Version::HTTP_10)
            .header("connection", "keep-alive, x-hop")
            .header("keep-alive", "timeout=5")
            .header("x-hop", "1")
            .header("transfer-encoding", "chunked")
            .header("trailer", "x-sum")
            .header("set-cookie", "a")
            .header("set-cookie", "b")
            .body(())
            .expect("a valid response"),
    );
    assert!(prepare_response(&mut response));
    let mut names = names(response.headers());
    names.sort_unstable();
    assert_eq!(names, ["set-cookie", "set-cookie", "trailer"]);
    assert_eq!(response.headers().get_all("set-cookie").count(), 2);

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
    let mut response = Response::from(
        http::Response::builder()
            .header("content-length", "5")
            .header("transfer-encoding", "chunked")
            .body(())
            .expect("a valid response"),
    );
    assert!(prepare_response(&mut response));
    assert!(response.headers().is_empty());
}

#[test]
fn only_100_continue_is_an_accepted_expectation() {
    let fields = [("host", "x"), ("expect", "100-Continue")];
    for protocol in [Http1, H2c] {
        let request = prepared(protocol, "/", Version::HTTP_11, &fields);
        assert!(field(&request, "expect").is_empty());
    }
    let unknown = [("host", "x"), ("expect", "100-continue, x")];
    assert_eq!(refused(Version::HTTP_11, &unknown), 417);
}

#[test]
fn host_with_a_user_is_rejected_for_http2_replicas_too() {
    let target = "http://me@a.example:81/p";
    let forwarded = prepared(H2c, target, Version::HTTP_11, &[("host", "x")]);
    assert_eq!(forwarded.uri(), "http://a.example:81/p");
    let mut with_user = request("/", Version::HTTP_11, &[("host", "u@x")]);
    let refusal =
        prepare_request(&mut with_user, H2c, Connect::Refuse, &origin()).expect_err("not a host");
    assert_eq!(refusal.status.as_u16(), 400);
}

#[test]
fn http2_request_has_one_host_without_user() {
    let status = |target, host: Option<&'static str>| {
        let fields: Vec<_> = host.map(|host| ("host", host)).into_iter().collect();
        let mut request = request(target, Version::HTTP_2, &fields);
        let prepared = prepare_request(&mut request, Http1, Connect::Refuse, &origin());
        prepared.map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    };
    assert_eq!(status("http://a.example/", None), 200);
    assert_eq!(status("http://a.example/", Some("A.example")), 200);
    assert_eq!(status("/", Some("a.example")), 200);
    assert_eq!(status("http://a.example/", Some("b.example")), 400);
    assert_eq!(status("http://a.example/", Some("a.example:80")), 400);
    assert_eq!(status("http://u@a.example/", None), 400);
    assert_eq!(status("/", None), 400);
}

#[test]
fn field_limit_is_the_same_for_http2_and_http1() {
    for (fields, is_fit) in [(100, true), (101, false)] {
        let many = vec![("a", "b"); fields];
        let mut crowded = request("http://x/", Version::HTTP_2, &many);
        let prepared = prepare_request(&mut crowded, Http1, Connect::Refuse, &origin());
        let expected = Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        let status = prepared.map_err(|refusal| refusal.status);
        assert_eq!(status, if is_fit { Ok(()) } else { expected }, "{fields}");
    }
}

#[test]
fn asterisk_target_is_allowed_only_with_options() {
    for protocol in [Http1, H2c] {
        let mut other = request("*", Version::HTTP_11, &[("host", "x")]);
        let refusal = prepare_request(&mut other, protocol, Connect::Refuse, &origin())
            .expect_err("not OPTIONS");
        assert_eq!(refusal.status.as_u16(), 400);
        for (target, path) in [("*", "*"), ("http://x/", "/")] {
            let mut options = request(target, Version::HTTP_11, &[("host", "x")]);
            *options.method_mut() = Method::OPTIONS;
            prepare_request(&mut options, protocol, Connect::Refuse, &origin())
                .expect("not refused");
            assert_eq!(options.uri().path(), path, "{target}");
        }
    }
}

#[test]
fn request_with_own_via_entry_is_rejected_as_a_loop() {
    let fields = [("host", "x"), ("via", "1.0 edge, 2 other")];
    let mut passed = prepared(Http1, "/", Version::HTTP_11, &fields);
    assert_eq!(field(&passed, "via").len(), 2);
    assert!(field(&passed, "via")[1].starts_with("1.1 slackwater-"));
    for (version, protocol) in [(Version::HTTP_10, "1.0"), (Version::HTTP_2, "2.0")] {
        let mut other = prepared(Http1, "http://x/", version, &[]);
        let via = field(&other, "via")[0];
        assert!(via.starts_with(&format!("{protocol} slackwater-")), "{via}");
        assert!(prepare_request(&mut other, Http1, Connect::Refuse, &origin()).is_err());
    }
    let refusal =
        prepare_request(&mut passed, Http1, Connect::Refuse, &origin()).expect_err("a loop");
    assert_eq!(refusal.status.as_u16(), 508);
}

#[test]
fn head_only_fields_are_removed_from_trailers() {
    let mut trailers = HeaderMap::new();
    for name in [
        "host",
        "authorization",
        "set-cookie",
        "content-length",
        "keep-alive",
        "via",
        "forwarded",
        "x-forwarded-for",
        "x_forwarded_for",
        "x-real-ip",
        "client-cert",
        "client_cert_chain",
        "x-sum",
        "grpc-status",
    ] {
        trailers.append(name, HeaderValue::from_static("1"));
    }
    prepare_trailers(&mut trailers);
    let mut names: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, ["grpc-status", "x-sum"]);
}
