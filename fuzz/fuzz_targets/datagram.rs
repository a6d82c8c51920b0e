//! Arbitrary UDP datagrams: none may panic either side, and a decoded one must mean the same after
//! it is encoded again. The input is tried as it is and, so that the fuzzer gets past the tag, with
//! a valid tag appended.
//!
//! ```text
//! cargo +nightly fuzz run datagram -- -max_total_time=20 -max_len=600
//! ```

#![no_main]

use hmac::{Hmac, KeyInit, Mac};
use libfuzzer_sys::fuzz_target;
use sha2::Sha256;
use slackwater_tower::wire::ProbeKey;
use slackwater_tower::wire::datagram::{
    DATAGRAM_BYTES_MAX, decode_reply, decode_request, encode_reply, encode_request,
};
use std::sync::LazyLock;

const SECRET: [u8; 32] = [7; 32];

static KEY: LazyLock<ProbeKey> =
    LazyLock::new(|| ProbeKey::from_bytes(&SECRET).expect("32 bytes are a key"));

fuzz_target!(|datagram: &[u8]| {
    check(datagram, None);
    check(datagram, Some(&KEY));
    check(&with_right_tag(datagram), Some(&KEY));
});

/// The flag for "keyed" is the lowest bit of byte 7.
fn with_right_tag(datagram: &[u8]) -> Vec<u8> {
    let mut tagged = datagram.to_vec();
    if let Some(flags) = tagged.get_mut(7) {
        *flags |= 1;
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(&SECRET).expect("any length is a key");
    mac.update(&tagged);
    tagged.extend_from_slice(&mac.finalize().into_bytes()[..16]);
    tagged
}

fn check(datagram: &[u8], key: Option<&ProbeKey>) {
    let mut into = [0; DATAGRAM_BYTES_MAX];
    if let Ok(request) = decode_request(datagram, key) {
        let bytes = encode_request(&request, key, &mut into).expect("a decoded hint is short");
        assert!(bytes <= datagram.len());
        assert_eq!(decode_request(&into[..bytes], key), Ok(request));
    }
    if let Ok(reply) = decode_reply(datagram, key) {
        let bytes = encode_reply(&reply, key, &mut into);
        assert!(bytes <= datagram.len());
        assert_eq!(decode_reply(&into[..bytes], key), Ok(reply));
    }
}
