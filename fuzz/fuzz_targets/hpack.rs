//! Header blocks of one connection: any octets are read or rejected within their bounds, and
//! written blocks are read back.

#![no_main]

use bytes::BytesMut;
use http::HeaderValue;
use libfuzzer_sys::fuzz_target;
use slackwater_http::http2::head::{
    BadHead, Decoder, Encoder, HeadLimits, decode_request, decode_response, decode_trailers,
    encode_request, encode_response, encode_trailers, skip_block,
};
use slackwater_http::{Fields, Value};

const LIMITS: HeadLimits = HeadLimits {
    bytes_max: 512,
    fields_max: 8,
};

const NAMES: [&str; 6] = ["a", "ab", "abc", "cookie", "via", "etag"];

/// The size of the fields of a head.
fn size(headers: &Fields) -> usize {
    let field = |(name, value): (&[u8], Value<'_>)| name.len() + value.as_bytes().len() + 32;
    headers.iter().map(field).sum()
}

/// Fields with few names: each begins with an octet that chooses the name, and ends with a zero.
fn headers(octets: &[u8]) -> Fields {
    let mut headers = Fields::new();
    for field in octets.split(|octet| *octet == 0) {
        if let Some((name, value)) = field.split_first()
            && let Ok(value) = HeaderValue::from_bytes(value.trim_ascii())
        {
            headers.append(NAMES[usize::from(*name) % NAMES.len()], value);
        }
    }
    headers
}

// Steps: an action, a size of the peer's table, and a block from the peer or fields of ours.
fuzz_target!(|steps: Vec<(u8, u16, &[u8])>| {
    let mut theirs = Decoder::new();
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let mut is_broken = false;
    let whole = HeadLimits {
        bytes_max: 1 << 24,
        fields_max: 1 << 16,
    };
    for (kind, bytes, octets) in steps {
        match kind % 8 {
            0..4 if is_broken => (),
            0..4 => {
                let read = match kind % 4 {
                    0 => decode_request(&mut theirs, octets, LIMITS, Fields::new())
                        .map(|head| head.headers),
                    1 => decode_response(&mut theirs, octets, LIMITS, Fields::new())
                        .map(|head| head.headers),
                    2 => decode_trailers(&mut theirs, octets, LIMITS)
                        .map(|trailers| Fields::from(&trailers)),
                    _ => skip_block(&mut theirs, octets, LIMITS).map(|()| Fields::new()),
                };
                match read {
                    Ok(headers) => {
                        assert!(headers.len() <= LIMITS.fields_max);
                        assert!(size(&headers) <= LIMITS.bytes_max);
                    }
                    Err(bad) => {
                        is_broken = matches!(bad, BadHead::Compression(_) | BadHead::FarTooLarge);
                    }
                }
            }
            4..7 => {
                let sent = headers(octets);
                let (method, uri) = (http::Method::GET, http::Uri::from_static("http://x/a?b"));
                let mut out = BytesMut::new();
                let target = (&http::uri::Scheme::HTTP, &uri);
                encode_request(&mut encoder, &mut out, &method, target, &sent);
                let read = decode_request(&mut decoder, &out, whole, Fields::new());
                let read = read.expect("a request");
                assert_eq!((read.method, read.uri, &read.headers), (method, uri, &sent));
                out.clear();
                encode_response(&mut encoder, &mut out, http::StatusCode::CONFLICT, &sent);
                let read = decode_response(&mut decoder, &out, whole, Fields::new());
                let read = read.expect("a response");
                assert_eq!((read.status.as_u16(), &read.headers), (409, &sent));
                out.clear();
                let sent = sent.to_map().expect("few");
                encode_trailers(&mut encoder, &mut out, &sent);
                let read = decode_trailers(&mut decoder, &out, whole);
                assert_eq!(read.expect("trailers"), sent);
            }
            _ => encoder.set_table_bytes_max(u32::from(bytes)),
        }
    }
});
