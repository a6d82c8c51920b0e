//! The state of a Slackwater process, as values: counts, latencies, states, and since when.
//!
//! The data plane fills these values; the admin server, the dashboard and the terminal read them.
//! There is one type for each fact, so these parts do not depend on each other.
//!
//! This crate has no sockets, no files, no threads, and no display code, on purpose.

#![forbid(unsafe_code)]

pub mod attempt_failure;
pub mod comparison;
pub mod date;
pub mod exemplars;
pub mod facts;
pub mod latency_histogram;
pub mod policy;
pub mod problems;
pub mod replica_state;
pub mod state_tracker;
pub mod trace;
