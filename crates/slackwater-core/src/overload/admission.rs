//! The queue and the limit together: who comes is started, waits, or is turned away; who ends makes
//! room.
//!
//! Whoever drives it calls [`Admission::poll`] until there is nobody left to be told, after each
//! call that may have made room, and at [`Admission::poll_timeout`].

use super::limit::ConcurrencyLimit;
use super::queue::{Asks, Place, Queue, QueueConfig, Refused, Taken, Waits};
use super::{Priority, Shed};
use crate::time::Instant;
use crate::tracker::End;
use core::time::Duration;

/// A query that the application has; given back by [`Admission::finish`].
#[derive(Debug)]
#[must_use = "a query that never finishes keeps its place for ever"]
pub struct Started {
    at: Instant,
    is_answered: bool,
}

/// What becomes of a query that comes.
#[derive(Debug)]
pub enum Admit<T> {
    /// It begins.
    Start(Started, T),
    /// It waits.
    Wait(Waits<T>),
    /// It is turned away.
    Shed(Refused<T>),
}

/// What becomes of one that has waited.
#[derive(Debug)]
pub enum Left<T> {
    /// It begins.
    Start(Started, T),
    /// It is turned away.
    Shed(Refused<T>),
}

/// What an [`Admission`] looks like, and what it has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdmissionView {
    /// How many may be in flight.
    pub limit: u32,
    /// How many are.
    pub rif: u32,
    /// How many wait, by [`Priority::index`].
    pub waiting: [u32; Priority::ALL.len()],
    /// For how long the oldest of them has.
    pub age: Duration,
    /// Whether a line has stood for too long.
    pub is_standing: bool,
    /// The latency without any wait, where the limit is learned from it.
    pub least_latency: Option<Duration>,
    /// Queries that had to wait.
    pub queued: u64,
    /// Queries that were turned away, by [`Shed::index`].
    pub shed: [u64; Shed::ALL.len()],
}

/// A queue before an application with a limit.
#[derive(Clone, Debug)]
pub struct Admission<T> {
    queue: Queue<T>,
    limit: ConcurrencyLimit,
    rif: u32,
    queued: u64,
    shed: [u64; Shed::ALL.len()],
}

impl<T> Admission<T> {
    /// With nobody in it. Takes all of its memory.
    pub fn new(config: QueueConfig, limit: ConcurrencyLimit) -> Self {
        Self {
            queue: Queue::new(config),
            limit,
            rif: 0,
            queued: 0,
            shed: [0; Shed::ALL.len()],
        }
    }

    /// A query comes. It begins at once if nobody waits and there is room.
    pub fn arrive(&mut self, now: Instant, asks: Asks, value: T) -> Admit<T> {
        if let Some(started) = self.start_at_once(now, asks) {
            return Admit::Start(started, value);
        }
        match self.queue.push(now, asks, value) {
            Ok(waits) => {
                self.queued += 1;
                if let Some(displaced) = &waits.displaced {
                    self.count(displaced.shed);
                }
                Admit::Wait(waits)
            }
            Err(refused) => {
                self.count(refused.shed);
                Admit::Shed(refused)
            }
        }
    }

    /// As [`Self::arrive`], where the query begins at once; otherwise nothing happens.
    pub fn start_at_once(&mut self, now: Instant, asks: Asks) -> Option<Started> {
        let has_passed = asks.deadline.is_some_and(|deadline| deadline <= now);
        let may = self.queue.is_empty() && self.has_room() && !has_passed;
        may.then(|| self.start(now))
    }

    /// Who leaves the queue now: those whose time is over, and, as long as there is room, the next
    /// ones. `None`: all others wait on.
    pub fn poll(&mut self, now: Instant) -> Option<Left<T>> {
        let taken = if self.has_room() {
            self.queue.take(now)?
        } else {
            Taken::Refused(self.queue.take_ended(now)?)
        };
        Some(match taken {
            Taken::Next(value) => Left::Start(self.start(now), value),
            Taken::Refused(refused) => {
                self.count(refused.shed);
                Left::Shed(refused)
            }
        })
    }

    /// When somebody's time is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }

    /// The head of a query's answer is ready: its latency ends here, though it keeps its place.
    /// Only the first call counts. `true` if the limit has risen by it, so that there may be room
    /// for the next ones.
    pub fn head_ready(&mut self, now: Instant, started: &mut Started, end: End) -> bool {
        let before = self.limit.limit();
        if !core::mem::replace(&mut started.is_answered, true) {
            self.limit.finish(now, started.at, end);
        }
        self.limit.limit() > before
    }

    /// A query is over, and gives its place back.
    pub fn finish(&mut self, now: Instant, mut started: Started, end: End) {
        self.head_ready(now, &mut started, end);
        self.rif = self.rif.saturating_sub(1);
    }

    /// A query that waits is given up by whoever asked.
    pub fn leave(&mut self, place: Place) -> Option<T> {
        self.queue.remove(place)
    }

    /// The other copy of a query that waits there has been started elsewhere; gives it back if it
    /// still waited. `[H2]`
    pub fn twin_started(&mut self, place: Place) -> Option<T> {
        let value = self.queue.remove(place)?;
        self.count(Shed::TwinStarted);
        Some(value)
    }

    /// A query comes whose other copy has been started elsewhere: it is turned away. `[H2]`
    pub const fn refuse_twin(&mut self) -> Shed {
        self.count(Shed::TwinStarted);
        Shed::TwinStarted
    }

    /// What it looks like.
    pub fn view(&self, now: Instant) -> AdmissionView {
        AdmissionView {
            limit: self.limit.limit(),
            rif: self.rif,
            waiting: self.queue.len_by_priority(),
            age: self.queue.age(now),
            is_standing: self.queue.is_standing(),
            least_latency: self.limit.least_latency(),
            queued: self.queued,
            shed: self.shed,
        }
    }

    fn has_room(&self) -> bool {
        self.rif < self.limit.limit()
    }

    fn start(&mut self, now: Instant) -> Started {
        self.rif += 1;
        self.limit.start(now, self.rif);
        Started {
            at: now,
            is_answered: false,
        }
    }

    const fn count(&mut self, shed: Shed) {
        self.shed[shed.index()] += 1;
    }
}
