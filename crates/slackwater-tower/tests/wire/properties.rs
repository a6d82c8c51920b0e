//! Every encoded value is decoded unchanged, and no input causes harm.

use core::time::Duration;
use http::HeaderMap;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use slackwater_core::{LoadReport, LoadScale, Rif};
use slackwater_tower::wire::datagram::{
    DATAGRAM_BYTES_MAX, HintTooLong, ProbeReply, ProbeRequest, REPLY_BYTES_MAX, REQUEST_BYTES_MIN,
    decode_reply, decode_request, encode_reply, encode_request,
};
use slackwater_tower::wire::headers::{read_hint, read_report, write_hint, write_report};
use slackwater_tower::wire::{HINT_BYTES_MAX, ProbeKey};

fn key() -> ProbeKey {
    ProbeKey::from_bytes(b"a secret of thirty-two bytes ...").unwrap()
}

prop_compose! {
    fn reports()(
        rif: u32,
        latency_ns in option::of(any::<u64>()),
        scale in 1_u16..,
        draining: bool,
        (incarnation, cost_ns) in any::<(Option<u64>, Option<u64>)>(),
        (error_millionths, cpu_millionths) in any::<(Option<u32>, Option<u32>)>(),
        (query_rate_millis, capacity_millirif) in any::<(Option<u32>, Option<u32>)>(),
    ) -> LoadReport {
        let latency = latency_ns.map(Duration::from_nanos);
        let mut report = LoadReport::new(Rif::new(rif), latency);
        report.load_scale = LoadScale::from_1024ths(scale);
        report.draining = draining;
        report.incarnation = incarnation;
        report.error_millionths = error_millionths;
        report.cpu_millionths = cpu_millionths;
        report.query_rate_millis = query_rate_millis;
        report.capacity_millirif = capacity_millirif;
        report.cost = cost_ns.map(Duration::from_nanos);
        report
    }
}

/// Random bytes. Half of them follow the start of a real datagram, so that they pass the first
/// checks.
fn datagrams() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![
        Just(vec![]),
        Just(b"SLWP\x01\x01\x00\x00".to_vec()),
        Just(b"SLWP\x01\x01\x00\x01".to_vec()),
        Just(b"SLWP\x01\x02\x00\x00".to_vec()),
        Just(b"SLWP\x01\x02\x00\x01".to_vec()),
    ];
    (start, vec(any::<u8>(), 0..600)).prop_map(|(mut start, rest)| {
        start.extend(rest);
        start
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn reply_round_trips(nonce: u64, report in reports(), keyed: bool) {
        let key = keyed.then(key);
        let reply = ProbeReply { nonce, report };
        let mut into = [0xff; DATAGRAM_BYTES_MAX];
        let bytes = encode_reply(&reply, key.as_ref(), &mut into);
        prop_assert!(bytes <= REPLY_BYTES_MAX);
        prop_assert_eq!(decode_reply(&into[..bytes], key.as_ref()), Ok(reply));
    }

    #[test]
    fn request_round_trips_and_its_reply_is_no_larger(
        nonce: u64,
        hint in vec(any::<u8>(), 0..=HINT_BYTES_MAX),
        report in reports(),
        keyed: bool,
    ) {
        let key = keyed.then(key);
        let request = ProbeRequest { nonce, hint: &hint };
        let mut into = [0xff; DATAGRAM_BYTES_MAX];
        let bytes = encode_request(&request, key.as_ref(), &mut into).unwrap();
        prop_assert!(bytes >= REQUEST_BYTES_MIN);
        prop_assert_eq!(decode_request(&into[..bytes], key.as_ref()), Ok(request));
        let reply = ProbeReply { nonce, report };
        prop_assert!(encode_reply(&reply, key.as_ref(), &mut [0; DATAGRAM_BYTES_MAX]) <= bytes);
    }

    #[test]
    fn a_keyed_datagram_with_any_bit_flipped_is_refused(bit in 0_usize..8 * REPLY_BYTES_MAX) {
        let reply = ProbeReply { nonce: 7, report: LoadReport::new(Rif::new(3), None) };
        let mut into = [0; DATAGRAM_BYTES_MAX];
        let bytes = encode_reply(&reply, Some(&key()), &mut into);
        prop_assert_eq!(bytes, REPLY_BYTES_MAX);
        into[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(decode_reply(&into[..bytes], Some(&key())).is_err());
    }

    #[test]
    fn arbitrary_datagrams_never_panic_and_valid_ones_round_trip(datagram in datagrams()) {
        let mut into = [0; DATAGRAM_BYTES_MAX];
        for key in [None, Some(&key())] {
            if let Ok(request) = decode_request(&datagram, key) {
                let bytes = encode_request(&request, key, &mut into).unwrap();
                prop_assert!(bytes <= datagram.len());
                prop_assert_eq!(decode_request(&into[..bytes], key), Ok(request));
            }
            if let Ok(reply) = decode_reply(&datagram, key) {
                let bytes = encode_reply(&reply, key, &mut into);
                prop_assert_eq!(decode_reply(&into[..bytes], key), Ok(reply));
            }
        }
    }

    #[test]
    fn a_report_survives_headers_to_the_microsecond(report in reports()) {
        let mut headers = HeaderMap::new();
        // Headers of an earlier report must not remain.
        let mut earlier = LoadReport::new(Rif::new(1), Some(Duration::ZERO));
        earlier.draining = true;
        earlier.incarnation = Some(4);
        write_report(&earlier, &mut headers);
        write_report(&report, &mut headers);
        let mut want = report;
        want.latency = want.latency.map(|latency| {
            Duration::from_micros(u64::try_from(latency.as_micros()).unwrap().max(1))
        });
        prop_assert_eq!(read_report(&headers), Ok(want));
    }

    #[test]
    fn a_hint_survives_headers(hint in vec(any::<u8>(), 0..=HINT_BYTES_MAX)) {
        let mut headers = HeaderMap::new();
        write_hint(b"earlier", &mut headers).unwrap();
        write_hint(&hint, &mut headers).unwrap();
        prop_assert_eq!(&*read_hint(&headers).unwrap(), hint.as_slice());
        prop_assert_eq!(headers.is_empty(), hint.is_empty());
    }
}

#[test]
fn too_long_hint_is_refused_in_datagrams_and_headers() {
    let hint = [0; HINT_BYTES_MAX + 1];
    let request = ProbeRequest {
        nonce: 1,
        hint: &hint,
    };
    let too_long = HintTooLong { bytes: 257 };
    let mut into = [0; DATAGRAM_BYTES_MAX];
    assert_eq!(encode_request(&request, None, &mut into), Err(too_long));
    let huge = vec![0; 1 << 17];
    let request = ProbeRequest {
        nonce: 1,
        hint: &huge,
    };
    assert_eq!(
        encode_request(&request, None, &mut into),
        Err(HintTooLong { bytes: 1 << 17 }),
        "a length of 17 bits is not cut to 16"
    );
    assert_eq!(write_hint(&hint, &mut HeaderMap::new()), Err(too_long));
}

#[test]
fn invalid_hint_headers_are_refused() {
    let mut headers = HeaderMap::new();
    let too_long = "00".repeat(HINT_BYTES_MAX + 1);
    for value in ["0", "xy", "user-17", "00 00", &too_long] {
        headers.insert("x-slackwater-hint", value.parse().unwrap());
        assert!(read_hint(&headers).is_err(), "{value}");
    }
    headers.insert("x-slackwater-hint", "00".parse().unwrap());
    headers.append("x-slackwater-hint", "01".parse().unwrap());
    assert!(read_hint(&headers).is_err(), "two hints");
}

#[test]
fn durations_of_centuries_saturate() {
    let mut report = LoadReport::new(Rif::ZERO, Some(Duration::MAX));
    report.cost = Some(Duration::MAX);
    let mut into = [0; DATAGRAM_BYTES_MAX];
    let reply = ProbeReply {
        nonce: 1,
        report: report.clone(),
    };
    let bytes = encode_reply(&reply, None, &mut into);
    let end = Some(Duration::from_nanos(u64::MAX));
    let decoded = decode_reply(&into[..bytes], None).unwrap().report;
    assert_eq!((decoded.latency, decoded.cost), (end, end));
    let mut headers = HeaderMap::new();
    write_report(&report, &mut headers);
    let read = read_report(&headers).unwrap();
    assert_eq!(read.latency, Some(Duration::from_micros(u64::MAX)));
    assert_eq!(read.cost, end);
}
