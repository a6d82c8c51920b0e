//! The access log: a line for each request, written off the request's way.
//!
//! A worker keeps a record of each request when the log is on, behind a [`Trace`]. At the request's end it becomes a line in the worker's
//! own queue, which is bounded; one thread for the whole process takes the lines of all workers and writes them. A queue
//! that is full loses lines, which are counted, and never holds a request up. Without a log there is no record, and a
//! request costs a look at an empty option.
//!
//! What clients sent is escaped, so that nobody can write a line of his own into the log. `Authorization` and `Cookie`
//! are never logged, query strings only if asked for. The forms of a line are documented in `docs/operations.md`.

mod date;
mod line;
mod queue;
mod record;
mod sample;
mod sink;
mod writer;

pub(crate) use record::{CopyKind, Ended, Recorder, Trace};
pub(crate) use writer::{AccessLog, Switch};
