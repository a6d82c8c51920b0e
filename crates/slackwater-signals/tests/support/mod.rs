//! A process that is always busy, and a function that waits for a certain reading.

use core::time::Duration;
use slackwater_signals::{Reading, Source};
use std::process::{Child, Command};
use std::time::Instant;

/// Far more than anything here takes. A wait of this length means that the condition never comes
/// true.
pub(crate) const TOO_LONG: Duration = Duration::from_mins(1);

/// Reads until the condition is true.
pub(crate) fn until(
    source: &mut Source,
    what: &str,
    mut is_so: impl FnMut(&Reading) -> bool,
) -> Reading {
    let begun = Instant::now();
    loop {
        let reading = source.read();
        if is_so(&reading) {
            return reading;
        }
        assert!(begun.elapsed() < TOO_LONG, "{what}: {reading:?}");
        std::thread::yield_now();
    }
}

/// A process that is always busy, until this is dropped.
pub(crate) struct Busy(pub(crate) Child);

impl Busy {
    pub(crate) fn start() -> Self {
        // The process ends when this process is killed and cannot end it.
        let work = format!("while [ -d /proc/{} ]; do :; done", std::process::id());
        let child = Command::new("sh").args(["-c", &work]).spawn();
        Self(child.expect("sh starts"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
