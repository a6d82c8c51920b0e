//! Writes a report as replicas do: as text, as JSON, or as the message itself in Base64.

use super::{ANY, BASE64, BIN, CAPACITY, COST_SECONDS, JSON, OrcaLoadReport, RIF};
use base64::Engine as _;
use core::fmt::Write;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use prost::Message;
use slackwater_config::{OrcaForm, OrcaReports};
use slackwater_core::LoadReport;
use slackwater_http::{FieldMap, Fields, GRPC_STATUS, Value};

/// The request field that names the requested form of a report.
const FORMAT: HeaderName = HeaderName::from_static("endpoint-load-metrics-format");

/// A report that must be written, with its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted(OrcaForm);

/// Returns the form of the report that a request gets: the requested one, or the default.
/// Unless reports are off, removes the request's field, which is for this hop only.
pub fn wanted(reports: OrcaReports, request: &mut Fields) -> Option<Wanted> {
    if reports == OrcaReports::Never {
        return None;
    }
    let asked = request.take(FORMAT);
    let asked = asked.as_ref().and_then(|form| form.to_str().ok());
    let form = asked.and_then(|form| match form.to_ascii_lowercase().as_str() {
        "text" => Some(OrcaForm::Text),
        "json" => Some(OrcaForm::Json),
        "bin" => Some(OrcaForm::Bin),
        _ => None,
    });
    let default = match reports {
        OrcaReports::Always(form) => Some(form),
        OrcaReports::Never | OrcaReports::Asked => None,
    };
    form.or(default).map(Wanted)
}

impl Wanted {
    /// Writes the report into the head of a response, unless the server has written one itself.
    /// Returns `true` if it belongs in the trailers instead, where gRPC expects it.
    pub fn write_head(self, response: &mut Fields, report: impl FnOnce() -> LoadReport) -> bool {
        if is_written(response) {
            return false;
        }
        if !is_grpc(response) {
            let value = write(self.0, &OrcaLoadReport::of(&report()));
            response.extend(HeaderValue::try_from(value).ok().map(|value| (ANY, value)));
            return false;
        }
        // A trailers-only response has its trailers in the head.
        if response.contains_key(GRPC_STATUS) {
            write_trailers(response, &report());
            return false;
        }
        true
    }
}

/// Writes the report into trailers in gRPC's form, unless the server has written one itself.
pub fn write_trailers(trailers: &mut impl FieldMap, report: &LoadReport) {
    if !is_written(trailers) {
        let value = BASE64.encode(OrcaLoadReport::of(report).encode_to_vec());
        if let Ok(value) = HeaderValue::try_from(value) {
            trailers.set(&BIN, value);
        }
    }
}

fn is_written(headers: &impl FieldMap) -> bool {
    [ANY, JSON, BIN]
        .iter()
        .any(|name| headers.first(name).is_some())
}

fn is_grpc(headers: &Fields) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(Value::as_bytes);
    kind.is_some_and(|kind| kind.starts_with(b"application/grpc"))
}

impl OrcaLoadReport {
    /// Converts the report of a replica whose requests in flight include the one that is answered.
    fn of(report: &LoadReport) -> Self {
        let rate = report
            .query_rate_millis
            .map_or(0.0, |rate| f64::from(rate) / 1e3);
        let errors = (report.error_millionths).map_or(0.0, |share| f64::from(share) / 1e6 * rate);
        let cpu = report
            .cpu_millionths
            .map_or(0.0, |cpu| f64::from(cpu) / 1e6);
        let rif = report.rif.count();
        let named = [
            // `rif` includes the request that is answered, for compatibility; the named metric does
            // not.
            ("rif", Some(f64::from(rif))),
            (RIF, Some(f64::from(rif.saturating_sub(1)))),
            (
                "latency_ms",
                report.latency.map(|it| it.as_secs_f64() * 1e3),
            ),
            (
                CAPACITY,
                (report.capacity_millirif).map(|it| f64::from(it) / 1e3),
            ),
            (COST_SECONDS, report.cost.map(|it| it.as_secs_f64())),
        ];
        let named = named.into_iter();
        Self {
            cpu_utilization: cpu,
            rps_fractional: rate,
            eps: errors,
            named_metrics: named
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect(),
            application_utilization: 0.0,
        }
    }

    /// Returns the numbers that are present, with their names.
    fn numbers(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let numbers = [
            ("cpu_utilization", self.cpu_utilization),
            ("rps_fractional", self.rps_fractional),
            ("eps", self.eps),
        ];
        numbers.into_iter().filter(|(_, value)| *value > 0.0)
    }
}

fn write(form: OrcaForm, report: &OrcaLoadReport) -> String {
    match form {
        OrcaForm::Text => {
            let mut text = String::from("TEXT ");
            for (name, value) in report.numbers() {
                // Writing to a string cannot fail.
                let _ = write!(text, "{name}={value}, ");
            }
            for (name, value) in &report.named_metrics {
                let _ = write!(text, "named_metrics.{name}={value}, ");
            }
            text.truncate(text.trim_end_matches(", ").len());
            text
        }
        OrcaForm::Json => {
            let mut object = serde_json::Map::new();
            for (name, value) in report.numbers() {
                object.insert(name.to_owned(), value.into());
            }
            let named = report.named_metrics.iter();
            let named = named.map(|(name, value)| (name.clone(), (*value).into()));
            let named: serde_json::Map<String, serde_json::Value> = named.collect();
            object.insert("named_metrics".to_owned(), named.into());
            format!("JSON {}", serde_json::Value::from(object))
        }
        OrcaForm::Bin => format!("BIN {}", BASE64.encode(report.encode_to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orca::{read_any, take};
    use core::time::Duration;
    use slackwater_core::Rif;

    fn report() -> LoadReport {
        let mut report = LoadReport::new(Rif::new(3), Some(Duration::from_micros(1500)));
        report.query_rate_millis = Some(10_500);
        report.error_millionths = Some(200_000);
        report.cpu_millionths = Some(300_000);
        report.capacity_millirif = Some(4_500);
        report.cost = Some(Duration::from_millis(2));
        report
    }

    #[test]
    fn written_reports_are_read_back_in_each_form() {
        let written = OrcaLoadReport::of(&report());
        let text = write(OrcaForm::Text, &written);
        let expected = "TEXT cpu_utilization=0.3, rps_fractional=10.5, eps=2.1, \
                        named_metrics.latency_ms=1.5, named_metrics.rif=3, \
                        named_metrics.slackwater.capacity=4.5, \
                        named_metrics.slackwater.cost_seconds=0.002, \
                        named_metrics.slackwater.rif=2";
        assert_eq!(text, expected);
        for form in [OrcaForm::Text, OrcaForm::Json, OrcaForm::Bin] {
            let value = write(form, &written);
            let mut headers = Fields::new();
            headers.insert(ANY, HeaderValue::try_from(&value).expect("a value"));
            let orca = take(&mut headers).expect("a report");
            let read = orca.of_capacity().expect("capacity");
            assert_eq!(read.rif, Rif::new(2), "{value}");
            assert_eq!(read.capacity_millirif, Some(4_500), "{value}");
            assert_eq!(read.cost, Some(Duration::from_millis(2)), "{value}");
            let read = orca.of_rates().expect("rates");
            assert_eq!(read.cpu_millionths, Some(300_000), "{value}");
            assert_eq!(read.query_rate_millis, Some(10_500), "{value}");
            assert_eq!(read.error_millionths, Some(200_000), "{value}");
        }
        let bin = read_any(&write(OrcaForm::Bin, &written)).expect("a message");
        assert_eq!(bin, written, "named metrics included");
    }

    #[test]
    fn a_replica_without_rates_reports_the_rest() {
        let idle = OrcaLoadReport::of(&LoadReport::new(Rif::ZERO, None));
        let text = "TEXT named_metrics.rif=0, named_metrics.slackwater.rif=0";
        assert_eq!(write(OrcaForm::Text, &idle), text);
        assert_eq!(
            write(OrcaForm::Json, &idle),
            r#"JSON {"named_metrics":{"rif":0.0,"slackwater.rif":0.0}}"#
        );
    }

    fn fields(fields: &[(&'static str, &'static str)]) -> Fields {
        let field = |&(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        fields.iter().map(field).collect()
    }

    #[test]
    fn the_report_has_the_requested_form() {
        let wanted = |written: OrcaReports, form: &'static str| {
            let mut request = fields(&[("endpoint-load-metrics-format", form)]);
            let wanted = wanted(written, &mut request);
            (wanted.map(|Wanted(form)| form), request.is_empty())
        };
        assert_eq!(wanted(OrcaReports::Never, "json"), (None, false));
        assert_eq!(
            wanted(OrcaReports::Asked, "JSON"),
            (Some(OrcaForm::Json), true)
        );
        assert_eq!(wanted(OrcaReports::Asked, "xml"), (None, true));
        let always = OrcaReports::Always(OrcaForm::Bin);
        assert_eq!(wanted(always, "text"), (Some(OrcaForm::Text), true));
        assert_eq!(wanted(always, "xml"), (Some(OrcaForm::Bin), true));
        assert_eq!(super::wanted(OrcaReports::Asked, &mut Fields::new()), None);
        assert_eq!(
            super::wanted(always, &mut Fields::new()),
            Some(Wanted(OrcaForm::Bin))
        );
    }

    #[test]
    fn grpc_reports_are_in_trailers_and_a_report_of_the_server_is_kept() {
        let wanted = Wanted(OrcaForm::Text);
        let head = |pairs: &[(&'static str, &'static str)]| {
            let mut head = fields(pairs);
            let is_for_trailers = wanted.write_head(&mut head, report);
            (is_for_trailers, head)
        };
        let (later, plain) = head(&[("content-type", "text/plain")]);
        assert!(
            !later
                && plain
                    .get(ANY)
                    .expect("a report")
                    .as_bytes()
                    .starts_with(b"TEXT ")
        );
        let (later, grpc) = head(&[("content-type", "application/grpc+proto")]);
        assert!(later && grpc.len() == 1);
        let (later, only) = head(&[("content-type", "application/grpc"), ("grpc-status", "5")]);
        assert!(!later && only.contains_key(BIN) && !only.contains_key(ANY));
        let (later, own) = head(&[("endpoint-load-metrics-json", "{}")]);
        assert!(!later && own.len() == 1);
        let mut trailers = fields(&[("endpoint-load-metrics-bin", "AA")]);
        write_trailers(&mut trailers, &report());
        assert_eq!(trailers.get(BIN).expect("its own"), "AA");
        trailers.clear();
        write_trailers(&mut trailers, &report());
        assert!(take(&mut trailers).is_some());
    }
}
