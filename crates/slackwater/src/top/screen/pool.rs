//! The pool: the reports that the next pick chooses from, worker by worker, with the one that it
//! would take.

use super::super::app::App;
use super::super::message::{PooledReport, RifLimit};
use super::super::words::{UNKNOWN, age, cut, latency, latency_if_any, plural};
use super::bar;
use super::canvas::Canvas;
use crate::terminal::line::{Ink, Line};
use crate::terminal::words;

/// The page.
pub(super) fn draw(app: &mut App, canvas: &mut Canvas<'_>) {
    app.hits.list = canvas.area();
    let model = app.model();
    let Some(tick) = model.service(app.service) else {
        return;
    };
    let score = model.score_name(app.service);
    canvas.line(&Line::default());
    if tick.pool.is_empty() {
        let text = " no reports: this policy keeps none, or nobody has answered a probe";
        canvas.line(&Line::default().with(Ink::Faint, text));
        return;
    }
    let limit = tick.rif_limit;
    let last = Last::of(score, &tick.pool);
    let rule = match (limit, last) {
        (Some(limit), _) => format!("hot from RIF {} on", limit_words(limit)),
        (None, Last::Score(name)) => format!("the lowest {name} wins"),
        (None, _) => "nothing is hot".to_owned(),
    };
    let mut workers: Vec<usize> = tick.pool.iter().map(|report| report.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    let text = format!(
        " {} {} of {} {}; {rule}{}",
        words::count(tick.pool.len() as u64),
        plural("report", tick.pool.len()),
        words::count(workers.len() as u64),
        plural("worker", workers.len()),
        if tick.pool.iter().any(|report| report.rank.is_some()) {
            "; ▶ goes first"
        } else {
            ""
        },
    );
    canvas.line(&Line::default().with(Ink::Plain, text));
    canvas.line(&Line::default());
    let name_columns = (canvas.width().saturating_sub(70)).clamp(16, 40);
    let bar_columns = canvas
        .width()
        .saturating_sub(name_columns + 64)
        .clamp(4, 40);
    let head = Line::default()
        .with(Ink::Faint, "   WORKER REPLICA")
        .padded_to(10 + name_columns)
        .ending_at(16 + name_columns, Ink::Faint, "RIF")
        .ending_at(27 + name_columns + bar_columns, Ink::Faint, "LATENCY")
        .ending_at(36 + name_columns + bar_columns, Ink::Faint, "AGE");
    let last_ends = 36 + name_columns + bar_columns + last.columns();
    canvas.line(&head.ending_at(last_ends, Ink::Faint, last.head()));
    let highest = tick
        .pool
        .iter()
        .map(|report| u64::from(report.rif))
        .max()
        .unwrap_or(0);
    let mark = limit.map(|limit| u64::from(limit.median));
    let end = bar::rif_scale(highest, mark);
    let room = canvas.height();
    let next = next_ones(&tick.pool);
    for report in tick.pool.iter().take(room) {
        let place = mark_of(report, &next);
        let row = model.row(app.service, report.replica);
        let name = row.map_or(UNKNOWN, |row| row.name);
        let line = Line::default()
            .with(Ink::Strong, format!(" {place}"))
            .ending_at(9, Ink::Faint, report.worker.to_string())
            .with(Ink::Plain, format!(" {}", cut(name, name_columns)))
            .ending_at(
                16 + name_columns,
                Ink::Plain,
                words::count(report.rif.into()),
            )
            .with(Ink::Plain, " ");
        let line = bar::marked(line, report.rif.into(), end, mark, bar_columns, Ink::First)
            .ending_at(
                27 + name_columns + bar_columns,
                Ink::Plain,
                latency_if_any(report.latency_us),
            )
            .ending_at(
                36 + name_columns + bar_columns,
                Ink::Faint,
                age(report.age_ms),
            )
            .ending_at(last_ends, Ink::Plain, last.of_report(report));
        canvas.line(&with_kind(
            line.with(Ink::Plain, "  "),
            report,
            limit.is_some(),
        ));
    }
}

/// The same, in a column beside the fleet.
pub(super) fn beside(app: &App, canvas: &mut Canvas<'_>) {
    let model = app.model();
    let tick = model.service(app.service);
    let Some(tick) = tick.filter(|tick| !tick.pool.is_empty()) else {
        return;
    };
    let pool = &tick.pool;
    let score = model.score_name(app.service);
    let next = next_ones(pool);
    let last = Last::of(score, pool);
    let head = match last {
        Last::Score(name) => format!("  what is compared: RIF, age, {name}"),
        _ => "  the pool: what the next pick chooses from".to_owned(),
    };
    canvas.line(&Line::default().with(Ink::Faint, head));
    for report in pool.iter().take(canvas.height()) {
        let place = mark_of(report, &next);
        let row = model.row(app.service, report.replica);
        let name = row.map_or(UNKNOWN, |row| row.name);
        let line = Line::default()
            .with(Ink::Strong, format!(" {place}"))
            .with(Ink::Plain, format!(" {}", cut(name, 16)))
            .ending_at(23, Ink::Plain, words::count(report.rif.into()));
        let line = if let Last::Score(_) = last {
            line.ending_at(31, Ink::Faint, age(report.age_ms))
                .ending_at(41, Ink::Plain, last.of_report(report))
        } else {
            line.ending_at(32, Ink::Plain, latency_if_any(report.latency_us))
                .ending_at(39, Ink::Faint, age(report.age_ms))
        };
        let line = line.with(Ink::Plain, " ");
        canvas.line(&with_kind(line, report, tick.rif_limit.is_some()));
    }
}

fn mark_of(report: &PooledReport, next: &[&PooledReport]) -> &'static str {
    let is_next = next.iter().any(|next| core::ptr::eq(*next, report));
    if is_next { "▶" } else { " " }
}

/// What the last column has of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last<'n> {
    /// What the policy compares, by this name.
    Score(&'n str),
    /// How often they may be used yet.
    Uses,
    /// There is no such column: their own figures are compared, as often as it takes.
    Nothing,
}

impl<'n> Last<'n> {
    fn of(score: &'n str, pool: &[PooledReport]) -> Self {
        if pool.iter().any(|report| report.score_us.is_some()) {
            Self::Score(score)
        } else if pool.iter().any(|report| report.uses_left.is_some()) {
            Self::Uses
        } else {
            Self::Nothing
        }
    }

    fn head(self) -> String {
        match self {
            Self::Score(name) => name.to_uppercase(),
            Self::Uses => "USES LEFT".to_owned(),
            Self::Nothing => String::new(),
        }
    }

    /// How wide it is, with the gap before it.
    fn columns(self) -> usize {
        match self {
            Self::Score(name) => name.len().max(8) + 2,
            Self::Uses => 11,
            Self::Nothing => 0,
        }
    }

    fn of_report(self, report: &PooledReport) -> String {
        let text = match self {
            Self::Score(_) => report
                .score_us
                .map(|us| latency(u64::try_from(us).unwrap_or(0))),
            Self::Uses => report.uses_left.map(|uses| words::count(uses.into())),
            Self::Nothing => return String::new(),
        };
        text.unwrap_or_else(|| UNKNOWN.to_owned())
    }
}

/// Whether it is hot, where there is a limit, and whose count it is.
fn with_kind(line: Line, report: &PooledReport, is_limited: bool) -> Line {
    let line = match (is_limited, report.hot) {
        (false, _) => line,
        (true, true) => line.with(Ink::Second, "hot"),
        (true, false) => line.with(Ink::First, "cold"),
    };
    if report.local {
        line.with(Ink::Faint, " own count")
    } else {
        line
    }
}

/// The first report of each worker, where reports decide. All that have the lowest score, where
/// chance draws among them.
fn next_ones(pool: &[PooledReport]) -> Vec<&PooledReport> {
    let of_one_worker = pool.chunk_by(|left, right| left.worker == right.worker);
    let decide = of_one_worker.filter(|reports| reports[0].rank.is_some());
    decide.flat_map(first_ones).collect()
}

/// Of one worker's reports, which come in the order of choice.
fn first_ones(reports: &[PooledReport]) -> &[PooledReport] {
    let score_us = reports[0].score_us;
    let is_drawn = score_us.is_some() && !reports[0].next;
    let equals = reports.iter().take_while(|it| it.score_us == score_us);
    &reports[..if is_drawn { equals.count() } else { 1 }]
}

/// The limit, and between which it lies where workers differ.
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
    fn the_first_of_each_worker_goes_first_where_reports_decide() {
        let pool = [
            report(0, 2, Some(0)),
            report(0, 1, Some(1)),
            report(1, 8, Some(0)),
            report(2, 0, None),
        ];
        assert_eq!(rifs(&next_ones(&pool)), [(0, 2), (1, 8)]);
    }

    #[test]
    fn of_equal_scores_all_go_first_unless_the_policy_says_which() {
        let scored = |worker, rif, rank, score_us| PooledReport {
            score_us: Some(score_us),
            ..report(worker, rif, Some(rank))
        };
        let mut pool = [
            scored(0, 2, 0, 9_400),
            scored(0, 3, 1, 9_400),
            scored(0, 1, 2, 30_000),
            scored(1, 2, 0, 5),
        ];
        assert_eq!(rifs(&next_ones(&pool)), [(0, 2), (0, 3), (1, 2)]);
        pool[0].next = true;
        assert_eq!(rifs(&next_ones(&pool)), [(0, 2), (1, 2)]);
    }

    #[test]
    fn the_last_column_has_what_the_policy_goes_by() {
        let used = PooledReport {
            uses_left: Some(3),
            ..report(0, 1, None)
        };
        let scored = PooledReport {
            score_us: Some(9_400),
            ..used
        };
        let plain = report(0, 1, None);
        let last = |score, report: &PooledReport| {
            let last = Last::of(score, core::slice::from_ref(report));
            (last.head(), last.of_report(report))
        };
        let texts = |head: &str, text: &str| (head.to_owned(), text.to_owned());
        let by_default = last("expected delay", &scored);
        assert_eq!(by_default, texts("EXPECTED DELAY", "9.4 ms"));
        assert_eq!(last("score", &scored), texts("SCORE", "9.4 ms"));
        assert_eq!(last("score", &used), texts("USES LEFT", "3"));
        assert_eq!(last("score", &plain), texts("", ""));
        let unscored = Last::Score("score").of_report(&plain);
        assert_eq!(unscored, UNKNOWN, "too few at this worker");
    }

    #[test]
    fn nothing_is_cold_where_there_is_no_limit() {
        let of = |is_limited, hot| {
            let report = PooledReport {
                hot,
                ..report(0, 1, None)
            };
            let line = with_kind(Line::default(), &report, is_limited);
            line.render(40, false).trim_end().to_owned()
        };
        assert_eq!([of(true, false), of(true, true)], ["cold", "hot"]);
        assert_eq!(of(false, false), "");
    }
}
