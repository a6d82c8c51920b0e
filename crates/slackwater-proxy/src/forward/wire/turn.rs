//! Turns of a worker's tasks: none may go on for as long as its peer has something for it, because
//! all others wait meanwhile.
//!
//! Whoever has done enough ends its turn, and is polled again after the tasks that are ready and
//! after a look at all sockets.

use core::pin::pin;
use core::task::Context;

/// Rounds of taking and writing pieces of a body in one turn, at most. Each takes no more than a
/// connection has room for.
pub(crate) const ROUNDS_MAX: usize = 4;

/// Frames of a body in one round, at most, however little they bring.
pub(super) const FRAMES_MAX: usize = 512;

/// The task is to return `Pending` now; it has its next turn when the others have had theirs.
pub(crate) fn end(cx: &mut Context<'_>) {
    // The runtime wakes those who yield only after it has looked at the sockets; `wake_by_ref`
    // would come before that.
    let polled = pin!(tokio::task::yield_now()).poll(cx);
    debug_assert!(polled.is_pending(), "the first poll of it yields");
}
