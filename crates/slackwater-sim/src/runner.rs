//! Many runs on several threads: results in the order asked for, whatever order they end in.

use crate::{Measured, PolicyChoice, Scenario};
use std::sync::Arc;

/// One run to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// What to play.
    pub scenario: Arc<Scenario>,
    /// Who chooses.
    pub policy: PolicyChoice,
    /// The seed; the same for all policies that are to be compared.
    pub seed: u64,
}

/// How far the work has come; weights are proportional to the expected number of queries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Runs that have ended.
    pub done: usize,
    /// Runs in all.
    pub total: usize,
    /// The share of the expected work that is done, from 0 to 1.
    pub share: f64,
}
