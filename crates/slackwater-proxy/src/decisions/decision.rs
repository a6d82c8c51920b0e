//! A request's record as it is kept and shown: names in place of numbers, and nothing that belongs
//! to a worker.

use super::absent::Absent;
use super::names::{Part, name_of, part_of};
use crate::request_record::{AttemptKind, AttemptRecord, Directory, RequestRecord};
use core::time::Duration;
use http::HeaderValue;
use serde::{Serialize, Serializer};
use slackwater_core::Rif;
use slackwater_core::policy::{
    Candidate, Comparison, Explanation, Outcome, PickReason, PooledView,
};
use slackwater_telemetry::comparison::Figures;
use slackwater_telemetry::date::Date;
use slackwater_tower::response::GrpcStatus;
use std::time::SystemTime;

/// Text that clients sent is kept to so many bytes.
const TEXT_BYTES_MAX: usize = 512;

/// A request and why it went where it went.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Decision {
    /// What the request is called, as in the access log.
    pub(super) id: String,
    /// Of a request that is traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace_id: Option<String>,
    /// When it came, UTC.
    #[serde(serialize_with = "rfc3339")]
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("format" = "date-time")))]
    pub(super) time: SystemTime,
    /// Why it is kept.
    pub(super) kept: Kept,
    /// Who it was for; absent where no route led to a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<String>,
    /// How that service chooses; absent likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<&'static str>,
    /// The address of whoever sent it.
    pub(super) client: String,
    /// Its method. This and other texts of clients are cut at 512 bytes.
    pub(super) method: String,
    /// The host that it asked for; absent where it named none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    /// Without a query, which often holds secrets.
    pub(super) path: String,
    /// What the client got; 0: it ended before there was one.
    pub(super) status: u16,
    /// How a gRPC call ended, as the client was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grpc_status: Option<u8>,
    /// What went wrong, in a word, where this process answered in place of a replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// How it ended, in a word.
    pub(super) end: &'static str,
    /// Status 500 and above, a gRPC status that blames the server, or a response that broke off,
    /// stalled or was cut off.
    pub(super) failed: bool,
    /// Microseconds to the head of the response; absent where there was none.
    #[serde(
        rename = "first_byte_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) first_byte: Option<Duration>,
    /// Microseconds to the end.
    #[serde(rename = "total_us", serialize_with = "micros")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) total: Duration,
    /// Each try, in the order in which they were sent.
    pub(super) attempts: Vec<Tried>,
}

/// Why a request is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionKept"))]
pub(super) enum Kept {
    Sampled,
    Asked,
    Failed,
    Slow,
}

impl Kept {
    /// How many reasons there are.
    pub(super) const COUNT: usize = 4;
}

/// One attempt of it.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionAttempt"))]
pub(super) struct Tried {
    /// What it is to its request.
    #[serde(serialize_with = "kind")]
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = AttemptKind::ALL.map(AttemptKind::as_str))))]
    pub(super) kind: AttemptKind,
    /// Where it went.
    pub(super) replica: String,
    /// Its response is the request's.
    pub(super) answered: bool,
    /// Why there: the rule that decided.
    #[serde(serialize_with = "reason")]
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = PickReason::ALL.map(PickReason::as_str))))]
    pub(super) reason: PickReason,
    /// The rule that decided all the same, where it went there for want of others.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rule")]
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = PickReason::ALL.map(PickReason::as_str))))]
    pub(super) rule: Option<PickReason>,
    /// How replicas were compared: a name in `comparisons`. Absent where the request was pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub(super) comparison: Option<Compared>,
    /// The values of the comparison's shared factors, by key.
    #[serde(skip_serializing_if = "is_empty")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "std::collections::BTreeMap<String, f64>")
    )]
    pub(super) shared: Figures,
    /// The draw that decided between equals, from 0 to 1; absent where none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) draw: Option<f64>,
    /// Reports with this RIF or more were hot; absent where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rif_limit: Option<u32>,
    /// Reports to choose from.
    pub(super) reports: u16,
    /// The report that decided, as it was before this request was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chosen: Option<Report>,
    /// Who came second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runner_up: Option<Known>,
    /// Microseconds that it took to ask replicas for this request.
    #[serde(rename = "probing_us", serialize_with = "micros")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) probing: Duration,
    /// Of a second copy: microseconds after the request began at which it was to be sent.
    #[serde(
        rename = "due_after_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) due_after: Option<Duration>,
    /// Microseconds from the request's head until it set out.
    #[serde(rename = "sent_us", serialize_with = "micros")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) sent: Duration,
    /// Microseconds to a new connection; absent where one was there, or none came about.
    #[serde(
        rename = "connect_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) connect: Option<Duration>,
    /// Microseconds from the request's head to the head of its response; absent where there was
    /// none.
    #[serde(
        rename = "head_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) head: Option<Duration>,
    /// Microseconds from the request's head to its end.
    #[serde(
        rename = "end_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) end: Option<Duration>,
    /// What the head of its response said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    /// How the replica says that a gRPC call ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grpc_status: Option<u8>,
    /// What the policy was told.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "outcome")]
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = Outcome::ALL.map(Outcome::as_str))))]
    pub(super) outcome: Option<Outcome>,
    /// In words, where there is more to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<Box<str>>,
    /// How many replicas could be chosen.
    pub(super) available: u32,
    /// How many were looked at.
    pub(super) considered: u32,
    /// How many of those that could have it had a report that was cold; without a limit, all that
    /// had one.
    pub(super) cold: u32,
    /// How many of those that could have it had a report that was hot.
    pub(super) hot: u32,
    /// What was known of those, the best first: of more than 32 the best, and the one that was
    /// chosen.
    pub(super) candidates: Vec<Known>,
    /// How many are out, or have less than their share.
    pub(super) out: u32,
    /// Each of these, 16 at most.
    pub(super) outs: Vec<Absent>,
}

/// What was known of a replica at the choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionCandidate"))]
pub(super) struct Known {
    /// Who it is; of one that has left since, the policy's own name for it.
    pub(super) replica: String,
    /// Which part of its replica this is, of one that is several to its policy.
    #[serde(flatten)]
    pub(super) part: Option<Part>,
    /// It is the one that was chosen. Absent: it is not.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub(super) chosen: bool,
    #[serde(flatten)]
    pub(super) report: Option<Report>,
    /// Requests of this worker's that were in flight there.
    pub(super) in_flight: u32,
    /// What it can carry by its report, in thousandths of a request in flight, where the policy
    /// goes by that; absent of one that does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) capacity_millirif: Option<u32>,
    /// What a request costs there by its report, in microseconds: CPU time, or what stands for it;
    /// absent likewise.
    #[serde(
        rename = "cost_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) cost: Option<Duration>,
    /// The share of that capacity that was in use: `rif` of it, without this request; 1 is all.
    /// Absent likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_use: Option<f64>,
    /// How many replicas were looked at before it.
    pub(super) number: u32,
    /// What was compared: the values of the comparison's factors, by key. A value that is not known
    /// is absent.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "std::collections::BTreeMap<String, f64>")
    )]
    pub(super) factors: Figures,
    /// It was not to have this request. Absent: it could.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub(super) avoided: bool,
}

/// How replicas were compared; as JSON it is the name of that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared(pub(super) &'static Comparison);

impl Serialize for Compared {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name)
    }
}

/// A report as it counted.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionReport"))]
pub(super) struct Report {
    /// Requests in flight, and those that this worker has sent there since.
    pub(super) rif: u32,
    /// The latency that it expects, in microseconds; absent while unknown.
    #[serde(
        rename = "latency_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) latency: Option<Duration>,
    /// How old it was, in microseconds.
    #[serde(rename = "age_us", serialize_with = "micros")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) age: Duration,
    /// How many more requests it may decide, this one among them; absent where uses are not
    /// limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uses_left: Option<u32>,
    /// Its RIF had reached the limit.
    pub(super) hot: bool,
    /// The replica answers no probes, so this is the worker's own count. Absent: it does.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub(super) local: bool,
}

impl Decision {
    pub(super) fn of(record: &RequestRecord, kept: Kept) -> Self {
        let directory = record.directory.as_deref();
        let text = |value: &HeaderValue| shortened(&String::from_utf8_lossy(value.as_bytes()));
        let attempt_records = record.attempt_records.iter().enumerate();
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
            grpc_status: record.grpc_status.map(GrpcStatus::code),
            error: record.error.as_ref().map(text),
            end: record.ended().as_str(),
            failed: record.failed(),
            first_byte: record.first_byte,
            total: record.total(),
            attempts: attempt_records
                .map(|(place, attempt)| Tried::of(attempt, record.is_answered_by(place), directory))
                .collect(),
        }
    }

    /// From its head to what the client got or, if that was nothing, to its end.
    pub(super) fn waited(&self) -> Duration {
        self.first_byte.unwrap_or(self.total)
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
    fn of(attempt: &AttemptRecord, answered: bool, directory: Option<&dyn Directory>) -> Self {
        let pick = &attempt.pick;
        let explained = attempt.explanation.as_deref();
        let candidates = explained.map_or(&[][..], |explained| explained.candidates());
        let comparison = explained.and_then(Explanation::comparison);
        let known = |candidate: &Candidate| Known {
            chosen: candidate.replica == pick.replica,
            factors: Figures::of_candidate(comparison, candidate.values),
            ..Known::of(candidate, directory)
        };
        // By its id: several parts of a replica have its name.
        let runner_up = explained.and_then(Explanation::runner_up);
        let runner_up = runner_up.and_then(|runner_up| {
            let mut candidates = candidates.iter();
            candidates.find(|candidate| candidate.replica == runner_up)
        });
        let rule = explained.and_then(Explanation::rule);
        let end = attempt.end.as_ref();
        Self {
            kind: attempt.kind,
            replica: attempt.replica.to_string(),
            answered,
            reason: pick.reason,
            rule: rule.filter(|rule| *rule != pick.reason),
            comparison: comparison.map(Compared),
            shared: explained.map_or_else(Figures::default, |explained| {
                Figures::shared(comparison, explained.shared())
            }),
            draw: explained.and_then(Explanation::draw).map(fraction),
            rif_limit: pick.rif_limit.map(Rif::count),
            reports: pick.candidates,
            chosen: pick.chosen.as_ref().map(Report::of),
            runner_up: runner_up.map(known),
            probing: pick.probing,
            due_after: attempt.due_after,
            sent: attempt.sent,
            connect: attempt.connect,
            head: attempt.head,
            end: end.map(|end| end.at),
            status: attempt.status.map(|status| status.as_u16()),
            grpc_status: attempt.grpc_status.map(GrpcStatus::code),
            outcome: end.map(|end| end.outcome),
            cause: end.and_then(|end| end.cause.clone()),
            available: explained.map_or(0, Explanation::available),
            considered: explained.map_or(0, Explanation::considered),
            cold: explained.map_or(0, Explanation::cold),
            hot: explained.map_or(0, Explanation::hot),
            candidates: candidates.iter().map(known).collect(),
            out: explained.map_or(0, Explanation::out),
            outs: explained.map_or_else(Vec::new, |explained| {
                Absent::all(explained.outs(), directory)
            }),
        }
    }

    fn bytes(&self) -> usize {
        let known = |known: &Known| size_of::<Known>() + known.replica.len();
        let absent =
            |absent: &Absent| size_of::<Absent>() + absent.replica.len() + absent.why.len();
        size_of::<Self>()
            + self.replica.len()
            + self.cause.as_ref().map_or(0, |cause| cause.len())
            + self.runner_up.as_ref().map_or(0, known)
            + self.candidates.iter().map(known).sum::<usize>()
            + self.outs.iter().map(absent).sum::<usize>()
    }
}

impl Known {
    fn of(candidate: &Candidate, directory: Option<&dyn Directory>) -> Self {
        let replica = candidate.replica;
        Self {
            replica: name_of(replica, directory),
            part: part_of(replica, directory),
            chosen: false,
            report: candidate.report.as_ref().map(Report::of),
            in_flight: candidate.in_flight,
            capacity_millirif: candidate.capacity_millirif,
            cost: candidate.cost,
            in_use: in_use(candidate),
            number: candidate.number,
            factors: Figures::default(),
            avoided: candidate.avoided,
        }
    }
}

/// A draw as a number from 0 to 1, 1 excluded: its highest 53 bits, as many as a floating-point
/// number keeps.
fn fraction(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1_u64 << 53) as f64
}

/// To three digits.
fn in_use(candidate: &Candidate) -> Option<f64> {
    let capacity_millirif = candidate.capacity_millirif.filter(|&it| it > 0)?;
    let rif = candidate.report.as_ref()?.rif.count();
    let share = f64::from(rif) * 1e3 / f64::from(capacity_millirif);
    Some((share * 1e3).round() / 1e3)
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

/// What is too long is cut off, and says so.
fn shortened(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)])
}

fn is_empty(figures: &Figures) -> bool {
    figures.factors.is_empty()
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
fn rule<S: Serializer>(rule: &Option<PickReason>, to: S) -> Result<S::Ok, S::Error> {
    match rule {
        Some(rule) => reason(rule, to),
        None => to.serialize_none(),
    }
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
