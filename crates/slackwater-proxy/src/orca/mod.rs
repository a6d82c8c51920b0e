//! ORCA: load reports of replicas in responses. They are read for the policies, and written for an
//! agent's server.
//!
//! The message is `xds.data.orca.v3.OrcaLoadReport`; gRPC servers and others send it in a response
//! field (gRPC A51). The proxy reads the fields that its policies use: CPU, queries and errors per
//! second, and the named metrics for a replica's RIF, capacity and cost. Three forms are in use:
//! text, JSON, and the message itself in Base64. Each has its own field, or follows its name in
//! `endpoint-load-metrics`. Fields that cannot be read, or are not meaningful numbers, count as
//! absent.
//!
//! A report may be in the head of a response or in its trailers.

mod write;

pub use write::{wanted, write_trailers};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use core::time::Duration;
use http::header::HeaderName;
use prost::Message;
use slackwater_core::{LoadReport, Rif};
use slackwater_http::FieldMap;
use std::collections::BTreeMap;

const ANY: HeaderName = HeaderName::from_static("endpoint-load-metrics");
const JSON: HeaderName = HeaderName::from_static("endpoint-load-metrics-json");
const BIN: HeaderName = HeaderName::from_static("endpoint-load-metrics-bin");

/// Slackwater's named metrics: requests in flight without the one that is answered, capacity in
/// requests in flight, and CPU time of a request.
const RIF: &str = "slackwater.rif";
const CAPACITY: &str = "slackwater.capacity";
const COST_SECONDS: &str = "slackwater.cost_seconds";

/// Base64 as in gRPC's binary metadata: written without padding, and read with or without.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

/// The fields of `OrcaLoadReport` that are used here. On the wire, 0 is the same as absent.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OrcaLoadReport {
    #[prost(double, tag = "1")]
    cpu_utilization: f64,
    #[prost(double, tag = "6")]
    rps_fractional: f64,
    #[prost(double, tag = "7")]
    eps: f64,
    #[prost(btree_map = "string, double", tag = "8")]
    named_metrics: BTreeMap<String, f64>,
    #[prost(double, tag = "9")]
    application_utilization: f64,
}

/// Reads one form of a report.
type Read = fn(&str) -> Option<OrcaLoadReport>;

/// Removes the report from a response's head or trailers, and returns it. Clients do not receive a
/// replica's load.
pub(crate) fn take(headers: &mut impl FieldMap) -> Option<OrcaLoadReport> {
    let forms: [(HeaderName, Read); 3] = [(ANY, read_any), (JSON, read_json), (BIN, read_bin)];
    let mut found = None;
    for (name, read) in forms {
        if let Some(value) = headers.first(&name) {
            let text = value.to_str().ok();
            found = found.or_else(|| text.and_then(|text| read(text.trim())));
            headers.unset(&name);
        }
    }
    found
}

impl OrcaLoadReport {
    /// Returns the report on CPU and queries. Values that are not above 0 count as absent (gRPC
    /// A114). Without a rate and a utilization there is no report.
    pub(crate) fn of_rates(&self) -> Option<LoadReport> {
        let utilization = if is_some(self.application_utilization) {
            self.application_utilization
        } else {
            self.cpu_utilization
        };
        if !is_some(utilization) || !is_some(self.rps_fractional) {
            return None;
        }
        let mut report = LoadReport::new(Rif::ZERO, None);
        report.cpu_millionths = Some(scaled(utilization, 1e6));
        report.query_rate_millis = Some(scaled(self.rps_fractional, 1e3));
        if is_some(self.eps) {
            let share = (self.eps / self.rps_fractional).min(1.0);
            report.error_millionths = Some(scaled(share, 1e6));
        }
        Some(report)
    }

    /// Returns the report on capacity, from Slackwater's named metrics. Without RIF and capacity
    /// there is no report; a cost that is not above 0 counts as absent.
    pub(crate) fn of_capacity(&self) -> Option<LoadReport> {
        let named = |name: &str| self.named_metrics.get(name).copied();
        let rif = named(RIF).filter(|rif| rif.is_finite() && *rif >= 0.0)?;
        let capacity = named(CAPACITY).filter(|capacity| is_some(*capacity))?;
        // Less than half a request counts as none.
        let rif = if rif < 0.5 { 0 } else { scaled(rif, 1.0) };
        let mut report = LoadReport::new(Rif::new(rif), None);
        report.capacity_millirif = Some(scaled(capacity, 1e3));
        let cost = named(COST_SECONDS).filter(|cost| is_some(*cost));
        report.cost = cost.and_then(|cost| Duration::try_from_secs_f64(cost).ok());
        Some(report)
    }

    fn set(&mut self, name: &str, value: f64) {
        if let Some(name) = name.strip_prefix("named_metrics.") {
            self.set_named(name, value);
            return;
        }
        match name {
            "cpu_utilization" => self.cpu_utilization = value,
            "application_utilization" => self.application_utilization = value,
            "rps_fractional" => self.rps_fractional = value,
            "eps" => self.eps = value,
            _ => (),
        }
    }

    /// Only the metrics that are used are kept: a replica may send any number of them.
    fn set_named(&mut self, name: &str, value: f64) {
        if [RIF, CAPACITY, COST_SECONDS].contains(&name) {
            self.named_metrics.insert(name.to_owned(), value);
        }
    }
}

fn is_some(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Scales a number above 0; the result is at least 1.
fn scaled(value: f64, parts: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and a cast of what is too large saturates"
    )]
    let whole = (value * parts).round() as u32;
    whole.max(1)
}

/// Reads the field whose value begins with the name of its form; without a name, the form is text.
fn read_any(value: &str) -> Option<OrcaLoadReport> {
    match value.split_once(' ') {
        Some(("JSON", json)) => read_json(json),
        Some(("BIN", bin)) => read_bin(bin),
        Some(("TEXT", text)) => read_text(text),
        _ => read_text(value),
    }
}

/// Reads `name=value` or `name:value`, separated by commas.
fn read_text(text: &str) -> Option<OrcaLoadReport> {
    let mut report = OrcaLoadReport::default();
    for pair in text.split(',') {
        let (name, value) = pair.split_once(['=', ':'])?;
        report.set(name.trim(), value.trim().parse().ok()?);
    }
    Some(report)
}

fn read_json(json: &str) -> Option<OrcaLoadReport> {
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).ok()?;
    let mut report = OrcaLoadReport::default();
    for (name, value) in &object {
        let name = snake(name);
        if let Some(value) = value.as_f64() {
            report.set(&name, value);
        } else if name == "named_metrics"
            && let Some(named) = value.as_object()
        {
            for (name, value) in named {
                if let Some(value) = value.as_f64() {
                    report.set_named(name, value);
                }
            }
        }
    }
    Some(report)
}

/// Converts to snake case: JSON of Protocol Buffers uses camel case, and also accepts the original
/// names.
fn snake(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 2);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn read_bin(bin: &str) -> Option<OrcaLoadReport> {
    let bytes = BASE64.decode(bin.trim_end_matches('=')).ok()?;
    OrcaLoadReport::decode(bytes.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use slackwater_http::Fields;

    /// Returns CPU, rate and errors of a report in this field, in the core's units.
    fn read(name: &'static str, value: &str) -> Option<(u32, u32, Option<u32>)> {
        let mut headers = Fields::new();
        headers.insert(name, HeaderValue::from_str(value).expect("a value"));
        headers.insert("other", "stays");
        let report = take(&mut headers);
        assert_eq!(headers.len(), 1, "clients do not receive it");
        let report = report?.of_rates()?;
        Some((
            report.cpu_millionths?,
            report.query_rate_millis?,
            report.error_millionths,
        ))
    }

    const EXPECTED: Option<(u32, u32, Option<u32>)> = Some((300_000, 10_500, Some(200_000)));

    #[test]
    fn text_json_and_binary_forms_yield_the_same_report() {
        let any = "endpoint-load-metrics";
        let text = "cpu_utilization:0.3,mem_utilization:0.8,rps_fractional:10.5,eps:2.1";
        assert_eq!(read(any, text), EXPECTED);
        let text = "TEXT cpu_utilization=0.3, rps_fractional=10.5, eps=2.1, named_metrics.x=1";
        assert_eq!(read(any, text), EXPECTED);
        let json =
            r#"{"cpu_utilization":0.3,"rpsFractional":10.5,"eps":2.1,"named_metrics":{"x":1}}"#;
        assert_eq!(read(any, &format!("JSON {json}")), EXPECTED);
        assert_eq!(read("endpoint-load-metrics-json", json), EXPECTED);
        // cpu_utilization 0.3, mem_utilization 0.8, rps_fractional 10.5, eps 2.1, as protoc encodes
        // them.
        let bin = "CTMzMzMzM9M/EZqZmZmZmek/MQAAAAAAACVAOc3MzMzMzABA";
        assert_eq!(read("endpoint-load-metrics-bin", bin), EXPECTED);
        assert_eq!(read(any, &format!("BIN {bin}")), EXPECTED);
    }

    #[test]
    fn capacity_is_read_from_slackwater_metrics() {
        let capacity = |text: &str| {
            let report = read_any(text)?.of_capacity()?;
            Some((report.rif.count(), report.capacity_millirif, report.cost))
        };
        let text = |rif: &str, capacity: &str, cost: &str| {
            format!(
                "named_metrics.slackwater.rif={rif}, named_metrics.slackwater.capacity={capacity}, \
                 named_metrics.slackwater.cost_seconds={cost}, named_metrics.other=1"
            )
        };
        let cost = Some(Duration::from_millis(2));
        let expected = Some((3, Some(4_500), cost));
        assert_eq!(capacity(&text("3", "4.5", "0.002")), expected);
        let json = r#"JSON {"namedMetrics":{"slackwater.rif":3,"slackwater.capacity":4.5,"slackwater.cost_seconds":0.002}}"#;
        assert_eq!(capacity(json), expected);
        let idle = capacity(&text("0", "0.0001", "-1"));
        assert_eq!(idle, Some((0, Some(1), None)), "none is in flight");
        assert_eq!(
            capacity(&text("1", "1e30", "1e30")),
            Some((1, Some(u32::MAX), None))
        );
        for (rif, of) in [("NaN", "4"), ("-1", "4"), ("1", "0"), ("1", "inf")] {
            assert_eq!(capacity(&text(rif, of, "1")), None, "{rif} of {of}");
        }
        assert_eq!(capacity("named_metrics.slackwater.capacity=4"), None);
        assert_eq!(capacity("named_metrics.rif=1, cpu_utilization=1"), None);
        let other = read_any("named_metrics.other=1").expect("it can be read");
        assert!(other.named_metrics.is_empty());
    }

    #[test]
    fn application_utilization_takes_precedence() {
        let text = "cpu_utilization=0.3,application_utilization=1.5,rps_fractional=2";
        assert_eq!(
            read("endpoint-load-metrics", text),
            Some((1_500_000, 2_000, None))
        );
    }

    #[test]
    fn invalid_values_count_as_absent() {
        for text in [
            "",
            "cpu_utilization=0.3",
            "rps_fractional=3",
            "cpu_utilization=0,rps_fractional=3",
            "cpu_utilization=-1,rps_fractional=3",
            "cpu_utilization=NaN,rps_fractional=3",
            "cpu_utilization=0.3,rps_fractional=inf",
            "cpu_utilization=0.3;rps_fractional=3",
            "cpu_utilization",
            "JSON [1]",
            "BIN ???",
            "BIN AAAA",
        ] {
            assert_eq!(read("endpoint-load-metrics", text), None, "{text}");
        }
        let odd = "cpu_utilization=0.3,rps_fractional=3,eps=NaN";
        assert_eq!(
            read("endpoint-load-metrics", odd),
            Some((300_000, 3_000, None))
        );
        let more_errors = "cpu_utilization=0.3,rps_fractional=3,eps=9";
        let found = read("endpoint-load-metrics", more_errors);
        assert_eq!(found, Some((300_000, 3_000, Some(1_000_000))));
    }
}
