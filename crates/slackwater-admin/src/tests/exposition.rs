//! The metrics, parsed by a strict reader of the text formats, and the documentation of metrics and
//! status, compared with the real ones.

use super::text_formats::parse_metrics;
use super::{exchange, facts, get, latencies, server, start};
use crate::metrics::{
    Family as Defined, Folding, Format, Kind, SUBJECTS, Scrape, families, render,
};
use crate::status::Status;
use core::fmt::Write;
use core::time::Duration;
use slackwater_telemetry::facts::Facts;
use slackwater_telemetry::facts::{Lifecycle, Phase};
use slackwater_telemetry::problems::ProblemKind;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(super) fn scraped(facts: &Facts, replicas_max: usize, format: Format) -> String {
    let status = Status::new(&super::noted(facts), Phase::Serving, Duration::ZERO);
    let mut folding = Folding::new(replicas_max);
    render(&Scrape::new(facts, &status, &mut folding), format)
}

/// A metric's name in an exposition.
fn told_as(family: &Defined, format: Format) -> String {
    match format {
        Format::OpenMetrics => family.metric.name.to_owned(),
        Format::Prometheus => family.metric.full_name(),
    }
}

#[test]
fn each_metric_is_well_defined() {
    let mut names = BTreeSet::new();
    for family in families() {
        let name = family.metric.name;
        assert!(names.insert(name), "{name} twice");
        assert!(
            name.starts_with("slackwater_") || name.starts_with("process_"),
            "{name}"
        );
        assert!(!name.ends_with("_total"), "{name}: the writer adds that");
        assert!(
            family.metric.help.ends_with('.'),
            "{name}: {}",
            family.metric.help
        );
        assert!(!family.metric.help.contains(['\n', '\\']), "{name}");
        assert!(
            family.metric.kind != Kind::Histogram || family.metric.unit() == Some("seconds"),
            "{name}"
        );
        let labels: BTreeSet<_> = family
            .metric
            .labels
            .iter()
            .map(|label| label.name)
            .collect();
        assert_eq!(labels.len(), family.metric.labels.len(), "{name}");
    }
}

#[test]
fn all_metrics_are_written_well_formed_in_both_formats() {
    for format in [Format::OpenMetrics, Format::Prometheus] {
        let found = parse_metrics(&scraped(&facts(), 1_000, format), format);
        let written: BTreeSet<_> = found.keys().cloned().collect();
        let defined: BTreeSet<_> = families().map(|it| told_as(it, format)).collect();
        assert_eq!(written, defined, "each has samples here");
        for family in families() {
            let told = &found[&told_as(family, format)];
            assert_eq!(
                (told.kind.as_str(), told.help.as_str()),
                (family.metric.kind.as_str(), family.metric.help)
            );
            assert!(
                !told.samples.is_empty(),
                "{} has no samples",
                family.metric.name
            );
        }
    }
}

#[test]
fn metrics_agree_with_the_status() {
    let lifecycle = Lifecycle::default();
    lifecycle.set_serving();
    let admin = start(server(facts(), &lifecycle));
    let wanted = "GET /metrics HTTP/1.1\r\nhost: a\r\naccept: application/openmetrics-text\r\n\r\n";
    let answer = exchange(admin.address(), wanted);
    assert_eq!(answer.status, 200);
    let content_type = "content-type: application/openmetrics-text; version=1.0.0";
    assert!(answer.head.contains(content_type), "{}", answer.head);
    let families = parse_metrics(&answer.body, Format::OpenMetrics);
    let status = Status::new(&super::noted(&facts()), Phase::Serving, Duration::ZERO);
    let sum = |name: &str| {
        let samples = families[&format!("slackwater_{name}")].samples.iter();
        samples.map(|(_, value)| value).sum::<f64>()
    };
    let is = |found: f64, expected: u64| (found - expected as f64).abs() < 0.5;
    assert!(is(sum("picks"), 40));
    assert!(is(sum("requests"), 40));
    assert!(is(sum("responses"), 40));
    assert!(is(sum("replica_in_flight_requests"), 6));
    assert!(is(sum("ready"), 1));
    assert!(is(sum("replica_available"), 4));
    assert!(is(sum("replicas_in_state"), 5));
    assert!(is(sum("probes_sent"), status.counts.probes["sent"]));
    let pooled: usize = status.workers.iter().map(|worker| worker.pool.len()).sum();
    assert!(is(sum("pool_reports"), pooled as u64));
    assert!((sum("probe_rate") - 4.5).abs() < 1e-9, "of two workers");
    assert!((sum("own_latency_seconds") - 0.0015).abs() < 1e-9);
    assert!((sum("replica_reported_latency_seconds") - 0.012).abs() < 1e-9);
    assert!(is(sum("replica_reported_rif_requests"), 2));
    assert!((sum("replica_reported_capacity_requests") - 2.5).abs() < 1e-9);
    assert!((sum("replica_reported_cost_seconds") - 0.0009).abs() < 1e-9);
    assert!((sum("own_capacity_requests") - 4.5).abs() < 1e-9);
    assert!((sum("own_cost_seconds") - 0.0007).abs() < 1e-9);
    assert!((sum("own_cpu_ratio") - 0.25).abs() < 1e-9);
    let sources = &families["slackwater_own_capacity_source"].samples;
    let known = sources.iter().find(|(labels, _)| labels.contains("waits"));
    assert!(known.is_some_and(|(_, value)| is(*value, 1)), "{sources:?}");
    assert_eq!(sources.len(), 3, "those there may be");
    assert!(is(sum("own_capacity_source"), 1));

    let plain = get(admin.address(), "/metrics");
    let content_type = "content-type: text/plain; version=0.0.4";
    assert!(plain.head.contains(content_type), "{}", plain.head);
    parse_metrics(&plain.body, Format::Prometheus);
}

#[test]
fn buckets_have_the_newest_exemplar_in_openmetrics() {
    let found = scraped(&facts(), 1_000, Format::OpenMetrics);
    let with: Vec<_> = found.lines().filter(|line| line.contains(" # ")).collect();
    let trace = format!("{:032x}", 2);
    let expected = [
        format!(
            "slackwater_request_duration_seconds_bucket{{service=\"web\",class=\"2xx\",le=\"0.05\"}} 4 # \
             {{trace_id=\"{trace}\",request_id=\"a\\\"1\"}} 0.04 1700000000.002"
        ),
        "slackwater_request_first_byte_seconds_bucket{service=\"web\",class=\"2xx\",le=\"0.005\"} 4 # \
         {request_id=\"a\\\"1\"} 0.003 1700000000.002"
            .to_owned(),
    ];
    assert_eq!(with, expected);
    let plain = scraped(&facts(), 1_000, Format::Prometheus);
    assert!(!plain.contains(" # "));
}

#[test]
fn histogram_buckets_are_cumulative() {
    let found = scraped(&facts(), 1_000, Format::OpenMetrics);
    let told: Vec<_> = (found.lines())
        .filter_map(|line| {
            let line = line.strip_prefix("slackwater_request_duration_seconds_")?;
            let line = line.split(" # ").next()?;
            let (sample, value) = line.rsplit_once(' ')?;
            let of_class = sample.replace("service=\"web\",class=\"2xx\"", "");
            (of_class != sample).then(|| (of_class, value.parse::<f64>().expect("a number")))
        })
        .collect();
    let told: BTreeMap<_, _> = told
        .iter()
        .map(|(it, value)| (it.as_str(), *value))
        .collect();
    // Two workers with 30 ms and 40 ms each. Classes without requests are written as well.
    let none = "slackwater_request_duration_seconds_count{service=\"web\",class=\"5xx\"} 0\n";
    assert!(found.contains(none), "{found}");
    for (sample, value) in [
        ("bucket{,le=\"0.0001\"}", 0.0),
        ("bucket{,le=\"0.025\"}", 0.0),
        ("bucket{,le=\"0.05\"}", 4.0),
        ("bucket{,le=\"1.0\"}", 4.0),
        ("bucket{,le=\"50.0\"}", 4.0),
        ("bucket{,le=\"+Inf\"}", 4.0),
        ("count{}", 4.0),
        ("sum{}", 0.14),
    ] {
        let found = told[sample];
        assert!((found - value).abs() < 1e-9, "{sample}: {found}");
    }
    assert_eq!(told.len(), 18 + 3);
}

/// This many replicas in the first service, and two in another one.
fn many(replicas: usize) -> Facts {
    let mut facts = facts();
    let service = &mut facts.services[0];
    let first = service.replicas[0].clone();
    service.replicas = (0..replicas)
        .map(|number| slackwater_telemetry::facts::ReplicaFacts {
            name: format!("10.0.0.1:{number}"),
            address: format!("10.0.0.1:{number}"),
            ..first.clone()
        })
        .collect();
    for worker in &mut service.workers {
        let counts = slackwater_telemetry::facts::RequestCounts {
            sent: 1,
            ..slackwater_telemetry::facts::RequestCounts::default()
        };
        worker.requests = vec![counts; replicas];
        worker.heads = vec![latencies(&[3]); replicas];
        let ids = core::mem::take(&mut worker.ids);
        worker.ids = (0..replicas)
            .map(|number| ids.get(number).cloned().unwrap_or_default())
            .collect();
    }
    let mut second = super::facts().services.remove(0);
    second.name = "api".to_owned();
    second.replicas.truncate(2);
    facts.services.push(second);
    facts
}

#[test]
fn replicas_beyond_the_bound_are_summed_up() {
    let found = parse_metrics(
        &scraped(&many(9), 4, Format::OpenMetrics),
        Format::OpenMetrics,
    );
    let of = |name: &str, sample: &str| {
        let samples = found[&format!("slackwater_{name}")].samples.iter();
        let value = samples.filter(|(it, _)| it.contains(sample)).map(|it| it.1);
        value.reduce(|sum, value| sum + value)
    };
    let other = "service=\"web\",replica=\"(other)\"";
    assert_eq!(
        of("requests", other),
        Some(10.0),
        "five replicas, two workers"
    );
    assert_eq!(
        of("requests", "service=\"web\""),
        Some(18.0),
        "none is lost"
    );
    assert_eq!(
        of("replica_head_seconds", &format!("_count{{{other}")),
        Some(10.0)
    );
    assert_eq!(
        of("health_checks", &format!("{other},result=\"failed\"")),
        Some(5.0)
    );
    assert_eq!(
        of("replica_available", other),
        None,
        "of several there is nothing to say"
    );
    assert_eq!(of("replica_available", "service=\"web\""), Some(4.0));
    assert_eq!(of("metrics_folded_replicas", "\"web\""), Some(5.0));
    assert_eq!(of("metrics_folded_replicas", "\"api\""), Some(2.0));
    let other = "service=\"api\",replica=\"(other)\"";
    assert!(of("requests", other).is_some_and(|sent| sent > 0.0));
    let all = scraped(&many(9), 1_000, Format::OpenMetrics);
    assert!(!all.contains("(other)"));
}

/// The requests sent to all others of `web`, and the number of their own series, in one scrape.
fn told(folding: &mut Folding, facts: &Facts) -> (Option<f64>, usize) {
    let status = Status::new(&super::noted(facts), Phase::Serving, Duration::ZERO);
    let text = render(&Scrape::new(facts, &status, folding), Format::OpenMetrics);
    let found = parse_metrics(&text, Format::OpenMetrics);
    let sent = &found["slackwater_requests"].samples;
    let other = sent
        .iter()
        .find(|(it, _)| it.contains("\"web\",replica=\"(other)\""));
    let own = sent
        .iter()
        .filter(|(it, _)| it.contains("\"web\"") && !it.contains("(other)"));
    (other.map(|it| it.1), own.count())
}

/// Keeps the elements at the indices for which `is_there` holds.
fn keep<T>(all: &mut Vec<T>, is_there: impl Fn(&usize) -> bool) {
    let mut places = 0..all.len();
    all.retain(|_| places.next().is_some_and(|place| is_there(&place)));
}

/// The facts without some replicas of `web`.
fn without(facts: &Facts, gone: &[usize]) -> Facts {
    let mut left = facts.clone();
    let is_there = |place: &usize| !gone.contains(place);
    let web = &mut left.services[0];
    keep(&mut web.replicas, is_there);
    for worker in &mut web.workers {
        keep(&mut worker.requests, is_there);
        keep(&mut worker.heads, is_there);
        keep(&mut worker.ids, is_there);
    }
    left
}

#[test]
fn folded_counts_never_decrease() {
    let all = many(9);
    let mut folding = Folding::new(4);
    assert_eq!(told(&mut folding, &all), (Some(10.0), 4), "two each");
    // One of the others leaves, then one with its own series, whose place another one takes.
    assert_eq!(told(&mut folding, &without(&all, &[8])), (Some(10.0), 4));
    assert_eq!(told(&mut folding, &without(&all, &[0, 8])), (Some(10.0), 4));
    // A replica keeps its own series when others come. Both return with their old counts.
    assert_eq!(told(&mut folding, &all), (Some(10.0), 4));
    assert_eq!(
        told(&mut folding, &without(&all, &[5, 6, 7, 8])),
        (Some(10.0), 4)
    );
    // The sum stays even when there is room for all.
    assert_eq!(
        told(&mut folding, &without(&all, &[0, 5, 6, 7, 8])),
        (Some(10.0), 4)
    );
    let mut anew = all.clone();
    anew.services[0].number += 1;
    assert_eq!(
        told(&mut folding, &anew),
        (Some(10.0), 4),
        "as all its counts"
    );
}

/// The facts with another number of requests to replica 8 of `web`, in one worker.
fn sent(facts: &Facts, sent: u64) -> Facts {
    let mut facts = facts.clone();
    facts.services[0].workers[0].requests[8].sent = sent;
    facts
}

#[tokio::test(start_paused = true)]
async fn returned_replica_adds_only_its_new_requests() {
    let all = many(9);
    let gone = without(&all, &[8]);
    let mut folding = Folding::new(4);
    let mut sum = |facts: &Facts| told(&mut folding, facts).0;
    assert_eq!(sum(&sent(&all, 100)), Some(109.0));
    assert_eq!(sum(&gone), Some(109.0));
    tokio::time::advance(Duration::from_mins(1)).await;
    assert_eq!(sum(&all), Some(109.0), "one worker does not have it yet");
    assert_eq!(sum(&sent(&all, 103)), Some(112.0));
    assert_eq!(sum(&sent(&all, 104)), Some(113.0));
    // After a longer time its counts have started again.
    assert_eq!(sum(&gone), Some(113.0));
    tokio::time::advance(Duration::from_secs(90)).await;
    assert_eq!(sum(&gone), Some(113.0));
    assert_eq!(sum(&sent(&all, 200)), Some(314.0));
    // It may have been away between two scrapes.
    assert_eq!(sum(&all), Some(314.0));
    tokio::time::advance(Duration::from_secs(90)).await;
    assert_eq!(sum(&all), Some(316.0));
}

#[test]
fn a_scrape_of_a_thousand_replicas_is_bounded() {
    let text = scraped(&many(1_000), 1_000, Format::Prometheus);
    let lines = text.lines().count();
    assert!(lines < 60 * 1_000, "{lines} lines");
    assert!(text.len() < 6_000_000, "{} bytes", text.len());
    let folded = scraped(&many(1_000), 10, Format::Prometheus);
    assert!(folded.len() < 200_000, "{} bytes", folded.len());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names in the first cell of a row, in backticks. A name that begins with a dot replaces the
/// end of the first one.
fn names_in(row: &str) -> Vec<String> {
    let cell = row.trim_start_matches("| ").split(" | ").next();
    let quoted = cell.unwrap_or_default().split('`').skip(1).step_by(2);
    let mut names = Vec::<String>::new();
    for name in quoted {
        let first = names.first().and_then(|first| first.rsplit_once('.'));
        let parent = first.map_or("", |(parent, _)| parent);
        let whole = if name.starts_with('.') {
            format!("{parent}{name}")
        } else {
            name.to_owned()
        };
        names.push(whole);
    }
    names
}

/// The fields in the tables of a section of `docs/reference/admin.md`.
fn documented(heading: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(root().join("docs/reference/admin.md"))
        .expect("docs/reference/admin.md");
    let (_, section) = text.split_once(heading).expect("the heading");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.flat_map(names_in).collect()
}

/// The text of the page besides its tables.
const PAGE: &str = include_str!("metrics_page.md");

/// The page of all metrics.
fn page() -> String {
    let mut page = PAGE.to_owned();
    let mut explained = BTreeSet::new();
    for (subject, families) in SUBJECTS {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "\n## {subject}\n\n| metric | meaning |\n|---|---|");
        for family in families {
            let labels: Vec<_> = family
                .metric
                .labels
                .iter()
                .map(|label| label.name)
                .collect();
            let labels = match labels[..] {
                [] => String::new(),
                _ => format!(" `{{{}}}`", labels.join(",")),
            };
            let histogram = match family.metric.kind {
                Kind::Histogram => " *histogram*",
                Kind::Counter | Kind::Gauge => "",
            };
            let own = family.metric.labels.iter();
            let own = own.filter(|label| !["service", "replica", "worker"].contains(&label.name));
            let own = own.map(|label| {
                // Long meanings are written once.
                let is_new = explained.insert((label.name, label.meaning));
                let meaning = match label.meaning {
                    meaning if is_new || meaning.len() < 40 => meaning,
                    _ => "as above",
                };
                format!(" `{}`: {meaning}.", label.name)
            });
            let own: String = own.collect();
            let _ = writeln!(
                page,
                "| `{}`{labels}{histogram} | {}{own} |",
                family.metric.full_name(),
                family.metric.help,
            );
        }
    }
    page
}

#[test]
fn the_page_of_metrics_matches_the_registry() {
    let file = root().join("docs/reference/metrics.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, page()).expect("docs can be written");
    }
    let found = std::fs::read_to_string(&file).expect("docs/reference/metrics.md");
    assert!(
        found == page(),
        "docs/reference/metrics.md is stale: BLESS=1 cargo test -p slackwater-admin page_of_metrics"
    );
}

#[test]
fn each_kind_of_problem_is_documented_with_admin_and_metrics() {
    for file in ["docs/reference/admin.md", "docs/reference/metrics.md"] {
        let text = std::fs::read_to_string(root().join(file)).expect(file);
        for kind in ProblemKind::ALL {
            let name = format!("`{}`", kind.as_str());
            assert!(text.contains(&name), "{file} lacks {name}");
        }
    }
}

/// Each name of a metric in a text.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    let words = words.filter(|word| {
        let rest = word
            .strip_prefix("slackwater_")
            .or(word.strip_prefix("process_"));
        rest.is_some_and(|rest| !rest.is_empty())
    });
    words.map(str::to_owned).collect()
}

fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder)
        .expect("a folder")
        .map(|it| it.expect("an entry").path())
    {
        if entry.is_dir() {
            texts(&entry, found);
        } else if ["md", "json", "yml"]
            .map(|it| Some(it.as_ref()))
            .contains(&entry.extension())
        {
            found.push(entry);
        }
    }
}

#[test]
fn metrics_named_in_the_docs_exist() {
    let mut known: BTreeSet<String> = families().map(|it| it.metric.full_name()).collect();
    for family in families().filter(|it| it.metric.kind == Kind::Histogram) {
        let parts = ["_bucket", "_sum", "_count"];
        known.extend(parts.map(|part| format!("{}{part}", family.metric.name)));
    }
    // The names of crates and of package files begin in the same way.
    let others = [
        "slackwater_core",
        "slackwater_tower",
        "slackwater_sim",
        "slackwater_0",
        "slackwater_VERSION",
    ];
    let mut files = Vec::new();
    texts(&root().join("docs"), &mut files);
    texts(&root().join("deploy"), &mut files);
    let mut named = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        for name in names(&text) {
            named += 1;
            assert!(
                known.contains(&name) || others.contains(&name.as_str()),
                "{}: there is no {name}",
                file.display()
            );
        }
    }
    assert!(
        named > families().count(),
        "the page of metrics has them all"
    );
}

/// Every field of a JSON value by its path; `list[]` for lists.
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
    let status = Status::new(&super::noted(&facts()), Phase::Serving, Duration::ZERO);
    let value = serde_json::to_value(&status).expect("JSON");
    let mut fields = BTreeSet::new();
    paths(&value, "", &mut fields);
    // The counts of a worker and of a service are those of the process, described once. A field
    // that is null here is described by the fields in it.
    let whole: Vec<_> = fields.iter().map(|field| format!("{field}.")).collect();
    for parent in whole {
        if fields.iter().any(|field| field.starts_with(&parent)) {
            fields.remove(parent.trim_end_matches('.'));
        }
    }
    // The factors of each comparison are described with the decisions.
    for part in [
        "workers[].counts",
        "services[].counts",
        "workers[].shared",
        "workers[].pool[].factors",
    ] {
        fields.retain(|field| !field.starts_with(&format!("{part}.")));
        fields.insert(part.to_owned());
    }
    assert_eq!(documented("## `GET /status`"), fields);
}
