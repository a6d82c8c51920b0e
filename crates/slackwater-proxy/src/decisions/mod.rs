//! Why was this replica picked? The whole record of some requests, kept in memory for the admin
//! server.
//!
//! Each worker has a `Keeper`, which decides for each request whether it may be kept, and a ring
//! for the records: bounded in number and in bytes, the oldest are dropped. Only the worker and the
//! readers share a ring's lock, and a reader holds it only while it copies references. A request
//! that may not be kept costs a draw. One that is kept, or that may be kept if it turns out to be
//! slow or to fail, costs a copy of the policy's data at each of its picks.
//! `docs/reference/decisions.md` describes the output.

mod absent;
mod answer;
mod archive;
mod columns;
mod decision;
mod keeper;
mod key_set;
mod names;
mod ring;
mod sentences;
#[cfg(test)]
mod tests;
mod wanted;

#[cfg(any(test, feature = "schema"))]
pub use answer::Found;
pub use answer::{DecisionText, answer};
pub use archive::Archive;
pub use wanted::LIMIT_MAX;
