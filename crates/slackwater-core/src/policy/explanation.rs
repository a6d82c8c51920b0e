//! What a choice was made from: the candidates as the policy saw them, and who could not be chosen, and why.
//!
//! A caller that wants to know hands an [`Explanation`] in with the query; it is filled while the choice is made, so that it
//! shows what the policy knew before this query was charged to anything. All its room is taken when it is made: to be filled
//! allocates nothing, and costs time in proportion to what is noted. Without one, a choice costs what it always did.

use crate::health::HealthState;
use crate::policy::observe::PooledView;
use crate::replica::ReplicaId;
use crate::time::span_ns;
use alloc::vec::Vec;

/// What one choice was made from.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    candidates: Vec<Candidate>,
    /// The worst of them, once it had to be looked for: its place and its rank.
    worst: Option<(usize, Rank)>,
    considered: u32,
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
    /// What was compared, for policies that compare something of their own.
    pub score: Option<Score>,
    /// It was not to have this query: it had had it, or was spared for being new or held back.
    pub avoided: bool,
}

/// What a policy of its own compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Score {
    /// A latency, weighted as the policy does, in nanoseconds: the lowest wins. Of `peak_ewma` its cost, of `linear` and `c3`
    /// their scores.
    Nanoseconds(i64),
    /// The RIF that it reported when it was last polled: the lowest wins.
    Rif(u32),
    /// Its part of the chances: in millionths of all for `els`, in 65,535ths of the largest for `weighted_round_robin`.
    Weight(u32),
}

/// A replica that could not be chosen, or not for its whole share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Out {
    /// Which one.
    pub replica: ReplicaId,
    /// Why.
    pub why: OutReason,
    /// The part of the queries that may go there, in millionths; 0 of one that cannot be chosen at all.
    pub share_millionths: u32,
}

/// Why a replica could not be chosen, or not for its whole share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutReason {
    /// Its driver took it out: a failed check, a tier that is not in use.
    TakenOut,
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
            Self::Draining => "draining",
            Self::Lost => "lost",
            Self::Health(state) => state.as_str(),
        }
    }
}

/// How good a candidate is, the lower the better: not avoided, not hot, and then its load.
type Rank = (bool, bool, i64);

impl Candidate {
    /// How good it is, the lower the better, to tell which ones are worth to be noted.
    fn rank(&self) -> Rank {
        let is_hot = self.report.is_some_and(|report| report.hot);
        let load = match (self.score, self.report) {
            (Some(Score::Nanoseconds(ns)), _) => ns,
            (Some(Score::Rif(rif)), _) => rif.into(),
            (Some(Score::Weight(weight)), _) => -i64::from(weight),
            (None, Some(report)) if !report.hot => {
                let latency_ns = report.latency.map(span_ns);
                latency_ns.map_or(i64::MAX, |ns| i64::try_from(ns).unwrap_or(i64::MAX))
            }
            (None, Some(report)) => report.rif.count().into(),
            (None, None) => self.in_flight.into(),
        };
        (self.avoided, is_hot, load)
    }
}

impl Explanation {
    /// Candidates that are noted; of more, the best.
    pub const CANDIDATES_MAX: usize = 32;
    /// Replicas that are noted as out; of more, the first.
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
        self.candidates.clear();
        self.worst = None;
        self.outs.clear();
        self.considered = 0;
        self.out = 0;
        self.available = 0;
    }

    /// The replicas that were looked at, in no order; at most [`Self::CANDIDATES_MAX`]. Empty where chance or turns decide
    /// alone.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// How many were looked at.
    pub const fn considered(&self) -> u32 {
        self.considered
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

    pub(crate) fn set_available(&mut self, replicas: usize) {
        self.available = u32::try_from(replicas).unwrap_or(u32::MAX);
    }

    /// A replica was looked at. It is noted if there is room, or in place of a worse one.
    pub(crate) fn consider(&mut self, candidate: Candidate) {
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

    /// This one was chosen, so that it is noted in any case.
    pub(crate) fn choose(&mut self, candidate: Candidate) {
        let mut noted = self.candidates.iter_mut();
        if self.considered == 0 || noted.any(|other| other.replica == candidate.replica) {
            return;
        }
        if let Some((place, _)) = self.worst() {
            self.candidates[place] = candidate;
            self.worst = None;
        }
    }

    /// A replica could not be chosen; what is known already of why gives way.
    pub(crate) fn note_out(&mut self, out: Out) {
        let mut noted = self.outs.iter_mut();
        if let Some(noted) = noted.find(|other| other.replica == out.replica) {
            *noted = out;
            return;
        }
        self.out = self.out.saturating_add(1);
        if self.outs.len() < Self::OUTS_MAX {
            self.outs.push(out);
        }
    }
}

#[cfg(test)]
mod tests;
