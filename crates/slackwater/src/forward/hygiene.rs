//! What a proxy must do to the heads that pass through it.
//!
//! Towards the replica: fields that concern one connection only are taken out (`Connection` and all that it names,
//! `Keep-Alive`, `Transfer-Encoding`, `Upgrade`…, RFC 9110 §7.6.1), `X-Forwarded-For` gains the client's address, and the
//! target is put where the replica's protocol wants it. Requests that two parsers could read in two ways are refused.
//! Towards the client: the same fields are taken out. hyper frames both messages anew, so no body length is passed on
//! unchecked. Nothing else is touched: no `Via`, no `Server`, no change of `Host`.

use crate::config::ReplicaProtocol;
use http::header::{self, Entry, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, Response, StatusCode, Uri, Version};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Why a request is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    /// For the client; lower-case, no trailing stop.
    pub(crate) reason: &'static str,
}

const fn bad_request(reason: &'static str) -> Refusal {
    Refusal {
        status: StatusCode::BAD_REQUEST,
        reason,
    }
}

const fn not_implemented(reason: &'static str) -> Refusal {
    Refusal {
        status: StatusCode::NOT_IMPLEMENTED,
        reason,
    }
}

/// Whom a request came from, and where to.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The client's address, as `X-Forwarded-For` has it.
    pub(crate) client: HeaderValue,
    /// Stands in for the host that an HTTP/1.0 client may leave out.
    pub(crate) local: Authority,
}

/// Makes a client's request fit for a replica.
pub(crate) fn prepare_request<B>(
    request: &mut Request<B>,
    protocol: ReplicaProtocol,
    origin: &Origin,
) -> Result<(), Refusal> {
    if *request.method() == Method::CONNECT {
        return Err(not_implemented("tunnels (CONNECT) are not offered here"));
    }
    let seen = Seen::in_head(request.headers());
    if seen.transfer_encoding && !is_only_chunked(request.headers()) {
        return Err(not_implemented(
            "no transfer coding but chunked is known here",
        ));
    }
    let version = request.version();
    if seen.hosts > 1 {
        return Err(bad_request("more than one host field"));
    }
    if version == Version::HTTP_11 && seen.hosts == 0 {
        return Err(bad_request("the host field is missing"));
    }
    let trailers = seen.te && wants_trailers(request.headers());
    strip(request.headers_mut(), seen);
    if trailers {
        keep_trailers(request.headers_mut(), protocol);
    }
    append_client(request.headers_mut(), &origin.client);
    match protocol {
        ReplicaProtocol::Http1 => {
            if seen.cookies > 1 {
                join_cookies(request.headers_mut());
            }
            target_http1(request, origin)?;
            *request.version_mut() = Version::HTTP_11;
        }
        ReplicaProtocol::H2c => {
            target_http2(request, origin)?;
            *request.version_mut() = Version::HTTP_2;
        }
    }
    Ok(())
}

/// Makes a replica's response fit for a client; `false` if it uses a transfer coding that cannot be passed on.
pub(crate) fn prepare_response<B>(response: &mut Response<B>) -> bool {
    let seen = Seen::in_head(response.headers());
    if seen.transfer_encoding && !is_only_chunked(response.headers()) {
        return false;
    }
    strip(response.headers_mut(), seen);
    *response.version_mut() = Version::HTTP_11;
    true
}

/// Which fields a head has that need work: found in one pass, because most heads have hardly any.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one for each kind of field; they are not states"
)]
struct Seen {
    hosts: u32,
    cookies: u32,
    connection: bool,
    te: bool,
    transfer_encoding: bool,
    /// Any other field that concerns one connection only.
    others: bool,
}

impl Seen {
    fn in_head(headers: &HeaderMap) -> Self {
        let mut seen = Self::default();
        for (name, _) in headers {
            match *name {
                header::HOST => seen.hosts = seen.hosts.saturating_add(1),
                header::COOKIE => seen.cookies = seen.cookies.saturating_add(1),
                header::CONNECTION => seen.connection = true,
                header::TRANSFER_ENCODING => seen.transfer_encoding = true,
                header::TE => seen.te = true,
                header::UPGRADE | header::PROXY_AUTHORIZATION => seen.others = true,
                _ => match name.as_str() {
                    "keep-alive" | "proxy-connection" => seen.others = true,
                    _ => (),
                },
            }
        }
        seen
    }
}

fn strip(headers: &mut HeaderMap, seen: Seen) {
    if seen.connection {
        for name in named_by_connection(headers) {
            headers.remove(name);
        }
        headers.remove(header::CONNECTION);
    }
    if seen.transfer_encoding {
        headers.remove(header::TRANSFER_ENCODING);
    }
    if seen.te {
        headers.remove(header::TE);
    }
    if seen.others {
        for name in [
            header::UPGRADE,
            header::PROXY_AUTHORIZATION,
            KEEP_ALIVE,
            PROXY_CONNECTION,
        ] {
            headers.remove(name);
        }
    }
}

/// The fields that `Connection` declares as its own. What frames or addresses a message cannot be declared away.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    tokens(headers, &header::CONNECTION)
        .filter(|token| {
            !token.eq_ignore_ascii_case("close") && !token.eq_ignore_ascii_case("keep-alive")
        })
        .filter_map(|token| HeaderName::from_bytes(token.as_bytes()).ok())
        .filter(|name| *name != header::HOST && *name != header::CONTENT_LENGTH)
        .collect()
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

fn is_only_chunked(headers: &HeaderMap) -> bool {
    tokens(headers, &header::TRANSFER_ENCODING).all(|coding| coding.eq_ignore_ascii_case("chunked"))
}

fn wants_trailers(headers: &HeaderMap) -> bool {
    tokens(headers, &header::TE).any(|token| token.eq_ignore_ascii_case("trailers"))
}

fn keep_trailers(headers: &mut HeaderMap, protocol: ReplicaProtocol) {
    headers.insert(header::TE, TRAILERS);
    if protocol == ReplicaProtocol::Http1 {
        headers.insert(header::CONNECTION, HeaderValue::from_static("te"));
    }
}

fn append_client(headers: &mut HeaderMap, client: &HeaderValue) {
    match headers.entry(X_FORWARDED_FOR) {
        Entry::Vacant(entry) => {
            entry.insert(client.clone());
        }
        Entry::Occupied(mut entry) => {
            let mut chain: Vec<&[u8]> = entry.iter().map(HeaderValue::as_bytes).collect();
            chain.push(client.as_bytes());
            // Joined from valid values by valid bytes, so it is one.
            if let Ok(chain) = HeaderValue::from_bytes(&chain.join(&b", "[..])) {
                entry.insert(chain);
            }
        }
    }
}

/// HTTP/2 may split cookies over several fields; HTTP/1.1 may not. RFC 9113 §8.2.3.
fn join_cookies(headers: &mut HeaderMap) {
    let crumbs: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(header::COOKIE, cookie);
    }
}

/// HTTP/1.1: the host in its field, the path in the request line. A target that names its host overrides the field.
fn target_http1<B>(request: &mut Request<B>, origin: &Origin) -> Result<(), Refusal> {
    if let Some(authority) = request.uri().authority() {
        let host = HeaderValue::from_str(without_user_info(authority))
            .map_err(|_| bad_request("the target's host is not one"))?;
        let path = request.uri().path_and_query().cloned();
        request.headers_mut().insert(header::HOST, host);
        *request.uri_mut() = Uri::from(path.unwrap_or_else(|| PathAndQuery::from_static("/")));
    } else if let Some(host) = request.headers().get(header::HOST) {
        if !is_host(host.as_bytes()) {
            return Err(bad_request("the host field is not a host"));
        }
    } else {
        let host = HeaderValue::from_str(origin.local.as_str())
            .map_err(|_| bad_request("the host field is missing"))?;
        request.headers_mut().insert(header::HOST, host);
    }
    Ok(())
}

/// HTTP/2: host and path both in the target.
fn target_http2<B>(request: &mut Request<B>, origin: &Origin) -> Result<(), Refusal> {
    let host = request.headers_mut().remove(header::HOST);
    let authority = match (request.uri().authority(), host) {
        (Some(_), _) if request.uri().scheme() == Some(&Scheme::HTTP) => return Ok(()),
        (Some(authority), _) => authority.clone(),
        (None, Some(host)) if !host.is_empty() => Authority::try_from(host.as_bytes())
            .map_err(|_| bad_request("the host field is not a host"))?,
        (None, _) => origin.local.clone(),
    };
    let mut parts = core::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(authority);
    if parts.path_and_query.is_none() {
        parts.path_and_query = Some(PathAndQuery::from_static("/"));
    }
    *request.uri_mut() =
        Uri::from_parts(parts).map_err(|_| bad_request("the target is not valid"))?;
    Ok(())
}

fn without_user_info(authority: &Authority) -> &str {
    let text = authority.as_str();
    text.rsplit_once('@').map_or(text, |(_, host)| host)
}

/// Whether a host field can be nothing but a host and a port, whoever reads it. Empty is allowed. RFC 9110 §7.2
fn is_host(host: &[u8]) -> bool {
    host.iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]%!$&'()*+;=".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReplicaProtocol::{H2c, Http1};

    fn origin() -> Origin {
        Origin {
            client: HeaderValue::from_static("192.0.2.7"),
            local: Authority::from_static("198.51.100.1:8080"),
        }
    }

    fn request(
        target: &'static str,
        version: Version,
        fields: &[(&'static str, &'static str)],
    ) -> Request<()> {
        let mut builder = Request::builder().uri(target).version(version);
        for (name, value) in fields {
            builder = builder.header(*name, *value);
        }
        builder.body(()).expect("a valid request")
    }

    fn prepared(
        protocol: ReplicaProtocol,
        target: &'static str,
        version: Version,
        fields: &[(&'static str, &'static str)],
    ) -> Request<()> {
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

    fn field<'a>(request: &'a Request<()>, name: &str) -> Vec<&'a str> {
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
        assert_eq!(names, ["host", "x-forwarded-for", "x-public"]);
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
}
