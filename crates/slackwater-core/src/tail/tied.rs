//! Tied requests at one replica: which copies wait, and which must be dropped because the other
//! copy has started elsewhere.
//!
//! [The Tail at Scale, "Tied requests": "When a request begins execution, it sends a cancellation
//! message to its counterpart. The corresponding request, if still enqueued in the other server,
//! can be aborted immediately"] `[H2]`
//!
//! Both copies have one name, which the client draws. The owner of a replica's queue reports here
//! what happens to copies, and sends the resulting cancellations to the replica of the other copy.
//! A cancellation may overtake its copy: it is then kept for a while, and the copy is dropped when
//! it arrives. If it comes too late because both copies have started, both are served. That is work
//! done twice, and is counted.
//!
//! The table has a fixed size, in sets of eight names. A name that finds its set full replaces a
//! kept cancellation, the oldest first; without one, its copy is served untied. So neither many
//! names nor maliciously chosen ones cost more than a look at eight places, and the worst they
//! cause is work done twice.

use crate::policy::{ConfigError, Settings, Valid, require};
use crate::time::Instant;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

/// Names in a set.
const WAYS: usize = 8;

/// The common name of both copies of a query, drawn at random so that it cannot be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TieName(pub u64);

/// The settings of [`Ties`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TiesSettings {
    /// Capacity of the table in names: 8 to 1,048,576, default 4,096, rounded up to a power of two.
    pub names_max: u32,
    /// How long a cancellation is kept for its copy: 1 ms to 1 hour, default 1 s. It must be longer
    /// than the client's delay before the second copy plus the network latency.
    pub cancelled_max: Duration,
}

/// Settings that make sense.
pub type TiesConfig = Valid<TiesSettings>;

impl Default for TiesSettings {
    fn default() -> Self {
        Self {
            names_max: 4096,
            cancelled_max: Duration::from_secs(1),
        }
    }
}

impl Settings for TiesSettings {
    fn check(&self) -> Result<(), ConfigError> {
        const MS: Duration = Duration::from_millis(1);
        const HOUR: Duration = Duration::from_hours(1);
        let names = (8..=1 << 20).contains(&self.names_max);
        require(names, "names_max", "from 8 to 1048576")?;
        let cancelled = (MS..=HOUR).contains(&self.cancelled_max);
        require(cancelled, "cancelled_max", "from 1 ms to 1 hour")
    }
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TiesCounters {
    /// Copies that were dropped: the other copy started while they waited, or before they arrived.
    pub dropped: u64,
    /// Copies that had already started when the other one did: work done twice.
    pub doubled: u64,
    /// Copies that were served without a tie, because the table was full.
    pub untied: u64,
}

/// Counts of tied copies at a replica since its start, including the messages to its peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TieCounts {
    /// What happened to the copies. The dropped ones are also among the shed queries of
    /// [`AdmissionView`](crate::overload::AdmissionView).
    pub copies: TiesCounters,
    /// Notifications to the other copy's replica that a copy has started here.
    pub notified: u64,
    /// Notifications that could not be sent: the socket did not accept them, or there is none for
    /// the address.
    pub unnotified: u64,
    /// Copies whose other copy is at no peer, which were served without a tie, and datagrams that
    /// did not come from a peer.
    pub strange: u64,
}

/// The tied copies at one replica. `J` is the queue's handle of a waiting copy.
#[derive(Clone, Debug)]
pub struct Ties<J> {
    config: TiesConfig,
    places: Vec<Option<Place<J>>>,
    counters: TiesCounters,
}

#[derive(Clone, Copy, Debug)]
struct Place<J> {
    name: TieName,
    state: State<J>,
}

#[derive(Clone, Copy, Debug)]
enum State<J> {
    Waits(J),
    Begun,
    /// It was cancelled before it arrived, at this time.
    Cancelled(Instant),
}

impl<J> Place<J> {
    const fn is_cancelled(&self) -> bool {
        matches!(self.state, State::Cancelled(_))
    }
}

/// What an arriving copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comes {
    /// One of two copies. It may start.
    Tied,
    /// A copy with that name is here already, so this one is untied.
    Untied,
    /// The other copy has started elsewhere: this one must be dropped.
    Cancelled,
}

impl<J: Copy> Ties<J> {
    /// An empty table.
    pub fn new(config: TiesConfig) -> Self {
        let names = config.names_max.next_power_of_two();
        Self {
            places: vec![None; names as usize],
            config,
            counters: TiesCounters::default(),
        }
    }

    /// Classifies an arriving copy. A cancellation is reported once. A tied copy is not stored
    /// until [`Self::wait`] or [`Self::start`].
    #[must_use]
    pub fn come(&mut self, now: Instant, name: TieName) -> Comes {
        match self.find(now, name) {
            None => Comes::Tied,
            Some(place) => {
                if place.as_ref().is_some_and(Place::is_cancelled) {
                    *place = None;
                    self.counters.dropped += 1;
                    return Comes::Cancelled;
                }
                self.counters.untied += 1;
                Comes::Untied
            }
        }
    }

    /// Stores a tied copy that waits as `job`. If the table is full, the copy is untied.
    pub fn wait(&mut self, now: Instant, name: TieName, job: J) {
        self.enter(now, name, State::Waits(job));
    }

    /// Notes that a tied copy starts at its arrival. Returns `true` if the other copy's replica
    /// must be notified.
    #[must_use]
    pub fn start(&mut self, now: Instant, name: TieName) -> bool {
        self.enter(now, name, State::Begun)
    }

    /// Stores an arriving copy that waits as `job`. Returns `false` if the other copy has started
    /// elsewhere, so that this one must be dropped.
    #[must_use]
    pub fn arrive(&mut self, now: Instant, name: TieName, job: J) -> bool {
        let comes = self.come(now, name);
        if comes == Comes::Tied {
            self.wait(now, name, job);
        }
        comes != Comes::Cancelled
    }

    /// Starts a copy that waited. Returns `true` if the other copy's replica must be notified. An
    /// untied copy needs no notification.
    #[must_use]
    pub fn begin(&mut self, now: Instant, name: TieName) -> bool {
        let place = self.find(now, name);
        if let Some(Some(Place { state, .. })) = place
            && matches!(state, State::Waits(_))
        {
            *state = State::Begun;
            return true;
        }
        false
    }

    /// Notes that the other copy has started elsewhere. Returns the copy to remove from the queue,
    /// if it waits here.
    #[must_use]
    pub fn cancel(&mut self, now: Instant, name: TieName) -> Option<J> {
        let Some(place) = self.find(now, name) else {
            self.put(now, name, State::Cancelled(now));
            return None;
        };
        match place.map(|place| place.state) {
            Some(State::Waits(job)) => {
                *place = None;
                self.counters.dropped += 1;
                Some(job)
            }
            Some(State::Begun) => {
                self.counters.doubled += 1;
                None
            }
            Some(State::Cancelled(_)) | None => None,
        }
    }

    /// Notes that a copy is over: served, or given up by its client.
    pub fn end(&mut self, now: Instant, name: TieName) {
        if let Some(place) = self.find(now, name)
            && !place.as_ref().is_some_and(Place::is_cancelled)
        {
            *place = None;
        }
    }

    /// Counts since the start.
    pub const fn counters(&self) -> TiesCounters {
        self.counters
    }

    /// Stores a copy and counts it if it is untied. Returns whether there was space.
    fn enter(&mut self, now: Instant, name: TieName, state: State<J>) -> bool {
        let is_tied = self.put(now, name, state);
        self.counters.untied += u64::from(!is_tied);
        is_tied
    }

    /// The eight places where a name may be.
    fn set(&mut self, name: TieName) -> &mut [Option<Place<J>>] {
        // Consecutive names fill all sets evenly.
        let mixed = name.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let sets = self.places.len() / WAYS;
        let set = (u128::from(mixed) * sets as u128) >> 64;
        #[expect(clippy::cast_possible_truncation, reason = "below the number of sets")]
        let from = set as usize * WAYS;
        &mut self.places[from..from + WAYS]
    }

    fn find(&mut self, now: Instant, name: TieName) -> Option<&mut Option<Place<J>>> {
        let cancelled_max = self.config.cancelled_max;
        let place = (self.set(name).iter_mut())
            .find(|place| place.as_ref().is_some_and(|place| place.name == name))?;
        if let Some(Place {
            state: State::Cancelled(at),
            ..
        }) = *place
            && at + cancelled_max < now
        {
            *place = None;
            return None;
        }
        Some(place)
    }

    /// Stores a name. Returns whether there was space.
    fn put(&mut self, now: Instant, name: TieName, state: State<J>) -> bool {
        // Free places come first, then the oldest cancellation: its copy may never arrive.
        let age = |place: &Option<Place<J>>| match place {
            None => Some(Duration::MAX),
            Some(Place {
                state: State::Cancelled(at),
                ..
            }) => Some(now.saturating_since(*at)),
            Some(_) => None,
        };
        let places = self.set(name).iter_mut();
        let best = places.filter_map(|place| Some((age(place)?, place)));
        let best = best.max_by_key(|(age, _)| *age);
        if let Some((_, place)) = best {
            *place = Some(Place { name, state });
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::check_ranges;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn ties() -> Ties<u32> {
        small(4096)
    }

    fn small(names_max: u32) -> Ties<u32> {
        let settings = TiesSettings {
            names_max,
            ..TiesSettings::default()
        };
        Ties::new(settings.validate().expect("in range"))
    }

    const A: TieName = TieName(7);
    const B: TieName = TieName(8);

    #[test]
    fn waiting_copy_is_dropped_when_the_other_starts() {
        let mut ties = ties();
        assert!(ties.arrive(at(0), A, 1));
        assert!(ties.arrive(at(0), B, 2));
        assert_eq!(ties.cancel(at(1), B), Some(2));
        assert_eq!(ties.cancel(at(1), B), None, "once");
        assert!(
            ties.begin(at(2), A),
            "the other copy starts, and its replica is notified"
        );
        assert!(!ties.begin(at(2), A), "once");
        assert_eq!(ties.counters().dropped, 1);
        assert_eq!(ties.counters().doubled, 0);
    }

    #[test]
    fn copy_that_arrives_after_its_cancellation_is_dropped() {
        let mut ties = ties();
        assert_eq!(ties.cancel(at(0), A), None);
        assert!(!ties.arrive(at(1000), A, 1), "to the end of a second");
        assert!(ties.arrive(at(1000), A, 1), "but once");
        assert_eq!(ties.cancel(at(1000), B), None);
        assert!(ties.arrive(at(2001), B, 2), "it is too long ago");
        assert_eq!(ties.counters().dropped, 1);
    }

    #[test]
    fn copy_started_on_arrival_is_never_dropped() {
        let mut ties = ties();
        assert_eq!(ties.come(at(0), A), Comes::Tied);
        assert!(ties.start(at(0), A));
        assert!(!ties.begin(at(0), A), "it has been notified");
        assert_eq!(ties.cancel(at(1), A), None);
        assert_eq!(ties.counters().doubled, 1);
        assert_eq!(ties.come(at(1), A), Comes::Untied, "one is here");
        assert_eq!(ties.counters().untied, 1);
        ties.end(at(2), A);
        assert_eq!(ties.cancel(at(2), A), None);
        assert_eq!(ties.come(at(2), A), Comes::Cancelled);
        assert_eq!(ties.come(at(2), A), Comes::Tied);
    }

    #[test]
    fn copies_started_on_both_sides_are_counted_as_doubled() {
        let mut ties = ties();
        assert!(ties.arrive(at(0), A, 1));
        assert!(ties.begin(at(0), A));
        assert_eq!(ties.cancel(at(1), A), None);
        let counters = ties.counters();
        assert_eq!((counters.dropped, counters.doubled), (0, 1));
    }

    #[test]
    fn ended_copy_is_forgotten_but_its_cancellation_is_kept() {
        let mut ties = ties();
        assert!(ties.arrive(at(0), A, 1));
        ties.end(at(0), A);
        assert_eq!(ties.cancel(at(0), A), None, "it does not wait any more");
        ties.end(at(0), A);
        assert!(!ties.arrive(at(0), A, 1), "the cancellation was kept");
    }

    #[test]
    fn full_set_evicts_oldest_cancellation_never_a_copy() {
        // There is one set.
        let mut ties = small(8);
        for name in 0..8 {
            assert_eq!(ties.cancel(at(name), TieName(name)), None);
        }
        assert!(ties.arrive(at(10), TieName(100), 100));
        assert!(ties.arrive(at(10), TieName(0), 0), "the oldest gave way");
        assert!(!ties.arrive(at(10), TieName(2), 2), "its place is free now");
        for name in [3, 4, 5, 6, 7] {
            assert!(!ties.arrive(at(10), TieName(name), 3));
        }
        for name in 200..206 {
            assert!(ties.arrive(at(10), TieName(name), 200));
        }
        assert_eq!(ties.counters().untied, 0);
        assert!(ties.arrive(at(10), TieName(300), 300), "it is served");
        assert_eq!(ties.counters().untied, 1);
        assert!(!ties.begin(at(10), TieName(300)), "and no notification");
        assert_eq!(
            ties.cancel(at(10), TieName(300)),
            None,
            "there is no room for that either"
        );
        assert_eq!(ties.cancel(at(10), TieName(100)), Some(100));
    }

    #[test]
    fn duplicate_name_is_served_untied() {
        let mut ties = ties();
        assert!(ties.arrive(at(0), A, 1));
        assert!(ties.arrive(at(0), A, 2));
        assert_eq!(ties.counters().untied, 1);
        assert_eq!(ties.cancel(at(0), A), Some(1));
    }

    #[test]
    fn sequential_names_do_not_collide() {
        let mut ties = ties();
        for name in 0..2048 {
            assert!(ties.arrive(at(0), TieName(name), 0));
        }
        assert_eq!(ties.counters().untied, 0, "half of the room");
    }

    #[test]
    fn settings_out_of_range_are_rejected() {
        check_ranges::<TiesSettings>(&[
            ("names_max", |s| s.names_max = 7),
            ("names_max", |s| s.names_max = (1 << 20) + 1),
            ("cancelled_max", |s| s.cancelled_max = Duration::ZERO),
            ("cancelled_max", |s| {
                s.cancelled_max = Duration::from_hours(2);
            }),
        ]);
        assert_eq!(small(9).places.len(), 16);
    }
}
