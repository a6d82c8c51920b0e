//! The access log: a line for each request, written off the request's way.
//!
//! At a request's end its [record](crate::request_record) becomes a line in the worker's own queue,
//! which is bounded; one thread for the whole process takes the lines of all workers and writes
//! them. A queue that is full loses lines, which are counted, and never holds a request up.
//!
//! What clients sent is escaped, so that nobody can write a line of his own into the log.
//! `Authorization` and `Cookie` are never logged, query strings only if asked for. The forms of a
//! line are documented in `docs/reference/access-log.md`.

mod line;
mod lines;
mod queue;
mod sample;
mod sink;
mod writer;

pub use writer::{AccessLog, Switch};
