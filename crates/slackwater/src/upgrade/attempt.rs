//! Tries at an upgrade, one at a time, beside everything else that a process does.

use super::predecessor::{Passed, Program, hand_over};
use crate::supervisor;
use core::time::Duration;
use rustix::process::{Pid, Signal, kill_process};
use std::io;
use std::sync::Arc;
use tokio::task::{JoinHandle, spawn_blocking};

/// From the start of a new process until it has to serve. What takes time is reading files and resolving names.
const PATIENCE: Duration = Duration::from_mins(1);

/// The try that is under way, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Upgrade(Option<JoinHandle<Result<u32, String>>>);

impl Upgrade {
    /// Begins, unless a try is under way.
    pub(crate) fn begin(&mut self, program: &io::Result<Program>, sockets: &Arc<Passed>) {
        if self.0.is_some() {
            tracing::warn!("an upgrade is under way already");
            return;
        }
        match program {
            Ok(program) => {
                tracing::info!(%program, "starting a new process to take over");
                let (program, sockets) = (program.clone(), Arc::clone(sockets));
                let handing = spawn_blocking(move || hand_over(&program, &sockets, PATIENCE));
                self.0 = Some(handing);
            }
            Err(error) => failed(&format!("it is not known what this process is: {error}")),
        }
    }

    /// Waits for the end of the try that is under way, for ever if there is none. `true`: another process has taken over.
    pub(crate) async fn ended(&mut self) -> bool {
        let Some(handing) = &mut self.0 else {
            return core::future::pending().await;
        };
        let outcome = handing.await;
        self.0 = None;
        match outcome {
            Ok(Ok(process)) => {
                supervisor::succeeded_by(process);
                tracing::info!(
                    process,
                    "another process has taken over; finishing what runs here"
                );
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

    /// This process was told to stop, and so is the new one, if it comes into being.
    pub(crate) async fn give_up(&mut self) {
        if let Some(handing) = self.0.take()
            && let Ok(Ok(process)) = handing.await
            && let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process(process, Signal::TERM);
        }
    }
}

fn failed(why: &str) {
    tracing::error!("the new process has not taken over, so this one goes on: {why}");
}
