//! The plan: cases of several rounds, each of several variants side by side. Plain data.

use super::columns::Column;
use super::results::Results;
use crate::loopback::behaviour::Behaviour;
use core::time::Duration;
use rustix::process::Signal;

/// A case.
#[derive(Debug)]
pub(super) struct Case {
    /// The name on the command line.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What is played, in words, for the page.
    pub(super) about: String,
    pub(super) columns: &'static [Column],
    pub(super) rounds: Vec<Round>,
    /// The claims about its results.
    pub(super) claims: fn(&Results) -> Vec<Claim>,
}

/// A round: all variants have the same trouble, at the same time.
#[derive(Debug)]
pub(super) struct Round {
    /// Its name in file names.
    pub(super) id: &'static str,
    pub(super) name: String,
    pub(super) replicas: usize,
    pub(super) behaviour: Behaviour,
    /// The steps on the first replica, by time.
    pub(super) steps: Vec<(Duration, Step)>,
    /// The streams; the results of the first one count for the variant.
    pub(super) streams: Vec<Stream>,
    /// The time of the trouble, in which the first replica's share is measured.
    pub(super) during: Span,
    /// A later time for measurements.
    pub(super) after: Option<Span>,
    pub(super) variants: Vec<Variant>,
}

impl Round {
    /// Time from the beginning to the last request.
    pub(super) fn lasts(&self) -> Duration {
        let ends = self.streams.iter().map(Stream::ends);
        ends.max().unwrap_or_default()
    }
}

/// A step on the first replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Sends a signal to the replica's process.
    Replica(Signal),
    /// Sends a signal to the agent's process.
    Agent(Signal),
    /// Kills both processes with SIGKILL.
    Kill,
    /// Starts both again; the replica has this behaviour.
    Start(Behaviour),
}

/// Requests at a rate, from `at` on.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) name: &'static str,
    pub(super) at: Duration,
    pub(super) path: &'static str,
    /// Requests per second, at random intervals.
    pub(super) rate: u64,
    /// Time that is left out of the results.
    pub(super) warmup: Duration,
    pub(super) measured: Duration,
    /// More arguments of `slackwater load`.
    pub(super) arguments: &'static [&'static str],
}

impl Stream {
    fn ends(&self) -> Duration {
        self.at + self.warmup + self.measured
    }
}

/// A period, relative to the beginning of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// A configuration.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) policy: &'static str,
    /// The mechanisms that are on.
    pub(super) means: &'static str,
    /// Sections of the configuration of `serve`.
    pub(super) serve: String,
    /// Sections of the agents' configuration.
    pub(super) agent: String,
}

/// A claim about the results.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) says: String,
    pub(super) holds: bool,
    pub(super) found: String,
}
