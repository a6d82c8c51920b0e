//! What a supervisor hears of the process: `sd_notify(3)`, where `NOTIFY_SOCKET` names whom to tell. Without one, nothing
//! is said.
//!
//! The watchdog is told that all is well only while every worker shows a sign of life: a heart that beats on the main
//! thread alone would say nothing of those that carry requests.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use sd_notify::NotifyState;
use std::sync::{Arc, Mutex, PoisonError};

/// Requests are taken.
pub(crate) fn ready(status: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// The configuration is read again. Until the next [`ready`], whoever has asked for that waits.
pub(crate) fn reloading() {
    // A supervisor takes it for the answer to its own signal only with the time on it (`Type=notify-reload`).
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[NotifyState::Reloading, now]),
        Err(_) => tell(&[NotifyState::Reloading]),
    }
}

/// What runs is finished, nothing new is taken.
pub(crate) fn stopping(status: &str) {
    tell(&[NotifyState::Stopping, NotifyState::Status(status)]);
}

/// Another process carries requests from now on.
pub(crate) fn succeeded_by(process: u32) {
    tell(&[NotifyState::MainPid(process)]);
}

fn tell(state: &[NotifyState<'_>]) {
    // Whoever supervises has a deadline of its own for what it does not hear.
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the supervisor at NOTIFY_SOCKET cannot be told of our state");
    }
}

/// Signs of life of the workers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pulse {
    hearts: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
}

impl Pulse {
    /// A worker's own: to be polled on its runtime for as long as it works. Beats only where a watchdog looks.
    pub(crate) fn heart(&self) -> impl Future<Output = ()> + 'static {
        let period = watchdog_period();
        let heart = Arc::new(AtomicU64::new(0));
        if period.is_some() {
            self.hearts().push(Arc::clone(&heart));
        }
        async move {
            while let Some(period) = period {
                heart.fetch_add(1, Relaxed);
                tokio::time::sleep(period / 2).await;
            }
        }
    }

    /// Tells the watchdog that all is well, as often as it wants to hear it, while every heart beats.
    pub(crate) async fn watch(self) {
        let Some(period) = watchdog_period() else {
            return;
        };
        let mut before = Vec::new();
        loop {
            tokio::time::sleep(period).await;
            let now = self.beats();
            let stopped = stopped(&before, &now);
            if stopped == 0 {
                tell(&[NotifyState::Watchdog]);
            } else {
                tracing::error!(
                    workers = stopped,
                    "no sign of life; the watchdog is not told that all is well"
                );
            }
            before = now;
        }
    }

    fn beats(&self) -> Vec<u64> {
        self.hearts()
            .iter()
            .map(|heart| heart.load(Relaxed))
            .collect()
    }

    fn hearts(&self) -> std::sync::MutexGuard<'_, Vec<Arc<AtomicU64>>> {
        self.hearts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of so many hearts the count has not risen.
fn stopped(before: &[u64], now: &[u64]) -> usize {
    before
        .iter()
        .zip(now)
        .filter(|(before, now)| before == now)
        .count()
}

/// Half of the time after which the watchdog bites, as `sd_watchdog_enabled(3)` advises.
fn watchdog_period() -> Option<Duration> {
    let period = sd_notify::watchdog_enabled()? / 2;
    (!period.is_zero()).then_some(period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heart_that_stood_still_is_noticed() {
        assert_eq!(stopped(&[], &[1, 1]), 0, "nothing was known before");
        assert_eq!(stopped(&[1, 1], &[2, 3]), 0);
        assert_eq!(stopped(&[2, 3], &[2, 4]), 1);
        assert_eq!(stopped(&[2, 4], &[2, 4]), 2);
    }
}
