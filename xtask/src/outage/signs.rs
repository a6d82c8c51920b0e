//! The reports that must appear at each step, and where.

use super::site::Site;
use core::time::Duration;

/// Time limit for reporting an outage, and its end.
const SOON: Duration = Duration::from_secs(2);
/// Time limit for reporting the trouble of one replica among others.
const WITH_EVIDENCE: Duration = Duration::from_secs(5);

/// A report that must appear.
pub(super) struct Sign {
    pub(super) what: &'static str,
    /// Its time limit.
    pub(super) within: Duration,
    /// Looks for it; the error has what was found instead.
    pub(super) look: fn(&Site<'_>) -> Result<(), String>,
}

pub(super) const ONE_DOWN: &[Sign] = &[
    Sign {
        what: "log: a warning names the replica, the cause and what to do",
        within: WITH_EVIDENCE,
        look: |site| {
            let address = format!("address=\"{}\"", site.first());
            let log = site.log()?;
            let warns = |line: &&str| {
                line.contains(" WARN ") && line.contains(&address) && line.contains("remedy=\"")
            };
            let warning = log.lines().find(warns).ok_or_else(|| log.clone())?;
            has(warning, &["connection refused"])
        },
    },
    Sign {
        what: "/readyz: 200, and one replica fails",
        within: WITH_EVIDENCE,
        look: |site| ready(site, "/readyz", 200, &["serving\n", "1 of 3 replicas"]),
    },
    Sign {
        what: "/readyz?services=all: 200, for others take its requests",
        within: SOON,
        look: |site| ready(site, "/readyz?services=all", 200, &["serving\n"]),
    },
    Sign {
        what: "admin status: a problem, and the replica's state",
        within: WITH_EVIDENCE,
        look: |site| {
            has(
                &site.admin_status()?,
                &["problem: default: 1 of 3 replicas"],
            )
        },
    },
    Sign {
        what: "live stream: a problem",
        within: WITH_EVIDENCE,
        look: |site| live(site, "replicas_failing", false),
    },
];

pub(super) const ALL_DOWN: &[Sign] = &[
    Sign {
        what: "log: all replicas fail",
        within: SOON,
        look: |site| {
            has(
                &site.log()?,
                &["all replicas fail: connection refused", "remedy=\""],
            )
        },
    },
    Sign {
        what: "/readyz: 200, and all replicas fail",
        within: SOON,
        look: |site| {
            let problem = "problem: default: all 3 replicas fail: connection refused";
            ready(site, "/readyz", 200, &["serving\n", problem])
        },
    },
    Sign {
        what: "/readyz?services=all: 503",
        within: SOON,
        look: |site| {
            ready(
                site,
                "/readyz?services=all",
                503,
                &["no replica can answer: default"],
            )
        },
    },
    Sign {
        what: "/readyz?service=default: 503",
        within: SOON,
        look: |site| {
            ready(
                site,
                "/readyz?service=default",
                503,
                &["no replica can answer"],
            )
        },
    },
    Sign {
        what: "admin status: the problem, errors by kind, three replicas down with since when and why",
        within: SOON,
        look: |site| {
            let status = site.admin_status()?;
            has(
                &status,
                &[
                    "PROBLEM: default: all 3 replicas fail: connection refused, for ",
                    "% failed in the last",
                    "without a connection",
                ],
            )?;
            let is_down =
                |line: &&str| line.contains("  down ") && line.contains("failed in a row");
            match status.lines().filter(is_down).count() {
                3 => Ok(()),
                _ => Err(status),
            }
        },
    },
    Sign {
        what: "metrics: the service fails, and three replicas are down",
        within: SOON,
        look: |site| {
            let (_, metrics) = site.get("/metrics")?;
            has_line(
                &metrics,
                "slackwater_service_failing{service=\"default\"} 1",
            )?;
            let down = "slackwater_replicas_in_state{service=\"default\",state=\"down\"} 3";
            has_line(&metrics, down)?;
            has_line(
                &metrics,
                "slackwater_problems{kind=\"all_replicas_failing\"} 1",
            )
        },
    },
    Sign {
        what: "live stream: the problem, and the service's state",
        within: SOON,
        look: |site| live(site, "all_replicas_failing", true),
    },
    Sign {
        what: "decisions: failed requests are kept",
        within: SOON,
        look: |site| {
            let (_, decisions) = site.get("/decisions?failed=true&limit=1&format=text")?;
            has(&decisions, &["no_connection"])
        },
    },
];

pub(super) const OVER: &[Sign] = &[
    Sign {
        what: "log: replicas respond again",
        within: SOON,
        look: |site| has(&site.log()?, &["replicas respond again", "after="]),
    },
    Sign {
        what: "/readyz: no failing replicas",
        within: SOON,
        look: |site| {
            let (status, body) = site.get("/readyz")?;
            match (status, body.contains("replicas fail")) {
                (200, false) => Ok(()),
                _ => Err(format!("{status}: {body}")),
            }
        },
    },
    Sign {
        what: "/readyz?services=all: 200",
        within: SOON,
        look: |site| ready(site, "/readyz?services=all", 200, &["serving\n"]),
    },
    Sign {
        what: "admin status: not all replicas fail",
        within: SOON,
        look: |site| {
            let status = site.admin_status()?;
            if status.contains("replicas fail:") {
                return Err(status);
            }
            Ok(())
        },
    },
    Sign {
        what: "metrics: the service does not fail",
        within: SOON,
        look: |site| {
            let (_, metrics) = site.get("/metrics")?;
            has_line(
                &metrics,
                "slackwater_service_failing{service=\"default\"} 0",
            )
        },
    },
    Sign {
        what: "live stream: the service does not fail",
        within: SOON,
        look: |site| {
            let tick = site.tick();
            let fails = tick["services"][0]["all_fail"] == true;
            let kinds = tick["problems"].to_string();
            if fails || kinds.contains("all_replicas_failing") || tick.is_null() {
                return Err(kinds);
            }
            Ok(())
        },
    },
];

/// The response has this status and contains all of these texts.
fn ready(site: &Site<'_>, path: &str, status: u16, texts: &[&str]) -> Result<(), String> {
    let (found, body) = site.get(path)?;
    if found != status {
        return Err(format!("{found}: {body}"));
    }
    has(&body, texts)
}

/// The last tick has a problem of that kind, and the service's `all_fail` has this value.
fn live(site: &Site<'_>, kind: &str, all_fail: bool) -> Result<(), String> {
    let tick = site.tick();
    let problems = tick["problems"].as_array();
    let is_told = problems.is_some_and(|all| all.iter().any(|it| it["kind"] == kind));
    let fails = tick["services"][0]["all_fail"] == true;
    if is_told && fails == all_fail {
        return Ok(());
    }
    Err(tick["problems"].to_string())
}

fn has(text: &str, parts: &[&str]) -> Result<(), String> {
    match parts.iter().find(|part| !text.contains(**part)) {
        None => Ok(()),
        Some(part) => Err(format!("no {part:?} in {text}")),
    }
}

fn has_line(text: &str, line: &str) -> Result<(), String> {
    if text.lines().any(|it| it == line) {
        return Ok(());
    }
    let (name, _) = line.split_once('{').unwrap_or((line, ""));
    let found: Vec<_> = text.lines().filter(|it| it.starts_with(name)).collect();
    Err(format!("no {line:?}: {}", found.join(" / ")))
}
