//! axe-core, a third-party set of rules for accessible pages: installed by npm for this check,
//! never shipped. Without npm the check is skipped, and the report says so.

use super::WINDOW;
use super::tab::{Tab, View};
use crate::loopback::processes::Processes;
use core::time::Duration;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The npm package.
const PACKAGE: &str = "axe-core@4.10.2";
const INSTALL_MAX: Duration = Duration::from_mins(2);

/// Rules of WCAG 2 at the levels A and AA, and axe's best practices. Returns the violations, each
/// with its first place.
const RUN: &str = "axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'] }) \
    .then(({ violations, passes }) => ({ passes: passes.length, broken: violations.map((it) => \
    `${it.id}: ${it.help}: ${it.nodes.length} places, ${it.nodes[0].target.join(' ')}: ${it.nodes[0].failureSummary}`) }))";

/// Returns its script, or why there is none.
pub(super) fn find(processes: &Processes, folder: &Path) -> Result<String, String> {
    let folder = folder.join("axe");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut command = Command::new("npm");
    command
        .args(["install", "--no-save", "--no-audit", "--no-fund"])
        .arg(PACKAGE)
        .current_dir(&folder);
    let ended = processes
        .run("npm", &mut command, INSTALL_MAX)
        .map_err(|error| format!("npm cannot be run ({error}); install node and npm"))?;
    if !ended.status.success() {
        let why = ended.err.lines().last().unwrap_or_default();
        return Err(format!("npm install {PACKAGE}: {}: {why}", ended.status));
    }
    let file = folder.join("node_modules/axe-core/axe.min.js");
    fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))
}

/// Checks the current page by the rules, in light and in dark.
pub(super) fn check(script: &Result<String, String>, tab: &mut Tab) -> Result<String, String> {
    let script = match script {
        Ok(script) => script,
        Err(why) => return Ok(format!("SKIPPED: {why}")),
    };
    tab.evaluate(&format!("{script}; true"))?;
    let mut passes = 0;
    for dark in [false, true] {
        tab.look(View { dark, ..WINDOW })?;
        let found = tab.evaluate(RUN)?;
        if found["broken"].as_array().is_none_or(|it| !it.is_empty()) {
            let theme = if dark { "dark" } else { "light" };
            return Err(format!("{theme}: {}", found["broken"]));
        }
        passes = found["passes"].as_u64().unwrap_or_default();
    }
    tab.look(WINDOW)?;
    Ok(format!("no findings; {passes} rules hold"))
}
