//! The event loop: queries, probes and their answers between clients and machines.
//!
//! One thread, no clock but the time of the next event, no randomness but seeded streams. What
//! happens at the same nanosecond happens in a fixed order: appointments, machines, messages,
//! policies' timeouts, timers, deadlines, arrivals; within each kind in the order in which it was
//! put in, or by the lowest number.
//!
//! | what | where |
//! |---|---|
//! | queries come | `arrivals` |
//! | a query's way there and back, its deadline, its second copy | `attempts`, `query`, `hedging` |
//! | who chooses | `balancing`, `clairvoyant` |
//! | what that costs clients themselves | `client_cpu` |
//! | two tied copies of each query | `tying` |
//! | probes and synchronous rounds | `probing` |
//! | what workers of one proxy tell each other | `siblings` |
//! | messages and their delays | `network` |
//! | replicas: machine, tracker, process | `replicas` |
//! | crashes and the like, samples | `changes` |
//! | fleets as clients heard of them once | `news` |
//! | what is written down | `meter` |
//! | what comes next | `queue`, `wheel` |

mod arrivals;
mod attempts;
mod balancing;
mod changes;
mod clairvoyant;
mod client_cpu;
mod hedging;
mod learning;
mod meter;
mod network;
mod news;
mod probing;
mod query;
mod queue;
mod replicas;
mod siblings;
#[cfg(test)]
mod tests;
mod tying;
mod wheel;

use crate::machine::{NEVER, Time};
use crate::scenario::Siblings;
use crate::{Measured, PolicyChoice, Scenario};
use arrivals::Arrivals;
use balancing::Balancing;
use changes::Appointment;
use client_cpu::ClientCpus;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use meter::Meter;
use network::{Message, Network};
use news::Heard;
use probing::{Probing, Round};
use query::{Attempt, Key, Query, Table};
use queue::{Earliest, Queue};
use replicas::Replicas;
use slab::Slab;
use slackwater_core::Instant;
use slackwater_core::policy::Event;
use slackwater_core::tail::Hedger;
use std::collections::VecDeque;

/// A policy that still wants its timeout right after it has been handled gets it so much later, in
/// nanoseconds: as in the library, whose timers are no finer.
const NAP_MIN_NS: Time = 1_000_000;

/// How many steps are played between two looks at whether to stop: a few hundred microseconds.
const STEPS_BETWEEN_LOOKS: usize = 2_048;

/// Plays `scenario` once under `policy`; `None` if it was to `stop` before it ended. The same
/// arguments give the same result. There is no clock in here: [`Measured::cpu`] is the runner's.
///
/// Queries go on arriving after the measured span, until those of the span have ended. A query that
/// is not answered within the deadline is an error and tells the policy
/// [`TimedOut`](slackwater_core::policy::Outcome::TimedOut), as in the proxy; the replica works on.
/// Where a replica stops, the queries there break off and their clients learn of it after a network
/// delay; later ones, and probes, are refused. A replica that drains says so in its reports, and
/// serves what comes all the same until it leaves. A replica whose first event is to join is not
/// there before.
///
/// A step of the loop, as counted in [`Measured::events`], is an arrival, a message delivered,
/// something that happens in a machine (work done, a change of capacity), a policy's timeout, the
/// end of a synchronous round, a second copy that falls due, or a deadline; each only if it was
/// still of concern when its time came. Sampling does not count.
///
/// The scenario is one without [mistakes](Scenario::mistakes).
pub fn run(
    scenario: &Scenario,
    policy: &PolicyChoice,
    seed: u64,
    stop: &AtomicBool,
) -> Option<Measured> {
    let mut engine = Engine::new(scenario, policy, seed);
    engine.play(stop).then(|| {
        let health = engine.balancing.health();
        engine.meter.finish(engine.events, health)
    })
}

/// A run under way.
#[derive(Debug)]
struct Engine {
    now: Time,
    /// Steps so far.
    events: u64,
    arrivals: Arrivals,
    network: Network,
    replicas: Replicas,
    balancing: Balancing,
    /// What clients hear of the fleet one by one, as once; `None`: all hear the same, when it
    /// happens.
    heard: Option<Heard>,
    /// How many clients there are.
    clients: usize,
    /// `None`: their own work costs nothing.
    client_cpus: Option<ClientCpus>,
    /// Which of them tell each other what.
    siblings: Option<Siblings>,
    /// One for each client, or none at all.
    hedging: Vec<Hedger>,
    /// How much later the second of two tied copies sets out; `None`: there is none.
    tie: Option<Time>,
    queries: Table<Query>,
    attempts: Table<Attempt>,
    probes: Slab<Probing>,
    rounds: Table<Round>,
    /// When each client's policy is looked at; its own time may be later by then.
    timeouts: Earliest,
    timers: Queue<Timer>,
    deadlines: VecDeque<(Time, Key)>,
    agenda: Queue<Appointment>,
    meter: Meter,
    /// How long a client waits for an answer.
    patience: Time,
    cancel_expired: bool,
}

/// What falls due for one query or probe.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// Its second copy.
    Hedge(Key),
    /// The second of its tied copies sets out.
    Tied(Key),
    /// The end of its synchronous round.
    Round(Key),
    /// Its client has time for it.
    Choice(Key),
    /// The same for a probe that is to be sent, by its slot.
    Probe(u32),
    /// The same for the answer to it.
    Report(u32),
}

/// Where the next event comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    Agenda,
    Machine,
    Network,
    Timeout,
    Timer,
    Deadline,
    Arrival,
}

impl Engine {
    fn new(scenario: &Scenario, policy: &PolicyChoice, seed: u64) -> Self {
        let clients = scenario.load.clients.len();
        let replicas = scenario.replicas();
        let hedge = scenario.load.hedge.as_ref();
        let begins = nanos(scenario.warmup);
        let mut engine = Self {
            now: 0,
            events: 0,
            arrivals: Arrivals::new(scenario, seed),
            network: Network::new(scenario, seed),
            replicas: Replicas::new(scenario, seed),
            balancing: Balancing::new(policy, clients, replicas, seed),
            heard: Heard::new(scenario),
            clients,
            client_cpus: ClientCpus::new(scenario),
            siblings: scenario.load.siblings,
            hedging: hedge.map_or_else(Vec::new, |hedge| {
                (0..clients).map(|_| hedging::hedger(hedge)).collect()
            }),
            tie: scenario.load.tie.map(nanos),
            queries: Table::default(),
            attempts: Table::default(),
            probes: Slab::new(),
            rounds: Table::default(),
            timeouts: Earliest::new(clients),
            timers: Queue::default(),
            deadlines: VecDeque::new(),
            agenda: Queue::default(),
            meter: Meter::new(
                replicas,
                begins..begins + nanos(scenario.span),
                (scenario.tape.as_ref()).map_or(0, |tape| nanos(tape.block)),
            ),
            patience: nanos(scenario.deadline),
            cancel_expired: scenario.cancel_expired,
        };
        engine.begin(scenario);
        engine
    }

    /// Plays to the end; `false` if it was stopped before.
    fn play(&mut self, stop: &AtomicBool) -> bool {
        while !stop.load(Relaxed) {
            for _ in 0..STEPS_BETWEEN_LOOKS {
                let (at, source) = self.next();
                if self.meter.is_done(at) {
                    return true;
                }
                debug_assert!(at >= self.now, "time does not step back");
                self.now = at;
                self.step(source);
            }
        }
        false
    }

    /// What happens next, and when. Ties go to whoever is asked first.
    #[inline]
    fn next(&self) -> (Time, Source) {
        let deadline = self.deadlines.front().map_or(NEVER, |&(at, _)| at);
        let mut next = (self.agenda.next_at(), Source::Agenda);
        for other in [
            (self.replicas.next_at(), Source::Machine),
            (self.network.next_at(), Source::Network),
            (self.timeouts.next_at(), Source::Timeout),
            (self.timers.next_at(), Source::Timer),
            (deadline, Source::Deadline),
            (self.arrivals.next_at(), Source::Arrival),
        ] {
            if other.0 < next.0 {
                next = other;
            }
        }
        next
    }

    #[inline]
    fn step(&mut self, source: Source) {
        let counts = match source {
            Source::Agenda => {
                if let Some(appointment) = self.agenda.pop() {
                    self.keep(appointment);
                }
                false
            }
            Source::Machine => {
                self.advance_machine();
                true
            }
            Source::Network => {
                if let Some(message) = self.network.deliver() {
                    self.deliver(message);
                }
                true
            }
            Source::Timeout => self.time_out(),
            Source::Timer => self.timers.pop().is_some_and(|timer| self.fall_due(timer)),
            Source::Deadline => {
                let due = self.deadlines.pop_front();
                due.is_some_and(|(_, query)| self.expire(query))
            }
            Source::Arrival => {
                self.query_arrives();
                true
            }
        };
        self.events += u64::from(counts);
    }

    #[inline]
    fn deliver(&mut self, message: Message) {
        match message {
            Message::Query(attempt) => self.serve(attempt),
            Message::Answer(attempt, outcome) => self.handle_answer(attempt, outcome),
            Message::Cancel(attempt) => self.cancel(attempt),
            Message::Untie(replica, name) => self.untie(replica, name),
            Message::Probe(probe) => self.answer_probe(probe),
            Message::Report(probe) => self.report_comes(probe),
        }
    }

    fn fall_due(&mut self, timer: Timer) -> bool {
        match timer {
            Timer::Hedge(query) => self.hedge(query),
            Timer::Tied(copy) => self.send_tied(copy),
            Timer::Round(round) => self.end_round(round),
            Timer::Choice(query) => {
                self.choose(query);
                true
            }
            Timer::Probe(slot) => {
                self.network.send_probe(self.now, Message::Probe(slot));
                true
            }
            Timer::Report(slot) => {
                self.handle_report(slot);
                true
            }
        }
    }

    /// Looks at the policy whose timeout may have come; `false` if it has moved on.
    fn time_out(&mut self) -> bool {
        let number = self.timeouts.next();
        self.timeouts.set(number, NEVER);
        let now = Instant::from_nanos(self.now);
        let number = query::slot_number(number);
        let Some(client) = self.balancing.client(number) else {
            return false;
        };
        let is_due = client.policy.poll_timeout().is_some_and(|due| due <= now);
        if is_due {
            client.handle(now, Event::Timeout);
            self.poll_client(number);
        } else {
            self.arm(number);
        }
        is_due
    }

    /// Sees to it that the client's policy is looked at when its timeout comes. One that has moved
    /// to a later time is noticed at the earlier one.
    #[inline]
    fn arm(&mut self, number: u32) {
        let Some(client) = self.balancing.client(number) else {
            return;
        };
        if let Some(due) = client.policy.poll_timeout() {
            let due = due.as_nanos();
            let armed = self.timeouts.of(number as usize);
            if due < armed {
                // One that has just been looked at has a rest; one that wants to be earlier than
                // before has not.
                let rest = if armed == NEVER { NAP_MIN_NS } else { 0 };
                self.timeouts.set(number as usize, due.max(self.now + rest));
            }
        }
    }
}

/// Nanoseconds of a span; one of more than 584 years counts as so many.
fn nanos(span: Duration) -> Time {
    Time::try_from(span.as_nanos()).unwrap_or(NEVER)
}

/// The nearest whole number from 0 up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float's conversion saturates, and nothing here is negative"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// The 64-bit draw below which this share of all draws lies.
fn share_of_draws(share: f64) -> u64 {
    rounded(share * u64::MAX as f64)
}
