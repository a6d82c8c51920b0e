//! The access log: one line for each request, written outside the request path.
//!
//! When a request ends, its [record](crate::request_record) becomes a line in the worker's own
//! bounded queue. One thread for the whole process takes the lines of all workers and writes them.
//! A full queue drops lines, counts them, and never delays a request.
//!
//! Text from clients is escaped, so that no client can forge a line in the log. `Authorization` and
//! `Cookie` are never logged, query strings only if configured. The line formats are documented in
//! `docs/reference/access-log.md`.

mod buffer;
mod line;
mod lines;
mod queue;
mod sample;
mod sink;
mod writer;

pub use writer::{AccessLog, Switch};
