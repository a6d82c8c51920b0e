//! One picture as plain text, for scripts and for terminals that cannot move their cursor.

use super::message::Latency;
use super::model::Model;
use super::words::{UNKNOWN, age, clean, cut, full, latency_if_any, percent, percent_of, rate};
use crate::terminal::problems::problem_lines;
use crate::terminal::words;
use crate::text_table::text_table;
use core::fmt::Write as _;
use core::time::Duration;

/// Most characters in a cell.
const CELL_MAX: usize = 64;

/// `FULL` is shown only if a replica reports its capacity; `RIF`, `LATENCY` and `AGE` only if
/// replicas report their load.
const HEADS: [&str; 11] = [
    "REPLICA", "STATE", "RIF", "FULL", "LATENCY", "AGE", "HERE", "LOAD", "REQ/S", "FAIL/S", "≈P99",
];

/// Columns from here on are figures, aligned to the right.
const FIGURES_FROM: usize = 2;

/// All services, each with its replicas.
pub(super) fn table(model: &Model, address: &str) -> String {
    let fleet = model.fleet();
    let mut text = format!(
        "slackwater {} {} at {address}",
        clean(&fleet.role),
        clean(&fleet.version)
    );
    if let Some(tick) = model.tick() {
        let up = words::clock(Duration::from_millis(tick.uptime_ms));
        // Writing to a string cannot fail.
        let _ = write!(text, ", {}, up {up}", tick.phase.as_str());
    }
    text.push('\n');
    let (problems, now) = model.problems();
    text.extend(problems.iter().map(|problem| problem_lines(problem, now)));
    // The verdict is empty before anything was measured.
    if let Some(demo) = model.demo().filter(|demo| !demo.verdict.is_empty()) {
        let _ = writeln!(text, "{}", clean(&demo.verdict));
    }
    for service in 0..fleet.services.len() {
        text.push('\n');
        head(model, service, &mut text);
        rows(model, service, &mut text);
    }
    text
}

fn head(model: &Model, service: usize, text: &mut String) {
    let (name, policy) = (model.service_name(service), model.policy(service));
    let _ = write!(text, "{}: {}", clean(name), clean(policy));
    if let Some(tick) = model.service(service) {
        let of = |of: fn(&Latency) -> u64| latency_if_any(tick.latency_10s.as_ref().map(of));
        let _ = write!(
            text,
            ", {} requests/s, errors {}, p50 {}, p99 {}, p99.9 {}",
            words::rate(tick.rate.round()),
            percent_of(tick.failed, tick.requests),
            of(|latency| latency.p50_us),
            of(|latency| latency.p99_us),
            of(|latency| latency.p999_us),
        );
        if let Some(limit) = tick.rif_limit {
            let _ = write!(text, ", RIF limit {}", words::count(limit.median.into()));
        }
    }
    text.push('\n');
}

fn rows(model: &Model, service: usize, text: &mut String) {
    let cells = model.rows(service).into_iter().map(|row| {
        let count = |count: Option<u64>| count.map_or(UNKNOWN.to_owned(), words::count);
        let state = match row.trouble {
            Some(trouble) if row.is_well() => trouble.to_string(),
            _ if row.state.is_empty() => UNKNOWN.to_owned(),
            _ => row.state.to_owned(),
        };
        [
            row.name.to_owned(),
            state,
            count(row.rif),
            row.full().map_or(UNKNOWN.to_owned(), full),
            latency_if_any(row.latency_us),
            row.report_age_ms.map_or(UNKNOWN.to_owned(), age),
            words::count(row.in_flight),
            percent(row.load),
            rate(row.rate),
            rate(row.failing),
            latency_if_any(row.p99_us),
        ]
        .map(|cell| cut(&clean(&cell), CELL_MAX))
    });
    let (capacity, reports) = (model.tells_capacity(service), model.has_reports(service));
    let is_shown = HEADS.map(|head| match head {
        "FULL" => capacity,
        "RIF" | "LATENCY" | "AGE" => reports,
        _ => true,
    });
    let heads = shown(&HEADS, is_shown);
    let cells = cells.map(|row| shown(&row, is_shown));
    text.push_str(&text_table(&heads, cells, FIGURES_FROM));
}

fn shown<T: Clone, const N: usize>(row: &[T; N], is_shown: [bool; N]) -> Vec<T> {
    let cells = row.iter().zip(is_shown);
    let shown = cells.filter(|(_, is_shown)| *is_shown);
    shown.map(|(cell, _)| cell.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn table_has_a_line_per_replica_and_aligned_columns() {
        let text = table(&samples::serve(), "127.0.0.1:9900");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4 + 1 + 1 + 20);
        assert_eq!(
            lines[0],
            "slackwater serve 0.1.0 at 127.0.0.1:9900, serving, up 3:03"
        );
        assert_eq!(
            lines[1..3],
            [
                "problem: web: 1 of 20 replicas ejected: 10.0.0.6:8080: too many failures, for 0:12",
                "         see the replica's own log for errors; compare what was deployed",
            ]
        );
        assert_eq!(
            lines[4],
            "web: prequal, 692 requests/s, errors 0.4 %, p50 21 ms, p99 109 ms, p99.9 197 ms, RIF limit 5"
        );
        assert_eq!(
            lines[5],
            "REPLICA         STATE        RIF  LATENCY     AGE  HERE   LOAD  REQ/S  FAIL/S    ≈P99"
        );
        assert_eq!(
            lines[11],
            "10.0.0.6:8080   ejected        4    21 ms   49 ms     3  0.0 %      0     2.0       –"
        );
    }

    #[test]
    fn utilization_has_a_column_if_a_replica_reports_its_capacity() {
        let mut tick = samples::serve_tick();
        let columns = &mut tick.services[0].replicas;
        columns.capacity_millirif = vec![Some(6_000); 20];
        let text = table(&samples::after_a_tick(samples::serve_fleet(), tick), "x:1");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[5].contains("  RIF   FULL  LATENCY  "), "{text}");
        assert!(lines[10].contains("    9  150 %   210 ms  "), "{text}");
        assert!(lines[11].contains("    4   67 %    21 ms  "), "{text}");
    }

    #[test]
    fn report_columns_are_hidden_without_reports() {
        let text = table(&samples::serve_without_reports(), "x:1");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[5],
            "REPLICA         STATE        HERE   LOAD  REQ/S  FAIL/S    ≈P99"
        );
    }

    #[test]
    fn a_demo_shows_its_verdict_and_both_sides() {
        let text = table(&samples::demo(), "x:1");
        assert!(
            text.contains("\nprequal's p99 is 0.06 of round_robin's"),
            "{text}"
        );
        assert!(
            text.contains("\nprequal: prequal, 776 requests/s"),
            "{text}"
        );
        assert!(
            text.contains("\nround_robin: round_robin, 780 requests/s"),
            "{text}"
        );
        let of_two = text.lines().filter(|line| line.starts_with("replica 2 "));
        let of_two: Vec<&str> = of_two.collect();
        assert_eq!(of_two.len(), 2);
        assert!(
            of_two.iter().all(|line| line.contains("60% taken")),
            "{text}"
        );
    }

    #[test]
    fn control_characters_in_remote_text_are_removed() {
        let mut fleet = samples::serve_fleet();
        fleet.services[0].name = "a\u{1b}]0;b\u{7}".to_owned();
        fleet.services[0].replicas[0].name = "\u{1b}[31m\nx".repeat(100);
        fleet.version = "\r".to_owned();
        let mut model = Model::default();
        model.take_fleet(fleet);
        let mut tick = samples::serve_tick();
        tick.problems[0].what = "\u{1b}[2J\n".to_owned();
        tick.problems[0].remedy = "\u{9b}\r".to_owned();
        model.take_tick(tick);
        let text = table(&model, "x:1");
        let is_unsafe = |letter: &char| letter.is_control() && *letter != '\n';
        assert_eq!(text.chars().find(is_unsafe), None);
        assert_eq!(text.lines().count(), 26);
    }
}
