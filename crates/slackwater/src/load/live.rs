//! The state that a run shares with the code that watches it.
//!
//! One lock guards the record. Each request holds it for well under a microsecond, and a watcher
//! that reads the window for some tens of microseconds. Watch a few times a second, not in a loop.

use super::plan::Plan;
use super::record::Record;
use super::schedule::Rates;
use super::summary::Summary;
use super::transport::Transport;
use super::window::WindowFigures;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// A run's plan, its transport to the target, and its record.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) transport: Transport,
    /// Offset 0 of the schedule; set when the run begins.
    start: OnceLock<Instant>,
    record: Mutex<Record>,
    rates: Mutex<Rates>,
}

impl Shared {
    pub(super) fn new(plan: Plan, transport: Transport, window_seconds: usize) -> Self {
        let record = Mutex::new(Record::new(&plan, window_seconds));
        Self {
            rates: Mutex::new(Rates::new(plan.rate_per_second)),
            plan,
            transport,
            start: OnceLock::new(),
            record,
        }
    }

    pub(super) fn begin(&self, start: Instant) {
        self.start.get_or_init(|| start);
    }

    /// Offset 0 of the schedule; before the run begins, now.
    pub(super) fn start(&self) -> Instant {
        self.start.get().copied().unwrap_or_else(Instant::now)
    }

    /// Writes to the record; the second argument is offset 0 of the schedule.
    pub(super) fn record(&self, write: impl FnOnce(&mut Record, Instant)) {
        let start = self.start();
        write(&mut self.lock(), start);
    }

    /// Notes that the schedule has ended, or was stopped early.
    pub(super) fn end_schedule(&self, is_interrupted: bool) {
        let elapsed = self.elapsed();
        let mut record = self.lock();
        record.schedule_ended = Some(elapsed.min(self.plan.whole_duration()));
        record.is_interrupted = is_interrupted;
    }

    pub(super) fn summary(&self) -> Summary {
        let elapsed = self.elapsed();
        let connections_opened = self.transport.connections_opened();
        Summary::new(&self.plan, &self.lock(), elapsed, connections_opened)
    }

    fn elapsed(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start())
    }

    /// The target rates.
    pub(super) fn rates(&self) -> MutexGuard<'_, Rates> {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle to a run's figures; cheap to clone, usable from any thread.
#[derive(Debug, Clone)]
pub(crate) struct Live(Arc<Shared>);

/// A run's figures at one moment, warm-up included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LiveFigures {
    /// Since the start of the schedule.
    pub(crate) elapsed: Duration,
    /// Ended so far, errors included.
    pub(crate) requests: u64,
    /// Requests that ended with an error.
    pub(crate) errors: u64,
    /// Requests that are being sent or answered now.
    pub(crate) in_flight: u64,
    /// Requests that are due, but wait for a connection.
    pub(crate) waiting: u64,
    /// The last seconds.
    pub(crate) window: WindowFigures,
}

impl Live {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// The figures now.
    pub(crate) fn figures(&self) -> LiveFigures {
        let elapsed = self.0.elapsed();
        let record = self.0.lock();
        let whole = record.whole;
        LiveFigures {
            elapsed,
            requests: whole.ended + whole.overloads,
            errors: whole.errors,
            in_flight: whole.started.saturating_sub(whole.ended),
            waiting: whole.issued.saturating_sub(whole.started + whole.overloads),
            window: record.window.figures(elapsed),
        }
    }

    /// The requests that ended in second `number` of the schedule, from 0. `None` if none did, or
    /// if the second has left the window.
    pub(crate) fn second(&self, number: u64) -> Option<WindowFigures> {
        self.0.lock().window.second(number)
    }

    /// Sets another mean rate from `from` on, an offset from the start. Arrivals that were due
    /// before stay as they were. Runs of the same schedule whose rates are changed in the same way,
    /// before `from` comes, still have the same arrivals.
    pub(crate) fn set_rate(&self, from: Duration, per_second: f64) {
        self.0.rates().change(from, per_second);
    }

    /// The current target rate, in requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.0.rates().per_second()
    }

    /// Since the start of the schedule.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// The requests that ended since the last [`begin_anew`](Self::begin_anew), or since the start.
    pub(crate) fn since(&self) -> WindowFigures {
        self.0.lock().since()
    }

    /// Restarts the figures of [`since`](Self::since). No other figures are affected.
    pub(crate) fn begin_anew(&self) {
        self.0.lock().begin_anew();
    }

    /// The summary of the requests that have ended so far. The rest is counted in
    /// [`Summary::unfinished`].
    pub(crate) fn summary(&self) -> Summary {
        self.0.summary()
    }
}
