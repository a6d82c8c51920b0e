//! Cheap deadlines by the thousand: one timer for a whole worker instead of one for each wait.
//!
//! A proxy arms and disarms several deadlines for each request, and almost none of them ever
//! passes. They are kept in a table that one task scans at intervals, and arming one is a write to
//! a cell: no heap, no lock, no timer wheel, no reading of the clock. The price is precision: a
//! deadline never passes early, but up to two and a half intervals late.
//!
//! For a worker that was held up, time has stood still: no peer could show it progress. Its delay
//! is therefore added to every running deadline, and a moment noted at one scan is at most one
//! interval before the next. Rare waits (connecting to a replica) use the runtime's timers.

use core::cell::{Cell, RefCell};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use slab::Slab;
use std::rc::Rc;
use tokio::time::Instant;

const NEVER: u64 = u64::MAX;

/// The unit of coarse time.
const TICK: Duration = Duration::from_millis(5);

/// Most ticks from one scan to the next: a second.
const INTERVAL_MAX: u32 = 200;

/// A scan may be late by this fraction of an interval (1/4) without delaying the next one. This
/// covers timers with the runtime's resolution.
const LATE_PART: u32 = 4;

/// The deadlines of one worker, and its coarse clock.
#[derive(Debug)]
pub struct Deadlines {
    /// Ticks from one scan to the next.
    interval: Cell<u32>,
    /// Ticks since [`Deadlines::run`] started, at the last scan: the coarse time.
    now: Cell<u64>,
    waits: RefCell<Slab<Wait>>,
}

#[derive(Debug)]
struct Wait {
    passes_at: u64,
    waker: Option<Waker>,
}

impl Deadlines {
    /// Makes an empty table for deadlines of at least `shortest`. It is scanned at intervals of an
    /// eighth of that, between 5 ms and 1 s.
    pub fn new(shortest: Duration) -> Rc<Self> {
        Rc::new(Self {
            interval: Cell::new(interval_for(shortest)),
            now: Cell::new(0),
            waits: RefCell::new(Slab::new()),
        })
    }

    /// Prepares for deadlines of at least `shortest`, if that is less than before. The interval
    /// that runs becomes no shorter, and intervals never grow again: counts of ticks are kept.
    pub fn shorten(&self, shortest: Duration) {
        let interval = self.interval.get().min(interval_for(shortest));
        self.interval.set(interval);
    }

    /// Runs the clock forever, and calls `on_scan` at each scan. No deadline passes unless this
    /// runs.
    pub async fn run(&self, on_scan: impl Fn()) {
        let mut due = Instant::now();
        loop {
            due += TICK * self.interval.get();
            tokio::time::sleep_until(due).await;
            // A delay beyond the allowed part shifts all later scans.
            due += due.elapsed().saturating_sub(self.late_max());
            // If the interval was shortened meanwhile, time counts as less than it was, so no
            // deadline passes early.
            self.now
                .set(self.now.get() + u64::from(self.interval.get()));
            self.wake_until(self.now.get());
            on_scan();
        }
    }

    /// Wakes all waiting tasks, so that they check their state.
    pub(crate) fn wake_all(&self) {
        self.wake_until(NEVER);
    }

    /// The coarse time, in ticks.
    pub(crate) fn now(&self) -> u64 {
        self.now.get()
    }

    fn late_max(&self) -> Duration {
        TICK * self.interval.get() / LATE_PART
    }

    /// Returns the number of ticks that last at least `span`, whenever between two scans the wait
    /// starts.
    pub(crate) fn ticks(&self, span: Duration) -> u64 {
        // The wait may start just before a late scan, and end with a scan that is on time.
        let span = span.saturating_add(self.late_max());
        let ticks = span.as_nanos().div_ceil(TICK.as_nanos());
        let interval = self.interval.get().into();
        u64::try_from(ticks).map_or(NEVER - 1, |ticks| ticks.saturating_add(interval))
    }

    /// Adds a deadline that is not armed.
    pub(crate) fn add(self: &Rc<Self>) -> Deadline {
        let key = self.waits.borrow_mut().insert(Wait {
            passes_at: NEVER,
            waker: None,
        });
        Deadline {
            deadlines: Rc::clone(self),
            key,
        }
    }

    /// Wakes the tasks whose deadlines pass at `last` or before.
    fn wake_until(&self, last: u64) {
        // Outside of the borrow: a waker may drop a task, and with it a deadline.
        let wakers: Vec<Waker> = {
            let mut waits = self.waits.borrow_mut();
            waits
                .iter_mut()
                .filter(|(_, wait)| wait.passes_at <= last)
                .filter_map(|(_, wait)| wait.waker.take())
                .collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Ticks between scans for deadlines of at least `shortest`.
fn interval_for(shortest: Duration) -> u32 {
    let ticks = shortest.as_nanos() / 8 / TICK.as_nanos();
    u32::try_from(ticks).map_or(INTERVAL_MAX, |ticks| ticks.clamp(1, INTERVAL_MAX))
}

/// One deadline; removed from the table when dropped.
#[derive(Debug)]
pub(crate) struct Deadline {
    deadlines: Rc<Deadlines>,
    key: usize,
}

impl Deadline {
    /// The table of the deadline.
    pub(crate) fn deadlines(&self) -> &Deadlines {
        &self.deadlines
    }

    /// Lets the deadline pass after this many ticks from now, and replaces the previous setting.
    pub(crate) fn arm(&self, ticks: u64) {
        let now = self.deadlines.now.get();
        self.set(now.saturating_add(ticks).min(NEVER - 1));
    }

    /// Never passes until it is armed again.
    pub(crate) fn disarm(&self) {
        self.set(NEVER);
    }

    /// Ready once the deadline has passed; until then, the task is registered to be woken.
    pub(crate) fn poll_passed(&self, cx: &Context<'_>) -> Poll<()> {
        let now = self.deadlines.now.get();
        let mut waits = self.deadlines.waits.borrow_mut();
        let Some(wait) = waits.get_mut(self.key) else {
            return Poll::Pending;
        };
        if wait.passes_at <= now {
            return Poll::Ready(());
        }
        match &mut wait.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn set(&self, passes_at: u64) {
        if let Some(wait) = self.deadlines.waits.borrow_mut().get_mut(self.key) {
            wait.passes_at = passes_at;
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        // Bound to a name, so that the waker is dropped after the borrow ends.
        let _wait = self.deadlines.waits.borrow_mut().try_remove(self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::poll_fn;
    use futures_util::FutureExt;

    /// Runs `body` beside a running table, in paused time.
    fn with_deadlines<F: Future<Output = ()>>(
        shortest: Duration,
        body: impl FnOnce(Rc<Deadlines>) -> F,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let deadlines = Deadlines::new(shortest);
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = deadlines.run(|| ()) => (),
                () = body(Rc::clone(&deadlines)) => (),
            }
        });
    }

    #[test]
    fn deadline_passes_promptly_and_never_early() {
        let span = Duration::from_millis(800);
        with_deadlines(span, async |deadlines: Rc<Deadlines>| {
            for offset_ms in [0, 1, 50, 99] {
                tokio::time::sleep(Duration::from_millis(offset_ms)).await;
                let began = Instant::now();
                let deadline = deadlines.add();
                deadline.arm(deadlines.ticks(span));
                poll_fn(|cx| deadline.poll_passed(cx)).await;
                let took = began.elapsed();
                assert!(took >= span, "early: {took:?}");
                assert!(took <= span + Duration::from_millis(201), "late: {took:?}");
            }
        });
    }

    /// Lets time pass in which no task runs.
    fn hold_up(span: Duration) {
        // The first poll advances the clock; the rest only let other tasks run.
        assert!(tokio::time::advance(span).now_or_never().is_none());
    }

    #[test]
    fn deadline_armed_by_a_stalled_worker_is_not_early() {
        let span = Duration::from_millis(800);
        with_deadlines(span, async |deadlines: Rc<Deadlines>| {
            for held_ms in [1, 90, 120, 124, 130, 180, 250, 799, 5000] {
                let (first, second) = (deadlines.add(), deadlines.add());
                first.arm(deadlines.ticks(span));
                let noted = deadlines.now();
                poll_fn(|cx| first.poll_passed(cx)).await;
                // Immediately after a scan.
                hold_up(Duration::from_millis(held_ms));
                let began = Instant::now();
                second.arm(deadlines.ticks(span));
                let noted_again = deadlines.now();
                // It passed at the first scan after that.
                let ticks = deadlines.ticks(span).next_multiple_of(20);
                assert_eq!(noted_again - noted, ticks, "{held_ms}");
                poll_fn(|cx| second.poll_passed(cx)).await;
                let took = began.elapsed();
                assert!(took >= span, "{held_ms}: early: {took:?}");
                assert!(
                    took <= span + Duration::from_millis(251),
                    "{held_ms}: late: {took:?}"
                );
            }
        });
    }

    #[test]
    fn time_during_a_worker_stall_does_not_count() {
        let span = Duration::from_millis(800);
        with_deadlines(span, async |deadlines: Rc<Deadlines>| {
            let deadline = deadlines.add();
            deadline.arm(deadlines.ticks(span));
            hold_up(Duration::from_mins(1));
            let began = Instant::now();
            poll_fn(|cx| deadline.poll_passed(cx)).await;
            let left = began.elapsed();
            assert!(left >= Duration::from_millis(700), "{left:?}");
        });
    }

    #[test]
    fn late_scans_do_not_delay_later_ones() {
        with_deadlines(
            Duration::from_millis(800),
            async |deadlines: Rc<Deadlines>| {
                for _ in 0..100 {
                    // Scans are due every 100 ms, and 20, 10 or 0 ms late.
                    hold_up(Duration::from_millis(30));
                    tokio::task::yield_now().await;
                }
                assert_eq!(deadlines.now(), 30 * 20);
            },
        );
    }

    #[test]
    fn shorter_deadlines_are_precise_from_the_next_scan_on() {
        let (long, short) = (Duration::from_secs(8), Duration::from_millis(800));
        for held_ms in [1, 400, 999] {
            with_deadlines(long, async |deadlines: Rc<Deadlines>| {
                let passed = async |span| {
                    let began = Instant::now();
                    let deadline = deadlines.add();
                    deadline.arm(deadlines.ticks(span));
                    poll_fn(|cx| deadline.poll_passed(cx)).await;
                    began.elapsed()
                };
                let shortened = async {
                    tokio::time::sleep(Duration::from_millis(held_ms)).await;
                    deadlines.shorten(short);
                    deadlines.shorten(long);
                    let first = passed(short).await;
                    (first, passed(short).await)
                };
                let (running, (first, second)) = tokio::join!(passed(long), shortened);
                for (took, span, late_ms) in [
                    (running, long, 2_300),
                    (first, short, 1_201),
                    (second, short, 201),
                ] {
                    assert!(took >= span, "{held_ms}: early: {took:?} of {span:?}");
                    let late = took.saturating_sub(span);
                    assert!(
                        late <= Duration::from_millis(late_ms),
                        "{held_ms}: late: {late:?}"
                    );
                }
            });
        }
    }

    #[test]
    fn rearming_moves_a_deadline_and_disarming_stops_it() {
        let span = Duration::from_millis(80);
        with_deadlines(span, async |deadlines: Rc<Deadlines>| {
            let moved = deadlines.add();
            let stopped = deadlines.add();
            moved.arm(deadlines.ticks(span));
            stopped.arm(deadlines.ticks(span));
            stopped.disarm();
            let began = Instant::now();
            moved.arm(deadlines.ticks(span * 4));
            tokio::select! {
                () = poll_fn(|cx| stopped.poll_passed(cx)) => panic!("a disarmed deadline passed"),
                () = poll_fn(|cx| moved.poll_passed(cx)) => assert!(began.elapsed() >= span * 4),
            }
        });
    }

    #[test]
    fn dropped_deadlines_leave_nothing_behind() {
        let deadlines = Deadlines::new(Duration::from_secs(8));
        let many: Vec<Deadline> = (0..100).map(|_| deadlines.add()).collect();
        assert_eq!(deadlines.waits.borrow().len(), 100);
        drop(many);
        assert_eq!(deadlines.waits.borrow().len(), 0);
    }

    #[test]
    fn ticks_stay_in_range_for_any_span() {
        let brief = Deadlines::new(Duration::ZERO);
        assert_eq!(brief.interval.get(), 1);
        let long = Deadlines::new(Duration::MAX);
        assert_eq!(long.interval.get(), 200);
        let deadline = long.add();
        deadline.arm(long.ticks(Duration::MAX));
        deadline.arm(u64::MAX);
    }
}
