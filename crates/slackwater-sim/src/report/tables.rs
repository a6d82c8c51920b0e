//! Plays as tables: cell by cell, and policy against policy. Pages and terminal show the same ones.

use super::quantity::{ERROR_PERCENT, LATENCIES, OTHERS, Quantity};
use crate::figure::{Played, Table};
use crate::interval::Estimate;
use crate::number;

/// Returns all quantities, one row for each cell.
pub(super) fn cells(played: &[Played]) -> Table {
    let mut columns = named(played);
    columns.push(Column::text("load", |played| {
        number::at_most(played.cell.load, 4).unwrap_or_default()
    }));
    columns.push(Column::text("queries/s", |played| {
        number::shown(played.all.rate(), 1)
    }));
    columns.extend(LATENCIES.map(Column::Quantity));
    columns.push(Column::Quantity(ERROR_PERCENT));
    columns.push(Column::text("errors/s", |played| {
        number::shown(played.all.errors_per_second(), 2)
    }));
    columns.extend(OTHERS.map(Column::Quantity));
    let intervals = if played.iter().any(|played| played.runs.len() > 1) {
        "mean over seeds ± half of the 95 % interval"
    } else {
        "one seed, no intervals"
    };
    table(format!("Every cell: {intervals}"), &columns, played)
}

/// Returns what fits a terminal: latencies and errors, one row for each cell.
pub(super) fn latencies(title: String, played: &[Played]) -> Table {
    let mut columns = named(played);
    columns.extend(LATENCIES.map(Column::Quantity));
    columns.push(Column::Quantity(ERROR_PERCENT));
    table(title, &columns, played)
}

/// Compares every policy with the first, seed by seed; `None` if there is none to compare with.
pub(super) fn against_first(played: &[Played]) -> Option<Table> {
    let (base, others) = played.split_first()?;
    if others.is_empty() {
        return None;
    }
    let columns = LATENCIES.iter().chain([&ERROR_PERCENT]);
    let columns = columns.map(|quantity| match quantity.name.split_once(' ') {
        Some(("errors", _)) => "errors, % points".to_owned(),
        Some((name, _)) => format!("{name}, times"),
        None => quantity.name.to_owned(),
    });
    let row = |played: &Played| {
        let ratios = LATENCIES.iter().map(|quantity| {
            let ratio = Estimate::ratio(&quantity.samples(played), &quantity.samples(base));
            with_ends(ratio, |value| number::shown(value, 3))
        });
        // Errors are compared as differences, because a ratio to zero errors does not exist.
        let errors =
            Estimate::difference(&ERROR_PERCENT.samples(played), &ERROR_PERCENT.samples(base));
        let errors = with_ends(errors, |value| number::shown(value, ERROR_PERCENT.decimals));
        let name = [played.cell.policy.name.clone()].into_iter();
        name.chain(ratios).chain([errors]).collect()
    };
    Some(Table {
        title: format!(
            "Against {}, seed by seed{}",
            base.cell.policy.name,
            if base.runs.len() > 1 {
                ": mean, and ends of the 95 % interval"
            } else {
                ""
            }
        ),
        columns: ["policy".to_owned()].into_iter().chain(columns).collect(),
        rows: others.iter().map(row).collect(),
    })
}

/// Returns which columns hold numbers. These are aligned at the right.
pub(super) fn numeric_columns(table: &Table) -> Vec<bool> {
    let numeric = |text: &str| {
        text.is_empty()
            || text == number::NONE
            || text
                .trim_start_matches('−')
                .starts_with(|c: char| c.is_ascii_digit())
    };
    let column = |index: usize| {
        let mut cells = table
            .rows
            .iter()
            .filter_map(|row| row.get(index))
            .peekable();
        cells.peek().is_some() && cells.all(|cell| numeric(cell))
    };
    (0..table.columns.len()).map(column).collect()
}

/// A column of a table of cells.
enum Column {
    Text(&'static str, fn(&Played) -> String),
    Quantity(Quantity),
}

impl Column {
    const fn text(name: &'static str, of: fn(&Played) -> String) -> Self {
        Self::Text(name, of)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Text(name, _) => name,
            Self::Quantity(quantity) => quantity.name,
        }
    }

    fn cell(&self, played: &Played) -> String {
        match self {
            Self::Text(_, of) => of(played),
            Self::Quantity(quantity) => quantity.shown(played),
        }
    }
}

/// Returns the columns that identify the cell, without steps or parameters if no cell has one.
fn named(played: &[Played]) -> Vec<Column> {
    let any = |of: fn(&Played) -> &String| played.iter().any(|played| !of(played).is_empty());
    let mut columns = Vec::new();
    if any(|played| &played.cell.step) {
        columns.push(Column::text("step", |played| played.cell.step.clone()));
    }
    columns.push(Column::text("policy", |played| {
        played.cell.policy.name.clone()
    }));
    if any(|played| &played.cell.param) {
        columns.push(Column::text("param", |played| played.cell.param.clone()));
    }
    columns
}

fn table(title: String, columns: &[Column], played: &[Played]) -> Table {
    Table {
        title,
        columns: columns
            .iter()
            .map(|column| column.name().to_owned())
            .collect(),
        rows: played
            .iter()
            .map(|played| columns.iter().map(|column| column.cell(played)).collect())
            .collect(),
    }
}

/// Returns `1.310 [1.280, 1.341]`.
fn with_ends(estimate: Option<Estimate>, shown: impl Fn(f64) -> String) -> String {
    let Some(estimate) = estimate else {
        return number::NONE.to_owned();
    };
    let value = shown(estimate.value);
    match estimate.interval {
        Some((low, high)) => format!("{value} [{}, {}]", shown(low), shown(high)),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example::{played, run};

    #[test]
    fn rows_have_intervals_only_with_several_seeds() {
        let several = played("1.03", 1.03, "prequal", vec![run(1, 1), run(1, 2)]);
        let table = latencies(
            "Title".into(),
            &[several, played("1.03", 1.03, "random", vec![run(1, 2)])],
        );
        assert_eq!(table.columns[..3], ["step", "policy", "p50 ms"]);
        // Two seeds, 1 ms apart: half the interval is t(1) · 0.5 ms.
        assert_eq!(table.rows[0][2], "1.5 ± 6.4");
        assert_eq!(table.rows[1][2], "2.0");
        assert_eq!(
            numeric_columns(&table),
            [true, false, true, true, true, true, true]
        );
    }

    #[test]
    fn parameter_column_appears_only_if_used() {
        let mut cell = played("1", 1.0, "prequal", vec![run(1, 80)]);
        assert!(
            !cells(core::slice::from_ref(&cell))
                .columns
                .contains(&"param".to_owned())
        );
        cell.cell.param = "q=0.9".to_owned();
        let table = cells(core::slice::from_ref(&cell));
        assert_eq!(
            (table.columns[2].as_str(), table.rows[0][2].as_str()),
            ("param", "q=0.9")
        );
    }

    #[test]
    fn policies_are_compared_with_the_first_paired_by_seed() {
        let base = played(
            "",
            1.0,
            "prequal",
            vec![run(1, 100), run(1, 200), run(1, 400)],
        );
        let mut twice = played(
            "",
            1.0,
            "random",
            vec![run(1, 200), run(1, 400), run(1, 800)],
        );
        twice.runs[0].errors += 3;
        twice.runs[1].errors += 3;
        twice.runs[2].errors += 3;
        let table = against_first(&[base.clone(), twice]).unwrap();
        assert_eq!(
            table.columns,
            [
                "policy",
                "p50, times",
                "p90, times",
                "p99, times",
                "p99.9, times",
                "errors, % points"
            ]
        );
        let ratio = &table.rows[0][1];
        assert!(
            ratio.starts_with("2.00") || ratio.starts_with("1.99"),
            "{ratio}"
        );
        assert_eq!(table.rows[0][5], "0.300 [0.300, 0.300]");
        assert!(against_first(&[base]).is_none());
        assert!(against_first(&[]).is_none());
    }
}
