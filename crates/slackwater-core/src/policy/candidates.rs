//! What a rule of choice can use: the replicas that a query may go to, and ways to draw from them.

use crate::draw::{Draw, below};
use crate::policy::comparison::{Comparison, Values};
use crate::policy::explanation::{Candidate, Explanation};
use crate::policy::fleet::Fleet;
use crate::policy::query::Query;
use crate::policy::waits::Waits;
use crate::replica::ReplicaId;
use crate::time::Instant;
use core::cell::RefCell;
use core::time::Duration;

/// Most replicas that are drawn for one query.
const DRAWN_MAX: u8 = 16;

/// The replicas that a rule of choice may use.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    now: Instant,
    fleet: &'a Fleet,
    waits: &'a Waits,
    query: Query<'a>,
    /// If present, it records what is compared.
    explanation: Option<&'a RefCell<Explanation>>,
}

impl<'a> Candidates<'a> {
    pub(in crate::policy) const fn new(
        now: Instant,
        fleet: &'a Fleet,
        waits: &'a Waits,
        query: Query<'a>,
    ) -> Self {
        Self {
            now,
            fleet,
            waits,
            query,
            explanation: None,
        }
    }

    /// These candidates, which also record what is compared.
    pub(in crate::policy) const fn explained(self, explanation: &'a RefCell<Explanation>) -> Self {
        Self {
            explanation: Some(explanation),
            ..self
        }
    }

    /// Whether the comparison is recorded. A rule then reports each replica by
    /// [`Candidates::consider`].
    pub const fn is_explained(&self) -> bool {
        self.explanation.is_some()
    }

    /// Records how replicas are compared from here on, and the values that all share.
    pub fn compare(&self, comparison: &'static Comparison, shared: Values) {
        if let Some(explanation) = self.explanation {
            explanation.borrow_mut().compare(comparison, shared);
        }
    }

    /// Records a compared replica. `compared` returns its place, where lower is better, and the
    /// values that are compared.
    pub fn consider(&self, replica: ReplicaId, compared: impl FnOnce() -> (u64, Values)) {
        if let Some(explanation) = self.explanation {
            let candidate = self.candidate(replica, compared());
            explanation.borrow_mut().consider(candidate);
        }
    }

    /// Records the choice, which need not be the best candidate. It is recorded even if there are
    /// too many.
    pub fn keep(&self, replica: ReplicaId, compared: impl FnOnce() -> (u64, Values)) {
        if let Some(explanation) = self.explanation {
            let candidate = self.candidate(replica, compared());
            explanation.borrow_mut().keep(candidate);
        }
    }

    fn candidate(&self, replica: ReplicaId, (first, values): (u64, Values)) -> Candidate {
        Candidate {
            values,
            avoided: !self.allows(replica),
            place: (first, 0),
            ..Candidate::new(replica, None, self.in_flight(replica))
        }
    }

    /// The time of the choice.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The replicas to choose from, in the same order from call to call while the fleet does not
    /// change. The query may have tried some of them already, or may go to a few only: see
    /// [`Candidates::allows`].
    pub fn replicas(&self) -> &'a [ReplicaId] {
        self.fleet.choice()
    }

    /// Whether the query may go to this replica.
    pub fn allows(&self, replica: ReplicaId) -> bool {
        self.query.allows(replica)
    }

    /// The replicas that the query may go to.
    pub fn allowed(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let replicas = self.fleet.choice_for(self.query).iter();
        (replicas.copied()).filter(|&replica| self.allows(replica))
    }

    /// Queries that this client has in flight at this replica.
    pub fn in_flight(&self, replica: ReplicaId) -> u32 {
        self.fleet.in_flight(replica)
    }

    /// How long queries of this client have waited at this replica without any answer; zero if none
    /// waits. This shows a replica that has stopped; its latencies do not.
    pub fn without_progress(&self, replica: ReplicaId) -> Duration {
        Duration::from_nanos(self.waits.without_progress_ns(self.now, replica))
    }

    /// A uniformly random replica that the query may go to.
    pub fn random(&self, draw: &mut dyn Draw) -> Option<ReplicaId> {
        if let Some(explanation) = self.explanation {
            (self.fleet).explain_chance(self.query, &mut explanation.borrow_mut());
        }
        self.fleet.random_choice(self.query, draw)
    }

    /// Draws `choices` distinct replicas that the query may go to, uniformly: at most 16, and at
    /// most as many as there are. Returns the one with the lowest load; the first drawn breaks
    /// ties.
    ///
    /// Each takes one draw. The time is in proportion to the fleet only for a query that avoids a
    /// replica.
    pub fn best_of_drawn<L: PartialOrd>(
        &self,
        choices: u8,
        draw: &mut dyn Draw,
        mut load: impl FnMut(ReplicaId) -> L,
    ) -> Option<ReplicaId> {
        let mut drawn = DistinctIndexes::default();
        let mut best: Option<(ReplicaId, L)> = None;
        let count = u32::try_from(self.allowed_count()).ok()?;
        for _ in 0..count.min(u32::from(choices.min(DRAWN_MAX))) {
            let replica = self.nth_allowed(drawn.next(count, draw))?;
            let load = load(replica);
            if best.as_ref().is_none_or(|(_, lowest)| load < *lowest) {
                best = Some((replica, load));
            }
        }
        best.map(|(replica, _)| replica)
    }

    fn allowed_count(&self) -> usize {
        if self.query.allows_all() {
            self.replicas().len()
        } else {
            self.allowed().count()
        }
    }

    fn nth_allowed(&self, index: u32) -> Option<ReplicaId> {
        let index = index as usize;
        if self.query.allows_all() {
            self.replicas().get(index).copied()
        } else {
            self.allowed().nth(index)
        }
    }
}

/// Indexes drawn without replacement, every order of them equally likely.
#[derive(Default)]
struct DistinctIndexes {
    /// In ascending order; the first `len` are in use.
    drawn: [u32; DRAWN_MAX as usize],
    len: usize,
}

impl DistinctIndexes {
    /// Draws another index below `count` among those that are left, and moves it past those that
    /// are taken. Robert Floyd's algorithm would rarely draw the last index first, and the first
    /// drawn wins ties.
    fn next(&mut self, count: u32, draw: &mut dyn Draw) -> u32 {
        let gone = u32::try_from(self.len).unwrap_or(u32::MAX);
        let mut index = below(draw, count.saturating_sub(gone));
        let mut place = 0;
        while place < self.len && self.drawn[place] <= index {
            index += 1;
            place += 1;
        }
        self.drawn.copy_within(place..self.len, place + 1);
        self.drawn[place] = index;
        self.len += 1;
        index
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::SplitMix64;
    use crate::replica::ReplicaIds;
    use alloc::vec::Vec;

    fn fleet(replicas: usize) -> (Fleet, Vec<ReplicaId>) {
        let mut ids = ReplicaIds::new();
        let mut fleet = Fleet::default();
        let names: Vec<_> = (0..replicas).filter_map(|_| ids.allocate()).collect();
        for &name in &names {
            fleet.add(name);
        }
        (fleet, names)
    }

    /// The replicas that a query draws, in order.
    fn drawn(fleet: &Fleet, query: Query<'_>, choices: u8, draw: &mut dyn Draw) -> Vec<ReplicaId> {
        let mut drawn = Vec::new();
        let waits = Waits::default();
        let candidates = Candidates::new(Instant::EPOCH, fleet, &waits, query);
        let best = candidates.best_of_drawn(choices, draw, |replica| {
            drawn.push(replica);
            0
        });
        assert_eq!(best, drawn.first().copied(), "all equal: the first drawn");
        drawn
    }

    #[test]
    fn draws_are_distinct_and_lowest_load_wins() {
        let (fleet, names) = fleet(5);
        // Draws at the low end: the first index that is left, each time.
        let all = drawn(&fleet, Query::first(), 16, &mut || 0);
        assert_eq!(all, names, "as many as there are");
        let all = drawn(&fleet, Query::first(), 16, &mut || u64::MAX);
        assert!(
            all.iter().rev().eq(&names),
            "the last that is left: {all:?}"
        );

        let waits = Waits::default();
        let candidates = Candidates::new(Instant::EPOCH, &fleet, &waits, Query::first());
        let loads = [3, 1, 2, 1, 0];
        let place = |replica| {
            names
                .iter()
                .position(|&name| name == replica)
                .expect("known")
        };
        let best = candidates.best_of_drawn(4, &mut || 0, |replica| loads[place(replica)]);
        assert_eq!(
            best,
            Some(names[1]),
            "the first of the two lowest among the four drawn"
        );
    }

    #[test]
    fn ordered_pairs_are_equally_likely_without_avoided_replicas() {
        let (fleet, names) = fleet(6);
        let avoid = [names[0], names[3], names[0]];
        let allowed = [names[1], names[2], names[4], names[5]];
        let mut draw = SplitMix64::new(4);
        let mut counts = [[0_i32; 4]; 4];
        for _ in 0..12_000 {
            let pair = drawn(&fleet, Query::retry(&avoid), 2, &mut draw);
            let place = |replica| allowed.iter().position(|&other| other == replica);
            let [first, second] = pair.as_slice() else {
                panic!("{pair:?}")
            };
            counts[place(*first).expect("allowed")][place(*second).expect("allowed")] += 1;
        }
        for (first, row) in counts.into_iter().enumerate() {
            for (second, count) in row.into_iter().enumerate() {
                // Binomial: mean 1,000, standard deviation 30. Six of them is one in 500 million.
                let expected = if first == second { 0 } else { 1_000 };
                let tolerance = if first == second { 0 } else { 180 };
                assert!((count - expected).abs() <= tolerance, "{counts:?}");
            }
        }
    }

    #[test]
    fn no_allowed_replica_means_no_draw() {
        let (fleet, names) = fleet(2);
        assert_eq!(drawn(&fleet, Query::retry(&names), 2, &mut || 0), []);
        let (empty, _) = self::fleet(0);
        assert_eq!(drawn(&empty, Query::first(), 2, &mut || 0), []);
    }
}
