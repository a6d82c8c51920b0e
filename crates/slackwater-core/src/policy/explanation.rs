//! What a choice was made from: the candidates as the policy saw them, and who could not be chosen,
//! and why.
//!
//! A caller that wants to know hands an [`Explanation`] in with the query; it is filled while the
//! choice is made, so that it shows what the policy knew before this query was charged to anything.
//! All its room is taken when it is made: to be filled allocates nothing, and costs time in
//! proportion to what is noted. Without one, a choice costs what it always did.

use crate::draw::Draw;
use crate::policy::comparison::{Comparison, Equals, Values};
use crate::policy::health_view::HealthState;
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
    /// The worst of them, once it had to be looked for: its place and its rank.
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
}

/// A replica that was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// Which one.
    pub replica: ReplicaId,
    /// Its report, as it counted; `None` for policies that go by none, and where none was known.
    pub report: Option<PooledView>,
    /// Queries that this client had in flight there.
    pub in_flight: u32,
    /// The values of the factors that were compared.
    pub values: Values,
    /// What it can carry by its last report, in thousandths of a request in flight, for policies
    /// that go by that; `None` where it reports none.
    pub capacity_millirif: Option<u32>,
    /// What a query costs there by its last report, as above.
    pub cost: Option<Duration>,
    /// It was not to have this query: it had had it, was full, or was spared for being new or held
    /// back.
    pub avoided: bool,
    /// Where it stands among the others, as the policy compares them: the lower the better.
    pub(in crate::policy) place: (u64, u64),
    /// How many were looked at before it.
    pub number: u32,
}

/// A replica that could not be chosen, or not for its whole share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Out {
    /// Which one.
    pub replica: ReplicaId,
    /// Why.
    pub why: OutReason,
    /// The part of the queries that may go there, in millionths; 0 of one that cannot be chosen at
    /// all.
    pub share_millionths: u32,
}

/// Why a replica could not be chosen, or not for its whole share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutReason {
    /// Its driver took it out and, to the policy, gave no reason.
    TakenOut,
    /// Its driver's own reason, in a word.
    Driver(&'static str),
    /// It wants no queries, by its own word.
    Draining,
    /// It has stopped answering probes, and others have not.
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

/// How good a candidate is, the lower the better: not avoided, its place, and of equals whoever was
/// looked at first.
type Rank = (bool, (u64, u64), u32);

impl Candidate {
    /// What is known of any: nothing is compared, and it is neither better nor worse than others.
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
    /// Candidates that are noted; of more, the best, and the one that was chosen.
    pub const CANDIDATES_MAX: usize = 32;
    /// Replicas that are noted as out; of more, those of which more is known than that their driver
    /// took them out.
    pub const OUTS_MAX: usize = 16;

    /// An empty one, with all the room that it will ever take.
    pub fn new() -> Self {
        Self {
            candidates: Vec::with_capacity(Self::CANDIDATES_MAX),
            outs: Vec::with_capacity(Self::OUTS_MAX),
            ..Self::default()
        }
    }

    /// Forgets everything and keeps the room.
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

    /// How the candidates were compared; `None` where nothing was chosen: the query was pinned.
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

    /// The replicas that were looked at, the best first, and last those that were not to have the
    /// query; at most [`Self::CANDIDATES_MAX`].
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// How many were looked at.
    pub const fn considered(&self) -> u32 {
        self.considered
    }

    /// How many of those that could have the query had a report that was cold. For policies that
    /// know no limit, all that had one.
    pub const fn cold(&self) -> u32 {
        self.cold
    }

    /// How many of those that could have the query had a report that was hot.
    pub const fn hot(&self) -> u32 {
        self.hot
    }

    /// The rule by which one was chosen, also where the reason says that it was for want of others:
    /// in a panic the policy's own rule may decide among all, or chance. `None` where nobody chose:
    /// the query was pinned.
    pub const fn rule(&self) -> Option<PickReason> {
        self.rule
    }

    /// The one that was chosen; `None` if nobody was.
    pub const fn chosen(&self) -> Option<ReplicaId> {
        self.chosen
    }

    /// The one that came second, where replicas were compared with each other.
    pub const fn runner_up(&self) -> Option<ReplicaId> {
        self.runner_up
    }

    /// Those that could not be chosen, or not for their whole share; at most [`Self::OUTS_MAX`].
    pub fn outs(&self) -> &[Out] {
        &self.outs
    }

    /// How many those were.
    pub const fn out(&self) -> u32 {
        self.out
    }

    /// How many replicas could be chosen; 0 in a panic, when all could.
    pub const fn available(&self) -> u32 {
        self.available
    }

    /// Its driver knows why this one could not be chosen, and says it in a word. That holds
    /// whatever else is known of it, and is told in any case while there is room or somebody told
    /// of whom less is known.
    pub fn say_why(&mut self, replica: ReplicaId, why: &'static str) {
        let out = Out {
            replica,
            why: OutReason::Driver(why),
            share_millionths: 0,
        };
        let mut noted = self.outs.iter_mut();
        match noted.find(|other| other.replica == replica) {
            Some(noted) => *noted = out,
            None => self.tell_out(out),
        }
    }

    /// Its driver took out whoever is told of without a reason, and has but this one left.
    pub fn say_of_others(&mut self, why: &'static str) {
        let outs = self.outs.iter_mut();
        for out in outs.filter(|out| out.why == OutReason::TakenOut) {
            out.why = OutReason::Driver(why);
        }
    }

    /// Its driver passed this one over, though the policy would have chosen it, and says why in a
    /// word.
    pub fn pass_over(&mut self, replica: ReplicaId, why: &'static str) {
        let mut noted = self.outs.iter();
        if noted.all(|other| other.replica != replica) {
            self.out = self.out.saturating_add(1);
        }
        self.say_why(replica, why);
    }

    /// A choice begins: so many replicas can be chosen, of so many that are known.
    pub(crate) fn begin(&mut self, available: usize, known: usize) {
        self.clear();
        self.set_available(available);
        self.out = u32::try_from(known.saturating_sub(available)).unwrap_or(u32::MAX);
    }

    pub(crate) fn set_available(&mut self, replicas: usize) {
        self.available = u32::try_from(replicas).unwrap_or(u32::MAX);
    }

    /// From here on candidates are compared in this way; those of another way are forgotten.
    pub(in crate::policy) fn compare(&mut self, comparison: &'static Comparison, shared: Values) {
        self.comparison = Some(comparison);
        self.shared = shared;
        self.candidates.clear();
        self.worst = None;
        (self.considered, self.cold, self.hot) = (0, 0, 0);
    }

    /// That was the last draw of the choice. It is kept if draws decide between equals.
    pub(in crate::policy) fn note_draw(&mut self, draw: Option<u64>) {
        let is_first = |comparison: &Comparison| comparison.equals == Equals::First;
        self.draw = draw.filter(|_| !self.comparison.is_none_or(is_first));
    }

    /// A replica was looked at. It is noted if there is room, or in place of a worse one.
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

    /// Whoever makes room first.
    fn worst(&mut self) -> Option<(usize, Rank)> {
        if self.worst.is_none() {
            let ranks = self.candidates.iter().map(Candidate::rank).enumerate();
            self.worst = ranks.max_by_key(|&(_, rank)| rank);
        }
        self.worst
    }

    /// This one has been looked at, and will be chosen: it is noted in any case.
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

    /// That one was chosen by this rule. The runner-up is found here where the policy does not know
    /// it.
    pub(crate) fn choose(
        &mut self,
        chosen: Candidate,
        rule: PickReason,
        runner_up: Option<ReplicaId>,
    ) {
        let ranks = self.candidates.iter().min_by_key(|it| it.rank());
        if let Some(best) = ranks.filter(|_| rule.is_comparison()) {
            // It may be one of very many equals.
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
        // Of equals it is the one that was chosen that is the best.
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

    /// That one was chosen by somebody else.
    pub(crate) const fn choose_pinned(&mut self, replica: ReplicaId) {
        self.chosen = Some(replica);
    }

    /// Tells of a replica that is counted among those that are out. Of whom nothing is told but
    /// that it was taken out gives way; what is known better stands.
    pub(crate) fn tell_out(&mut self, out: Out) {
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

    /// Counts, and tells of, a replica that the policy could choose and that health keeps out, or
    /// gives less than its share.
    pub(crate) fn add_out(&mut self, out: Out) {
        self.out = self.out.saturating_add(1);
        self.tell_out(out);
    }
}

/// Draws of which the last is noted, for an explanation.
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
