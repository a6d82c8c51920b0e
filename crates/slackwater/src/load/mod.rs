//! The sub-command `slackwater load`, and the open-loop generator within it.
//!
//! Open loop: requests start when a schedule says, not when earlier answers have come, and latency
//! counts from that intended start. A target that stalls is therefore measured by every request
//! that users would have sent meanwhile ("coordinated omission" is what a generator that waits for
//! answers commits).
//!
//! To run it in-process: [`Run::prepare`] with a [`Plan`], [`Run::live`] for figures while it runs,
//! [`Run::drive`]. The way of a request: `schedule` says when, `pacer` waits until then,
//! `generator` gives it a slot, `transport` carries it, `record` counts what came of it, `summary`
//! and `table` tell. `args`, `parse` and `command` are the command line.

mod args;
mod command;
mod generator;
mod latency;
mod live;
mod outcome;
mod pacer;
mod parse;
mod plan;
mod record;
mod schedule;
mod summary;
mod table;
mod transport;
mod window;

#[cfg(test)]
mod tests;

pub(crate) use args::Args;
pub(crate) use command::run;
pub(crate) use generator::Run;
pub(crate) use latency::{LATENCY_MAX, LatencyFigures};
pub(crate) use live::Live;
pub(crate) use plan::{Arrivals, Plan, Protocol};
pub(crate) use summary::Summary;
pub(crate) use window::WindowFigures;
