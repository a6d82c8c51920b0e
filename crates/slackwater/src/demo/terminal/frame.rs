//! One frame of the live table: a [`Picture`] laid out in lines for a terminal of a given size.
//!
//! There are two columns, one for each side. Below the figures, one bar for each replica shows its
//! requests in flight, so that it is visible where a balancer piles them up. A fleet that is too
//! large for the height gets vertical bars; what still does not fit is cut off at the bottom. The
//! function is pure: the same picture and size give the same lines.

use crate::demo::picture::{Phase, Picture, Quantiles, Side};
use crate::demo::verdict::{Contender, Tense, doubt, verdict};
use crate::terminal::bars;
use crate::terminal::line::{Ink, Line};
use crate::terminal::words;

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// Smallest width of a frame. Narrower terminals show its left part.
const COLUMNS_MIN: usize = 72;

/// Largest width of a frame: longer bars would not help a reader. Wider terminals leave the rest
/// empty.
const COLUMNS_MAX: usize = 132;

/// Width of the rows' names, left of the first side.
const LABEL_COLUMNS: usize = 12;

/// Columns between the sides.
const GAP: usize = 3;

/// Columns for a bar's number, right of it.
const NUMBER_COLUMNS: usize = 5;

/// Height of vertical bars: the smallest, and the largest.
const STANDING_ROWS: core::ops::RangeInclusive<usize> = 3..=8;

/// Blank lines in a frame that has room for them: one below the head, one above the foot.
const BLANKS: usize = 2;

const SIDE_INKS: [Ink; 2] = [Ink::First, Ink::Second];

/// Returns the lines of a frame: one fewer than the terminal has, so that the cursor below them
/// does not scroll it.
pub(super) fn frame(picture: &Picture, page: &str, size: Size) -> Vec<Line> {
    let layout = Layout::new(picture, size.columns);
    let room = size.rows.saturating_sub(1);
    let (head, figures, foot) = (
        head(picture, page, &layout),
        figures(picture, &layout),
        foot(picture, &layout),
    );
    let fixed = head.len() + figures.len() + 1 + foot.len();
    let mut chart = chart(picture, &layout);
    let mut bars = lying(picture, &layout);
    if fixed + bars.len() > room {
        let left = room.saturating_sub(fixed + chart.len() + BLANKS + 2);
        let rows = (left / 2).clamp(*STANDING_ROWS.start(), *STANDING_ROWS.end());
        bars = standing(picture, &layout, rows);
    }
    if fixed + bars.len() + chart.len() + BLANKS > room {
        chart.clear();
    }
    let spare = room.saturating_sub(fixed + bars.len() + chart.len());
    let blanks = |count: usize| (0..count).map(|_| Line::default());
    let mut lines = head;
    lines.extend(blanks(spare.min(BLANKS) / BLANKS));
    lines.extend(figures);
    lines.extend(blanks(1));
    lines.extend(bars);
    lines.extend(chart);
    lines.extend(blanks(spare.min(1)));
    lines.extend(foot);
    lines.truncate(room);
    lines
}

/// The positions of the columns.
struct Layout {
    columns: usize,
    /// First column of each side.
    starts: [usize; 2],
    /// Width of a side.
    width: usize,
    names: [String; 2],
}

impl Layout {
    fn new(picture: &Picture, columns: usize) -> Self {
        let columns = columns.clamp(COLUMNS_MIN, COLUMNS_MAX);
        let width = (columns - LABEL_COLUMNS - GAP) / 2;
        Self {
            columns,
            starts: [LABEL_COLUMNS, LABEL_COLUMNS + width + GAP],
            width,
            names: picture.names(),
        }
    }

    /// The right ends of a side's two columns of figures.
    fn ends(&self, side: usize) -> [usize; 2] {
        [self.starts[side] + 14, self.starts[side] + 28]
    }
}

fn head(picture: &Picture, page: &str, layout: &Layout) -> Vec<Line> {
    let load = format!(
        "  {} replicas a side, {} requests/s to each",
        picture.replicas.len(),
        words::rate(picture.rate)
    );
    let elapsed = words::clock(picture.elapsed);
    let clock = match (picture.phase, picture.length) {
        (Phase::Stopping, _) => format!("{elapsed}, waiting for the last answers"),
        (Phase::Running, Some(length)) => format!("{elapsed} of {}", words::clock(length)),
        (Phase::Running, None) => elapsed,
    };
    let title = Line::default()
        .with(Ink::Strong, "slackwater demo")
        .with(Ink::Plain, load)
        .ending_at(layout.columns, Ink::Strong, clock);
    let second = Line::default()
        .with(Ink::Faint, "page ")
        .with(Ink::Plain, page)
        .with(Ink::Faint, format!("   seed {}", picture.seed))
        .ending_at(layout.columns, Ink::Faint, "Ctrl-C ends it");
    vec![title, second]
}

fn figures(picture: &Picture, layout: &Layout) -> Vec<Line> {
    let mut names = Line::default();
    let mut heads = Line::default();
    for (side, ink) in SIDE_INKS.into_iter().enumerate() {
        names = names
            .padded_to(layout.starts[side])
            .with(Ink::Plain, " ")
            .with(ink, "■ ")
            .with(Ink::Strong, &layout.names[side]);
        let [recent, overall] = layout.ends(side);
        heads = heads.ending_at(recent, Ink::Faint, "last 10 s").ending_at(
            overall,
            Ink::Faint,
            "since start",
        );
    }
    let quantile = |name, of: fn(&Quantiles) -> f64| {
        row(name, picture, layout, |side| {
            let ms = |quantiles: &Option<Quantiles>| words::ms_if_any(quantiles.as_ref().map(of));
            [ms(&side.recent.latency), ms(&side.overall.latency)]
        })
    };
    vec![
        names,
        heads,
        quantile("p50", |q| q.p50_ms),
        quantile("p99", |q| q.p99_ms),
        quantile("p99.9", |q| q.p999_ms),
        row("requests", picture, layout, |side| {
            [side.recent.requests, side.overall.requests].map(words::count)
        }),
        row("errors", picture, layout, |side| {
            [side.recent.errors, side.overall.errors].map(words::count)
        }),
    ]
}

/// A row of the table, with the result of `cells` for each side.
fn row(
    name: &str,
    picture: &Picture,
    layout: &Layout,
    cells: impl Fn(&Side) -> [String; 2],
) -> Line {
    let mut line = Line::default().with(Ink::Plain, format!("  {name}"));
    for (index, side) in picture.sides.iter().enumerate() {
        let [recent, overall] = cells(side);
        let [recent_end, overall_end] = layout.ends(index);
        let is_alarming = name == "errors" && side.errors > 0;
        let ink = match name {
            _ if is_alarming => Ink::Alarm,
            "p99" => Ink::Strong,
            _ => Ink::Plain,
        };
        line = line
            .ending_at(recent_end, ink, recent)
            .ending_at(overall_end, ink, overall);
    }
    line
}

/// The end of the bars' scale. All bars have the same, and it never shrinks.
fn scale(picture: &Picture) -> u32 {
    let highs = picture.sides.iter().flat_map(|side| &side.replicas);
    bars::scale(highs.map(|replica| replica.rif_high).max().unwrap_or(0))
}

fn lying(picture: &Picture, layout: &Layout) -> Vec<Line> {
    let end = scale(picture);
    let mut lines = vec![Line::default().with(Ink::Faint, "requests in flight at each replica")];
    for (index, weather) in picture.replicas.iter().enumerate() {
        let (label, ink) = if weather.hobbled {
            (format!("▶{index:>2} slowed"), Ink::Alarm)
        } else {
            (format!(" {index:>2}"), Ink::Faint)
        };
        let mut line = Line::default().with(ink, label);
        let sides = picture.sides.iter().zip(layout.starts);
        for ((side, start), own_ink) in sides.zip(SIDE_INKS) {
            let rif = side.replicas.get(index).map_or(0, |replica| replica.rif);
            let ink = if weather.hobbled { Ink::Alarm } else { own_ink };
            let bar = bars::lying(rif, end, layout.width.saturating_sub(NUMBER_COLUMNS));
            line = line
                .padded_to(start + 1)
                .with(ink, bar)
                .with(Ink::Plain, format!(" {rif}"));
        }
        lines.push(line);
    }
    lines
}

fn standing(picture: &Picture, layout: &Layout, height: usize) -> Vec<Line> {
    let end = scale(picture);
    let start = LABEL_COLUMNS + 4;
    let has_room = start + picture.replicas.len() * 2 <= layout.columns;
    let spacing = if has_room { 2 } else { 1 };
    let heading = format!("requests in flight at each replica, full height {end}");
    let mut lines = vec![Line::default().with(Ink::Faint, heading)];
    for (index, side) in picture.sides.iter().enumerate() {
        let rifs: Vec<u32> = side.replicas.iter().map(|replica| replica.rif).collect();
        let rows = bars::standing(&rifs, end, height, spacing);
        for (row, blocks) in rows.into_iter().enumerate() {
            let is_last = row + 1 == height;
            let name = if is_last {
                layout.names[index].as_str()
            } else {
                ""
            };
            let line = Line::default()
                .with(Ink::Plain, format!("  {name}"))
                .padded_to(LABEL_COLUMNS + 4)
                .with(SIDE_INKS[index], blocks);
            lines.push(line);
        }
    }
    lines.push(picture.hobbled().map_or_else(Line::default, |index| {
        Line::default()
            .padded_to(start + index * spacing)
            .with(Ink::Alarm, format!("▲ {index} slowed"))
    }));
    lines
}

fn chart(picture: &Picture, layout: &Layout) -> Vec<Line> {
    let heading = "p99 of each second, last minute; from 10 ms to 10 s, logarithmic";
    let mut lines = vec![Line::default(), Line::default().with(Ink::Faint, heading)];
    for (index, ink) in SIDE_INKS.into_iter().enumerate() {
        let seconds = picture.history.iter();
        let blocks: String = seconds
            .map(|second| bars::chart(second.sides[index].map(|quantiles| quantiles.p99_ms)))
            .collect();
        let line = Line::default()
            .with(Ink::Plain, format!("  {}", layout.names[index]))
            .padded_to(LABEL_COLUMNS + 4)
            .with(ink, blocks);
        lines.push(line);
    }
    lines
}

fn foot(picture: &Picture, layout: &Layout) -> Vec<Line> {
    let contender = |index: usize| {
        let side = &picture.sides[index];
        Contender {
            name: &layout.names[index],
            requests: side.overall.requests,
            errors: side.overall.errors,
            p99_ms: side.overall.latency.map(|quantiles| quantiles.p99_ms),
        }
    };
    let sides = [contender(0), contender(1)];
    let said = Line::default().with(Ink::Strong, verdict(sides, Tense::Present));
    let doubt = doubt(picture.sent_late_p99_ms, Tense::Present);
    core::iter::once(said)
        .chain(doubt.map(|text| Line::default().with(Ink::Alarm, text)))
        .chain(troubles(picture).map(|text| Line::default().with(Ink::Alarm, text)))
        .collect()
}

/// The faults that users have set, as text.
fn troubles(picture: &Picture) -> Option<String> {
    let replicas = picture
        .troubles()
        .map(|troubles| format!("replica {troubles}"));
    let weather = (!picture.weather).then(|| "no slow episodes by themselves".to_owned());
    let said: Vec<_> = replicas.into_iter().chain(weather).collect();
    (!said.is_empty()).then(|| said.join("; "))
}
