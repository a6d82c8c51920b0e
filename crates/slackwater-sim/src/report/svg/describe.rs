//! Charts in words, for readers who cannot see them: the axes, and where each series begins and
//! ends.
//!
//! The text is in the picture itself as `<desc>`. The numbers are in the page, as a table.

use crate::figure::{Chart, Line, Plot};
use crate::number::significant;

/// Returns a chart in a few sentences.
pub(super) fn description(chart: &Chart) -> String {
    let what = match &chart.plot {
        Plot::Lines(lines) => of_lines(lines, |x| format!("at {}", significant(x))),
        Plot::Steps { steps, lines } => of_lines(lines, |x| {
            let name = steps.get(super::frame::whole(x));
            format!("at {}", name.map_or("", String::as_str))
        }),
        Plot::Bars { groups, series, .. } => {
            let names: Vec<&str> = series.iter().map(|bars| bars.name.as_str()).collect();
            format!(
                "Bars of {}, in groups: {}.",
                names.join(", "),
                groups.join(", ")
            )
        }
        Plot::Heat { columns, rows, .. } => {
            format!(
                "Shades of {} rows in {} columns: {}.",
                rows.len(),
                columns.len(),
                columns.join(", ")
            )
        }
    };
    let logarithmic = |log| if log { ", logarithmic" } else { "" };
    format!(
        "Vertical: {}{}. Horizontal: {}{}. {what}",
        chart.y.label,
        logarithmic(chart.y.log),
        chart.x.label,
        logarithmic(chart.x.log),
    )
}

fn of_lines(lines: &[Line], place: impl Fn(f64) -> String) -> String {
    let told = lines.iter().map(|line| {
        let ends = match line.points.as_slice() {
            [] => "no points".to_owned(),
            [(x, y)] => format!("{} {}", significant(*y), place(*x)),
            [(x, y), .., (last_x, last_y)] => {
                format!(
                    "from {} {} to {} {}",
                    significant(*y),
                    place(*x),
                    significant(*last_y),
                    place(*last_x)
                )
            }
        };
        format!("{}: {ends}", line.name)
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() {
        return "No lines.".to_owned();
    }
    format!("Lines of {}.", told.join("; "))
}
