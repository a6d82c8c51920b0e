//! Every vector in `vectors/probe/`, both ways. The specification is `docs/probe-protocol.md`.

use core::time::Duration;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use slackwater_core::{LoadReport, LoadScale, Rif};
use slackwater_tower::wire::ProbeKey;
use slackwater_tower::wire::datagram::{
    DATAGRAM_BYTES_MAX, ProbeReply, ProbeRequest, decode_reply, decode_request, encode_reply,
    encode_request,
};
use slackwater_tower::wire::headers::{BadReport, read_report, write_report};

#[test]
fn requests_decode_and_encode_as_the_vectors_say() {
    for case in cases(include_str!("../../../../vectors/probe/requests.json")) {
        let (name, key, datagram) = (text(&case, "name"), key(&case), hex(&case, "datagram"));
        let hint = hex(&case["request"], "hint");
        let want = ProbeRequest {
            nonce: number(&case["request"], "nonce"),
            hint: &hint,
        };
        assert_eq!(decode_request(&datagram, key.as_ref()), Ok(want), "{name}");
        if case["canonical"] == true {
            let mut into = [0xaa; DATAGRAM_BYTES_MAX];
            let bytes = encode_request(&want, key.as_ref(), &mut into).unwrap();
            assert_eq!(into[..bytes], datagram, "{name}");
        }
    }
}

#[test]
fn replies_decode_and_encode_as_the_vectors_say() {
    for case in cases(include_str!("../../../../vectors/probe/replies.json")) {
        let (name, key, datagram) = (text(&case, "name"), key(&case), hex(&case, "datagram"));
        let want = ProbeReply {
            nonce: number(&case["reply"], "nonce"),
            report: report(&case["reply"]["report"]),
        };
        let got = decode_reply(&datagram, key.as_ref());
        assert_eq!(got.as_ref(), Ok(&want), "{name}");
        if case["canonical"] == true {
            let mut into = [0xaa; DATAGRAM_BYTES_MAX];
            let bytes = encode_reply(&want, key.as_ref(), &mut into);
            assert_eq!(into[..bytes], datagram, "{name}");
        }
    }
}

#[test]
fn malformed_datagrams_are_refused_for_the_reason_that_the_vectors_name() {
    for case in cases(include_str!("../../../../vectors/probe/malformed.json")) {
        let (name, key, datagram) = (text(&case, "name"), key(&case), hex(&case, "datagram"));
        let refusal = match text(&case, "as") {
            "request" => decode_request(&datagram, key.as_ref()).map(drop),
            _ => decode_reply(&datagram, key.as_ref()).map(drop),
        };
        let verdict = refusal.expect_err(name).name();
        assert_eq!(verdict, text(&case, "verdict"), "{name}");
    }
}

#[test]
fn headers_read_and_write_as_the_vectors_say() {
    for case in cases(include_str!("../../../../vectors/probe/headers.json")) {
        let name = text(&case, "name");
        let headers = header_map(&case["headers"]);
        let got = read_report(&headers);
        if case["report"].is_object() {
            assert_eq!(got, Ok(report(&case["report"])), "{name}");
            if case["canonical"] == true {
                let mut written = HeaderMap::new();
                write_report(&report(&case["report"]), &mut written);
                assert_eq!(written, headers, "{name}");
            }
        } else {
            let (error, header) = match got.expect_err(name) {
                BadReport::RifAbsent => ("rif_absent", None),
                BadReport::NotANumber { header, .. } => ("not_a_number", Some(header)),
                BadReport::Repeated { header } => ("repeated", Some(header)),
                other => panic!("{name}: {other}"),
            };
            assert_eq!(error, text(&case, "error"), "{name}");
            assert_eq!(
                header.as_ref().map(HeaderName::as_str),
                case["header"].as_str(),
                "{name}"
            );
        }
    }
}

fn cases(file: &str) -> Vec<Value> {
    let file: Value = serde_json::from_str(file).unwrap();
    let cases = file["cases"].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn text<'a>(case: &'a Value, field: &str) -> &'a str {
    case[field]
        .as_str()
        .unwrap_or_else(|| panic!("{field} of {case}"))
}

fn number(case: &Value, field: &str) -> u64 {
    case[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} of {case}"))
}

fn hex(case: &Value, field: &str) -> Vec<u8> {
    let (pairs, []) = text(case, field).as_bytes().as_chunks::<2>() else {
        panic!("{field} of {case}");
    };
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(byte).collect()
}

fn key(case: &Value) -> Option<ProbeKey> {
    let key = case["key"].as_str()?;
    Some(key.parse().unwrap())
}

fn report(fields: &Value) -> LoadReport {
    let wide = |field: &str| fields[field].as_u64();
    let narrow = |field: &str| wide(field).map(|value| u32::try_from(value).unwrap());
    let mut report = LoadReport::new(
        Rif::new(narrow("rif").unwrap()),
        wide("latency_ns").map(Duration::from_nanos),
    );
    if let Some(parts) = wide("load_scale_1024ths") {
        report.load_scale = LoadScale::from_1024ths(u16::try_from(parts).unwrap());
    }
    report.draining = fields["draining"].as_bool().unwrap();
    report.incarnation = wide("incarnation");
    report.error_millionths = narrow("error_millionths");
    report.cpu_millionths = narrow("cpu_millionths");
    report.query_rate_millis = narrow("query_rate_millis");
    report.capacity_millirif = narrow("capacity_millirif");
    report.cost = wide("cost_ns").map(Duration::from_nanos);
    report
}

fn header_map(pairs: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for pair in pairs.as_array().unwrap() {
        let (name, value) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    headers
}
