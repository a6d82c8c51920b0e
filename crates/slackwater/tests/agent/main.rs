//! `slackwater agent` as a user runs it: the real binary on loopback, before servers that behave
//! well or badly.
//!
//! The test itself scripts servers byte by byte (`server`), so what the agent has received is known
//! at each step. Each wait is for a condition and fails after [`process::PATIENCE`].

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
