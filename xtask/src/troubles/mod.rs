//! `cargo xtask troubles`: replicas that fail at once, hang, restart cold, or stall now and then,
//! behind `slackwater serve` with and without its mechanisms against that, and `slackwater load` at
//! a fixed rate.
//!
//! Every variant of a case has its own *lane*: replicas with an agent each, `serve`, and load, all
//! separate processes on loopback. The lanes of a round have the same trouble at the same time,
//! side by side, so that other load of the machine affects all of them. The results are numbers,
//! and claims about them. Only `--short`, which CI runs, fails, and only for claims that are
//! certain on a busy machine.

mod cases;
mod columns;
mod lane;
mod measure;
mod options;
mod page;
mod plan;
mod play;
mod results;

use crate::command::find_slackwater;
use crate::folder::Folder;
use crate::loopback::pair::Programs;
use crate::loopback::processes::Processes;
use crate::output::say;
pub(crate) use options::Options;
use page::Report;
use results::Results;

/// Runs every selected case. Returns an error if a step failed, or, in the short form, if a claim
/// does not hold.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let cases = options.cases()?;
    let slackwater = find_slackwater(options.slackwater.as_deref(), options.profile())?;
    let folder = Folder::new("troubles", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;
    let programs = Programs {
        processes: &processes,
        slackwater: &slackwater,
    };

    let mut report = Report::default();
    for case in cases {
        let case = case(options);
        let mut results = Results::default();
        for run in 1..=options.runs {
            for round in &case.rounds {
                let what = format!("{}, {}, run {run}", case.name, round.name);
                say(&format!(
                    "{what} of {}: {} variants, up to four at a time for {} s",
                    options.runs,
                    round.variants.len(),
                    round.lasts().as_secs(),
                ));
                let folder = folder
                    .path
                    .join(format!("{}-{}-{run}", case.name, round.id));
                match play::play(&programs, &folder, round, run) {
                    Ok(found) => results.add(round, run, found),
                    Err(trouble) => report.miss(&what, &trouble),
                }
            }
        }
        report.add(&case, &results);
    }
    if let Some(file) = &options.report {
        report.write(file)?;
    }
    report.finish(options.short)
}
