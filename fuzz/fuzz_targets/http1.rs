//! Octets split at any point, as requests, as responses and as chunked bodies: nothing panics, and
//! the splits change nothing.

#![no_main]

use bytes::Bytes;
use http::{HeaderMap, Method};
use libfuzzer_sys::fuzz_target;
use slackwater_http::Fields;
use slackwater_http::http1::{
    BodyDecoder, BodyLength, Decoded, HeadLimits, end_of_head, is_head_so_far, parse_request,
    parse_response,
};

const LIMITS: HeadLimits = HeadLimits {
    bytes_max: 512,
    fields_max: 8,
};

/// The end of a head that arrives in these pieces.
fn end_in_pieces(pieces: &[&[u8]]) -> Option<usize> {
    let mut unread = Vec::new();
    for piece in pieces {
        let searched = unread.len();
        unread.extend_from_slice(piece);
        if let Some(end) = end_of_head(&unread, searched) {
            return Some(end);
        }
    }
    None
}

/// The body, its trailers and the rest, if it arrives in these pieces; `None` if it is rejected.
fn body_in_pieces(length: BodyLength, pieces: &[&[u8]]) -> Option<(Vec<u8>, HeaderMap, Vec<u8>)> {
    let mut decoder = BodyDecoder::new(length, LIMITS);
    let (mut body, mut trailers, mut rest) = (Vec::new(), HeaderMap::new(), Vec::new());
    for piece in pieces {
        let mut unread = Bytes::copy_from_slice(piece);
        loop {
            match decoder.decode(&mut unread).ok()? {
                Decoded::Data(data) => body.extend_from_slice(&data),
                Decoded::Trailers(fields) => trailers = fields,
                Decoded::Starved | Decoded::End => break,
            }
        }
        rest.extend_from_slice(&unread);
    }
    Some((body, trailers, rest))
}

fuzz_target!(|input: (&[u8], u16, u16)| {
    let (octets, first, second) = input;
    let mut cuts = [first, second].map(|cut| usize::from(cut).min(octets.len()));
    cuts.sort_unstable();
    let pieces = [
        &octets[..cuts[0]],
        &octets[cuts[0]..cuts[1]],
        &octets[cuts[1]..],
    ];
    let end = end_of_head(octets, 0);
    assert_eq!(end, end_in_pieces(&pieces));
    if let Some(end) = end {
        let head = Bytes::copy_from_slice(&octets[..end]);
        let request = parse_request(&head, LIMITS, Fields::new());
        let response = parse_response(&head, &Method::GET, LIMITS, Fields::new());
        // A head that is rejected early would be rejected at its end, too.
        if request.is_ok() || response.is_ok() {
            assert!((0..end).all(|cut| is_head_so_far(&octets[..cut])));
        }
    }
    for length in [
        BodyLength::Chunked,
        BodyLength::Known(u64::from(first)),
        BodyLength::UntilClose,
    ] {
        assert_eq!(
            body_in_pieces(length, &[octets]),
            body_in_pieces(length, &pieces)
        );
    }
});
