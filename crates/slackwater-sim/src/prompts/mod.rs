//! Conversations with a language model in virtual time: sessions, balancers and engines.
//!
//! This is an event loop of its own beside [`engine`](crate::engine), because a turn depends on the
//! end of the turn before it, and an answer has two times: that of its first token and its end.
//! Decisions are the core's policies, or one of the rules of
//! [`Routing`].
//!
//! | what | where |
//! |---|---|
//! | sessions, their turns and texts | `sessions` |
//! | the life of a turn | `turns` |
//! | engines, and the agents before them | `engines` |
//! | balancers | `balancers` |
//! | the rules | `routing` |
//! | probes and synchronous rounds | `rounds` |

mod balancers;
mod engines;
mod rounds;
mod routing;
mod sessions;
#[cfg(test)]
mod tests;
mod turns;

use crate::engine::queue::Queue;
use crate::machine::{NEVER, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::{Prompts, Restart, Routing, Scenario, nanoseconds};
use crate::{Measured, PolicyChoice};
use balancers::Balancer;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use engines::Engine;
use rounds::{Probing, Round};
use sessions::{Session, Sessions};
use slab::Slab;
use slackwater_core::keys::Identity;
use slackwater_core::policy::Event;
use slackwater_core::{Instant, ReplicaId, ReplicaIds};
use std::collections::HashMap;
use turns::Turn;

/// Network delay of each message.
const DELAY: Time = 300_000;
/// Time between two scrapes of an engine.
const SCRAPE_EVERY: Time = 50_000_000;
/// Time between two samples of requests in flight.
const SAMPLE_EVERY: Time = 1_000_000_000;
/// A timeout that is due again at once comes this much later.
const NAP_MIN: Time = 1_000_000;
/// Time after which a turn for which no engine is up tries again.
const RETRY_AFTER: Time = 100_000_000;
/// Steps between two checks of the stop flag.
const STEPS_BETWEEN_LOOKS: u64 = 2_048;

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum What {
    /// A session begins, and the next one is scheduled.
    Session,
    /// A session of the burst begins.
    BurstSession,
    /// The next turn of a session.
    Turn(usize),
    /// A turn is routed again.
    Retry(usize),
    /// A turn reaches its engine.
    Reach(usize),
    /// A step of an engine ends.
    Step(usize),
    /// The first token of a turn's answer reaches the balancer.
    First(usize),
    /// The end of a turn's answer.
    End(usize),
    /// The failure of a turn.
    Fail(usize),
    /// A probe reaches its engine.
    Probe(usize),
    /// The answer to a probe.
    Report(usize),
    /// The deadline of a round.
    Round(u64),
    /// A balancer's policy has a timeout.
    Policy(usize),
    /// All balancers scrape all engines.
    Scrape,
    /// Requests in flight are sampled.
    Sample,
    /// The measured span begins or ends.
    Mark,
    /// An engine stops.
    Stop(Restart),
    /// An engine that was stopped comes back.
    Back(usize),
}

/// A run in progress.
#[derive(Debug)]
struct Run<'a> {
    prompts: &'a Prompts,
    now: Time,
    queue: Queue<What>,
    sessions: Sessions<'a>,
    open: Slab<Session>,
    turns: Slab<Turn>,
    engines: Vec<Engine>,
    balancers: Vec<Balancer>,
    ids: ReplicaIds,
    numbers: HashMap<ReplicaId, usize>,
    probes: Slab<Probing>,
    rounds: HashMap<u64, Round>,
    next_round: u64,
    /// When each balancer's policy is polled.
    armed: Vec<Time>,
    /// The balancer of each turn.
    spread: Stream,
    span: Range<Time>,
    measured: Measured,
    /// Measured turns without a first token.
    unanswered: usize,
    steps: u64,
}

/// Plays the conversations of `scenario` once; `None` if `stop` was set before the end, or the
/// policy is a clairvoyant, which is not played here. The same arguments give the same result.
///
/// The run ends when each measured turn has its first token, or at the scenario's deadline after
/// the measured span. Turns without a first token are errors then, and count with their age.
pub(crate) fn run(
    scenario: &Scenario,
    prompts: &Prompts,
    policy: &PolicyChoice,
    seed: u64,
    stop: &AtomicBool,
) -> Option<Measured> {
    let mut run = Run::new(scenario, prompts, policy, seed)?;
    run.begin(scenario);
    let last = run.span.end + crate::machine::whole(nanoseconds(scenario.deadline));
    loop {
        let at = run.queue.next_at();
        let is_over = at > run.span.end && run.unanswered == 0;
        if at == NEVER || at > last || is_over {
            return Some(run.finish());
        }
        let what = run.queue.pop()?;
        run.now = at;
        run.steps += 1;
        if run.steps.is_multiple_of(STEPS_BETWEEN_LOOKS) && stop.load(Relaxed) {
            return None;
        }
        run.play(what);
    }
}

impl<'a> Run<'a> {
    fn new(
        scenario: &Scenario,
        prompts: &'a Prompts,
        policy: &PolicyChoice,
        seed: u64,
    ) -> Option<Self> {
        let count = scenario.replicas();
        let engines = (0..count).map(|number| Engine::new(scenario, prompts, number));
        let balancers = (0..scenario.load.clients.len() as u64)
            .map(|number| Balancer::new(policy, prompts, count, number, seed));
        let begins = crate::machine::whole(nanoseconds(scenario.warmup));
        let mut measured = Measured::nothing(count);
        measured.span = scenario.span;
        Some(Self {
            prompts,
            now: 0,
            queue: Queue::default(),
            sessions: Sessions::new(prompts, scenario.load.rate, seed),
            open: Slab::new(),
            turns: Slab::new(),
            engines: engines.collect(),
            balancers: balancers.collect::<Option<Vec<_>>>()?,
            ids: ReplicaIds::new(),
            numbers: HashMap::new(),
            probes: Slab::new(),
            rounds: HashMap::new(),
            next_round: 0,
            armed: vec![NEVER; scenario.load.clients.len()],
            spread: Stream::new(seed, Purpose::Sessions, u64::MAX / 2),
            span: begins..begins + crate::machine::whole(nanoseconds(scenario.span)),
            measured,
            unanswered: 0,
            steps: 0,
        })
    }

    /// Starts all engines, and begins as many sessions as are usually open, each at a random place
    /// of its life. Nothing of their earlier turns is in a cache.
    fn begin(&mut self, scenario: &Scenario) {
        for engine in 0..self.engines.len() {
            self.bring_up(engine);
        }
        // A turn takes its think time and about 8 s for its answer.
        let cycle_ns = nanoseconds(self.prompts.think) + 8e9;
        let mut at = 0.0;
        while at < cycle_ns {
            let session = self.open.insert(self.sessions.begin(true, None));
            self.queue
                .push(crate::machine::whole(at), What::Turn(session));
            at += 1e9 / scenario.load.rate;
        }
        let gap = self.sessions.gap();
        self.queue.push(gap, What::Session);
        self.queue.push(self.span.start, What::Mark);
        self.queue.push(self.span.end, What::Mark);
        self.queue.push(self.span.start, What::Sample);
        if self.scrapes() {
            self.queue.push(0, What::Scrape);
        }
        if let Some(burst) = self.prompts.burst {
            let at = crate::machine::whole(nanoseconds(burst.at));
            let gap = nanoseconds(burst.within) / f64::from(burst.sessions.max(1));
            for number in 0..burst.sessions {
                let later = crate::machine::whole(gap * f64::from(number));
                self.queue.push(at + later, What::BurstSession);
            }
        }
        if let Some(restart) = self.prompts.restart {
            let at = crate::machine::whole(nanoseconds(restart.at));
            self.queue.push(at, What::Stop(restart));
        }
    }

    const fn scrapes(&self) -> bool {
        matches!(
            self.prompts.routing,
            Routing::PrefixScore { .. } | Routing::StickyReports { .. }
        )
    }

    fn play(&mut self, what: What) {
        match what {
            What::Session => {
                let gap = self.sessions.gap();
                self.queue.push(self.now + gap, What::Session);
                let session = self.open.insert(self.sessions.begin(false, None));
                self.turn(session);
            }
            What::BurstSession => {
                let session = self.sessions.begin(false, self.prompts.burst);
                let session = self.open.insert(session);
                self.turn(session);
            }
            What::Turn(session) => self.turn(session),
            What::Retry(turn) => self.route(turn),
            What::Reach(turn) => self.reach(turn),
            What::Step(engine) => self.step(engine),
            What::First(turn) => self.first_token(turn),
            What::End(turn) => self.end(turn),
            What::Fail(turn) => self.fail(turn),
            What::Probe(probe) => self.probe_arrives(probe),
            What::Report(probe) => self.report_arrives(probe),
            What::Round(round) => self.end_round(round),
            What::Policy(balancer) => self.time_out(balancer),
            What::Scrape => self.scrape(),
            What::Sample => self.sample(),
            What::Mark => self.mark(),
            What::Stop(restart) => self.stop(restart),
            What::Back(engine) => self.bring_up(engine),
        }
    }

    /// Adds an engine to all balancers.
    fn bring_up(&mut self, engine: usize) {
        let Some(id) = self.ids.allocate() else {
            return;
        };
        self.engines[engine].id = Some(id);
        self.numbers.insert(id, engine);
        let now = self.instant();
        for balancer in 0..self.balancers.len() {
            self.balancers[balancer].handle(now, Event::Added(id));
            let identity = Identity::new(&engine.to_le_bytes(), 0);
            self.balancers[balancer].handle(now, Event::Identified(id, identity));
            self.poll(balancer);
        }
    }

    /// Stops an engine: its answers break off.
    fn stop(&mut self, restart: Restart) {
        let engine = restart.engine;
        let Some(id) = self.engines[engine].id else {
            return;
        };
        self.engines[engine].stop();
        let now = self.instant();
        for balancer in 0..self.balancers.len() {
            self.balancers[balancer].handle(now, Event::Removed(id));
            self.balancers[balancer].remembered[engine].clear();
            self.poll(balancer);
        }
        self.ids.release(id);
        for (number, turn) in &mut self.turns {
            if turn.breaks_off(engine) {
                self.queue.push(self.now + DELAY, What::Fail(number));
            }
        }
        let back = crate::machine::whole(nanoseconds(restart.down_for));
        self.queue.push(self.now + back, What::Back(engine));
    }

    /// Reads all engines for all balancers.
    fn scrape(&mut self) {
        for engine in 0..self.engines.len() {
            let scraped = self.engines[engine].scrape(self.now);
            for balancer in &mut self.balancers {
                balancer.scraped[engine] = scraped;
                balancer.sent_since_ns[engine] = 0.0;
            }
        }
        self.queue.push(self.now + SCRAPE_EVERY, What::Scrape);
    }

    fn sample(&mut self) {
        if self.now >= self.span.end {
            return;
        }
        for engine in &self.engines {
            self.measured.rif.record(engine.in_flight() as u64);
        }
        self.queue.push(self.now + SAMPLE_EVERY, What::Sample);
    }

    /// Counts the tokens of prompts from the beginning of the measured span to its end.
    fn mark(&mut self) {
        let mut sums = [0, 0];
        for engine in &self.engines {
            for (sum, tokens) in sums.iter_mut().zip(engine.machine.tokens()) {
                *sum += tokens;
            }
        }
        let [prompt_tokens, cached_tokens] = sums;
        let conversations = &mut self.measured.conversations;
        conversations.prompt_tokens = prompt_tokens - conversations.prompt_tokens;
        conversations.cached_tokens = cached_tokens - conversations.cached_tokens;
    }

    /// Ends the run, and returns its measurements.
    fn finish(mut self) -> Measured {
        let waiting = self.turns.iter().filter(|(_, turn)| turn.is_awaited());
        for (_, turn) in waiting {
            let age = self.now.saturating_sub(turn.arrived_at);
            self.measured
                .latency
                .record(core::time::Duration::from_nanos(age));
            self.measured.errors += 1;
            self.measured.timeouts += 1;
        }
        self.measured.events = self.steps;
        self.measured
    }

    const fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }
}
