//! What a choice was made from: the candidates as the policy saw them, the replicas that could not
//! be chosen, and why.
//!
//! A caller passes an [`Explanation`] with the query. It is filled while the choice is made, so it
//! shows the state before the query was charged. It allocates all its memory when it is created;
//! filling it allocates nothing, and takes time in proportion to what is recorded. Without one, a
//! choice costs nothing extra.

use crate::draw::Draw;
use crate::policy::comparison::{Comparison, Equals, Values};
use crate::policy::health_view::HealthState;
use crate::policy::key_view::KeyChoice;
use crate::policy::pooled_view::PooledView;
use crate::policy::query::PickReason;
use crate::replica::ReplicaId;
use alloc::vec::Vec;
use core::time::Duration;

/// What one choice was made from.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    comparison: Option<&'static Comparison>,
    shared: Values,
    draw: Option<u64>,
    candidates: Vec<Candidate>,
    /// The worst candidate, once it was needed: its place and its rank.
    worst: Option<(usize, Rank)>,
    considered: u32,
    cold: u32,
    hot: u32,
    rule: Option<PickReason>,
    chosen: Option<ReplicaId>,
    runner_up: Option<ReplicaId>,
    outs: Vec<Out>,
    out: u32,
    available: u32,
    key: Option<KeyChoice>,
}

/// A replica that was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The replica.
    pub replica: ReplicaId,
    /// Its report, as it counted. `None` for policies without reports, and if none was known.
    pub report: Option<PooledView>,
    /// Queries that this client had in flight there.
    pub in_flight: u32,
    /// The values of the factors that were compared.
    pub values: Values,
    /// Its capacity by its last report, in thousandths of a request in flight, for policies that
    /// use it. `None` if it reports none.
    pub capacity_millirif: Option<u32>,
    /// Cost of a query there by its last report, under the same conditions.
    pub cost: Option<Duration>,
    /// It must not get this query: the query has tried it, it was full, or it was spared because it
    /// is new or held back.
    pub avoided: bool,
    /// Its place in the policy's comparison; lower is better.
    pub(in crate::policy) place: (u64, u64),
    /// How many candidates were compared before it.
    pub number: u32,
}

/// A replica that could not be chosen, or only for a part of its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Out {
    /// The replica.
    pub replica: ReplicaId,
    /// The reason.
    pub why: OutReason,
    /// The part of the queries that it may get, in millionths. 0 if it cannot be chosen at all.
    pub share_millionths: u32,
}

/// Why a replica could not be chosen, or only for a part of its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutReason {
    /// Its driver took it out and gave the policy no reason.
    TakenOut,
    /// Its driver's own reason, in one word.
    Driver(&'static str),
    /// Its report has the draining flag.
    Draining,
    /// It has stopped answering probes while others answer.
    Lost,
    /// Its health.
    Health(HealthState),
}

impl OutReason {
    /// The reason in one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TakenOut => "taken_out",
            Self::Driver(why) => why,
            Self::Draining => "draining",
            Self::Lost => "unreachable",
            Self::Health(state) => state.as_str(),
        }
    }
}

/// Sort key of a candidate, lower is better: not avoided, its place, and of equals the one that was
/// compared first.
type Rank = (bool, (u64, u64), u32);

impl Candidate {
    /// A candidate without compared values, neither better nor worse than others.
    pub(in crate::policy) const fn new(
        replica: ReplicaId,
        report: Option<PooledView>,
        in_flight: u32,
    ) -> Self {
        Self {
            replica,
            report,
            in_flight,
            values: Values::NONE,
            capacity_millirif: None,
            cost: None,
            avoided: false,
            place: (0, 0),
            number: u32::MAX,
        }
    }

    const fn rank(&self) -> Rank {
        (self.avoided, self.place, self.number)
    }
}

impl Explanation {
    /// Most candidates that are kept: the best, and the chosen one.
    pub const CANDIDATES_MAX: usize = 32;
    /// Most replicas that are kept as out. If there are more, those with a known reason are kept.
    pub const OUTS_MAX: usize = 16;

    /// An empty explanation, with all the memory that it will ever need.
    pub fn new() -> Self {
        Self {
            candidates: Vec::with_capacity(Self::CANDIDATES_MAX),
            outs: Vec::with_capacity(Self::OUTS_MAX),
            ..Self::default()
        }
    }

    /// Clears everything and keeps the memory.
    pub fn clear(&mut self) {
        let (mut candidates, mut outs) = (
            core::mem::take(&mut self.candidates),
            core::mem::take(&mut self.outs),
        );
        candidates.clear();
        outs.clear();
        *self = Self {
            candidates,
            outs,
            ..Self::default()
        };
    }

    /// How the candidates were compared. `None` if nothing was compared because the query was
    /// pinned.
    pub const fn comparison(&self) -> Option<&'static Comparison> {
        self.comparison
    }

    /// The values of the comparison's [shared](Comparison::shared) factors.
    pub const fn shared(&self) -> Values {
        self.shared
    }

    /// The draw that decided, if one did: uniform over all values.
    pub const fn draw(&self) -> Option<u64> {
        self.draw
    }

    /// The compared replicas, best first, and last those that must not get the query. At most
    /// [`Self::CANDIDATES_MAX`].
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// How many replicas were compared.
    pub const fn considered(&self) -> u32 {
        self.considered
    }

    /// How many replicas that could get the query had a cold report. For policies without a limit,
    /// how many had a report.
    pub const fn cold(&self) -> u32 {
        self.cold
    }

    /// How many replicas that could get the query had a hot report.
    pub const fn hot(&self) -> u32 {
        self.hot
    }

    /// The rule that chose, even if the pick's reason is a lack of alternatives: in a panic the
    /// policy's own rule may decide among all, or chance. `None` if the query was pinned.
    pub const fn rule(&self) -> Option<PickReason> {
        self.rule
    }

    /// The chosen replica, if any.
    pub const fn chosen(&self) -> Option<ReplicaId> {
        self.chosen
    }

    /// The runner-up, if replicas were compared with each other.
    pub const fn runner_up(&self) -> Option<ReplicaId> {
        self.runner_up
    }

    /// Replicas that could not be chosen, or only for a part of their share. At most
    /// [`Self::OUTS_MAX`].
    pub fn outs(&self) -> &[Out] {
        &self.outs
    }

    /// How many such replicas there were, including any that are not kept.
    pub const fn out(&self) -> u32 {
        self.out
    }

    /// How many replicas could be chosen. 0 in a panic, when all can.
    pub const fn available(&self) -> u32 {
        self.available
    }

    /// What the choice for the query's key was made from. `None` without a key.
    pub const fn key(&self) -> Option<&KeyChoice> {
        self.key.as_ref()
    }

    pub(crate) const fn set_key(&mut self, key: &KeyChoice) {
        self.key = Some(*key);
    }

    /// Sets the driver's reason, in one word, why this replica could not be chosen. It replaces any
    /// other reason. It is kept whenever there is space, or an entry without a reason to replace.
    pub fn say_why(&mut self, replica: ReplicaId, why: &'static str) {
        let out = Out {
            replica,
            why: OutReason::Driver(why),
            share_millionths: 0,
        };
        let mut noted = self.outs.iter_mut();
        match noted.find(|other| other.replica == replica) {
            Some(noted) => *noted = out,
            None => self.note_out(out),
        }
    }

    /// Sets the driver's reason for all replicas that it took out without one.
    pub fn say_of_others(&mut self, why: &'static str) {
        let outs = self.outs.iter_mut();
        for out in outs.filter(|out| out.why == OutReason::TakenOut) {
            out.why = OutReason::Driver(why);
        }
    }

    /// Records a replica that the policy would have chosen and that its driver skipped, with the
    /// driver's reason in one word.
    pub fn pass_over(&mut self, replica: ReplicaId, why: &'static str) {
        let mut noted = self.outs.iter();
        if noted.all(|other| other.replica != replica) {
            self.out = self.out.saturating_add(1);
        }
        self.say_why(replica, why);
    }

    /// Starts a choice: `available` of `known` replicas can be chosen.
    pub(crate) fn begin(&mut self, available: usize, known: usize) {
        self.clear();
        self.set_available(available);
        self.out = u32::try_from(known.saturating_sub(available)).unwrap_or(u32::MAX);
    }

    pub(crate) fn set_available(&mut self, replicas: usize) {
        self.available = u32::try_from(replicas).unwrap_or(u32::MAX);
    }

    /// Sets how candidates are compared from here on, and drops those of an earlier comparison.
    pub(in crate::policy) fn compare(&mut self, comparison: &'static Comparison, shared: Values) {
        self.comparison = Some(comparison);
        self.shared = shared;
        self.candidates.clear();
        self.worst = None;
        (self.considered, self.cold, self.hot) = (0, 0, 0);
    }

    /// Notes the last draw of the choice. It is kept if draws decide between equals.
    pub(in crate::policy) fn note_draw(&mut self, draw: Option<u64>) {
        let is_first = |comparison: &Comparison| comparison.equals == Equals::First;
        self.draw = draw.filter(|_| !self.comparison.is_none_or(is_first));
    }

    /// Records a compared replica, if there is space or a worse one to replace.
    pub(crate) fn consider(&mut self, candidate: Candidate) {
        if let (Some(report), false) = (candidate.report, candidate.avoided) {
            self.hot += u32::from(report.hot);
            self.cold += u32::from(!report.hot);
        }
        let candidate = Candidate {
            number: self.considered,
            ..candidate
        };
        self.considered = self.considered.saturating_add(1);
        if self.candidates.len() < Self::CANDIDATES_MAX {
            self.candidates.push(candidate);
            return;
        }
        if let Some((place, worst)) = self.worst()
            && candidate.rank() < worst
        {
            self.candidates[place] = candidate;
            self.worst = None;
        }
    }

    /// The candidate to replace first.
    fn worst(&mut self) -> Option<(usize, Rank)> {
        if self.worst.is_none() {
            let ranks = self.candidates.iter().map(Candidate::rank).enumerate();
            self.worst = ranks.max_by_key(|&(_, rank)| rank);
        }
        self.worst
    }

    /// Records the replica that will be chosen, in any case.
    pub(crate) fn keep(&mut self, candidate: Candidate) {
        let mut noted = self.candidates.iter();
        if self.considered == 0 || noted.any(|other| other.replica == candidate.replica) {
            return;
        }
        if let Some((place, _)) = self.worst() {
            self.candidates[place] = candidate;
            self.worst = None;
        }
    }

    /// Sets the choice and its rule. The runner-up is determined here if the policy does not know
    /// it.
    pub(crate) fn choose(
        &mut self,
        chosen: Candidate,
        rule: PickReason,
        runner_up: Option<ReplicaId>,
    ) {
        let ranks = self.candidates.iter().min_by_key(|it| it.rank());
        if let Some(best) = ranks.filter(|_| rule.is_comparison()) {
            // The choice may be one of very many equals.
            let (place, values) = (best.place, best.values);
            self.keep(Candidate {
                values,
                place,
                ..chosen
            });
        }
        let replica = chosen.replica;
        self.rule = Some(rule);
        self.chosen = Some(replica);
        // The chosen one sorts first among equals.
        (self.candidates).sort_unstable_by_key(|it| {
            let (avoided, place, number) = it.rank();
            (avoided, place, it.replica != replica, number)
        });
        self.runner_up = runner_up.or_else(|| {
            let mut others = self.candidates.iter();
            let second = others.find(|it| it.replica != replica && !it.avoided)?;
            rule.is_comparison().then_some(second.replica)
        });
    }

    /// Sets a choice that was made elsewhere.
    pub(crate) const fn choose_pinned(&mut self, replica: ReplicaId) {
        self.chosen = Some(replica);
    }

    /// Records a replica that is already counted as out. An entry without a reason is replaced; a
    /// better reason stays.
    pub(crate) fn note_out(&mut self, out: Out) {
        let is_full = self.outs.len() == Self::OUTS_MAX;
        if is_full && out.why == OutReason::TakenOut {
            return;
        }
        let mut noted = self.outs.iter();
        if let Some(place) = noted.position(|other| other.replica == out.replica) {
            if self.outs[place].why == OutReason::TakenOut {
                self.outs[place] = out;
            }
            return;
        }
        if !is_full {
            self.outs.push(out);
            return;
        }
        let mut noted = self.outs.iter();
        if let Some(place) = noted.rposition(|other| other.why == OutReason::TakenOut) {
            self.outs[place] = out;
        }
    }

    /// Counts and records a replica that the policy could choose and that health keeps out, or
    /// limits to less than its share.
    pub(crate) fn add_out(&mut self, out: Out) {
        self.out = self.out.saturating_add(1);
        self.note_out(out);
    }
}

/// Draws that note the last one, for an explanation.
pub(in crate::policy) struct NotedDraws<'a> {
    draw: &'a mut dyn Draw,
    pub(in crate::policy) last: Option<u64>,
}

impl<'a> NotedDraws<'a> {
    pub(in crate::policy) fn new(draw: &'a mut dyn Draw) -> Self {
        Self { draw, last: None }
    }
}

impl Draw for NotedDraws<'_> {
    fn draw(&mut self) -> u64 {
        let draw = self.draw.draw();
        self.last = Some(draw);
        draw
    }
}

#[cfg(test)]
mod tests;
