//! The results: a table for each case, and comparisons with the best peer.

use super::cases::{Case, Trouble};
use super::contenders::Contender;
use super::measure::{Column, Found};
use super::options::Options;
use crate::output::say;
use crate::provenance::{self, commit, date, machine};
use crate::report::Page;
use crate::spread::Spread;
use crate::table::markdown;
use core::fmt::Write as _;
use serde_json::json;
use std::fs;
use std::io::Write as _;
use std::time::Instant;

const TITLE: &str = "Caches, between real processes";

const ABOUT: &str = "\
Replicas with a cache each, behind `slackwater serve` by key and behind Envoy, HAProxy and nginx with consistent\n\
hashing. A cell is the median of the rounds, with the least and the most of them in brackets.";

/// The goal: our p99, as a part of the best peer's.
const P99_GOAL: f64 = 0.7;

/// The goal: the most that our hit rate may be below the best peer's, in points.
const HITS_GOAL: f64 = 3.0;

/// All results so far.
#[derive(Debug)]
pub(super) struct Report<'a> {
    options: &'a Options,
    tools: String,
    /// Contenders that are not installed.
    skipped: Vec<String>,
    began: Instant,
    turns: Vec<Turn>,
    missed: Vec<String>,
}

#[derive(Debug)]
struct Turn {
    case: &'static str,
    trouble: Trouble,
    contender: Contender,
    found: Found,
}

impl<'a> Report<'a> {
    pub(super) fn new(options: &'a Options, tools: String, skipped: Vec<String>) -> Self {
        Self {
            options,
            tools,
            skipped,
            began: Instant::now(),
            turns: Vec::new(),
            missed: Vec::new(),
        }
    }

    /// Adds a turn.
    pub(super) fn add(&mut self, case: &Case, contender: &Contender, found: Found) {
        self.turns.push(Turn {
            case: case.name,
            trouble: case.trouble,
            contender: *contender,
            found,
        });
    }

    /// Records a turn that failed; the others count.
    pub(super) fn miss(&mut self, what: &str, trouble: &str) {
        let missed = format!("{what}: {trouble}");
        say(&missed);
        self.missed.push(missed);
    }

    /// Writes the page and the numbers, with the results so far.
    pub(super) fn write(&self) -> Result<(), String> {
        let Some(file) = &self.options.report else {
            return Ok(());
        };
        let page = Page {
            title: TITLE,
            about: ABOUT,
            tools: self.tools.clone(),
        };
        let text = page.head(&self.sum()) + &self.facts() + &self.sections();
        let turns = self.turns.iter().map(|turn| {
            json!({
                "case": turn.case, "contender": turn.contender.name,
                "troubled_replica": turn.found.troubled, "clients": turn.found.raw,
            })
        });
        let numbers = json!({
            "arguments": provenance::arguments().skip(1).collect::<Vec<_>>(),
            "commit": commit(),
            "date": date(),
            "machine": machine(),
            "tools": self.tools,
            "seed": self.options.seed,
            "turns": turns.collect::<Vec<_>>(),
            "missed": self.missed,
            "skipped": self.skipped,
        });
        let beside = file.with_extension("json");
        for (file, text) in [(file, text), (&beside, format!("{numbers:#}\n"))] {
            fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    }

    /// Prints all tables.
    pub(super) fn print(&self) {
        // Errors do not matter: the results are also in the file.
        let _ = writeln!(std::io::stdout(), "{}\n{}", self.sections(), self.sum());
    }

    /// Fails if a turn failed, or, if `none_may_fail`, if a request failed without a restart.
    pub(super) fn finish(&self, none_may_fail: bool) -> Result<(), String> {
        if !self.missed.is_empty() {
            return Err(self.missed.join("\n"));
        }
        let turns = self
            .turns
            .iter()
            .filter(|turn| turn.trouble != Trouble::Restart);
        let failed: u64 = turns.map(|turn| turn.found.errors()).sum();
        if none_may_fail && failed > 0 {
            return Err(format!("{failed} requests failed"));
        }
        Ok(())
    }

    /// What is played, and what the contenders use.
    fn facts(&self) -> String {
        let options = self.options;
        let mut text = format!(
            "- Seed: {}, and the next one for each further round\n\
             - Replicas: {}, each serves {} requests at once, and others wait in order; {} ms for a key in its cache, {} ms otherwise; \
             it uses no CPU meanwhile; the cache holds {} keys and evicts the least recently used\n\
             - Load: {} requests/s at random times, whatever the responses; {} keys by Zipf's law with exponent {}; each key once before, \
             the rarest first, then {} s of load, then {} s measured\n\
             - {} contenders at a time, each with processes of its own; one worker in each balancer; an agent before each replica of Slackwater's, none before the others'\n",
            options.seed,
            options.replicas,
            options.workers,
            options.hit_ms,
            options.hit_ms + options.miss_ms,
            options.cache,
            options.rate,
            options.keys,
            options.zipf,
            options.settle,
            options.seconds,
            options.lanes,
        );
        for contender in &options.contenders {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- {}: {}", contender.name, contender.means);
        }
        if !options.key.is_empty() {
            let _ = writeln!(
                text,
                "- Slackwater's `[key]`: `{}`",
                options.key.join("`, `")
            );
        }
        for skipped in &self.skipped {
            let _ = writeln!(text, "- Skipped: {skipped}");
        }
        for missed in &self.missed {
            let _ = writeln!(text, "- Not played: {missed}");
        }
        text + "\n*max/mean*: requests of the replica with the most of them, divided by the mean. *its share*: of the replica that is slow or\n\
                restarts. Latencies count from the time when a request was due, and include failed requests. *late*: the\n\
                generator's own delay at its 99th percentile.\n"
    }

    fn sections(&self) -> String {
        let cases = self.options.cases.iter();
        let sections = cases.map(|case| {
            let comparisons = self.comparisons(case).join("\n");
            format!(
                "\n## {}: {}\n\n{}\n{comparisons}\n",
                case.name,
                case.title,
                self.table(case)
            )
        });
        sections.collect()
    }

    fn spread(&self, case: &Case, contender: &Contender, column: Column) -> Option<Spread> {
        let turns = self.turns.iter();
        let turns = turns.filter(|turn| turn.case == case.name && turn.contender == *contender);
        Spread::of(turns.filter_map(|turn| turn.found.of(column)))
    }

    fn table(&self, case: &Case) -> String {
        let has_trouble = case.trouble != Trouble::None;
        let columns = Column::ALL.into_iter();
        let columns = columns.filter(|column| has_trouble || *column != Column::Share);
        let columns: Vec<_> = columns.collect();
        let titles = columns.iter().map(|column| column.title().to_owned());
        let mut rows = vec![
            [String::new()]
                .into_iter()
                .chain(titles)
                .collect::<Vec<_>>(),
        ];
        for contender in &self.options.contenders {
            let cells = columns.iter().map(|column| {
                let spread = self.spread(case, contender, *column);
                spread.map_or_else(|| "-".to_owned(), |spread| cell(*column, spread))
            });
            rows.push(
                [contender.name.to_owned()]
                    .into_iter()
                    .chain(cells)
                    .collect(),
            );
        }
        markdown(&rows)
    }

    /// Each of ours beside the peer with the lowest p99.
    fn comparisons(&self, case: &Case) -> Vec<String> {
        let median = |contender: &Contender, column| {
            let spread = self.spread(case, contender, column);
            spread.map(|spread| spread.median)
        };
        let rated = self.options.contenders.iter().filter_map(|contender| {
            let (p99, hits) = (
                median(contender, Column::P99)?,
                median(contender, Column::HitRate)?,
            );
            Some((contender, p99, hits))
        });
        let (ours, peers): (Vec<_>, Vec<_>) =
            rated.partition(|(contender, ..)| contender.is_ours());
        let best = peers
            .into_iter()
            .min_by(|(_, one, _), (_, other, _)| one.total_cmp(other));
        let Some((best, best_p99, best_hits)) = best else {
            return Vec::new();
        };
        let compare = |(contender, p99, hits): (&Contender, f64, f64)| {
            let (ratio, points) = (p99 / best_p99, hits - best_hits);
            let word = if ratio <= P99_GOAL && points >= -HITS_GOAL {
                "reached"
            } else {
                "missed"
            };
            format!(
                "- {}: p99 {ratio:.2} of the best peer's ({}), hit rate {points:+.1} points; the goal, {P99_GOAL} within {HITS_GOAL} points, is {word}",
                contender.name, best.name,
            )
        };
        ours.into_iter().map(compare).collect()
    }

    fn sum(&self) -> String {
        format!(
            "{} turns, {} could not be played, in {} s",
            self.turns.len(),
            self.missed.len(),
            self.began.elapsed().as_secs()
        )
    }
}

fn cell(column: Column, spread: Spread) -> String {
    let [median, least, most] =
        [spread.median, spread.least, spread.most].map(|value| column.written(value));
    if least == most {
        median
    } else {
        format!("{median} ({least}–{most})")
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::found;
    use super::*;
    use crate::arguments::parse;

    fn played(options: &Options) -> Report<'_> {
        let mut report = Report::new(options, String::new(), Vec::new());
        for (name, hits, p99_ms) in [
            ("nginx", 90, 400.0),
            ("haproxy", 80, 200.0),
            ("slackwater", 77, 140.0),
            ("slackwater", 77, 130.0),
            ("slackwater", 77, 150.0),
            ("slackwater-sync", 76, 100.0),
        ] {
            let mut contenders = options.contenders.iter();
            let contender = contenders.find(|contender| contender.name == name);
            report.add(&options.cases[0], contender.unwrap(), found(hits, p99_ms));
        }
        report
    }

    #[test]
    fn ours_is_compared_with_the_peer_of_the_lowest_p99() {
        let options: Options = parse(&["--case", "plain"]).unwrap();
        let text = played(&options).sections();
        assert!(text.contains("| 140 (130–150) |"), "{text}");
        assert!(!text.contains("its share"), "{text}");
        assert!(
            text.contains("- slackwater: p99 0.70 of the best peer's (haproxy), hit rate -3.0 points; the goal, 0.7 within 3 points, is reached"),
            "{text}"
        );
        assert!(
            text.contains(
                "(haproxy), hit rate -4.0 points; the goal, 0.7 within 3 points, is missed"
            ),
            "{text}"
        );
    }

    #[test]
    fn failed_turns_fail_the_run_and_requests_only_if_none_may_fail() {
        let options: Options = parse(&["--case", "plain"]).unwrap();
        let mut report = played(&options);
        assert_eq!(report.finish(false), Ok(()));
        assert_eq!(report.finish(true), Err("60 requests failed".to_owned()));
        report.miss("plain, round 1, nginx", "no port");
        let message = report.finish(false).unwrap_err();
        assert_eq!(message, "plain, round 1, nginx: no port");
    }
}
