//! Attempts at an upgrade, one at a time, concurrent with everything else in a process.

use super::channel::Hold;
use super::predecessor::{HandOver, Passed, Program};
use crate::supervisor;
use core::time::Duration;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::process::Child;
use std::sync::Arc;
use tokio::task::{JoinHandle, spawn_blocking};

/// Timeout from the start of a new process until it serves. Reading files and resolving names take
/// time.
const PATIENCE: Duration = Duration::from_mins(1);

/// The running attempt, if there is one. Dropping it cancels the attempt.
#[derive(Debug, Default)]
pub(crate) struct Upgrade(Option<Try>);

#[derive(Debug)]
struct Try {
    handing: JoinHandle<Result<Child, String>>,
    hold: Hold,
}

impl Upgrade {
    /// Starts an attempt, unless one is running.
    pub(crate) fn begin(&mut self, program: &io::Result<Program>, sockets: &Arc<Passed>) {
        if self.0.is_some() {
            tracing::warn!("upgrade request ignored: an upgrade is running");
            return;
        }
        let program = match program {
            Ok(program) => program.clone(),
            Err(error) => return failed(&format!("it is not known what this process is: {error}")),
        };
        let (attempt, hold) = match HandOver::new(PATIENCE) {
            Ok(begun) => begun,
            Err(error) => return failed(&format!("no channel: {error}")),
        };
        tracing::info!(%program, "upgrade started: starting a new process");
        let sockets = Arc::clone(sockets);
        let handing = spawn_blocking(move || attempt.carry_out(&program, &sockets));
        self.0 = Some(Try { handing, hold });
    }

    /// Returns whether an attempt is running. The successor then works with what it has already
    /// received.
    #[cfg(feature = "serve")]
    pub(crate) const fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// Waits for the end of the running attempt; forever if there is none. Returns `true` if
    /// another process has taken over.
    pub(crate) async fn ended(&mut self) -> bool {
        let Some(Try { handing, .. }) = &mut self.0 else {
            return core::future::pending().await;
        };
        let outcome = handing.await;
        self.0 = None;
        match outcome {
            Ok(Ok(child)) => {
                let process = child.id();
                supervisor::succeeded_by(process);
                tracing::info!(process, "upgrade complete: finishing running requests here");
                look_after(child, true);
                true
            }
            Ok(Err(why)) => {
                failed(&why);
                false
            }
            Err(error) => {
                failed(&error.to_string());
                false
            }
        }
    }

    /// Cancels a running attempt, and ends the new process if it was started, because this process
    /// shuts down. Call this before this process's listeners close: the attempt holds them, too,
    /// and as long as it does, clients would wait there in vain.
    pub(crate) async fn give_up(&mut self) {
        let Some(Try { handing, hold }) = self.0.take() else {
            return;
        };
        drop(hold);
        match handing.await {
            Ok(Ok(child)) => {
                let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                if let Some(process) = process {
                    let _ = kill_process(process, Signal::TERM);
                }
                look_after(child, false);
            }
            Ok(Err(_)) | Err(_) => {
                tracing::info!("upgrade cancelled: this process shuts down");
            }
        }
    }
}

/// Waits on a separate thread for the end of a process that has taken over. Otherwise it would
/// remain a zombie after its end while this process runs, and a supervisor could mistake it for a
/// live one. Its end is logged unless it was requested.
fn look_after(mut child: Child, is_to_stay: bool) {
    let waiting = move || {
        let process = child.id();
        match child.wait() {
            Ok(status) if is_to_stay && status.success() => {
                tracing::info!(
                    process,
                    "new process ended: it was stopped, or another has taken over from it"
                );
            }
            Ok(status) if is_to_stay => {
                tracing::error!(
                    process,
                    %status,
                    remedy = "start slackwater again; this process only finishes running requests",
                    "new process ended: no process accepts connections"
                );
            }
            Ok(_) | Err(_) => (),
        }
    };
    let waiter = std::thread::Builder::new().name("successor".to_owned());
    if let Err(error) = waiter.spawn(waiting) {
        tracing::warn!(%error, "no thread to wait for the new process");
    }
}

fn failed(why: &str) {
    tracing::error!("upgrade failed, this process continues: {why}");
}
