//! The hash of keys, compared with the standard library's.

use core::hash::Hasher;
use slackwater_core::keys::KeyHasher;
use std::hash::DefaultHasher;

/// The standard library's hasher is SipHash-1-3 with a seed of zeros.
#[test]
fn hashes_equal_those_of_the_standard_library() {
    let hasher = KeyHasher::with_seed(0, 0);
    let bytes: Vec<u8> = (0..=255).cycle().step_by(7).take(1_000).collect();
    for len in (0..100).chain([255, 256, 257, 1_000]) {
        let mut other = DefaultHasher::new();
        other.write(&bytes[..len]);
        let hash = hasher.hash(&bytes[..len]);
        assert_eq!(hash.to_bits(), other.finish(), "{len}");
    }
}
