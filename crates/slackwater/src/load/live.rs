//! The state that a run shares with whoever watches it.
//!
//! One lock guards the record; it is held for well under a microsecond by each request, and for
//! some tens while a watcher reads the window. Watch a few times a second, not in a loop.

use super::plan::Plan;
use super::record::Record;
use super::schedule::Rates;
use super::summary::Summary;
use super::transport::Transport;
use super::window::WindowFigures;
use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// A run's plan, its way to the target and its record.
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

    /// The schedule is at its end, or was stopped before.
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

    /// How many requests a second are asked for.
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
    /// Those of them that failed.
    pub(crate) errors: u64,
    /// Being sent or answered now.
    pub(crate) in_flight: u64,
    /// Due, but waiting for a connection.
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

    /// What ended in second `number` of the schedule, from 0; `None` if nothing did, or it
    /// has left the window.
    pub(crate) fn second(&self, number: u64) -> Option<WindowFigures> {
        self.0.lock().window.second(number)
    }

    /// Asks for another mean rate from `from` on, an offset from the start; arrivals that were due
    /// before stay as they were. Runs of the same schedule that are told the same, before that time
    /// comes, have the same arrivals still.
    pub(crate) fn set_rate(&self, from: Duration, per_second: f64) {
        self.0.rates().change(from, per_second);
    }

    /// The rate that is asked for now, in requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.0.rates().per_second()
    }

    /// Since the start of the schedule.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// What ended since the last [`begin_anew`](Self::begin_anew), or since the start.
    pub(crate) fn since(&self) -> WindowFigures {
        self.0.lock().since()
    }

    /// Lets [`since`](Self::since) begin anew. Nothing else forgets anything.
    pub(crate) fn begin_anew(&self) {
        self.0.lock().begin_anew();
    }

    /// The summary of what has ended so far; what has not is counted in [`Summary::unfinished`].
    pub(crate) fn summary(&self) -> Summary {
        self.0.summary()
    }
}
