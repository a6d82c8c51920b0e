//! Counts the calls of a thread to the allocator, for tests.
//!
//! The counting allocator becomes the global one of a binary that uses this crate. The file is the
//! core's, whose tests have no dependencies.

#[path = "../../../crates/slackwater-core/tests/support/counting_allocator.rs"]
mod counting_allocator;

/// Number of allocations, deallocations and reallocations of this thread during `work`, and its
/// result.
pub fn calls_of<T>(work: impl FnOnce() -> T) -> (u64, T) {
    counting_allocator::calls_of(work)
}
