//! The results: a table for each case, on the terminal and as a page, and every turn's numbers as a
//! line of JSON.

use super::cases::Case;
use super::learned;
use super::measure::{Column, Found};
use super::options::Options;
use super::site::Capacity;
use crate::output::say;
use crate::provenance::{commit, date, machine};
use crate::report::Page;
use crate::spread::Spread;
use crate::table::markdown;
use core::fmt::Write as _;
use serde_json::json;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

const TITLE: &str = "Room, between real processes";

const ABOUT: &str = "\
Replicas that burn CPU under quotas, some with neighbours, an agent before each, `slackwater serve` before them\n\
all, `slackwater load` at a fixed rate before it; [what is played](../../docs/research/room.md). Policies take turns, in another order each\n\
round; all of a round have the same arrivals and neighbours. A cell is the middle of the rounds, with the quarters in brackets, or\n\
the ends where there are fewer than five.";

/// All results so far.
#[derive(Debug)]
pub(super) struct Report<'a> {
    options: &'a Options,
    began: Instant,
    fleets: Vec<Fleet>,
    /// The file for lines.
    lines: Option<(PathBuf, File)>,
    missed: Vec<String>,
    /// Failed requests.
    failed: u64,
}

/// The results of a case.
#[derive(Debug)]
struct Fleet {
    name: &'static str,
    /// Title, rate, machines.
    about: String,
    turns: Vec<Turn>,
}

#[derive(Debug)]
struct Turn {
    policy: String,
    round: u64,
    found: Found,
}

impl<'a> Report<'a> {
    /// Opens the file for lines, so that a bad path is noticed before an hour of measurements.
    pub(super) fn new(options: &'a Options) -> Result<Self, String> {
        let lines = options.out.as_ref().map(|folder| {
            let file = folder.join("runs.jsonl");
            let made = fs::create_dir_all(folder).and_then(|()| File::create(&file));
            let made = made.map_err(|error| format!("{}: {error}", file.display()))?;
            Ok::<_, String>((file, made))
        });
        Ok(Self {
            options,
            began: Instant::now(),
            fleets: Vec::new(),
            lines: lines.transpose()?,
            missed: Vec::new(),
            failed: 0,
        })
    }

    /// Starts a case with the capacity of its machines.
    pub(super) fn begin(&mut self, case: &Case, capacities: &[Capacity]) {
        let rate = self.options.rate(case);
        let mut about = format!(
            "{}. {rate:.0} requests/s of {:.2} ms CPU in the mean, {} % of what the fleet can do.\n\n",
            case.title,
            self.options.cost_seconds() * 1e3,
            self.options.load_percent,
        );
        let mut rows = vec![
            [
                "machine",
                "quota, cores",
                "found, cores",
                "beside its neighbour",
                "CPU a request",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        let machines = case.machines.iter().zip(capacities).enumerate();
        rows.extend(machines.map(|(index, (machine, capacity))| {
            let beside = if machine.has_neighbour {
                format!("{:.3}", capacity.beside)
            } else {
                "-".to_owned()
            };
            vec![
                index.to_string(),
                format!("{:.2}", machine.quota_percent as f64 / 100.0),
                format!("{:.3}", capacity.alone),
                beside,
                format!("× {}", machine.slower),
            ]
        }));
        about += &markdown(&rows);
        self.fleets.push(Fleet {
            name: case.name,
            about,
            turns: Vec::new(),
        });
    }

    /// Adds a turn.
    pub(super) fn add(
        &mut self,
        case: &str,
        policy: &str,
        round: u64,
        seed: u64,
        found: Found,
    ) -> Result<(), String> {
        self.failed += found.raw["load"]["errors"].as_u64().unwrap_or_default();
        if let Some((path, file)) = &mut self.lines {
            let line = json!({
                "case": case, "policy": policy, "round": round, "seed": seed, "found": found.raw,
            });
            writeln!(file, "{line}").map_err(|error| format!("{}: {error}", path.display()))?;
        }
        if let Some(fleet) = self.fleets.iter_mut().find(|fleet| fleet.name == case) {
            fleet.turns.push(Turn {
                policy: policy.to_owned(),
                round,
                found,
            });
        }
        Ok(())
    }

    /// Records a turn that failed; the others count.
    pub(super) fn miss(&mut self, what: &str, trouble: &str) {
        let missed = format!("{what}: {trouble}");
        say(&missed);
        self.missed.push(missed);
    }

    /// Writes the page with the results so far.
    pub(super) fn write(&self) -> Result<(), String> {
        let Some(folder) = &self.options.out else {
            return Ok(());
        };
        let page = Page {
            title: TITLE,
            about: ABOUT,
            tools: String::new(),
        };
        let mut text = page.head(&self.sum());
        let options = self.options;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "- Seed: {}, and the next one for each further round\n- Quotas: by periods of {} ms\n- Replicas: {} threads each; `serve`: {} workers\n\
             - Every turn's numbers: `runs.jsonl`\n\n{}",
            options.seed,
            options.period_ms,
            options.threads,
            options.workers,
            self.sections(),
        );
        for missed in &self.missed {
            let _ = writeln!(text, "\nNot played: {missed}");
        }
        let file = folder.join("README.md");
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Prints all tables.
    pub(super) fn print(&self) {
        // Errors do not matter: the results are also in the file.
        let _ = writeln!(
            std::io::stdout(),
            "{TITLE}: {}, {}, {}\n\n{}\n{}",
            commit(),
            date(),
            machine(),
            self.sections(),
            self.sum()
        );
    }

    /// Fails if a turn failed, or, if `none_may_fail`, if a request failed.
    pub(super) fn finish(&self, none_may_fail: bool) -> Result<(), String> {
        if !self.missed.is_empty() {
            return Err(self.missed.join("\n"));
        }
        if none_may_fail && self.failed > 0 {
            return Err(format!("{} requests failed", self.failed));
        }
        Ok(())
    }

    fn sections(&self) -> String {
        let sections = self.fleets.iter().map(|fleet| {
            format!(
                "## {}\n\n{}\n{}\n{}\n{}",
                fleet.name,
                capitalized(&fleet.about),
                fleet.latencies(&self.options.policies),
                fleet.shares(&self.options.policies),
                learned::table(&self.options.policies, |policy| fleet.found(policy)),
            )
        });
        sections.collect::<Vec<_>>().join("\n")
    }

    fn sum(&self) -> String {
        let turns: usize = self.fleets.iter().map(|fleet| fleet.turns.len()).sum();
        format!(
            "{turns} turns, {} could not be played, in {} s",
            self.missed.len(),
            self.began.elapsed().as_secs()
        )
    }
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// A turn in a line.
pub(super) fn summary(found: &Found, columns: &[Column]) -> String {
    let told = columns.iter().filter_map(|column| {
        let value = found.of(*column)?;
        Some(format!("{} {}", column.title(), column.written(value)))
    });
    told.collect::<Vec<_>>().join(", ")
}

impl Fleet {
    fn found<'f>(&'f self, policy: &'f str) -> Vec<&'f Found> {
        self.of(policy).map(|turn| &turn.found).collect()
    }

    fn of<'f>(&'f self, policy: &'f str) -> impl Iterator<Item = &'f Turn> {
        self.turns.iter().filter(move |turn| turn.policy == policy)
    }

    /// A row for each policy.
    fn latencies(&self, policies: &[String]) -> String {
        let titles = Column::ALL.iter().map(|column| column.title());
        let titles = ["policy"].into_iter().chain(titles).chain(["best p99"]);
        let mut rows = vec![titles.map(str::to_owned).collect::<Vec<_>>()];
        let best = self.best();
        for policy in policies {
            let cells = Column::ALL.map(|column| {
                let values = self.of(policy).filter_map(|turn| turn.found.of(column));
                Spread::of(values).map_or_else(|| "-".to_owned(), |spread| cell(column, spread))
            });
            let won = best.iter().filter(|(_, best)| best == policy).count();
            let won = format!("{won} of {}", best.len());
            let cells = [policy.clone()].into_iter().chain(cells).chain([won]);
            rows.push(cells.collect());
        }
        markdown(&rows)
    }

    /// The policy with the lowest p99, for each round.
    fn best(&self) -> Vec<(u64, String)> {
        let p99 = |turn: &Turn| turn.found.of(Column::P99).unwrap_or(f64::INFINITY);
        let mut best: Vec<&Turn> = Vec::new();
        for turn in &self.turns {
            match best.iter_mut().find(|best| best.round == turn.round) {
                Some(best) if p99(turn) < p99(best) => *best = turn,
                Some(_) => (),
                None => best.push(turn),
            }
        }
        best.iter()
            .map(|turn| (turn.round, turn.policy.clone()))
            .collect()
    }

    /// The distribution of requests in percent: a row for the machines' capacity, and one for each
    /// policy.
    fn shares(&self, policies: &[String]) -> String {
        let machines = self.turns.first().map_or(0, |turn| turn.found.shares.len());
        let middle = |turns: &[&Turn], of: fn(&Found) -> &[f64]| -> Vec<String> {
            let of_each = (0..machines).map(|index| {
                let values = turns.iter().map(|turn| of(&turn.found)[index]);
                let spread = Spread::of(values);
                spread.map_or_else(|| "-".to_owned(), |spread| format!("{:.1}", spread.median))
            });
            of_each.collect()
        };
        let titles = (0..machines).map(|index| format!("machine {index}"));
        let titles = ["% of requests".to_owned()].into_iter().chain(titles);
        let all = middle(&self.turns.iter().collect::<Vec<_>>(), |found| {
            &found.capacity_shares
        });
        let all = ["what it can do".to_owned()].into_iter().chain(all);
        let mut rows = vec![titles.collect::<Vec<_>>(), all.collect()];
        for policy in policies {
            let shares = middle(&self.of(policy).collect::<Vec<_>>(), |found| &found.shares);
            rows.push([policy.clone()].into_iter().chain(shares).collect());
        }
        markdown(&rows)
    }
}

fn cell(column: Column, spread: Spread) -> String {
    let [median, low, high] =
        [spread.median, spread.low, spread.high].map(|value| column.written(value));
    if low == high {
        median
    } else {
        format!("{median} ({low}–{high})")
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::tests::found;
    use super::*;
    use crate::arguments::parse;

    fn played(options: &Options) -> Report<'_> {
        let mut report = Report::new(options).unwrap();
        let case = &options.cases[0];
        let capacity = Capacity {
            alone: 0.2,
            beside: 0.2,
        };
        report.begin(case, &[capacity; 6]);
        for (policy, round, p99_ms) in [
            ("random", 1, 20.0),
            ("prequal", 1, 10.0),
            ("prequal", 2, 30.0),
            ("random", 2, 40.0),
            ("random", 3, 25.0),
            ("prequal", 3, 26.0),
        ] {
            let found = found(p99_ms);
            report.add(case.name, policy, round, round, found).unwrap();
        }
        report
    }

    #[test]
    fn a_section_has_median_spread_and_the_best_policy() {
        let arguments = ["--case", "even", "--policies", "prequal,random,round_robin"];
        let options: Options = parse(&arguments).unwrap();
        let report = played(&options);
        let text = report.sections();
        assert!(
            text.starts_with(
                "## even\n\nAll alike. 415 requests/s of 2.17 ms CPU in the mean, 75 % of"
            ),
            "{text}"
        );
        let row = |policy: &str| {
            let row = text
                .lines()
                .find(|line| line.starts_with(&format!("| {policy} ")));
            let cells = row.unwrap().split('|').map(str::trim);
            cells.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(row("prequal")[3], "26 (10–30)");
        assert_eq!(row("prequal")[11], "0.25");
        assert_eq!(row("prequal")[12], "2 of 3");
        assert_eq!(row("random")[12], "1 of 3");
        assert_eq!(row("round_robin")[3], "-");
        assert!(
            text.contains("| what it can do | 75.0      | 25.0      |"),
            "{text}"
        );
        assert!(
            text.contains("| prequal        | 60.0      | 40.0      |"),
            "{text}"
        );
        assert!(text.contains("\n| learned "), "{text}");
    }

    #[test]
    fn failed_turns_fail_the_run_and_requests_only_if_none_may_fail() {
        let options: Options = parse(&["--case", "even"]).unwrap();
        let mut report = played(&options);
        assert_eq!(report.finish(false), Ok(()));
        assert_eq!(report.finish(true), Err("30 requests failed".to_owned()));
        report.miss("even, round 1, random", "no port");
        let message = report.finish(false).unwrap_err();
        assert_eq!(message, "even, round 1, random: no port");
    }
}
