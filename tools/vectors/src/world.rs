//! A scenario: a fleet under load with all its troubles, and the driver of the policy in it. What
//! the policy decides changes the load, and the load what comes back.

mod fleet;

use crate::chance::Chance;
use crate::habits::{Habits, MS, US};
use crate::keys::Keys;
use crate::machine::{Condition, Course, Machine};
use crate::player::{Answer, Asked, Player};
use slackwater_core::keys::KeyHash;
use slackwater_core::policy::{Attempt, Event, Outcome, Probe, ProbeId};
use slackwater_core::{LoadReport, ReplicaId, ReplicaIds};
use std::collections::BTreeMap;

/// What happens later.
#[derive(Clone, Debug)]
enum Action {
    Arrive,
    Head(u64, Outcome),
    End(u64, Outcome),
    Hedge(u64),
    Answer(ProbeId, ReplicaId),
    /// An answer that was on its way when its replica left, or that comes twice.
    Repeat(ProbeId, LoadReport),
    Lost(ProbeId),
    EndRound(u64),
    Siblings,
    OthersChange,
    FleetChange,
    ConditionChange,
}

/// A query in flight, as the driver keeps it.
#[derive(Clone, Debug)]
struct Sent {
    replica: ReplicaId,
    tried: Vec<ReplicaId>,
    attempt: Attempt,
    key: Option<KeyHash>,
}

/// A scenario that is being played.
#[derive(Debug)]
pub(crate) struct World {
    chance: Chance,
    habits: Habits,
    player: Player,
    clock: u64,
    queue: BTreeMap<(u64, u64), Action>,
    queued: u64,
    ids: ReplicaIds,
    machines: Vec<Machine>,
    gone: Vec<ReplicaId>,
    sent: BTreeMap<u64, Sent>,
    /// Queries that wait for their rounds.
    waiting: BTreeMap<u64, Asked>,
    late_timeouts: bool,
    keys: Option<Keys>,
}

impl World {
    pub(crate) fn new(
        mut chance: Chance,
        player: Player,
        habits: Habits,
        keys: Option<Keys>,
    ) -> Self {
        // An epoch of the driver's own, the process's or that of 1970, or near the end of time.
        let clock = match chance.within(0, 15) {
            0..=8 => 0,
            9..=12 => 5_000_000_000,
            13 | 14 => 1_790_000_000_000_000_000,
            _ => u64::MAX - 2_000_000_000_000,
        };
        let late_timeouts = chance.in_1000(400);
        Self {
            chance,
            habits,
            player,
            clock,
            queue: BTreeMap::new(),
            queued: 0,
            ids: ReplicaIds::new(),
            machines: Vec::new(),
            gone: Vec::new(),
            sent: BTreeMap::new(),
            waiting: BTreeMap::new(),
            late_timeouts,
            keys,
        }
    }

    /// Plays until there are `events` lines, and returns them.
    pub(crate) fn play(mut self, events: u64) -> String {
        let replicas = match self.chance.within(0, 39) {
            0 => 90,
            _ => self.chance.one_of(&[1, 2, 3, 3, 4, 5, 6, 8, 12, 20, 40]),
        };
        for _ in 0..replicas {
            self.join();
        }
        self.plan(0, Action::Arrive);
        self.plan(self.habits.gap_ns, Action::OthersChange);
        self.plan(self.habits.change_ns, Action::FleetChange);
        self.plan(self.habits.condition_ns / 2, Action::ConditionChange);
        if self.habits.siblings > 0 {
            self.plan(self.habits.gap_ns, Action::Siblings);
        }
        while self.player.events < events {
            self.step();
        }
        let now = self.now();
        self.player.hash(now, true);
        self.player.lines
    }

    fn plan(&mut self, after_ns: u64, action: Action) {
        self.queued += 1;
        let at = self.clock.saturating_add(after_ns);
        // On a coarse clock many times are equal, and spans are exactly as long as the bounds of
        // rules.
        let at = at
            .checked_next_multiple_of(self.habits.grain_ns)
            .unwrap_or(at);
        self.queue.insert((at, self.queued), action);
    }

    /// The time that the driver passes.
    fn now(&mut self) -> u64 {
        if self.chance.in_1000(self.habits.steps_back) {
            let back = self.chance.wide(60 * MS);
            return self.clock.saturating_sub(back);
        }
        self.clock
    }

    fn step(&mut self) {
        let next = self.queue.first_key_value().map(|(&(at, _), _)| at);
        let next = next.unwrap_or(u64::MAX);
        if let Some(timeout) = self.player.timeout()
            && timeout <= next
        {
            let late = if self.late_timeouts && self.chance.in_1000(300) {
                self.chance.wide(20 * MS)
            } else {
                0
            };
            let at = timeout.saturating_add(late);
            // A late driver may do something else first.
            if late == 0 || at <= next {
                self.clock = self.clock.max(at);
                self.handle(Event::Timeout);
                return;
            }
        }
        if let Some(((at, _), action)) = self.queue.pop_first() {
            self.clock = self.clock.max(at);
            self.act(action);
        }
    }

    fn handle(&mut self, event: Event<'_>) {
        let now = self.now();
        let probes = self.player.handle(now, event);
        self.send(probes);
    }

    /// Sends probes: most are answered in time.
    fn send(&mut self, probes: Vec<Probe>) {
        for probe in probes {
            let lasts = probe.deadline.as_nanos().saturating_sub(self.clock);
            let answers = self
                .machine(probe.replica)
                .is_some_and(|machine| machine.answers_probes && !machine.is_mute());
            if self.chance.in_1000(self.habits.probe_trouble) {
                match self.chance.within(0, 4) {
                    0 => self.plan(0, Action::Lost(probe.id)),
                    1 => self.handle(Event::ProbeUnsent(probe.id)),
                    2 => {
                        let late = lasts.saturating_add(self.chance.wide(30 * MS));
                        self.plan(late, Action::Answer(probe.id, probe.replica));
                    }
                    3 => {
                        let takes = self.chance.wide(lasts.saturating_add(1));
                        self.plan(takes, Action::Answer(probe.id, probe.replica));
                        self.plan(takes, Action::Answer(probe.id, probe.replica));
                    }
                    _ => {}
                }
            } else if answers {
                let most = lasts.min(2 * MS);
                let takes = 30 * US + self.chance.wide(most.saturating_add(1));
                self.plan(takes, Action::Answer(probe.id, probe.replica));
            } else if self.chance.in_1000(100) {
                self.plan(lasts / 2, Action::Lost(probe.id));
            }
        }
    }

    fn machine(&self, id: ReplicaId) -> Option<&Machine> {
        self.machines.iter().find(|machine| machine.id == id)
    }

    fn machine_mut(&mut self, id: ReplicaId) -> Option<&mut Machine> {
        self.machines.iter_mut().find(|machine| machine.id == id)
    }

    /// A replica at random; now and then one that has left.
    fn any_replica(&mut self) -> Option<ReplicaId> {
        if !self.gone.is_empty() && self.chance.in_1000(40) {
            return Some(self.chance.one_of(&self.gone));
        }
        let count = u32::try_from(self.machines.len()).ok()?.checked_sub(1)?;
        let place = self.chance.within(0, count) as usize;
        self.machines.get(place).map(|machine| machine.id)
    }

    fn report_of(&mut self, id: ReplicaId) -> Option<LoadReport> {
        let machine = self.machines.iter().find(|machine| machine.id == id)?;
        Some(machine.report(&mut self.chance))
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Arrive => self.arrive(),
            Action::Head(query, outcome) => {
                let now = self.now();
                let probes = self.player.head(now, query, outcome);
                self.send(probes);
            }
            Action::End(query, outcome) => self.end(query, outcome),
            Action::Hedge(query) => self.hedge(query),
            Action::Answer(probe, replica) => match self.report_of(replica) {
                Some(report) => {
                    self.handle(Event::Report(probe, &report));
                    if self.chance.in_1000(10) {
                        self.plan(MS, Action::Repeat(probe, report));
                    }
                }
                None if self.chance.in_1000(500) => {
                    let report = LoadReport::new(slackwater_core::Rif::new(1), None);
                    self.handle(Event::Report(probe, &report));
                }
                None => {}
            },
            Action::Repeat(probe, report) => self.handle(Event::Report(probe, &report)),
            Action::Lost(probe) => self.handle(Event::ProbeLost(probe)),
            Action::EndRound(query) => {
                let now = self.now();
                let asked = self.waiting.remove(&query).unwrap_or_default();
                let (answer, probes) = self.player.end_round(now, query);
                self.answered(answer, &asked);
                self.send(probes);
            }
            Action::Siblings => self.siblings(),
            Action::OthersChange => self.others_change(),
            Action::FleetChange => self.fleet_change(),
            Action::ConditionChange => self.condition_change(),
        }
    }

    /// A query arrives.
    fn arrive(&mut self) {
        let gap = match self.chance.within(0, 99) {
            // Queries come in bursts, and pause.
            0..=14 => 0,
            15 => self
                .habits
                .gap_ns
                .saturating_mul(if self.habits.gap_ns > 40 * MS { 5 } else { 60 }),
            _ => self.chance.wide(self.habits.gap_ns.saturating_mul(2)),
        };
        self.plan(gap, Action::Arrive);
        if self.player.wants_trial() && self.chance.in_1000(700) || self.chance.in_1000(4) {
            let key = self.keys.as_mut().and_then(Keys::key);
            self.ask(&Asked {
                attempt: Attempt::Trial,
                key,
                ..Asked::default()
            });
        }
        let mut asked = Asked {
            key: self.keys.as_mut().and_then(Keys::key),
            ..Asked::default()
        };
        if self.chance.in_1000(self.habits.pinned) {
            asked.pinned = self.any_replica();
            if self.chance.in_1000(300) {
                asked.attempt = Attempt::Retry;
                asked.has_room = true;
            }
        }
        // A driver may skip replicas for its own reasons.
        if self.chance.in_1000(20) {
            asked.avoid.extend(self.any_replica());
        }
        self.ask(&asked);
    }

    fn ask(&mut self, asked: &Asked) {
        let now = self.now();
        let (answer, probes) = self.player.choose(now, asked.clone());
        self.answered(answer, asked);
        self.send(probes);
    }

    fn answered(&mut self, answer: Answer, asked: &Asked) {
        match answer {
            Answer::Replica(query, replica) => self.start(query, replica, asked),
            Answer::Round(query) => self.start_round(query, asked.clone()),
            Answer::Nothing => {}
        }
    }

    /// Sends a query to its replica.
    fn start(&mut self, query: u64, replica: ReplicaId, asked: &Asked) {
        let mut tried = asked.avoid.clone();
        tried.push(replica);
        let sent = Sent {
            replica,
            tried,
            attempt: asked.attempt,
            key: asked.key,
        };
        self.sent.insert(query, sent);
        let (habits, chance) = (&self.habits, &mut self.chance);
        let course = match self.machines.iter_mut().find(|it| it.id == replica) {
            Some(machine) => {
                machine.own = machine.own.saturating_add(1);
                machine.course(habits, chance)
            }
            None => Course {
                head: None,
                ends_in: MS,
                outcome: Outcome::NoConnection,
            },
        };
        if let Some((after, outcome)) = course.head {
            self.plan(after, Action::Head(query, outcome));
            if self.chance.in_1000(20) {
                self.plan(after, Action::Head(query, Outcome::Success));
            }
        }
        self.plan(course.ends_in, Action::End(query, course.outcome));
        let is_first = asked.attempt == Attempt::First;
        if is_first && self.chance.in_1000(self.habits.hedges) {
            let after = self.habits.base_ns.saturating_mul(2);
            if after < course.ends_in {
                self.plan(after, Action::Hedge(query));
            }
        }
    }

    /// Sends the probes of a round. The round ends when enough are answered, or at its deadline.
    fn start_round(&mut self, query: u64, asked: Asked) {
        let Some(round) = self.player.round(query) else {
            return;
        };
        let targets: Vec<ReplicaId> = round.targets().collect();
        let lasts = round.deadline().as_nanos().saturating_sub(self.clock);
        let mut replies = Vec::new();
        for target in targets {
            let trouble = self.chance.in_1000(self.habits.probe_trouble);
            let machine = self.machine(target);
            let answers = machine.is_some_and(|it| it.answers_probes && !it.is_mute());
            let takes = self.chance.wide(lasts.saturating_mul(6) / 5);
            let report = self.report_of(target).filter(|_| answers && !trouble);
            let is_lost = report.is_none() && self.chance.in_1000(500);
            if (report.is_some() || is_lost) && takes < lasts {
                replies.push((takes, target, report));
            }
        }
        replies.sort_by_key(|&(takes, ..)| takes);
        let mut ends_in = lasts;
        if let Some(round) = self.player.round(query) {
            for (takes, target, report) in replies {
                match report {
                    Some(report) => round.handle_report(target, &report),
                    None => round.handle_lost(target),
                }
                if round.is_ready() {
                    ends_in = takes;
                    break;
                }
            }
        }
        self.waiting.insert(query, asked);
        self.plan(ends_in, Action::EndRound(query));
    }

    /// A second copy while the first is in flight.
    fn hedge(&mut self, query: u64) {
        if let Some(sent) = self.sent.get(&query) {
            let (avoid, key) = (sent.tried.clone(), sent.key);
            self.ask(&Asked {
                attempt: Attempt::Hedge,
                avoid,
                key,
                ..Asked::default()
            });
        }
    }

    fn end(&mut self, query: u64, outcome: Outcome) {
        let Some(sent) = self.sent.remove(&query) else {
            return;
        };
        if let Some(machine) = self.machine_mut(sent.replica) {
            machine.own = machine.own.saturating_sub(1);
        }
        let now = self.now();
        let probes = self.player.done(now, query, outcome);
        self.send(probes);
        if outcome == Outcome::Success
            && self.chance.in_1000(self.habits.carried)
            && let Some(report) = self.report_of(sent.replica)
        {
            self.handle(Event::CarriedReport(sent.replica, &report));
        }
        let may_retry = outcome.is_failure() || outcome == Outcome::PushedBack;
        let is_copy = matches!(sent.attempt, Attempt::Hedge | Attempt::Trial);
        if may_retry && !is_copy && sent.tried.len() < 4 && self.chance.in_1000(self.habits.retries)
        {
            self.ask(&Asked {
                attempt: Attempt::Retry,
                avoid: sent.tried,
                key: sent.key,
                ..Asked::default()
            });
        }
    }

    /// News from other clients of the same machine.
    fn siblings(&mut self) {
        let after = self.chance.wide(self.habits.gap_ns.saturating_mul(8));
        self.plan(after.max(10 * US), Action::Siblings);
        let Some(replica) = self.any_replica() else {
            return;
        };
        if self.chance.in_1000(self.habits.siblings) {
            let queries = match self.chance.within(0, 60) {
                0 => u32::MAX,
                1 => 0,
                few => 1 + few % 4,
            };
            if let Some(machine) = self.machine_mut(replica) {
                machine.others = machine.others.saturating_add(queries.min(4));
            }
            self.handle(Event::SiblingQueries(replica, queries));
        } else {
            let report = self.report_of(replica);
            let report =
                report.unwrap_or_else(|| LoadReport::new(slackwater_core::Rif::ZERO, None));
            self.handle(Event::SiblingReport(replica, &report));
        }
    }

    /// The load of other clients moves towards its mean.
    fn others_change(&mut self) {
        let after = self.chance.wide(self.habits.gap_ns.saturating_mul(3));
        self.plan(after.max(10 * US), Action::OthersChange);
        let (load, chance) = (self.habits.load, &mut self.chance);
        for machine in &mut self.machines {
            if chance.in_1000(300) {
                let mean = machine.cores.saturating_mul(load) / 1_000;
                machine.others = chance.within(mean / 2, mean + mean / 2 + 1);
            }
        }
    }

    fn condition_change(&mut self) {
        let after = 1 + self.chance.wide(self.habits.condition_ns.saturating_mul(2));
        self.plan(after, Action::ConditionChange);
        let condition = Condition::drawn(&mut self.chance);
        let all = self.chance.in_1000(self.habits.alike);
        let chosen = self.any_replica();
        for machine in &mut self.machines {
            if all || Some(machine.id) == chosen {
                machine.condition = condition;
            } else if self.chance.in_1000(150) {
                machine.condition = Condition::Sound;
            }
        }
    }
}
