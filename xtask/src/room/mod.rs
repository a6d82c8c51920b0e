//! `cargo xtask room`: whether policies know what room each replica has, between real processes
//! whose CPU really runs out.
//!
//! Replicas burn CPU for each request, each on a machine of its own: a group of processes with a
//! quota of the kernel's, and on some of them a neighbour that burns the rest. An agent is before
//! each, `slackwater serve` before them all, `slackwater load` before it at a fixed rate. Policies
//! take turns, in another order each round. What comes out are numbers; only `--short`, which CI
//! may run, fails over them, and only if a request failed.

mod cases;
mod cgroup;
mod cpu;
mod learned;
mod measure;
mod options;
mod page;
mod schedule;
mod site;

use crate::command::build;
use crate::folder::Folder;
use crate::loopback::pair::Programs;
use crate::loopback::processes::Processes;
use crate::output::say;
use crate::provenance::commit;
use cgroup::{Cgroups, SHARES};
use measure::Column;
use options::Options;
use page::Report;
use site::{Rig, places};

/// Before whatever else runs on this computer, which should be nothing.
const OUR_SHARES: u64 = 32 * SHARES;

/// Before all machines together, so that it is never `serve` that waits for a replica.
const APPARATUS_SHARES: u64 = 32 * SHARES;

/// Runs every case that is asked for.
///
/// # Errors
///
/// What could not be done, or, in the short form, what went wrong.
pub(crate) fn run(arguments: &[&str]) -> Result<(), String> {
    let options = Options::parse(arguments)?;
    say(&format!("at {}", commit()));
    // Before minutes are spent on building; what is built is no part of the apparatus.
    drop(Cgroups::new(OUR_SHARES, APPARATUS_SHARES)?);
    let profile = options.profile();
    let slackwater = match &options.slackwater {
        Some(file) => file.clone(),
        None => build("slackwater", profile, &[])?,
    };
    let burner = build("slackwater-burner", profile, &[])?;
    let cgroups = Cgroups::new(OUR_SHARES, APPARATUS_SHARES)?;
    let folder = Folder::new("room", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals_and(folder.path.clone(), options.keep, cgroups.ending())?;
    let programs = Programs {
        processes: &processes,
        slackwater: &slackwater,
    };

    let mut report = Report::new(arguments, &options)?;
    let mut fleets = Vec::new();
    for case in &options.cases {
        let places = places(&cgroups, case, options.period_ms)?;
        let rig = Rig {
            programs,
            burner: &burner,
            options: &options,
            case,
            places: &places,
        };
        let capacities = rig.calibrate()?;
        report.begin(case, &capacities);
        fleets.push((case, places, capacities));
    }
    let mut turn = 0;
    for round in 1..=options.rounds {
        let seed = options.seed.wrapping_add(round - 1);
        for (case, places, capacities) in &fleets {
            let rig = Rig {
                programs,
                burner: &burner,
                options: &options,
                case,
                places,
            };
            turn += 1;
            for policy in schedule::shuffled(&options.policies, options.seed, turn) {
                let what = format!("{}, round {round}, {policy}", case.name);
                let folder = folder.path.join(format!("{}-{round}-{policy}", case.name));
                match rig.play(&policy, seed, capacities, &folder) {
                    Ok(found) => {
                        let told = [Column::P50, Column::P99, Column::Errors, Column::Astray];
                        say(&format!("{what}: {}", page::summary(&found, &told)));
                        report.add(case.name, &policy, round, seed, found)?;
                    }
                    Err(trouble) => report.miss(&what, &trouble),
                }
            }
        }
        report.write()?;
    }
    report.print();
    report.finish(options.short)
}
