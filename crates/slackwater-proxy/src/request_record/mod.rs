//! The record of a request, from which access log, trace, decision and recording are made.
//!
//! A worker's `RequestRecorder` asks its `Consumer`s of each request that comes how much of it they
//! may want to know. If none wants anything there is no record, and a request costs a look at an
//! empty option. Otherwise what carries the request holds a `RecordHandle` and notes what happens;
//! each attempt of it is an [`AttemptRecord`], noted in full only where somebody may want that. The
//! consumers hear of the record twice: when the request is over, and when the last of its attempts
//! is, too, which may outlive it (a copy for a replica on trial).
//!
//! A request's id is the same in all that is told of it: see `ids`.

mod attempt;
mod handle;
pub(crate) mod ids;
mod record;
mod recorder;
#[cfg(test)]
mod tests;

pub use attempt::{AttemptKind, AttemptRecord};
pub(crate) use handle::{AttemptHandle, RecordHandle};
pub(crate) use record::{CopyKind, Directory, Ended, RequestRecord};
pub(crate) use recorder::{
    Consumer, Detail, Interest, RequestRecorder, Tracing, UnreadableRequest,
};
