//! A strict reader of the two text formats. It fails at everything that the grammar of
//! `OpenMetrics` 1.0.0 or of Prometheus's own format forbids, and at everything that a reader of
//! either might misread.

use crate::metrics::Format;
use std::collections::{BTreeMap, BTreeSet};

/// A metric family of an exposition.
#[derive(Debug, Default)]
pub(super) struct Family {
    pub(super) kind: String,
    pub(super) help: String,
    pub(super) samples: Vec<(String, f64)>,
}

/// Names and values, in order.
type Labels = Vec<(String, String)>;

fn is_name(name: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let bytes = name.as_bytes();
    bytes.first().is_some_and(|byte| is_first(*byte))
        && bytes
            .iter()
            .all(|&byte| is_first(byte) || byte.is_ascii_digit())
}

/// Splits off the labels between braces; also returns the rest.
fn labels(text: &str) -> (Labels, &str) {
    let mut labels = Labels::new();
    let mut rest = text;
    while !rest.starts_with('}') {
        if !labels.is_empty() {
            rest = rest.strip_prefix(',').expect("a comma between labels");
        }
        let (name, after) = rest.split_once("=\"").expect("a name and a value");
        assert!(is_name(name) && !name.starts_with("__"), "{name}");
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next().expect("a value ends") {
                (_, '\\') => match characters.next().expect("something escaped").1 {
                    'n' => value.push('\n'),
                    escaped @ ('\\' | '"') => value.push(escaped),
                    other => panic!("{text}: \\{other}"),
                },
                (at, '"') => break at,
                (_, other) => value.push(other),
            }
        };
        labels.push((name.to_owned(), value));
        rest = &after[end + 1..];
    }
    let names: BTreeSet<_> = labels.iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), labels.len(), "{text}: a label twice");
    (labels, &rest[1..])
}

/// A number by the grammar.
fn number(text: &str) -> f64 {
    let is_one = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.e".contains(&byte));
    assert!(is_one, "{text} is no number");
    text.parse().expect("a number")
}

/// A line that is a sample.
struct Line<'l> {
    name: &'l str,
    labels: Labels,
    value: f64,
    exemplar: Option<(Labels, f64, f64)>,
}

fn line(text: &str) -> Line<'_> {
    let end = text.find(['{', ' ']).expect("a name ends");
    let (name, rest) = text.split_at(end);
    assert!(is_name(name), "{text}");
    let (own, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest),
        None => (Labels::new(), rest),
    };
    let rest = rest.strip_prefix(' ').expect("a space before the value");
    let (value, exemplar) = match rest.split_once(" # {") {
        Some((value, exemplar)) => (value, Some(exemplar)),
        None => (rest, None),
    };
    let exemplar = exemplar.map(|exemplar| {
        let (labels, rest) = labels(exemplar);
        let rest = rest.strip_prefix(' ').expect("a space before the value");
        let (value, at) = rest.split_once(' ').expect("a value and a time");
        (labels, number(value), number(at))
    });
    Line {
        name,
        labels: own,
        value: number(value),
        exemplar,
    }
}

/// Checks the samples of a histogram with one set of labels: bounds that rise, counts that do not
/// fall, exemplars within their buckets, `+Inf`, sum and count at the end.
fn check_histogram(name: &str, lines: &[Line<'_>]) {
    let (mut bound, mut count) = (f64::NEG_INFINITY, 0.0);
    let (buckets, ends) = lines.split_at(lines.len() - 2);
    for bucket in buckets {
        assert_eq!(bucket.name, format!("{name}_bucket"));
        let (label, le) = bucket.labels.last().expect("a bound");
        assert_eq!(label, "le", "{name}");
        let next = match le.as_str() {
            "+Inf" => f64::INFINITY,
            le => {
                // The canonical form is the shortest one, with a decimal point.
                let next = number(le);
                assert_eq!(format!("{next:?}"), le, "{name}");
                next
            }
        };
        assert!(next > bound && bucket.value >= count, "{name}: {le}");
        if let Some((_, value, _)) = &bucket.exemplar {
            assert!(*value > bound && *value <= next, "{name}: {value} in {le}");
            assert!(bucket.value > count, "{name}: {le} is empty");
        }
        (bound, count) = (next, bucket.value);
    }
    assert!(bound.is_infinite(), "{name} has no last bucket");
    let [sum, all] = ends else {
        panic!("{name}: two ends");
    };
    assert_eq!(sum.name, format!("{name}_sum"));
    assert_eq!(all.name, format!("{name}_count"));
    assert!(
        (all.value - count).abs() < 0.5,
        "{name}: its count is that of all"
    );
}

/// Parses an exposition. HELP, TYPE and UNIT come before samples, each once. The samples of a
/// family are contiguous, and in a histogram those of a set of labels. No sample is repeated.
/// Labels are the same and in the same order throughout.
pub(super) fn parse_metrics(text: &str, format: Format) -> BTreeMap<String, Family> {
    let body = match format {
        Format::OpenMetrics => text.strip_suffix("# EOF\n").expect("the end is marked"),
        Format::Prometheus => text,
    };
    assert!(body.ends_with('\n') && !body.contains("# EOF"), "lines end");
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut lines = body.lines().peekable();
    while let Some(help) = lines.next() {
        let help = help.strip_prefix("# HELP ").expect("a family begins");
        let (name, help) = help.split_once(' ').expect("a name and a text");
        assert!(is_name(name) && !help.contains('\\'), "{help}");
        let kind = lines
            .next()
            .and_then(|it| it.strip_prefix(&format!("# TYPE {name} ")));
        let kind = kind.expect("the type comes next");
        let unit = lines.next_if(|it| it.starts_with("# UNIT "));
        if let Some(unit) = unit {
            assert_eq!(format, Format::OpenMetrics, "{unit}");
            let unit = unit
                .strip_prefix(&format!("# UNIT {name} "))
                .expect("of this one");
            assert!(name.ends_with(&format!("_{unit}")), "{name}: {unit}");
        }
        let mut samples = Vec::new();
        while let Some(text) = lines.next_if(|it| !it.starts_with('#')) {
            samples.push((text, line(text)));
        }
        assert!(!samples.is_empty(), "{name} has no samples");
        check_family(name, kind, format, &samples);
        let family = Family {
            kind: kind.to_owned(),
            help: help.to_owned(),
            samples: samples
                .into_iter()
                .map(|(text, line)| {
                    let value = text.find(" # ").map_or(text, |end| &text[..end]);
                    let (sample, _) = value.rsplit_once(' ').expect("a value");
                    (sample.to_owned(), line.value)
                })
                .collect(),
        };
        let before = families.insert(name.to_owned(), family);
        assert!(before.is_none(), "{name} twice");
    }
    families
}

fn check_family(name: &str, kind: &str, format: Format, samples: &[(&str, Line<'_>)]) {
    let mut seen = BTreeSet::new();
    let of_family = |line: &Line<'_>| -> Labels {
        let own = line.labels.iter().filter(|(name, _)| name != "le");
        own.cloned().collect()
    };
    let names = |labels: &Labels| -> Vec<_> { labels.iter().map(|it| it.0.clone()).collect() };
    let first = names(&of_family(&samples[0].1));
    for (text, line) in samples {
        assert!(seen.insert((line.name, &line.labels)), "{text} twice");
        assert_eq!(names(&of_family(line)), first, "{text}");
        assert!(kind == "gauge" || line.value >= 0.0, "{text} is below zero");
        if let Some((labels, ..)) = &line.exemplar {
            let long = labels
                .iter()
                .map(|(name, value)| name.chars().count() + value.chars().count());
            let characters: usize = long.sum();
            assert!((1..=128).contains(&characters), "{text}: {characters}");
            assert_eq!(format, Format::OpenMetrics, "{text}");
            assert!(line.name.ends_with("_bucket"), "{text}");
        }
        let expected = match (kind, format) {
            ("histogram", _) => continue,
            ("counter", Format::OpenMetrics) => format!("{name}_total"),
            ("counter" | "gauge", _) => name.to_owned(),
            (other, _) => panic!("{name}: {other}"),
        };
        assert_eq!(line.name, expected, "{text}");
    }
    if kind == "histogram" {
        let lines = samples.iter().map(|(text, _)| line(text));
        let lines: Vec<_> = lines.collect();
        let sets: Vec<_> = lines
            .chunk_by(|a, b| of_family(a) == of_family(b))
            .collect();
        let distinct: BTreeSet<_> = sets.iter().map(|set| of_family(&set[0])).collect();
        assert_eq!(distinct.len(), sets.len(), "{name}: sets are mixed");
        for set in sets {
            check_histogram(name, set);
        }
    }
}

#[test]
fn invalid_exposition_text_is_rejected() {
    let good = "# HELP a_seconds Some.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
                a_seconds_bucket{x=\"1\",le=\"0.5\"} 1 # {trace_id=\"7\"} 0.25 1.5\n\
                a_seconds_bucket{x=\"1\",le=\"+Inf\"} 2\na_seconds_sum{x=\"1\"} 3.5\na_seconds_count{x=\"1\"} 2\n\
                # HELP b Some.\n# TYPE b counter\nb_total{y=\"\\\\ \\\" \\n\"} 3\n# EOF\n";
    assert_eq!(parse_metrics(good, Format::OpenMetrics).len(), 2);
    let long = format!("\"{}\"", "x".repeat(121));
    for (right, wrong) in [
        ("# EOF\n", ""),
        ("# TYPE b counter\n", ""),
        ("# TYPE b counter", "# TYPE b summary"),
        ("# HELP b ", "# HELP a_seconds "),
        ("b_total", "b"),
        ("b_total{y", "b_total{0y"),
        ("\\\\ ", "\\t "),
        ("} 3\n# EOF", "} -3\n# EOF"),
        ("} 3\n# EOF", "} NaN\n# EOF"),
        ("} 3\n# EOF", "} 3 # {trace_id=\"7\"} 1 1.5\n# EOF"),
        ("UNIT a_seconds seconds", "UNIT a_seconds bytes"),
        ("le=\"0.5\"", "le=\"0.50\""),
        ("le=\"0.5\"", "le=\"0.2\""),
        ("0.5\"} 1 #", "0.5\"} 0 #"),
        ("\"7\"", &long),
        ("le=\"+Inf\"} 2", "le=\"+Inf\"} 0"),
        ("a_seconds_bucket{x=\"1\",le=\"+Inf\"} 2\n", ""),
        ("a_seconds_count{x=\"1\"} 2", "a_seconds_count{x=\"1\"} 1"),
        ("a_seconds_sum{x=\"1\"}", "a_seconds_sum{x=\"2\"}"),
    ] {
        let bad = good.replacen(right, wrong, 1);
        assert_ne!(bad, good, "{right}");
        let read = std::panic::catch_unwind(|| parse_metrics(&bad, Format::OpenMetrics));
        assert!(read.is_err(), "{right} as {wrong}");
    }
}
