//! What is measured of conversations with a language model, besides the time to the first token.

use super::{Latencies, ratio};

/// Measurements of the turns of conversations. The time to the first token of an answer is the
/// latency of [`Measured`](super::Measured), since a balancer's latency ends with the head of a
/// response, too.
#[derive(Clone, Debug, Default)]
pub struct Conversations {
    /// Time for each token of an answer after the first, one value for each answer.
    pub per_token: Latencies,
    /// Time from a turn's arrival to the end of its answer.
    pub whole: Latencies,
    /// Tokens of all prompts whose turn came at an engine, in the measured span.
    pub prompt_tokens: u64,
    /// The `prompt_tokens` that were in the engine's cache.
    pub cached_tokens: u64,
    /// Measured turns, without the first of a session, that went to another engine than the last
    /// turn of their session.
    pub moved: u64,
    /// Measured turns, without the first of a session.
    pub returning: u64,
}

impl Conversations {
    /// Adds another run.
    pub(super) fn merge(&mut self, other: &Self) {
        self.per_token.merge(&other.per_token);
        self.whole.merge(&other.whole);
        self.prompt_tokens += other.prompt_tokens;
        self.cached_tokens += other.cached_tokens;
        self.moved += other.moved;
        self.returning += other.returning;
    }

    /// Makes it small, for when nothing more will be recorded.
    pub(super) fn pack(&mut self) {
        self.per_token.pack();
        self.whole.pack();
    }

    /// Returns the share of prompt tokens that were in a cache, from 0 to 1.
    pub fn cached_share(&self) -> f64 {
        ratio(self.cached_tokens as f64, self.prompt_tokens as f64)
    }

    /// Returns the share of returning turns that went to another engine, from 0 to 1.
    pub fn moved_share(&self) -> f64 {
        ratio(self.moved as f64, self.returning as f64)
    }
}
