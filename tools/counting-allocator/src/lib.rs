//! For tests: how often a thread has asked the allocator for something.
//!
//! A binary that uses this crate has the counting allocator for its global one. The file is the
//! core's, whose tests have no dependencies.

#[path = "../../../crates/slackwater-core/tests/support/counting_allocator.rs"]
mod counting_allocator;

/// How often this thread allocates, frees or resizes something during `work`, and what that gives.
pub fn calls_of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    counting_allocator::calls_of(work)
}
