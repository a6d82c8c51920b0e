//! Probes over HTTP: the report in a response's headers, the hint in a request's.
//!
//! `x-prequal-rif` and `x-prequal-latency-us` are the names that other implementations of Prequal
//! use too; the rest of the report is in `x-slackwater-*`. Values are plain decimal numbers,
//! without sign, blank or fraction. An absent header means "not known", except for the RIF, which
//! every report has. Paths, status codes and caching are the server's business.

use super::{HINT_BYTES_MAX, HintTooLong, hex};
use core::fmt;
use core::time::Duration;
use http::header::{HeaderName, HeaderValue};
use slackwater_core::{LoadReport, LoadScale, Rif};
use slackwater_http::FieldMap;

/// Requests in flight, 0 to 2^32 − 1. The only header that every report must have.
pub const RIF: HeaderName = HeaderName::from_static("x-prequal-rif");
/// Estimated latency of the next query in whole microseconds, rounded down, but at least 1. Absent
/// if unknown; 0 is read as unknown.
pub const LATENCY_US: HeaderName = HeaderName::from_static("x-prequal-latency-us");
/// Load scale in 1/1024, 1 to 65,535; absent for 1024. `[S3]`
pub const LOAD_SCALE: HeaderName = HeaderName::from_static("x-slackwater-load-scale");
/// `1` if the replica wants no new queries; otherwise `0` or absent.
pub const DRAINING: HeaderName = HeaderName::from_static("x-slackwater-draining");
/// A number that changes when the replica restarts.
pub const INCARNATION: HeaderName = HeaderName::from_static("x-slackwater-incarnation");
/// Share of recent queries that failed, in millionths.
pub const ERROR_MILLIONTHS: HeaderName = HeaderName::from_static("x-slackwater-error-millionths");
/// CPU in use, in millionths of the allocation.
pub const CPU_MILLIONTHS: HeaderName = HeaderName::from_static("x-slackwater-cpu-millionths");
/// Finished queries each second, in thousandths.
pub const QUERY_RATE_MILLIS: HeaderName = HeaderName::from_static("x-slackwater-query-rate-millis");
/// The replica's capacity, in thousandths of a request in flight.
pub const CAPACITY_MILLIRIF: HeaderName = HeaderName::from_static("x-slackwater-capacity-millirif");
/// CPU time per query in nanoseconds.
pub const COST_NS: HeaderName = HeaderName::from_static("x-slackwater-cost-ns");
/// The query hint of a probe: up to 256 bytes in hexadecimal. `[S3]`
pub const HINT: HeaderName = HeaderName::from_static("x-slackwater-hint");

/// All headers of a report, in the order of the specification.
pub(super) static OF_REPORT: [HeaderName; 10] = [
    RIF,
    LATENCY_US,
    LOAD_SCALE,
    DRAINING,
    INCARNATION,
    ERROR_MILLIONTHS,
    CPU_MILLIONTHS,
    QUERY_RATE_MILLIS,
    CAPACITY_MILLIRIF,
    COST_NS,
];

/// Puts `report` into `headers`, replacing any report there. Durations beyond 2^64 − 1 µs, or ns
/// for the cost, are written as 2^64 − 1.
pub fn write_report(report: &LoadReport, headers: &mut impl FieldMap) {
    let scale = report.load_scale;
    let fields = [
        (RIF, Some(report.rif.count().into())),
        (
            LATENCY_US,
            (report.known_latency()).map(|span| wide(span.as_micros().max(1))),
        ),
        (
            LOAD_SCALE,
            (scale != LoadScale::ONE).then(|| scale.in_1024ths().into()),
        ),
        (DRAINING, report.draining.then_some(1)),
        (INCARNATION, report.incarnation),
        (ERROR_MILLIONTHS, report.error_millionths.map(u64::from)),
        (CPU_MILLIONTHS, report.cpu_millionths.map(u64::from)),
        (QUERY_RATE_MILLIS, report.query_rate_millis.map(u64::from)),
        (CAPACITY_MILLIRIF, report.capacity_millirif.map(u64::from)),
        (COST_NS, report.cost.map(|span| wide(span.as_nanos()))),
    ];
    for (name, value) in fields {
        set(headers, &name, value);
    }
}

fn wide(span: u128) -> u64 {
    u64::try_from(span).unwrap_or(u64::MAX)
}

fn set(headers: &mut impl FieldMap, name: &HeaderName, value: Option<u64>) {
    match value {
        Some(value) => headers.set(name, HeaderValue::from(value)),
        None => _ = headers.unset(name),
    }
}

/// Reads the report in `headers`.
pub fn read_report(headers: &impl FieldMap) -> Result<LoadReport, BadReport> {
    let number = |header: &HeaderName, max| number(headers, header, max);
    let narrow = |header: &HeaderName| -> Result<Option<u32>, BadReport> {
        let value = number(header, u32::MAX.into())?;
        // Never cut: `number` has checked the range.
        Ok(value.map(|value| u32::try_from(value).unwrap_or(u32::MAX)))
    };
    let rif = narrow(&RIF)?.ok_or(BadReport::RifAbsent)?;
    let latency = number(&LATENCY_US, u64::MAX)?.map(Duration::from_micros);
    let mut report = LoadReport::new(Rif::new(rif), latency);
    if let Some(parts) = number(&LOAD_SCALE, u16::MAX.into())? {
        // Never cut: `number` has checked the range.
        report.load_scale = LoadScale::from_1024ths(u16::try_from(parts).unwrap_or(u16::MAX));
    }
    report.draining = number(&DRAINING, 1)? == Some(1);
    report.incarnation = number(&INCARNATION, u64::MAX)?;
    report.error_millionths = narrow(&ERROR_MILLIONTHS)?;
    report.cpu_millionths = narrow(&CPU_MILLIONTHS)?;
    report.query_rate_millis = narrow(&QUERY_RATE_MILLIS)?;
    report.capacity_millirif = narrow(&CAPACITY_MILLIRIF)?;
    report.cost = number(&COST_NS, u64::MAX)?.map(Duration::from_nanos);
    Ok(report)
}

/// Puts `hint` into `headers`, replacing any hint there. An empty hint only removes it.
pub fn write_hint(hint: &[u8], headers: &mut impl FieldMap) -> Result<(), HintTooLong> {
    let bytes = hint.len();
    if bytes > HINT_BYTES_MAX {
        return Err(HintTooLong { bytes });
    }
    headers.unset(&HINT);
    // Hexadecimal digits always make a header value.
    if let (false, Ok(value)) = (hint.is_empty(), HeaderValue::try_from(hex::encode(hint))) {
        headers.set(&HINT, value);
    }
    Ok(())
}

/// Reads the hint in `headers`: empty if there is none.
pub fn read_hint(headers: &impl FieldMap) -> Result<Hint, BadHint> {
    let mut hint = Hint::default();
    let name = HINT;
    let mut values = headers.all(&name);
    if let Some(value) = values.next() {
        hint.length = hex::decode(value.as_bytes(), &mut hint.bytes).ok_or(BadHint)?;
    }
    if values.next().is_some() {
        return Err(BadHint);
    }
    Ok(hint)
}

/// A query hint from a header; derefs to its bytes.
#[derive(Clone)]
pub struct Hint {
    bytes: [u8; HINT_BYTES_MAX],
    length: usize,
}

impl Default for Hint {
    fn default() -> Self {
        Self {
            bytes: [0; HINT_BYTES_MAX],
            length: 0,
        }
    }
}

impl core::ops::Deref for Hint {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Debug for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hint").field(&hex::encode(self)).finish()
    }
}

/// Why headers contain no valid report. One bad header makes the whole report invalid: half a
/// report may mislead more than none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadReport {
    /// There is no `x-prequal-rif`: the server that answered does not implement Prequal.
    #[error("the header {RIF} is absent; does the probe reach a replica that reports its load?")]
    RifAbsent,
    /// A header is not a plain decimal number, or is out of range.
    #[error("the header {header} is not a whole number from 0 to {max}")]
    NotANumber {
        /// The header.
        header: HeaderName,
        /// Its largest value.
        max: u64,
    },
    /// A header occurs more than once, as if from two replicas.
    #[error("the header {header} comes more than once")]
    Repeated {
        /// The header.
        header: HeaderName,
    },
}

/// The header `x-slackwater-hint` occurs twice, or is not up to 256 bytes in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header {HINT} is not one text of up to {HINT_BYTES_MAX} bytes in hexadecimal digits")]
pub struct BadHint;

/// Reads the header as a number from 0 to `max`; `None` if it is absent.
fn number(
    headers: &impl FieldMap,
    header: &HeaderName,
    max: u64,
) -> Result<Option<u64>, BadReport> {
    let mut values = headers.all(header);
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        let header = header.clone();
        return Err(BadReport::Repeated { header });
    }
    match parse(value.as_bytes()) {
        Some(number) if number <= max => Ok(Some(number)),
        _ => {
            let header = header.clone();
            Err(BadReport::NotANumber { header, max })
        }
    }
}

/// Reads decimal digits and nothing else; `str::parse` would accept a plus sign.
pub(super) fn parse(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value.checked_mul(10)?.checked_add(digit.into())
    })
}
