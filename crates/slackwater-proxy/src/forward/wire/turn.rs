//! Turns of a worker's tasks: no task may run for as long as its peer sends data, because all other
//! tasks wait meanwhile.
//!
//! A task that has done enough ends its turn. It is polled again after all ready tasks, and after
//! the sockets were polled.

use core::pin::pin;
use core::task::Context;

/// Maximum number of rounds of reading and writing body data in one turn. Each takes at most what a
/// connection can buffer.
pub(crate) const ROUNDS_MAX: usize = 4;

/// Maximum number of body frames in one round, even if they carry little data.
pub(super) const FRAMES_MAX: usize = 512;

/// Ends the turn: the task must return `Pending` now, and gets its next turn after the other tasks.
pub(crate) fn end(cx: &mut Context<'_>) {
    // The runtime wakes tasks that yield only after it has polled the sockets; `wake_by_ref` would
    // wake them earlier.
    let polled = pin!(tokio::task::yield_now()).poll(cx);
    debug_assert!(polled.is_pending(), "the first poll of it yields");
}
