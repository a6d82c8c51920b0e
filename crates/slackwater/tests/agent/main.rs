//! `slackwater agent` as a user runs it: the real binary on loopback, before servers that behave
//! well or badly.
//!
//! Servers are scripted byte by byte by the test itself (`server`), so what the agent has seen is
//! known at each step. Every wait is for a condition and ends with a failure after
//! [`process::PATIENCE`].

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod arguments;
mod client;
mod connect;
mod counting;
mod ending;
mod http2;
mod orca;
mod overload;
mod probes;
mod process;
mod server;
mod signals;
mod streaming;
mod upgrade;
mod withdrawal;
