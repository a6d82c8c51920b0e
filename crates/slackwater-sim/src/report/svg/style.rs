//! Colours, marks and dashes: what tells one series from the others, in colour and without.
//!
//! Eight colours that stay apart for colour-blind readers, in a light and a dark form, each with a mark of its own. From the
//! ninth series on colours return with another mark and a dash, so that no two series of up to 64 look the same.

use crate::figure::{Chart, Plot};
use crate::report::markup::Markup;
use crate::report::number::Px;

/// What pictures and pages are coloured with: name, light, dark.
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

/// The rules that pictures are drawn by. In a page the variables follow the reader's choice of light or dark.
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
.chart .bar.again { fill-opacity: .35; stroke: currentColor; stroke-width: 1.2; stroke-dasharray: none; }
.chart .heat { fill: var(--heat); }
.chart .over { font-size: 10px; fill: var(--ink); }
.chart .c { color: var(--ink); } .chart .c0 { color: var(--s0); } .chart .c1 { color: var(--s1); }
.chart .c2 { color: var(--s2); } .chart .c3 { color: var(--s3); } .chart .c4 { color: var(--s4); }
.chart .c5 { color: var(--s5); } .chart .c6 { color: var(--s6); } .chart .c7 { color: var(--s7); }
";

/// [`RULES`] with the light colours written out, for readers of SVG that know no variables.
pub(super) fn rules_in_light() -> String {
    PALETTE
        .iter()
        .fold(RULES.to_owned(), |rules, (name, light, _)| {
            rules.replace(&format!("var(--{name})"), light)
        })
}

const COLOURS: usize = 8;
const MARKS: usize = 8;

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    /// `None`: the text's.
    colour: Option<usize>,
    mark: usize,
    stroke: Stroke,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stroke {
    Plain,
    /// A colour's second use.
    Again,
    /// A paper's numbers.
    Paper,
}

/// The looks of all series of a page, by name: one policy looks the same in all charts.
#[derive(Clone, Debug)]
pub(in crate::report) struct Styles {
    names: Vec<String>,
}

impl Styles {
    /// For `charts`, in the order in which series appear.
    pub(in crate::report) fn of<'a>(charts: impl IntoIterator<Item = &'a Chart>) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut add = |name: &String| {
            if !names.contains(name) {
                names.push(name.clone());
            }
        };
        for chart in charts {
            match &chart.plot {
                Plot::Lines(lines) | Plot::Steps { lines, .. } => {
                    for line in lines.iter().filter(|line| !line.reference) {
                        add(&line.name);
                    }
                }
                Plot::Bars { series, .. } => series.iter().for_each(|bars| add(&bars.name)),
                Plot::Heat { .. } => {}
            }
        }
        Self { names }
    }

    /// Of a series of ours.
    pub(super) fn ours(&self, name: &str) -> Style {
        let index = self.names.iter().position(|known| known == name);
        let index = index.unwrap_or(self.names.len());
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

    /// Of a paper's line: as our series whose name its own contains (the longest such name), else in the text's colour with
    /// the mark of that number.
    pub(super) fn paper(&self, name: &str, number: usize) -> Style {
        let contained = self
            .names
            .iter()
            .filter(|ours| name.contains(ours.as_str()));
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

impl Style {
    /// Class of the group that sets the colour.
    pub(super) fn colour_class(self) -> String {
        self.colour
            .map_or_else(|| "c".to_owned(), |index| format!("c{index}"))
    }

    /// Class of a line.
    pub(super) fn track_class(self) -> &'static str {
        match self.stroke {
            Stroke::Plain => "track",
            Stroke::Again => "track again",
            Stroke::Paper => "track paper",
        }
    }

    /// Class of a bar.
    pub(super) fn bar_class(self) -> &'static str {
        match self.stroke {
            Stroke::Plain | Stroke::Paper => "bar",
            Stroke::Again => "bar again",
        }
    }

    /// A mark around a place, and what it says when pointed at.
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
        let mut path = String::new();
        for (index, (dx, dy)) in CORNERS[self.mark].iter().enumerate() {
            path.push(if index == 0 { 'M' } else { 'L' });
            path.push_str(&format!("{} {}", Px(x + dx * SIZE), Px(y + dy * SIZE)));
        }
        if filled {
            path.push('Z');
        }
        markup.element("path", &[("class", &class), ("d", &path)], title);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn styles(count: usize) -> Styles {
        Styles {
            names: (0..count)
                .map(|index| format!("policy {index:02}"))
                .collect(),
        }
    }

    #[test]
    fn no_two_series_look_the_same() {
        let styles = styles(24);
        let looks: Vec<Style> = styles.names.iter().map(|name| styles.ours(name)).collect();
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
    fn a_paper_s_line_has_the_colour_of_ours() {
        let styles = Styles {
            names: vec!["prequal".into(), "prequal sync".into()],
        };
        let paper = styles.paper("prequal sync (paper)", 0);
        assert_eq!(paper.colour, styles.ours("prequal sync").colour);
        assert_eq!(paper.track_class(), "track paper");
        assert_eq!(styles.paper("the article", 2).colour, None);
        assert_eq!(styles.paper("the article", 2).mark, 2);
    }

    #[test]
    fn light_rules_need_no_variables() {
        assert!(!rules_in_light().contains("var("));
    }
}
