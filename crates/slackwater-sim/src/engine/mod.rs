//! The event loop: queries, probes and their answers between clients and machines.
//!
//! It has one thread, no clock but the time of the next event, and no randomness but seeded
//! streams. Events of the same nanosecond happen in a fixed order: appointments, machines,
//! messages, policies' timeouts, timers, deadlines, arrivals. Within each kind they happen in the
//! order in which they were added, or by the lowest number.
//!
//! | what | where |
//! |---|---|
//! | arrivals of queries | `arrivals` |
//! | a query's way there and back, its deadline, its second copy | `attempts`, `query`, `hedging` |
//! | what chooses replicas | `balancing`, `clairvoyant` |
//! | what that costs clients themselves | `client_cpu` |
//! | classes of queries | `classes` |
//! | keys of queries, caches of replicas | `cached` |
//! | two tied copies of each query | `tying` |
//! | probes and synchronous rounds | `probing` |
//! | the part of the fleet that each client uses | `subsets` |
//! | what workers of one proxy share | `siblings` |
//! | messages and their delays | `network` |
//! | replicas: machine, tracker, process | `replicas` |
//! | crashes and other changes, samples | `changes` |
//! | recorded changes of the fleet, client by client | `news` |
//! | measurements | `meter` |
//! | queues of events | `queue`, `wheel` |

mod arrivals;
mod attempts;
mod balancing;
mod cached;
mod changes;
mod clairvoyant;
mod classes;
mod client_cpu;
mod hedging;
mod learning;
mod meter;
mod network;
mod news;
mod probing;
mod query;
pub(crate) mod queue;
mod replicas;
mod siblings;
mod subsets;
#[cfg(test)]
mod tests;
mod tying;
mod wheel;

use crate::machine::{NEVER, Time};
use crate::scenario::Siblings;
use crate::{Measured, PolicyChoice, Scenario};
use arrivals::Arrivals;
use balancing::Balancing;
use cached::Names;
use changes::Appointment;
use classes::Parts;
use client_cpu::ClientCpus;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use meter::Meter;
use network::{Message, Network};
use news::KnownParts;
use probing::{Probing, Round};
use query::{Attempt, Key, Query, Table};
use queue::{Earliest, Queue};
use replicas::Replicas;
use slab::Slab;
use slackwater_core::policy::Event;
use slackwater_core::tail::Hedger;
use slackwater_core::{Instant, LoadScale};
use std::collections::VecDeque;
use subsets::Members;

/// If a policy's timeout is due again right after it was handled, the next one comes at least this
/// much later, in nanoseconds. The library's timers are no finer.
const NAP_MIN_NS: Time = 1_000_000;

/// Steps between two checks of the stop flag: a few hundred microseconds.
const STEPS_BETWEEN_LOOKS: usize = 2_048;

/// Plays `scenario` once under `policy`; `None` if `stop` was set before it ended. The same
/// arguments give the same result. The engine has no clock: the runner measures [`Measured::cpu`].
///
/// Queries continue to arrive after the measured span, until those of the span have ended. A query
/// that is not answered within the deadline is an error, and its policy receives
/// [`TimedOut`](slackwater_core::policy::Outcome::TimedOut), as in the proxy. The replica works on.
/// When a replica stops, the queries there break off and their clients receive the failure after a
/// network delay. Later queries and probes are refused. A draining replica reports it, and still
/// serves what arrives until it leaves. A replica whose first event is to join does not exist
/// before.
///
/// A step of the loop, as counted in [`Measured::events`], is an arrival, a message delivered,
/// something that happens in a machine (work done, a change of capacity), a policy's timeout, the
/// end of a synchronous round, a second copy that falls due, or a deadline. Each counts only if it
/// still mattered when its time came. Sampling does not count.
///
/// The scenario must have no [mistakes](Scenario::mistakes).
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

/// A run in progress.
#[derive(Debug)]
struct Engine {
    now: Time,
    /// Steps so far.
    events: u64,
    arrivals: Arrivals,
    network: Network,
    replicas: Replicas,
    balancing: Balancing,
    /// Recorded changes of the fleet for each client; `None`: all clients receive the same changes
    /// when they happen.
    known_parts: Option<KnownParts>,
    /// The replicas of each client, where each class of queries has its own.
    parts: Option<Parts>,
    /// The replicas of each client; `None`: all have all.
    members: Option<Members>,
    /// Hashes of keys and names of replicas; `None`: queries have no keys.
    names: Option<Names>,
    /// The scale of the load that a replica reports to a probe whose key it has in its cache.
    hint_scale: LoadScale,
    /// Number of clients.
    clients: usize,
    /// `None`: their own work costs nothing.
    client_cpus: Option<ClientCpus>,
    /// What workers of one proxy share.
    siblings: Option<Siblings>,
    /// One hedger for each client, or none at all.
    hedging: Vec<Hedger>,
    /// How much later the second of two tied copies leaves; `None`: there is none.
    tie: Option<Time>,
    queries: Table<Query>,
    attempts: Table<Attempt>,
    probes: Slab<Probing>,
    rounds: Table<Round>,
    /// When each client's policy is polled. Its own timeout may be later by then.
    timeouts: Earliest,
    timers: Queue<Timer>,
    deadlines: VecDeque<(Time, Key)>,
    agenda: Queue<Appointment>,
    meter: Meter,
    /// How long a client waits for an answer.
    patience: Time,
    cancel_expired: bool,
    /// Whether replicas drop further copies for which they have no room.
    copies_need_room: bool,
}

/// Something that falls due for one query or probe.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// Its second copy.
    Hedge(Key),
    /// The second of its tied copies leaves.
    Tied(Key),
    /// The end of its synchronous round.
    Round(Key),
    /// Its client has CPU time to choose for it.
    Choice(Key),
    /// Its client has CPU time to send a probe, by the probe's slot.
    Probe(u32),
    /// Its client has CPU time to handle the answer to a probe, by the probe's slot.
    Report(u32),
}

/// The source of the next event.
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
        let clients = classes::clients(scenario);
        let replicas = scenario.replicas();
        let hedge = scenario.load.hedge.as_ref();
        let begins = nanos(scenario.warmup);
        let mut engine = Self {
            now: 0,
            events: 0,
            arrivals: Arrivals::new(scenario, seed),
            network: Network::new(scenario, seed),
            replicas: Replicas::new(scenario, seed),
            balancing: Balancing::new(policy, scenario, clients, seed),
            known_parts: KnownParts::new(scenario, seed),
            parts: Parts::new(scenario),
            members: (scenario.load.subsets)
                .map(|subsets| Members::new(subsets, clients, replicas, seed)),
            names: Names::new(scenario.load.keys.as_ref(), seed),
            hint_scale: policy.hint_scale(),
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
                meter::block(scenario),
            ),
            patience: nanos(scenario.deadline),
            cancel_expired: scenario.cancel_expired,
            copies_need_room: hedge.is_some_and(|hedge| hedge.needs_room),
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

    /// Returns the source and time of the next event. On ties the first source in the list is next.
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
                self.send_delayed_probe(slot);
                true
            }
            Timer::Report(slot) => {
                self.handle_report(slot);
                true
            }
        }
    }

    /// Handles the timeout of the policy that is due; `false` if the policy has moved it to later.
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

    /// Schedules the timeout of the client's policy. If a policy moves its timeout to later, this
    /// is noticed at the earlier time.
    #[inline]
    fn arm(&mut self, number: u32) {
        let Some(client) = self.balancing.client(number) else {
            return;
        };
        if let Some(due) = client.policy.poll_timeout() {
            let due = due.as_nanos();
            let armed = self.timeouts.of(number as usize);
            if due < armed {
                // A timeout after one that was just handled comes at least `NAP_MIN_NS` later. A
                // timeout that a policy moves to earlier has no such delay.
                let rest = if armed == NEVER { NAP_MIN_NS } else { 0 };
                self.timeouts.set(number as usize, due.max(self.now + rest));
            }
        }
    }
}

/// Converts to nanoseconds. More than 584 years count as 584 years.
fn nanos(span: Duration) -> Time {
    Time::try_from(span.as_nanos()).unwrap_or(NEVER)
}

/// Rounds to the nearest whole number, at least 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float's conversion saturates, and nothing here is negative"
)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// Returns the 64-bit draw below which this share of all draws lies.
fn share_of_draws(share: f64) -> u64 {
    rounded(share * u64::MAX as f64)
}
