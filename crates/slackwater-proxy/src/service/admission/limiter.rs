//! The door to a service: so many requests are inside at once, others wait in line, and some are turned away.
//!
//! A fleet that has more requests than it can work on finishes none of them in time. So the number in flight has a limit,
//! a short line takes up what comes in bursts, and whoever would wait too long hears so at once and may try elsewhere. The
//! line is first come, first served: a place that becomes free is given to the first in it and to nobody who comes later.
//! Each worker has its share of the limit and of the line.

use super::WorkerPlace;

use super::counts::ServiceCounts;
use super::wait_queue::Line;
use crate::forward::{ResponseBody, Watch, shed, too_late};
use core::cell::Cell;
use core::time::Duration;
use http::Response;
use slackwater_config::QueueSettings;
use std::rc::Rc;
use std::sync::Arc;
use tokio::time::Instant;

/// Why a request was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shed {
    /// All places are taken, and the line is full.
    QueueFull,
    /// It has waited as long as it may.
    WaitOver,
    /// Its own time is over.
    Deadline,
}

impl Shed {
    /// What the client is told.
    pub(crate) fn answer<W: Watch>(self) -> Response<ResponseBody<W>> {
        match self {
            Self::QueueFull => shed("queue_full", "too many requests wait already"),
            Self::WaitOver => shed("queue_wait_over", "there was no room in time"),
            Self::Deadline => too_late(),
        }
    }
}

/// A worker's door to a service.
#[derive(Debug)]
pub(crate) struct Gate {
    requests_max: u32,
    waiting_max: usize,
    wait_max: Duration,
    inside: Cell<u32>,
    line: Line<Permit>,
    counts: Arc<ServiceCounts>,
}

/// A place inside, until dropped.
#[derive(Debug)]
pub(crate) struct Permit(Rc<Gate>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.set_inside(self.0.inside.get() - 1);
        self.0.call_next();
    }
}

/// Whoever waits tells of it when it no longer does.
struct Leaving<'g> {
    gate: &'g Gate,
    since: Instant,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.gate.counts.waits.add(self.since.elapsed());
        self.gate.tell_waiting();
    }
}

/// The share of `total` that worker number `index` of `workers` has: all shares are alike but for one, each is at least 1,
/// and unless that takes more, together they are `total`.
pub(crate) fn share(total: u32, index: u16, workers: u16) -> u32 {
    let (index, workers) = (u32::from(index), u32::from(workers.max(1)));
    let even = total / workers;
    let rest = u32::from(index < total % workers);
    (even + rest).max(1)
}

impl Gate {
    /// The door of worker number `index` of `workers`; `None` if everybody may come in.
    pub(crate) fn new(
        settings: &QueueSettings,
        WorkerPlace { index, workers }: WorkerPlace,
        counts: &Arc<ServiceCounts>,
    ) -> Option<Rc<Self>> {
        let requests_max = settings.requests_max?;
        let waiting_max = match settings.waiting_max {
            0 => 0,
            some => share(some, index, workers),
        };
        Some(Rc::new(Self {
            requests_max: share(requests_max, index, workers),
            waiting_max: waiting_max as usize,
            wait_max: settings.wait_max,
            inside: Cell::new(0),
            line: Line::default(),
            counts: Arc::clone(counts),
        }))
    }

    /// A place inside, now or after a wait in line that is over at `ends` at the latest: by then the request is.
    pub(crate) async fn enter(self: &Rc<Self>, ends: Option<Instant>) -> Result<Permit, Shed> {
        if self.line.is_empty() && self.has_room() {
            return Ok(self.take());
        }
        if self.line.len() >= self.waiting_max || self.wait_max.is_zero() {
            self.counts.shed_queue_full.add_one();
            return Err(Shed::QueueFull);
        }
        // In a box, so that those who need not wait do not carry its size around.
        Box::pin(self.wait(ends)).await
    }

    async fn wait(self: &Rc<Self>, ends: Option<Instant>) -> Result<Permit, Shed> {
        self.counts.queued.add_one();
        // Dropped after its place in line is.
        let since = Instant::now();
        let _told = Leaving { gate: self, since };
        let in_line = self.line.join(since);
        self.tell_waiting();
        let left = |ends: Instant| ends.saturating_duration_since(Instant::now());
        let wait = ends.map_or(self.wait_max, |ends| self.wait_max.min(left(ends)));
        let permit = tokio::time::timeout(wait, in_line.called()).await;
        // Whoever is called at the last moment has no use for the place.
        let permit = permit
            .ok()
            .filter(|_| ends.is_none_or(|ends| !left(ends).is_zero()));
        permit.ok_or_else(|| {
            if ends.is_some_and(|ends| left(ends).is_zero()) {
                self.counts.shed_deadline.add_one();
                Shed::Deadline
            } else {
                self.counts.shed_wait_over.add_one();
                Shed::WaitOver
            }
        })
    }

    fn set_inside(&self, inside: u32) {
        self.inside.set(inside);
        self.counts.inside.set(inside.into());
    }

    fn tell_waiting(&self) {
        self.counts.waiting.set(self.line.len() as u64);
        let oldest = self.line.oldest().map(Instant::into_std);
        self.counts.oldest.set(oldest);
    }

    const fn has_room(&self) -> bool {
        self.inside.get() < self.requests_max
    }

    fn take(self: &Rc<Self>) -> Permit {
        self.set_inside(self.inside.get() + 1);
        Permit(Rc::clone(self))
    }

    /// Gives free places to those who came first.
    fn call_next(self: &Rc<Self>) {
        while self
            .line
            .call_first(|| self.has_room().then(|| self.take()))
        {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::admission::wait_queue::testing::{in_paused_time, now};
    use core::pin::pin;

    const ALONE: WorkerPlace = WorkerPlace {
        index: 0,
        workers: 1,
    };

    fn gate(requests_max: u32, waiting_max: u32) -> Rc<Gate> {
        let settings = QueueSettings {
            requests_max: Some(requests_max),
            waiting_max,
            wait_max: Duration::from_secs(1),
        };
        Gate::new(&settings, ALONE, &Arc::default()).expect("there is a limit")
    }

    #[test]
    fn shares_add_up_and_nobody_has_none() {
        for (total, workers, shares) in [
            (10, 4, vec![3, 3, 2, 2]),
            (8, 4, vec![2; 4]),
            (2, 4, vec![1; 4]),
            (7, 1, vec![7]),
        ] {
            let found: Vec<_> = (0..workers)
                .map(|index| share(total, index, workers))
                .collect();
            assert_eq!(found, shares, "{total} over {workers}");
        }
    }

    #[test]
    fn without_a_limit_there_is_no_door() {
        let settings = QueueSettings::default();
        assert!(Gate::new(&settings, ALONE, &Arc::default()).is_none());
    }

    #[test]
    fn so_many_are_inside_and_the_others_wait_their_turn() {
        in_paused_time(async {
            let gate = gate(2, 9);
            let [first, _second] = [gate.enter(None).await, gate.enter(None).await];
            let mut third = pin!(gate.enter(None));
            let mut fourth = pin!(gate.enter(None));
            assert!(now(third.as_mut()).is_none());
            assert!(now(fourth.as_mut()).is_none());
            drop(first);
            // Whoever comes now stands behind them, also before the third wakes up.
            let mut fifth = pin!(gate.enter(None));
            assert!(now(fifth.as_mut()).is_none());
            assert!(now(fourth.as_mut()).is_none());
            let third = now(third.as_mut()).expect("called").expect("let in");
            drop(third);
            assert!(now(fifth.as_mut()).is_none());
            assert!(now(fourth.as_mut()).is_some());
            assert_eq!(gate.counts.queued.read(), 3);
            assert_eq!(gate.counts.waits.read().count(), 2, "one still waits");
            assert_eq!(gate.counts.line().waiting, 1);
        });
    }

    #[test]
    fn a_full_line_turns_away_at_once() {
        in_paused_time(async {
            let gate = gate(1, 1);
            let _inside = gate.enter(None).await.expect("room");
            let mut waits = pin!(gate.enter(None));
            assert!(now(waits.as_mut()).is_none());
            assert_eq!(gate.enter(None).await.err(), Some(Shed::QueueFull));
            assert_eq!(gate.counts.shed_queue_full.read(), 1);
        });
    }

    #[test]
    fn a_line_of_none_lets_nobody_wait() {
        in_paused_time(async {
            let gate = gate(1, 0);
            let _inside = gate.enter(None).await.expect("room");
            assert_eq!(gate.enter(None).await.err(), Some(Shed::QueueFull));
        });
    }

    #[test]
    fn a_wait_ends_and_leaves_no_one_in_line() {
        in_paused_time(async {
            let gate = gate(1, 9);
            let inside = gate.enter(None).await.expect("room");
            let began = Instant::now();
            assert_eq!(gate.enter(None).await.err(), Some(Shed::WaitOver));
            assert_eq!(began.elapsed(), Duration::from_secs(1));
            assert_eq!(gate.counts.shed_wait_over.read(), 1);
            let waits = gate.counts.waits.read();
            assert_eq!((waits.count(), waits.sum()), (1, Duration::from_secs(1)));
            assert!(gate.line.is_empty());
            drop(inside);
            assert_eq!(gate.inside.get(), 0);
        });
    }

    #[test]
    fn nobody_waits_beyond_the_end_of_the_request() {
        in_paused_time(async {
            let gate = gate(1, 9);
            let inside = gate.enter(None).await.expect("room");
            let began = Instant::now();
            let ends = Some(began + Duration::from_millis(300));
            assert_eq!(gate.enter(ends).await.err(), Some(Shed::Deadline));
            assert_eq!(began.elapsed(), Duration::from_millis(300));
            // Called just when it is over: the place is free again.
            let ends = Some(Instant::now() + Duration::from_millis(300));
            let mut late = pin!(gate.enter(ends));
            assert!(now(late.as_mut()).is_none());
            drop(inside);
            tokio::time::advance(Duration::from_millis(300)).await;
            assert_eq!(late.await.err(), Some(Shed::Deadline));
            assert_eq!(gate.inside.get(), 0);
            assert_eq!(gate.counts.shed_deadline.read(), 2);
            assert_eq!(gate.counts.shed_wait_over.read(), 0);
        });
    }

    #[test]
    fn who_leaves_after_being_called_passes_the_place_on() {
        in_paused_time(async {
            let gate = gate(1, 9);
            let inside = gate.enter(None).await.expect("room");
            let mut leaves = Box::pin(gate.enter(None));
            let mut waits = pin!(gate.enter(None));
            assert!(now(leaves.as_mut()).is_none());
            assert!(now(waits.as_mut()).is_none());
            drop(inside);
            assert_eq!(gate.inside.get(), 1, "taken for the first in line");
            drop(leaves);
            let permit = now(waits.as_mut()).expect("called").expect("let in");
            assert_eq!(gate.inside.get(), 1);
            drop(permit);
            assert_eq!(gate.inside.get(), 0);
        });
    }
}
