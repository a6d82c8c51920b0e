//! `cargo xtask caches`: replicas that each have a cache, behind Slackwater by key, and behind
//! Envoy, `HAProxy` and nginx with consistent hashing.
//!
//! Each contender has its turn in each case and round, with replicas of its own, whose caches are
//! filled first. A few contenders have their turns side by side. Requests come at a fixed rate;
//! all contenders of a case and round get the same keys at the same times. The results are numbers,
//! and comparisons with the best peer. Only `--short` fails, and only if requests fail.

mod cases;
mod contenders;
mod lane;
mod measure;
mod options;
mod page;
mod tools;

use crate::command::{build, find_slackwater};
use crate::folder::Folder;
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::Processes;
use crate::output::say;
use crate::provenance::commit;
use cases::Case;
use contenders::Contender;
use lane::{Lane, Phase, Programs};
use measure::Found;
pub(crate) use options::Options;
use page::Report;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

/// Runs every selected case.
///
/// # Errors
///
/// Returns the step that failed, or, in the short form, what failed.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    say(&format!("at {}", commit()));
    let profile = options.profile();
    let slackwater = find_slackwater(options.slackwater.as_deref(), profile)?;
    let keyed = match &options.keyed {
        Some(file) => file.clone(),
        None => build("slackwater-keyed", profile, &[])?,
    };
    let (contenders, missing) = tools::present(&options.contenders);
    for missing in &missing {
        say(&format!("skipped: {missing}"));
    }
    let folder = Folder::new("caches", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;
    let programs = Programs {
        processes: &processes,
        slackwater: &slackwater,
        keyed: &keyed,
    };

    let mut report = Report::new(options, tools::versions(), missing);
    for round in 1..=options.rounds {
        for case in &options.cases {
            // In another order each round, so that no contender always has the same neighbour.
            let mut turns = contenders.clone();
            let by = usize::try_from(round - 1).unwrap_or_default() % turns.len().max(1);
            turns.rotate_left(by);
            let folder = folder.path.join(format!("{}-{round}", case.name));
            for side in turns.chunks(options.lanes) {
                let found = side_by_side(&programs, options, case, side, round, &folder)?;
                for (contender, found) in side.iter().zip(found) {
                    let what = format!("{}, round {round}, {}", case.name, contender.name);
                    match found {
                        Ok(found) => {
                            say(&format!("{what}: {}", found.line()));
                            report.add(case, contender, found);
                        }
                        Err(trouble) => report.miss(&what, &trouble),
                    }
                }
            }
        }
        report.write()?;
    }
    report.print();
    report.finish(options.short)
}

/// Gives a few contenders their turns at the same time. They reach each phase together, so that the
/// filling of one's caches, which needs the CPU, does not disturb the measurement of another.
fn side_by_side(
    programs: &Programs<'_>,
    options: &Options,
    case: &Case,
    contenders: &[Contender],
    round: u64,
    folder: &Path,
) -> Result<Vec<Result<Found, String>>, String> {
    let seed = options.seed.wrapping_add(round - 1);
    let mut ports = FreePorts::default();
    let mut lanes = Vec::with_capacity(contenders.len());
    for contender in contenders {
        let folder = folder.join(contender.name);
        lanes.push(Lane::new(
            *programs, options, case, contender, folder, &mut ports,
        )?);
    }
    drop(ports);
    let together = Barrier::new(lanes.len());
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = (lanes.into_iter())
            .map(|mut lane| {
                let together = &together;
                scope.spawn(move || {
                    let mut so_far = Ok(());
                    for phase in [Phase::Start, Phase::Fill] {
                        so_far = so_far.and_then(|()| lane.prepare(phase, seed));
                        // Even after a failure, because the others wait.
                        together.wait();
                    }
                    so_far.and_then(|()| lane.measure(seed))
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or_else(|_| Err("its thread has panicked".to_owned()))
        });
        joined.collect()
    }))
}
