//! The checks, in order. A failed check does not prevent the next one.

mod asking;
mod generators;
mod killing;
mod load;
mod rest;
mod stopping;
mod transfers;

use super::options::Options;
use super::site::Site;
use crate::report::Report;
use serde_json::Value;

/// Makes every check. Returns an error if a step could not be done.
pub(super) fn run(
    site: &mut Site<'_>,
    options: &Options,
    report: &mut Report,
) -> Result<(), String> {
    report.add(
        "start",
        "three servers, three agents, one serve",
        Ok(format!(
            "configuration of serve: {} lines",
            site.serve_lines
        )),
    );
    asking::run(site, report);
    load::run(site, options, report);
    killing::run(site, options, report)?;
    generators::run(site, report);
    transfers::run(site, options, report)?;
    rest::run(site, report);
    report.add(
        "running",
        "nothing ended but what was killed",
        site.check_running()
            .map(|()| "serve, agents, servers".to_owned()),
    );
    stopping::run(site, report);
    Ok(())
}

/// The result of a check with its numbers.
fn judge(passed: bool, numbers: String) -> Result<String, String> {
    if passed { Ok(numbers) } else { Err(numbers) }
}

/// Whether some worker may choose the replica by the replica's own report.
fn has_own_report(status: &Value, replica: &Value) -> bool {
    let workers = status["workers"].as_array().into_iter().flatten();
    let mut pooled = workers.flat_map(|worker| worker["pool"].as_array().into_iter().flatten());
    replica["probe_address"].is_string()
        && replica["available"] == true
        && replica["state"] != "unprobed"
        && replica["state"] != "draining"
        && pooled.any(|pooled| pooled["replica"] == replica["name"] && pooled["local"] == false)
}
