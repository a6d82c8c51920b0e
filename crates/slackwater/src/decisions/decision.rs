//! A request's story as it is kept and told: names in place of numbers, and nothing that belongs to a worker.

use crate::access_log::date::Date;
use crate::request_record::{Attempt, AttemptKind, Directory, Record};
use core::time::Duration;
use http::HeaderValue;
use serde::{Serialize, Serializer};
use slackwater_core::policy::{
    Candidate, Explanation, Out, Outcome, PickReason, PooledView, Score,
};
use slackwater_core::{ReplicaId, Rif};
use std::time::SystemTime;

/// Text that clients sent is kept to so many bytes.
const TEXT_BYTES_MAX: usize = 512;

/// A request and why it went where it went.
#[derive(Debug, Serialize)]
pub(super) struct Decision {
    pub(super) id: String,
    /// Of a request that is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace_id: Option<String>,
    #[serde(serialize_with = "rfc3339")]
    pub(super) time: SystemTime,
    pub(super) kept: Kept,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<&'static str>,
    pub(super) client: String,
    pub(super) method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    /// Without a query, which often holds secrets.
    pub(super) path: String,
    pub(super) status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    pub(super) end: &'static str,
    pub(super) failed: bool,
    #[serde(
        rename = "first_byte_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    pub(super) first_byte: Option<Duration>,
    #[serde(rename = "total_us", serialize_with = "micros")]
    pub(super) total: Duration,
    pub(super) attempts: Vec<Tried>,
}

/// Why a request is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kept {
    Sampled,
    Asked,
    Failed,
    Slow,
}

/// One try of it.
#[derive(Debug, Serialize)]
pub(super) struct Tried {
    #[serde(serialize_with = "kind")]
    pub(super) kind: AttemptKind,
    pub(super) replica: String,
    /// Its response is the request's.
    pub(super) answered: bool,
    #[serde(serialize_with = "reason")]
    pub(super) reason: PickReason,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rif_limit: Option<u32>,
    /// Reports to choose from.
    pub(super) reports: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chosen: Option<Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runner_up: Option<Known>,
    #[serde(rename = "probing_us", serialize_with = "micros")]
    pub(super) probing: Duration,
    #[serde(
        rename = "due_after_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    pub(super) due_after: Option<Duration>,
    #[serde(rename = "sent_us", serialize_with = "micros")]
    pub(super) sent: Duration,
    #[serde(
        rename = "connect_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    pub(super) connect: Option<Duration>,
    #[serde(
        rename = "head_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    pub(super) head: Option<Duration>,
    #[serde(
        rename = "end_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    pub(super) end: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "outcome")]
    pub(super) outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<Box<str>>,
    /// How many replicas could be chosen.
    pub(super) available: u32,
    /// How many were looked at.
    pub(super) considered: u32,
    pub(super) candidates: Vec<Known>,
    /// How many are out, or have less than their share.
    pub(super) out: u32,
    pub(super) outs: Vec<Absent>,
}

/// What was known of a replica at the choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Known {
    pub(super) replica: String,
    #[serde(flatten)]
    pub(super) report: Option<Report>,
    pub(super) in_flight: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) score_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) polled_rif: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) weight: Option<u32>,
    #[serde(skip_serializing_if = "is_not")]
    pub(super) avoided: bool,
}

/// A report as it counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Report {
    pub(super) rif: u32,
    #[serde(
        rename = "latency_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    pub(super) latency: Option<Duration>,
    #[serde(rename = "age_us", serialize_with = "micros")]
    pub(super) age: Duration,
    /// Absent where uses are not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uses_left: Option<u32>,
    pub(super) hot: bool,
    #[serde(skip_serializing_if = "is_not")]
    pub(super) local: bool,
}

/// Who could not be chosen, or not for its whole share.
#[derive(Debug, Serialize)]
pub(super) struct Absent {
    pub(super) replica: String,
    pub(super) why: &'static str,
    /// The part of the queries that may go there.
    pub(super) share: f64,
}

impl Decision {
    pub(super) fn of(record: &Record, kept: Kept) -> Self {
        let directory = record.directory.as_deref();
        let text = |value: &HeaderValue| shortened(&String::from_utf8_lossy(value.as_bytes()));
        let tries = record.tries.iter().enumerate();
        Self {
            id: text(record.id()),
            trace_id: (record.traced.as_ref()).map(|traced| traced.trace().to_string()),
            time: record.at,
            kept,
            service: record.service.as_deref().map(str::to_owned),
            policy: directory.map(Directory::policy),
            client: record.client.to_string(),
            method: shortened(record.method.as_str()),
            host: record.host.as_ref().map(text),
            path: shortened(record.path()),
            status: record.status.map_or(0, |status| status.as_u16()),
            error: record.error.as_ref().map(text),
            end: record.ended().as_str(),
            failed: record.failed(),
            first_byte: record.first_byte,
            total: record.total(),
            attempts: tries
                .map(|(place, attempt)| {
                    let has_answered = attempt.head.is_some() && record.leading == Some(place);
                    Tried::of(attempt, has_answered, directory)
                })
                .collect(),
        }
    }

    /// About how much memory it takes.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.id, &self.client, &self.method, &self.path];
        let more = [&self.trace_id, &self.service, &self.host, &self.error];
        let texts = texts.into_iter().chain(more.into_iter().flatten());
        let attempts = self.attempts.iter().map(Tried::bytes);
        size_of::<Self>() + texts.map(String::len).sum::<usize>() + attempts.sum::<usize>()
    }
}

impl Tried {
    fn of(attempt: &Attempt, answered: bool, directory: Option<&dyn Directory>) -> Self {
        let pick = &attempt.pick;
        let name = |replica| name_of(replica, directory);
        let explained = attempt.explanation.as_deref();
        let candidates = explained.map_or(&[][..], |explained| explained.candidates());
        let candidates: Vec<_> = candidates
            .iter()
            .map(|candidate| Known::of(candidate, name(candidate.replica)))
            .collect();
        let runner_up = pick.runner_up.map(name);
        let end = attempt.end.as_ref();
        Self {
            kind: attempt.kind,
            replica: attempt.replica.to_string(),
            answered,
            reason: pick.reason,
            rif_limit: pick.rif_limit.map(Rif::count),
            reports: pick.candidates,
            chosen: pick.chosen.as_ref().map(Report::of),
            runner_up: runner_up.and_then(|name| {
                let mut candidates = candidates.iter();
                candidates.find(|known| known.replica == name).cloned()
            }),
            probing: pick.probing,
            due_after: attempt.due_after,
            sent: attempt.sent,
            connect: attempt.connect,
            head: attempt.head,
            end: end.map(|end| end.at),
            status: attempt.status.map(|status| status.as_u16()),
            outcome: end.map(|end| end.outcome),
            cause: end.and_then(|end| end.cause.clone()),
            available: explained.map_or(0, Explanation::available),
            considered: explained.map_or(0, Explanation::considered),
            candidates,
            out: explained.map_or(0, Explanation::out),
            outs: explained.map_or_else(Vec::new, |explained| {
                let outs = explained.outs().iter();
                outs.map(|out| Absent::of(out, name(out.replica))).collect()
            }),
        }
    }

    fn bytes(&self) -> usize {
        let known = |known: &Known| size_of::<Known>() + known.replica.len();
        let absent = |absent: &Absent| size_of::<Absent>() + absent.replica.len();
        size_of::<Self>()
            + self.replica.len()
            + self.cause.as_ref().map_or(0, |cause| cause.len())
            + self.runner_up.as_ref().map_or(0, known)
            + self.candidates.iter().map(known).sum::<usize>()
            + self.outs.iter().map(absent).sum::<usize>()
    }
}

impl Known {
    fn of(candidate: &Candidate, replica: String) -> Self {
        let score = candidate.score;
        Self {
            replica,
            report: candidate.report.as_ref().map(Report::of),
            in_flight: candidate.in_flight,
            score_us: match score {
                Some(Score::Nanoseconds(ns)) => Some(ns as f64 / 1e3),
                _ => None,
            },
            polled_rif: match score {
                Some(Score::Rif(rif)) => Some(rif),
                _ => None,
            },
            weight: match score {
                Some(Score::Weight(weight)) => Some(weight),
                _ => None,
            },
            avoided: candidate.avoided,
        }
    }
}

impl Report {
    fn of(view: &PooledView) -> Self {
        Self {
            rif: view.rif.count(),
            latency: view.latency,
            age: view.age,
            uses_left: Some(view.uses_left).filter(|uses| *uses != u32::MAX),
            hot: view.hot,
            local: view.local,
        }
    }
}

impl Absent {
    fn of(out: &Out, replica: String) -> Self {
        Self {
            replica,
            why: out.why.as_str(),
            share: f64::from(out.share_millionths) / 1e6,
        }
    }
}

/// What users call it or, if it has left, what its policy did.
fn name_of(replica: ReplicaId, directory: Option<&dyn Directory>) -> String {
    let name = directory.and_then(|directory| directory.name(replica));
    name.map_or_else(|| format!("{replica} (left)"), String::from)
}

/// What is too long is cut off, and says so.
fn shortened(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)])
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
const fn is_not(it: &bool) -> bool {
    !*it
}

fn rfc3339<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&Date::of(*time).rfc3339())
}

fn micros<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

#[expect(clippy::ref_option, reason = "serde hands references to fields")]
fn micros_or_none<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => micros(span, to),
        None => to.serialize_none(),
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands references to fields"
)]
fn kind<S: Serializer>(kind: &AttemptKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.as_str())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands references to fields"
)]
fn reason<S: Serializer>(reason: &PickReason, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(reason.as_str())
}

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands references to fields"
)]
fn outcome<S: Serializer>(outcome: &Option<Outcome>, to: S) -> Result<S::Ok, S::Error> {
    match outcome {
        Some(outcome) => to.serialize_str(outcome.as_str()),
        None => to.serialize_none(),
    }
}
