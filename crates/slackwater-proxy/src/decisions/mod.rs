//! Why was this replica picked? The whole record of some requests, kept in memory for the admin
//! server.
//!
//! Each worker has a `Keeper`, which says of each request that comes whether it may be kept, and a
//! ring for those that are: so many records, in so many bytes, and the oldest give way. Only the
//! worker and whoever reads share a ring's lock, and the reader holds it no longer than it takes to
//! copy references. A request that may not be kept costs a draw; one that is, or that may be if it
//! turns out to be slow or to fail, costs what it takes to note what the policy knew at each of its
//! choices. `docs/reference/decisions.md` describes what is told.

mod absent;
mod answer;
mod archive;
mod columns;
mod decision;
mod keeper;
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
