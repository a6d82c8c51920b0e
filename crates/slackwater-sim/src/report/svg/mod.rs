//! Charts as SVG: the same chart gives the same bytes.
//!
//! The SVG is written by hand and not by a plotting crate, because pages follow the reader's choice
//! of light or dark: colours are CSS variables there, and series differ by mark and dash, too.
//! Pictures describe their content in words (`<title>`, `<desc>`).

mod bars;
mod describe;
mod frame;
mod heat;
mod lines;
mod path;
mod scale;
mod style;

pub(in crate::report) use style::{PALETTE, RULES, Styles};

use super::markup::Markup;
use crate::figure::{Chart, Plot};
use crate::number::Px;
use frame::WIDTH;

/// Returns a chart as a standalone SVG file, in the light colours on white: for pages that embed
/// pictures from elsewhere.
pub fn svg_document(chart: &Chart) -> String {
    document(chart, &Styles::of([chart]))
}

/// Same as [`svg_document`], with the styles that the chart's series have elsewhere.
pub(in crate::report) fn document(chart: &Chart, styles: &Styles) -> String {
    const MARGIN: f64 = 16.0;
    let mut inside = Markup::default();
    frame::text(&mut inside, "head", "start", (0.0, 15.0), &chart.title);
    let height = draw(&mut inside, 30.0, chart, styles) + 2.0 * MARGIN;
    let width = WIDTH + 2.0 * MARGIN;
    let view = format!("-{MARGIN} -{MARGIN} {} {}", Px(width), Px(height));
    let mut markup = Markup::default();
    markup.element(
        "svg",
        &[
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("class", &"chart"),
            ("role", &"img"),
            ("viewBox", &view),
            ("width", &Px(width)),
            ("height", &Px(height)),
        ],
        |markup| {
            markup.raw("\n");
            say(markup, chart);
            markup.element("style", &[], |markup| markup.raw(&style::rules_in_light()));
            markup.leaf(
                "rect",
                &[
                    ("x", &Px(-MARGIN)),
                    ("y", &Px(-MARGIN)),
                    ("width", &Px(width)),
                    ("height", &Px(height)),
                    ("fill", &"#ffffff"),
                ],
            );
            markup.raw(&inside.finish());
        },
    );
    markup.finish()
}

/// Draws a chart within a page, which has [`RULES`], the variables of [`PALETTE`] and the chart's
/// title above it. `id` is unique in the page.
pub(in crate::report) fn within_page(
    markup: &mut Markup,
    chart: &Chart,
    id: &str,
    styles: &Styles,
) {
    let mut inside = Markup::default();
    let height = draw(&mut inside, 2.0, chart, styles);
    let view = format!("0 0 {} {}", Px(WIDTH), Px(height));
    let (title, describes) = (format!("{id}-title"), format!("{id}-text"));
    let labels = format!("{title} {describes}");
    markup.element(
        "svg",
        &[
            ("class", &"chart"),
            ("role", &"img"),
            ("aria-labelledby", &labels),
            ("viewBox", &view),
        ],
        |markup| {
            markup.raw("\n");
            markup.line("title", &[("id", &title)], &chart.title);
            markup.element("desc", &[("id", &describes)], |markup| {
                markup.text(describe::description(chart));
                markup.text(" All numbers are in the table below the chart.");
            });
            markup.raw(&inside.finish());
        },
    );
}

fn say(markup: &mut Markup, chart: &Chart) {
    markup.line("title", &[], &chart.title);
    markup.line("desc", &[], describe::description(chart));
}

fn draw(markup: &mut Markup, top: f64, chart: &Chart, styles: &Styles) -> f64 {
    match &chart.plot {
        Plot::Lines(lines) => lines::draw(markup, top, chart, lines, None, styles),
        Plot::Steps { steps, lines } => lines::draw(markup, top, chart, lines, Some(steps), styles),
        Plot::Bars {
            groups,
            series,
            limit,
        } => bars::draw(markup, top, chart, (groups, series), *limit, styles),
        Plot::Heat {
            columns,
            rows,
            cells,
        } => heat::draw(markup, top, chart, columns, rows, cells),
    }
}

#[cfg(test)]
mod tests;
