//! The testbed in virtual time: the policies that users run, with simulated clients, replicas and
//! noisy neighbours.
//!
//! A [`Scenario`] defines the fleet, its load and its troubles. [`run()`] plays it once under one
//! [`PolicyChoice`] and one seed and returns what was [`Measured`]. [`runner`] plays many runs on
//! several threads. [`figure`] holds the experiments of the papers, and [`report`] writes the
//! results as CSV and HTML.
//!
//! There is no async, and the only clock measures the cost of a run. Each run is a single-threaded
//! discrete-event loop, deterministic by seed. The same seed gives every policy the same arrivals,
//! costs and neighbours (common random numbers), so any difference between two policies comes from
//! the policies. Some draws happen in an order that depends on the policy, and are paired only in
//! distribution: network delays, waits for I/O, a replica's own trace of latencies, lost probes,
//! the costs of second copies. The decisions are slackwater-core's, unchanged.

mod cpu_time;
pub mod engine;
pub mod figure;
pub mod histogram;
pub mod interval;
pub mod machine;
pub mod measure;
mod number;
mod peers;
pub mod policy;
pub mod presets;
mod prompts;
pub mod random;
pub mod replay;
pub mod report;
pub mod runner;
pub mod scenario;
pub mod seeds;

pub use measure::Measured;
pub use policy::PolicyChoice;
pub use runner::run;
pub use scenario::Scenario;
pub use seeds::Seeds;
