//! The record of a request: its whole story, put together in one place and told in several ways.
//!
//! A worker's [`Recorder`] asks its [`Consumer`]s of each request that comes how much of it they may want to know. If none
//! wants anything there is no record, and a request costs a look at an empty option. Otherwise what carries the request holds a
//! [`Story`] and notes what happens; each attempt of it is an [`AttemptRecord`], noted in full only where somebody may want that. The
//! consumers hear of the record twice: when the request is over, and when the last of its attempts is, too, which may
//! outlive it (a copy for a replica on trial).
//!
//! A request's id is the same in all that is told of it: see [`ids`].

mod attempt;
pub(crate) mod ids;
mod record;
mod recorder;
mod story;
#[cfg(test)]
mod tests;

pub use attempt::{AttemptKind, AttemptRecord};
pub(crate) use record::{CopyKind, Directory, Ended, Record};
pub(crate) use recorder::{Consumer, Detail, Recorder, Refused, Tracing, Wish};
pub(crate) use story::{AttemptNotes, Story};
