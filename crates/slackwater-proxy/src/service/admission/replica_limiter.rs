//! Room at a replica: so many requests are there at once, each on a connection of its own.
//!
//! A request that finds no room at one replica goes to another. Where there is none anywhere it waits for the first place
//! that becomes free, first come, first served, for as long as a connection may take. Each worker has its share of the room.

use super::counts::ServiceCounts;
use super::wait_queue::Line;
use core::cell::Cell;
use core::net::SocketAddr;
use core::time::Duration;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// The most who wait, in a worker.
const WAITING_MAX: usize = 4096;

/// The room at all replicas of a service.
#[derive(Debug)]
pub(crate) struct Rooms {
    /// Requests at each replica.
    requests_max: u32,
    wait_max: Duration,
    line: Line<Spot>,
    counts: Arc<ServiceCounts>,
}

/// The room at one replica.
#[derive(Debug)]
pub(crate) struct Room {
    address: SocketAddr,
    inside: Cell<u32>,
    rooms: Rc<Rooms>,
}

/// A place there, until dropped.
#[derive(Debug)]
pub(crate) struct Spot {
    room: Rc<Room>,
    /// Nobody is told when it becomes free.
    is_quiet: bool,
}

impl Rooms {
    pub(crate) fn new(
        requests_max: u32,
        wait_max: Duration,
        counts: &Arc<ServiceCounts>,
    ) -> Rc<Self> {
        Rc::new(Self {
            requests_max,
            wait_max,
            line: Line::default(),
            counts: Arc::clone(counts),
        })
    }

    /// The room at the replica of that address.
    pub(crate) fn room(self: &Rc<Self>, address: SocketAddr) -> Rc<Room> {
        Rc::new(Room {
            address,
            inside: Cell::new(0),
            rooms: Rc::clone(self),
        })
    }

    /// Until when somebody who comes now may wait.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.wait_max
    }

    /// Waits for a place at any replica. `None`, which is counted: there was none in time, or too many wait already.
    pub(crate) async fn wait(&self, deadline: Instant) -> Option<Spot> {
        let waited = if self.line.len() < WAITING_MAX {
            let in_line = self.line.join(Instant::now());
            tokio::time::timeout_at(deadline, in_line.called())
                .await
                .ok()
        } else {
            None
        };
        if waited.is_none() {
            self.counts.shed_replicas_full.add_one();
        }
        waited
    }
}

impl Room {
    /// A place, if there is one.
    pub(crate) fn enter(self: &Rc<Self>) -> Option<Spot> {
        if self.inside.get() >= self.rooms.requests_max {
            return None;
        }
        self.inside.set(self.inside.get() + 1);
        Some(Spot {
            room: Rc::clone(self),
            is_quiet: false,
        })
    }

    fn leave(&self) {
        self.inside.set(self.inside.get() - 1);
    }

    /// Gives a free place to whoever came first.
    fn call_next(self: &Rc<Self>) {
        self.rooms.line.call_first(|| self.enter());
    }
}

impl Spot {
    /// Where it is.
    pub(crate) fn address(&self) -> SocketAddr {
        self.room.address
    }

    /// Gives it back without a word to those who wait: it is of no use to anybody now, for the replica is not to be chosen.
    pub(crate) fn forget(mut self) {
        self.is_quiet = true;
    }
}

impl Drop for Spot {
    fn drop(&mut self) {
        self.room.leave();
        if !self.is_quiet {
            self.room.call_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::admission::wait_queue::testing::{in_paused_time, now};
    use core::pin::pin;

    const SECOND: Duration = Duration::from_secs(1);

    fn rooms(requests_max: u32) -> Rc<Rooms> {
        Rooms::new(requests_max, SECOND, &Arc::default())
    }

    fn address(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    #[test]
    fn a_free_place_goes_to_the_first_in_line_and_says_where_it_is() {
        in_paused_time(async {
            let rooms = rooms(2);
            let (one, other) = (rooms.room(address(1)), rooms.room(address(2)));
            let mut inside = [one.enter(), one.enter(), other.enter(), other.enter()];
            assert!(inside.iter().all(Option::is_some));
            assert!(one.enter().is_none() && other.enter().is_none());
            let mut first = pin!(rooms.wait(rooms.deadline()));
            let mut second = pin!(rooms.wait(rooms.deadline()));
            assert!(now(first.as_mut()).is_none() && now(second.as_mut()).is_none());
            inside[2] = None;
            assert!(other.enter().is_none(), "it has been given away");
            assert!(now(second.as_mut()).is_none());
            let spot = now(first.as_mut()).expect("called").expect("a place");
            assert_eq!(spot.address(), address(2));
            drop(spot);
            let spot = now(second.as_mut()).expect("called").expect("a place");
            spot.forget();
            assert_eq!(other.inside.get(), 1);
        });
    }

    #[test]
    fn a_wait_ends_and_leaves_nothing_behind() {
        in_paused_time(async {
            let rooms = rooms(1);
            let room = rooms.room(address(1));
            let inside = room.enter();
            let began = Instant::now();
            assert!(rooms.wait(rooms.deadline()).await.is_none());
            assert_eq!(began.elapsed(), SECOND);
            assert_eq!(rooms.counts.shed_replicas_full.read(), 1);
            assert!(rooms.line.is_empty());
            drop(inside);
            assert_eq!(room.inside.get(), 0);
        });
    }

    #[test]
    fn who_leaves_after_being_called_passes_the_place_on() {
        in_paused_time(async {
            let rooms = rooms(1);
            let room = rooms.room(address(1));
            let inside = room.enter();
            let mut leaves = Box::pin(rooms.wait(rooms.deadline()));
            let mut waits = pin!(rooms.wait(rooms.deadline()));
            assert!(now(leaves.as_mut()).is_none() && now(waits.as_mut()).is_none());
            drop(inside);
            drop(leaves);
            let spot = now(waits.as_mut()).expect("called");
            assert!(spot.is_some());
        });
    }
}
