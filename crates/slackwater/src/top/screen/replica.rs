//! One replica: its state, and its last minutes.

use super::super::app::App;
use super::super::message::{Attempt, Decision, History};
use super::super::model::Row;
use super::super::words::{
    UNKNOWN, about_if_any, age, carries, cost, full, latency, latency_if_any, percent, rate,
};
use super::bar;
use super::canvas::Canvas;
use super::charts::{SPAN_MS, stand};
use super::fleet::state;
use crate::terminal::line::{Ink, Line};
use crate::terminal::words;
use core::fmt::Write as _;

/// The label before its states.
const STATE: &str = " state: ";
/// Rows of the shortest chart, including its head.
const ROWS_MIN: usize = 3;

/// Draws the page.
pub(super) fn draw(app: &App, canvas: &mut Canvas<'_>) {
    let chosen = app.selected;
    let row = chosen.and_then(|index| app.model().row(app.service, index));
    let Some(row) = row else {
        return;
    };
    canvas.line(&Line::default());
    facts(app, &row, canvas);
    canvas.line(&Line::default());
    match app.replica_history() {
        None => {
            canvas.line(&Line::default().with(Ink::Faint, " asking for its last minutes"));
        }
        Some(Err(why)) => {
            let text = format!(" its last minutes could not be had: {why}");
            canvas.line(&Line::default().with(Ink::Alarm, text));
        }
        Some(Ok(history)) => {
            decisions(app, row.name, canvas);
            let columns = canvas.width();
            canvas.line(&states(app, history, columns));
            charts(history, row.has_reports, canvas);
        }
    }
}

fn facts(app: &App, row: &Row<'_>, canvas: &mut Canvas<'_>) {
    let (ink, mut state) = state(row);
    if let Some(ms) = row.state_age_ms {
        state = format!("{state} for {}", age(ms));
    }
    if !row.why.is_empty() {
        state = format!("{state}: {}", row.why);
    }
    let mut line = Line::default()
        .with(Ink::Strong, format!(" {}", row.name))
        .with(ink, format!("  {state}"));
    if row.is_hot == Some(true) {
        line = line.with(Ink::Second, "  hot");
    }
    if row.address != row.name {
        line = line.with(Ink::Plain, format!("  at {}", row.address));
    }
    let mut more = vec![format!("weight {}", row.weight)];
    if row.tier > 0 {
        more.push(format!("tier {}", row.tier));
    }
    if let Some(share) = row.share.filter(|share| *share < 1_000) {
        more.push(format!(
            "gets {} of its part",
            percent(share as f64 / 1_000.0)
        ));
    }
    canvas.line(&line.with(Ink::Faint, format!("  {}", more.join(", "))));
    let reported = match (row.rif, row.report_age_ms) {
        _ if !row.has_reports => " its policy goes by what is seen from here".to_owned(),
        (Some(rif), Some(ms)) => format!(
            " reported {} ago: RIF {}{}, latency {}",
            age(ms),
            words::count(rif),
            app.model()
                .rif_limit(app.service)
                .map_or(String::new(), |limit| format!(" (hot from {limit} on)")),
            latency_if_any(row.latency_us),
        ),
        _ => " has reported nothing".to_owned(),
    };
    canvas.line(&Line::default().with(Ink::Plain, reported));
    if let Some(room) = room(row) {
        canvas.line(&Line::default().with(Ink::Plain, room));
    }
    let seen = format!(
        " seen from here: {} in flight; p50 {}, p99 {}",
        words::count(row.in_flight),
        about_if_any(row.p50_us),
        about_if_any(row.p99_us),
    );
    canvas.line(&Line::default().with(Ink::Plain, seen));
    let sent = format!(
        " sent to it: {} requests/s, {} of all; {} of them fail",
        rate(row.rate),
        percent(row.load),
        rate(row.failing),
    );
    canvas.line(&Line::default().with(Ink::Plain, sent));
}

/// Its capacity, utilization and cost of a request, as far as it reports them.
fn room(row: &Row<'_>) -> Option<String> {
    let capacity = row.capacity_millirif.map(|millirif| {
        let full = row.full().map_or(UNKNOWN.to_owned(), full);
        format!("can carry {}: {full} full", carries(millirif))
    });
    let cost = row
        .cost_us
        .map(|us| format!("spends {} on a request", cost(us)));
    let said: Vec<_> = [capacity, cost].into_iter().flatten().collect();
    (!said.is_empty()).then(|| format!(" says that it {}", said.join(", ")))
}

/// Draws the last requests that were sent to it and whose decisions were kept, in at most a third
/// of the free rows.
fn decisions(app: &App, name: &str, canvas: &mut Canvas<'_>) {
    let decisions = app.replica_decisions();
    let room = canvas.height() / 3;
    if decisions.is_empty() || room < 2 {
        return;
    }
    let shown = decisions.len().min(room - 1);
    let mut foot = canvas.foot(shown + 1);
    let head = " the last requests that were kept, and why they came here";
    foot.line(&Line::default().with(Ink::Strong, head));
    for decision in &decisions[..shown] {
        let mut attempts = decision.attempts.iter();
        let attempt = attempts.find(|attempt| attempt.replica == name);
        let is_bad = decision.failed || attempt.is_some_and(|attempt| !attempt.answered);
        let ink = if is_bad { Ink::Alarm } else { Ink::Plain };
        let end = format!(
            " {:<12}  {} in {}",
            time(decision),
            decision.status,
            latency(decision.total_us)
        );
        let why = attempt.map_or_else(String::new, why);
        let line = Line::default().with(ink, end).padded_to(32);
        foot.line(&line.with(Ink::Plain, why));
    }
}

/// The time of day in an RFC 3339 time.
fn time(decision: &Decision) -> &str {
    decision.time.get(11..23).unwrap_or(UNKNOWN)
}

/// The reason of the pick, the values behind it, and the attempt's result if it is unusual.
fn why(attempt: &Attempt) -> String {
    let mut text = attempt.reason.replace('_', " ");
    if attempt.kind != "first" {
        text = format!("{}, {text}", attempt.kind);
    }
    if let Some(chosen) = &attempt.chosen {
        let limit = attempt
            .rif_limit
            .map_or(String::new(), |limit| format!(" of {limit}"));
        let rif = chosen.rif.map_or(UNKNOWN.to_owned(), words::count);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            ": RIF {rif}{limit}, {}",
            latency_if_any(chosen.latency_us)
        );
        if let Some(age_us) = chosen.age_us {
            let _ = write!(text, ", {} old", age(age_us / 1_000));
        }
    }
    if let Some(second) = &attempt.runner_up {
        let figures = latency_if_any(second.latency_us);
        let _ = write!(text, "; next {} {figures}", second.replica);
    }
    match attempt.outcome.as_deref() {
        None | Some("success") => {}
        Some(outcome) => {
            let _ = write!(text, "; {}", outcome.replace('_', " "));
        }
    }
    text
}

/// For how long it has been in its state, and its previous states: as many as fit into `columns`.
fn states(app: &App, history: &History, columns: usize) -> Line {
    // Each state with its length. A sample stands for the interval that it ends.
    let mut stretches: Vec<(u8, u64)> = Vec::new();
    let mut before = None;
    for (state, at_ms) in history.state.iter().zip(&history.at_ms) {
        let interval = app.model().fleet().interval_ms;
        let length = before.map_or(interval, |before| at_ms.saturating_sub(before));
        before = Some(*at_ms);
        match stretches.last_mut() {
            Some((last, sum)) if last == state => *sum = sum.saturating_add(length),
            _ => stretches.push((*state, length)),
        }
    }
    let mut text = String::new();
    for (state, length) in stretches.iter().rev() {
        let separator = if text.is_empty() {
            ""
        } else {
            ", before that "
        };
        let name = app.model().state_name(*state);
        let part = format!("{separator}{name} for {}", age(*length));
        if text.chars().count() + part.chars().count() + STATE.len() > columns {
            break;
        }
        text.push_str(&part);
    }
    if text.is_empty() {
        UNKNOWN.clone_into(&mut text);
    }
    Line::default()
        .with(Ink::Faint, STATE)
        .with(Ink::Plain, text)
}

/// A chart's title, its values, their format, and its ink.
type Chart = (&'static str, Vec<u64>, fn(u64) -> String, Ink);

fn charts(history: &History, has_reports: bool, canvas: &mut Canvas<'_>) {
    let known = |column: &[Option<u64>]| -> Vec<u64> {
        column.iter().map(|value| value.unwrap_or(0)).collect()
    };
    let mut charts: Vec<Chart> = vec![
        (
            "requests in flight there, as it reports",
            known(&history.rif),
            words::count,
            Ink::First,
        ),
        (
            "latency, as it reports",
            known(&history.latency_us),
            latency,
            Ink::First,
        ),
        (
            "p99, as seen from here",
            known(&history.p99_us),
            latency,
            Ink::First,
        ),
        (
            "sent to it in an interval",
            history.sent.clone(),
            words::count,
            Ink::First,
        ),
        (
            "failed in an interval",
            history.failed.clone(),
            words::count,
            Ink::Alarm,
        ),
    ];
    if !has_reports {
        charts.drain(..2);
    }
    let shown = (canvas.height() / ROWS_MIN).clamp(1, charts.len());
    let rows = canvas.height() / shown;
    let width = canvas.width();
    for (name, values, figure, ink) in charts.into_iter().take(shown) {
        let points: Vec<(u64, u64)> = history.at_ms.iter().copied().zip(values).collect();
        let columns = bar::columns(&points, SPAN_MS, width.saturating_sub(2));
        let highest = columns.iter().copied().max().unwrap_or(0);
        let head = Line::default()
            .with(Ink::Strong, format!(" {name}"))
            .with(Ink::Faint, format!("  ≤ {}", figure(highest)));
        canvas.line(&head);
        stand(
            &[columns],
            highest,
            rows.saturating_sub(1),
            width,
            ink,
            canvas,
        );
    }
}
