//! Both sides of a demo next to each other: the measurements of its load generators, the last
//! minutes, and each replica of both sides on one scale.

use super::super::app::App;
use super::super::message::{DemoTick, Seen, Side, sum};
use super::super::model::Row;
use super::super::trend::Point;
use super::super::words::{latency_if_any, percent_of, rate, wrapped};
use super::bar;
use super::canvas::Canvas;
use super::fleet::{filter_line, state};
use crate::terminal::line::{Ink, Line};
use crate::terminal::words;

/// One quantile of the measurements.
type Quantile = fn(&Seen) -> Option<u64>;

const SIDE_INKS: [Ink; 2] = [Ink::First, Ink::Second];

/// Width of the rows' names, left of the first side.
const LABEL_COLUMNS: usize = 17;
/// Columns between the sides.
const GAP: usize = 2;
/// Columns right of a bar: in flight, requests/s, p99.
const FIGURE_COLUMNS: usize = 5 + 6 + 9;
/// Most rows of the summary in words.
const SUMMARY_ROWS_MAX: usize = 4;
/// Largest width of a side: longer bars would not help a reader.
const SIDE_COLUMNS_MAX: usize = 72;
/// Number of replica rows from which blank lines are added.
const ROWS_AT_EASE: usize = 26;

/// The positions of the columns.
struct Layout {
    /// First column of each side.
    starts: [usize; 2],
    /// Width of a side.
    width: usize,
}

impl Layout {
    fn new(columns: usize) -> Self {
        let width = columns.saturating_sub(LABEL_COLUMNS + GAP) / 2;
        let width = width.min(SIDE_COLUMNS_MAX);
        Self {
            starts: [LABEL_COLUMNS, LABEL_COLUMNS + width + GAP],
            width,
        }
    }

    fn end(&self, side: usize) -> usize {
        self.starts[side] + self.width
    }
}

/// Draws the page.
pub(super) fn draw(app: &mut App, canvas: &mut Canvas<'_>) {
    let layout = Layout::new(canvas.width());
    let is_at_ease = canvas.height() > ROWS_AT_EASE;
    if let Some(demo) = app.model().demo() {
        canvas.line(&load(app, demo));
        let sides: [Option<&Side>; 2] = [0, 1].map(|side| demo.sides.get(side));
        if is_at_ease {
            canvas.line(&Line::default());
        }
        figures(app, &layout, sides, canvas);
        trends(app, &layout, canvas);
        canvas.line(&picks(app, &layout));
        if is_at_ease {
            canvas.line(&Line::default());
        }
        let doubt = demo.doubt.as_deref().unwrap_or("");
        let said: Vec<Line> = [(Ink::Strong, demo.verdict.as_str()), (Ink::Alarm, doubt)]
            .into_iter()
            .flat_map(|(ink, text)| {
                let lines = wrapped(text, canvas.width().saturating_sub(2)).into_iter();
                lines.map(move |text| Line::default().with(ink, format!(" {text}")))
            })
            .take(SUMMARY_ROWS_MAX)
            .collect();
        let mut foot = canvas.foot(said.len());
        for line in &said {
            foot.line(line);
        }
    }
    replica_rows(app, &layout, canvas);
}

/// The load of both sides.
fn load(app: &App, demo: &DemoTick) -> Line {
    let elapsed = core::time::Duration::from_millis(demo.elapsed_ms);
    let clock = match demo.length_ms {
        Some(length) => {
            let length = core::time::Duration::from_millis(length);
            format!("{} of {}", words::clock(elapsed), words::clock(length))
        }
        None => words::clock(elapsed),
    };
    let text = format!(
        " {} replicas a side, {} requests/s to each, {clock}{}",
        words::count(app.model().replica_count(0) as u64),
        words::rate(demo.rate),
        if demo.weather {
            ""
        } else {
            ", no slow episodes"
        },
    );
    Line::default().with(Ink::Plain, text)
}

fn figures(app: &App, layout: &Layout, sides: [Option<&Side>; 2], canvas: &mut Canvas<'_>) {
    let mut names = Line::default();
    let mut heads = Line::default();
    for (index, ink) in SIDE_INKS.into_iter().enumerate() {
        let name = app.model().service_name(index);
        // Marks the side that Enter opens and that the order follows.
        let mark = if index == app.service { " ◀" } else { "" };
        names = names
            .padded_to(layout.starts[index])
            .with(ink, "■ ")
            .with(Ink::Strong, format!("{name}{mark}"));
        let [recent, overall] = ends(layout, index);
        heads = heads.ending_at(recent, Ink::Faint, "last 10 s").ending_at(
            overall,
            Ink::Faint,
            "since start",
        );
    }
    canvas.line(&names);
    canvas.line(&heads);
    let quantiles: [(&str, Quantile); 3] = [
        ("p50", |seen| seen.p50_us),
        ("p99", |seen| seen.p99_us),
        ("p99.9", |seen| seen.p999_us),
    ];
    for (name, quantile) in quantiles {
        let ink = if name == "p99" {
            Ink::Strong
        } else {
            Ink::Plain
        };
        canvas.line(&row(name, layout, sides, |seen| {
            (ink, latency_if_any(quantile(seen)))
        }));
    }
    canvas.line(&row("errors", layout, sides, |seen| {
        let ink = if seen.errors > 0 {
            Ink::Alarm
        } else {
            Ink::Plain
        };
        (ink, percent_of(seen.errors, seen.requests))
    }));
}

/// The right ends of a side's two columns of figures.
fn ends(layout: &Layout, side: usize) -> [usize; 2] {
    let start = layout.starts[side];
    [
        start + layout.width.min(30) / 2,
        start + layout.width.min(30),
    ]
}

fn row(
    name: &str,
    layout: &Layout,
    sides: [Option<&Side>; 2],
    cell: impl Fn(&Seen) -> (Ink, String),
) -> Line {
    let mut line = Line::default().with(Ink::Plain, format!(" {name}"));
    for (index, side) in sides.into_iter().enumerate() {
        let Some(side) = side else { continue };
        let ends = ends(layout, index);
        for (end, seen) in ends.into_iter().zip([&side.recent, &side.overall]) {
            let (ink, text) = cell(seen);
            line = line.ending_at(end, ink, text);
        }
    }
    line
}

/// Draws the p99 of each interval, both sides on one scale.
fn trends(app: &App, layout: &Layout, canvas: &mut Canvas<'_>) {
    let p99 = |point: &Point| point.p99_us.unwrap_or(0);
    let columns = layout.width.saturating_sub(1);
    let values = [0, 1].map(|side| {
        let trend = app.model().trend(side);
        trend.map_or_else(Vec::new, |trend| bar::last(trend.points(), columns, p99))
    });
    let highest = values.iter().flatten().copied().max().unwrap_or(0);
    let mut line = Line::default().with(Ink::Plain, " p99");
    for (side, values) in values.iter().enumerate() {
        let blocks = bar::rows(values, highest, 1).concat();
        line = line
            .padded_to(layout.starts[side])
            .with(SIDE_INKS[side], blocks);
    }
    canvas.line(&line);
}

/// The reasons of picks.
fn picks(app: &App, layout: &Layout) -> Line {
    let mut line = Line::default().with(Ink::Plain, " picked by");
    for side in 0..2 {
        let Some(tick) = app.model().service(side) else {
            continue;
        };
        let all = sum(tick.picks.values());
        let mut reasons: Vec<_> = tick.picks.iter().collect();
        reasons.sort_by(|left, right| right.1.cmp(left.1).then(left.0.cmp(right.0)));
        let mut text = String::new();
        for (reason, count) in reasons.into_iter().filter(|(_, count)| **count > 0) {
            let separator = if text.is_empty() { "" } else { ", " };
            let part = format!(
                "{separator}{} {}",
                reason.replace('_', " "),
                percent_of(*count, all)
            );
            // The least frequent ones are cut off.
            if text.chars().count() + part.chars().count() > layout.width {
                break;
            }
            text.push_str(&part);
        }
        line = line.padded_to(layout.starts[side]).with(Ink::Plain, text);
    }
    line
}

/// Draws a row for each replica, with both sides.
fn replica_rows(app: &mut App, layout: &Layout, canvas: &mut Canvas<'_>) {
    filter_line(
        app,
        canvas,
        app.order == super::super::rows::Order::default(),
    );
    canvas.line(&heads(layout));
    app.hits.list = canvas.area();
    let indices: Vec<usize> = app.rows().iter().map(|row| row.index).collect();
    app.scroll(&indices, canvas.height());
    let model = app.model();
    let sides = [model.rows(0), model.rows(1)];
    let highest = sides.iter().flatten().map(|row| row.in_flight).max();
    let limits = [0, 1].map(|side| model.rif_limit(side));
    let end = bar::rif_scale(highest.unwrap_or(0), limits.into_iter().flatten().max());
    for index in indices.iter().skip(app.top).take(canvas.height()) {
        let pair = [0, 1].map(|side| sides[side].get(*index));
        let line = pair_line(pair, limits, end, layout);
        if app.selected == Some(*index) {
            canvas.chosen_line(&line);
        } else {
            canvas.line(&line);
        }
    }
}

fn heads(layout: &Layout) -> Line {
    let mut line = Line::default().with(Ink::Faint, "   #");
    for side in 0..2 {
        let end = layout.end(side);
        line = line
            .padded_to(layout.starts[side])
            .with(Ink::Faint, "in flight")
            .ending_at(end - 9, Ink::Faint, "req/s")
            .ending_at(end, Ink::Faint, "p99");
    }
    line
}

fn pair_line(
    pair: [Option<&Row<'_>>; 2],
    limits: [Option<u64>; 2],
    end: u64,
    layout: &Layout,
) -> Line {
    let mut line = Line::default();
    if let Some(row) = pair.into_iter().flatten().next() {
        let (ink, trouble) = match row.trouble {
            Some(trouble) => (Ink::Alarm, trouble.to_string()),
            None => (Ink::Plain, String::new()),
        };
        line = line
            .ending_at(4, Ink::Faint, row.index.to_string())
            .with(ink, format!(" {trouble}"));
    }
    for (side, row) in pair.into_iter().enumerate() {
        let Some(row) = row else { continue };
        let columns = layout.width.saturating_sub(FIGURE_COLUMNS);
        let side_end = layout.end(side);
        let own_ink = SIDE_INKS[side];
        let ink = if row.is_well() { own_ink } else { Ink::Alarm };
        line = line.padded_to(layout.starts[side]);
        line = if row.is_well() || row.in_flight > 0 {
            bar::marked(line, row.in_flight, end, limits[side], columns, ink)
        } else {
            // The replica cannot be reached; there is space for its state.
            let (ink, text) = state(row);
            line.with(ink, super::super::words::cut(&text, columns))
                .padded_to(layout.starts[side] + columns)
        };
        line = line
            .with(Ink::Plain, format!(" {:<4}", words::count(row.in_flight)))
            .ending_at(side_end - 9, Ink::Plain, rate(row.rate))
            .ending_at(side_end, Ink::Plain, latency_if_any(row.p99_us));
    }
    line
}
