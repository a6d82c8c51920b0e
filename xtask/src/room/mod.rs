//! `cargo xtask room`: whether policies use the free capacity of each replica, between real
//! processes that really run out of CPU.
//!
//! Replicas burn CPU for each request. Each is on a machine of its own: a group of processes with a
//! quota, some with a neighbour that burns the rest. An agent is before each, `slackwater serve`
//! before all of them, and `slackwater load` sends requests at a fixed rate. Policies take turns,
//! in another order each round. The results are numbers; only `--short`, which CI may run, fails
//! because of them, and only if a request failed.

mod cases;
mod cgroup;
mod cpu;
mod learned;
mod measure;
mod options;
mod page;
mod schedule;
mod site;

use crate::command::{build, find_slackwater};
use crate::folder::Folder;
use crate::loopback::pair::Programs;
use crate::loopback::processes::Processes;
use crate::output::say;
use crate::provenance::commit;
use cgroup::{Cgroups, SHARES};
use measure::Column;
pub(crate) use options::Options;
use page::Report;
use site::{Rig, places};

/// Our shares, far more than those of anything else on this computer, which should be idle.
const OUR_SHARES: u64 = 32 * SHARES;

/// The apparatus' shares, far more than those of all machines, so that `serve` never waits for a
/// replica.
const APPARATUS_SHARES: u64 = 32 * SHARES;

/// Runs every selected case.
///
/// # Errors
///
/// Returns the step that failed, or, in the short form, the check that failed.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    say(&format!("at {}", commit()));
    // Checked before minutes are spent on building; building itself runs outside of the group.
    drop(Cgroups::new(OUR_SHARES, APPARATUS_SHARES)?);
    let profile = options.profile();
    let slackwater = find_slackwater(options.slackwater.as_deref(), profile)?;
    let burner = build("slackwater-burner", profile, &[])?;
    let cgroups = Cgroups::new(OUR_SHARES, APPARATUS_SHARES)?;
    let folder = Folder::new("room", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals_and(folder.path.clone(), options.keep, cgroups.ending())?;
    let programs = Programs {
        processes: &processes,
        slackwater: &slackwater,
    };

    let mut report = Report::new(options)?;
    let mut fleets = Vec::new();
    for case in &options.cases {
        let places = places(&cgroups, case, options.period_ms)?;
        let rig = Rig {
            programs,
            burner: &burner,
            options,
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
                options,
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
