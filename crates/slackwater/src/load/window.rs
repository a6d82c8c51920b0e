//! The last few seconds of a run: a ring with one histogram for each second.
//!
//! A request belongs to the second in which it ended, whatever its intended start. So a stuck
//! request appears here only when it ends or times out. Memory is fixed at construction.

use super::latency::{Digits, Latencies, LatencyFigures};
use core::time::Duration;

#[derive(Debug)]
pub(super) struct Window {
    /// The second `s` of the run lives at index `s % length`.
    seconds: Vec<Second>,
}

#[derive(Debug)]
struct Second {
    /// The second of the run to which these figures belong; `None` before the first use.
    number: Option<u64>,
    latencies: Latencies,
    errors: u64,
}

/// The figures of the window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WindowFigures {
    /// Requests that ended in the window, errors included.
    pub(crate) requests: u64,
    /// Requests in the window that failed.
    pub(crate) errors: u64,
    /// Latencies of all these requests, errors included.
    pub(crate) latency: LatencyFigures,
}

impl Window {
    /// Returns a window over the last `length` seconds, including the current one; 0 counts as 1.
    pub(super) fn new(length: usize) -> Self {
        let empty = || Second {
            number: None,
            latencies: Latencies::new(Digits::Two),
            errors: 0,
        };
        Self {
            seconds: (0..length.max(1)).map(|_| empty()).collect(),
        }
    }

    /// Records a request that ended at `elapsed` since the start of the run. If its second has left
    /// the window, the request is not recorded.
    pub(super) fn record(&mut self, elapsed: Duration, latency: Duration, is_error: bool) {
        let number = elapsed.as_secs();
        let length = self.seconds.len() as u64;
        let index = usize::try_from(number % length).unwrap_or(0);
        let second = &mut self.seconds[index];
        if second.number.is_some_and(|current| current > number) {
            return;
        }
        if second.number != Some(number) {
            second.number = Some(number);
            second.latencies.clear();
            second.errors = 0;
        }
        second.latencies.record(latency);
        second.errors += u64::from(is_error);
    }

    /// The figures of one second of the run; `None` if nothing ended in it, or it has been
    /// overwritten.
    pub(super) fn second(&self, number: u64) -> Option<WindowFigures> {
        let second = self.seconds.iter().find(|s| s.number == Some(number))?;
        Some(WindowFigures {
            requests: second.latencies.count(),
            errors: second.errors,
            latency: second.latencies.figures(),
        })
    }

    /// The figures of the seconds still in the window at `elapsed` since the start of the run.
    pub(super) fn figures(&self, elapsed: Duration) -> WindowFigures {
        let now = elapsed.as_secs();
        let length = self.seconds.len() as u64;
        let mut latencies = Latencies::new(Digits::Two);
        let mut errors = 0;
        for second in &self.seconds {
            if second.number.is_some_and(|number| number + length > now) {
                latencies.add(&second.latencies);
                errors += second.errors;
            }
        }
        WindowFigures {
            requests: latencies.count(),
            errors,
            latency: latencies.figures(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn old_seconds_leave_the_window_without_new_results() {
        let mut window = Window::new(3);
        window.record(at(0.5), 10 * MS, true);
        window.record(at(1.5), 20 * MS, false);
        let figures = window.figures(at(2.9));
        assert_eq!((figures.requests, figures.errors), (2, 1));
        let figures = window.figures(at(3.0));
        assert_eq!((figures.requests, figures.errors), (1, 0));
        assert!((figures.latency.max_ms - 20.0).abs() < 1e-9);
        assert_eq!(window.figures(at(60.0)).requests, 0);
    }

    #[test]
    fn a_single_second_can_be_read_until_it_is_overwritten() {
        let mut window = Window::new(2);
        window.record(at(0.5), 10 * MS, true);
        window.record(at(0.9), 20 * MS, false);
        window.record(at(1.0), 30 * MS, false);
        let first = window.second(0).expect("the first second");
        assert_eq!((first.requests, first.errors), (2, 1));
        assert!((first.latency.max_ms - 20.0).abs() < 1e-9);
        window.record(at(2.0), 40 * MS, false);
        assert!(window.second(0).is_none() && window.second(3).is_none());
    }

    #[test]
    fn reused_second_is_cleared_and_late_results_are_dropped() {
        let mut window = Window::new(2);
        window.record(at(0.0), 500 * MS, true);
        window.record(at(2.0), 1 * MS, false);
        window.record(at(0.9), 500 * MS, true);
        let figures = window.figures(at(2.0));
        assert_eq!((figures.requests, figures.errors), (1, 0));
        assert!((figures.latency.max_ms - 1.0).abs() < 1e-9);
    }
}
