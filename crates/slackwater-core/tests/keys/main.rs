//! Keys: the order of a key's replicas, the bound on their load, partitions and their replication,
//! and queries that may go to a few replicas only.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests and their helpers"
)]

mod among;
mod bound;
mod hash;
mod order;
mod replication;
mod set;
mod unkeyed;
mod world;
