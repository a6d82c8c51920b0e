//! Lines with marks and intervals, over numbers or over named steps.
//!
//! A value that the axis cannot show interrupts its line. An interval far beyond all points is cut,
//! because it would flatten everything else.

use super::frame::{self, Area, Horizontal, Sample};
use super::path::Path;
use super::scale::{Ends, Scale};
use super::style::{Style, Styles};
use crate::figure::{Chart, Line};
use crate::number::significant;
use crate::report::markup::Markup;
use core::fmt::Write;

/// The number of marks on a line of many points, about.
const MARKS_MAX: usize = 24;

/// Draws below `top` and returns where it ends. `steps` are the names along the horizontal axis, if
/// it has names.
pub(super) fn draw(
    markup: &mut Markup,
    top: f64,
    chart: &Chart,
    lines: &[Line],
    steps: Option<&[String]>,
    styles: &Styles,
) -> f64 {
    let looks = looks(lines, styles);
    let entries: Vec<(Style, &str)> = looks
        .iter()
        .zip(lines)
        .map(|(&look, line)| (look, line.name.as_str()))
        .collect();
    let top = frame::legend(markup, top, Sample::Line, &entries);
    let top = frame::vertical_name(markup, top, &chart.y.label);
    let y = vertical(chart, lines);
    let area = Area::below(top, &y, steps.unwrap_or_default());
    let x = steps.map_or_else(
        || {
            let values = lines.iter().flat_map(|line| &line.points).map(|&(x, _)| x);
            Horizontal::Numbers(Scale::new(values, chart.x.log, Ends::Tight, 9))
        },
        Horizontal::Names,
    );
    frame::vertical_axis(markup, &area, &y);
    let end = x.draw(markup, &area, &chart.x.label);
    let plot = Plot { area, x, y };
    // The papers' lines are drawn below ours.
    for reference in [true, false] {
        for (line, look) in lines
            .iter()
            .zip(&looks)
            .filter(|(line, _)| line.reference == reference)
        {
            markup.element("g", &[("class", &look.colour_class())], |markup| {
                plot.line(markup, line, *look);
            });
        }
    }
    let drawn = |line: &Line| line.points.iter().any(|&point| plot.place(point).is_some());
    if !lines.iter().any(drawn) {
        frame::no_data(markup, &plot.area);
    }
    end
}

fn looks(lines: &[Line], styles: &Styles) -> Vec<Style> {
    let mut papers = 0;
    let look = |line: &Line| {
        if line.reference {
            papers += 1;
            styles.paper(&line.name, papers - 1)
        } else {
            styles.ours(&line.name)
        }
    };
    lines.iter().map(look).collect()
}

/// Returns the vertical scale: all points, and intervals as far as they do not squeeze the points
/// together.
fn vertical(chart: &Chart, lines: &[Line]) -> Scale {
    /// How far intervals may widen the points' range, as a share of it.
    const WIDEN_MAX: f64 = 0.3;
    let log = chart.y.log;
    let points = || lines.iter().flat_map(|line| &line.points).map(|&(_, y)| y);
    let of_points = Scale::new(points(), log, Ends::Tight, 6);
    // If no value can be negative, as with errors, the interval ends at zero.
    let can_be_negative = points().any(|y| y < 0.0);
    let floor = if can_be_negative { f64::MIN } else { 0.0 };
    let (least, most) = (
        of_points.value_at(-WIDEN_MAX).max(floor),
        of_points.value_at(1.0 + WIDEN_MAX),
    );
    let intervals = lines.iter().flat_map(|line| &line.interval);
    let ends = intervals
        .flat_map(|&(low, high)| [low, high])
        .filter(|end| end.is_finite());
    let ends = ends.map(|end| end.clamp(least, most.max(least)));
    Scale::new(points().chain(ends), log, Ends::Round, 6)
}

struct Plot<'a> {
    area: Area,
    x: Horizontal<'a>,
    y: Scale,
}

impl Plot<'_> {
    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        if !self.y.shows(y) {
            return None;
        }
        Some((self.x.place(&self.area, x)?, self.area.y(&self.y, y)))
    }

    fn line(&self, markup: &mut Markup, line: &Line, look: Style) {
        let places: Vec<Option<(f64, f64)>> =
            line.points.iter().map(|&point| self.place(point)).collect();
        markup.leaf(
            "path",
            &[("class", &look.track_class()), ("d", &track(&places))],
        );
        for (index, place) in places.iter().enumerate() {
            if let (Some((x, _)), Some((low, high))) = (place, line.interval_at(index)) {
                self.interval(markup, *x, low, high);
            }
        }
        let every = places.len().div_ceil(MARKS_MAX).max(1);
        for (index, place) in places.iter().enumerate().step_by(every) {
            if let Some((x, y)) = *place {
                look.mark(markup, x, y, &self.says(line, index));
            }
        }
    }

    /// Draws an interval from end to end. An end beyond the scale has no cap.
    fn interval(&self, markup: &mut Markup, x: f64, low: f64, high: f64) {
        const CAP: f64 = 3.5;
        let (bottom, top) = (
            self.area.y(&self.y, self.y.clamp(low)),
            self.area.y(&self.y, self.y.clamp(high)),
        );
        let mut path = Path::default();
        path.move_to((x, bottom)).line_to((x, top));
        for (end, y) in [(low, bottom), (high, top)] {
            if self.y.contains(end) {
                path.move_to((x - CAP, y)).line_to((x + CAP, y));
            }
        }
        markup.leaf("path", &[("class", &"span"), ("d", &path)]);
    }

    fn says(&self, line: &Line, index: usize) -> String {
        let (x, y) = line.points[index];
        let x = match &self.x {
            Horizontal::Numbers(_) => significant(x),
            Horizontal::Names(names) => names.get(frame::whole(x)).cloned().unwrap_or_default(),
        };
        let mut says = format!("{} at {x}: {}", line.name, significant(y));
        if let Some((low, high)) = line.interval_at(index) {
            // Writing to a string cannot fail.
            let _ = write!(
                says,
                " (from {} to {})",
                significant(low),
                significant(high)
            );
        }
        says
    }
}

/// Returns a path through the positions, interrupted where there is none.
fn track(places: &[Option<(f64, f64)>]) -> Path {
    let mut path = Path::default();
    let mut pen_down = false;
    for place in places {
        match *place {
            Some(place) if pen_down => path.line_to(place),
            Some(place) => path.move_to(place),
            None => &mut path,
        };
        pen_down = place.is_some();
    }
    path
}
