//! The results of a replay, as text.

use super::exact::Service;
use super::figures::{number, span};
use super::model::{Changed, ChangedFigures};
use crate::output::clean;
use crate::sim::summary::counted;
use core::fmt::Write;
use core::time::Duration;
use serde::Serialize;
use slackwater_core::policy::PickReason;
use slackwater_recording::file::{Ending, Recording};
use slackwater_sim::histogram::Histogram;
use slackwater_sim::measure::Latencies;
use slackwater_sim::replay::compare::QUANTILES;
use slackwater_sim::replay::history::{History, Passed};
use slackwater_sim::replay::requests::Requests;
use slackwater_telemetry::date::Date;
use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

/// Most values that are listed of a field.
const VALUES_MAX: usize = 8;
/// Largest number of replicas that are listed one by one.
const REPLICAS_MAX: usize = 32;

/// What was recorded, and where it ends.
pub(super) fn recording(file: &str, recording: &Recording) -> String {
    let software = clean(&recording.head.software);
    let end = match &recording.end {
        Ending::EndBlock(end) => format!("it ends because {}", end.as_str()),
        Ending::Torn { at, why } => format!(
            "it is torn: after byte {} {why}; what comes before is whole, and is all that counts here",
            number(*at as u64)
        ),
    };
    let streams = counted(recording.streams.len(), "stream");
    let started = UNIX_EPOCH.checked_add(Duration::from_millis(recording.head.started_ms));
    let started = Date::of(started.unwrap_or(UNIX_EPOCH)).rfc3339();
    format!("{file}: recorded by {software} from {started} on, {streams}; {end}\n")
}

/// A service as it was, and whether its replay is identical.
pub(super) fn service(service: &Service) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_service(&mut text, service);
    text
}

fn write_service(to: &mut String, service: &Service) -> core::fmt::Result {
    let Service {
        name,
        policy,
        streams,
        history,
        ..
    } = service;
    let policy = policy.entry.name;
    let since = if service.since < Duration::from_secs(1) {
        String::new()
    } else {
        format!(", from {:.1} s on", service.since.as_secs_f64())
    };
    writeln!(
        to,
        "\n{}: policy {policy}, {}{since}",
        clean(name),
        counted(*streams, "stream")
    )?;
    let (picks, probes) = (number(service.picks), number(service.probes));
    match &service.difference {
        None => writeln!(
            to,
            "  {picks} picks, all the same; {probes} probes, all the same"
        )?,
        Some((worker, difference)) => {
            writeln!(to, "  NOT the same, worker {worker}: {difference}")?;
            writeln!(
                to,
                "  {picks} picks and {probes} probes were the same before"
            )?;
        }
    }
    let events = number(service.events);
    let per_query = service.bytes as f64 / (history.queries.len().max(1)) as f64;
    let bytes = number(service.bytes);
    writeln!(
        to,
        "  {events} events in {bytes} bytes, {per_query:.1} bytes for each query sent"
    )?;
    write_past(to, history, &service.fields)
}

/// Writes the history of a service; of its requests, with the values of these fields.
pub(super) fn write_past(
    to: &mut String,
    history: &History,
    fields: &[String],
) -> core::fmt::Result {
    let seconds = Duration::from_nanos(history.ended_at()).as_secs_f64();
    let first = history.queries.iter().filter(|it| it.is_first());
    let failed = history.queries.iter().filter(|it| it.failed()).count();
    let sent = number(history.queries.len() as u64);
    let first = number(first.count() as u64);
    let failed = number(failed as u64);
    writeln!(
        to,
        "  recorded up to {seconds:.1} s: {sent} tries of {first} queries, {failed} tries failed, {} found no replica",
        number(history.turned_away)
    )?;
    writeln!(to, "  latency {}", quantiles(&history.latencies()))?;
    let by_rule = PickReason::ALL.map(|reason| {
        let picks = (history.queries.iter()).filter(|query| query.reason == reason);
        (reason.as_str().to_owned(), picks.count() as u64)
    });
    writeln!(to, "  picks by rule: {}", shares(by_rule))?;
    if history.probes > 0 {
        let trips = &history.round_trips;
        writeln!(
            to,
            "  {} probes, {} answered after {} (median), {} lost",
            number(history.probes),
            number(history.probes_answered),
            span(trips.quantile(0.5)),
            number(history.probes_lost),
        )?;
    }
    write_requests(to, &history.requests, fields)?;
    write_replicas(to, history)
}

fn write_requests(to: &mut String, requests: &Requests, fields: &[String]) -> core::fmt::Result {
    if requests.count == 0 {
        return Ok(());
    }
    let methods = requests.methods.iter();
    let methods = methods.map(|(method, count)| (clean(method), *count));
    let classes = ["no status", "1xx", "2xx", "3xx", "4xx", "5xx"];
    let classes = classes.into_iter().zip(0..);
    let classes = classes.map(|(name, class)| {
        let count = requests.classes.get(&class).copied();
        (name.to_owned(), count.unwrap_or(0))
    });
    let sizes = |sizes: &Histogram| [0.5, 0.99].map(|q| number(sizes.quantile(q))).join(", ");
    writeln!(
        to,
        "  {} requests: {}; {}; bytes of bodies (p50, p99) {} in and {} out",
        number(requests.count),
        shares(methods),
        shares(classes),
        sizes(&requests.bytes_in),
        sizes(&requests.bytes_out),
    )?;
    for (place, field) in fields.iter().enumerate() {
        let (count, most) = requests.values(place, VALUES_MAX);
        writeln!(to, "    by {}: {}", clean(field), counted(count, "value"))?;
        for valued in most {
            let value = valued
                .value
                .map_or_else(|| "none".to_owned(), |it| format!("{it:?}"));
            let (requests, latencies) = (number(valued.latencies.count()), &valued.latencies);
            writeln!(to, "      {value}: {requests}, {}", quantiles(latencies))?;
        }
    }
    Ok(())
}

/// `cold 71.2 %, hot 28.8 %`: shares of the total, without those that are 0.
fn shares(counts: impl IntoIterator<Item = (String, u64)>) -> String {
    let counts: Vec<_> = counts.into_iter().filter(|(_, count)| *count > 0).collect();
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let share = |count: u64| 100.0 * count as f64 / all.max(1) as f64;
    let shares: Vec<_> = (counts.iter())
        .map(|(name, count)| format!("{name} {:.1} %", share(*count)))
        .collect();
    shares.join(", ")
}

fn write_replicas(to: &mut String, history: &History) -> core::fmt::Result {
    let replicas = history.replicas.iter().enumerate();
    for (place, name) in replicas.take(REPLICAS_MAX) {
        let own = || (history.queries.iter()).filter(move |it| it.replica as usize == place);
        let mut latencies = Latencies::default();
        own()
            .filter_map(Passed::latency)
            .for_each(|it| latencies.record(it));
        let share = 100.0 * own().count() as f64 / history.queries.len().max(1) as f64;
        let failed = own().filter(|it| it.failed()).count();
        writeln!(
            to,
            "    {}: {share:.1} %, {failed} failed, {}",
            clean(name),
            quantiles(&latencies)
        )?;
    }
    let more = history.replicas.len().saturating_sub(REPLICAS_MAX);
    if more > 0 {
        writeln!(to, "    and {more} more")?;
    }
    Ok(())
}

/// `p50 1.5 ms, p90 3 ms …`.
pub(super) fn quantiles(latencies: &Latencies) -> String {
    let quantiles = QUANTILES.map(|(name, q)| format!("{name} {}", span(latencies.quantile(q))));
    quantiles.join(", ")
}

/// The output of `--json`.
#[derive(Debug, Serialize)]
pub(super) struct Figures<'s> {
    services: Vec<ServiceFigures<'s>>,
    changed: Vec<ChangedFigures<'s>>,
}

#[derive(Debug, Serialize)]
struct ServiceFigures<'s> {
    service: &'s str,
    policy: &'static str,
    /// When it got this configuration, in seconds after the start of the recording.
    since_seconds: f64,
    streams: usize,
    events: u64,
    bytes: u64,
    picks_same: u64,
    probes_same: u64,
    difference: Option<String>,
    queries_sent: usize,
    queries_failed: usize,
    turned_away: u64,
    latency_ms: [f64; 4],
    picks: BTreeMap<&'static str, u64>,
    /// Properties of requests, if they were recorded.
    requests: Option<RequestFigures<'s>>,
}

#[derive(Debug, Serialize)]
struct RequestFigures<'s> {
    count: u64,
    by_method: &'s BTreeMap<String, u64>,
    /// By the first digit of the status; 0: no status.
    by_class: &'s BTreeMap<u16, u64>,
    by_field: BTreeMap<&'s str, Vec<ValueFigures<'s>>>,
}

/// The most frequent values of a field.
#[derive(Debug, Serialize)]
struct ValueFigures<'s> {
    value: Option<&'s str>,
    count: u64,
    latency_ms: [f64; 4],
}

fn latency_ms(latencies: &Latencies) -> [f64; 4] {
    QUANTILES.map(|(_, q)| latencies.quantile(q).as_secs_f64() * 1e3)
}

fn request_figures(service: &Service) -> Option<RequestFigures<'_>> {
    let requests = &service.history.requests;
    let fields = service.fields.iter().enumerate().map(|(place, field)| {
        let (_, most) = requests.values(place, VALUES_MAX);
        let most = most.into_iter().map(|valued| ValueFigures {
            value: valued.value,
            count: valued.latencies.count(),
            latency_ms: latency_ms(&valued.latencies),
        });
        (field.as_str(), most.collect())
    });
    (requests.count > 0).then(|| RequestFigures {
        count: requests.count,
        by_method: &requests.methods,
        by_class: &requests.classes,
        by_field: fields.collect(),
    })
}

/// The figures of the services as they were, and as they would have been.
pub(super) fn figures<'s>(services: &'s [Service], changed: &'s [Changed]) -> Figures<'s> {
    let service = |service: &'s Service| {
        let history = &service.history;
        let mut picks = BTreeMap::new();
        for query in &history.queries {
            *picks.entry(query.reason.as_str()).or_default() += 1;
        }
        ServiceFigures {
            service: &service.name,
            policy: service.policy.entry.name,
            since_seconds: service.since.as_secs_f64(),
            streams: service.streams,
            events: service.events,
            bytes: service.bytes,
            picks_same: service.picks,
            probes_same: service.probes,
            difference: (service.difference.as_ref()).map(|(_, difference)| difference.to_string()),
            queries_sent: history.queries.len(),
            queries_failed: history.queries.iter().filter(|it| it.failed()).count(),
            turned_away: history.turned_away,
            latency_ms: latency_ms(&history.latencies()),
            picks,
            requests: request_figures(service),
        }
    };
    Figures {
        services: services.iter().map(service).collect(),
        changed: changed.iter().map(Changed::figures).collect(),
    }
}
