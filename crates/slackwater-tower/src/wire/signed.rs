//! Probes over HTTP with a key. The request proves that a client sent it a moment ago; the answer
//! proves that a replica gave it to this request.
//!
//! The signed data is text, so that any language can sign it in a few lines;
//! `docs/reference/probe-protocol.md` defines it exactly. The tag is computed as for a datagram. A
//! replica keeps no state: a recorded probe is answered again while its time is within the clock
//! skew, and the answer only contains the load of that moment. Nothing is encrypted; use TLS for
//! that.

use super::key::TAG_BYTES;
use super::{ProbeKey, headers, hex};
use core::time::Duration;
use http::header::{HeaderName, HeaderValue};
use slackwater_http::{FieldMap, Value};
use std::time::{SystemTime, UNIX_EPOCH};

/// Header of a request: its time, a nonce, and the tag of both and of the hint.
pub const PROBE_AUTH: HeaderName = HeaderName::from_static("x-slackwater-probe-auth");
/// Header of an answer: the tag of the request's time and nonce and of the whole report.
pub const REPORT_AUTH: HeaderName = HeaderName::from_static("x-slackwater-report-auth");

/// The largest difference between the clocks of client and replica, and so the time for which a
/// recorded probe is answered again.
pub const CLOCK_SKEW_MAX: Duration = Duration::from_secs(30);

const NONCE_DIGITS: usize = 16;
const TAG_DIGITS: usize = 2 * TAG_BYTES;
/// The most digits of a 64-bit number.
const TIME_DIGITS_MAX: usize = 20;

/// The time and nonce that make a request unique, as text. The answer is bound to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Challenge(String);

/// Why a probe, or an answer, is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadAuth {
    /// The header is not there.
    #[error("it is not signed; expected a signature with the shared key")]
    Absent,
    /// The header occurs twice, or does not match the specification.
    #[error("its signature has no valid form")]
    Malformed,
    /// The tag is not that of this message under this key.
    #[error("its signature was made with another key, or for other content")]
    Wrong,
    /// The request's time differs from this clock by more than [`CLOCK_SKEW_MAX`].
    #[error("its time differs too much from this clock; check both clocks")]
    Stale,
}

/// Signs a request that is otherwise complete, replacing any signature. `nonce` must be hard to
/// guess.
pub fn sign_probe(
    key: &ProbeKey,
    at: SystemTime,
    nonce: u64,
    headers: &mut impl FieldMap,
) -> Challenge {
    let challenge = Challenge(format!("{}.{nonce:016x}", seconds(at)));
    let tag = hex::encode(&key.tag(&challenge.probe_text(headers)));
    // Digits and points always make a header value.
    if let Ok(value) = HeaderValue::try_from(format!("{}.{tag}", challenge.0)) {
        headers.set(&PROBE_AUTH, value);
    }
    challenge
}

/// Checks that a request was signed with `key`, at most [`CLOCK_SKEW_MAX`] from `now`. Returns the
/// challenge to sign the answer for.
///
/// # Errors
///
/// The reason for which the request must not be answered.
pub fn check_probe(
    key: &ProbeKey,
    now: SystemTime,
    headers: &impl FieldMap,
) -> Result<Challenge, BadAuth> {
    let name = PROBE_AUTH;
    let text = single(headers, &name)?.to_str();
    let text = text.map_err(|_| BadAuth::Malformed)?;
    let (challenge, tag) = text.rsplit_once('.').ok_or(BadAuth::Malformed)?;
    let (time, nonce) = challenge.split_once('.').ok_or(BadAuth::Malformed)?;
    let is_nonce =
        nonce.len() == NONCE_DIGITS && nonce.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_time = time.len() <= TIME_DIGITS_MAX && time.bytes().all(|byte| byte.is_ascii_digit());
    let made_s: Option<u64> = time.parse().ok().filter(|_| is_time && is_nonce);
    let made_s = made_s.ok_or(BadAuth::Malformed)?;
    let challenge = Challenge(challenge.to_owned());
    let tag = tag_in(tag.as_bytes())?;
    // First, so that a client without the key learns nothing, not even the time here.
    if !key.accepts(&challenge.probe_text(headers), &tag) {
        return Err(BadAuth::Wrong);
    }
    if seconds(now).abs_diff(made_s) > CLOCK_SKEW_MAX.as_secs() {
        return Err(BadAuth::Stale);
    }
    Ok(challenge)
}

/// Signs an answer that is otherwise complete.
pub fn sign_report(key: &ProbeKey, challenge: &Challenge, headers: &mut impl FieldMap) {
    let tag = hex::encode(&key.tag(&challenge.report_text(headers)));
    if let Ok(value) = HeaderValue::try_from(tag) {
        headers.set(&REPORT_AUTH, value);
    }
}

/// Checks that an answer was signed with `key`, to the request with this challenge.
///
/// # Errors
///
/// The reason for which the answer must be rejected.
pub fn check_report(
    key: &ProbeKey,
    challenge: &Challenge,
    headers: &impl FieldMap,
) -> Result<(), BadAuth> {
    let tag = tag_in(single(headers, &REPORT_AUTH)?.as_bytes())?;
    if key.accepts(&challenge.report_text(headers), &tag) {
        Ok(())
    } else {
        Err(BadAuth::Wrong)
    }
}

impl Challenge {
    /// The text that a request's tag covers.
    fn probe_text(&self, headers: &impl FieldMap) -> Vec<u8> {
        let mut text = format!("slackwater probe 1\n{}\n", self.0).into_bytes();
        append(&mut text, headers, &headers::HINT);
        text
    }

    /// The text that an answer's tag covers.
    fn report_text(&self, headers: &impl FieldMap) -> Vec<u8> {
        let mut text = format!("slackwater report 1\n{}\n", self.0).into_bytes();
        for name in &headers::OF_REPORT {
            append(&mut text, headers, name);
        }
        text
    }
}

/// Appends a line for each occurrence of a header.
fn append(text: &mut Vec<u8>, headers: &impl FieldMap, name: &HeaderName) {
    for value in headers.all(name) {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.push(b'\n');
    }
}

fn single<'h>(headers: &'h impl FieldMap, name: &'h HeaderName) -> Result<Value<'h>, BadAuth> {
    let mut values = headers.all(name);
    let value = values.next().ok_or(BadAuth::Absent)?;
    match values.next() {
        None => Ok(value),
        Some(_) => Err(BadAuth::Malformed),
    }
}

fn tag_in(digits: &[u8]) -> Result<[u8; TAG_BYTES], BadAuth> {
    let mut tag = [0; TAG_BYTES];
    if digits.len() != TAG_DIGITS || hex::decode(digits, &mut tag) != Some(TAG_BYTES) {
        return Err(BadAuth::Malformed);
    }
    Ok(tag)
}

/// Seconds since 1970; earlier times count as 0.
fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
