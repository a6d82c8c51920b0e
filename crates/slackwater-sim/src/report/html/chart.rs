//! A chart in a page: its title, the picture, and its numbers as a table that opens.
//!
//! The table has every point of the chart, with intervals and marks, for readers who cannot see the
//! picture or want to check it.

use super::table;
use crate::figure::{Bars, Chart, Line, Plot, Table};
use crate::number::{NONE, significant};
use crate::report::markup::Markup;
use crate::report::svg::{self, Styles};

/// Writes title, picture and numbers. `id` is unique in the page.
pub(super) fn figure(markup: &mut Markup, chart: &Chart, id: &str, styles: &Styles) {
    let heading = format!("{id}-heading");
    markup.element("figure", &[], |markup| {
        markup.element("figcaption", &[], |markup| {
            markup.line("h3", &[("id", &heading)], &chart.title);
        });
        markup.element(
            "div",
            &[
                ("class", &"picture"),
                ("role", &"region"),
                ("tabindex", &0),
                ("aria-labelledby", &heading),
            ],
            |markup| svg::within_page(markup, chart, id, styles),
        );
        markup.element("details", &[], |markup| {
            markup.line("summary", &[], "Numbers");
            table::scrolled(markup, &numbers(chart), &heading, 1);
        });
    });
}

/// Returns the numbers of a chart as a table.
fn numbers(chart: &Chart) -> Table {
    let (columns, rows) = match &chart.plot {
        Plot::Lines(lines) => of_lines(lines),
        Plot::Steps { steps, lines } => of_steps(steps, lines),
        Plot::Bars { groups, series, .. } => of_bars(groups, series),
        Plot::Heat {
            columns,
            rows,
            cells,
        } => of_heat(columns, rows, cells),
    };
    let corner = match &chart.plot {
        Plot::Heat { .. } => format!("{} from", chart.y.label),
        _ => chart.x.label.clone(),
    };
    Table {
        title: chart.title.clone(),
        columns: [corner].into_iter().chain(columns).collect(),
        rows,
    }
}

type ColumnsAndRows = (Vec<String>, Vec<Vec<String>>);

fn of_lines(lines: &[Line]) -> ColumnsAndRows {
    let mut places: Vec<f64> = lines
        .iter()
        .flat_map(|line| &line.points)
        .map(|&(x, _)| x)
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup_by(|a, b| a.total_cmp(b).is_eq());
    let row = |&x: &f64| {
        let cells = lines.iter().map(|line| {
            let index = line
                .points
                .iter()
                .position(|&(other, _)| other.total_cmp(&x).is_eq());
            index.map_or_else(|| NONE.to_owned(), |index| point(line, index))
        });
        [significant(x)].into_iter().chain(cells).collect()
    };
    (names_of(lines), places.iter().map(row).collect())
}

fn of_steps(steps: &[String], lines: &[Line]) -> ColumnsAndRows {
    let row = |(step, name): (usize, &String)| {
        let cells = lines.iter().map(|line| {
            let index = line
                .points
                .iter()
                .position(|&(x, _)| (x - step as f64).abs() < 0.5);
            index.map_or_else(|| NONE.to_owned(), |index| point(line, index))
        });
        [name.clone()].into_iter().chain(cells).collect()
    };
    (names_of(lines), steps.iter().enumerate().map(row).collect())
}

fn names_of(lines: &[Line]) -> Vec<String> {
    lines.iter().map(|line| line.name.clone()).collect()
}

/// Formats a value, with the ends of its interval if it has one.
fn point(line: &Line, index: usize) -> String {
    let value = significant(line.points[index].1);
    match line.interval_at(index) {
        Some((low, high)) => format!("{value} [{}, {}]", significant(low), significant(high)),
        None => value,
    }
}

fn of_bars(groups: &[String], series: &[Bars]) -> ColumnsAndRows {
    let columns = series.iter().map(|bars| bars.name.clone()).collect();
    let row = |(group, name): (usize, &String)| {
        let cells = series.iter().map(|bars| {
            let value = bars
                .values
                .get(group)
                .map_or_else(|| NONE.to_owned(), |&value| significant(value));
            match bars.marks.get(group).and_then(Option::as_ref) {
                Some(mark) => format!("{value} ({mark})"),
                None => value,
            }
        });
        [name.clone()].into_iter().chain(cells).collect()
    };
    (columns, groups.iter().enumerate().map(row).collect())
}

/// Returns shares in percent, the highest row first, as in the picture.
fn of_heat(columns: &[String], rows: &[f64], cells: &[Vec<f64>]) -> ColumnsAndRows {
    let row = |(from, shares): (&f64, &Vec<f64>)| {
        let cells = (0..columns.len()).map(|column| {
            let share = shares.get(column);
            share.map_or_else(
                || NONE.to_owned(),
                |&share| format!("{} %", significant(share * 100.0)),
            )
        });
        [significant(*from)].into_iter().chain(cells).collect()
    };
    (
        columns.to_vec(),
        rows.iter().zip(cells).rev().map(row).collect(),
    )
}
