//! The queue and the limit together. A query that arrives is started, waits, or is shed; a query
//! that ends frees a permit.
//!
//! The driver calls [`Admission::poll`] until it returns `None`: after each call that may have
//! freed a permit, and at [`Admission::poll_timeout`].

use super::limit::ConcurrencyLimit;
use super::queue::{Asks, Place, Queue, QueueConfig, Refused, Taken, Waits};
use super::{Priority, Shed};
use crate::time::Instant;
use crate::tracker::End;
use core::time::Duration;

/// A query that the application has. [`Admission::finish`] takes it back.
#[derive(Debug)]
#[must_use = "a query that never finishes keeps its permit forever"]
pub struct Started {
    at: Instant,
    is_answered: bool,
}

/// The result of an arrival.
#[derive(Debug)]
pub enum Admit<T> {
    /// The query starts.
    Start(Started, T),
    /// The query waits.
    Wait(Waits<T>),
    /// The query is shed.
    Shed(Refused<T>),
}

/// The result of a wait.
#[derive(Debug)]
pub enum Left<T> {
    /// The query starts.
    Start(Started, T),
    /// The query is shed.
    Shed(Refused<T>),
}

/// The state of an [`Admission`], and its counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdmissionView {
    /// How many may be in flight.
    pub limit: u32,
    /// How many are in flight.
    pub rif: u32,
    /// How many wait, by [`Priority::index`].
    pub waiting: [u32; Priority::ALL.len()],
    /// How long the oldest of them has waited.
    pub age: Duration,
    /// Whether a line is standing: it has had an old query for too long.
    pub is_standing: bool,
    /// The latency without any wait, if the limit is learned.
    pub least_latency: Option<Duration>,
    /// Queries that had to wait.
    pub queued: u64,
    /// Queries that were shed, by [`Shed::index`].
    pub shed: [u64; Shed::ALL.len()],
}

/// A queue before an application with a limit.
#[derive(Clone, Debug)]
pub struct Admission<T> {
    queue: Queue<T>,
    limit: ConcurrencyLimit,
    rif: u32,
    /// How many of them wait for the heads of their responses.
    unanswered: u32,
    queued: u64,
    shed: [u64; Shed::ALL.len()],
}

impl<T> Admission<T> {
    /// An empty one. It allocates all of its memory here.
    pub fn new(config: QueueConfig, limit: ConcurrencyLimit) -> Self {
        Self {
            queue: Queue::new(config),
            limit,
            rif: 0,
            unanswered: 0,
            queued: 0,
            shed: [0; Shed::ALL.len()],
        }
    }

    /// Admits a query. It starts at once if no query waits and a permit is free.
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

    /// Like [`Self::arrive`] if the query can start at once; otherwise it changes nothing.
    pub fn start_at_once(&mut self, now: Instant, asks: Asks) -> Option<Started> {
        let has_passed = asks.deadline.is_some_and(|deadline| deadline <= now);
        let may = self.queue.is_empty() && self.has_room() && !has_passed;
        may.then(|| self.start(now))
    }

    /// Returns the next query that leaves the queue: one whose time is over, or, while a permit is
    /// free, the next to start. `None`: all others keep waiting.
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

    /// When the next waiting query's time is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }

    /// Notes that the head of a query's response is ready: its latency ends here, though it keeps
    /// its permit. Only the first call counts. Returns `true` if this has made room, so that more
    /// queries may start.
    pub fn head_ready(&mut self, now: Instant, started: &mut Started, end: End) -> bool {
        let had_room = self.has_room();
        if !core::mem::replace(&mut started.is_answered, true) {
            self.unanswered = self.unanswered.saturating_sub(1);
            self.limit.finish(now, started.at, end);
        }
        !had_room && self.has_room()
    }

    /// Ends a query, and frees its permit.
    pub fn finish(&mut self, now: Instant, mut started: Started, end: End) {
        self.head_ready(now, &mut started, end);
        self.rif = self.rif.saturating_sub(1);
    }

    /// Removes a waiting query that its client has given up.
    pub fn leave(&mut self, place: Place) -> Option<T> {
        self.queue.remove(place)
    }

    /// Removes a waiting query whose other copy has been started elsewhere. Returns it if it still
    /// waited. `[H2]`
    pub fn copy_started(&mut self, place: Place) -> Option<T> {
        let value = self.queue.remove(place)?;
        self.count(Shed::CopyStarted);
        Some(value)
    }

    /// Sheds an arriving query whose other copy has been started elsewhere. `[H2]`
    pub const fn refuse_copy(&mut self) -> Shed {
        self.count(Shed::CopyStarted);
        Shed::CopyStarted
    }

    /// The current state.
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
        self.limit.has_room(self.rif, self.unanswered)
    }

    fn start(&mut self, now: Instant) -> Started {
        self.rif += 1;
        self.unanswered += 1;
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
