//! The metrics, read back by a strict reader of the text format, and the documentation of metrics and status, compared
//! with what is really there.

use super::{facts, get, server, start};
use crate::admin::status::Status;
use crate::admin::{Lifecycle, Phase, metrics};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// One family of an exposition.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    samples: Vec<(String, f64)>,
}

/// Reads an exposition, strictly: HELP and TYPE before samples, samples of a family together, values that are numbers, no
/// sample twice, `# EOF` at the end.
fn parse_metrics(text: &str) -> BTreeMap<String, Family> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    let body = text.strip_suffix("# EOF\n").expect("the end is marked");
    for line in body.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a name and a text");
            current = name.to_owned();
            let family = Family {
                help: help.to_owned(),
                ..Family::default()
            };
            assert!(
                families.insert(current.clone(), family).is_none(),
                "{name} twice"
            );
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a name and a kind");
            assert_eq!(name, current);
            families.get_mut(name).expect("HELP comes first").kind = kind.to_owned();
        } else if let Some(unit) = line.strip_prefix("# UNIT ") {
            let (name, unit) = unit.split_once(' ').expect("a name and a unit");
            assert!(name == current && name.ends_with(unit), "{line}");
        } else {
            let (sample, value) = line.rsplit_once(' ').expect("a sample and a value");
            let value: f64 = value.parse().expect("a number");
            assert!(seen.insert(sample.to_owned()), "{sample} twice");
            let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
            assert!(
                labels.ends_with('}') && labels.matches('"').count() % 2 == 0,
                "{line}"
            );
            let family = families.get_mut(&current).expect("HELP comes first");
            let suffix = if family.kind == "counter" {
                "_total"
            } else {
                ""
            };
            assert_eq!(name, format!("{current}{suffix}"));
            family.samples.push((sample.to_owned(), value));
        }
    }
    families
}

#[test]
fn metrics_are_well_formed_and_agree_with_the_status() {
    let lifecycle = Lifecycle::default();
    lifecycle.set_serving();
    let admin = start(server(facts(), &lifecycle));
    let answer = get(admin.address(), "/metrics");
    assert_eq!(answer.status, 200);
    assert!(
        answer
            .head
            .contains("content-type: application/openmetrics-text; version=1.0.0")
    );
    let families = parse_metrics(&answer.body);
    for (name, family) in &families {
        assert!(name.starts_with("slackwater_"), "{name}");
        assert!(family.help.ends_with('.'), "{name}: {}", family.help);
        assert!(
            ["counter", "gauge"].contains(&family.kind.as_str()),
            "{name}"
        );
        assert!(!family.samples.is_empty(), "{name} has no samples");
        assert!(
            family.kind == "counter" || !name.ends_with("_total"),
            "{name}"
        );
    }
    let status = Status::new(&facts(), Phase::Serving, Duration::ZERO);
    let sum = |name: &str| {
        families[name]
            .samples
            .iter()
            .map(|(_, value)| value)
            .sum::<f64>()
    };
    let is = |found: f64, expected: u64| (found - expected as f64).abs() < 0.5;
    assert!(is(sum("slackwater_picks"), 40));
    assert!(is(sum("slackwater_requests"), 40));
    assert!(is(sum("slackwater_responses"), 40));
    assert!(is(sum("slackwater_replica_in_flight_requests"), 6));
    assert!(is(sum("slackwater_ready"), 1));
    assert!(is(sum("slackwater_replica_available"), 4));
    assert!(is(sum("slackwater_replicas"), 5));
    assert!(is(
        sum("slackwater_probes_sent"),
        status.counts.probes["sent"]
    ));
    let pooled: usize = status.workers.iter().map(|worker| worker.pool.len()).sum();
    assert!(is(sum("slackwater_pool_reports"), pooled as u64));
    let latency = families["slackwater_own_latency_seconds"].samples[0].1;
    assert!((latency - 0.0015).abs() < 1e-9);
}

/// The rows of a table in `docs/admin.md`: what stands in the first cell, in backquotes.
fn documented(heading: &str) -> BTreeSet<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/admin.md");
    let text = std::fs::read_to_string(docs).expect("docs/admin.md");
    let (_, section) = text.split_once(heading).expect("the heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    rows.map(str::to_owned).collect()
}

#[test]
fn the_documentation_has_every_metric_and_no_other() {
    let status = Status::new(&facts(), Phase::Serving, Duration::ZERO);
    let families = parse_metrics(&metrics::render(status).expect("text"));
    let names = families.iter().map(|(name, family)| {
        let suffix = if family.kind == "counter" {
            "_total"
        } else {
            ""
        };
        format!("{name}{suffix}")
    });
    assert_eq!(documented("## `GET /metrics`"), names.collect());
}

/// Every field of a JSON value by its path; of lists, `list[]`.
fn paths(value: &serde_json::Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                let dot = if path.is_empty() { "" } else { "." };
                paths(value, &format!("{path}{dot}{name}"), found);
            }
        }
        serde_json::Value::Array(items) => {
            for item in items {
                paths(item, &format!("{path}[]"), found);
            }
        }
        _ => {
            found.insert(path.to_owned());
        }
    }
}

#[test]
fn the_documentation_has_every_field_of_the_status_and_no_other() {
    let status = Status::new(&facts(), Phase::Serving, Duration::ZERO);
    let value = serde_json::to_value(&status).expect("JSON");
    let mut fields = BTreeSet::new();
    paths(&value, "", &mut fields);
    // The counts of a worker and of a service are those of the whole, described once.
    // What is null here and not there is described by what is in it.
    let whole: Vec<_> = fields.iter().map(|field| format!("{field}.")).collect();
    for parent in whole {
        if fields.iter().any(|field| field.starts_with(&parent)) {
            fields.remove(parent.trim_end_matches('.'));
        }
    }
    for part in ["workers[].counts", "services[].counts"] {
        fields.retain(|field| !field.starts_with(&format!("{part}.")));
        fields.insert(part.to_owned());
    }
    assert_eq!(documented("## `GET /status`"), fields);
}
