//! Ctrl-C: the first one stops the runs, and with them the command, in an orderly way; the second
//! one ends the process.

use crate::process::Signals;
use core::sync::atomic::{AtomicBool, Ordering};
use slackwater_config::Fault;
use std::io::Write;
use std::sync::Arc;

/// The exit code that shells use for a process that Ctrl-C ended.
const EXIT_CODE: i32 = 130;

/// Set by the first signal.
#[derive(Clone, Debug)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Catches signals from now on, on a separate thread.
    pub(super) fn on_signals() -> Result<Self, Fault> {
        let stop = Self(Arc::new(AtomicBool::new(false)));
        let told = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Fault::runtime(format!("cannot start: {error}")))?;
        // Signals are caught before any work begins.
        let mut signals = {
            let _inside = runtime.enter();
            Signals::new()?
        };
        let watch = move || {
            runtime.block_on(async {
                signals.next().await;
                // Printed before the flag is set, because the thread that sees the flag may print
                // the losses at once.
                let _ = writeln!(
                    std::io::stderr(),
                    "stopping; press Ctrl-C again to exit immediately"
                );
                told.0.store(true, Ordering::Relaxed);
                signals.next().await;
            });
            std::process::exit(EXIT_CODE);
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(watch)
            .map_err(|error| Fault::runtime(format!("cannot start a thread: {error}")))?;
        Ok(stop)
    }

    /// Returns a flag that is never set.
    #[cfg(test)]
    pub(super) fn never() -> Self {
        Self(Arc::default())
    }

    /// The flag that [`run_all`](slackwater_sim::runner::run_all) checks.
    pub(super) fn flag(&self) -> &AtomicBool {
        &self.0
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The error of a command that was stopped; `lost` is what was not written.
    pub(super) fn fault(lost: &str) -> Fault {
        Fault::Interrupted(format!("stopped: {lost}"))
    }
}
