//! What whoever asks for decisions is told.

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

/// So much is put together at once, or as much as the largest record takes besides.
const PIECE_BYTES: usize = 64 << 10;

/// What is told, in pieces.
#[expect(
    missing_debug_implementations,
    reason = "an iterator says nothing of itself"
)]
pub struct DecisionText {
    /// The content type.
    pub content_type: &'static str,
    /// The text, piece by piece.
    pub pieces: Box<dyn Iterator<Item = Bytes> + Send>,
}

// As it is described for programs; `json` writes it record by record, and a test compares the two.
/// The answer in JSON.
#[cfg(any(test, feature = "schema"))]
#[derive(Debug, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Decisions"))]
pub struct Found<'a> {
    /// How many are in memory.
    pub(super) kept: usize,
    /// How many of them are what was asked for.
    pub(super) matching: usize,
    /// How replicas were compared, by the names that attempts have: those of the decisions here.
    pub(super) comparisons: BTreeMap<&'static str, ComparisonFacts>,
    /// Of these the newest, newest first.
    pub(super) decisions: Vec<&'a Decision>,
}

/// The answer to `query`, from all of `archives`. It is written while it is read: it may be large.
///
/// # Errors
///
/// What cannot be asked, in words.
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

/// An object: how many decisions are in memory, how many of them are what was asked for, and the
/// newest of these on a line each, newest first.
fn json(
    kept: usize,
    matching: usize,
    found: Vec<Arc<Decision>>,
) -> impl Iterator<Item = String> + Send {
    // Only a map with keys that are no texts could not be written, and there is none.
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

/// How replicas were compared in these decisions, each way once.
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
