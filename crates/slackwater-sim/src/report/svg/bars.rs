//! Groups of bars, cut off at a limit if there is one.
//!
//! Linear bars begin at zero. A bar above the limit ends there, with its mark or its value written
//! over it.

use super::frame::{self, Area, Horizontal, Sample};
use super::scale::{Ends, Scale};
use super::style::{Style, Styles};
use crate::figure::{Bars, Chart};
use crate::number::{Px, significant};
use crate::report::markup::Markup;
use core::fmt::Write;

/// The part of a group's width that its bars take.
const GROUP_FILLED: f64 = 0.86;
/// The largest width of a bar.
const BAR_WIDTH_MAX: f64 = 48.0;

/// Draws below `top` and returns where it ends.
pub(super) fn draw(
    markup: &mut Markup,
    top: f64,
    chart: &Chart,
    (groups, series): (&[String], &[Bars]),
    limit: Option<f64>,
    styles: &Styles,
) -> f64 {
    let entries: Vec<(Style, &str)> = series
        .iter()
        .map(|bars| (styles.ours(&bars.name), bars.name.as_str()))
        .collect();
    let top = frame::legend(markup, top, Sample::Bar, &entries);
    let top = frame::vertical_name(markup, top, &chart.y.label);
    let values = series.iter().flat_map(|bars| &bars.values).copied();
    let limit = limit.filter(|limit| limit.is_finite());
    let cut = values.map(|value| limit.map_or(value, |limit| value.min(limit)));
    let y = Scale::new(cut, chart.y.log, Ends::FromZero, 6);
    // The texts over the bars need space above the highest one.
    let area = Area::below(top + 22.0, &y, groups);
    let x = Horizontal::Names(groups);
    frame::vertical_axis(markup, &area, &y);
    if let Some(limit) = limit.filter(|&limit| y.contains(limit)) {
        let at = area.y(&y, limit);
        frame::rule(markup, "limit", (area.left, at), (area.right, at));
    }
    let end = x.draw(markup, &area, &chart.x.label);
    if !series
        .iter()
        .flat_map(|bars| &bars.values)
        .any(|&value| y.shows(value))
    {
        frame::no_data(markup, &area);
    }
    let plot = Plot {
        area,
        y,
        limit,
        slot: x.slot(&area),
        count: series.len(),
    };
    for (index, (bars, (look, _))) in series.iter().zip(&entries).enumerate() {
        markup.element("g", &[("class", &look.colour_class())], |markup| {
            for (group, name) in groups.iter().enumerate() {
                plot.bar(markup, (bars, *look), index, (group, name));
            }
        });
    }
    end
}

struct Plot {
    area: Area,
    y: Scale,
    limit: Option<f64>,
    slot: f64,
    count: usize,
}

impl Plot {
    fn bar(
        &self,
        markup: &mut Markup,
        (bars, look): (&Bars, Style),
        index: usize,
        (group, name): (usize, &str),
    ) {
        let Some(&value) = bars.values.get(group).filter(|&&value| self.y.shows(value)) else {
            return;
        };
        let count = self.count as f64;
        let width = (self.slot * GROUP_FILLED / count).min(BAR_WIDTH_MAX);
        let middle = self.area.left + (group as f64 + 0.5) * self.slot;
        let left = middle + (index as f64 - count / 2.0) * width;
        let gap = if width > 6.0 { 1.0 } else { 0.0 };
        // A bar begins at zero, or at the nearer end of a scale without zero.
        let base = self.area.y(&self.y, self.y.clamp(0.0));
        let end = self.area.y(
            &self.y,
            self.y
                .clamp(self.limit.map_or(value, |limit| value.min(limit))),
        );
        let (top, bottom) = (end.min(base), end.max(base));
        let mark = bars.marks.get(group).and_then(Option::as_deref);
        let mut says = format!("{}, {name}: {}", bars.name, significant(value));
        if let Some(mark) = mark {
            // Writing to a string cannot fail.
            let _ = write!(says, " ({mark})");
        }
        frame::rectangle(
            markup,
            look.bar_class(),
            (left, top),
            (left + width - gap, bottom),
            &says,
        );
        let cut = self.limit.is_some_and(|limit| value > limit);
        let over = mark
            .map(str::to_owned)
            .or_else(|| cut.then(|| significant(value)));
        if let Some(over) = over {
            write_over(markup, (left + (width - gap) / 2.0, top), width, &over);
        }
    }
}

/// Writes text over a bar: horizontally if it is not wider than the bar, or else rotated and as
/// small as necessary.
fn write_over(markup: &mut Markup, (x, y): (f64, f64), bar_width: f64, text: &str) {
    const SIZE: f64 = 10.0;
    let level = frame::text_width(text, SIZE) <= bar_width;
    let size = if level {
        SIZE
    } else {
        bar_width.clamp(6.0, SIZE)
    };
    let (x, y) = if level {
        (x, y - 4.0)
    } else {
        (x + 0.36 * size, y - 3.0)
    };
    let turn = format!(
        "rotate({} {} {})",
        if level { 0 } else { -90 },
        Px(x),
        Px(y)
    );
    markup.line(
        "text",
        &[
            ("class", &"over"),
            ("font-size", &Px(size)),
            ("text-anchor", &if level { "middle" } else { "start" }),
            ("x", &Px(x)),
            ("y", &Px(y)),
            ("transform", &turn),
        ],
        text,
    );
}
