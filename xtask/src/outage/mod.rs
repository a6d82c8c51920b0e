//! `cargo xtask outage`: no failure is silent.
//!
//! Real processes: three replicas, `serve` with its defaults, load; then the same with an agent
//! before each replica. One replica is killed, then the others, and all come back. At last an agent
//! is stopped, which is no failure. After each step the log, `/readyz`, `slackwater admin status`,
//! the metrics, the live stream and `/decisions` have two seconds to report it. For one replica
//! among others they have five: first kept connections break, which is no failed connection, and
//! then it gets few requests, so evidence takes longer.

mod live;
mod signs;
mod site;

use crate::command::{find_slackwater, first_line};
use crate::dashboard::Photographer;
use crate::folder::Folder;
use crate::loopback::pair::Programs;
use crate::loopback::processes::Processes;
use crate::report::{Page, Report};
use core::time::Duration;
use signs::Sign;
use site::{Lane, Site};
use std::path::PathBuf;
use std::time::Instant;

/// After the limit, a sign within this time is still reported as late.
const PATIENCE: Duration = Duration::from_secs(10);

/// A step: its name, what happens, and the reports that must follow.
type Step = (&'static str, site::Change, &'static [Sign]);

const KILL_ONE: site::Change = |site| site.kill_one();
const KILL_ALL: site::Change = |site| {
    site.kill_all();
    Ok(())
};
const RESTART_ALL: site::Change = |site| site.restart_all();

const DIRECT: &[Step] = &[
    ("one replica is killed", KILL_ONE, signs::ONE_DOWN),
    ("all replicas are killed", KILL_ALL, signs::ALL_DOWN),
    ("all replicas are back", RESTART_ALL, signs::OVER),
];

const AGENTS: &[Step] = &[
    ("one agent's server is killed", KILL_ONE, signs::ONE_DOWN),
    ("all agents' servers are killed", KILL_ALL, signs::ALL_DOWN),
    ("all agents' servers are back", RESTART_ALL, signs::OVER),
    (
        "one agent is stopped",
        |site| site.drain_one(),
        signs::DRAINING,
    ),
];

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Keeps the temporary folder with configuration and logs
    #[arg(long)]
    keep: bool,
    /// The command to test; built by default
    #[arg(long, value_name = "FILE")]
    slackwater: Option<PathBuf>,
    /// A folder for pictures of the dashboard; without it no browser is needed
    #[arg(long, value_name = "FOLDER")]
    shots: Option<PathBuf>,
    /// A file for the page, as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Plays an outage and checks all reports.
///
/// # Errors
///
/// Fails if a process did not start, or if a report was late.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let slackwater = find_slackwater(options.slackwater.as_deref(), "dev")?;
    let folder = Folder::new("outage", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;
    let photographer = match &options.shots {
        None => None,
        Some(shots) => Some(Photographer::start(&processes, &folder.path, shots)?),
    };
    let programs = Programs {
        processes: &processes,
        slackwater: &slackwater,
    };
    let mut report = Report::default();
    for (lane, steps) in [(Lane::Direct, DIRECT), (Lane::Agents, AGENTS)] {
        let mut site = Site::start(programs, &folder.path, lane)?;
        site.wait_until_it_serves()?;
        for &(step, change, signs) in steps {
            // Log lines of earlier steps must not count for this one.
            site.forget_log()?;
            change(&mut site)?;
            watch(&site, step, signs, &mut report);
            if let Some(photographer) = &photographer {
                let picture = step.replace(' ', "-").replace('\'', "");
                photographer.shoot(site.admin(), &picture)?;
            }
        }
    }
    let page = Page {
        title: "An outage, and how it is reported",
        about: "Three replicas behind `serve` with its defaults, then three behind agents, 100 requests per second; see `cargo xtask outage`.",
        tools: first_line("uname", &["-sr"]),
    };
    report.finish(&page, options.report.as_deref())
}

/// Polls all signs until they are there, and records how long each took.
fn watch(site: &Site<'_>, step: &'static str, signs: &[Sign], report: &mut Report) {
    let begun = Instant::now();
    let mut waiting: Vec<_> = signs.iter().collect();
    let mut last = Vec::new();
    while !waiting.is_empty() && begun.elapsed() < PATIENCE {
        last.clear();
        waiting.retain(|sign| match (sign.look)(site) {
            Ok(()) => {
                let took = begun.elapsed();
                let found = format!("after {:.1} s", took.as_secs_f32());
                let is_in_time = took <= sign.within;
                report.add(
                    step,
                    sign.what,
                    if is_in_time { Ok(found) } else { Err(found) },
                );
                false
            }
            Err(seen) => {
                last.push(seen);
                true
            }
        });
        std::thread::sleep(Duration::from_millis(20));
    }
    for (sign, seen) in waiting.into_iter().zip(last) {
        let within = PATIENCE.as_secs();
        report.add(
            step,
            sign.what,
            Err(format!("not within {within} s: {seen}")),
        );
    }
}
