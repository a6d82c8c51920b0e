//! Turns a schedule into arrivals at the right moments, on a separate thread.
//!
//! An async timer wakes on whole milliseconds, but a thread that sleeps in the kernel wakes within
//! tens of microseconds and is not delayed by a busy runtime. Linux may add up to 50 µs to any
//! sleep (the default timer slack). So the pacer requests a wake-up that much earlier and spins for
//! the rest, which is usually nothing and never over 50 µs for each sleep. Arrivals that are closer
//! together than that are issued without spinning, a few at a time: at high rates the pacer still
//! sleeps, at low rates it costs next to nothing. The remaining lateness is measured ("sent late").
//! The pacer never waits for the target: the function that takes the arrivals must not block.

use core::ops::ControlFlow;
use core::time::Duration;
use std::thread;
use std::time::Instant;

/// How much before the due time the pacer requests its wake-up: the kernel's default timer slack.
const WAKE_LEAD: Duration = Duration::from_micros(50);

/// Longest single sleep. It bounds the delay until a stop is noticed.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// The times of the arrivals.
pub(super) trait Timetable {
    /// Returns the offset of the next arrival by the current rates; `None` if there is none.
    fn next_offset(&mut self) -> Option<Duration>;
    /// Moves on to the following arrival.
    fn advance(&mut self);
}

/// Calls `issue` with the intended start of each arrival, `start` plus its offset, no earlier than
/// that. Returns at `start` plus `length`, or as soon as `issue` breaks or `stopped` returns true.
/// The timetable may change meanwhile: it is read again after each sleep.
pub(super) fn pace(
    mut timetable: impl Timetable,
    start: Instant,
    length: Duration,
    stopped: impl Fn() -> bool,
    mut issue: impl FnMut(Instant) -> ControlFlow<()>,
) {
    while let ControlFlow::Continue(Some(intended)) =
        wait_for_next(&mut timetable, start, length, &stopped)
    {
        timetable.advance();
        if issue(intended).is_break() {
            return;
        }
    }
}

/// Waits for the next arrival; returns `None` at the end.
fn wait_for_next(
    timetable: &mut impl Timetable,
    start: Instant,
    length: Duration,
    stopped: &impl Fn() -> bool,
) -> ControlFlow<(), Option<Instant>> {
    let mut has_slept = false;
    loop {
        if stopped() {
            return ControlFlow::Break(());
        }
        let next = timetable.next_offset();
        let due = start + next.unwrap_or(length);
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return ControlFlow::Continue(next.map(|_| due));
        }
        if let Some(long) = left.checked_sub(WAKE_LEAD) {
            thread::sleep(long.min(SLEEP_MAX));
        } else if has_slept {
            core::hint::spin_loop();
        } else {
            thread::sleep(left);
        }
        has_slept = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use core::iter::Peekable;

    impl<I: Iterator<Item = Duration>> Timetable for Peekable<I> {
        fn next_offset(&mut self) -> Option<Duration> {
            self.peek().copied()
        }

        fn advance(&mut self) {
            self.next();
        }
    }

    #[test]
    fn arrivals_are_issued_in_order_and_never_early() {
        let offsets = [0, 10, 20, 400, 2_000].map(Duration::from_micros);
        let start = Instant::now();
        let mut issued = Vec::new();
        let length = Duration::from_millis(5);
        pace(
            offsets.into_iter().peekable(),
            start,
            length,
            || false,
            |intended| {
                assert!(Instant::now() >= intended);
                issued.push(intended - start);
                ControlFlow::Continue(())
            },
        );
        assert_eq!(issued, offsets);
        assert!(
            start.elapsed() >= length,
            "the run lasts as long as its plan says"
        );
    }

    #[test]
    fn arrivals_already_due_are_issued_without_a_pause() {
        let start = Instant::now().checked_sub(Duration::from_mins(1)).unwrap();
        let looks = Cell::new(0);
        pace(
            (0..1_000).map(Duration::from_millis).peekable(),
            start,
            Duration::from_secs(1),
            || {
                looks.set(looks.get() + 1);
                false
            },
            |_| ControlFlow::Continue(()),
        );
        // The clock is read once for each arrival and once at the end, so the pacer never waited.
        assert_eq!(looks.get(), 1_001);
    }

    #[test]
    fn pacer_ends_when_stopped_or_when_arrivals_are_not_accepted() {
        let hour = Duration::from_hours(1);
        pace(
            [hour].into_iter().peekable(),
            Instant::now(),
            hour,
            || true,
            |_| {
                panic!("an arrival after the stop");
            },
        );
        let mut issued = 0;
        pace(
            [Duration::ZERO, hour].into_iter().peekable(),
            Instant::now(),
            hour,
            || false,
            |_| {
                issued += 1;
                ControlFlow::Break(())
            },
        );
        assert_eq!(issued, 1);
    }

    /// One arrival that is moved closer while the pacer waits for it.
    struct Moved {
        asked: u32,
    }

    impl Timetable for Moved {
        fn next_offset(&mut self) -> Option<Duration> {
            self.asked += 1;
            match self.asked {
                1 => Some(Duration::from_hours(1)),
                2 => Some(Duration::from_millis(1)),
                _ => None,
            }
        }

        fn advance(&mut self) {}
    }

    #[test]
    fn rescheduled_arrival_is_issued_at_its_new_time() {
        let mut issued = Vec::new();
        let start = Instant::now();
        let moved = Moved { asked: 0 };
        let length = Duration::from_millis(30);
        pace(
            moved,
            start,
            length,
            || false,
            |intended| {
                issued.push(intended - start);
                ControlFlow::Continue(())
            },
        );
        assert_eq!(issued, [Duration::from_millis(1)]);
    }
}
