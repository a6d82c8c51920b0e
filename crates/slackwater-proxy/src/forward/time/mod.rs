//! Waits that end: a worker's deadlines on one timer, and how long one attempt at a request may take.

mod deadline;
mod patience;

pub(crate) use deadline::Deadline;
pub use deadline::Deadlines;
pub use patience::Patience;
pub(crate) use patience::Ticks;
