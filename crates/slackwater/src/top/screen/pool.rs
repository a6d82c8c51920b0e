//! The pool: the reports that the next pick chooses from, worker by worker, with the one that it would take.

use super::super::app::App;
use super::super::message::Report;
use super::super::words::{UNKNOWN, age, cut, latency, latency_if_any, plural};
use super::bar;
use super::canvas::Canvas;
use super::events::limit_words;
use crate::terminal::line::{Ink, Line};
use crate::terminal::words;
use slackwater_proxy::decisions::score_name;

/// Policies that choose by the hot-cold rule among the reports that are shown, and how many they need for it.
const RULED: [(&str, usize); 2] = [("prequal", 2), ("rif_then_latency", 1)];

/// The page.
pub(super) fn draw(app: &mut App, canvas: &mut Canvas<'_>) {
    app.hits.list = canvas.area();
    let model = app.model();
    let Some(tick) = model.service(app.service) else {
        return;
    };
    let policy = model.policy(app.service);
    canvas.line(&Line::default());
    if tick.pool.is_empty() {
        let text = " no reports: this policy keeps none, or nobody has answered a probe";
        canvas.line(&Line::default().with(Ink::Faint, text));
        return;
    }
    let limit = tick.rif_limit;
    let last = Last::of(policy, &tick.pool);
    let rule = match (limit, last) {
        (Some(limit), _) => format!("hot from RIF {} on", limit_words(limit)),
        (None, Last::Score(name)) => format!("the lowest {name} wins"),
        (None, _) => "nothing is hot".to_owned(),
    };
    let mut workers: Vec<u64> = tick.pool.iter().map(|report| report.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    let text = format!(
        " {} {} of {} {}; {rule}{}",
        words::count(tick.pool.len() as u64),
        plural("report", tick.pool.len()),
        words::count(workers.len() as u64),
        plural("worker", workers.len()),
        if needed(policy).is_some() || matches!(last, Last::Score(_)) {
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
    let highest = tick.pool.iter().map(|report| report.rif).max().unwrap_or(0);
    let mark = limit.map(|limit| limit.median);
    let end = bar::rif_scale(highest, mark);
    let room = canvas.height();
    let reports = sorted(&tick.pool);
    let next = next_ones(policy, &reports);
    for report in reports.iter().take(room) {
        let place = mark_of(report, &next);
        let row = model.row(app.service, report.replica);
        let name = row.map_or(UNKNOWN, |row| row.name);
        let line = Line::default()
            .with(Ink::Strong, format!(" {place}"))
            .ending_at(9, Ink::Faint, report.worker.to_string())
            .with(Ink::Plain, format!(" {}", cut(name, name_columns)))
            .ending_at(16 + name_columns, Ink::Plain, words::count(report.rif))
            .with(Ink::Plain, " ");
        let line = bar::marked(line, report.rif, end, mark, bar_columns, Ink::First)
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
    let reports = sorted(pool);
    let policy = model.policy(app.service);
    let next = next_ones(policy, &reports);
    let last = Last::of(policy, pool);
    let head = match last {
        Last::Score(name) => format!("  what is compared: RIF, age, {name}"),
        _ => "  the pool: what the next pick chooses from".to_owned(),
    };
    canvas.line(&Line::default().with(Ink::Faint, head));
    for report in reports.iter().take(canvas.height()) {
        let place = mark_of(report, &next);
        let row = model.row(app.service, report.replica);
        let name = row.map_or(UNKNOWN, |row| row.name);
        let line = Line::default()
            .with(Ink::Strong, format!(" {place}"))
            .with(Ink::Plain, format!(" {}", cut(name, 16)))
            .ending_at(23, Ink::Plain, words::count(report.rif));
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

fn mark_of(report: &Report, next: &[&Report]) -> &'static str {
    let is_next = next.iter().any(|next| core::ptr::eq(*next, report));
    if is_next { "▶" } else { " " }
}

/// What the last column has of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// What the policy compares, by this name.
    Score(&'static str),
    /// How often they may be used yet.
    Uses,
    /// There is no such column: their own figures are compared, as often as it takes.
    Nothing,
}

impl Last {
    fn of(policy: &str, pool: &[Report]) -> Self {
        if pool.iter().any(|report| report.score_us.is_some()) {
            Self::Score(score_name(Some(policy)))
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

    fn of_report(self, report: &Report) -> String {
        let text = match self {
            Self::Score(_) => report
                .score_us
                .map(|us| latency(u64::try_from(us).unwrap_or(0))),
            Self::Uses => report.uses_left.map(words::count),
            Self::Nothing => return String::new(),
        };
        text.unwrap_or_else(|| UNKNOWN.to_owned())
    }
}

/// Whether it is hot, where there is a limit, and whose count it is.
fn with_kind(line: Line, report: &Report, is_limited: bool) -> Line {
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

/// Worker by worker, in the order in which the policy takes them: by score, where there are scores, else by the hot-cold rule.
fn sorted(pool: &[Report]) -> Vec<&Report> {
    let mut reports: Vec<&Report> = pool.iter().collect();
    reports.sort_by_cached_key(|report| (report.worker, rank(report, pool)));
    reports
}

/// Those with a score by that, of equals the one first that the policy says is next; else the cold ones by latency, then the hot ones by RIF `[A7]`. An unknown latency counts as the median of those that the worker
/// knows, the lower one of two `[A7]`.
fn rank(report: &Report, pool: &[Report]) -> (Option<i64>, bool, bool, u64, u64) {
    let latency = report.latency_us.unwrap_or_else(|| {
        let of_worker = pool.iter().filter(|other| other.worker == report.worker);
        let mut known: Vec<u64> = of_worker.filter_map(|other| other.latency_us).collect();
        known.sort_unstable();
        known
            .get(known.len().saturating_sub(1) / 2)
            .copied()
            .unwrap_or(0)
    });
    if report.hot {
        (report.score_us, !report.next, true, report.rif, latency)
    } else {
        (report.score_us, !report.next, false, latency, report.rif)
    }
}

/// How many reports the policy needs to go by the hot-cold rule `[A8]`; `None` where it does not.
fn needed(policy: &str) -> Option<usize> {
    let ruled = RULED.into_iter().find(|(name, _)| *name == policy);
    ruled.map(|(_, reports)| reports)
}

/// The first of each worker, where the policy goes by that order and has as many reports as it needs; where there are scores,
/// there are enough. All that have the lowest, where chance draws among them.
fn next_ones<'a>(policy: &str, sorted: &[&'a Report]) -> Vec<&'a Report> {
    let needed = needed(policy);
    let of_one_worker = sorted.chunk_by(|left, right| left.worker == right.worker);
    let enough = of_one_worker.filter(|reports| {
        reports[0].score_us.is_some() || needed.is_some_and(|needed| reports.len() >= needed)
    });
    enough.flat_map(first_ones).copied().collect()
}

/// Of one worker's reports, in that order.
fn first_ones<'a, 'b>(reports: &'b [&'a Report]) -> &'b [&'a Report] {
    let score_us = reports[0].score_us;
    let is_drawn = score_us.is_some() && !reports[0].next;
    let equals = reports.iter().take_while(|it| it.score_us == score_us);
    &reports[..if is_drawn { equals.count() } else { 1 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(worker: u64, rif: u64, latency_us: Option<u64>, hot: bool) -> Report {
        Report {
            worker,
            rif,
            latency_us,
            hot,
            ..Report::default()
        }
    }

    #[test]
    fn the_cold_one_with_the_lowest_latency_goes_first_at_each_worker() {
        let pool = [
            report(1, 9, Some(1), true),
            report(1, 8, Some(2), true),
            report(0, 9, Some(1), true),
            report(0, 3, Some(30), false),
            report(0, 2, Some(20), false),
            report(0, 1, Some(20), false),
            report(0, 0, None, false),
            report(2, 0, Some(1), false),
        ];
        let sorted = sorted(&pool);
        let figures: Vec<(u64, u64)> = sorted
            .iter()
            .map(|report| (report.worker, report.rif))
            .collect();
        // The unknown one counts as 20, the median of 1, 20, 20 and 30.
        let expected = [
            (0, 0),
            (0, 1),
            (0, 2),
            (0, 3),
            (0, 9),
            (1, 8),
            (1, 9),
            (2, 0),
        ];
        assert_eq!(figures, expected);
        let next = next_ones("prequal", &sorted);
        let next: Vec<(u64, u64)> = next.iter().map(|next| (next.worker, next.rif)).collect();
        // The third worker has too few, but for a policy that keeps the latest report of each replica.
        assert_eq!(next, [(0, 0), (1, 8)]);
        assert_eq!(next_ones("rif_then_latency", &sorted).len(), 3);
        assert!(next_ones("linear", &sorted).is_empty());
    }

    #[test]
    fn where_there_are_scores_the_lowest_goes_first_and_stands_beside_it() {
        let scored = |worker, rif, score_us| Report {
            score_us: Some(score_us),
            ..report(worker, rif, Some(rif), false)
        };
        let pool = [
            scored(0, 1, 30_000),
            scored(0, 3, 9_400),
            scored(1, 2, 5),
            scored(0, 2, 9_400),
        ];
        let sorted = sorted(&pool);
        let rifs: Vec<u64> = sorted.iter().map(|report| report.rif).collect();
        assert_eq!(rifs, [2, 3, 1, 2], "equals by latency, which is as the RIF");
        let next = next_ones("shortest_expected_delay", &sorted);
        let next: Vec<(u64, u64)> = next.iter().map(|next| (next.worker, next.rif)).collect();
        assert_eq!(next, [(0, 2), (0, 3), (1, 2)], "chance draws");
        let mut pool = pool;
        pool[1].next = true;
        let sorted = super::sorted(&pool);
        let rifs: Vec<u64> = sorted.iter().map(|report| report.rif).collect();
        assert_eq!(rifs, [3, 2, 1, 2], "equals as the policy takes them");
        let next = next_ones("shortest_expected_delay", &sorted);
        let next: Vec<(u64, u64)> = next.iter().map(|next| (next.worker, next.rif)).collect();
        assert_eq!(next, [(0, 3), (1, 2)]);
    }

    #[test]
    fn the_last_column_has_what_the_policy_goes_by() {
        let used = Report {
            uses_left: Some(3),
            ..report(0, 1, None, false)
        };
        let scored = Report {
            score_us: Some(9_400),
            ..used.clone()
        };
        let plain = report(0, 1, None, false);
        let last = |policy, report: &Report| {
            let last = Last::of(policy, core::slice::from_ref(report));
            (last.head(), last.of_report(report))
        };
        let texts = |head: &str, text: &str| (head.to_owned(), text.to_owned());
        let by_default = last("shortest_expected_delay", &scored);
        assert_eq!(by_default, texts("EXPECTED DELAY", "9.4 ms"));
        assert_eq!(last("linear", &scored), texts("SCORE", "9.4 ms"));
        assert_eq!(last("prequal", &used), texts("USES LEFT", "3"));
        assert_eq!(last("rif_then_latency", &plain), texts("", ""));
        let unscored = Last::Score("score").of_report(&plain);
        assert_eq!(unscored, UNKNOWN, "too few at this worker");
    }

    #[test]
    fn nothing_is_cold_where_there_is_no_limit() {
        let of = |is_limited, hot| {
            let line = with_kind(Line::default(), &report(0, 1, None, hot), is_limited);
            line.render(40, false).trim_end().to_owned()
        };
        assert_eq!([of(true, false), of(true, true)], ["cold", "hot"]);
        assert_eq!(of(false, false), "");
    }

    #[test]
    fn an_unknown_latency_counts_as_the_lower_of_two_in_the_middle() {
        // As 10, it is lower than 30; as 30, the one with fewer in flight would go first.
        let pool = [
            report(0, 9, Some(10), true),
            report(0, 1, Some(30), false),
            report(0, 5, None, false),
        ];
        let sorted = sorted(&pool);
        assert_eq!(next_ones("prequal", &sorted)[0].rif, 5);
    }
}
