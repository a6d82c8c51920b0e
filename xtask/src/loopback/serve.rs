//! Starts `slackwater serve` and waits for it.

use super::http;
use super::processes::{Process, Processes, wait_for};
use core::net::SocketAddr;
use core::time::Duration;
use std::path::Path;
use std::process::Command;

/// Starts `serve` with the configuration in `file`, and waits until its admin server reports it as
/// ready.
pub(crate) fn start(
    processes: &Processes,
    slackwater: &Path,
    file: &Path,
    (admin, limit): (SocketAddr, Duration),
) -> Result<Process, String> {
    let mut command = Command::new(slackwater);
    command.arg("serve").arg("--config").arg(file);
    let mut serve = processes.start("serve", &mut command)?;
    wait_for("serve to be ready", limit, || {
        serve.check_running()?;
        let ready = http::get(admin, "/readyz").is_ok_and(|answer| answer.status == 200);
        Ok(ready.then_some(()))
    })?;
    Ok(serve)
}
