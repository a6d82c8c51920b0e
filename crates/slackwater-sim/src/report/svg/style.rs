//! Colours, marks and dashes, which distinguish series in colour and without.
//!
//! There are eight colours that colour-blind readers can distinguish, in a light and a dark form,
//! each with its own mark. From the ninth series on colours return with another mark and a dash, so
//! that no two series of up to 64 look the same.

use super::path::Path;
use crate::figure::{Chart, Plot};
use crate::number::Px;
use crate::report::markup::Markup;

/// The colours of pictures and pages: name, light, dark.
pub(in crate::report) const PALETTE: [(&str, &str, &str); 17] = [
    ("ground", "#f4f6f7", "#0d1418"),
    ("card", "#ffffff", "#141d23"),
    ("ink", "#14212a", "#e6eef1"),
    ("soft", "#51626d", "#9db0ba"),
    ("line", "#d6dee2", "#2a3840"),
    ("faint", "#eaeff1", "#1e2a31"),
    ("good", "#0b6e4f", "#4fd1a5"),
    ("bad", "#b3123c", "#ff7d9c"),
    ("heat", "#0b5c8f", "#6cc0f5"),
    ("s0", "#0067b0", "#5db4f0"),
    ("s1", "#c94f00", "#ff9455"),
    ("s2", "#00835c", "#41cf9f"),
    ("s3", "#8a44b3", "#c9a0ee"),
    ("s4", "#9a6a00", "#e6bb4d"),
    ("s5", "#c0286f", "#ff83b8"),
    ("s6", "#007f99", "#57cfe4"),
    ("s7", "#5b6770", "#b5c2c9"),
];

/// The CSS rules of pictures. In a page the variables follow the reader's choice of light or dark.
pub(in crate::report) const RULES: &str = "\
.chart { font-family: system-ui, -apple-system, \"Segoe UI\", Roboto, \"Noto Sans\", \"DejaVu Sans\", sans-serif; font-size: 12px; }
.chart text { fill: var(--soft); }
.chart .head { fill: var(--ink); font-size: 15px; font-weight: 600; }
.chart .name { fill: var(--ink); }
.chart .grid { stroke: var(--line); stroke-width: 1; }
.chart .minor { stroke: var(--faint); stroke-width: 1; }
.chart .axis { stroke: var(--soft); stroke-width: 1; }
.chart .limit { stroke: var(--bad); stroke-width: 1; stroke-dasharray: 2 3; }
.chart .track { fill: none; stroke: currentColor; stroke-width: 1.8; stroke-linejoin: round; }
.chart .again { stroke-dasharray: 9 3 2 3; }
.chart .paper { stroke-width: 1.4; stroke-dasharray: 5 4; }
.chart .span { fill: none; stroke: currentColor; stroke-width: 1.1; stroke-opacity: .7; }
.chart .mark { fill: currentColor; stroke: var(--card); stroke-width: .8; }
.chart .hollow { fill: var(--card); stroke: currentColor; stroke-width: 1.4; }
.chart .cross { fill: none; stroke: currentColor; stroke-width: 2; }
.chart .bar { fill: currentColor; }
.chart .bar.again { fill: var(--card); stroke: currentColor; stroke-width: 1.4; stroke-dasharray: none; }
.chart .heat { fill: var(--heat); shape-rendering: crispEdges; }
.chart .over { fill: var(--ink); }
.chart .c { color: var(--ink); } .chart .c0 { color: var(--s0); } .chart .c1 { color: var(--s1); }
.chart .c2 { color: var(--s2); } .chart .c3 { color: var(--s3); } .chart .c4 { color: var(--s4); }
.chart .c5 { color: var(--s5); } .chart .c6 { color: var(--s6); } .chart .c7 { color: var(--s7); }
";

/// Returns [`RULES`] with the light colours written out, for SVG viewers without CSS variables.
pub(super) fn rules_in_light() -> String {
    PALETTE
        .iter()
        .fold(RULES.to_owned(), |rules, (name, light, _)| {
            rules.replace(&format!("var(--{name})"), light)
        })
}

const COLOURS: usize = 8;
const MARKS: usize = 8;

/// The style of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// `None`: the colour of the text.
    colour: Option<usize>,
    mark: usize,
    stroke: Stroke,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stroke {
    Plain,
    /// The second series of a colour.
    Again,
    /// A paper's numbers.
    Paper,
}

/// The styles of all series of a page: a series looks the same in all charts, and series that occur
/// in one chart differ.
#[derive(Clone, Debug)]
pub(in crate::report) struct Styles {
    /// Names that share a chart, directly or through others, in the order in which they appear.
    families: Vec<Vec<String>>,
}

impl Styles {
    /// Returns the styles for `charts`.
    pub(in crate::report) fn of<'a>(charts: impl IntoIterator<Item = &'a Chart>) -> Self {
        let mut families: Vec<Vec<String>> = Vec::new();
        for chart in charts {
            let names = series_names(chart);
            let (met, mut others): (Vec<_>, Vec<_>) = families
                .into_iter()
                .partition(|family| family.iter().any(|name| names.contains(&name.as_str())));
            let mut family: Vec<String> = met.into_iter().flatten().collect();
            for name in names {
                if !family.iter().any(|known| known == name) {
                    family.push(name.to_owned());
                }
            }
            others.push(family);
            families = others;
        }
        Self { families }
    }

    /// Returns the style of a series of ours.
    pub(super) fn ours(&self, name: &str) -> Style {
        let place = |family: &Vec<String>| family.iter().position(|known| known == name);
        let index = self.families.iter().find_map(place).unwrap_or(0);
        let round = index / COLOURS;
        Style {
            colour: Some(index % COLOURS),
            mark: (index + 3 * round) % MARKS,
            stroke: if round == 0 {
                Stroke::Plain
            } else {
                Stroke::Again
            },
        }
    }

    /// Returns the style of a paper's line: that of our series whose name its own contains (the
    /// longest such name), or else the text's colour with the mark of that number.
    pub(super) fn paper(&self, name: &str, number: usize) -> Style {
        let names = self.families.iter().flatten();
        let contained = names.filter(|ours| name.contains(ours.as_str()));
        let style = contained.max_by_key(|ours| ours.len()).map_or(
            Style {
                colour: None,
                mark: number % MARKS,
                stroke: Stroke::Paper,
            },
            |ours| self.ours(ours),
        );
        Style {
            stroke: Stroke::Paper,
            ..style
        }
    }
}

/// Returns the names of our series in a chart.
fn series_names(chart: &Chart) -> Vec<&str> {
    match &chart.plot {
        Plot::Lines(lines) | Plot::Steps { lines, .. } => {
            let ours = lines.iter().filter(|line| !line.reference);
            ours.map(|line| line.name.as_str()).collect()
        }
        Plot::Bars { series, .. } => series.iter().map(|bars| bars.name.as_str()).collect(),
        Plot::Heat { .. } => Vec::new(),
    }
}

impl Style {
    /// Returns the class of the group that sets the colour.
    pub(super) fn colour_class(self) -> String {
        self.colour
            .map_or_else(|| "c".to_owned(), |index| format!("c{index}"))
    }

    /// Returns the class of a line.
    pub(super) fn track_class(self) -> &'static str {
        match self.stroke {
            Stroke::Plain => "track",
            Stroke::Again => "track again",
            Stroke::Paper => "track paper",
        }
    }

    /// Returns the class of a bar.
    pub(super) fn bar_class(self) -> &'static str {
        match self.stroke {
            Stroke::Plain | Stroke::Paper => "bar",
            Stroke::Again => "bar again",
        }
    }

    /// Draws a mark around a position, with a tooltip.
    pub(super) fn mark(self, markup: &mut Markup, x: f64, y: f64, says: &str) {
        /// Corners in units of the mark's size; the last two shapes are strokes.
        const CORNERS: [&[(f64, f64)]; MARKS] = [
            &[],
            &[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
            &[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)],
            &[(0.0, -1.3), (1.1, 0.0), (0.0, 1.3), (-1.1, 0.0)],
            &[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)],
            &[(-1.1, -0.9), (1.1, 0.9), (1.1, -0.9), (-1.1, 0.9)],
            &[
                (-0.9, -0.9),
                (0.9, 0.9),
                (0.0, 0.0),
                (-0.9, 0.9),
                (0.9, -0.9),
            ],
            &[(0.0, -1.2), (0.0, 1.2), (0.0, 0.0), (-1.2, 0.0), (1.2, 0.0)],
        ];
        const SIZE: f64 = 3.8;
        let filled = self.mark < 6;
        let class = match (filled, self.stroke) {
            (true, Stroke::Paper) => "hollow",
            (true, _) => "mark",
            (false, _) => "cross",
        };
        let title = |markup: &mut Markup| {
            if !says.is_empty() {
                markup.line("title", &[], says);
            }
        };
        if self.mark == 0 {
            markup.element(
                "circle",
                &[
                    ("class", &class),
                    ("cx", &Px(x)),
                    ("cy", &Px(y)),
                    ("r", &Px(SIZE)),
                ],
                title,
            );
            return;
        }
        let mut path = Path::default();
        for (index, (dx, dy)) in CORNERS[self.mark].iter().enumerate() {
            let corner = (x + dx * SIZE, y + dy * SIZE);
            if index == 0 {
                path.move_to(corner);
            } else {
                path.line_to(corner);
            }
        }
        if filled {
            path.close();
        }
        markup.element("path", &[("class", &class), ("d", &path)], title);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::example::{chart, line};

    fn styles(count: usize) -> Styles {
        let names = (0..count).map(|index| format!("policy {index:02}"));
        Styles {
            families: vec![names.collect()],
        }
    }

    #[test]
    fn series_styles_are_distinct() {
        let styles = styles(24);
        let looks: Vec<Style> = styles.families[0]
            .iter()
            .map(|name| styles.ours(name))
            .collect();
        for (index, look) in looks.iter().enumerate() {
            assert!(!looks[..index].contains(look), "{index}: {look:?}");
            let without_colour = |style: &Style| (style.mark, style.stroke);
            assert!(
                index >= 16
                    || looks[..index]
                        .iter()
                        .all(|other| without_colour(other) != without_colour(look)),
                "{index} needs its colour"
            );
        }
    }

    #[test]
    fn paper_line_has_the_colour_of_its_series() {
        let styles = Styles {
            families: vec![vec!["prequal".into(), "prequal sync".into()]],
        };
        let paper = styles.paper("prequal sync (paper)", 0);
        assert_eq!(paper.colour, styles.ours("prequal sync").colour);
        assert_eq!(paper.track_class(), "track paper");
        assert_eq!(styles.paper("the article", 2).colour, None);
        assert_eq!(styles.paper("the article", 2).mark, 2);
    }

    #[test]
    fn series_in_different_charts_may_share_a_style() {
        let with = |names: &[&str]| {
            let lines = names.iter().map(|name| line(name, &[]));
            chart("", Plot::Lines(lines.collect()))
        };
        let charts = [
            with(&["a", "b"]),
            with(&["x", "y"]),
            with(&["c"]),
            with(&["c", "b"]),
        ];
        let styles = Styles::of(&charts);
        assert_eq!(styles.ours("x"), styles.ours("a"));
        let met = ["a", "b", "c"].map(|name| styles.ours(name).colour);
        assert_eq!(met, [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn light_rules_use_no_variables() {
        assert!(!rules_in_light().contains("var("));
    }
}
