//! The experiments: each is a list of cells to play, claims of a paper to compare with the results,
//! and charts.
//!
//! A figure is a value: [`Figure::cells`] returns what to play, the runner plays it,
//! [`Figure::findings`] judges and draws. Adding a figure is one file here and one line in
//! [`FIGURES`].

mod beyond;
mod cells;
mod charts;
mod contest;
mod els;
mod fan_out;
mod fig10;
mod fig3;
mod fig6;
mod fig7;
mod fig8;
mod fig9;
mod health;
mod judge;
mod keyed;
mod linkerd;
mod mixed_fleets;
mod once;
mod opponent;
mod partitions;
mod play;
mod prompts;
mod replication;
mod roll_out;
mod shares;
mod slow_pod;
mod small_fleets;
mod subsets;
mod tail_at_scale;
mod tied;
#[cfg(test)]
mod trial;
mod workers;
mod worlds;
mod zones;

pub use play::play;

use crate::{Measured, PolicyChoice, Scenario, Seeds};
use cells::Plays;
use core::time::Duration;
use std::sync::Arc;

/// Every figure, in the order in which `all` plays them.
pub const FIGURES: &[&dyn Figure] = &[
    &fig3::Fig3,
    &fig6::Fig6,
    &fig7::Fig7,
    &fig8::Fig8,
    &fig9::Fig9,
    &fig10::Fig10,
    &linkerd::Linkerd,
    &els::Els,
    &slow_pod::SlowPod,
    &tail_at_scale::TailAtScale,
    &tied::Tied,
    &small_fleets::SmallFleets,
    &mixed_fleets::MixedFleets,
    &workers::Workers,
    &health::Health,
    &beyond::Beyond,
    &once::Once,
    &worlds::Worlds,
    &opponent::Opponent,
    &shares::Shares,
    &roll_out::RollOut,
    &keyed::Keyed,
    &partitions::Partitions,
    &replication::Replication,
    &zones::Zones,
    &prompts::Prompts,
    &subsets::Subsets,
];

/// Returns the figure of that name, if there is one.
pub fn named(name: &str) -> Option<&'static dyn Figure> {
    FIGURES.iter().copied().find(|figure| figure.name() == name)
}

/// How long a figure is played, as the user can set it.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The seeds. Each cell is played once with each.
    pub seeds: Seeds,
    /// Measured span; `None`: the figure's own.
    pub span: Option<Duration>,
    /// Warm-up; `None`: the figure's own.
    pub warmup: Option<Duration>,
}

/// One scenario under one policy. It is played once for each seed.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The step's name as in the paper: load multiple, Q, probes a query, λ, replicas x clients.
    pub step: String,
    /// Load as a multiple of the allocation (or of the capacity, where there is no allocation).
    pub load: f64,
    /// The policy.
    pub policy: PolicyChoice,
    /// The parameter that the cell varies, as `name=value`; empty if none.
    pub param: String,
    /// The scenario to play.
    pub scenario: Arc<Scenario>,
}

/// A cell and its results.
#[derive(Clone, Debug)]
pub struct Played {
    /// The cell.
    pub cell: Cell,
    /// Results seed by seed, in order.
    pub runs: Vec<Measured>,
    /// The results of all seeds together.
    pub all: Measured,
}

/// The name and description of an experiment.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// The name on the command line and in the column `figure`.
    pub name: &'static str,
    /// What it shows, in a line.
    pub title: &'static str,
    /// A description of the experiment, its source, and how ours may differ: a few sentences for
    /// the report.
    pub about: &'static str,
}

/// An experiment.
pub trait Figure: Sync {
    /// Returns the name and description.
    fn words(&self) -> Words;

    /// Returns the name on the command line and in the column `figure`.
    fn name(&self) -> &'static str {
        self.words().name
    }

    /// Returns what the figure shows, in a line.
    fn title(&self) -> &'static str {
        self.words().title
    }

    /// Returns a description of the experiment: a few sentences for the report.
    fn about(&self) -> &'static str {
        self.words().about
    }

    /// Returns the cells to play.
    fn cells(&self, effort: &Effort) -> Vec<Cell>;

    /// Judges the results. `played` is in the order of [`Figure::cells`]. A claim about missing
    /// cells is left out.
    fn findings(&self, played: &[Played]) -> Findings;
}

/// The findings of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Each claim of the paper, compared with the results.
    pub claims: Vec<Claim>,
    /// Pictures.
    pub charts: Vec<Chart>,
    /// Tables for what has no column in the CSV.
    pub tables: Vec<Table>,
}

impl Findings {
    /// Judges the plays that had queries. Without such plays there are no findings.
    fn of(played: &[Played], find: impl FnOnce(&Plays<'_>) -> Self) -> Self {
        let plays = Plays::new(played);
        if plays.iter().next().is_none() {
            Self::default()
        } else {
            find(&plays)
        }
    }
}

/// A claim of a paper and whether it holds here.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The paper's claim, in our words, with its number.
    pub says: String,
    /// Our result, with the number.
    pub found: String,
    /// Whether the two agree.
    pub verdict: Verdict,
}

/// Whether a claim was reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Within the stated bounds.
    Reproduced,
    /// Outside of the stated bounds.
    NotReproduced,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What it shows, in a line.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What is drawn.
    pub plot: Plot,
}

/// An axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Name and unit.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub log: bool,
}

/// What a chart draws.
#[derive(Clone, Debug)]
pub enum Plot {
    /// Lines with a mark at each point.
    Lines(Vec<Line>),
    /// Lines over steps that have names instead of numbers; a point's x is its step's index, from
    /// 0.
    Steps {
        /// The steps' names.
        steps: Vec<String>,
        /// As in `Lines`.
        lines: Vec<Line>,
    },
    /// Groups of bars, one group for each name.
    Bars {
        /// The groups' names.
        groups: Vec<String>,
        /// One bar of each series in each group.
        series: Vec<Bars>,
        /// Bars are cut off here and marked.
        limit: Option<f64>,
    },
    /// Shares of samples as shades: `cells[y][x]`.
    Heat {
        /// Names of the columns.
        columns: Vec<String>,
        /// Lower bounds of the rows, from the lowest.
        rows: Vec<f64>,
        /// Share of samples in the row, for each row and column, from 0 to 1.
        cells: Vec<Vec<f64>>,
    },
}

/// A line of a chart.
#[derive(Clone, Debug)]
pub struct Line {
    /// The legend's text.
    pub name: String,
    /// Points (x, y), by x.
    pub points: Vec<(f64, f64)>,
    /// Ends of the interval over seeds at each point, if known.
    pub interval: Vec<(f64, f64)>,
    /// Whether the numbers are a paper's and not ours. They are drawn dashed.
    pub reference: bool,
}

impl Line {
    /// Returns the interval at a point, if it is known, finite and not empty.
    pub(crate) fn interval_at(&self, index: usize) -> Option<(f64, f64)> {
        let known = self.interval.get(index).copied();
        known.filter(|&(low, high)| low < high && low.is_finite() && high.is_finite())
    }
}

/// Bars of one series, one for each group.
#[derive(Clone, Debug)]
pub struct Bars {
    /// The legend's text.
    pub name: String,
    /// Heights.
    pub values: Vec<f64>,
    /// The text over a bar, if there is any, such as "TO".
    pub marks: Vec<Option<String>>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Its head.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table with this title and head.
    fn new(title: String, columns: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self {
            title,
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_found_by_its_name() {
        for figure in FIGURES {
            let found = named(figure.name()).map(Figure::title);
            assert_eq!(found, Some(figure.title()));
        }
        assert!(named("fig1").is_none());
    }

    /// Step, policy and parameter identify a cell, and each cell can be played as it is.
    #[test]
    fn cells_are_distinct_and_can_be_played() {
        let effort = Effort {
            seeds: Seeds::up_to(1),
            span: Some(Duration::from_secs(7)),
            warmup: Some(Duration::from_secs(3)),
        };
        for figure in FIGURES {
            let cells = figure.cells(&effort);
            assert!(!cells.is_empty(), "{}", figure.name());
            let mut keys: Vec<_> = cells
                .iter()
                .map(|cell| (&cell.step, &cell.policy.name, &cell.param))
                .collect();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), cells.len(), "{}", figure.name());
            for cell in &cells {
                assert_eq!(
                    cell.scenario.mistakes(),
                    [],
                    "{} {}",
                    figure.name(),
                    cell.step
                );
                assert_eq!(
                    (cell.scenario.warmup, cell.scenario.span),
                    (Duration::from_secs(3), Duration::from_secs(7)),
                    "{}",
                    figure.name()
                );
            }
        }
    }

    #[test]
    fn no_runs_make_no_claims() {
        for figure in FIGURES {
            assert!(figure.findings(&[]).claims.is_empty(), "{}", figure.name());
        }
    }

    /// Without queries every latency and every error share is zero, so an upper bound would always
    /// hold.
    #[test]
    fn runs_without_queries_make_no_claims() {
        for figure in FIGURES {
            let played = trial::played(*figure, |cell| Measured::nothing(cell.scenario.replicas()));
            assert!(!played.is_empty());
            let claims = figure.findings(&played).claims;
            assert!(claims.is_empty(), "{}: {claims:?}", figure.name());
        }
    }
}
