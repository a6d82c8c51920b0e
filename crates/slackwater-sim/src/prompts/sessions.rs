//! The sessions: when they begin, and what their turns are.
//!
//! Each session draws from its own stream, so all rules and policies receive the same sessions,
//! with the same messages, answers and think times.

use crate::machine::{Prompt, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::{Burst, Prompts, TokenCount, nanoseconds};
use slackwater_core::{Draw, SplitMix64};

/// A session in progress.
#[derive(Debug)]
pub(super) struct Session {
    stream: Stream,
    /// Its number, by which rules know it.
    pub(super) number: u64,
    /// The hash of its text so far, up to the last full block.
    text: u64,
    tokens: u32,
    /// The names of all full blocks of its text.
    blocks: Vec<u64>,
    /// The engine of its last turn.
    pub(super) last: Option<usize>,
}

/// Makes sessions.
#[derive(Debug)]
pub(super) struct Sessions<'a> {
    prompts: &'a Prompts,
    seed: u64,
    gaps: Stream,
    mean_gap_ns: f64,
    begun: u64,
    /// Cumulated shares of system prompts.
    shares: Vec<f64>,
}

impl<'a> Sessions<'a> {
    pub(super) fn new(prompts: &'a Prompts, turns_per_second: f64, seed: u64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=prompts.systems).map(|rank| (rank as f64).powf(-prompts.zipf));
        let mut shares: Vec<f64> = weights
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        for share in &mut shares {
            *share /= sum;
        }
        Self {
            prompts,
            seed,
            gaps: Stream::new(seed, Purpose::Sessions, 0),
            mean_gap_ns: prompts.turns / turns_per_second * 1e9,
            begun: 0,
            shares,
        }
    }

    /// Returns the time from the beginning of a session to that of the next one.
    pub(super) fn gap(&mut self) -> Time {
        crate::machine::whole(self.gaps.exponential(self.mean_gap_ns))
    }

    /// Begins a session. One that has `past` is in the middle: it has had turns that no engine has
    /// in its cache.
    pub(super) fn begin(&mut self, past: bool, burst: Option<Burst>) -> Session {
        self.begun += 1;
        let number = self.begun;
        let mut stream = Stream::new(self.seed, Purpose::Sessions, number);
        let draw = stream.uniform();
        let system = self.shares.partition_point(|&share| share <= draw) as u64;
        let (text, tokens) = match burst {
            Some(burst) => (u64::MAX, burst.system_tokens),
            None => (system, self.system_tokens(system)),
        };
        let mut session = Session {
            stream,
            number: SplitMix64::new(self.seed ^ number << 20).draw(),
            text: SplitMix64::new(text).draw(),
            tokens: 0,
            blocks: Vec::new(),
            last: None,
        };
        session.grow(tokens, self.prompts.engine.block_tokens);
        // What follows is the session's own.
        session.text ^= session.number;
        while past && session.goes_on(self.prompts) {
            if session.turn(self.prompts).is_none() {
                break;
            }
        }
        session
    }

    fn system_tokens(&self, system: u64) -> u32 {
        let mut stream = Stream::new(self.seed, Purpose::Sessions, u64::MAX - system);
        let [least, most] = self.prompts.system_tokens.map(f64::from);
        count(stream.uniform_between(least, most))
    }
}

impl Session {
    /// Returns its next turn; `None` if it would be too long, which ends the session.
    pub(super) fn turn(&mut self, prompts: &Prompts) -> Option<Prompt> {
        let message = draw_count(&mut self.stream, prompts.message);
        let answer_tokens = draw_count(&mut self.stream, prompts.answer);
        let tokens = self.tokens + message;
        if tokens + answer_tokens > prompts.context_max {
            return None;
        }
        self.grow(message + answer_tokens, prompts.engine.block_tokens);
        Some(Prompt {
            tokens,
            answer_tokens,
            blocks: self.blocks.as_slice().into(),
        })
    }

    /// Draws whether another turn follows.
    pub(super) fn goes_on(&mut self, prompts: &Prompts) -> bool {
        self.stream.uniform() < 1.0 - 1.0 / prompts.turns
    }

    /// Draws the time from the end of an answer to the next turn.
    pub(super) fn think(&mut self, prompts: &Prompts) -> Time {
        crate::machine::whole(self.stream.exponential(nanoseconds(prompts.think)))
    }

    /// Adds tokens to its text, and names the blocks that are full by now.
    fn grow(&mut self, tokens: u32, block_tokens: u32) {
        self.tokens += tokens;
        while self.blocks.len() < (self.tokens / block_tokens) as usize {
            self.text = SplitMix64::new(self.text).draw();
            self.blocks.push(self.text);
        }
    }
}

/// Draws a number of tokens: at least 1, at most 100,000.
fn draw_count(stream: &mut Stream, of: TokenCount) -> u32 {
    let mu = of.mean.ln() - of.sigma * of.sigma / 2.0;
    count((mu + of.sigma * stream.normal()).exp())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is bounded"
)]
fn count(tokens: f64) -> u32 {
    tokens.clamp(1.0, 100_000.0).round() as u32
}
