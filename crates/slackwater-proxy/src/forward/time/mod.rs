//! Deadlines of a worker, all on one timer, and the timeouts of one attempt at a request.

mod attempt_timeouts;
mod deadline;

pub use attempt_timeouts::AttemptTimeouts;
pub(crate) use attempt_timeouts::Ticks;
pub(crate) use deadline::Deadline;
pub use deadline::Deadlines;
