//! Ctrl-C and SIGTERM: both ask the demo to end.
//!
//! They are caught before the demo says anything, so that whoever reads its first line may already end it.

use crate::fault::Fault;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask for an end.
#[derive(Debug)]
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Catches them from now on; needs a runtime's context.
    ///
    /// # Errors
    /// The system does not let it.
    pub(super) fn new() -> Result<Self, Fault> {
        let catch = |kind| {
            signal(kind).map_err(|error| Fault::runtime(format!("cannot catch signals: {error}")))
        };
        Ok(Self {
            interrupt: catch(SignalKind::interrupt())?,
            terminate: catch(SignalKind::terminate())?,
        })
    }

    /// Waits for the next.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => (),
            _ = self.terminate.recv() => (),
        }
    }
}
