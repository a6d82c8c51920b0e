//! `cargo xtask troubles`: replicas that fail at once, hang, restart cold, or stall now and then;
//! `slackwater serve` before them with and without what it has against that, `slackwater load`
//! before it at a fixed rate.
//!
//! Every variant of a case has a *lane* of its own: replicas with an agent each, `serve`, and load,
//! all processes of their own on loopback. The lanes of a round suffer the same at the same time,
//! side by side, so that whatever else the machine does befalls all of them. What comes out are
//! numbers and claims held against them; only `--short`, which CI runs, fails, and only over what
//! is certain on a busy machine.

mod cases;
mod columns;
mod lane;
mod measure;
mod options;
mod page;
mod plan;
mod play;
mod results;

use crate::command::build_slackwater;
use crate::folder::Folder;
use crate::loopback::pair::Programs;
use crate::loopback::processes::Processes;
use crate::output::say;
use options::Options;
use page::Report;
use results::Results;

/// Runs every case that is asked for. An error says what could not be done, or, in the short form,
/// what does not hold.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    let slackwater = if let Some(file) = &options.slackwater {
        file.clone()
    } else {
        let profile = options.profile();
        say(&format!("building slackwater with the profile {profile}"));
        build_slackwater(profile, &[])?
    };
    let folder = Folder::new("troubles", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;
    let programs = Programs {
        processes: &processes,
        slackwater: &slackwater,
    };

    let mut report = Report::new(arguments);
    for case in &options.cases {
        let case = case(&options);
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
