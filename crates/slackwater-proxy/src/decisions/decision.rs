//! A request record as it is stored and shown: names in place of ids, and no references to a
//! worker.

use super::absent::Absent;
use super::key_set::KeySet;
use super::names::{Part, name_of, part_of};
use crate::request_record::{AttemptKind, AttemptRecord, Directory, RequestRecord};
use core::time::Duration;
use serde::{Serialize, Serializer};
use slackwater_core::Rif;
use slackwater_core::policy::{
    Candidate, Comparison, Explanation, Outcome, PickReason, PooledView,
};
use slackwater_telemetry::comparison::Figures;
use slackwater_telemetry::date::Date;
use slackwater_tower::response::GrpcStatus;
use std::time::SystemTime;

/// Text from clients is cut to this many bytes.
const TEXT_BYTES_MAX: usize = 512;

/// A request, and why it was sent where it was.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct Decision {
    /// Id of the request, as in the access log.
    pub(super) id: String,
    /// Trace id; absent if the request is not traced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) trace_id: Option<String>,
    /// When the request arrived, UTC.
    #[serde(serialize_with = "rfc3339")]
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("format" = "date-time")))]
    pub(super) time: SystemTime,
    /// Why the request is kept.
    pub(super) kept: Kept,
    /// Service of the request; absent if no route led to a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) service: Option<String>,
    /// Balancing policy of that service; absent without a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) policy: Option<&'static str>,
    /// Client address.
    pub(super) client: String,
    /// Method. This and other text from clients is cut at 512 bytes.
    pub(super) method: String,
    /// Requested host; absent if the request has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) host: Option<String>,
    /// Path without the query string, which often holds secrets.
    pub(super) path: String,
    /// Status that the client received; 0 if the request ended before that.
    pub(super) status: u16,
    /// Status of a gRPC call, as the client received it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grpc_status: Option<u8>,
    /// Error in one word, if this process answered in place of a replica.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// How the request ended, in one word.
    pub(super) end: &'static str,
    /// Whether the request failed: status 500 and above, a gRPC status that blames the server, or a
    /// response that broke off, stalled or was cut off.
    pub(super) failed: bool,
    /// Microseconds until the response head; absent if there was none.
    #[serde(
        rename = "first_byte_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) first_byte: Option<Duration>,
    /// Microseconds until the end.
    #[serde(rename = "total_us", serialize_with = "micros")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) total: Duration,
    /// All attempts, in the order in which they were sent.
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
    /// Number of reasons.
    pub(super) const COUNT: usize = 4;
}

/// One attempt of the request.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionAttempt"))]
pub(super) struct Tried {
    /// Role of the attempt in its request.
    #[serde(serialize_with = "kind")]
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = AttemptKind::ALL.map(AttemptKind::as_str))))]
    pub(super) kind: AttemptKind,
    /// Name of the replica.
    pub(super) replica: String,
    /// Whether the attempt's response is the request's response.
    pub(super) answered: bool,
    /// The rule that picked the replica.
    #[serde(serialize_with = "reason")]
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = PickReason::ALL.map(PickReason::as_str))))]
    pub(super) reason: PickReason,
    /// The rule that compared the replicas, if `reason` is that no regular choice was left.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "rule")]
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = PickReason::ALL.map(PickReason::as_str))))]
    pub(super) rule: Option<PickReason>,
    /// The set of the request's key; absent without a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<KeySet>,
    /// How replicas were compared: a name in `comparisons`. Absent if the request was pinned.
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
    /// Random draw that decided between equals, from 0 to 1; absent if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) draw: Option<f64>,
    /// RIF limit: reports with this RIF or more were hot. Absent if no report was hot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rif_limit: Option<u32>,
    /// Number of reports to choose from.
    pub(super) reports: u16,
    /// The report that decided, as it was before this request was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) chosen: Option<Report>,
    /// The second-best candidate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runner_up: Option<Known>,
    /// Microseconds spent on probing replicas for this request.
    #[serde(rename = "probing_us", serialize_with = "micros")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) probing: Duration,
    /// For a second copy: microseconds after the start of the request at which it was due.
    #[serde(
        rename = "due_after_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) due_after: Option<Duration>,
    /// Microseconds from the request head until the attempt was sent.
    #[serde(rename = "sent_us", serialize_with = "micros")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) sent: Duration,
    /// Microseconds to open a new connection; absent if an existing one was used, or if none could
    /// be opened.
    #[serde(
        rename = "connect_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) connect: Option<Duration>,
    /// Microseconds from the request head to the response head; absent if there was none.
    #[serde(
        rename = "head_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) head: Option<Duration>,
    /// Microseconds from the request head to the end of the attempt.
    #[serde(
        rename = "end_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) end: Option<Duration>,
    /// Status in the response head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    /// Status of a gRPC call, as the replica sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grpc_status: Option<u8>,
    /// Outcome that was reported to the policy.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "outcome")]
    #[cfg_attr(feature = "schema", schemars(with = "String", extend("enum" = Outcome::ALL.map(Outcome::as_str))))]
    pub(super) outcome: Option<Outcome>,
    /// Error in words, if there is more detail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cause: Option<Box<str>>,
    /// Number of available replicas.
    pub(super) available: u32,
    /// Number of replicas that the policy considered.
    pub(super) considered: u32,
    /// Number of eligible replicas with a cold report; without an RIF limit, all with a report.
    pub(super) cold: u32,
    /// Number of eligible replicas with a hot report.
    pub(super) hot: u32,
    /// What was known of the considered replicas, best first: at most the best 32, and the chosen
    /// one.
    pub(super) candidates: Vec<Known>,
    /// Number of replicas that are excluded, or have less than their share.
    pub(super) out: u32,
    /// These replicas, at most 16.
    pub(super) outs: Vec<Absent>,
}

/// What was known of a replica when the pick was made.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionCandidate"))]
pub(super) struct Known {
    /// Name of the replica; if it has left since, the policy's own id for it.
    pub(super) replica: String,
    /// The part of its replica, if the policy treats the replica as several.
    #[serde(flatten)]
    pub(super) part: Option<Part>,
    /// Whether this replica was chosen; absent if not.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub(super) chosen: bool,
    #[serde(flatten)]
    pub(super) report: Option<Report>,
    /// Requests of this worker in flight there.
    pub(super) in_flight: u32,
    /// Capacity that the replica reports, in thousandths of a request in flight, if the policy uses
    /// it. Absent if the replica does not report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) capacity_millirif: Option<u32>,
    /// Cost of a request that the replica reports, in microseconds of CPU time or an equivalent.
    /// Absent likewise.
    #[serde(
        rename = "cost_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) cost: Option<Duration>,
    /// Share of the capacity in use: `rif` / capacity, without this request; 1 is all. Absent
    /// likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) in_use: Option<f64>,
    /// Number of replicas that were considered before this one.
    pub(super) number: u32,
    /// The values of the comparison's factors, by key. Unknown values are absent.
    #[cfg_attr(
        feature = "schema",
        schemars(with = "std::collections::BTreeMap<String, f64>")
    )]
    pub(super) factors: Figures,
    /// Whether this request avoided the replica; absent if not.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub(super) avoided: bool,
}

/// How replicas were compared; in JSON, the name of the comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Compared(pub(super) &'static Comparison);

impl Serialize for Compared {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name)
    }
}

/// A probe report as it was used.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "DecisionReport"))]
pub(super) struct Report {
    /// Requests in flight as reported, plus those that this worker has sent there since.
    pub(super) rif: u32,
    /// Expected latency in microseconds; absent if unknown.
    #[serde(
        rename = "latency_us",
        skip_serializing_if = "Option::is_none",
        serialize_with = "micros_or_none"
    )]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) latency: Option<Duration>,
    /// Age of the report in microseconds.
    #[serde(rename = "age_us", serialize_with = "micros")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub(super) age: Duration,
    /// Remaining uses of the report, including this one; absent if uses are not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uses_left: Option<u32>,
    /// Whether the RIF had reached the limit.
    pub(super) hot: bool,
    /// Whether this is the worker's own count, because the replica answers no probes; absent if
    /// not.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub(super) local: bool,
}

impl Decision {
    pub(super) fn of(record: &RequestRecord, kept: Kept) -> Self {
        let directory = record.directory.as_deref();
        let text = |value: &[u8]| shortened(&String::from_utf8_lossy(value));
        let attempt_records = record.attempt_records.iter().enumerate();
        Self {
            id: text(record.id().as_bytes()),
            trace_id: (record.traced.as_ref()).map(|traced| traced.trace().to_string()),
            time: record.at,
            kept,
            service: record.service.as_deref().map(str::to_owned),
            policy: directory.map(Directory::policy),
            client: record.client.to_string(),
            method: shortened(record.method.as_str()),
            host: record.described().host().map(text),
            path: text(record.described().path()),
            status: record.status.map_or(0, |status| status.as_u16()),
            grpc_status: record.grpc_status.map(GrpcStatus::code),
            error: (record.error.as_ref()).map(|error| text(error.as_bytes())),
            end: record.ended().as_str(),
            failed: record.failed(),
            first_byte: record.first_byte,
            total: record.total(),
            attempts: attempt_records
                .map(|(place, attempt)| Tried::of(attempt, record.is_answered_by(place), directory))
                .collect(),
        }
    }

    /// Time from the request head to the response head or, without one, to the end.
    pub(super) fn waited(&self) -> Duration {
        self.first_byte.unwrap_or(self.total)
    }

    /// Approximate memory use.
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
        // Found by its id: several parts of a replica share its name.
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
            key: explained
                .and_then(Explanation::key)
                .map(|choice| KeySet::of(choice, directory)),
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
            + self.key.as_ref().map_or(0, KeySet::bytes)
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

/// Converts a draw to a number from 0 to 1, excluding 1. It uses the highest 53 bits, the precision
/// of a floating-point number.
fn fraction(draw: u64) -> f64 {
    (draw >> 11) as f64 / (1_u64 << 53) as f64
}

/// Rounded to three decimal places.
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

/// Cuts text that is too long, and marks the cut.
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
