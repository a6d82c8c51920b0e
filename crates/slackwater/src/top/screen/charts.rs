//! The last five minutes of a service as vertical bars. Each chart shows its highest value beside
//! its name.

use super::super::app::App;
use super::super::trend::{Point, Trend};
use super::super::words::{latency, percent};
use super::bar;
use super::canvas::Canvas;
use crate::terminal::line::{Ink, Line};
use crate::terminal::words;

/// The time span that the server keeps.
pub(super) const SPAN_MS: u64 = 300_000;

/// Columns left and right of the bars.
const MARGIN: usize = 1;

/// A chart: its name, the format of its figures, and their source.
struct Chart {
    name: &'static str,
    figure: fn(u64) -> String,
    value: fn(&Point) -> u64,
    ink: Ink,
}

/// Ordered by importance, because a small terminal shows only the first ones.
const CHARTS: [Chart; 5] = [
    Chart {
        name: "p99",
        figure: latency,
        value: |point| point.p99_us.unwrap_or(0),
        ink: Ink::First,
    },
    Chart {
        name: "requests/s",
        figure: words::count,
        value: |point| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rate is not negative, and a bar has a few blocks"
            )]
            let rate = point.rate as u64;
            rate
        },
        ink: Ink::First,
    },
    Chart {
        name: "errors",
        figure: |thousandths| percent(thousandths as f64 / 1_000.0),
        value: |point| point.failed_thousandths,
        ink: Ink::Alarm,
    },
    Chart {
        name: "p50",
        figure: latency,
        value: |point| point.p50_us.unwrap_or(0),
        ink: Ink::First,
    },
    Chart {
        name: "RIF limit",
        figure: words::count,
        value: |point| point.rif_limit.unwrap_or(0),
        ink: Ink::First,
    },
];

/// Rows of the shortest chart, including its head.
const ROWS_MIN: usize = 4;

/// Draws the page. In a demo both sides are next to each other, on one scale.
pub(super) fn draw(app: &App, canvas: &mut Canvas<'_>) {
    let sides: Vec<&Trend> = if app.has_sides() {
        let trends = (0..2).map(|side| app.model().trend(side));
        trends.flatten().collect()
    } else {
        app.model().trend(app.service).into_iter().collect()
    };
    let charts = (canvas.height() / ROWS_MIN).clamp(1, CHARTS.len());
    let rows = canvas.height() / charts;
    let width = canvas.width() / sides.len().max(1);
    let columns = width.saturating_sub(2 * MARGIN);
    for chart in &CHARTS[..charts] {
        let values: Vec<Vec<u64>> = sides
            .iter()
            .map(|trend| {
                let points: Vec<(u64, u64)> = trend
                    .points()
                    .map(|point| (point.at_ms, (chart.value)(point)))
                    .collect();
                bar::columns(&points, SPAN_MS, columns)
            })
            .collect();
        let highest = values.iter().flatten().copied().max().unwrap_or(0);
        let mut head = Line::default();
        for side in 0..sides.len() {
            let name = if app.has_sides() {
                format!(" {}, {}", chart.name, app.model().service_name(side))
            } else {
                format!(" {}", chart.name)
            };
            head = head
                .padded_to(side * width)
                .with(Ink::Strong, name)
                .with(Ink::Faint, format!("  ≤ {}", (chart.figure)(highest)));
        }
        canvas.line(&head);
        stand(
            &values,
            highest,
            rows.saturating_sub(1),
            width,
            chart.ink,
            canvas,
        );
    }
}

/// Draws vertical bars of several series next to each other, each in `width` columns.
pub(super) fn stand(
    series: &[Vec<u64>],
    highest: u64,
    rows: usize,
    width: usize,
    ink: Ink,
    canvas: &mut Canvas<'_>,
) {
    let blocks: Vec<Vec<String>> = series
        .iter()
        .map(|values| bar::rows(values, highest, rows))
        .collect();
    for row in 0..rows {
        let mut line = Line::default();
        for (side, blocks) in blocks.iter().enumerate() {
            let text = blocks.get(row).cloned().unwrap_or_default();
            line = line.padded_to(side * width + MARGIN).with(ink, text);
        }
        canvas.line(&line);
    }
}
