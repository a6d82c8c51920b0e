//! Every vector in `vectors/probe/`, in both directions. The specification is
//! `docs/reference/probe-protocol.md`.

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
use slackwater_tower::wire::signed::{
    BadAuth, PROBE_AUTH, REPORT_AUTH, check_probe, check_report, sign_probe, sign_report,
};
use std::time::UNIX_EPOCH;

#[test]
fn requests_match_the_vectors() {
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
fn replies_match_the_vectors() {
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
fn malformed_datagrams_are_refused_as_in_the_vectors() {
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
fn headers_match_the_vectors() {
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

fn verdict(refusal: BadAuth) -> &'static str {
    match refusal {
        BadAuth::Absent => "absent",
        BadAuth::Malformed => "malformed",
        BadAuth::Wrong => "wrong",
        BadAuth::Stale => "stale",
        other => panic!("{other}"),
    }
}

#[test]
fn signed_probes_match_the_vectors() {
    for case in cases(include_str!("../../../../vectors/probe/signed-probes.json")) {
        let (name, key) = (text(&case, "name"), key(&case).expect("a key"));
        let headers = header_map(&case["headers"]);
        let now = UNIX_EPOCH + Duration::from_secs(number(&case, "now_s"));
        let checked = check_probe(&key, now, &headers);
        if case["verdict"].is_string() {
            assert_eq!(
                verdict(checked.expect_err(name)),
                text(&case, "verdict"),
                "{name}"
            );
            continue;
        }
        let challenge = checked.expect(name);
        if case["signs"].is_object() {
            let at = UNIX_EPOCH + Duration::from_secs(number(&case["signs"], "time_s"));
            let mut signed = headers.clone();
            signed.remove(PROBE_AUTH);
            let made = sign_probe(&key, at, number(&case["signs"], "nonce"), &mut signed);
            assert_eq!(signed, headers, "{name}");
            assert_eq!(made, challenge, "{name}");
        }
    }
}

#[test]
fn signed_reports_match_the_vectors() {
    for case in cases(include_str!(
        "../../../../vectors/probe/signed-reports.json"
    )) {
        let (name, key) = (text(&case, "name"), key(&case).expect("a key"));
        let headers = header_map(&case["headers"]);
        // A challenge can only be made by signing a probe, so the test signs one that yields it.
        let (time_s, nonce) = text(&case, "challenge").split_once('.').expect(name);
        let at = UNIX_EPOCH + Duration::from_secs(time_s.parse().expect(name));
        let nonce = u64::from_str_radix(nonce, 16).expect(name);
        let challenge = sign_probe(&key, at, nonce, &mut HeaderMap::new());
        let checked = check_report(&key, &challenge, &headers);
        if case["verdict"].is_string() {
            assert_eq!(
                verdict(checked.expect_err(name)),
                text(&case, "verdict"),
                "{name}"
            );
        } else {
            assert_eq!(checked, Ok(()), "{name}");
            let mut signed = headers.clone();
            signed.remove(REPORT_AUTH);
            sign_report(&key, &challenge, &mut signed);
            assert_eq!(signed, headers, "{name}");
        }
    }
}

#[test]
fn while_keys_change_both_are_accepted() {
    let old: ProbeKey = "00112233445566778899aabbccddeeff".parse().unwrap();
    let new: ProbeKey = "ffeeddccbbaa99887766554433221100".parse().unwrap();
    let both = new.clone().accepting(&old);
    let at = UNIX_EPOCH + Duration::from_secs(1_763_750_000);
    for key in [&old, &new] {
        let mut headers = HeaderMap::new();
        let challenge = sign_probe(key, at, 1, &mut headers);
        assert_eq!(check_probe(&both, at, &headers), Ok(challenge.clone()));
        sign_report(key, &challenge, &mut headers);
        assert_eq!(check_report(&both, &challenge, &headers), Ok(()));
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
