//! The pool: the reports that the next pick chooses from, worker by worker, with the one that it
//! would pick.

use super::super::app::App;
use super::super::message::{PooledReport, RifLimit};
use super::super::words::{UNKNOWN, age, cut, latency_if_any, plural};
use super::canvas::Canvas;
use crate::terminal::line::{Ink, Line};
use crate::terminal::words;
use slackwater_telemetry::comparison::{ComparisonFacts, FactorFacts};

/// Draws the page.
pub(super) fn draw(app: &mut App, canvas: &mut Canvas<'_>) {
    app.hits.list = canvas.area();
    let model = app.model();
    let Some(tick) = model.service(app.service) else {
        return;
    };
    canvas.line(&Line::default());
    if tick.pool.is_empty() {
        let policy = model.policy_facts(app.service);
        let text = if policy.is_some_and(|policy| policy.comparison.is_empty()) {
            " nothing to compare: chance or turns decide under this policy"
        } else {
            " nothing to compare: no measurement is fresh"
        };
        canvas.line(&Line::default().with(Ink::Faint, text));
        return;
    }
    let compared = model.compared(app.service);
    let columns = Columns::of(compared.map(|(_, comparison)| comparison));
    let mut workers: Vec<usize> = tick.pool.iter().map(|report| report.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    let text = format!(
        " {} {} of {} {}{}",
        words::count(tick.pool.len() as u64),
        plural(subject(&tick.pool), tick.pool.len()),
        words::count(workers.len() as u64),
        plural("worker", workers.len()),
        if tick.pool.iter().any(|report| report.rank.is_some()) {
            "; ▶ goes first"
        } else {
            ""
        },
    );
    canvas.line(&Line::default().with(Ink::Plain, text));
    if let Some((of_worker, comparison)) = compared {
        let shared = comparison.shared.iter().map(|factor| {
            let value = of_worker.shared.get(&factor.key).copied();
            format!("; {} {}", factor.name, figure(factor, value))
        });
        let text = format!(" {}{}", comparison.formula, shared.collect::<String>());
        canvas.line(&Line::default().with(Ink::Faint, text));
    }
    canvas.line(&Line::default());
    let name_columns = (canvas.width().saturating_sub(columns.width() + 18)).clamp(16, 40);
    let begin = 10 + name_columns;
    canvas.line(&columns.head(Line::default().padded_to(begin), begin, 0));
    let head = Line::default().with(Ink::Faint, "   WORKER REPLICA");
    canvas.line(&columns.head(head.padded_to(begin), begin, 1));
    let room = canvas.height();
    let next = next_ones(&tick.pool);
    for report in tick.pool.iter().take(room) {
        let place = mark_of(report, &next);
        let row = model.row(app.service, report.replica);
        let name = row.map_or(UNKNOWN, |row| row.name);
        let line = Line::default()
            .with(Ink::Strong, format!(" {place}"))
            .ending_at(9, Ink::Faint, report.worker.to_string())
            .with(Ink::Plain, format!(" {}", cut(name, name_columns)));
        canvas.line(&columns.row(line, 10 + name_columns, report));
    }
}

/// Draws the pool as a column beside the fleet: the first factor, and the deciding one.
pub(super) fn beside(app: &App, canvas: &mut Canvas<'_>) {
    let model = app.model();
    let tick = model.service(app.service);
    let Some(tick) = tick.filter(|tick| !tick.pool.is_empty()) else {
        return;
    };
    let pool = &tick.pool;
    let next = next_ones(pool);
    let comparison = model
        .compared(app.service)
        .map(|(_, comparison)| comparison);
    let mut columns = Columns::of(comparison);
    columns.keep_two(comparison);
    let head = format!("  what is compared: {}", columns.names());
    canvas.line(&Line::default().with(Ink::Faint, head));
    for report in pool.iter().take(canvas.height()) {
        let place = mark_of(report, &next);
        let row = model.row(app.service, report.replica);
        let name = row.map_or(UNKNOWN, |row| row.name);
        let line = Line::default()
            .with(Ink::Strong, format!(" {place}"))
            .with(Ink::Plain, format!(" {}", cut(name, 16)));
        let cells = columns.cells(report);
        let line = (cells.iter().enumerate()).fold(line, |line, (place, cell)| {
            line.ending_at(29 + 10 * place, Ink::Plain, cell.clone())
        });
        canvas.line(&line);
    }
}

fn mark_of(report: &PooledReport, next: &[&PooledReport]) -> &'static str {
    let is_next = next.iter().any(|next| core::ptr::eq(*next, report));
    if is_next { "▶" } else { " " }
}

/// A column for each factor of a comparison. If nothing is compared, the columns show the reports.
struct Columns<'c>(Vec<Column<'c>>);

enum Column<'c> {
    /// A factor.
    Factor(&'c FactorFacts),
    /// Requests in flight, as reported.
    Rif,
    /// Latency, as reported.
    Latency,
    /// Age of the report.
    Age,
}

impl<'c> Columns<'c> {
    fn of(comparison: Option<&'c ComparisonFacts>) -> Self {
        let mut columns: Vec<_> = match comparison {
            Some(comparison) => comparison.factors.iter().map(Column::Factor).collect(),
            None => vec![Column::Rif, Column::Latency],
        };
        columns.push(Column::Age);
        Self(columns)
    }

    /// Keeps the first factor, and the one that decides first.
    fn keep_two(&mut self, comparison: Option<&ComparisonFacts>) {
        let decisive = comparison.and_then(|it| it.order.first());
        let is_decisive = |column: &Column<'_>| match (column, decisive) {
            (Column::Factor(factor), Some(step)) => factor.key == step.by && factor.unit != "flag",
            _ => false,
        };
        let place = self.0.iter().position(is_decisive).unwrap_or(1);
        let mut number = 0..;
        self.0
            .retain(|_| number.next().is_some_and(|it| it == 0 || it == place));
    }

    fn names(&self) -> String {
        let names: Vec<_> = self.0.iter().map(Column::name).collect();
        names.join(", ")
    }

    fn width(&self) -> usize {
        self.0.iter().map(Column::width).sum()
    }

    /// Draws one of the two lines above the columns. Names take as little width as possible.
    fn head(&self, line: Line, begin: usize, row: usize) -> Line {
        let mut end = begin;
        self.0.iter().fold(line, |line, column| {
            end += column.width();
            line.ending_at(end, Ink::Faint, column.heads()[row].to_uppercase())
        })
    }

    fn row(&self, line: Line, begin: usize, report: &PooledReport) -> Line {
        let mut end = begin;
        let cells = self.0.iter().zip(self.cells(report));
        let line = cells.fold(line, |line, (column, cell)| {
            end += column.width();
            line.ending_at(end, Ink::Plain, cell)
        });
        if report.local {
            line.with(Ink::Faint, "  measured here")
        } else {
            line
        }
    }

    fn cells(&self, report: &PooledReport) -> Vec<String> {
        self.0.iter().map(|column| column.of(report)).collect()
    }
}

impl Column<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Factor(factor) => &factor.name,
            Self::Rif => "requests in flight",
            Self::Latency => "latency",
            Self::Age => "age",
        }
    }

    /// The column's name on two lines, broken after the first word.
    fn heads(&self) -> [&str; 2] {
        self.name()
            .split_once(' ')
            .map_or(["", self.name()], |(first, rest)| [first, rest])
    }

    /// The column's width, including the gap before it.
    fn width(&self) -> usize {
        let heads = self.heads().map(|head| head.chars().count());
        heads[0].max(heads[1]).max(8) + 1
    }

    fn of(&self, report: &PooledReport) -> String {
        match self {
            Self::Factor(factor) => figure(factor, report.factors.get(&factor.key).copied()),
            Self::Rif => words::count(report.rif.into()),
            Self::Latency => latency_if_any(report.latency_us),
            Self::Age => age(report.age_ms),
        }
    }
}

/// The noun for the rows: reports, or replicas if no replica answers probes.
fn subject(pool: &[PooledReport]) -> &'static str {
    if pool.iter().all(|report| report.local) {
        "replica"
    } else {
        "report"
    }
}

/// A factor's value with its unit.
fn figure(factor: &FactorFacts, value: Option<f64>) -> String {
    let Some(value) = value else {
        return UNKNOWN.to_owned();
    };
    match factor.unit.as_str() {
        "microseconds" => words::ms(value / 1e3),
        "share" => format!("{:.0} %", value * 100.0),
        "flag" => if value > 0.0 { "yes" } else { "no" }.to_owned(),
        _ => {
            let text = format!("{value:.2}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
    }
}

/// The report that each worker would pick, if reports decide. If several have the lowest score, all
/// of them are returned, and a random one would be picked.
fn next_ones(pool: &[PooledReport]) -> Vec<&PooledReport> {
    let of_one_worker = pool.chunk_by(|left, right| left.worker == right.worker);
    let decide = of_one_worker.filter(|reports| reports[0].rank.is_some());
    decide.flat_map(first_ones).collect()
}

/// The first of one worker's reports, which are in the order of choice. If several are equally
/// good, the pick is random among them.
fn first_ones(reports: &[PooledReport]) -> &[PooledReport] {
    let is_drawn = !reports[0].next && !reports[0].factors.is_empty();
    let equals = reports
        .iter()
        .take_while(|it| it.factors == reports[0].factors);
    &reports[..if is_drawn { equals.count() } else { 1 }]
}

/// The limit, with its range if workers differ.
pub(super) fn limit_words(limit: RifLimit) -> String {
    let [min, median, max] =
        [limit.min, limit.median, limit.max].map(|rif| words::count(rif.into()));
    if min == max {
        median
    } else {
        format!("{median} ({min} to {max})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_telemetry::comparison::StepFacts;

    fn report(worker: usize, rif: u32, rank: Option<u32>) -> PooledReport {
        PooledReport {
            worker,
            rif,
            rank,
            ..PooledReport::default()
        }
    }

    fn rifs(next: &[&PooledReport]) -> Vec<(usize, u32)> {
        next.iter().map(|next| (next.worker, next.rif)).collect()
    }

    #[test]
    fn first_report_of_each_worker_is_next() {
        let pool = [
            report(0, 2, Some(0)),
            report(0, 1, Some(1)),
            report(1, 8, Some(0)),
            report(2, 0, None),
        ];
        assert_eq!(rifs(&next_ones(&pool)), [(0, 2), (1, 8)]);
    }

    fn delay(mut report: PooledReport, us: f64) -> PooledReport {
        report.factors = [("expected_delay_us".to_owned(), us)].into();
        report
    }

    #[test]
    fn tied_candidates_are_all_marked_unless_the_policy_chooses() {
        let mut pool = [
            delay(report(0, 2, Some(0)), 9_400.0),
            delay(report(0, 3, Some(1)), 9_400.0),
            delay(report(0, 1, Some(2)), 30_000.0),
            delay(report(1, 2, Some(0)), 5.0),
        ];
        assert_eq!(rifs(&next_ones(&pool)), [(0, 2), (0, 3), (1, 2)]);
        pool[0].next = true;
        assert_eq!(rifs(&next_ones(&pool)), [(0, 2), (1, 2)]);
    }

    #[test]
    fn each_factor_has_a_column_and_unknown_values_a_dash() {
        let factor = |key: &str, name: &str, unit: &str| FactorFacts {
            key: key.to_owned(),
            name: name.to_owned(),
            unit: unit.to_owned(),
        };
        let comparison = ComparisonFacts {
            factors: vec![
                factor("in_flight", "requests in flight", "requests"),
                factor("expected_delay_us", "expected delay", "microseconds"),
            ],
            order: vec![StepFacts {
                by: "expected_delay_us".to_owned(),
                ..StepFacts::default()
            }],
            ..ComparisonFacts::default()
        };
        let mut columns = Columns::of(Some(&comparison));
        let report = delay(report(0, 2, None), 9_400.0);
        assert_eq!(columns.cells(&report), [UNKNOWN, "9.4 ms", "0 ms"]);
        columns.keep_two(Some(&comparison));
        assert_eq!(columns.names(), "requests in flight, expected delay");
        assert_eq!(
            Columns::of(None).names(),
            "requests in flight, latency, age"
        );
    }

    #[test]
    fn local_measurements_are_not_called_reports() {
        let mut one = report(0, 1, None);
        let of = |report: &PooledReport| subject(core::slice::from_ref(report));
        assert_eq!(of(&one), "report");
        one.local = true;
        assert_eq!(of(&one), "replica");
    }
}
