//! Answers of an admin server, as text. They come from another machine, so no text is shown before
//! it is cleaned.

use crate::output::clean;
use crate::terminal::problems::problem_lines;
use crate::terminal::words::{clock, count};
use crate::text_table::text_table;
use bytes::Bytes;
use core::fmt::Write as _;
use core::time::Duration;
use http::Response;
use http::header::DATE;
use serde::Deserialize;
use slackwater_admin::{Meaning, Overrides, Reloaded, ReplicaOverridden, SettingsChanged};
use slackwater_telemetry::attempt_failure::FailureFacts;
use slackwater_telemetry::date::Date;
use slackwater_telemetry::facts::RecentFacts;
use slackwater_telemetry::problems::Problem;
use slackwater_telemetry::replica_state::ReplicaState;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is shown for an absent value.
const NOTHING: &str = "–";

/// The most replicas that are named where one is not known.
const NAMES_MAX: usize = 20;

/// The part of the status that is shown here.
#[derive(Debug, Deserialize)]
pub(super) struct Status {
    version: String,
    role: String,
    process: u32,
    phase: String,
    uptime_ms: u64,
    /// Earlier versions do not send this field, nor the others that have a default.
    #[serde(default)]
    problems: Vec<Problem>,
    overrides: Option<Changes>,
    reloads: Option<Reloads>,
    services: Vec<Service>,
    pub(super) replicas: Vec<Replica>,
}

impl Status {
    /// Returns why there is no such replica; `None` if there is one with that name or address.
    pub(super) fn lacks(&self, replica: &str) -> Option<String> {
        let mut replicas = self.replicas.iter();
        if replicas.any(|it| it.name == replica || it.address == replica) {
            return None;
        }
        let mut names: Vec<_> = self.replicas.iter().map(|it| clean(&it.name)).collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(NAMES_MAX);
        names.truncate(NAMES_MAX);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let known = match &names[..] {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        Some(format!(
            "no replica {} is known; there are: {known}{more}",
            clean(replica)
        ))
    }
}

#[derive(Debug, Deserialize)]
struct Changes {
    allowed: bool,
    settings: u64,
    replicas: u64,
}

#[derive(Debug, Deserialize)]
struct Reloads {
    failure: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Service {
    name: String,
    policy: String,
    recent: Option<RecentFacts>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Replica {
    service: String,
    name: String,
    address: String,
    weight: u32,
    /// This and the next field are absent from versions that have no single word for the state.
    state: Option<String>,
    since_ms: Option<u64>,
    why: Option<String>,
    share_percent: Option<u32>,
    failure: Option<FailureFacts>,
    in_flight: u64,
    #[serde(default)]
    requests: Requests,
}

/// Results of attempts at a replica, since the start.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Requests {
    sent: u64,
    connect_failures: u64,
    timeouts: u64,
    broken: u64,
    responses_5xx: u64,
}

impl Requests {
    const fn failed(&self) -> u64 {
        self.connect_failures + self.timeouts + self.broken + self.responses_5xx
    }
}

impl Replica {
    /// Returns whether it is the replica that an answer is about.
    pub(super) fn is(&self, told: &ReplicaOverridden) -> bool {
        let told = (&told.service, &told.replica, &told.address);
        (&self.service, &self.name, &self.address) == told
    }

    /// Requests of this process that are in flight there.
    pub(super) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Why the replica is in its state, with the number of consecutive failed attempts.
    fn why(&self, now: SystemTime) -> String {
        let why = shown(self.why.as_ref());
        let Some(failure) = &self.failure else {
            return why;
        };
        let (row, last) = (count(failure.in_a_row), ago(failure.last_at_ms, now));
        let failed = format!("{row} failed in a row, the last {last}");
        match &self.why {
            Some(_) => format!("{why}; {failed}"),
            None => failed,
        }
    }

    /// The replica's state, with its share if that is less than all. The share of an ejected
    /// replica is the mean over workers: those that eject it send it nothing, as the reason says.
    fn state(&self) -> String {
        let state = shown(self.state.as_ref());
        match self.share_percent {
            Some(percent @ 1..100) if state != ReplicaState::Ejected.as_str() => {
                format!("{state} {percent} %")
            }
            _ => state,
        }
    }
}

/// The state of a process, its services and their replicas, at `now` by its clock.
pub(super) fn status(status: &Status, address: &str, now: SystemTime) -> String {
    let up = clock(Duration::from_millis(status.uptime_ms));
    let mut text = format!(
        "slackwater {} {} at {address}, process {}, {}, up {up}\n",
        clean(&status.role),
        clean(&status.version),
        status.process,
        clean(&status.phase),
    );
    for problem in &status.problems {
        text += &problem_lines(problem, now);
    }
    // Writing to a string cannot fail.
    let _ = match &status.overrides {
        Some(Changes {
            allowed: false,
            settings: 0,
            replicas: 0,
        }) => writeln!(text, "read-only: admin.token_file is not set"),
        Some(changes) => writeln!(
            text,
            "changed at run time: {} and {}",
            counted(changes.settings, "setting"),
            counted(changes.replicas, "replica")
        ),
        None => Ok(()),
    };
    if let Some(failure) = status.reloads.as_ref().and_then(|it| it.failure.as_ref()) {
        let _ = writeln!(
            text,
            "the last reload was rejected: {}",
            clean_lines(failure).trim_end()
        );
    }
    for service in &status.services {
        let _ = writeln!(
            text,
            "\n{}: {}{}",
            clean(&service.name),
            clean(&service.policy),
            service.recent.as_ref().map_or_else(String::new, recent),
        );
        let replicas = status.replicas.iter();
        let rows = replicas.filter(|it| it.service == service.name).map(|it| {
            [
                clean(&it.name),
                clean(&it.address),
                it.state(),
                since(it.since_ms, now),
                it.why(now),
                count(it.weight.into()),
                count(it.in_flight),
                count(it.requests.sent),
                count(it.requests.failed()),
            ]
        });
        let heads = [
            "REPLICA",
            "ADDRESS",
            "STATE",
            "SINCE",
            "WHY",
            "WEIGHT",
            "IN FLIGHT",
            "ATTEMPTS",
            "FAILED",
        ];
        text += &text_table(&heads, rows, 5);
    }
    text
}

/// Recent requests, and their errors.
fn recent(recent: &RecentFacts) -> String {
    let mut text = format!(", {:.1} requests/s", recent.rate());
    let errors = [
        ("answered 5xx", recent.responses_5xx),
        ("gRPC failures", recent.grpc_failed),
        ("broken off", recent.broken),
    ];
    let attempts = [
        ("without a connection", recent.attempts_unconnected),
        ("timed out", recent.attempts_timed_out),
        ("broken", recent.attempts_broken),
    ];
    let listed = |kinds: &[(&str, u64)]| {
        let some = kinds.iter().filter(|(_, number)| *number > 0);
        let each = some.map(|(what, number)| format!("{} {what}", count(*number)));
        each.collect::<Vec<_>>().join(", ")
    };
    let seconds = recent.span_ms.div_ceil(1_000);
    let (errors, attempts) = (listed(&errors), listed(&attempts));
    // Writing to a string cannot fail.
    let _ = if recent.failed > 0 {
        let percent = recent.failed_percent();
        write!(
            text,
            ", {percent} % failed in the last {seconds} s{}: {errors}",
            recent.ending()
        )
    } else {
        write!(text, ", none failed in the last {seconds} s")
    };
    if !attempts.is_empty() {
        let _ = write!(text, "; attempts: {attempts}");
    }
    text
}

/// When an answer was sent, by the server's clock: this machine's may differ.
pub(super) fn sent_at(answer: &Response<Bytes>) -> SystemTime {
    let date = answer
        .headers()
        .get(DATE)
        .and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    date.unwrap_or_else(SystemTime::now)
}

/// How long ago that was, in the largest unit that fits; `--json` has the date.
fn since(at_ms: Option<u64>, now: SystemTime) -> String {
    let Some(at_ms) = at_ms else {
        return NOTHING.to_owned();
    };
    match age(at_ms, now).as_secs() {
        seconds @ 0..60 => format!("{seconds} s ago"),
        seconds @ 60..3_600 => format!("{} min ago", seconds / 60),
        seconds @ 3_600..86_400 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}

fn ago(at_ms: u64, now: SystemTime) -> String {
    format!("{} ago", clock(age(at_ms, now)))
}

fn age(at_ms: u64, now: SystemTime) -> Duration {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(at_ms));
    let since = at.and_then(|at| now.duration_since(at).ok());
    since.unwrap_or_default()
}

/// The overrides in force for one replica.
pub(super) fn replica(told: &ReplicaOverridden) -> String {
    let state = if told.drained {
        "drained"
    } else {
        "takes requests"
    };
    format!("{}: {state}, weight {}\n", named(told), weight(told))
}

/// A replica's name for use within a line.
pub(super) fn named(told: &ReplicaOverridden) -> String {
    let (service, name) = (clean(&told.service), clean(&told.replica));
    if told.replica == told.address {
        format!("{service}, {name}")
    } else {
        format!("{service}, {name} at {}", clean(&told.address))
    }
}

fn weight(told: &ReplicaOverridden) -> String {
    let weight = told.weight.map(|weight| count(weight.into()));
    weight.unwrap_or_else(|| "as its fleet says".to_owned())
}

/// The cleaned text, or [`NOTHING`].
fn shown(text: Option<&String>) -> String {
    text.map_or(NOTHING.to_owned(), |text| clean(text))
}

/// The effect of changed settings.
pub(super) fn settings(told: &SettingsChanged) -> String {
    let mut text = preface(told.dry_run);
    if told.changed.is_empty() {
        text += "that is in force already\n";
    }
    for changed in &told.changed {
        let (from, to) = (shown(changed.from.as_ref()), shown(changed.to.as_ref()));
        let _ = writeln!(text, "{}: {from} → {to}", clean(&changed.key));
    }
    text + &meaning(&told.meaning)
}

/// The effect of a reload.
pub(super) fn reloaded(told: &Reloaded) -> String {
    let mut text = preface(told.dry_run);
    let is_same = Meaning {
        remarks: Vec::new(),
        ..told.meaning.clone()
    } == Meaning::default();
    if is_same {
        text += "no service and no listener changes\n";
    }
    text + &meaning(&told.meaning)
}

fn preface(is_dry_run: bool) -> String {
    if is_dry_run {
        "dry run, nothing is changed; it would be:\n".to_owned()
    } else {
        String::new()
    }
}

fn meaning(meaning: &Meaning) -> String {
    let mut text = String::new();
    for (what, names) in [
        (
            "services that are new or rebuilt",
            &meaning.services_started,
        ),
        ("services that end", &meaning.services_ended),
        ("listeners that open", &meaning.listeners_opened),
        ("listeners that close", &meaning.listeners_closed),
        ("stays as it was until a restart", &meaning.need_restart),
    ] {
        if !names.is_empty() {
            let _ = writeln!(text, "{what}: {}", clean(&names.join(", ")));
        }
    }
    for remark in &meaning.remarks {
        let _ = writeln!(text, "remark: {}", clean(remark));
    }
    text
}

/// The overrides at run time; `None` if there are none.
pub(super) fn overrides(told: &Overrides) -> Option<String> {
    let settings = told.settings.iter().map(|it| {
        let before = it.instead_of.as_deref().map_or(NOTHING.to_owned(), clean);
        [
            clean(&it.service),
            clean(&it.key),
            clean(&it.value),
            before,
            date(Some(it.since_ms)),
        ]
    });
    let replicas = told.replicas.iter().map(|it| {
        [
            clean(&it.service),
            clean(&it.replica),
            clean(&it.address),
            if it.drained { "yes" } else { "no" }.to_owned(),
            weight(it),
            date(it.since_ms),
        ]
    });
    let chosen = told.control_plane.iter().map(|it| {
        [
            clean(&it.service),
            clean(&it.key),
            clean(&it.value),
            date(Some(it.since_ms)),
        ]
    });
    let refused = told.control_plane_refused.iter().map(|it| {
        [
            clean(&it.service),
            clean(&it.cluster),
            clean(&it.why),
            date(Some(it.since_ms)),
        ]
    });
    let mut tables = Vec::new();
    if !told.settings.is_empty() {
        let heads = ["SERVICE", "KEY", "VALUE", "INSTEAD OF", "SINCE"];
        tables.push(text_table(&heads, settings, 5));
    }
    if !told.replicas.is_empty() {
        let heads = [
            "SERVICE", "REPLICA", "ADDRESS", "DRAINED", "WEIGHT", "SINCE",
        ];
        tables.push(text_table(&heads, replicas, 6));
    }
    if !told.control_plane.is_empty() {
        let heads = ["SERVICE", "KEY", "BY THE CONTROL PLANE", "SINCE"];
        tables.push(text_table(&heads, chosen, 4));
    }
    if !told.control_plane_refused.is_empty() {
        let heads = ["SERVICE", "CLUSTER", "POLICY NOT APPLIED", "SINCE"];
        tables.push(text_table(&heads, refused, 4));
    }
    (!tables.is_empty()).then(|| tables.join("\n"))
}

fn date(since_ms: Option<u64>) -> String {
    let at = since_ms.and_then(|ms| UNIX_EPOCH.checked_add(Duration::from_millis(ms)));
    at.map_or(NOTHING.to_owned(), |at| Date::of(at).rfc3339().to_string())
}

/// `1 replica`, `2 replicas`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(number))
}

/// Cleans several lines, each of which ends with an LF.
pub(super) fn clean_lines(text: &str) -> String {
    let lines = text.lines().map(clean);
    lines.fold(String::new(), |text, line| text + &line + "\n")
}

#[cfg(test)]
mod tests;
