//! Problems of a process in words, as `slackwater admin status` and `slackwater top` show them.

use super::words::clock;
use crate::output::clean;
use core::time::Duration;
use slackwater_telemetry::problems::Problem;
use std::time::{SystemTime, UNIX_EPOCH};

/// A problem in a line, without what a terminal would obey: it comes from another machine.
pub(crate) fn problem_line(problem: &Problem, now: SystemTime) -> String {
    let mark = if problem.severe { "PROBLEM" } else { "problem" };
    let service = problem.service.as_deref().map(clean);
    let service = service.map_or_else(String::new, |service| format!("{service}: "));
    let began = |since_ms| UNIX_EPOCH.checked_add(Duration::from_millis(since_ms));
    let began = problem.since_ms.and_then(began);
    let since = began.map_or_else(String::new, |began| {
        let age = now.duration_since(began).unwrap_or_default();
        format!(", for {}", clock(age))
    });
    format!("{mark}: {service}{}{since}", clean(&problem.what))
}

/// A problem, with its remedy in a second line.
pub(crate) fn problem_lines(problem: &Problem, now: SystemTime) -> String {
    let line = problem_line(problem, now);
    if problem.remedy.is_empty() {
        format!("{line}\n")
    } else {
        format!("{line}\n         {}\n", clean(&problem.remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_shows_duration_and_remedy() {
        let problem = Problem {
            severe: true,
            service: Some("web".to_owned()),
            what: "all 3 replicas fail: connection refused".to_owned(),
            since_ms: Some(1_000),
            remedy: "start the server".to_owned(),
            ..Problem::default()
        };
        assert_eq!(
            problem_lines(&problem, UNIX_EPOCH + Duration::from_secs(13)),
            "PROBLEM: web: all 3 replicas fail: connection refused, for 0:12\n         \
             start the server\n"
        );
    }
}
