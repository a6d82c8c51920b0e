//! Probes on their way, the synchronous rounds that wait for them, and the policies' timeouts.

use super::engines::{Answer, hint};
use super::{DELAY, NAP_MIN, Run, What};
use crate::machine::{NEVER, Time};
use crate::scenario::Routing;
use slackwater_core::policy::{Event, ProbeId, ProbeRound};
use slackwater_core::{Instant, ReplicaId};

/// How long a round of a rule waits for its answers at most.
const ROUND_MAX: Time = 3_000_000;

/// A probe in progress.
#[derive(Debug)]
pub(super) struct Probing {
    balancer: usize,
    engine: usize,
    purpose: Purpose,
    /// Set on the way back; `None`: the engine is down.
    answer: Option<Answer>,
}

#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// The policy's own probe.
    Policy(ProbeId),
    /// A round.
    Round(u64, ReplicaId),
}

/// A synchronous round.
#[derive(Debug)]
pub(super) struct Round {
    turn: usize,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// The policy decides.
    Policy(Box<ProbeRound>),
    /// The rule decides, when no answer is missing.
    Rule {
        missing: usize,
        answers: Vec<(usize, Answer)>,
    },
}

impl Run<'_> {
    /// Sends the probes that a balancer's policy requests, and schedules its timeout.
    pub(super) fn poll(&mut self, number: usize) {
        let now = self.instant();
        let mut due = Vec::new();
        let balancer = &mut self.balancers[number];
        while let Some(probe) = balancer.policy.poll_probe(now, &mut balancer.draw) {
            due.push(probe);
        }
        let timeout = balancer
            .policy
            .poll_timeout()
            .map_or(NEVER, Instant::as_nanos);
        for probe in due {
            self.probe(number, probe.replica, Purpose::Policy(probe.id));
        }
        if timeout < self.armed[number] {
            let rest = if self.armed[number] == NEVER {
                NAP_MIN
            } else {
                0
            };
            self.armed[number] = timeout.max(self.now + rest);
            self.queue.push(self.armed[number], What::Policy(number));
        }
    }

    /// Handles the timeout of a balancer's policy. An entry that was replaced by an earlier one
    /// does nothing.
    pub(super) fn time_out(&mut self, number: usize) {
        if self.armed[number] != self.now {
            return;
        }
        self.armed[number] = NEVER;
        let now = self.instant();
        let balancer = &mut self.balancers[number];
        if balancer.policy.poll_timeout().is_some_and(|due| due <= now) {
            balancer.handle(now, Event::Timeout);
        }
        self.poll(number);
    }

    fn probe(&mut self, balancer: usize, to: ReplicaId, purpose: Purpose) {
        self.measured.probes += u64::from(self.span.contains(&self.now));
        let Some(&engine) = self.numbers.get(&to) else {
            return;
        };
        let probe = self.probes.insert(Probing {
            balancer,
            engine,
            purpose,
            answer: None,
        });
        self.queue.push(self.now + DELAY, What::Probe(probe));
    }

    /// Answers a probe. One of a round carries the hint of its turn's prompt.
    pub(super) fn probe_arrives(&mut self, number: usize) {
        let probe = &mut self.probes[number];
        let engine = &mut self.engines[probe.engine];
        let round = match probe.purpose {
            Purpose::Round(round, _) => self.rounds.get(&round),
            Purpose::Policy(_) => None,
        };
        let (names, tokens) = round.map_or((Vec::new(), 0), |round| {
            let prompt = &self.turns[round.turn].prompt;
            (
                hint(prompt, self.prompts.engine.block_tokens),
                prompt.tokens,
            )
        });
        if engine.id.is_some() {
            let mut answer = engine.answer(self.now, &names, tokens);
            if let Routing::Keyed { answers } = self.prompts.routing
                && round.is_some()
            {
                answer.report = answer.as_report(answers);
            }
            probe.answer = Some(answer);
        }
        self.queue.push(self.now + DELAY, What::Report(number));
    }

    /// Handles the answer to a probe.
    pub(super) fn report_arrives(&mut self, number: usize) {
        let probe = self.probes.remove(number);
        let now = self.instant();
        match probe.purpose {
            Purpose::Policy(id) => {
                let lost = Event::ProbeLost(id);
                let event = (probe.answer.as_ref())
                    .map_or(lost, |answer| Event::Report(id, &answer.report));
                self.balancers[probe.balancer].handle(now, event);
                self.poll(probe.balancer);
            }
            Purpose::Round(key, id) => {
                let Some(round) = self.rounds.get_mut(&key) else {
                    return;
                };
                if round.take(probe.engine, id, probe.answer) {
                    self.end_round(key);
                }
            }
        }
    }

    /// Begins a round of a policy.
    pub(super) fn begin_policy_round(&mut self, turn: usize, round: ProbeRound) {
        let targets: Vec<ReplicaId> = round.targets().collect();
        let deadline = round.deadline().as_nanos();
        self.send_probes(turn, Kind::Policy(Box::new(round)), &targets, deadline);
    }

    /// Begins a round of a rule, with these engines.
    pub(super) fn begin_round(&mut self, turn: usize, engines: &[usize]) {
        let ids = engines.iter().filter_map(|&engine| self.engines[engine].id);
        let targets: Vec<ReplicaId> = ids.collect();
        let kind = Kind::Rule {
            missing: targets.len(),
            answers: Vec::new(),
        };
        self.send_probes(turn, kind, &targets, self.now + ROUND_MAX);
    }

    fn send_probes(&mut self, turn: usize, kind: Kind, targets: &[ReplicaId], deadline: Time) {
        self.next_round += 1;
        let key = self.next_round;
        self.rounds.insert(key, Round { turn, kind });
        self.queue.push(deadline, What::Round(key));
        let balancer = self.turns[turn].balancer;
        for &id in targets {
            self.probe(balancer, id, Purpose::Round(key, id));
        }
    }

    /// Decides with the answers there are, unless the round has ended.
    pub(super) fn end_round(&mut self, key: u64) {
        let Some(Round { turn, kind }) = self.rounds.remove(&key) else {
            return;
        };
        match kind {
            Kind::Policy(round) => self.choose(turn, None, Some(&round)),
            Kind::Rule { answers, .. } => self.decide(turn, &answers),
        }
    }
}

impl Round {
    /// Takes in an answer. Returns whether the round can end.
    fn take(&mut self, engine: usize, id: ReplicaId, answer: Option<Answer>) -> bool {
        match (&mut self.kind, answer) {
            (Kind::Policy(round), Some(answer)) => {
                round.handle_report(id, &answer.report);
                round.is_ready()
            }
            (Kind::Policy(round), None) => {
                round.handle_lost(id);
                round.is_ready()
            }
            (Kind::Rule { missing, answers }, answer) => {
                *missing -= 1;
                answers.extend(answer.map(|answer| (engine, answer)));
                *missing == 0
            }
        }
    }
}
