//! The testbed in virtual time: the policies that users run, among simulated clients, replicas and
//! noisy neighbours.
//!
//! A [`Scenario`] says what the fleet, its load and its troubles are; [`run()`] plays it once under
//! one [`PolicyChoice`] and one seed and gives what was [`Measured`]; [`runner`] plays many runs on
//! several threads. [`figure`] holds the experiments of the papers, and [`report`] writes what came
//! out as CSV and HTML.
//!
//! There is no clock here but the one that says what a run cost, and no async: a single-threaded
//! discrete-event loop for each run, deterministic by seed. The same seed gives every policy the
//! same arrivals, costs and neighbours (common random numbers), so that what differs between two
//! policies is theirs. What is drawn as it happens, in an order that depends on the policy, is
//! paired only in distribution: network delays, waits for I/O, a replica's own trace of latencies,
//! lost probes, the costs of second copies. The decisions are slackwater-core's, unchanged.

mod cpu_time;
pub mod engine;
pub mod figure;
pub mod histogram;
pub mod interval;
pub mod machine;
pub mod measure;
mod number;
pub mod policy;
pub mod presets;
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
