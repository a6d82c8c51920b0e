//! What a replay says, as text.

use super::exact::Service;
use super::model::{Changed, ChangedFigures};
use crate::record::{Ending, Recording};
use crate::sim::summary::counted;
use core::fmt::Write;
use core::time::Duration;
use serde::Serialize;
use slackwater_core::policy::Attempt;
use slackwater_sim::measure::Latencies;
use slackwater_sim::replay::compare::QUANTILES;
use slackwater_sim::replay::history::Passed;
use slackwater_sim::report::with_thousands;

/// Of so many replicas each is told.
const REPLICAS_MAX: usize = 32;

/// What was recorded, and where it ends.
pub(super) fn recording(file: &str, recording: &Recording) -> String {
    let software = &recording.head.software;
    let end = match &recording.end {
        Ending::Said(end) => format!("it ends because {}", end.as_str()),
        Ending::Torn { at, why } => format!(
            "it is torn: after byte {} {why}; what comes before is whole, and is all that counts here",
            number(*at as u64)
        ),
    };
    let streams = counted(recording.streams.len(), "stream");
    format!("{file}: recorded by {software}, {streams}; {end}\n")
}

/// A service as it was, and whether it is the same again.
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
    writeln!(
        to,
        "\n{name}: policy {policy}, {}",
        counted(*streams, "stream")
    )?;
    if service.reconfigured > 0 {
        let others = counted(service.reconfigured, "stream");
        writeln!(
            to,
            "  {others} of another policy or other settings than the first"
        )?;
    }
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
    write_past(to, service)
}

fn write_past(to: &mut String, service: &Service) -> core::fmt::Result {
    let history = &service.history;
    let seconds = Duration::from_nanos(history.ended_at()).as_secs_f64();
    let first = history
        .queries
        .iter()
        .filter(|it| it.attempt == Attempt::First);
    let failed = history.queries.iter().filter(|it| it.failed()).count();
    let sent = number(history.queries.len() as u64);
    let first = number(first.count() as u64);
    let failed = number(failed as u64);
    writeln!(
        to,
        "  recorded within {seconds:.1} s: {sent} tries of {first} queries, {failed} failed, {} turned away",
        number(history.turned_away)
    )?;
    writeln!(to, "  latency {}", quantiles(&history.latencies()))?;
    if history.probes > 0 {
        let trips = &history.round_trips;
        writeln!(
            to,
            "  {} probes, {} answered after {} (median), {} lost",
            number(history.probes),
            number(trips.count()),
            span(trips.quantile(0.5)),
            number(history.probes_lost),
        )?;
    }
    write_replicas(to, service)
}

fn write_replicas(to: &mut String, service: &Service) -> core::fmt::Result {
    let history = &service.history;
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
            "    {name}: {share:.1} %, {failed} failed, {}",
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

/// A span in milliseconds, with three digits or so.
pub(super) fn span(span: Duration) -> String {
    let ms = span.as_secs_f64() * 1e3;
    match ms {
        _ if ms < 10.0 => format!("{ms:.2} ms"),
        _ if ms < 100.0 => format!("{ms:.1} ms"),
        _ => format!("{} ms", with_thousands(&format!("{ms:.0}"))),
    }
}

/// `12,345`.
pub(super) fn number(number: u64) -> String {
    with_thousands(&number.to_string())
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
pub(super) struct Figures<'s> {
    services: Vec<ServiceFigures<'s>>,
    changed: Vec<ChangedFigures<'s>>,
}

#[derive(Debug, Serialize)]
struct ServiceFigures<'s> {
    service: &'s str,
    policy: &'static str,
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
}

/// The services as they were, and as they would have been.
pub(super) fn figures<'s>(services: &'s [Service], changed: &'s [Changed]) -> Figures<'s> {
    let service = |service: &'s Service| {
        let history = &service.history;
        let latencies = history.latencies();
        ServiceFigures {
            service: &service.name,
            policy: service.policy.entry.name,
            streams: service.streams,
            events: service.events,
            bytes: service.bytes,
            picks_same: service.picks,
            probes_same: service.probes,
            difference: (service.difference.as_ref()).map(|(_, difference)| difference.to_string()),
            queries_sent: history.queries.len(),
            queries_failed: history.queries.iter().filter(|it| it.failed()).count(),
            turned_away: history.turned_away,
            latency_ms: QUANTILES.map(|(_, q)| latencies.quantile(q).as_secs_f64() * 1e3),
        }
    };
    Figures {
        services: services.iter().map(service).collect(),
        changed: changed.iter().map(Changed::figures).collect(),
    }
}
