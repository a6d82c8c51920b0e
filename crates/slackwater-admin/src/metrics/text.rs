//! The two text formats, which differ little: `OpenMetrics` has units, names counters without
//! `_total`, and marks its end.

use super::metric::{Kind, Metric};
use core::fmt::Write;
use http::HeaderMap;
use http::header::ACCEPT;
use slackwater_telemetry::exemplars::{Exemplar, Exemplars};
use slackwater_telemetry::latency_histogram::Latencies;
use std::time::SystemTime;

/// The text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Version 0.0.4 of Prometheus's own format.
    Prometheus,
    /// Version 1.0.0 of `OpenMetrics`.
    OpenMetrics,
}

impl Format {
    /// Returns the format that a reader prefers; without a preference Prometheus's own.
    pub(crate) fn preferred(headers: &HeaderMap) -> Self {
        let accepted = headers
            .get_all(ACCEPT)
            .iter()
            .filter_map(|it| it.to_str().ok());
        let (mut open_metrics, mut plain) = (0.0_f32, 0.0_f32);
        for range in accepted.flat_map(|ranges| ranges.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let weight = || {
                let mut weights = range.split(';').skip(1);
                let weight = weights.find_map(|it| it.trim().strip_prefix("q="));
                weight.map_or(Ok(1.0), str::parse).unwrap_or_default()
            };
            match parts.next() {
                Some("application/openmetrics-text") => open_metrics = open_metrics.max(weight()),
                Some("text/plain" | "text/*" | "*/*") => plain = plain.max(weight()),
                _ => (),
            }
        }
        if open_metrics > 0.0 && open_metrics >= plain {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    /// The `Content-Type`.
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Writes the samples of a metric; its name comes before the first one.
pub(crate) struct Samples<'t> {
    text: &'t mut String,
    format: Format,
    metric: &'static Metric,
    is_begun: bool,
}

impl<'t> Samples<'t> {
    /// No samples so far.
    pub(super) const fn new(text: &'t mut String, format: Format, metric: &'static Metric) -> Self {
        Self {
            text,
            format,
            metric,
            is_begun: false,
        }
    }

    /// Adds a whole number.
    pub(super) fn count(&mut self, labels: &[&str], value: u64) {
        let suffix = self.suffix();
        self.sample(suffix, labels, None, value);
    }

    /// Adds any number.
    pub(super) fn number(&mut self, labels: &[&str], value: f64) {
        let suffix = self.suffix();
        self.sample(suffix, labels, None, value);
    }

    /// Adds a histogram of latencies, with an exemplar for each bucket that has one. Empty
    /// histograms are written, too: a reader does not know the value before its first reading of a
    /// count, and would miss the first requests.
    pub(super) fn latencies(
        &mut self,
        labels: &[&str],
        latencies: &Latencies,
        exemplars: Option<&Exemplars>,
    ) {
        let count = latencies.count();
        let mut bound = String::new();
        let mut first = 0;
        for (bucket, (bound_us, up_to)) in latencies.up_to_bounds().enumerate() {
            if is_written(bound_us) {
                bound.clear();
                // OpenMetrics requires a decimal point. Writing to a string cannot fail, here and
                // below.
                let _ = write!(bound, "{:?}", bound_us as f64 / 1e6);
                self.sample("_bucket", labels, Some(&bound), up_to);
                self.exemplify(exemplars.and_then(|it| it.newest(first..=bucket)));
                first = bucket + 1;
            }
        }
        self.sample("_bucket", labels, Some("+Inf"), count);
        self.exemplify(exemplars.and_then(|it| it.newest(first..=usize::MAX)));
        self.sample("_sum", labels, None, latencies.sum().as_secs_f64());
        self.sample("_count", labels, None, count);
    }

    /// Adds an exemplar to the previous sample, if the format has exemplars.
    fn exemplify(&mut self, exemplar: Option<&Exemplar>) {
        let Some(exemplar) = exemplar.filter(|_| self.format == Format::OpenMetrics) else {
            return;
        };
        // Removes the line break of the sample.
        self.text.pop();
        self.text.push_str(" # {");
        let mut before = "";
        for (name, value) in exemplar.reference.labels() {
            push_label(self.text, before, name, &value);
            before = ",";
        }
        let at = exemplar.at.duration_since(SystemTime::UNIX_EPOCH);
        let at_ms = at.unwrap_or_default().as_millis();
        let (seconds, ms) = (at_ms / 1_000, at_ms % 1_000);
        let latency_s = exemplar.latency.as_secs_f64();
        let _ = writeln!(self.text, "}} {latency_s} {seconds}.{ms:03}");
    }

    const fn suffix(&self) -> &'static str {
        match self.metric.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
        }
    }

    fn begin(&mut self) {
        let Metric {
            name, kind, help, ..
        } = self.metric;
        let (kind, full) = (kind.as_str(), self.metric.full_name());
        let name = match self.format {
            Format::Prometheus => &*full,
            Format::OpenMetrics => name,
        };
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        if let (Format::OpenMetrics, Some(unit)) = (self.format, self.metric.unit()) {
            let _ = writeln!(self.text, "# UNIT {name} {unit}");
        }
    }

    fn sample(
        &mut self,
        suffix: &str,
        values: &[&str],
        bound: Option<&str>,
        value: impl core::fmt::Display,
    ) {
        if !self.is_begun {
            self.begin();
            self.is_begun = true;
        }
        debug_assert_eq!(
            values.len(),
            self.metric.labels.len(),
            "{}",
            self.metric.name
        );
        self.text.push_str(self.metric.name);
        self.text.push_str(suffix);
        let labels = self.metric.labels.iter().map(|label| label.name);
        let labels = labels.zip(values.iter().copied());
        let mut before = "{";
        for (name, value) in labels.chain(bound.map(|bound| ("le", bound))) {
            push_label(self.text, before, name, value);
            before = ",";
        }
        if before == "," {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
}

/// Whether a bound is written: three of each power of ten are. All seven of many replicas would
/// make scrapes long.
const fn is_written(bound_us: u64) -> bool {
    let mut leading = bound_us;
    while leading >= 100 && leading.is_multiple_of(10) {
        leading /= 10;
    }
    matches!(leading, 10 | 25 | 50)
}

fn push_label(text: &mut String, before: &str, name: &str, value: &str) {
    text.push_str(before);
    text.push_str(name);
    text.push_str("=\"");
    push_escaped(text, value);
    text.push('"');
}

fn push_escaped(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

/// Writes the end mark, if the format has one.
pub(super) fn end(text: &mut String, format: Format) {
    if format == Format::OpenMetrics {
        text.push_str("# EOF\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_reader_gets_the_format_that_it_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,\
                          application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (None, Format::Prometheus),
            (Some("*/*"), Format::Prometheus),
            (Some("text/html"), Format::Prometheus),
            (Some(prometheus), Format::OpenMetrics),
            (Some("application/openmetrics-text"), Format::OpenMetrics),
            (Some("application/openmetrics-text;q=0"), Format::Prometheus),
            (
                Some("text/plain;q=0.9, application/openmetrics-text; q=0.2"),
                Format::Prometheus,
            ),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(ACCEPT, HeaderValue::from_static(accept));
            }
            assert_eq!(Format::preferred(&headers), format, "{accept:?}");
        }
    }

    #[test]
    fn histograms_have_three_bounds_per_power_of_ten() {
        let all = slackwater_telemetry::latency_histogram::BOUNDS_US;
        let told: Vec<_> = all.into_iter().filter(|bound| is_written(*bound)).collect();
        assert_eq!(told[..4], [100, 250, 500, 1_000]);
        assert_eq!(told[told.len() - 3..], [10_000_000, 25_000_000, 50_000_000]);
        assert_eq!(told.len(), 18);
    }

    #[test]
    fn label_values_are_escaped() {
        let mut text = String::new();
        push_escaped(&mut text, "a\"b\\c\nd");
        assert_eq!(text, "a\\\"b\\\\c\\nd");
    }
}
