//! An inference engine: the server of one large language model, which makes the tokens of many
//! answers at once.
//!
//! The engine works in steps (continuous batching, as Orca and vLLM do). In a step each answer in
//! progress gets one token, and the rest of the step's budget reads prompts, the oldest first and
//! in pieces (chunked prefill, as Sarathi-Serve and vLLM). So prompts delay answers, and answers
//! delay prompts. What the prefix cache has of a prompt is not read again. Prompts wait, in order
//! of arrival, while the engine has as many sequences as it may have, or too little memory.
//!
//! ```text
//! step = slowness · (base + answers · per answer + their tokens · per token of context
//!                    + prompt tokens read · per prompt token)
//! ```

mod cache;
#[cfg(test)]
mod tests;

use super::{JobId, NEVER, Time};
use crate::scenario::InferenceSettings;
use cache::Cache;
use std::collections::VecDeque;
use std::sync::Arc;

/// A prompt for an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Its tokens: at least 1.
    pub tokens: u32,
    /// The tokens of the answer: at least 1. The engine does not know them before.
    pub answer_tokens: u32,
    /// The names of all full blocks of the prompt, and then of the answer.
    pub blocks: Arc<[u64]>,
}

/// What a step has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The first token of an answer.
    FirstToken(JobId),
    /// The whole answer.
    Finished(JobId),
}

/// A prompt and its answer in progress.
#[derive(Clone, Debug)]
struct Sequence {
    job: JobId,
    prompt: Prompt,
    /// Prompt tokens that are read, or were in the cache.
    read: u32,
    /// Tokens of the answer so far.
    made: u32,
    /// Blocks that it uses under their names.
    named: usize,
    /// Blocks that it has reserved.
    reserved: usize,
    /// Prompt tokens that the present step reads.
    reading: u32,
}

/// The engine.
#[derive(Clone, Debug)]
pub struct Inference {
    settings: InferenceSettings,
    slowness: f64,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    cache: Cache,
    /// When the present step ends; [`NEVER`]: nothing to do.
    step_ends: Time,
    /// Prompt tokens that arrived, and those that were in the cache when their turn came.
    prompt_tokens: u64,
    cached_tokens: u64,
}

impl Inference {
    /// Returns an idle engine whose steps take `slowness` times as long: 1 or more.
    pub fn new(settings: InferenceSettings, slowness: f64) -> Self {
        Self {
            settings,
            slowness,
            waiting: VecDeque::new(),
            running: Vec::new(),
            cache: Cache::new(settings.blocks),
            step_ends: NEVER,
            prompt_tokens: 0,
            cached_tokens: 0,
        }
    }

    /// Adds a prompt.
    pub fn arrive(&mut self, now: Time, job: JobId, prompt: Prompt) {
        self.waiting.push_back(Sequence {
            job,
            prompt,
            read: 0,
            made: 0,
            named: 0,
            reserved: 0,
            reading: 0,
        });
        if self.step_ends == NEVER {
            self.begin_step(now);
        }
    }

    /// Returns when [`advance`](Self::advance) is due; [`NEVER`] if the engine is idle.
    pub const fn next_event(&self) -> Time {
        self.step_ends
    }

    /// Ends the present step if it is over, and begins the next one. What it has completed is
    /// appended to `progress`.
    pub fn advance(&mut self, now: Time, progress: &mut Vec<Progress>) {
        if self.step_ends > now {
            return;
        }
        self.end_step(progress);
        self.begin_step(now);
    }

    /// Drops all sequences and the cache, because the process has stopped.
    pub fn clear(&mut self) {
        *self = Self {
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            ..Self::new(self.settings, self.slowness)
        };
    }

    /// Returns the prompt tokens that the cache has now of a prompt with these blocks. At least one
    /// token of a prompt is always read.
    pub fn cached(&self, blocks: &[u64], tokens: u32) -> u32 {
        let matched = u32::try_from(self.cache.matched(blocks)).unwrap_or(u32::MAX);
        matched
            .saturating_mul(self.settings.block_tokens)
            .min(tokens.saturating_sub(1))
    }

    /// Returns whether the block of that name is in memory.
    pub fn has(&self, block: u64) -> bool {
        self.cache.has(block)
    }

    /// Returns the number of prompts that wait for a place in the batch.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of sequences in the batch.
    pub const fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns the share of memory that sequences in progress use, from 0 to 1.
    pub fn memory_in_use(&self) -> f64 {
        self.cache.usage()
    }

    /// Returns all prompt tokens whose turn has come since the start, and those of them that were
    /// in the cache.
    pub const fn tokens(&self) -> [u64; 2] {
        [self.prompt_tokens, self.cached_tokens]
    }

    /// Chooses what the next step does, and sets its end.
    fn begin_step(&mut self, now: Time) {
        let answers = self.running.iter().filter(|it| it.is_read());
        let (mut count, mut context) = (0_u32, 0_u64);
        for sequence in answers {
            count += 1;
            context += u64::from(sequence.read) + u64::from(sequence.made);
        }
        let mut budget = self.settings.tokens_per_step.saturating_sub(count);
        let mut reads = 0;
        for sequence in &mut self.running {
            reads += sequence.take_from(&mut budget);
        }
        while budget > 0 && self.running.len() < self.settings.sequences_max {
            let Some(mut sequence) = self.waiting.pop_front() else {
                break;
            };
            if !self.admit(&mut sequence) {
                self.waiting.push_front(sequence);
                break;
            }
            reads += sequence.take_from(&mut budget);
            self.running.push(sequence);
        }
        if self.running.is_empty() {
            self.step_ends = NEVER;
            return;
        }
        let settings = &self.settings;
        let ns = settings.step_ns
            + settings.answer_ns * f64::from(count)
            + settings.context_token_ns * context as f64
            + settings.prompt_token_ns * f64::from(reads);
        self.step_ends = now + super::whole(ns * self.slowness);
    }

    /// Reserves memory for a sequence whose turn has come; `false` if there is too little.
    fn admit(&mut self, sequence: &mut Sequence) -> bool {
        let Prompt {
            tokens,
            answer_tokens,
            ref blocks,
        } = sequence.prompt;
        let block = self.settings.block_tokens;
        let cached = self.cached(&blocks[..(tokens / block) as usize], tokens);
        let shared = (cached / block) as usize;
        let all = tokens.saturating_add(answer_tokens).div_ceil(block) as usize;
        // A sequence that could never fit is served as if it did, so that it does not block others.
        let fresh = (all - shared).min(self.settings.blocks - shared.min(self.settings.blocks));
        if !self.cache.reserve(&blocks[..shared], fresh) {
            return false;
        }
        sequence.read = cached;
        sequence.named = shared;
        sequence.reserved = fresh;
        self.prompt_tokens += u64::from(tokens);
        self.cached_tokens += u64::from(cached);
        true
    }

    /// Plays what the present step does.
    fn end_step(&mut self, progress: &mut Vec<Progress>) {
        let block = self.settings.block_tokens;
        let cache = &mut self.cache;
        self.running.retain_mut(|sequence| {
            if sequence.is_read() {
                sequence.made += 1;
            } else {
                sequence.read += core::mem::take(&mut sequence.reading);
                if sequence.is_read() {
                    sequence.made = 1;
                    progress.push(Progress::FirstToken(sequence.job));
                }
            }
            sequence.name_blocks(block, cache);
            let is_finished = sequence.made >= sequence.prompt.answer_tokens;
            if is_finished {
                let named = &sequence.prompt.blocks[..sequence.named];
                cache.release(named, sequence.reserved);
                progress.push(Progress::Finished(sequence.job));
            }
            !is_finished
        });
    }
}

impl Sequence {
    const fn is_read(&self) -> bool {
        self.read >= self.prompt.tokens
    }

    /// Takes what it can read in a step from the step's budget, and returns it.
    fn take_from(&mut self, budget: &mut u32) -> u32 {
        self.reading = (self.prompt.tokens - self.read).min(*budget);
        *budget -= self.reading;
        self.reading
    }

    /// Gives the blocks that are full by now their names.
    fn name_blocks(&mut self, block_tokens: u32, cache: &mut Cache) {
        let full = ((self.read + self.made) / block_tokens) as usize;
        let full = full
            .min(self.prompt.blocks.len())
            .min(self.named + self.reserved);
        if full > self.named {
            cache.fill(&self.prompt.blocks[self.named..full]);
            self.reserved -= full - self.named;
            self.named = full;
        }
    }
}
