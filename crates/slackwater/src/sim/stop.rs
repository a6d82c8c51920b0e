//! Ctrl-C: the first one ends the runs under way, and with them the command, in good order; the
//! second one ends the process.

use crate::process::Signals;
use core::sync::atomic::{AtomicBool, Ordering};
use slackwater_config::Fault;
use std::io::Write;
use std::sync::Arc;

/// What a shell reports of a process that Ctrl-C ended.
const EXIT_CODE: i32 = 130;

/// Set by the first signal.
#[derive(Clone, Debug)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Catches signals from now on, on a thread of its own.
    pub(super) fn on_signals() -> Result<Self, Fault> {
        let stop = Self(Arc::new(AtomicBool::new(false)));
        let told = stop.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Fault::runtime(format!("cannot start: {error}")))?;
        // Caught before any work begins.
        let mut signals = {
            let _inside = runtime.enter();
            Signals::new()?
        };
        let watch = move || {
            runtime.block_on(async {
                signals.next().await;
                // Said before the flag is up: whoever sees it may be the first to write what was
                // lost.
                let _ = writeln!(std::io::stderr(), "stopping; once more to stop at once");
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

    /// Never set.
    #[cfg(test)]
    pub(super) fn never() -> Self {
        Self(Arc::default())
    }

    /// What [`run_all`](slackwater_sim::runner::run_all) looks at.
    pub(super) fn flag(&self) -> &AtomicBool {
        &self.0
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The end of a command that was stopped; `lost` is what was not written.
    pub(super) fn fault(lost: &str) -> Fault {
        Fault::Interrupted(format!("stopped: {lost}"))
    }
}
