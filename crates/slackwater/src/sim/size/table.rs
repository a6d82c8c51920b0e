//! The answer of `slackwater sim size` as a table.

use super::super::summary::counted;
use super::slo::{Reached, Slo};
use super::{Question, Sizing, is_enough};
use core::fmt::Write;
use core::time::Duration;
use slackwater_sim::Measured;
use slackwater_sim::report::with_thousands;
use slackwater_sim::scenario::Load;

/// The table, below a line with the question.
pub(super) fn text(question: &Question, sizings: &[Sizing], most: usize) -> String {
    let mut text = String::new();
    let Load { rate, clients, .. } = &question.scenario.load;
    let slos: Vec<_> = question.slos.iter().map(ToString::to_string).collect();
    let seeds = question.effort.seeds;
    let each = if seeds.count() > 1 {
        "on each of "
    } else {
        "with "
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "Replicas needed at {} queries/s from {} for {}, {each}{seeds}; worst seed shown\n",
        with_thousands(&format!("{rate:.1}")),
        counted(clients.len(), "client"),
        slos.join(" and "),
    );
    let mut head = vec!["policy".to_owned(), "replicas".to_owned()];
    head.extend(question.slos.iter().map(|slo| slo.name()));
    head.push("with one less".to_owned());
    let rows = sizings.iter().map(|sizing| row(question, sizing, most));
    let rows: Vec<_> = core::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in &rows {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, &width) in row.iter().zip(&widths).skip(1) {
            let _ = write!(line, "  {cell:>width$}");
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let none: Vec<_> = sizings
        .iter()
        .filter(|sizing| sizing.search.answer().is_none())
        .map(|sizing| sizing.policy.name.as_str())
        .collect();
    let mut remarks: Vec<_> = sizings
        .iter()
        .filter_map(|sizing| luck(question, sizing))
        .collect();
    if !none.is_empty() {
        remarks.push(format!(
            "no number up to {most} is enough under {}",
            none.join(", ")
        ));
    }
    if !remarks.is_empty() {
        let _ = writeln!(text, "\n{}", remarks.join("\n"));
    }
    text
}

/// A remark that a smaller number would have been enough if a larger one had not failed.
fn luck(question: &Question, sizing: &Sizing) -> Option<String> {
    let name = &sizing.policy.name;
    let answer = sizing.search.answer()?;
    let lucky = sizing
        .tried
        .range(..answer)
        .filter(|(_, runs)| is_enough(runs, &question.slos));
    let lucky: Vec<_> = lucky.map(|(replicas, _)| replicas.to_string()).collect();
    (!lucky.is_empty()).then(|| {
        format!(
            "{name}: {} would be enough, but a larger number below {answer} was not: luck, or a tail that does not get better \
             with each replica",
            lucky.join(", ")
        )
    })
}

fn row(question: &Question, sizing: &Sizing, most: usize) -> Vec<String> {
    let mut row = vec![sizing.policy.name.clone()];
    let Some(replicas) = sizing.search.answer() else {
        row.push(format!("> {most}"));
        let last = sizing.tried.get(&most).map(Vec::as_slice);
        row.extend(worst_of(&question.slos, last));
        row.push("-".to_owned());
        return row;
    };
    row.push(replicas.to_string());
    row.extend(worst_of(
        &question.slos,
        sizing.tried.get(&replicas).map(Vec::as_slice),
    ));
    let less = replicas
        .checked_sub(1)
        .and_then(|less| sizing.tried.get(&less));
    row.push(worst_of(&question.slos, less.map(Vec::as_slice)).join(", "));
    row
}

/// The result of each objective on its worst seed.
fn worst_of(slos: &[Slo], runs: Option<&[Measured]>) -> Vec<String> {
    let worst = |slo: &Slo| {
        let reached = runs.unwrap_or_default().iter().map(|run| slo.reached(run));
        reached
            .reduce(worse)
            .map_or("-".to_owned(), |reached| reached.to_string())
    };
    slos.iter().map(worst).collect()
}

/// The worse of two results; `Never` is worse than any latency.
fn worse(one: Reached, other: Reached) -> Reached {
    if one >= other { one } else { other }
}

/// The effort that it took.
pub(super) fn effort(sizings: &[Sizing], elapsed: Duration) -> String {
    let runs = || {
        sizings
            .iter()
            .flat_map(|sizing| sizing.tried.values().flatten())
    };
    super::super::effort::summary(runs(), elapsed)
}
