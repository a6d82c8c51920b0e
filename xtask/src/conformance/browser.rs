//! Headless Chromium: a page over TLS that makes more requests, in parallel, and receives events.

use super::site::{HOST, Site};
use crate::loopback::http;
use crate::loopback::processes::wait_for;
use crate::report::{Outcome, Report};
use core::time::Duration;
use std::process::Command;

const STEP: &str = "Chromium";
const RUN_MAX: Duration = Duration::from_mins(1);
const EXPECTED: &str =
    "done: protocol h2; in parallel 50; sent 100000; part 206 234; events; websocket hello";

pub(super) fn run(site: &Site<'_>, report: &mut Report) {
    const WHAT: &str =
        "a page: HTTP/2, 50 requests at once, an upload, a range, events, a WebSocket";
    let chromium = match site.tools.get("chromium") {
        Ok(chromium) => chromium,
        Err(why) => return report.add(STEP, WHAT, Outcome::NotRun(why)),
    };
    let mut command = Command::new(chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu"]);
    // The certificate is issued for each run.
    command.arg("--ignore-certificate-errors");
    command.arg(format!(
        "--user-data-dir={}",
        site.folder.join("chromium").display()
    ));
    command.arg("--remote-debugging-port=0");
    command.arg(format!("https://{HOST}:{}/page", site.tls.port()));
    let outcome = site
        .processes
        .start("chromium", &mut command)
        .and_then(|mut browser| {
            wait_for("the page's report", RUN_MAX, || {
                browser.check_running()?;
                let said = http::get(site.plain, "/reported")?.body;
                Ok(Some(said).filter(|said| !said.is_empty()))
            })
        })
        .and_then(|said| {
            if said == EXPECTED {
                Ok(said)
            } else {
                Err(format!("{said:?}, expected {EXPECTED:?}"))
            }
        });
    report.add(STEP, WHAT, outcome);
}
