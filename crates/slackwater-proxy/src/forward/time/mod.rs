//! Deadlines of a worker, all on one timer, the timeouts of one attempt at a request, and how often
//! a failure is logged.

mod attempt_timeouts;
mod deadline;
mod log_interval;

pub use attempt_timeouts::AttemptTimeouts;
pub(crate) use attempt_timeouts::Ticks;
pub(crate) use deadline::Deadline;
pub use deadline::Deadlines;
pub use log_interval::LogInterval;
