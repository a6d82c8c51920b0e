//! The engines with the agent before each: what it counts, measures and reports.
//!
//! An agent sees requests and responses, and not the inside of the engine. It knows which prompts
//! have no first token yet, how many of their tokens were not in the cache, and how long first
//! tokens take. The matched part of a prompt is that of the engine's own cache, as an engine
//! reports it by events.

use crate::machine::{Inference, JobId, Progress, Prompt, Time};
use crate::scenario::{Answers, Prompts, Scenario};
use core::time::Duration;
use slackwater_core::tracker::{Arrival, End, LoadTracker, RecentRates, Totals};
use slackwater_core::{Instant, LoadReport, LoadScale, ReplicaId};
use std::collections::VecDeque;

/// What a request costs besides its uncached tokens, in tokens: about one step of the engine.
const REQUEST_TOKENS: f64 = 256.0;
/// How much of the measured time for a token is kept at each first token.
const KEPT: f64 = 0.9;
/// The most names of blocks in a hint: 256 bytes.
pub(super) const HINT_NAMES: usize = 32;
/// How much less loaded an engine looks that has the whole prompt in its cache, of 1024.
const SCALED_OFF: f64 = 0.75 * 1024.0;

/// An engine and its agent.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) machine: Inference,
    tracker: LoadTracker,
    rates: RecentRates,
    finished: u64,
    /// The id by which policies know it; `None` while it is down.
    pub(super) id: Option<ReplicaId>,
    incarnation: u64,
    /// Prompts without a first token, in order of arrival.
    ahead: VecDeque<Ahead>,
    /// Decaying sums of the time of first tokens, and of the tokens that it was for.
    busy_ns: f64,
    busy_tokens: f64,
    last_first_at: Time,
}

#[derive(Debug)]
struct Ahead {
    job: JobId,
    arrived_at: Time,
    tokens: f64,
}

/// Rates of queries: nothing counts CPU time here.
const fn rates() -> RecentRates {
    RecentRates::new(0)
}

/// What a probe with a hint is answered.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) report: LoadReport,
    /// Time until a prompt that arrived now would be begun.
    pub(super) wait_ns: f64,
    /// Time that the prompt itself would take then.
    pub(super) own_ns: f64,
    /// Time that its uncached tokens take.
    pub(super) uncached_ns: f64,
}

impl Answer {
    /// Returns the expected time from the prompt's arrival to its first token.
    pub(super) fn delay_ns(&self) -> f64 {
        self.wait_ns + self.own_ns
    }

    /// Returns the report that a policy receives.
    pub(super) fn as_report(&self, answers: Answers) -> LoadReport {
        let mut report = self.report.clone();
        if answers == Answers::ExpectedDelay {
            report.load_scale = LoadScale::ONE;
            report.latency = Some(duration(self.delay_ns()));
        }
        report
    }
}

/// What a scrape reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scraped {
    pub(super) waiting: usize,
    pub(super) memory_in_use: f64,
    pub(super) wait_ns: f64,
    pub(super) token_ns: f64,
}

impl Engine {
    pub(super) fn new(scenario: &Scenario, prompts: &Prompts, number: usize) -> Self {
        let group = scenario.fleet.get(scenario.group_of(number));
        let slowness = group.map_or(1.0, |group| group.slowness);
        Self {
            machine: Inference::new(prompts.engine, slowness),
            tracker: LoadTracker::default(),
            rates: rates(),
            finished: 0,
            id: None,
            incarnation: 0,
            ahead: VecDeque::new(),
            busy_ns: prompts.engine.prompt_token_ns * REQUEST_TOKENS,
            busy_tokens: REQUEST_TOKENS,
            last_first_at: 0,
        }
    }

    /// Takes in a prompt.
    pub(super) fn arrive(&mut self, now: Time, job: JobId, prompt: Prompt) -> Arrival {
        let uncached = prompt.tokens - self.machine.cached(&prompt.blocks, prompt.tokens);
        self.ahead.push_back(Ahead {
            job,
            arrived_at: now,
            tokens: f64::from(uncached) + REQUEST_TOKENS,
        });
        self.machine.arrive(now, job, prompt);
        self.tracker.arrive(Instant::from_nanos(now))
    }

    /// Plays the end of a step.
    pub(super) fn advance(&mut self, now: Time, progress: &mut Vec<Progress>) {
        self.machine.advance(now, progress);
        for progress in progress {
            if let Progress::FirstToken(job) = progress {
                self.measure(now, *job);
            }
        }
    }

    /// Measures the time for a token by a first token.
    fn measure(&mut self, now: Time, job: JobId) {
        let Some(place) = self.ahead.iter().position(|it| it.job == job) else {
            return;
        };
        let Some(it) = self.ahead.remove(place) else {
            return;
        };
        let began = it.arrived_at.max(self.last_first_at);
        self.busy_ns = KEPT * self.busy_ns + (now - began) as f64;
        self.busy_tokens = KEPT * self.busy_tokens + it.tokens;
        self.last_first_at = now;
    }

    /// Notes the first token of an answer.
    pub(super) fn first_token(&self, now: Time, arrival: &mut Arrival) {
        let now = Instant::from_nanos(now);
        self.tracker.head_ready(now, arrival, End::Success);
    }

    /// Notes the end of an answer.
    pub(super) fn finished(&mut self, now: Time, arrival: Arrival) {
        let now = Instant::from_nanos(now);
        self.finished += 1;
        self.tracker.finish(now, arrival, End::Success);
    }

    /// Returns the report that responses carry and probes without a hint receive.
    pub(super) fn report(&mut self, now: Time) -> LoadReport {
        let now = Instant::from_nanos(now);
        let mut report = self.tracker.report(now);
        let totals = Totals {
            finished: self.finished,
            failed: 0,
            cpu: None,
        };
        self.rates.read(now, totals);
        self.rates.fill(&mut report);
        report.incarnation = Some(self.incarnation);
        report
    }

    /// Answers a probe with the hint of a prompt of this many tokens.
    pub(super) fn answer(&mut self, now: Time, hint: &[u64], tokens: u32) -> Answer {
        let here = hint.iter().take_while(|name| self.machine.has(**name));
        let share = here.count() as f64 / hint.len().max(1) as f64;
        let uncached_ns = (1.0 - share) * f64::from(tokens) * self.token_ns();
        let mut report = self.report(now);
        report.load_scale = scale(share);
        Answer {
            report,
            wait_ns: self.wait_ns(now),
            own_ns: uncached_ns + REQUEST_TOKENS * self.token_ns(),
            uncached_ns,
        }
    }

    /// Reads what a scrape of the engine's metrics and its agent's report has.
    pub(super) fn scrape(&self, now: Time) -> Scraped {
        Scraped {
            waiting: self.machine.waiting(),
            memory_in_use: self.machine.memory_in_use(),
            wait_ns: self.wait_ns(now),
            token_ns: self.token_ns(),
        }
    }

    /// Returns the number of requests in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.machine.waiting() + self.machine.running()
    }

    /// Stops the process. What it was doing is lost.
    pub(super) fn stop(&mut self) {
        self.machine.clear();
        self.tracker = LoadTracker::default();
        (self.rates, self.finished) = (rates(), 0);
        self.ahead.clear();
        self.incarnation += 1;
        self.id = None;
    }

    /// Returns the measured time for an uncached token.
    fn token_ns(&self) -> f64 {
        self.busy_ns / self.busy_tokens
    }

    /// Returns the time that the prompts without a first token will take.
    fn wait_ns(&self, now: Time) -> f64 {
        let tokens: f64 = self.ahead.iter().map(|it| it.tokens).sum();
        let Some(first) = self.ahead.front() else {
            return 0.0;
        };
        let begun = first.arrived_at.max(self.last_first_at);
        let played = (now.saturating_sub(begun)) as f64;
        tokens * self.token_ns() - played.min(first.tokens * self.token_ns())
    }
}

/// Returns the scale of an engine's load that has this share of a prompt.
fn scale(share: f64) -> LoadScale {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is at most 1"
    )]
    let parts = (1024.0 - SCALED_OFF * share).round() as u16;
    LoadScale::from_1024ths(parts)
}

/// Returns the hint of a prompt: the names of at most 32 blocks, evenly spread over its full
/// blocks, with the last one.
pub(super) fn hint(prompt: &Prompt, block_tokens: u32) -> Vec<u64> {
    let full = (prompt.tokens / block_tokens) as usize;
    let names = full.min(HINT_NAMES);
    let place = |name: usize| (name + 1) * full / names - 1;
    (0..names).map(|name| prompt.blocks[place(name)]).collect()
}

/// Returns the duration of this many nanoseconds.
pub(super) fn duration(ns: f64) -> Duration {
    Duration::from_nanos(crate::machine::whole(ns))
}
