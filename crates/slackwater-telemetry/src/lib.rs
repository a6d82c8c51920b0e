//! What a Slackwater process knows of itself, as values: counts, latencies, states, and where each
//! stands in time.
//!
//! The data plane fills these values; the admin server, the dashboard and the terminal read them.
//! One type for each fact, so that none of them has to know the others.
//!
//! Absent on purpose: sockets, files, threads, and how a fact is shown.

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
