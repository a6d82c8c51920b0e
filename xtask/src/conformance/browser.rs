//! Chromium, without a window: a page over TLS that asks for more, in parallel, and listens to events.

use super::report::{Outcome, Report};
use super::site::{HOST, Site};
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
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--ignore-certificate-errors",
    ]);
    command.args(["--virtual-time-budget=20000", "--dump-dom"]);
    command.arg(format!(
        "--user-data-dir={}",
        site.folder.join("chromium").display()
    ));
    command.arg(format!("https://{HOST}:{}/page", site.tls.port()));
    let outcome = site
        .processes
        .run(STEP, &mut command, RUN_MAX)
        .and_then(|ended| {
            let body = ended.out.split_once("<body>").map_or("", |(_, body)| body);
            let said = body.split("</body>").next().unwrap_or_default().trim();
            if said == EXPECTED {
                Ok(said.to_owned())
            } else {
                Err(format!("{said:?}, expected {EXPECTED:?}"))
            }
        });
    report.add(STEP, WHAT, outcome);
}
