//! Each rule at its edges, through the public interface alone. A test's name begins with its rule.
//!
//! A rule that one source file shows is tested there; here are the rules that need the whole
//! policy. The model test (`tests/model`) compares all rules at once but cannot show which of them
//! broke; these tests can.

#![expect(clippy::expect_used, clippy::panic, reason = "tests and their helpers")]

mod back_off;
mod budgets;
mod c3;
mod capacity;
mod choice;
mod idle;
mod latest;
mod liars;
mod linear;
mod lost;
mod own_share;
mod pool;
mod probes;
mod removal;
mod rif_then_latency;
mod shortest_expected_delay;
mod siblings;
mod silence;
mod stopped;
mod sync;
mod tracker;
mod turns;
mod unknown_latency;
mod world;
