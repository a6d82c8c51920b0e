//! Synchronous mode: there is no pool. Each query probes a few random replicas and goes to the best
//! that answers.
//!
//! `[S1]`–`[S4]` `[Prequal §4 "Synchronous mode"]` It costs each query a round trip. That is worth
//! it if a probe can carry what the query is about: a replica that has the data at hand scales its
//! reported load down and attracts the query.
//!
//! This mode does not balance replicas without probes `[A13]` by the client's own counts: each
//! round that includes one waits for its deadline, and such a replica is picked only at random. If
//! some replicas do not answer, use the asynchronous mode.

use crate::draw::{Draw, below};
use crate::policy::Policy;
use crate::policy::event::Event;
use crate::policy::explanation::{Candidate, Explanation, NotedDraws};
use crate::policy::fleet::Fleet;
use crate::policy::narrow::Narrowed;
use crate::policy::observe::{Counters, Snapshot};
use crate::policy::outcome::Outcome;
use crate::policy::pooled_view::PooledView;
use crate::policy::prequal::config::PrequalConfig;
use crate::policy::prequal::hot_cold;
use crate::policy::probe::{Probe, ProbeId, ProbeRound, RoundAnswer};
use crate::policy::probed::draw_distinct;
use crate::policy::probed::rank::{self, Load, PoolRank};
use crate::policy::probed::rif_limit::RifDistribution;
use crate::policy::query::{Attempt, Decision, Pick, PickReason, Query, Ticket};
use crate::replica::ReplicaId;
use crate::report::{LoadScale, Rif};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use core::time::Duration;

/// Prequal with synchronous probes.
#[derive(Clone)]
pub struct PrequalSync {
    config: PrequalConfig,
    fleet: Fleet,
    reported: RifDistribution,
    counters: Counters,
    /// Buffer for a round's targets.
    targets: Vec<ReplicaId>,
}

impl PrequalSync {
    /// Synchronous Prequal with an empty fleet.
    pub fn new(config: PrequalConfig) -> Self {
        Self {
            config,
            fleet: Fleet::default(),
            reported: RifDistribution::new(),
            counters: Counters::default(),
            targets: Vec::with_capacity(2 * ProbeRound::MAX_PROBES),
        }
    }

    fn picked(&mut self, now: Instant, replica: ReplicaId, reason: PickReason) -> Pick {
        self.counters.picks.count(reason);
        self.fleet.query_sent(replica);
        Pick::without_reports(Ticket::new(replica, now), reason)
    }

    /// A random pick, for when probes show nothing; one of the query's homes, if it has any. `[S2]`
    fn fall_back(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        mut explanation: Option<&mut Explanation>,
    ) -> Option<Pick> {
        let narrowed = Narrowed::of(&self.fleet, query);
        let query = narrowed.apply(query);
        let replica = match &mut explanation {
            None => self.fleet.random(query, draw),
            Some(explanation) => self.fleet.random_explained(query, draw, explanation),
        };
        let Some(replica) = replica else {
            self.counters.no_replica += 1;
            return None;
        };
        if let Some(explanation) = explanation {
            let chosen = Candidate::new(replica, None, self.fleet.in_flight(replica));
            explanation.choose(chosen, PickReason::Random, None);
        }
        let reason = self.fleet.reason_for(replica, PickReason::Fallback);
        Some(self.picked(now, replica, reason))
    }

    /// A random replica to probe as well, if it is not available: its answer can show that it no
    /// longer drains. The query does not wait for it.
    fn scout(&self, query: Query<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        let known = self.fleet.known();
        if known.len() == self.fleet.available().len() {
            return None;
        }
        let replica = known[below(draw, u32::try_from(known.len()).unwrap_or(u32::MAX)) as usize];
        (!self.fleet.is_available(replica) && !query.avoids(replica)).then_some(replica)
    }

    /// Records everything that a round's answers contain, for any pick.
    fn learn(&mut self, now: Instant, round: &ProbeRound) {
        self.counters.rounds += 1;
        self.counters.probing_ns += span_ns(now.saturating_since(round.started_at));
        self.counters.probes_lost += round.lost();
        self.counters.reports_late += round.unanswered();
        for answer in round.answers() {
            self.counters.probes_answered += 1;
            if self.fleet.knows(answer.replica) {
                self.fleet.set_draining(answer.replica, answer.draining);
                if self.fleet.is_available(answer.replica) {
                    self.reported.record(answer.rif);
                }
            } else {
                self.counters.reports_unknown += 1;
            }
        }
    }

    /// Explains the answers to a round, as reported. Their compared values are scaled.
    fn explain(&self, round: &ProbeRound, query: Query<'_>, explanation: &mut Explanation) {
        self.fleet.explain(explanation);
        let rif_limit = self.reported.limit(self.config.rif_limit_quantile);
        let scaled_limit = rif_limit.map(|rif| scaled_rif(rif, LoadScale::ONE));
        explanation.compare(&hot_cold::SCALED, hot_cold::shared(rif_limit));
        let is_usable = |answer: &RoundAnswer| {
            self.fleet.is_available(answer.replica) && !query.avoids(answer.replica)
        };
        let stand_in_ns = stand_in_ns(round.answers().filter(is_usable));
        for answer in round.answers() {
            let load = scaled_load(&answer, stand_in_ns);
            let place = hot_cold::place(load, scaled_limit);
            let report = answer.view(hot_cold::is_hot(place.first));
            let avoided = !is_usable(&answer);
            explanation.consider(Candidate {
                avoided,
                values: hot_cold::values(load, scaled_limit),
                place: (place.first, place.second),
                ..self.candidate(report)
            });
        }
    }

    fn candidate(&self, report: PooledView) -> Candidate {
        let in_flight = self.fleet.in_flight(report.replica);
        Candidate::new(report.replica, Some(report), in_flight)
    }

    /// The best of the usable answers by the hot-cold rule on scaled load. `[S1]` `[S3]`
    fn best(
        &self,
        answers: impl Iterator<Item = RoundAnswer> + Clone,
        draw: &mut dyn Draw,
    ) -> Option<Chosen> {
        let rif_limit = self.reported.limit(self.config.rif_limit_quantile);
        let scaled_limit = rif_limit.map(|rif| scaled_rif(rif, LoadScale::ONE));
        let stand_in_ns = stand_in_ns(answers.clone());
        let ranks = (0_u32..).zip(answers.clone()).map(|(index, answer)| {
            let load = scaled_load(&answer, stand_in_ns);
            PoolRank::new(index, hot_cold::place(load, scaled_limit))
        });
        let best = rank::best(ranks, draw)?;
        let answer = answers.clone().nth(best.index)?;
        let runner_up = best.runner_up.and_then(|index| answers.clone().nth(index));
        let candidates = answers.count();
        Some(Chosen {
            reason: if candidates == 1 {
                PickReason::SoleAnswer
            } else {
                hot_cold::reason(best.first)
            },
            rif_limit,
            candidates: u16::try_from(candidates).unwrap_or(u16::MAX),
            runner_up: runner_up.map(|answer| answer.replica),
            report: answer.view(hot_cold::is_hot(best.first)),
        })
    }

    /// Picks by the answers to a round, or at random if none is usable. `[S1]` `[S2]`
    fn finish_round(
        &mut self,
        now: Instant,
        round: &ProbeRound,
        query: Query<'_>,
        draw: &mut dyn Draw,
        mut explanation: Option<&mut Explanation>,
    ) -> Option<Pick> {
        self.learn(now, round);
        if let Some(explanation) = &mut explanation {
            self.explain(round, query, explanation);
        }
        let among = Narrowed::new(&self.fleet, query, query.among);
        // Since the round began, a copy of the query may have gone to a replica that answered.
        let narrowed = among.apply(query);
        let usable = round.answers().filter(|answer| {
            narrowed.allows(answer.replica) && self.fleet.is_available(answer.replica)
        });
        let probing = now.saturating_since(round.started_at);
        let mut draws = NotedDraws::new(draw);
        let Some(chosen) = self.best(usable, &mut draws) else {
            let pick = self.fall_back(now, query, draw, explanation)?;
            return Some(Pick { probing, ..pick });
        };
        if let Some(explanation) = explanation {
            explanation.note_draw(draws.last);
            let candidate = self.candidate(chosen.report);
            explanation.choose(candidate, chosen.reason, chosen.runner_up);
        }
        Some(Pick {
            rif_limit: chosen.rif_limit,
            candidates: chosen.candidates,
            chosen: Some(chosen.report),
            runner_up: chosen.runner_up,
            probing,
            ..self.picked(now, chosen.report.replica, chosen.reason)
        })
    }
}

impl RoundAnswer {
    fn view(&self, hot: bool) -> PooledView {
        PooledView {
            replica: self.replica,
            rif: self.rif,
            latency: self.latency_ns.map(Duration::from_nanos),
            age: Duration::ZERO,
            uses_left: 1,
            local: false,
            hot,
        }
    }
}

/// The result of a round.
struct Chosen {
    reason: PickReason,
    rif_limit: Option<Rif>,
    candidates: u16,
    report: PooledView,
    runner_up: Option<ReplicaId>,
}

/// The stand-in for an unknown latency: the median of the known ones. `[A7]` Like them, it is
/// scaled by what the replica asks for, so an idle replica that has the data attracts the query.
/// Without any, the scales alone decide.
fn stand_in_ns(answers: impl Iterator<Item = RoundAnswer>) -> u64 {
    // Scaled, it is the scale itself.
    const NONE_KNOWN_NS: u64 = 1_024;
    // With the scout's.
    let mut known_ns = [0; ProbeRound::MAX_PROBES + 1];
    let mut known = 0;
    for latency_ns in answers.filter_map(|answer| answer.latency_ns) {
        known_ns[known] = latency_ns;
        known += 1;
    }
    if known == 0 {
        return NONE_KNOWN_NS;
    }
    rank::stand_in_ns(&mut known_ns[..known])
}

/// Draws at most `count` distinct members of `from` that the query may go to. Every set of them is
/// equally likely.
fn draw_targets(
    from: &[ReplicaId],
    query: Query<'_>,
    count: u8,
    draw: &mut dyn Draw,
    into: &mut Vec<ReplicaId>,
) {
    into.clear();
    let homes = query.homes;
    let count = usize::from(count);
    // Some of those drawn may be homes, which are probed anyway.
    let enough = u32::try_from(count + query.avoid.len()).unwrap_or(u32::MAX);
    draw_distinct(enough, from, draw, into);
    into.retain(|replica| !query.avoids(*replica) && !homes.contains(replica));
    // The rest are in random order, so any of them may be cut.
    into.truncate(count.saturating_sub(homes.len()));
    into.extend(homes.iter().take(count));
}

/// The load of an answer that is compared.
fn scaled_load(answer: &RoundAnswer, stand_in_ns: u64) -> Load {
    let latency_ns = answer.latency_ns.unwrap_or(stand_in_ns);
    Load {
        rif: scaled_rif(answer.rif, answer.load_scale),
        latency_ns: scaled_latency_ns(latency_ns, answer.load_scale),
    }
}

/// RIF in 1/1024, so that scaling loses no precision.
const fn scaled_rif(rif: Rif, scale: LoadScale) -> u64 {
    rif.count() as u64 * scale.in_1024ths() as u64
}

fn scaled_latency_ns(latency_ns: u64, scale: LoadScale) -> u64 {
    let scaled = u128::from(latency_ns) * u128::from(scale.in_1024ths()) / 1024;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl Policy for PrequalSync {
    fn name(&self) -> &'static str {
        super::SYNC_ENTRY.name
    }

    fn handle(&mut self, _now: Instant, event: Event<'_>, _draw: &mut dyn Draw) {
        match event {
            Event::Added(replica) => {
                self.fleet.add(replica);
            }
            Event::Removed(replica) => {
                self.fleet.remove(replica);
            }
            Event::Available(replica, available) => {
                self.fleet.set_ejected(replica, !available);
            }
            // It learns only from its rounds, and the driver keeps their deadlines.
            Event::Report(..)
            | Event::SiblingReport(..)
            | Event::Identified(..)
            | Event::Far(..)
            | Event::SiblingQueries(..)
            | Event::CarriedReport(..)
            | Event::ProbeLost(_)
            | Event::ProbeUnsent(_)
            | Event::Timeout => {}
        }
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        draw: &mut dyn Draw,
        mut explanation: Option<&mut Explanation>,
    ) -> Decision {
        if query.attempt == Attempt::Trial {
            return Decision::NoReplica;
        }
        if let Some(round) = query.round {
            let pick = self.finish_round(now, round, query, draw, explanation);
            return pick.map_or(Decision::NoReplica, Decision::Pick);
        }
        if let Some(explanation) = &mut explanation {
            self.fleet.explain(explanation);
        }
        if let Some(replica) = self.fleet.pinned(query) {
            if let Some(explanation) = explanation {
                explanation.choose_pinned(replica);
            }
            return Decision::Pick(self.picked(now, replica, query.pin_reason()));
        }
        let panic = self.fleet.in_panic();
        let homes = Narrowed::new(&self.fleet, query, query.homes);
        let among = Narrowed::new(&self.fleet, query, query.among);
        let query = Query {
            homes: homes.as_slice(),
            ..among.apply(query)
        };
        draw_targets(
            self.fleet.choice_for(query),
            query,
            self.config.sync_probes,
            draw,
            &mut self.targets,
        );
        // One answer would not be a choice, so it is not worth a round trip.
        if self.targets.len() < 2 {
            let pick = self.fall_back(now, query, draw, explanation);
            return pick.map_or(Decision::NoReplica, Decision::Pick);
        }
        let scout = if panic { None } else { self.scout(query, draw) };
        self.counters.probes_sent += self.targets.len() as u64 + u64::from(scout.is_some());
        let deadline = now + self.config.sync_deadline;
        let mut round = ProbeRound::new(now, deadline, &self.targets, scout);
        if !query.homes.is_empty() {
            // Without the answers of its homes, the query would often miss what they have.
            round.wait_for_all();
        }
        Decision::Probe(round)
    }

    fn handle_query_done(&mut self, _now: Instant, ticket: Ticket, _outcome: Outcome) {
        self.fleet.query_done(ticket.replica());
    }

    fn handle_head(&mut self, _now: Instant, _ticket: &mut Ticket, _outcome: Outcome) {}

    fn poll_probe(&mut self, _now: Instant, _draw: &mut dyn Draw) -> Option<Probe> {
        None
    }

    fn probe_target(&self, _probe: ProbeId) -> Option<ReplicaId> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn wants_trial(&self) -> bool {
        false
    }

    fn spares_some(&mut self, _now: Instant) -> bool {
        false
    }

    fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn snapshot(&self, _now: Instant) -> Snapshot {
        Snapshot {
            replicas: self.fleet.views(|_| false),
            rif_limit: self.reported.limit(self.config.rif_limit_quantile),
            ..Snapshot::default()
        }
    }
}
