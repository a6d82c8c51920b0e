//! How many queries a replica had in service at each time, and how many it finished meanwhile. A
//! recording has no other evidence of its capacity.

use super::history::{History, Passed};
use crate::machine::Time;
use slackwater_core::policy::Outcome;

/// Length of the pieces into which the past is cut, in nanoseconds. A replica's capacity is
/// constant within each.
pub(super) const PIECE_NS: Time = 100_000_000;

/// A replica's past.
#[derive(Clone, Debug, Default)]
pub(super) struct Past {
    /// Arrivals and departures, in the order of time.
    pub(super) moves: Vec<Move>,
    /// Levels, piece by piece.
    pub(super) pieces: Vec<Piece>,
}

/// The arrival or departure of a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) at: Time,
    /// Its index in the history.
    pub(super) query: usize,
    pub(super) comes: bool,
}

/// What happened within a piece of time, by how many queries were in service.
#[derive(Clone, Debug, Default)]
pub(super) struct Piece(pub(super) Vec<Level>);

/// The time with this number of queries in service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) queries: u32,
    pub(super) time_ns: f64,
    /// Queries that were finished in that time.
    pub(super) finished: f64,
}

impl Piece {
    fn level(&mut self, queries: u32) -> &mut Level {
        let place = self.0.iter().position(|level| level.queries == queries);
        let place = place.unwrap_or_else(|| {
            self.0.push(Level {
                queries,
                time_ns: 0.0,
                finished: 0.0,
            });
            self.0.len() - 1
        });
        &mut self.0[place]
    }
}

/// Returns whether its end shows that a replica did a query's work.
pub(super) fn is_finished(query: &Passed) -> bool {
    query
        .end
        .is_some_and(|(_, outcome)| outcome == Outcome::Success)
}

/// Returns the past of each replica between two times. Queries in flight at the end stay there.
pub(super) fn pasts(history: &History, begins: Time, ends: Time) -> Vec<Past> {
    let mut pasts = vec![Past::default(); history.replicas.len()];
    for (place, query) in history.queries.iter().enumerate() {
        let Some(past) = pasts.get_mut(query.replica as usize) else {
            continue;
        };
        let mut note = |at, comes| {
            past.moves.push(Move {
                at,
                query: place,
                comes,
            });
        };
        note(query.sent_at, true);
        if let Some((at, _)) = query.end {
            note(at.max(query.sent_at), false);
        }
    }
    for past in &mut pasts {
        past.moves.sort_by_key(|it| (it.at, !it.comes));
        past.cut(history, begins, ends);
    }
    pasts
}

impl Past {
    fn cut(&mut self, history: &History, begins: Time, ends: Time) {
        let count = ends.saturating_sub(begins).div_ceil(PIECE_NS);
        let count = usize::try_from(count).unwrap_or(0);
        self.pieces = vec![Piece::default(); count];
        let (mut now, mut queries) = (begins, 0_u32);
        for index in 0..self.moves.len() {
            let Move { at, query, comes } = self.moves[index];
            self.pass(begins, now, at.min(ends), queries);
            now = now.max(at.min(ends));
            if comes {
                queries += 1;
                continue;
            }
            if history.queries.get(query).is_some_and(is_finished)
                && let Some(piece) = self.pieces.get_mut(piece_at(begins, at))
            {
                piece.level(queries).finished += 1.0;
            }
            queries = queries.saturating_sub(1);
        }
        self.pass(begins, now, ends, queries);
    }

    /// Adds time with this number of queries in service.
    fn pass(&mut self, begins: Time, mut from: Time, to: Time, queries: u32) {
        if queries == 0 {
            return;
        }
        while from < to {
            let place = piece_at(begins, from);
            let until = to.min(end_of(begins, place));
            if let Some(piece) = self.pieces.get_mut(place) {
                piece.level(queries).time_ns += (until - from) as f64;
            }
            from = until;
        }
    }
}

/// Returns when a piece ends.
pub(super) const fn end_of(begins: Time, place: usize) -> Time {
    begins.saturating_add((place as Time).saturating_add(1).saturating_mul(PIECE_NS))
}

/// Returns the piece in which a time lies.
pub(super) fn piece_at(begins: Time, at: Time) -> usize {
    usize::try_from(at.saturating_sub(begins) / PIECE_NS).unwrap_or(usize::MAX)
}
