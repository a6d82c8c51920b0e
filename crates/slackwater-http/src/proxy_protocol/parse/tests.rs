//! Headers from the specification, and variations of them.

use super::*;
use proptest::prelude::*;

fn told(from: &str, to: &str) -> Header {
    let address = |text: &str| text.parse().expect("an address");
    Header {
        addresses: Some((address(from), address(to))),
    }
}

fn line(line: &str) -> Result<Parsed, Malformed> {
    parse(line.as_bytes())
}

/// Makes a header of version 2.
fn header(version_and_command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let length = u16::try_from(body.len()).expect("short").to_be_bytes();
    let fixed = [version_and_command, family, length[0], length[1]];
    [&SIGNATURE_2[..], &fixed, body].concat()
}

const FROM_TO: [u8; 12] = [192, 0, 2, 7, 198, 51, 100, 1, 0xc3, 0x50, 0x01, 0xbb];

fn from_to() -> Header {
    told("192.0.2.7:50000", "198.51.100.1:443")
}

fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len()).expect("short").to_be_bytes();
    [&[kind], &length[..], value].concat()
}

/// Makes a header with a checksum before another TLV.
fn with_checksum() -> Vec<u8> {
    let tlvs = [tlv(3, &[0; 4]), tlv(5, b"unique")].concat();
    let mut bytes = header(0x21, 0x11, &[&FROM_TO[..], &tlvs].concat());
    let checksum = crc32c::crc32c(&bytes).to_be_bytes();
    bytes[31..35].copy_from_slice(&checksum);
    bytes
}

#[test]
fn version_1_contains_source_and_destination() {
    for (text, expected) in [
        ("PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n", from_to()),
        (
            "PROXY TCP6 2001:db8::1 2001:db8::2 0 65535\r\n",
            told("[2001:db8::1]:0", "[2001:db8::2]:65535"),
        ),
        ("PROXY UNKNOWN\r\n", NONE),
        ("PROXY UNKNOWN ffff::1 whatever\r\n", NONE),
    ] {
        let header = Ok(Parsed::Header(expected, text.len()));
        assert_eq!(line(text), header, "{text}");
        assert_eq!(line(&format!("{text}GET / HTTP/1.1\r\n")), header, "{text}");
    }
}

#[test]
fn version_1_has_exactly_one_format() {
    for text in [
        "PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\n",
        "PROXY  TCP4 192.0.2.7 198.51.100.1 50000 443\r\n",
        "PROXY TCP4 192.0.2.7  198.51.100.1 50000 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 50000 443 \r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 50000\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 50000 443 1\r\n",
        "PROXY TCP4 192.0.2.07 198.51.100.1 50000 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 050000 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 +50000 443\r\n",
        "PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n",
        "PROXY TCP4 2001:db8::1 2001:db8::2 50000 443\r\n",
        "PROXY TCP6 192.0.2.7 198.51.100.1 50000 443\r\n",
        "PROXY TCP4 example.com 198.51.100.1 50000 443\r\n",
        "PROXY UDP4 192.0.2.7 198.51.100.1 50000 443\r\n",
        "PROXY tcp4 192.0.2.7 198.51.100.1 50000 443\r\n",
        "PROXY \r\n",
        "proxy UNKNOWN\r\n",
        "GET / HTTP/1.1\r\n",
        "PRI * HTTP/2.0\r\n",
    ] {
        assert!(line(text).is_err(), "{text}");
    }
}

#[test]
fn version_1_line_has_at_most_107_bytes() {
    let padded = |bytes: usize| {
        let text = format!("PROXY UNKNOWN {}", "x".repeat(bytes - 16));
        format!("{text}\r\n")
    };
    assert_eq!(line(&padded(107)), Ok(Parsed::Header(NONE, 107)));
    assert!(line(&padded(108)).is_err());
    assert_eq!(line(&padded(108)[..106]), Ok(Parsed::Unfinished));
    assert!(line(&padded(108)[..107]).is_err());
}

#[test]
fn version_2_contains_source_and_destination() {
    let mut six = vec![0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    six.extend([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    six.extend([0xc3, 0x50, 0x01, 0xbb]);
    let six_told = told("[2001:db8::1]:50000", "[2001:db8::2]:443");
    let tlvs = [tlv(5, b"unique"), tlv(4, b""), tlv(0xea, &[1; 300])].concat();
    for (command, family, body, expected) in [
        (0x21, 0x11, FROM_TO.to_vec(), from_to()),
        (0x21, 0x21, six.clone(), six_told),
        (0x21, 0x11, [&FROM_TO[..], &tlvs].concat(), from_to()),
        (0x21, 0x21, [&six[..], &tlvs].concat(), six_told),
        // Datagrams, Unix sockets, and unspecified families.
        (0x21, 0x12, FROM_TO.to_vec(), NONE),
        (0x21, 0x31, vec![b'a'; 216], NONE),
        (0x21, 0x00, Vec::new(), NONE),
        (0x21, 0x00, tlvs.clone(), NONE),
        // LOCAL, with any content.
        (0x20, 0x00, Vec::new(), NONE),
        (0x20, 0x11, FROM_TO.to_vec(), NONE),
        (0x20, 0x11, vec![7], NONE),
        (0x20, 0xff, vec![7], NONE),
    ] {
        let bytes = header(command, family, &body);
        let expected = Ok(Parsed::Header(expected, bytes.len()));
        assert_eq!(parse(&bytes), expected, "{command:x} {family:x}");
        let more = [&bytes[..], b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(parse(&more), expected, "{command:x} {family:x}");
    }
}

#[test]
fn invalid_version_2_headers_are_rejected() {
    for (command, family, body) in [
        (0x11, 0x11, FROM_TO.to_vec()),
        (0x31, 0x11, FROM_TO.to_vec()),
        (0x22, 0x11, FROM_TO.to_vec()),
        (0x21, 0x41, FROM_TO.to_vec()),
        (0x21, 0x13, FROM_TO.to_vec()),
        (0x21, 0x11, FROM_TO[..11].to_vec()),
        (0x21, 0x21, FROM_TO.to_vec()),
        (0x21, 0x31, vec![b'a'; 215]),
        (0x21, 0x11, [&FROM_TO[..], &[5]].concat()),
        (0x21, 0x11, [&FROM_TO[..], &[5, 0, 2, 1]].concat()),
        (0x21, 0x11, [&FROM_TO[..], &tlv(3, &[0; 3])].concat()),
    ] {
        let bytes = header(command, family, &body);
        assert!(parse(&bytes).is_err(), "{command:x} {family:x} {body:?}");
    }
}

#[test]
fn too_large_length_is_rejected_before_its_bytes_arrive() {
    let [high, low] = u16::try_from(HEADER_BYTES_MAX - FIXED_BYTES)
        .expect("short")
        .to_be_bytes();
    let mut fixed = header(0x21, 0, &[]);
    fixed[14..].copy_from_slice(&[high, low]);
    assert_eq!(parse(&fixed), Ok(Parsed::Unfinished));
    fixed[14..].copy_from_slice(&[high, low + 1]);
    assert!(parse(&fixed).is_err());
}

#[test]
fn present_checksum_must_be_correct() {
    let bytes = with_checksum();
    assert_eq!(parse(&bytes), Ok(Parsed::Header(from_to(), bytes.len())));
    // Every bit of the addresses, the checksum and the TLV's value matters.
    for at in (16..28).chain(31..35).chain(38..bytes.len()) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        assert!(parse(&changed).is_err(), "byte {at}");
    }
}

/// Headers of all kinds.
fn headers() -> Vec<Vec<u8>> {
    vec![
        b"PROXY TCP4 192.0.2.7 198.51.100.1 50000 443\r\n".to_vec(),
        b"PROXY UNKNOWN\r\n".to_vec(),
        header(0x21, 0x11, &FROM_TO),
        header(0x20, 0x00, &[]),
        with_checksum(),
    ]
}

#[test]
fn header_is_unfinished_at_every_cut() {
    for bytes in headers() {
        for cut in 0..bytes.len() {
            assert_eq!(
                parse(&bytes[..cut]),
                Ok(Parsed::Unfinished),
                "{cut} {bytes:?}"
            );
        }
        assert!(matches!(parse(&bytes), Ok(Parsed::Header(_, length)) if length == bytes.len()));
    }
}

proptest! {
    /// For any input, a result for some bytes remains the same when more arrive.
    #[test]
    fn parse_result_does_not_change_with_more_bytes(
        which in 0..5_usize,
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        more in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut bytes = headers().swap_remove(which);
        bytes.extend(more);
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let whole = parse(&bytes);
        for cut in 0..bytes.len() {
            match parse(&bytes[..cut]) {
                Ok(Parsed::Unfinished) => (),
                decided => prop_assert_eq!(decided, whole),
            }
        }
        if let Ok(Parsed::Header(_, length)) = whole {
            prop_assert!(length <= bytes.len());
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let _ = parse(&[&SIGNATURE_2[..], &bytes].concat());
        let _ = parse(&[SIGNATURE_1, &bytes].concat());
    }
}
