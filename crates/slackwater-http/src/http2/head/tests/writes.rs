//! Heads that are encoded.

use super::*;
use proptest::prelude::*;

#[test]
fn missing_parts_of_a_target_are_completed() {
    for (method, uri, parts) in [
        ("GET", "http://x", &["GET", "http", "x", "/"][..]),
        ("OPTIONS", "/", &["OPTIONS", "http", "/"]),
        ("GET", "/a", &["GET", "http", "/a"]),
        ("GET", "https://x/a?b", &["GET", "https", "x", "/a?b"]),
        ("GET", "https://x?b", &["GET", "https", "x", "/?b"]),
        ("OPTIONS", "*", &["OPTIONS", "http", "*"]),
        ("CONNECT", "x:1", &["CONNECT", "x:1"]),
    ] {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let uri: Uri = uri.parse().expect("a uri");
        let mut out = BytesMut::new();
        let scheme = uri.scheme().unwrap_or(&Scheme::HTTP);
        encode_request(
            &mut Encoder::new(),
            &mut out,
            &method,
            (scheme, &uri),
            &Fields::new(),
        );
        let mut written = Vec::new();
        Decoder::new()
            .decode(&out, |field, _| {
                written.push(match field.into_owned() {
                    Field::Method(method) => method.to_string(),
                    Field::Scheme(scheme) => scheme.to_string(),
                    Field::Authority(authority) => authority.to_string(),
                    Field::Path(path) => path.to_string(),
                    field => panic!("{field:?}"),
                });
                Ok::<(), BadHead>(())
            })
            .expect("a block");
        assert_eq!(written, parts, "{uri}");
    }
    // An OPTIONS with an empty target is about the whole server.
    let mut out = BytesMut::new();
    let nowhere = Uri::from(PathAndQuery::from_static("?"));
    encode_request(
        &mut Encoder::new(),
        &mut out,
        &Method::OPTIONS,
        (&Scheme::HTTP, &nowhere),
        &Fields::new(),
    );
    assert!(out.ends_with(b"/?"), "{out:?}");
}

fn any_headers() -> impl Strategy<Value = Fields> {
    let field = ("[a-z]{1,3}", "([!-~]([ -~]{0,20}[!-~])?)?");
    prop::collection::vec(field, 0..10).prop_map(|fields| {
        (fields.into_iter())
            .filter(|(name, _)| name != "te")
            .map(|(name, value)| {
                let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
                (name, HeaderValue::from_str(&value).expect("a value"))
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn heads_round_trip(
        heads in prop::collection::vec((any_headers(), "(GET|POST|PUT|[A-Z]{1,5})", "/[a-z/]{0,10}", 100..999_u16), 1..30),
    ) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        let limits = HeadLimits { bytes_max: 1 << 16, fields_max: 100 };
        for (headers, method, path, status) in heads {
            let method = Method::from_bytes(method.as_bytes()).expect("a method");
            let uri: Uri = format!("https://x.y:1{path}").parse().expect("a uri");
            let mut out = BytesMut::new();
            encode_request(&mut encoder, &mut out, &method, (&Scheme::HTTPS, &uri), &headers);
            let read = decode_request(&mut decoder, &out, limits, Fields::new()).expect("a request");
            prop_assert_eq!((&read.method, &read.uri, &read.headers), (&method, &uri, &headers));

            let status = StatusCode::from_u16(if status == 101 { 100 } else { status }).expect("a status");
            out.clear();
            encode_response(&mut encoder, &mut out, status, &headers);
            let read = decode_response(&mut decoder, &out, limits, Fields::new()).expect("a response");
            prop_assert_eq!((read.status, &read.headers), (status, &headers));

            out.clear();
            let sent = headers.to_map().expect("few");
            encode_trailers(&mut encoder, &mut out, &sent);
            let read = decode_trailers(&mut decoder, &out, limits).expect("trailers");
            prop_assert_eq!(read, sent);
        }
    }
}
