//! The queue before an application: bounded, ordered by priority, with an end to every wait.
//!
//! Each priority has a line, and the first line that is not empty is served. If the queue is full,
//! the query that would be served last is shed, which may be the new one. The [`Discipline`] sets
//! the order within a line, and what is dropped from a standing line. A query is never started
//! after its end.
//!
//! All memory is allocated at construction. Taking, adding and removing cost O(log n) of the
//! waiting queries.

use super::ends::Ends;
use super::standing::Standing;
use super::{Priority, Shed};
use crate::policy::{ConfigError, Settings, Valid, require, require_span};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use core::time::Duration;

const LINES: usize = Priority::ALL.len();
/// No slot.
const NIL: u32 = u32::MAX;

/// The order in which a line is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Discipline {
    /// First come, first served, always.
    #[default]
    OldestFirst,
    /// First come, first served, until the line is standing: its oldest query has waited for more
    /// than the target throughout an interval. Then last come, first served. Some queries are then
    /// answered in time, while the old ones, whose clients may have given up, reach their end
    /// ("adaptive LIFO": B. Maurer, "Fail at Scale", ACM Queue 13(8), 2015).
    NewestFirst,
    /// First come, first served. While the line is standing, a query that has waited for more than
    /// twice the target when its turn comes is shed (controlled delay for queries: Maurer 2015; the
    /// bound is that of Facebook's folly).
    ControlledDelay,
}

/// The settings of a [`Queue`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueSettings {
    /// Most waiting queries, of all priorities together: 0 to 65,536, default 1,024. At 0 no query
    /// waits.
    pub waiting_max: u32,
    /// Longest wait of a query: above 0 to 1 hour, default 1 s. Its own deadline may be earlier.
    pub wait_max: Duration,
    /// Default [`Discipline::OldestFirst`].
    pub discipline: Discipline,
    /// A line is not standing while its oldest query has waited for at most this long: above 0 to 1
    /// hour, default 5 ms. `[RFC 8289 §3.2]`
    pub target: Duration,
    /// How long the oldest must stay above the target: above 0 to 1 hour, default 100 ms. `[RFC
    /// 8289 §3.2]`
    pub interval: Duration,
}

/// Settings that make sense.
pub type QueueConfig = Valid<QueueSettings>;

impl Default for QueueSettings {
    fn default() -> Self {
        Self {
            waiting_max: 1024,
            wait_max: Duration::from_secs(1),
            discipline: Discipline::OldestFirst,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
        }
    }
}

impl Settings for QueueSettings {
    fn check(&self) -> Result<(), ConfigError> {
        require(self.waiting_max <= 1 << 16, "waiting_max", "at most 65536")?;
        require_span(self.wait_max, "wait_max")?;
        require_span(self.target, "target")?;
        require_span(self.interval, "interval")
    }
}

/// What a query requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// How urgent it is.
    pub priority: Priority,
    /// After this time the answer has no use. `None`: unknown.
    pub deadline: Option<Instant>,
}

/// The handle of a waiting query. After the query has left, the handle finds nothing, even if the
/// slot is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    slot: u32,
    generation: u32,
}

/// A query that was admitted to wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Waits<T> {
    /// Its handle.
    pub place: Place,
    /// When its wait ends at the latest.
    pub ends_at: Instant,
    /// The query that was dropped for it, and why.
    pub displaced: Option<Refused<T>>,
}

/// A query that was shed.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused<T> {
    /// The query.
    pub value: T,
    /// Why.
    pub shed: Shed,
}

/// A query that left the queue.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<T> {
    /// Its turn has come.
    Next(T),
    /// It is shed.
    Refused(Refused<T>),
}

/// The waiting queries.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    config: QueueConfig,
    slots: Vec<Slot<T>>,
    /// The first free slot; the other free ones follow by `next`.
    free: u32,
    lines: [Line; LINES],
    ends: Ends,
}

#[derive(Clone, Debug)]
struct Slot<T> {
    waiting: Option<Waiting<T>>,
    previous: u32,
    next: u32,
    /// How many queries have used this slot.
    generation: u32,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    value: T,
    priority: Priority,
    arrived_at: Instant,
    /// Why it will be shed at its end.
    shed: Shed,
}

/// The line of one priority, oldest first.
#[derive(Clone, Debug)]
struct Line {
    first: u32,
    last: u32,
    len: u32,
    standing: Standing,
}

impl<T> Queue<T> {
    /// An empty queue. It allocates all of its memory here.
    pub fn new(config: QueueConfig) -> Self {
        let capacity = config.waiting_max;
        let slots = (0..capacity).map(|slot| Slot {
            waiting: None,
            previous: NIL,
            next: if slot + 1 < capacity { slot + 1 } else { NIL },
            generation: 0,
        });
        Self {
            slots: slots.collect(),
            free: if capacity > 0 { 0 } else { NIL },
            lines: core::array::from_fn(|_| Line {
                first: NIL,
                last: NIL,
                len: 0,
                standing: Standing::default(),
            }),
            ends: Ends::new(capacity as usize),
            config,
        }
    }

    /// How many queries wait.
    pub fn len(&self) -> usize {
        self.lines.iter().map(|line| line.len as usize).sum()
    }

    /// Whether no query waits.
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.len == 0)
    }

    /// How many queries of each priority wait.
    pub fn len_by_priority(&self) -> [u32; LINES] {
        core::array::from_fn(|line| self.lines[line].len)
    }

    /// How long the oldest has waited.
    pub fn age(&self, now: Instant) -> Duration {
        let ages = (0..LINES).map(|line| self.age_of(now, line));
        ages.max().unwrap_or_default()
    }

    /// Whether a line was standing at its last change.
    pub fn is_standing(&self) -> bool {
        self.lines.iter().any(|line| line.standing.is_standing())
    }

    /// Adds a query, and drops another one for it if necessary.
    ///
    /// # Errors
    ///
    /// Returns the query if it is the one to drop: its deadline has passed, or the queue is full
    /// and no waiting query would be served after it.
    pub fn push(&mut self, now: Instant, asks: Asks, value: T) -> Result<Waits<T>, Refused<T>> {
        let refused = |value, shed| Err(Refused { value, shed });
        if asks.deadline.is_some_and(|deadline| deadline <= now) {
            return refused(value, Shed::Deadline);
        }
        let mut displaced = None;
        if self.free == NIL {
            // The queue is full. A query whose wait has ended is dropped before one that still has
            // time.
            displaced = self.take_ended(now);
            if displaced.is_none() {
                let Some(victim) = self.served_after(now, asks.priority) else {
                    return refused(value, Shed::Full);
                };
                displaced = (self.unlink(victim)).map(|waiting| Refused {
                    value: waiting.value,
                    shed: Shed::Full,
                });
            }
        }
        // The wait ends at the deadline or after the longest wait, whichever is first.
        let wait_ends = now.plus_ns(span_ns(self.config.wait_max));
        let (ends_at, shed) = match asks.deadline {
            Some(deadline) if deadline <= wait_ends => (deadline, Shed::Deadline),
            _ => (wait_ends, Shed::WaitOver),
        };
        let waiting = Waiting {
            value,
            priority: asks.priority,
            arrived_at: now,
            shed,
        };
        match self.link(waiting) {
            Ok(place) => {
                self.ends.add(ends_at, place.slot);
                self.observe(now, asks.priority.index());
                Ok(Waits {
                    place,
                    ends_at,
                    displaced,
                })
            }
            Err(waiting) => refused(waiting.value, Shed::Full),
        }
    }

    /// Returns the next query to start, or one to shed before that. `None` if no query waits.
    pub fn take(&mut self, now: Instant) -> Option<Taken<T>> {
        if let Some(ended) = self.take_ended(now) {
            return Some(Taken::Refused(ended));
        }
        let line = self.lines.iter().position(|line| line.len > 0)?;
        let is_standing = self.observe(now, line);
        let slot = match self.config.discipline {
            Discipline::NewestFirst if is_standing => self.lines[line].last,
            _ => self.lines[line].first,
        };
        let waiting = self.unlink(slot)?;
        let age = now.saturating_since(waiting.arrived_at);
        let value = waiting.value;
        let is_late = self.config.discipline == Discipline::ControlledDelay
            && is_standing
            && age > self.config.target * 2;
        Some(if is_late {
            let shed = Shed::Overloaded;
            Taken::Refused(Refused { value, shed })
        } else {
            Taken::Next(value)
        })
    }

    /// Returns the query whose wait has ended first. `None` if no wait has ended.
    pub fn take_ended(&mut self, now: Instant) -> Option<Refused<T>> {
        let (ends_at, slot) = self.ends.first()?;
        if ends_at > now {
            return None;
        }
        let waiting = self.unlink(slot)?;
        Some(Refused {
            value: waiting.value,
            shed: waiting.shed,
        })
    }

    /// When [`Self::take_ended`] will next return a query.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.ends.first().map(|(ends_at, _)| ends_at)
    }

    /// Removes a waiting query that was given up.
    pub fn remove(&mut self, place: Place) -> Option<T> {
        let slot = self.slots.get(place.slot as usize)?;
        if slot.generation != place.generation {
            return None;
        }
        self.unlink(place.slot).map(|waiting| waiting.value)
    }

    /// The query that would be served last, if that is after a query of this priority that arrives
    /// now.
    fn served_after(&mut self, now: Instant, priority: Priority) -> Option<u32> {
        let line = self.lines.iter().rposition(|line| line.len > 0)?;
        let is_standing = self.observe(now, line);
        let is_newest_first = is_standing && self.config.discipline == Discipline::NewestFirst;
        let (first, last) = (self.lines[line].first, self.lines[line].last);
        match line.cmp(&priority.index()) {
            core::cmp::Ordering::Less => None,
            _ if is_newest_first => Some(first),
            core::cmp::Ordering::Equal => None,
            core::cmp::Ordering::Greater => Some(last),
        }
    }

    /// Updates a line by the age of its oldest query. Returns whether the line is standing.
    fn observe(&mut self, now: Instant, line: usize) -> bool {
        let age = self.age_of(now, line);
        let (target, interval) = (self.config.target, self.config.interval);
        self.lines[line]
            .standing
            .observe(now, age, target, interval)
    }

    fn age_of(&self, now: Instant, line: usize) -> Duration {
        let slot = self.slots.get(self.lines[line].first as usize);
        let waiting = slot.and_then(|slot| slot.waiting.as_ref());
        waiting.map_or(Duration::ZERO, |it| now.saturating_since(it.arrived_at))
    }

    /// Appends a query to its line. Returns it if there is no free slot.
    fn link(&mut self, waiting: Waiting<T>) -> Result<Place, Waiting<T>> {
        let slot = self.free;
        let line = &mut self.lines[waiting.priority.index()];
        let Some(free) = self.slots.get_mut(slot as usize) else {
            return Err(waiting);
        };
        self.free = free.next;
        free.waiting = Some(waiting);
        free.next = NIL;
        free.previous = line.last;
        let place = Place {
            slot,
            generation: free.generation,
        };
        let before = core::mem::replace(&mut line.last, slot);
        line.len += 1;
        if before == NIL {
            line.first = slot;
        } else {
            self.slots[before as usize].next = slot;
        }
        Ok(place)
    }

    /// Removes a query from its line.
    fn unlink(&mut self, slot: u32) -> Option<Waiting<T>> {
        let left = self.slots.get_mut(slot as usize)?;
        let waiting = left.waiting.take()?;
        left.generation = left.generation.wrapping_add(1);
        let (previous, next) = (left.previous, left.next);
        left.previous = NIL;
        left.next = core::mem::replace(&mut self.free, slot);
        let line = &mut self.lines[waiting.priority.index()];
        line.len -= 1;
        match self.slots.get_mut(previous as usize) {
            Some(before) => before.next = next,
            None => line.first = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(after) => after.previous = previous,
            None => line.last = previous,
        }
        if line.len == 0 {
            line.standing.clear();
        }
        self.ends.remove(slot);
        Some(waiting)
    }
}
