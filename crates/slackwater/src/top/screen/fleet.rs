//! The fleet as a table: a row for each replica, and as many columns as fit.

use super::super::app::App;
use super::super::model::Row;
use super::super::rows::{Column, Order};
use super::super::words::{UNKNOWN, age, cut, full, latency_if_any, percent, rate};
use super::bar;
use super::canvas::Canvas;
use crate::terminal::line::{Ink, Line};
use crate::terminal::words;
use ratatui::layout::Rect;

/// Smallest and largest width of a replica's name.
const NAME_COLUMNS: core::ops::RangeInclusive<usize> = 14..=40;
/// Smallest and largest width of a bar of requests in flight.
const BAR_COLUMNS: core::ops::RangeInclusive<usize> = 6..=32;
/// Width of a bar of the load.
const LOAD_BAR_COLUMNS: usize = 8;

/// The order in which columns are left out if there is little space.
const LEFT_OUT: [Column; 10] = [
    Column::Fleet,
    Column::Age,
    Column::InFlight,
    Column::Failing,
    Column::Load,
    Column::Rate,
    Column::State,
    Column::P99,
    Column::Full,
    Column::Latency,
];

/// The columns, and their widths.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    columns: Vec<Column>,
    name: usize,
    bar: usize,
    /// Width of the load bar; 0: none.
    load_bar: usize,
}

impl Layout {
    /// Creates a layout for `width` columns of the terminal.
    fn new(width: usize, longest_name: usize, columns: Vec<Column>) -> Self {
        let mut layout = Self {
            columns,
            name: *NAME_COLUMNS.start(),
            bar: *BAR_COLUMNS.start(),
            load_bar: 0,
        };
        let mut left_out = LEFT_OUT.iter();
        while layout.width() > width
            && let Some(column) = left_out.next()
        {
            layout.columns.retain(|kept| kept != column);
        }
        let mut spare = width.saturating_sub(layout.width());
        let mut grow = |columns: &mut usize, most: usize| {
            let more = most.saturating_sub(*columns).min(spare);
            *columns += more;
            spare -= more;
        };
        grow(&mut layout.name, longest_name.min(*NAME_COLUMNS.end()));
        grow(&mut layout.bar, 16);
        let has_load = layout.columns.contains(&Column::Load);
        if has_load && spare > LOAD_BAR_COLUMNS {
            layout.load_bar = LOAD_BAR_COLUMNS;
            spare -= LOAD_BAR_COLUMNS + 1;
        }
        layout.bar += spare.min(BAR_COLUMNS.end() - layout.bar);
        layout
    }

    /// The width of one column, without the blank before it.
    fn width_of(&self, column: Column) -> usize {
        match column {
            Column::Fleet => 4,
            Column::InFlight => 5,
            Column::Name => self.name,
            Column::State => 12,
            Column::Rif => 4 + 1 + self.bar,
            Column::Latency | Column::P99 => 8,
            Column::Load if self.load_bar > 0 => 6 + 1 + self.load_bar,
            Column::Age | Column::Rate | Column::Load => 6,
            Column::Failing | Column::Full => 7,
        }
    }

    fn width(&self) -> usize {
        let columns = self.columns.iter();
        columns.map(|column| self.width_of(*column) + 1).sum()
    }
}

/// Draws the table, with as many rows as fit.
pub(super) fn draw(app: &mut App, canvas: &mut Canvas<'_>) {
    let longest = app.rows().iter().map(|row| row.name.chars().count()).max();
    let columns = Column::of(app.model(), app.service);
    let layout = Layout::new(canvas.width(), longest.unwrap_or(0), columns);
    let is_sort_seen = layout.columns.contains(&app.order.by) || app.order == Order::default();
    filter_line(app, canvas, is_sort_seen);
    let head = canvas.line(&heads(app, &layout));
    app.hits.heads = places(&layout, head);
    app.hits.list = canvas.area();
    let indices: Vec<usize> = app.rows().iter().map(|row| row.index).collect();
    app.scroll(&indices, canvas.height());
    let scale = Scale::new(app);
    let rows = app.rows();
    if rows.is_empty() && !app.filter.is_empty() {
        canvas.line(&Line::default().with(Ink::Faint, " no replica matches"));
    }
    for row in rows.iter().skip(app.top).take(canvas.height()) {
        let line = line(row, &layout, &scale);
        if app.selected == Some(row.index) {
            canvas.chosen_line(&line);
        } else {
            canvas.line(&line);
        }
    }
}

/// Draws the filter, and the sort order if its column is not visible.
pub(super) fn filter_line(app: &App, canvas: &mut Canvas<'_>, is_sort_seen: bool) {
    let is_filtered = app.is_filter_written || !app.filter.is_empty();
    if !is_filtered && is_sort_seen {
        return;
    }
    let mut line = Line::default().with(Ink::Plain, " ");
    if is_filtered {
        let cursor = if app.is_filter_written { "▏" } else { "" };
        let all = app.model().replica_count(app.service) as u64;
        let shown = words::count(app.rows().len() as u64);
        line = line
            .with(Ink::Faint, "filter: ")
            .with(Ink::Strong, format!("{}{cursor}", app.filter))
            .with(Ink::Faint, format!("  {shown} of {}", words::count(all)));
    }
    if !is_sort_seen {
        let mark = if app.order.is_reversed { "▲" } else { "▼" };
        let has_reports = app.model().has_reports(app.service);
        let text = format!("sorted by {} {mark}", app.order.by.head(has_reports));
        line = line.ending_at(canvas.width().saturating_sub(1), Ink::Faint, text);
    }
    canvas.line(&line);
}

fn heads(app: &App, layout: &Layout) -> Line {
    let has_reports = app.model().has_reports(app.service);
    let mut line = Line::default();
    for column in &layout.columns {
        let is_sorted = *column == app.order.by;
        let mark = match (is_sorted, app.order.is_reversed) {
            (false, _) => "",
            (true, false) => "▼",
            (true, true) => "▲",
        };
        let text = format!("{}{mark}", column.head(has_reports));
        let ink = if is_sorted { Ink::Strong } else { Ink::Faint };
        let width = layout.width_of(*column);
        let end = line.columns() + 1 + width;
        line = match column {
            Column::Name | Column::State => line.with(Ink::Plain, " ").with(ink, text),
            // Above the figures, not above the bar next to them.
            Column::Rif => {
                let figures = line.columns() + 1 + 4;
                line.ending_at(figures, ink, text)
            }
            Column::Load => {
                let figures = line.columns() + 1 + 6;
                line.ending_at(figures, ink, text)
            }
            _ => line.ending_at(end, ink, text),
        };
        line = line.padded_to(end);
    }
    line
}

/// The positions of the heads, for the mouse.
fn places(layout: &Layout, head: Rect) -> Vec<(Rect, Column)> {
    let mut x = head.x;
    let mut places = Vec::new();
    for column in &layout.columns {
        let width = u16::try_from(layout.width_of(*column) + 1).unwrap_or(u16::MAX);
        let place = Rect { x, width, ..head };
        places.push((place.intersection(head), *column));
        x = x.saturating_add(width);
    }
    places
}

/// The scales of the bars.
#[derive(Debug, Clone, Copy)]
struct Scale {
    rif_end: u64,
    rif_limit: Option<u64>,
    /// The share of each replica if all had the same.
    fair: f64,
}

impl Scale {
    fn new(app: &App) -> Self {
        let rows = app.model().rows(app.service);
        let highest = rows.iter().map(Row::rif_or_own).max().unwrap_or(0);
        let rif_limit = app.model().rif_limit(app.service);
        Self {
            rif_end: bar::rif_scale(highest, rif_limit),
            rif_limit,
            fair: 1.0 / rows.len().max(1) as f64,
        }
    }
}

fn line(row: &Row<'_>, layout: &Layout, scale: &Scale) -> Line {
    let mut line = Line::default();
    for column in &layout.columns {
        let end = line.columns() + 1 + layout.width_of(*column);
        line = cell(line, *column, row, layout, scale).padded_to(end);
    }
    line
}

fn cell(line: Line, column: Column, row: &Row<'_>, layout: &Layout, scale: &Scale) -> Line {
    let end = line.columns() + 1 + layout.width_of(column);
    let count_if_any = |count: Option<u64>| count.map_or(UNKNOWN.to_owned(), words::count);
    let blank = |line: Line| line.with(Ink::Plain, " ");
    match column {
        Column::Fleet => line.ending_at(end, Ink::Faint, row.index.to_string()),
        Column::Name => blank(line).with(Ink::Plain, cut(row.name, layout.name)),
        Column::State => {
            let (ink, text) = state(row);
            blank(line).with(ink, cut(&text, 12))
        }
        Column::Rif => {
            let ink = match row.is_hot {
                Some(true) => Ink::Strong,
                _ => Ink::Plain,
            };
            let figures = line.columns() + 1 + 4;
            let own = (!row.has_reports).then_some(row.in_flight);
            let line = line.ending_at(figures, ink, count_if_any(row.rif.or(own)));
            let (end, limit) = (scale.rif_end, scale.rif_limit);
            bar::marked(
                blank(line),
                row.rif_or_own(),
                end,
                limit,
                layout.bar,
                Ink::First,
            )
        }
        Column::Full => {
            let ink = match row.full() {
                Some(share) if share > 1.0 => Ink::Strong,
                _ => Ink::Plain,
            };
            line.ending_at(end, ink, row.full().map_or(UNKNOWN.to_owned(), full))
        }
        Column::Latency => line.ending_at(end, Ink::Plain, latency_if_any(row.latency_us)),
        Column::Age => {
            let text = row.report_age_ms.map_or(UNKNOWN.to_owned(), age);
            line.ending_at(end, Ink::Faint, text)
        }
        Column::InFlight => line.ending_at(end, Ink::Plain, words::count(row.in_flight)),
        Column::Load => {
            let figures = line.columns() + 1 + 6;
            let line = line.ending_at(figures, Ink::Plain, load(row.load));
            if layout.load_bar == 0 {
                return line;
            }
            let millionths = |part: f64| {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a part from 0 to 1, and twice that"
                )]
                let whole = (part * 1e6) as u64;
                whole
            };
            let (fair, end) = (millionths(scale.fair), millionths(scale.fair * 2.0));
            let value = millionths(row.load);
            bar::marked(
                blank(line),
                value,
                end,
                Some(fair),
                layout.load_bar,
                Ink::First,
            )
        }
        Column::Rate => line.ending_at(end, Ink::Plain, rate(row.rate)),
        Column::Failing => {
            let ink = if row.failing > 0.0 {
                Ink::Alarm
            } else {
                Ink::Faint
            };
            line.ending_at(end, ink, rate(row.failing))
        }
        Column::P99 => line.ending_at(end, Ink::Plain, latency_if_any(row.p99_us)),
    }
}

/// The replica's state in a word, or the fault that a demo gives it.
pub(super) fn state(row: &Row<'_>) -> (Ink, String) {
    match row.trouble {
        Some(trouble) if row.is_well() => (Ink::Alarm, trouble.to_string()),
        _ if row.is_well() => (Ink::Faint, row.state.to_owned()),
        _ => (Ink::Alarm, row.state.to_owned()),
    }
}

/// A share of the load in at most 6 columns.
fn load(part: f64) -> String {
    if part < 0.9995 {
        percent(part)
    } else {
        "100 %".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(tells_capacity: bool) -> Vec<Column> {
        let all = Column::ALL.into_iter();
        all.filter(|column| *column != Column::Full || tells_capacity)
            .collect()
    }

    #[test]
    fn columns_are_hidden_until_the_rest_fits_and_bars_fill_space() {
        for width in 36..300 {
            for tells_capacity in [false, true] {
                let layout = Layout::new(width, 20, columns(tells_capacity));
                assert!(layout.width() <= width, "{width}: {layout:?}");
                assert!(layout.columns.contains(&Column::Name));
                assert!(layout.columns.contains(&Column::Rif));
                assert!(tells_capacity || !layout.columns.contains(&Column::Full));
            }
        }
        let narrow = Layout::new(80, 14, columns(false));
        let expected = [
            Column::Name,
            Column::State,
            Column::Rif,
            Column::Latency,
            Column::Load,
            Column::Rate,
            Column::Failing,
            Column::P99,
        ];
        assert_eq!(narrow.columns, expected);
        assert!(
            Layout::new(80, 14, columns(true))
                .columns
                .contains(&Column::Full)
        );
        assert_eq!(Layout::new(130, 14, columns(true)).columns, Column::ALL);
        assert_eq!(
            Layout::new(130, 14, columns(true)).load_bar,
            LOAD_BAR_COLUMNS
        );
        // Long names get space before bars do.
        let named = Layout::new(120, 60, columns(false));
        assert_eq!(named.bar, *BAR_COLUMNS.start());
        assert!(named.name > 20, "{named:?}");
    }
}
