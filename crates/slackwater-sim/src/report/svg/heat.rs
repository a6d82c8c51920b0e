//! Shares of samples as shades: columns by name, rows by value.
//!
//! The shade grows with the square root of the share, so that the thin ends of a distribution are
//! visible beside its middle. The legend has the share of each shade.

use super::frame::{self, Area, Horizontal, WIDTH};
use super::scale::{Ends, Scale};
use crate::figure::Chart;
use crate::number::significant;
use crate::report::markup::Markup;

/// Shades in the legend.
const SHADES: u32 = 5;

/// Draws below `top` and returns where it ends.
pub(super) fn draw(
    markup: &mut Markup,
    top: f64,
    chart: &Chart,
    columns: &[String],
    rows: &[f64],
    cells: &[Vec<f64>],
) -> f64 {
    let shares = cells
        .iter()
        .flatten()
        .copied()
        .filter(|share| share.is_finite());
    let most = shares.fold(0.0, f64::max);
    let top = legend(markup, top, most);
    let top = frame::vertical_name(markup, top, &chart.y.label);
    let edges = edges(rows, chart.y.log);
    let y = Scale::new(edges.iter().copied(), chart.y.log, Ends::Exact, 6);
    let area = Area::below(top, &y, columns);
    let x = Horizontal::Names(columns);
    frame::vertical_axis(markup, &area, &y);
    let slot = x.slot(&area);
    if edges.is_empty() || most <= 0.0 {
        frame::no_data(markup, &area);
    }
    for (row, (edge, cells)) in edges.windows(2).zip(cells).enumerate() {
        let (bottom, top) = (area.y(&y, edge[0]), area.y(&y, edge[1]));
        for (column, (name, &share)) in columns.iter().zip(cells).enumerate() {
            let opacity = opacity(share, most);
            if opacity <= 0.0 {
                continue;
            }
            let left = area.left + column as f64 * slot;
            let says = format!(
                "{name}, from {}: {} %",
                significant(rows[row]),
                significant(share * 100.0)
            );
            shade(markup, (left, top), (left + slot, bottom), opacity, &says);
        }
    }
    x.draw(markup, &area, &chart.x.label)
}

/// Returns where rows begin, and where the last one ends; nothing unless they ascend and the axis
/// can show them.
fn edges(rows: &[f64], log: bool) -> Vec<f64> {
    let mut edges = rows.to_vec();
    match rows {
        [] => {}
        [only] => edges.push(only + 1.0),
        [.., before, last] if log => edges.push(last * last / before),
        [.., before, last] => edges.push(last + (last - before)),
    }
    let ascending = edges.windows(2).all(|pair| pair[0] < pair[1]);
    let in_range = edges
        .iter()
        .all(|edge| edge.abs() < 1e12 && (!log || *edge > 1e-12));
    if ascending && in_range {
        edges
    } else {
        Vec::new()
    }
}

/// Returns an opacity from 0 to 1, in steps of a hundredth.
fn opacity(share: f64, most: f64) -> f64 {
    if share > 0.0 && share.is_finite() {
        ((share / most).sqrt() * 100.0).round() / 100.0
    } else {
        0.0
    }
}

fn legend(markup: &mut Markup, top: f64, most: f64) -> f64 {
    let label = "share of samples:";
    frame::text(markup, "", "start", (0.0, top + 12.0), label);
    let mut x = frame::text_width(label, frame::SIZE) + 8.0;
    for step in 1..=SHADES {
        let part = f64::from(step) / f64::from(SHADES);
        let text = format!("{} %", significant(most * part * part * 100.0));
        shade(markup, (x, top + 2.0), (x + 22.0, top + 14.0), part, "");
        frame::text(markup, "name", "start", (x + 27.0, top + 12.0), &text);
        x = (x + 27.0 + frame::text_width(&text, frame::SIZE) + 14.0).min(WIDTH);
    }
    top + 24.0
}

fn shade(markup: &mut Markup, from: (f64, f64), to: (f64, f64), opacity: f64, says: &str) {
    markup.element("g", &[("fill-opacity", &opacity)], |markup| {
        frame::rectangle(markup, "heat", from, to, says);
    });
}
