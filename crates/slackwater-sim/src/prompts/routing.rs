//! The rules that choose the engine of a turn.

use super::Run;
use super::engines::Answer;
use crate::scenario::{Probes, Routing};
use slackwater_core::keys::KeyHash;
use slackwater_core::policy::{Attempt, Decision, ProbeRound, Query};
use slackwater_core::{Draw, SplitMix64};

/// Weights of the scores: queue, free memory, prefix.
const SCORES: [f64; 3] = [2.0, 2.0, 3.0];

impl Run<'_> {
    /// Chooses the engine of a turn, or begins the round that will.
    pub(super) fn route(&mut self, turn: usize) {
        let up = self.up();
        if up.is_empty() {
            self.retry_later(turn);
            return;
        }
        let session = &self.open[self.turns[turn].session];
        let last = session.last.filter(|&last| self.engines[last].id.is_some());
        let engine = match self.prompts.routing {
            Routing::Policy | Routing::Keyed { .. } => None,
            Routing::SessionHash => order(session.number, up).first().copied(),
            Routing::BoundedHash { factor } => self.bounded(turn, &up, factor),
            Routing::Sticky => last,
            Routing::PrefixScore { exact } => self.best_score(turn, &up, exact),
            Routing::Probes(probes) => {
                let engines = self.targets(turn, up, probes, last);
                self.begin_round(turn, &engines);
                return;
            }
            Routing::StickyReports { miss_weight } => {
                Some(self.by_reports(turn, &up, last, miss_weight))
            }
        };
        self.choose(turn, engine, None);
    }

    /// Returns the engines that are up.
    fn up(&self) -> Vec<usize> {
        let all = 0..self.engines.len();
        all.filter(|&engine| self.engines[engine].id.is_some())
            .collect()
    }

    /// Lets the policy choose, or charge the choice of a rule.
    pub(super) fn choose(
        &mut self,
        turn: usize,
        engine: Option<usize>,
        round: Option<&ProbeRound>,
    ) {
        let now = self.instant();
        let number = self.turns[turn].balancer;
        let query = Query {
            attempt: if self.turns[turn].is_retry {
                Attempt::Retry
            } else {
                Attempt::First
            },
            pinned: engine.and_then(|engine| self.engines[engine].id),
            round,
            key: match self.prompts.routing {
                Routing::Keyed { .. } => {
                    let session = &self.open[self.turns[turn].session];
                    Some(KeyHash::from_bits(session.number))
                }
                _ => None,
            },
            ..Query::first()
        };
        let balancer = &mut self.balancers[number];
        match balancer.policy.choose(now, query, &mut balancer.draw, None) {
            Decision::Pick(pick) => self.send(turn, pick.ticket),
            Decision::Probe(round) => self.begin_policy_round(turn, round),
            Decision::NoReplica => self.retry_later(turn),
        }
        self.poll(number);
    }

    /// Returns the first engine in the session's order with less than `factor` times its share of
    /// this balancer's requests in flight.
    fn bounded(&self, turn: usize, up: &[usize], factor: f64) -> Option<usize> {
        let turn = &self.turns[turn];
        let sent = &self.balancers[turn.balancer].sent;
        let total: u32 = up.iter().map(|&engine| sent[engine]).sum();
        let bound = (factor * f64::from(total + 1) / up.len() as f64).ceil();
        let order = order(self.open[turn.session].number, up.to_vec());
        let below = order
            .iter()
            .find(|&&engine| f64::from(sent[engine]) < bound);
        below.or(order.first()).copied()
    }

    /// Returns the engine with the highest sum of scores.
    fn best_score(&mut self, number: usize, up: &[usize], exact: bool) -> Option<usize> {
        let turn = &self.turns[number];
        let balancer = &mut self.balancers[turn.balancer];
        let waiting = up.iter().map(|&engine| balancer.scraped[engine].waiting);
        let most = waiting.clone().max()?;
        let least = waiting.min()?;
        let full = (turn.prompt.tokens / self.prompts.engine.block_tokens) as usize;
        let chain = &turn.prompt.blocks[..full];
        let mut best = None;
        for &engine in up {
            let scraped = balancer.scraped[engine];
            let queue = match most - least {
                0 => 1.0,
                range => (most - scraped.waiting) as f64 / range as f64,
            };
            let matched = if exact {
                chain
                    .iter()
                    .take_while(|name| self.engines[engine].machine.has(**name))
                    .count()
            } else {
                balancer.remembered[engine].matched(chain)
            };
            let prefix = matched as f64 / full.max(1) as f64;
            let scores = [queue, 1.0 - scraped.memory_in_use, prefix];
            let score: f64 = SCORES.iter().zip(scores).map(|(w, it)| w * it).sum();
            let rank = (-score, balancer.chance.draw());
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, engine));
            }
        }
        best.map(|(_, engine)| engine)
    }

    /// Returns the engines that a round probes.
    fn targets(
        &mut self,
        turn: usize,
        up: Vec<usize>,
        probes: Probes,
        last: Option<usize>,
    ) -> Vec<usize> {
        let turn = &self.turns[turn];
        let mut targets: Vec<usize> = last.filter(|_| probes.last).into_iter().collect();
        let order = order(self.open[turn.session].number, up);
        targets.extend(order.iter().take(probes.homes));
        if probes.last && probes.homes > 0 && targets[1..].contains(&targets[0]) {
            targets.remove(0);
        }
        let mut rest: Vec<usize> = order
            .into_iter()
            .filter(|it| !targets.contains(it))
            .collect();
        let chance = &mut self.balancers[turn.balancer].chance;
        for _ in 0..probes.others.min(rest.len()) {
            let place = chance.below(u32::try_from(rest.len()).unwrap_or(1));
            targets.push(rest.swap_remove(place as usize));
        }
        targets
    }

    /// Decides by the answers of a round.
    pub(super) fn decide(&mut self, turn: usize, answers: &[(usize, Answer)]) {
        let Routing::Probes(probes) = self.prompts.routing else {
            return;
        };
        let chance = &mut self.balancers[self.turns[turn].balancer].chance;
        let ranked = answers.iter().map(|(engine, answer)| {
            let delay = answer.delay_ns() + probes.miss_weight * answer.uncached_ns;
            (delay, chance.draw(), *engine)
        });
        let best = ranked.reduce(|a, b| if b < a { b } else { a });
        self.choose(turn, best.map(|(.., engine)| engine), None);
    }

    /// Returns the engine at which the answer should begin first, by reports. Only the session's
    /// engine is known to have its text.
    fn by_reports(
        &mut self,
        number: usize,
        up: &[usize],
        last: Option<usize>,
        miss_weight: f64,
    ) -> usize {
        let turn = &self.turns[number];
        let tokens = f64::from(turn.prompt.tokens);
        let balancer = &mut self.balancers[turn.balancer];
        let mut best = ((f64::INFINITY, 0), up[0], 0.0);
        for &engine in up {
            let scraped = balancer.scraped[engine];
            let own_ns = if last == Some(engine) {
                0.0
            } else {
                tokens * scraped.token_ns
            };
            let wait_ns = scraped.wait_ns + balancer.sent_since_ns[engine];
            let delay = wait_ns + own_ns * (1.0 + miss_weight);
            let rank = (delay, balancer.chance.draw());
            if rank < best.0 {
                best = (rank, engine, own_ns);
            }
        }
        balancer.sent_since_ns[best.1] += best.2;
        best.1
    }
}

/// Returns these engines in the session's rendezvous order.
fn order(session: u64, mut engines: Vec<usize>) -> Vec<usize> {
    let score = |engine: usize| SplitMix64::new(session ^ (engine as u64) << 40).draw();
    engines.sort_by_key(|&engine| core::cmp::Reverse(score(engine)));
    engines
}
