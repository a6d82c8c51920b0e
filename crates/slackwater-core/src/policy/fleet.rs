//! The replicas of a policy, and which of them may be chosen.
//!
//! A replica that answered probes and stops while others still answer is *lost* (operators see it
//! as unreachable): it is gone, or hangs, and is not chosen until it answers again. If no replica
//! answers any longer, the probes are broken and no replica is lost. A lost replica never leaves
//! the client without a choice. `[Decision 0007]`

use crate::draw::{Draw, below};
use crate::policy::comparison::{CHANCE, Values};
use crate::policy::explanation::{Candidate, Explanation, NotedDraws, Out, OutReason};
use crate::policy::last_probe::{LastProbe, LostProbes};
use crate::policy::observe::ReplicaView;
use crate::policy::probe_loss::ProbeLoss;
use crate::policy::query::{PickReason, Query};
use crate::policy::turns::{Turn, Turns};
use crate::replica::{ReplicaId, ReplicaMap, ReplicaSet};
use crate::report::Rif;
use crate::time::{Instant, MaybeInstant};
use alloc::vec::Vec;
use core::time::Duration;

/// Shortest time without an answer before a replica is lost; pauses of a replica are normally
/// shorter.
const LOST_AFTER: Duration = Duration::from_millis(500);

/// The state of one replica.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::policy) struct Standing {
    /// The driver took it out of the choice.
    ejected: bool,
    /// Its own report took it out.
    draining: bool,
    /// It has stopped answering probes while others answer.
    lost: bool,
    /// Queries of this client in flight there.
    in_flight: u32,
    /// Queries in flight when its last probe was sent, minus all that have ended since.
    out_since_probe: u32,
    /// Recent turns of the replica.
    turns: Turns,
    /// For policies with asynchronous probes.
    pub(in crate::policy) last_probe: LastProbe,
}

impl Standing {
    /// Neither the driver nor the replica has taken it out.
    const fn is_fit(self) -> bool {
        !self.ejected && !self.draining
    }

    /// It is fit and not lost.
    const fn is_present(self) -> bool {
        self.is_fit() && !self.lost
    }

    /// Notes that a probe is sent to the replica.
    pub(in crate::policy) const fn probe_sent(&mut self) {
        self.out_since_probe = self.in_flight;
    }

    /// Whether the replica reports that it drains.
    pub(in crate::policy) const fn is_draining(self) -> bool {
        self.draining
    }

    /// The fewest requests in flight that the replica can have had when it answered its last probe:
    /// queries of this client that were sent before the probe and had not ended when the answer
    /// arrived. `[Decision 0015]`
    pub(in crate::policy) const fn rif_min(self) -> Rif {
        Rif::new(self.out_since_probe)
    }
}

/// Whether availability has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::policy) enum Changed {
    No,
    /// Only for the replica in question.
    Itself,
    /// For other replicas that were or are lost, too.
    Others,
}

/// The replicas of a policy (which it may probe), and the available ones among them.
#[derive(Clone, Default)]
pub struct Fleet {
    known: ReplicaSet,
    available: ReplicaSet,
    /// For every known replica. One table answers all questions about a replica: with many replicas
    /// each lookup in a table is a cache miss, for each report.
    standings: ReplicaMap<Standing>,
    /// How many could be chosen if lost ones never could.
    present: usize,
    /// Number of lost replicas.
    lost: usize,
    /// When any replica last answered a probe.
    last_answer_at: MaybeInstant,
    /// When all probes were last found broken. Answers from before make no replica lost again.
    broken_at: Instant,
    /// How many probes are lost although their replica lives.
    probe_loss: ProbeLoss,
    /// Queries that this client has sent, plus turns that passed.
    sent: u64,
    /// Counts changes of the replicas to choose from.
    version: u64,
}

impl Fleet {
    pub(crate) fn add(&mut self, replica: ReplicaId) -> bool {
        let new = self.known.insert(replica);
        if new {
            self.version += 1;
            self.available.insert(replica);
            let standing = Standing {
                turns: Turns::since(self.sent),
                ..Standing::default()
            };
            self.standings.insert(replica, standing);
            self.present += 1;
            if self.present == 1 && self.lost > 0 {
                self.settle_all();
            }
        }
        new
    }

    pub(crate) fn remove(&mut self, replica: ReplicaId) -> bool {
        // Its state must no longer count for anything.
        self.change(replica, |standing| {
            *standing = Standing {
                ejected: true,
                ..Standing::default()
            };
        });
        self.standings.remove(replica);
        self.version += 1;
        self.known.remove(replica)
    }

    /// Sets whether the driver takes it out of the choice.
    pub(in crate::policy) fn set_ejected(&mut self, replica: ReplicaId, ejected: bool) -> Changed {
        self.change(replica, |standing| standing.ejected = ejected)
    }

    /// Sets whether the replica reports that it drains.
    pub(in crate::policy) fn set_draining(
        &mut self,
        replica: ReplicaId,
        draining: bool,
    ) -> Changed {
        self.change(replica, |standing| standing.draining = draining)
    }

    /// The state of a known replica.
    pub(in crate::policy) fn standing(&self, replica: ReplicaId) -> Option<Standing> {
        self.standings.find(replica).copied()
    }

    pub(in crate::policy) fn standing_mut(&mut self, replica: ReplicaId) -> Option<&mut Standing> {
        self.standings.find_mut(replica)
    }

    /// Notes that the replica has answered a probe, so it is not lost. It lost `lost` probes in a
    /// row before. `is_own`: the probe was this client's, and not a sibling's.
    #[inline]
    pub(in crate::policy) fn answered(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        lost: u8,
        is_own: bool,
    ) -> Changed {
        self.last_answer_at = now.into();
        self.probe_loss.answered(lost, is_own);
        if self.lost == 0 {
            return Changed::No;
        }
        self.change(replica, |standing| standing.lost = false)
    }

    /// Probes in a row without an answer that make a replica unprobed, and may make it lost.
    pub(in crate::policy) fn lost_in_a_row(&self) -> u8 {
        self.probe_loss.lost_in_a_row()
    }

    /// Whether any replica has answered a probe since then.
    pub(crate) fn any_answered_since(&self, since: Instant) -> bool {
        self.last_answer_at.get().is_some_and(|at| at >= since)
    }

    /// Notes a lost probe of the replica, the last of `probes`.
    pub(in crate::policy) fn probe_lost(
        &mut self,
        now: Instant,
        replica: ReplicaId,
        probes: LostProbes,
    ) -> Changed {
        let was_there = |at: Instant| now.saturating_since(at) < LOST_AFTER;
        if probes.in_a_row < self.lost_in_a_row() || probes.answered_at.is_none_or(was_there) {
            return Changed::No;
        }
        // The replica's own last answer came before that.
        if self.any_answered_since(probes.since.max(self.broken_at)) {
            return self.change(replica, |standing| standing.lost = true);
        }
        if self.lost == 0 {
            return Changed::No;
        }
        for &replica in self.known.as_slice() {
            if let Some(standing) = self.standings.find_mut(replica)
                && standing.lost
            {
                standing.lost = false;
                self.present += usize::from(standing.is_fit());
            }
        }
        self.lost = 0;
        self.broken_at = now;
        self.settle_all();
        Changed::Others
    }

    fn change(&mut self, replica: ReplicaId, set: impl FnOnce(&mut Standing)) -> Changed {
        let Some(standing) = self.standings.find_mut(replica) else {
            return Changed::No;
        };
        let before = *standing;
        set(standing);
        let after = *standing;
        let nobody_before = self.present == 0;
        self.present += usize::from(after.is_present());
        self.present -= usize::from(before.is_present());
        self.lost += usize::from(after.lost);
        self.lost -= usize::from(before.lost);
        let is_changed = self.settle(replica);
        if self.lost > 0 && nobody_before != (self.present == 0) {
            self.settle_all();
            return Changed::Others;
        }
        if is_changed {
            Changed::Itself
        } else {
            Changed::No
        }
    }

    /// Updates the availability of a replica. Returns whether it changed.
    fn settle(&mut self, replica: ReplicaId) -> bool {
        if self.is_available(replica) {
            let comes_back = self.available.insert(replica);
            if comes_back && let Some(standing) = self.standings.find_mut(replica) {
                standing.turns = Turns::since(self.sent);
            }
            self.version += u64::from(comes_back);
            comes_back
        } else {
            let leaves = self.available.remove(replica);
            self.version += u64::from(leaves);
            leaves
        }
    }

    fn settle_all(&mut self) {
        for place in 0..self.known.len() {
            self.settle(self.known.as_slice()[place]);
        }
    }

    pub(crate) fn knows(&self, replica: ReplicaId) -> bool {
        self.standings.find(replica).is_some()
    }

    /// Whether a replica is available: it is known, the driver has not taken it out, it does not
    /// report that it drains, and it has not stopped answering probes while others go on. In a
    /// panic, false for all. `[Decision 0007]`
    pub fn is_available(&self, replica: ReplicaId) -> bool {
        self.available_in_flight(replica).is_some()
    }

    /// Whether a replica is one of those to choose from, as in [`Self::choice`].
    pub(crate) fn is_choosable(&self, replica: ReplicaId) -> bool {
        self.is_available(replica) || self.in_panic() && self.knows(replica)
    }

    /// A number that changes with the replicas to choose from.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// Queries that this client has in flight at a replica that is available.
    pub(in crate::policy) fn available_in_flight(&self, replica: ReplicaId) -> Option<u32> {
        let standing = self.standings.find(replica)?;
        self.in_flight_if_available(standing)
    }

    /// Like [`Self::available_in_flight`], for a replica in this state.
    pub(in crate::policy) fn in_flight_if_available(&self, standing: &Standing) -> Option<u32> {
        let may_be = standing.is_present() || (self.present == 0 && standing.is_fit());
        may_be.then_some(standing.in_flight)
    }

    /// Whether any replica is lost, so that a join or leave may change the availability of others.
    pub(crate) const fn any_lost(&self) -> bool {
        self.lost > 0
    }

    fn is_lost(&self, replica: ReplicaId) -> bool {
        self.standings.find(replica).is_some_and(|it| it.lost)
    }

    pub(crate) fn known(&self) -> &[ReplicaId] {
        self.known.as_slice()
    }

    /// The available replicas; none in a panic.
    pub fn available(&self) -> &[ReplicaId] {
        self.available.as_slice()
    }

    /// Whether no replica is available, though some are known.
    pub(crate) fn in_panic(&self) -> bool {
        self.available.len() == 0 && self.known.len() > 0
    }

    /// Why a replica is chosen: `reason`, unless no replica is available, or no other replica is
    /// left.
    pub(crate) fn reason_for(&self, replica: ReplicaId, reason: PickReason) -> PickReason {
        if self.in_panic() {
            PickReason::Panic
        } else if self.is_available(replica) {
            reason
        } else {
            PickReason::LastResort
        }
    }

    /// The replicas to choose from: the available ones, or all if none is available. `[A8]`
    pub(crate) fn choice(&self) -> &[ReplicaId] {
        if self.available.len() == 0 {
            self.known.as_slice()
        } else {
            self.available.as_slice()
        }
    }

    /// The replicas to choose from for a [narrowed](crate::policy::narrow) query.
    pub(in crate::policy) fn choice_for<'a>(&'a self, query: Query<'a>) -> &'a [ReplicaId] {
        if query.among.is_empty() {
            self.choice()
        } else {
            query.among
        }
    }

    /// What `of` finds for the query among the replicas to choose from. If the query has tried all
    /// of them, searches all known ones, if that is better than none.
    pub(crate) fn find_for<T>(
        &self,
        query: Query<'_>,
        mut of: impl FnMut(&[ReplicaId]) -> Option<T>,
    ) -> Option<T> {
        let found = of(self.choice_for(query));
        if query.may_leave_the_choice() {
            found.or_else(|| of(self.known()))
        } else {
            found
        }
    }

    /// A uniformly random replica that the query may go to.
    pub(crate) fn random(&self, query: Query<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        self.find_for(query, |replicas| random_of(replicas, query, draw))
    }

    /// Like [`Self::random`], and explains what it was drawn from.
    pub(in crate::policy) fn random_explained(
        &self,
        query: Query<'_>,
        draw: &mut dyn Draw,
        explanation: &mut Explanation,
    ) -> Option<ReplicaId> {
        self.explain_chance(query, explanation);
        let mut draws = NotedDraws::new(draw);
        let replica = self.random(query, &mut draws);
        explanation.note_draw(draws.last);
        replica
    }

    /// The replicas that [`random`](Self::random) draws from.
    pub(in crate::policy) fn explain_chance(
        &self,
        query: Query<'_>,
        explanation: &mut Explanation,
    ) {
        explanation.compare(&CHANCE, Values::NONE);
        for &replica in self.allowed_set(query) {
            if query.allows(replica) {
                explanation.consider(Candidate::new(replica, None, self.in_flight(replica)));
            }
        }
    }

    /// The replicas to choose from. If the query has tried all of them and may leave them, all
    /// known ones.
    pub(in crate::policy) fn allowed_set<'a>(&'a self, query: Query<'a>) -> &'a [ReplicaId] {
        let choice = self.choice_for(query);
        let is_any_left = choice.iter().any(|&replica| query.allows(replica));
        if is_any_left || !query.may_leave_the_choice() {
            choice
        } else {
            self.known()
        }
    }

    /// A uniformly random member of [`Self::choice`] that the query may go to.
    pub(crate) fn random_choice(&self, query: Query<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
        random_of(self.choice_for(query), query, draw)
    }

    /// The replica that the query is pinned to, if it may go there.
    pub(crate) fn pinned(&self, query: Query<'_>) -> Option<ReplicaId> {
        let may_go = |&replica: &ReplicaId| self.is_available(replica) && !query.avoids(replica);
        query.pinned.filter(may_go)
    }

    pub(crate) fn in_flight(&self, replica: ReplicaId) -> u32 {
        self.standings.find(replica).map_or(0, |it| it.in_flight)
    }

    /// Queries that this client has in flight there, and its turns.
    pub(in crate::policy) fn sent_to(&self, replica: ReplicaId) -> (u32, Turn) {
        let Some(standing) = self.standings.find(replica) else {
            return (0, Turn::default());
        };
        let turn = standing.turns.now(self.sent, self.available.len());
        (standing.in_flight, turn)
    }

    /// Passes the turn of a replica that the query must avoid.
    pub(in crate::policy) fn pass_turn(&mut self, query: Query<'_>, turn: Option<ReplicaId>) {
        if let Some(spared) = turn.filter(|&replica| !query.allows(replica)) {
            self.take_turn(spared);
        }
    }

    /// Queries that this client has sent, plus turns that passed.
    pub(in crate::policy) const fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn query_sent(&mut self, replica: ReplicaId) {
        if let Some(standing) = self.take_turn(replica) {
            standing.in_flight = standing.in_flight.saturating_add(1);
        }
    }

    fn take_turn(&mut self, replica: ReplicaId) -> Option<&mut Standing> {
        self.sent += 1;
        let standing = self.standings.find_mut(replica)?;
        standing.turns.take(self.sent, self.available.len());
        Some(standing)
    }

    pub(crate) fn query_done(&mut self, replica: ReplicaId) {
        if let Some(standing) = self.standings.find_mut(replica) {
            standing.in_flight = standing.in_flight.saturating_sub(1);
            // Each query that ends may be older than the probe. All are assumed to be, so that no
            // honest report is corrected.
            standing.out_since_probe = standing.out_since_probe.saturating_sub(1);
        }
    }

    /// Explains how many replicas are available, and why others are not.
    pub(crate) fn explain(&self, explanation: &mut Explanation) {
        explanation.begin(self.available.len(), self.known.len());
        if self.available.len() == self.known.len() {
            return;
        }
        for &replica in self.known() {
            let why = match self.standings.find(replica) {
                Some(_) if self.is_available(replica) => continue,
                Some(standing) if standing.ejected => OutReason::TakenOut,
                Some(standing) if standing.draining => OutReason::Draining,
                _ => OutReason::Lost,
            };
            explanation.note_out(Out {
                replica,
                why,
                share_millionths: 0,
            });
        }
    }

    /// Every known replica, as seen from outside. `is_unprobed` returns whether a replica answers
    /// no probes.
    pub(crate) fn views(&self, is_unprobed: impl Fn(ReplicaId) -> bool) -> Vec<ReplicaView> {
        let view = |&replica: &ReplicaId| ReplicaView {
            replica,
            available: self.is_available(replica),
            draining: self.standing(replica).is_some_and(Standing::is_draining),
            in_flight: self.in_flight(replica),
            unprobed: is_unprobed(replica),
            lost: self.is_lost(replica),
        };
        self.known().iter().map(view).collect()
    }
}

/// A uniformly random member that the query allows. It counts instead of collecting: no allocation,
/// one draw.
fn random_of(replicas: &[ReplicaId], query: Query<'_>, draw: &mut dyn Draw) -> Option<ReplicaId> {
    if query.allows_all() {
        let index = below(draw, u32::try_from(replicas.len()).ok()?);
        return replicas.get(index as usize).copied();
    }
    let allowed = || replicas.iter().filter(|&&replica| query.allows(replica));
    let index = below(draw, u32::try_from(allowed().count()).ok()?);
    allowed().nth(index as usize).copied()
}
