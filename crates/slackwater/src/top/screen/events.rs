//! Events of the last interval: replicas by state, reasons of picks, results of probes, and the
//! rest (hedges, retries, queue). They are lines above a narrow fleet, or a column beside a wide
//! one, with the pool below.

use super::super::app::App;
use super::super::message::{Counts, ServiceTick, sum};
use super::super::model::is_well;
use super::super::words::{percent_of, plural};
use super::canvas::Canvas;
use super::{bar, pool};
use crate::terminal::line::{Ink, Line};
use crate::terminal::words;
use std::collections::BTreeMap;

/// Draws them as lines.
pub(super) fn lines(app: &App, canvas: &mut Canvas<'_>) {
    canvas.line(&states(app));
    let Some(tick) = app.model().service(app.service) else {
        return;
    };
    let mut line = Line::default();
    if let Some(limit) = tick.rif_limit {
        line = line
            .with(Ink::Faint, " limit ")
            .with(Ink::Strong, pool::limit_words(limit))
            .with(Ink::Plain, "  ");
    }
    let picks = by_count(&tick.picks);
    let all = sum(tick.picks.values());
    let mut parts: Vec<String> = picks
        .iter()
        .map(|(reason, count)| format!("{} {}", spaced(reason), percent_of(*count, all)))
        .collect();
    if tick.no_replica > 0 {
        parts.push(format!("no replica {}", words::count(tick.no_replica)));
    }
    if !parts.is_empty() {
        line = line
            .with(Ink::Faint, " picks ")
            .with(Ink::Plain, parts.join(", "));
    }
    if line.columns() > 0 {
        canvas.line(&line);
    }
    // Both are on one line if there is space.
    let mut line = Line::default();
    for (name, counts) in [(" probes ", probes(tick)), (" also ", admission(tick))] {
        if counts.is_empty() {
            continue;
        }
        let counts = counts.into_iter();
        let parts = counts.map(|(name, count)| format!("{} {name}", words::count(count)));
        let text = parts.collect::<Vec<_>>().join(", ");
        let columns = name.chars().count() + text.chars().count();
        if line.columns() > 0 && line.columns() + columns > canvas.width() {
            canvas.line(&core::mem::take(&mut line));
        }
        line = line
            .with(Ink::Faint, name)
            .with(Ink::Plain, text)
            .with(Ink::Plain, "  ");
    }
    if line.columns() > 0 {
        canvas.line(&line);
    }
}

/// Draws them as a column.
pub(super) fn beside(app: &App, canvas: &mut Canvas<'_>) {
    let width = canvas.width();
    let head = |text: &str| Line::default().with(Ink::Faint, format!("  {text}"));
    let Some(tick) = app.model().service(app.service) else {
        return;
    };
    if let Some(limit) = tick.rif_limit {
        canvas.line(&head("RIF limit: from here on a replica is hot"));
        let text = format!("  {}", pool::limit_words(limit));
        canvas.line(&Line::default().with(Ink::Strong, text));
        canvas.line(&Line::default());
    }
    let all = sum(tick.picks.values());
    if all > 0 {
        canvas.line(&head("why replicas were picked"));
        for (reason, count) in by_count(&tick.picks) {
            let bar_columns = width.saturating_sub(27);
            let line = Line::default().with(Ink::Plain, format!("  {}", spaced(reason)));
            let line = bar::marked(
                line.padded_to(16),
                count,
                all,
                None,
                bar_columns,
                Ink::First,
            );
            canvas.line(&line.ending_at(width - 1, Ink::Plain, percent_of(count, all)));
        }
        canvas.line(&Line::default());
    }
    for (title, counts) in [("probes", probes(tick)), ("also", admission(tick))] {
        if counts.is_empty() {
            continue;
        }
        canvas.line(&head(title));
        for (name, count) in counts {
            let line = Line::default().with(Ink::Plain, format!("  {name}"));
            canvas.line(&line.ending_at(width - 1, Ink::Plain, words::count(count)));
        }
        canvas.line(&Line::default());
    }
    pool::beside(app, canvas);
}

/// Number of replicas in each state, and of hot ones.
pub(super) fn states(app: &App) -> Line {
    let rows = app.model().rows(app.service);
    let mut counts: BTreeMap<(usize, &str), u64> = BTreeMap::new();
    let mut hot = 0_u64;
    for row in &rows {
        *counts.entry((row.state_rank, row.state)).or_default() += 1;
        hot += u64::from(row.is_hot == Some(true));
    }
    let all = words::count(rows.len() as u64);
    let noun = plural("replica", rows.len());
    let mut line = Line::default().with(Ink::Plain, format!(" {all} {noun}"));
    if hot > 0 {
        let text = format!(", {} hot", words::count(hot));
        line = line.with(Ink::Second, text);
    }
    let mut is_first = true;
    // The worst states first, because the end may be cut off.
    let known = counts.iter().filter(|((_, state), _)| !state.is_empty());
    for ((_, state), count) in known.rev() {
        let text = format!("{} {}", words::count(*count), state);
        let ink = if is_well(state) {
            Ink::Plain
        } else {
            Ink::Alarm
        };
        line = line
            .with(Ink::Plain, if is_first { ": " } else { ", " })
            .with(ink, text);
        is_first = false;
    }
    line
}

/// Sorted with the most frequent first.
fn by_count(counts: &Counts) -> Vec<(&str, u64)> {
    let mut sorted: Vec<(&str, u64)> = counts
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    sorted.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(right.0)));
    sorted
}

/// Results of probes, the most important first; all kinds of skipped probes are added up.
fn probes(tick: &ServiceTick) -> Vec<(String, u64)> {
    let skipped = tick.probes.iter();
    let skipped = skipped.filter(|(name, _)| name.starts_with("skipped"));
    let skipped = sum(skipped.map(|(_, count)| count));
    let known = [
        "sent",
        "answered",
        "lost",
        "answered_late",
        "unsent",
        "local",
        "idle",
    ];
    let counts = known.map(|name| {
        let count = tick.probes.get(name).copied().unwrap_or(0);
        let name = if name == "answered_late" {
            "late"
        } else {
            name
        };
        (name.to_owned(), count)
    });
    let all = counts.into_iter().chain([("skipped".to_owned(), skipped)]);
    all.filter(|(_, count)| *count > 0).collect()
}

/// Counts of hedges, ties, retries and the queue that are not 0.
fn admission(tick: &ServiceTick) -> Vec<(String, u64)> {
    let counts = by_count(&tick.admission);
    let mut counts: Vec<(String, u64)> = counts
        .into_iter()
        .map(|(name, count)| (spaced(name), count))
        .collect();
    counts.sort();
    counts
}

/// A name with blanks instead of underscores.
fn spaced(name: &str) -> String {
    name.replace('_', " ")
}
