//! Tries at an upgrade, one at a time, beside everything else that a process does.

use super::channel::Hold;
use super::predecessor::{HandOver, Passed, Program};
use crate::supervisor;
use core::time::Duration;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::process::Child;
use std::sync::Arc;
use tokio::task::{JoinHandle, spawn_blocking};

/// From the start of a new process until it has to serve. What takes time is reading files and
/// resolving names.
const PATIENCE: Duration = Duration::from_mins(1);

/// The try that is under way, if there is one. Dropping it gives it up.
#[derive(Debug, Default)]
pub(crate) struct Upgrade(Option<Try>);

#[derive(Debug)]
struct Try {
    handing: JoinHandle<Result<Child, String>>,
    hold: Hold,
}

impl Upgrade {
    /// Begins, unless a try is under way.
    pub(crate) fn begin(&mut self, program: &io::Result<Program>, sockets: &Arc<Passed>) {
        if self.0.is_some() {
            tracing::warn!("an upgrade is under way already");
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
        tracing::info!(%program, "starting a new process to take over");
        let sockets = Arc::clone(sockets);
        let handing = spawn_blocking(move || attempt.carry_out(&program, &sockets));
        self.0 = Some(Try { handing, hold });
    }

    /// Whether a try is under way: what a successor was told is what it goes by.
    pub(crate) const fn is_under_way(&self) -> bool {
        self.0.is_some()
    }

    /// Waits for the end of the try that is under way, for ever if there is none. `true`: another
    /// process has taken over.
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
                tracing::info!(
                    process,
                    "another process has taken over; finishing what runs here"
                );
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

    /// This process was told to stop, and so is the new one, if it has come into being. To be
    /// called before this one's listeners close: the try has them, too, and as long as it does,
    /// clients wait there for nobody.
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
                tracing::info!("the upgrade that was under way is given up");
            }
        }
    }
}

/// Waits for the end of a process that has taken over, on a thread of its own: nobody else would,
/// as long as this one runs, and whoever supervises could take it for alive. Its end is told unless
/// it was told to end.
fn look_after(mut child: Child, is_to_stay: bool) {
    let waiting = move || {
        let process = child.id();
        if let Ok(status) = child.wait()
            && is_to_stay
        {
            tracing::error!(
                process,
                %status,
                "the process that had taken over has ended, so nobody takes connections here: start slackwater again; this one only \
                 finishes what runs"
            );
        }
    };
    let waiter = std::thread::Builder::new().name("successor".to_owned());
    if let Err(error) = waiter.spawn(waiting) {
        tracing::warn!(%error, "no thread to wait for the process that has taken over");
    }
}

fn failed(why: &str) {
    tracing::error!("the new process has not taken over, so this one goes on: {why}");
}
