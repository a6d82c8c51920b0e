//! Heads that exceed the limits.

use super::*;

#[test]
fn head_size_and_field_count_are_limited() {
    // Names, values and 32 for each field: the size of GET's four fields.
    let before = 4 * 32 + (7 + 3) + (7 + 4) + (10 + 1) + (5 + 4);
    for (length, is_read) in [(1000 - before - 33, true), (1000 - before - 32, false)] {
        let value = "x".repeat(length);
        let read = with(&[("a", &value)]);
        assert_eq!(read.err(), (!is_read).then_some(BadHead::TooLarge));
    }
    for (count, is_read) in [(10, true), (11, false)] {
        let read = with(&vec![("a", "b"); count]);
        assert_eq!(read.err(), (!is_read).then_some(BadHead::TooLarge));
    }
    // More than four times the limit.
    let few = HeadLimits {
        bytes_max: 100,
        fields_max: 10,
    };
    for (length, bad) in [
        (400 - 33, BadHead::TooLarge),
        (400 - 32, BadHead::FarTooLarge),
    ] {
        let value = "x".repeat(length);
        let block = block(&[("a", &value[..])]);
        let mut decoder = Decoder::new();
        let read = decode_trailers(&mut decoder, &block, few);
        assert_eq!(read, Err(bad));
        let skipped = skip_block(&mut Decoder::new(), &block, few);
        assert_eq!(
            skipped.err(),
            (bad == BadHead::FarTooLarge).then_some(BadHead::FarTooLarge)
        );
    }
    // A malformed head is reported as malformed, however large it is.
    is_malformed(with(&[("a", &"x".repeat(1000)), ("te", "gzip")]));
    has_bad_octets(with(&[("te", "gzip"), ("a", &"x".repeat(1000)), ("B", "")]));
    has_bad_octets(with(&[("B", ""), ("te", "gzip")]));
    // A path that is too long for any type.
    let much = HeadLimits {
        bytes_max: 1 << 20,
        fields_max: 10,
    };
    for (length, is_read) in [(65534, true), (65535, false)] {
        let path = format!("/{}", "a".repeat(length - 1));
        let written = [block(&GET[..3]), vec![0x04], string(&path)].concat();
        let read = decode_request(&mut Decoder::new(), &written, much, Fields::new());
        assert_eq!(read.err(), (!is_read).then_some(BadHead::TooLarge));
    }
}
