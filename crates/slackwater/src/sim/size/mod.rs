//! `slackwater sim size`: how many replicas each policy needs to keep a service level.
//!
//! The scenario's total rate is fixed and the number of replicas varies. A number is enough if
//! every objective holds on every seed, and with one replica more as well (`search` explains why).

mod scale;
mod search;
mod slo;
mod table;

use super::effort::{self, Effort, EffortArgs};
use super::file::ScenarioFile;
use super::memory::{self, Runs};
use super::policies::{self, Around};
use super::progress::Meter;
use super::stop::Stop;
use super::summary;
use crate::output::print;
use scale::scaled;
use search::Search;
use slackwater_config::Fault;
use slackwater_sim::measure::BySecond;
use slackwater_sim::report::with_thousands;
use slackwater_sim::runner::{Job, run_all};
use slackwater_sim::{Measured, PolicyChoice, Scenario};
use slo::Slo;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Default of `--most`, as a multiple of the file's number of replicas.
const MOST_TIMES: usize = 16;

/// Policies to size by default: `serve`'s default, Prequal, and two without probes.
const DEFAULT_POLICIES: &str = "shortest_expected_delay,prequal,least_loaded,round_robin";

const EXAMPLES: &str = "\
Examples:
  slackwater sim size my-fleet.toml --slo p99.9=300ms
  slackwater sim size my-fleet.toml --slo p99=50ms --slo errors=0.1% --policy prequal,peak_ewma
  slackwater sim size my-fleet.toml --slo mean=20ms --policy all --most 500

The file's total rate is fixed; the number of its replicas varies, groups in proportion. Each
objective must hold on every seed. A failed query counts as never answered; mean leaves out early
failures.
Exit codes: 0 all policies were sized, also if none is enough; 1 failed; 2 bad arguments or file;
130 stopped.";

/// Arguments of `slackwater sim size`.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("{EXAMPLES}{}", policies::help()))]
pub(super) struct Args {
    /// The scenario, a TOML file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// An objective: p50, p90, p99, p99.9, p99.99 or mean=TIME, or errors=PERCENT%; may be given
    /// several times
    #[arg(long = "slo", value_name = "WHAT=BOUND", required = true)]
    slos: Vec<String>,
    /// The policies to size, separated by commas, or "all"
    #[arg(
        long = "policy",
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = DEFAULT_POLICIES
    )]
    policies: Vec<String>,
    /// Give up beyond N replicas [default: 16 times the file's, at most 10000]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = most_asked)]
    most: Option<usize>,
    #[command(flatten)]
    effort: EffortArgs,
}

/// One policy's search, and its measurements: seed by seed, for each number of replicas.
#[derive(Debug)]
struct Sizing {
    policy: PolicyChoice,
    search: Search,
    tried: BTreeMap<usize, Vec<Measured>>,
}

/// The checked question.
#[derive(Debug)]
struct Question {
    scenario: Scenario,
    slos: Vec<Slo>,
    effort: Effort,
    /// Memory that was free before anything was played, in bytes; `None` if unknown.
    available: Option<f64>,
}

/// Runs `slackwater sim size`.
pub(super) fn run(args: &Args) -> Result<(), Fault> {
    let effort = args.effort.effort();
    let slos = slo::all(&args.slos)?;
    let ScenarioFile {
        mut scenario,
        settings,
        health,
    } = ScenarioFile::load(&args.file)?;
    effort.apply(&mut scenario)?;
    let most = most(args.most, &scenario)?;
    let policies = policies::choose("--policy", &args.policies, &Around { settings, health })?;
    let question = Question {
        scenario,
        slos,
        effort,
        available: memory::available(),
    };
    question.warn_of_luck();
    let stop = Stop::on_signals()?;
    let meter = Meter::new("size");
    let sized = question.answer(policies, most, &meter, &stop)?;
    let elapsed = meter.elapsed();
    drop(meter);
    let text = table::text(&question, &sized, most);
    print(&format!("{text}{}\n", table::effort(&sized, elapsed)))
}

fn most_asked(text: &str) -> Result<usize, String> {
    effort::whole(text, Scenario::REPLICAS_MAX)
}

/// Returns the number of replicas above which the search gives up. This number can be played.
fn most(asked: Option<usize>, scenario: &Scenario) -> Result<usize, Fault> {
    let times = scenario.replicas().saturating_mul(MOST_TIMES);
    let most = asked.unwrap_or(times.min(Scenario::REPLICAS_MAX));
    let scaled = scaled(scenario, most);
    let mistakes = scaled.map(|scaled| scaled.mistakes()).unwrap_or_default();
    match mistakes.first() {
        None => Ok(most),
        Some(mistake) if asked.is_none() && scenario.replicas() < most => {
            Err(Fault::usage(format!(
                "with {most} replicas, as far as is searched, {}: {}; or give --most",
                mistake.field, mistake.message
            )))
        }
        Some(mistake) => Err(Fault::usage(format!(
            "--most {most}: {}: {}",
            mistake.field, mistake.message
        ))),
    }
}

impl Question {
    /// Sizes all policies at the same time, so that all threads are busy.
    fn answer(
        &self,
        policies: Vec<PolicyChoice>,
        most: usize,
        meter: &Meter,
        stop: &Stop,
    ) -> Result<Vec<Sizing>, Fault> {
        let least = (1..=most).find(|&replicas| scaled(&self.scenario, replicas).is_some());
        let Some(least) = least else {
            return Err(Fault::usage(format!(
                "--most {most}: is too few for the replicas that events are about"
            )));
        };
        let start = self.scenario.replicas().clamp(least, most);
        let mut sizings: Vec<_> = policies
            .into_iter()
            .map(|policy| Sizing {
                policy,
                search: Search::new(least, start, most),
                tried: BTreeMap::new(),
            })
            .collect();
        while self.advance(&mut sizings, meter, stop)? {
            if stop.is_set() {
                let sized = sizings
                    .iter()
                    .filter(|sizing| sizing.search.next().is_none());
                return Err(Stop::fault(&format!(
                    "{} of {} policies were sized, nothing is shown",
                    sized.count(),
                    sizings.len()
                )));
            }
        }
        Ok(sizings)
    }

    /// Plays the next number of replicas of each search that has one; returns `false` once none
    /// has. Runs that do not fit into memory at once are played on fewer threads; the result does
    /// not depend on that.
    fn advance(&self, sizings: &mut [Sizing], meter: &Meter, stop: &Stop) -> Result<bool, Fault> {
        let mut jobs = Vec::new();
        let mut tries = Vec::new();
        for (index, sizing) in sizings.iter_mut().enumerate() {
            let Some((replicas, scenario)) = sizing.next_try(&self.scenario) else {
                continue;
            };
            tries.push((index, replicas));
            jobs.extend(self.effort.seeds.iter().map(|seed| Job {
                scenario: Arc::clone(&scenario),
                policy: sizing.policy.clone(),
                seed,
            }));
        }
        if tries.is_empty() {
            return Ok(false);
        }
        let threads = self.threads(&jobs)?;
        let what = describe(&tries, sizings);
        let progress = |progress| meter.try_out(&what, progress);
        let mut runs = run_all(&jobs, threads, &progress, stop.flag()).into_iter();
        for (index, replicas) in tries {
            let seeds = self.effort.seeds.count();
            let played: Vec<_> = runs.by_ref().take(seeds).collect();
            if played.len() == seeds {
                sizings[index].record(replicas, played, &self.slos);
            }
        }
        Ok(true)
    }

    /// Number of threads on which the jobs fit into the available memory.
    fn threads(&self, jobs: &[Job]) -> Result<usize, Fault> {
        let runs = jobs.iter().map(|job| Runs {
            scenario: &job.scenario,
            count: 1,
        });
        memory::at_once(
            &runs.collect::<Vec<_>>(),
            self.effort.threads,
            self.available,
            memory::LOWER_ALL,
        )
    }

    /// Warns about quantiles that are determined by too few queries to be meaningful.
    fn warn_of_luck(&self) {
        let expected = summary::queries(&self.scenario);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float's conversion saturates"
        )]
        let queries = expected as u64;
        for slo in self.slos.iter().filter(|slo| slo.is_luck(queries)) {
            let _ = writeln!(
                std::io::stderr(),
                "warning: {} is decided by fewer than ten of some {} queries a seed; raise --seconds",
                slo.name(),
                with_thousands(&queries.to_string())
            );
        }
    }
}

impl Sizing {
    /// Returns the next number to try, and the scenario with this many replicas. A number that
    /// conflicts with an event is not enough. Neither is one with which too many queries would pile
    /// up under any policy for it to be played.
    fn next_try(&mut self, scenario: &Scenario) -> Option<(usize, Arc<Scenario>)> {
        let can_be_played = |scaled: &Scenario| scaled.mistakes().is_empty();
        loop {
            let replicas = self.search.next()?;
            match scaled(scenario, replicas).filter(can_be_played) {
                Some(scaled) => return Some((replicas, Arc::new(scaled))),
                None => self.search.record(replicas, false),
            }
        }
    }

    fn record(&mut self, replicas: usize, mut runs: Vec<Measured>, slos: &[Slo]) {
        for run in &mut runs {
            // No objective needs these, and the runs of all numbers are kept until the end.
            run.utilization.by_second = Vec::new();
            run.by_second = BySecond::default();
            run.latency_by_block = Vec::new();
        }
        self.search.record(replicas, is_enough(&runs, slos));
        self.tried.insert(replicas, runs);
    }
}

/// Returns whether every objective holds on every seed.
fn is_enough(runs: &[Measured], slos: &[Slo]) -> bool {
    runs.iter().all(|run| slos.iter().all(|slo| slo.holds(run)))
}

/// `8 replicas under prequal, random; 9 under least_loaded`; if there are many policies, only their
/// number.
fn describe(tries: &[(usize, usize)], sizings: &[Sizing]) -> String {
    const NAMED_MAX: usize = 4;
    let mut by_number = BTreeMap::<usize, Vec<&str>>::new();
    for &(index, replicas) in tries {
        let names = by_number.entry(replicas).or_default();
        names.push(&sizings[index].policy.name);
    }
    let parts = by_number
        .iter()
        .enumerate()
        .map(|(part, (&replicas, names))| {
            let number = match part {
                0 => summary::counted(replicas, "replica"),
                _ => with_thousands(&replicas.to_string()),
            };
            match names.len() {
                many if many > NAMED_MAX => format!("{number} under {many} policies"),
                _ => format!("{number} under {}", names.join(", ")),
            }
        });
    parts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use core::time::Duration;
    use slackwater_sim::Seeds;
    use slackwater_sim::presets::web;

    #[test]
    fn default_policies_include_that_of_serve() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            args: Args,
        }
        let said = ["size", "my-fleet.toml", "--slo", "mean=1ms"];
        let policies = Command::parse_from(said).args.policies;
        let default = slackwater_core::policy::DEFAULT_POLICY.name;
        assert_eq!(policies.first().map(String::as_str), Some(default));
        assert!(policies.len() > 1, "{policies:?}");
        let unknown = |name: &&String| PolicyChoice::named(name).is_none();
        assert_eq!(policies.iter().find(unknown), None);
    }

    /// The number that each of two policies needs, or the error.
    fn answers(threads: usize, available: Option<f64>) -> Result<Vec<Option<usize>>, String> {
        let question = Question {
            scenario: short(),
            slos: slo::all(&["mean=20ms".to_owned()]).expect("an objective"),
            effort: Effort {
                seeds: Seeds::new(1, 4),
                span: None,
                warmup: None,
                threads,
            },
            available,
        };
        let policies = ["random", "round_robin"].map(PolicyChoice::named);
        let policies = policies.into_iter().flatten().collect();
        let sized = question.answer(policies, 16, &Meter::new("size"), &Stop::never());
        sized
            .map(|sized| sized.iter().map(|sizing| sizing.search.answer()).collect())
            .map_err(|fault| fault.to_string())
    }

    /// A second of four small replicas.
    fn short() -> Scenario {
        Scenario {
            warmup: Duration::ZERO,
            span: Duration::from_secs(1),
            deadline: Duration::from_secs(1),
            cancel_expired: true,
            ..web(4, 1, 0.5)
        }
    }

    #[test]
    fn answers_do_not_depend_on_threads_or_memory() {
        let scenarios = (1..=16).filter_map(|replicas| scaled(&short(), replicas));
        let sizes = scenarios.map(|scenario| (scenario.memory_bytes(), scenario.kept_bytes()));
        let (one, kept) = sizes.fold((0.0_f64, 0.0_f64), |(one, kept), (this_one, this_kept)| {
            (one.max(this_one), kept.max(this_kept))
        });
        // Two policies with four seeds each: any single run fits, but not all eight.
        let fits = one + 16.0 * kept;
        assert!(8.0 * short().memory_bytes() + 16.0 * short().kept_bytes() > fits);
        let expected = answers(1, None);
        let found = expected.as_ref().expect("an answer");
        assert!(found.iter().all(Option::is_some), "{found:?}");
        for threads in [1, 2, 64] {
            assert_eq!(answers(threads, Some(fits)), expected, "{threads} threads");
            let told = answers(threads, Some(short().memory_bytes() / 2.0));
            let told = told.expect_err("one alone does not fit");
            assert!(told.starts_with("1 run at a time "), "{told}");
        }
    }

    #[test]
    fn recorded_runs_drop_their_largest_data() {
        let mut sizing = Sizing {
            policy: PolicyChoice::named("random").expect("a policy"),
            search: Search::new(1, 1, 1),
            tried: BTreeMap::new(),
        };
        let mut run = Measured::nothing(1);
        run.utilization.by_second = vec![0.5; 1_000];
        run.by_second.sent = vec![3; 1_000];
        run.by_second.errors = vec![1; 1_000];
        run.latency_by_block = vec![run.latency.clone(); 60];
        sizing.record(1, vec![run], &[]);
        let run = &sizing.tried[&1][0];
        assert_eq!(run.utilization.by_second.capacity(), 0);
        assert_eq!(run.by_second.sent.capacity(), 0);
        assert_eq!(run.by_second.errors.capacity(), 0);
        assert_eq!(run.latency_by_block.capacity(), 0);
    }

    #[test]
    fn tries_are_grouped_by_number_of_replicas() {
        let sizings: Vec<_> = PolicyChoice::names()
            .take(7)
            .filter_map(PolicyChoice::named)
            .map(|policy| Sizing {
                policy,
                search: Search::new(1, 1, 1),
                tried: BTreeMap::new(),
            })
            .collect();
        let names: Vec<_> = sizings.iter().map(|sizing| &sizing.policy.name).collect();
        assert_eq!(
            describe(&[(0, 8), (1, 9), (2, 8)], &sizings),
            format!(
                "8 replicas under {}, {}; 9 under {}",
                names[0], names[2], names[1]
            )
        );
        let same: Vec<_> = (0..5).map(|index| (index, 1)).collect();
        assert_eq!(describe(&same, &sizings), "1 replica under 5 policies");
    }
}
