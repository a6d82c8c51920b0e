//! Heartbeats of the workers, for a watchdog of the process: a heartbeat of the main thread alone
//! would not cover the threads that serve requests.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Detects workers that no longer run. By default it is off, and there are no heartbeats.
#[derive(Clone, Debug, Default)]
pub struct Watchdog {
    /// Interval between looks; `None` if off.
    period: Option<Duration>,
    workers: Arc<Mutex<Vec<Watched>>>,
}

/// One worker's heartbeat, as the watchdog sees it.
#[derive(Debug)]
struct Watched {
    /// Dropped with the worker: a worker that has ended needs no heartbeat.
    beats: Weak<AtomicU64>,
    /// Number of beats at the last look; `None` before the first.
    seen: Option<u64>,
}

impl Watchdog {
    /// Makes a watchdog whose owner calls [`stopped`](Self::stopped) once in a period.
    pub fn new(period: Duration) -> Self {
        Self {
            period: Some(period),
            workers: Arc::default(),
        }
    }

    /// Interval between looks; `None` if off.
    pub const fn period(&self) -> Option<Duration> {
        self.period
    }

    /// Returns a worker's heartbeat, which must be polled on its runtime while it works. It beats
    /// twice in a period, and ends immediately if the watchdog is off.
    pub fn heartbeat(&self) -> impl Future<Output = ()> + 'static {
        let period = self.period;
        let beats = self.begin();
        async move {
            while let Some(period) = period {
                beats.fetch_add(1, Relaxed);
                tokio::time::sleep(period / 2).await;
            }
        }
    }

    /// Number of workers without a beat since the last look.
    pub fn stopped(&self) -> usize {
        let mut workers = self.workers();
        workers.retain(|worker| worker.beats.strong_count() > 0);
        let mut stopped = 0;
        for worker in workers.iter_mut() {
            let now = worker.beats.upgrade().map(|beats| beats.load(Relaxed));
            stopped += usize::from(now.is_some() && now == worker.seen);
            worker.seen = now;
        }
        stopped
    }

    fn begin(&self) -> Arc<AtomicU64> {
        let beats = Arc::new(AtomicU64::new(0));
        self.workers().push(Watched {
            beats: Arc::downgrade(&beats),
            seen: None,
        });
        beats
    }

    fn workers(&self) -> std::sync::MutexGuard<'_, Vec<Watched>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_worker_is_detected() {
        let watchdog = Watchdog::default();
        let (one, other) = (watchdog.begin(), watchdog.begin());
        let beat = |heart: &AtomicU64| heart.fetch_add(1, Relaxed);
        assert_eq!(watchdog.stopped(), 0, "nothing was known before");
        beat(&one);
        beat(&other);
        assert_eq!(watchdog.stopped(), 0);
        beat(&other);
        assert_eq!(watchdog.stopped(), 1);
        assert_eq!(watchdog.stopped(), 2);
        beat(&one);
        beat(&other);
        assert_eq!(watchdog.stopped(), 0, "what is over is over");
    }

    #[test]
    fn a_worker_that_has_ended_is_ignored() {
        let watchdog = Watchdog::default();
        let (one, other) = (watchdog.begin(), watchdog.begin());
        assert_eq!(watchdog.stopped(), 0);
        drop(one);
        other.fetch_add(1, Relaxed);
        assert_eq!(watchdog.stopped(), 0);
        assert_eq!(watchdog.stopped(), 1, "the one that is left");
    }
}
