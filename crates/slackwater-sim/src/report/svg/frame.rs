//! The surroundings of the marks: the plot's area, grid and axes with labels that do not overlap,
//! and the legend.
//!
//! Sizes are in pixels of a picture 720 wide, which a page scales. There is no font to measure
//! with, so widths of text are overestimated.

use super::path::Path;
use super::scale::{Scale, Tick};
use super::style::Style;
use crate::number::Px;
use crate::report::markup::Markup;

/// Width of every picture.
pub(super) const WIDTH: f64 = 720.0;
/// Height of the data area.
const PLOT_HEIGHT: f64 = 300.0;
/// Distance from one line of text to the next.
const LINE_HEIGHT: f64 = 18.0;
/// Size of text.
pub(super) const SIZE: f64 = 12.0;
/// Angle of names that would overlap otherwise.
const SLANT_DEGREES: f64 = 35.0;

/// The area of the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Area {
    /// Returns an area below `top`. It has space at the left for the labels of the vertical axis,
    /// and below for slanted names.
    pub(super) fn below(top: f64, y: &Scale, names: &[String]) -> Self {
        let right = WIDTH - 10.0;
        let labels = y.ticks.iter().map(|tick| text_width(&tick.label, SIZE));
        let mut left = labels.fold(20.0, f64::max) + 10.0;
        let labels = Labels::of(names, right - left);
        if !labels.level {
            // A name ends under the middle of its slot, and slots become narrower as the area does.
            let halves = 2.0 * names.len() as f64;
            let overhang = labels.widest * SLANT_DEGREES.to_radians().cos();
            left = left.max((overhang - right / halves) / (1.0 - 1.0 / halves));
        }
        Self {
            left,
            top,
            right,
            bottom: top + PLOT_HEIGHT,
        }
    }

    /// Returns the position of a vertical value.
    pub(super) fn y(&self, scale: &Scale, value: f64) -> f64 {
        self.bottom - scale.share(value) * (self.bottom - self.top)
    }

    fn width(&self) -> f64 {
        self.right - self.left
    }
}

/// The horizontal axis.
#[derive(Clone, Debug)]
pub(super) enum Horizontal<'a> {
    Numbers(Scale),
    Names(&'a [String]),
}

impl Horizontal<'_> {
    /// Returns the position of a value, or of the middle of the name with that index; `None` if
    /// there is none.
    pub(super) fn place(&self, area: &Area, value: f64) -> Option<f64> {
        match self {
            Self::Numbers(scale) => scale
                .shows(value)
                .then(|| area.left + scale.share(value) * area.width()),
            Self::Names(names) => {
                let slots = names.len() as f64;
                (value >= 0.0 && value < slots)
                    .then(|| area.left + (value + 0.5) * area.width() / slots)
            }
        }
    }

    /// Returns the width of each name's slot.
    pub(super) fn slot(&self, area: &Area) -> f64 {
        match self {
            Self::Numbers(_) => area.width(),
            Self::Names(names) => area.width() / names.len().max(1) as f64,
        }
    }

    /// Draws axis, labels and the axis's name; returns where they end.
    pub(super) fn draw(&self, markup: &mut Markup, area: &Area, name: &str) -> f64 {
        rule(
            markup,
            "axis",
            (area.left, area.bottom),
            (area.right, area.bottom),
        );
        let labels_end = match self {
            Self::Numbers(scale) => number_labels(markup, area, scale),
            Self::Names(names) => self.name_labels(markup, area, names),
        };
        let middle = f64::midpoint(area.left, area.right);
        text(markup, "", "middle", (middle, labels_end + 17.0), name);
        labels_end + 24.0
    }

    /// Draws labels under the middles of the names. If even slanted labels are too tight, some are
    /// skipped.
    fn name_labels(&self, markup: &mut Markup, area: &Area, names: &[String]) -> f64 {
        let slot = self.slot(area);
        let labels = Labels::of(names, area.width());
        let every = if labels.level {
            1
        } else {
            whole((15.0 / slot).ceil()).max(1)
        };
        for (index, name) in labels.names.iter().enumerate().step_by(every) {
            let x = area.left + (index as f64 + 0.5) * slot;
            if labels.level {
                text(markup, "", "middle", (x, area.bottom + 16.0), name);
                continue;
            }
            let (x, y) = (x + 4.0, area.bottom + 13.0);
            let turn = format!("rotate(-{SLANT_DEGREES} {} {})", Px(x), Px(y));
            markup.line(
                "text",
                &[
                    ("text-anchor", &"end"),
                    ("x", &Px(x)),
                    ("y", &Px(y)),
                    ("transform", &turn),
                ],
                name,
            );
        }
        let height = if labels.level {
            0.0
        } else {
            labels.widest * SLANT_DEGREES.to_radians().sin()
        };
        area.bottom + height + 18.0
    }
}

/// Names below the axis.
struct Labels {
    names: Vec<String>,
    widest: f64,
    /// Whether they fit side by side. Otherwise they are slanted.
    level: bool,
}

impl Labels {
    fn of(names: &[String], width: f64) -> Self {
        const CHARACTERS_MAX: usize = 28;
        let names: Vec<String> = names
            .iter()
            .map(|name| shortened(name, CHARACTERS_MAX))
            .collect();
        let widest = names
            .iter()
            .map(|name| text_width(name, SIZE))
            .fold(0.0, f64::max);
        let level = (widest + 6.0) * names.len() as f64 <= width;
        Self {
            names,
            widest,
            level,
        }
    }
}

fn number_labels(markup: &mut Markup, area: &Area, scale: &Scale) -> f64 {
    let place = |value| area.left + scale.share(value) * area.width();
    let mut free_from = f64::NEG_INFINITY;
    for Tick { value, label } in &scale.ticks {
        let x = place(*value);
        rule(markup, "axis", (x, area.bottom), (x, area.bottom + 4.0));
        let half = text_width(label, SIZE) / 2.0;
        let x = x.min(WIDTH - half);
        if x - half >= free_from {
            text(markup, "", "middle", (x, area.bottom + 17.0), label);
            free_from = x + half + 6.0;
        }
    }
    area.bottom + 20.0
}

/// Draws lines across the area and labels at its left.
pub(super) fn vertical_axis(markup: &mut Markup, area: &Area, scale: &Scale) {
    for &value in &scale.minor {
        let y = area.y(scale, value);
        rule(markup, "minor", (area.left, y), (area.right, y));
    }
    for Tick { value, label } in &scale.ticks {
        let y = area.y(scale, *value);
        rule(markup, "grid", (area.left, y), (area.right, y));
        text(markup, "", "end", (area.left - 7.0, y + 4.0), label);
    }
}

/// Draws the vertical axis's name, horizontally, above the area; returns where the area may begin.
pub(super) fn vertical_name(markup: &mut Markup, top: f64, name: &str) -> f64 {
    text(markup, "", "start", (0.0, top + 14.0), name);
    top + 28.0
}

/// The sample that a legend shows beside a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    Line,
    Bar,
}

impl Sample {
    fn width(self) -> f64 {
        match self {
            Self::Line => 30.0,
            Self::Bar => 14.0,
        }
    }

    fn draw(self, markup: &mut Markup, style: Style, left: f64, middle: f64) {
        let right = left + self.width();
        markup.element(
            "g",
            &[("class", &style.colour_class())],
            |markup| match self {
                Self::Line => {
                    let mut path = Path::default();
                    path.move_to((left, middle)).line_to((right, middle));
                    markup.leaf("path", &[("class", &style.track_class()), ("d", &path)]);
                    style.mark(markup, f64::midpoint(left, right), middle, "");
                }
                Self::Bar => {
                    let (from, to) = ((left + 1.0, middle - 6.0), (right - 1.0, middle + 6.0));
                    rectangle(markup, style.bar_class(), from, to, "");
                }
            },
        );
    }
}

/// Draws names beside samples of their styles, as many in a row as fit; returns where they end.
pub(super) fn legend(
    markup: &mut Markup,
    top: f64,
    sample: Sample,
    entries: &[(Style, &str)],
) -> f64 {
    const GAP: f64 = 18.0;
    const CHARACTERS_MAX: usize = 60;
    let (mut x, mut y) = (0.0, top);
    for (style, name) in entries {
        let name = shortened(name, CHARACTERS_MAX);
        let width = sample.width() + 6.0 + text_width(&name, SIZE);
        if x > 0.0 && x + width > WIDTH {
            (x, y) = (0.0, y + LINE_HEIGHT);
        }
        let middle = y + LINE_HEIGHT / 2.0;
        sample.draw(markup, *style, x, middle);
        text(
            markup,
            "name",
            "start",
            (x + sample.width() + 6.0, middle + 4.0),
            &name,
        );
        x += width + GAP;
    }
    if entries.is_empty() {
        top
    } else {
        y + LINE_HEIGHT + 6.0
    }
}

/// Draws a straight line.
pub(super) fn rule(markup: &mut Markup, class: &str, from: (f64, f64), to: (f64, f64)) {
    markup.leaf(
        "line",
        &[
            ("class", &class),
            ("x1", &Px(from.0)),
            ("y1", &Px(from.1)),
            ("x2", &Px(to.0)),
            ("y2", &Px(to.1)),
        ],
    );
}

/// Draws a rectangle between two corners, with a tooltip.
pub(super) fn rectangle(
    markup: &mut Markup,
    class: &str,
    from: (f64, f64),
    to: (f64, f64),
    says: &str,
) {
    markup.element(
        "rect",
        &[
            ("class", &class),
            ("x", &Px(from.0)),
            ("y", &Px(from.1)),
            ("width", &Px(to.0 - from.0)),
            ("height", &Px(to.1 - from.1)),
        ],
        |markup| {
            if !says.is_empty() {
                markup.line("title", &[], says);
            }
        },
    );
}

/// Draws text at a position.
pub(super) fn text(markup: &mut Markup, class: &str, anchor: &str, at: (f64, f64), text: &str) {
    let (x, y) = (Px(at.0), Px(at.1));
    if class.is_empty() {
        markup.line(
            "text",
            &[("text-anchor", &anchor), ("x", &x), ("y", &y)],
            text,
        );
    } else {
        let class: &dyn core::fmt::Display = &class;
        markup.line(
            "text",
            &[
                ("class", class),
                ("text-anchor", &anchor),
                ("x", &x),
                ("y", &y),
            ],
            text,
        );
    }
}

/// Estimates the width of a text of that size. There is no font to measure, so it is an
/// overestimate.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let widths = text.chars().map(|c| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '(' | ')' | ' ' => 0.35,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.92,
        'A'..='Z' => 0.7,
        _ => 0.6,
    });
    widths.sum::<f64>() * size
}

/// Writes that nothing could be drawn.
pub(super) fn no_data(markup: &mut Markup, area: &Area) {
    let middle = (
        f64::midpoint(area.left, area.right),
        f64::midpoint(area.top, area.bottom),
    );
    text(markup, "name", "middle", middle, "no data");
}

/// Shortens a text to at most this many characters.
fn shortened(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    text.chars().take(characters_max - 1).chain(['…']).collect()
}

/// Converts a small number that is whole already.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float's conversion saturates"
)]
pub(super) fn whole(value: f64) -> usize {
    value as usize
}
