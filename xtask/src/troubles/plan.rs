//! What is played: cases, each of some rounds, each of some variants side by side. Plain data.

use super::columns::Column;
use super::results::Results;
use crate::loopback::behaviour::Behaviour;
use core::time::Duration;
use rustix::process::Signal;

/// One of the troubles.
#[derive(Debug)]
pub(super) struct Case {
    /// As on the command line.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// What is played, in words, for the page.
    pub(super) about: String,
    pub(super) columns: &'static [Column],
    pub(super) rounds: Vec<Round>,
    /// What is claimed of its numbers.
    pub(super) claims: fn(&Results) -> Vec<Claim>,
}

/// The same trouble for all variants, at the same time.
#[derive(Debug)]
pub(super) struct Round {
    /// In names of files.
    pub(super) id: &'static str,
    pub(super) name: String,
    pub(super) replicas: usize,
    pub(super) behaviour: Behaviour,
    /// What befalls the first replica, by time.
    pub(super) steps: Vec<(Duration, Step)>,
    /// The first one's figures are those of the variant.
    pub(super) streams: Vec<Stream>,
    /// The time of trouble, of which the first replica's share is taken.
    pub(super) during: Span,
    /// Some time later.
    pub(super) after: Option<Span>,
    pub(super) variants: Vec<Variant>,
}

impl Round {
    /// From the beginning to the last request.
    pub(super) fn lasts(&self) -> Duration {
        let ends = self.streams.iter().map(Stream::ends);
        ends.max().unwrap_or_default()
    }
}

/// What happens to the first replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// To the replica's process.
    Replica(Signal),
    /// To the agent's.
    Agent(Signal),
    /// Both processes, with SIGKILL.
    Kill,
    /// Both again; the replica behaves so.
    Start(Behaviour),
}

/// Requests at a rate, from `at` on.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub(super) name: &'static str,
    pub(super) at: Duration,
    pub(super) path: &'static str,
    /// Per second, with random gaps.
    pub(super) rate: u64,
    /// Left out of the figures.
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

/// From the beginning of a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: Duration,
    pub(super) to: Duration,
}

/// One configuration.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) policy: &'static str,
    /// What is switched on.
    pub(super) means: &'static str,
    /// Sections for `serve`.
    pub(super) serve: String,
    /// Sections for the agents.
    pub(super) agent: String,
}

/// Something that is said of the numbers.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) says: String,
    pub(super) holds: bool,
    pub(super) found: String,
}
