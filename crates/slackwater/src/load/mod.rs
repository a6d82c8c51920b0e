//! The sub-command `slackwater load`, and its open-loop generator.
//!
//! Open loop: requests start when a schedule says so, not when earlier answers have come, and
//! latency counts from that intended start. So a stall of the target is measured by each request
//! that users would have sent meanwhile. A generator that waits for answers misses them, which is
//! called "coordinated omission".
//!
//! To run it in-process: [`Run::prepare`] with a [`Plan`], [`Run::live`] for figures while it runs,
//! [`Run::drive`]. The path of a request: `schedule` determines its time, `pacer` waits until then,
//! `generator` gives it a slot, `transport` carries it, `record` counts its result, `summary` and
//! `table` report. `args`, `parse` and `command` are the command line.

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
