//! The response to a query for decisions.

use super::archive::Archive;
use super::decision::{Compared, Decision};
use super::sentences::describe;
use super::wanted::{Form, Wanted};
use bytes::Bytes;
use core::cmp::Reverse;
use core::iter::{from_fn, once};
use slackwater_telemetry::comparison::ComparisonFacts;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Size of a piece; a piece may exceed it by one record.
const PIECE_BYTES: usize = 64 << 10;

/// The response text, in pieces.
#[expect(
    missing_debug_implementations,
    reason = "an iterator has no useful debug output"
)]
pub struct DecisionText {
    /// The content type.
    pub content_type: &'static str,
    /// The text, piece by piece.
    pub pieces: Box<dyn Iterator<Item = Bytes> + Send>,
}

// The schema for programs. `json` writes the same record by record, and a test compares the two.
/// The answer in JSON.
#[cfg(any(test, feature = "schema"))]
#[derive(Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Decisions"))]
pub struct Found<'a> {
    /// Number of decisions in memory.
    pub(super) kept: usize,
    /// Number of these that match the query.
    pub(super) matching: usize,
    /// How replicas were compared, for the decisions in this response, by the names that attempts
    /// refer to.
    pub(super) comparisons: BTreeMap<&'static str, ComparisonFacts>,
    /// The newest matching decisions, newest first.
    pub(super) decisions: Vec<&'a Decision>,
}

/// Answers `query` from all of `archives`. The text is produced while it is read, because it may be
/// large.
///
/// # Errors
///
/// Returns a message if the query is invalid.
pub fn answer(
    archives: &[Arc<Archive>],
    query: &[(String, String)],
) -> Result<DecisionText, String> {
    let wanted = Wanted::read(query)?;
    let all: Vec<_> = archives.iter().flat_map(|it| it.decisions()).collect();
    let kept = all.len();
    let mut found: Vec<_> = all.into_iter().filter(|it| wanted.takes(it)).collect();
    let matching = found.len();
    found.sort_by_cached_key(|decision| Reverse(decision.time));
    found.truncate(wanted.limit);
    Ok(match wanted.form {
        Form::Text => DecisionText {
            content_type: "text/plain; charset=utf-8",
            pieces: gathered(sentences(instead(archives.is_empty(), kept, query), found)),
        },
        Form::Json => DecisionText {
            content_type: "application/json",
            pieces: gathered(json(kept, matching, found)),
        },
    })
}

/// A JSON object: the number of decisions in memory, the number that match, and the newest of
/// these, one per line, newest first.
fn json(
    kept: usize,
    matching: usize,
    found: Vec<Arc<Decision>>,
) -> impl Iterator<Item = String> + Send {
    // Serialization fails only for maps whose keys are not strings, and there are none here.
    let comparisons = comparisons(&found);
    let comparisons = serde_json::to_string(&comparisons).unwrap_or_else(|_| "{}".to_owned());
    let head = format!(
        "{{\"kept\": {kept}, \"matching\": {matching}, \"comparisons\": {comparisons}, \
         \"decisions\": ["
    );
    let mut comma = "";
    let lines = found.into_iter().map(move |decision| {
        let object = serde_json::to_string(&*decision).unwrap_or_else(|_| "null".to_owned());
        format!("{}\n{object}", core::mem::replace(&mut comma, ","))
    });
    once(head).chain(lines).chain(once("\n]}\n".to_owned()))
}

/// The comparisons that these decisions used, each once.
pub(super) fn comparisons(found: &[Arc<Decision>]) -> BTreeMap<&'static str, ComparisonFacts> {
    let attempts = found.iter().flat_map(|decision| &decision.attempts);
    let used: BTreeMap<_, _> = attempts
        .filter_map(|attempt| attempt.comparison)
        .map(|Compared(comparison)| (comparison.name, comparison))
        .collect();
    let told = used.into_iter();
    told.map(|(name, comparison)| (name, comparison.into()))
        .collect()
}

/// What is answered where no decision matches: why, and what to do.
fn instead(is_off: bool, kept: usize, query: &[(String, String)]) -> String {
    if is_off {
        return "no decisions are kept: see [decisions] in the configuration\n".to_owned();
    }
    if kept == 0 {
        let selects = "[decisions] in the configuration selects the requests";
        return format!("no decision is recorded yet: {selects}\n");
    }
    let filters = query
        .iter()
        .filter(|(name, _)| !["limit", "format"].contains(&&**name));
    let filters = filters.map(|(name, value)| format!("{name}={}", value.escape_debug()));
    let filters = filters.collect::<Vec<_>>().join(", ");
    let are = if kept == 1 { "is" } else { "are" };
    format!(
        "no recorded decision matches {filters}: {kept} {are} kept; use fewer filters, or make \
         [decisions] in the configuration keep more\n"
    )
}

fn sentences(instead: String, found: Vec<Arc<Decision>>) -> impl Iterator<Item = String> + Send {
    let instead = found.is_empty().then_some(instead);
    let mut gap = "";
    let told = found.into_iter().map(move |decision| {
        format!(
            "{}{}",
            core::mem::replace(&mut gap, "\n"),
            describe(&decision)
        )
    });
    instead.into_iter().chain(told)
}

fn gathered(
    mut texts: impl Iterator<Item = String> + Send + 'static,
) -> Box<dyn Iterator<Item = Bytes> + Send> {
    Box::new(from_fn(move || {
        let mut piece = String::new();
        while piece.len() < PIECE_BYTES
            && let Some(text) = texts.next()
        {
            piece.push_str(&text);
        }
        (!piece.is_empty()).then(|| piece.into())
    }))
}
