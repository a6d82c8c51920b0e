//! What a supervisor hears of the process: `sd_notify(3)`, where `NOTIFY_SOCKET` names whom to tell. Without one, nothing
//! is said.
//!
//! The watchdog is told that all is well only while every worker shows a sign of life: a heart that beats on the main
//! thread alone would say nothing of those that carry requests.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use sd_notify::NotifyState;
use std::sync::{Arc, Mutex, PoisonError, Weak};

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

/// Another process carries requests from now on. The watchdog's time begins anew with that, for until now it did not
/// listen to that process.
pub(crate) fn succeeded_by(process: u32) {
    tell(&[NotifyState::MainPid(process), NotifyState::Watchdog]);
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
    hearts: Arc<Mutex<Vec<Heart>>>,
}

/// One worker's, as it is looked at.
#[derive(Debug)]
struct Heart {
    /// It goes with the worker: one that has ended has no need to show signs of life.
    beats: Weak<AtomicU64>,
    /// How often it had beaten at the last look; `None` before the first.
    seen: Option<u64>,
}

impl Pulse {
    /// A worker's own: to be polled on its runtime for as long as it works. Beats only where a watchdog looks.
    pub(crate) fn heart(&self) -> impl Future<Output = ()> + 'static {
        let look = look_period();
        let beats = self.begin();
        async move {
            while let Some(look) = look {
                beats.fetch_add(1, Relaxed);
                tokio::time::sleep(look / 2).await;
            }
        }
    }

    /// Tells the watchdog that all is well, while every heart beats, and often enough that it bears to miss that now and
    /// then.
    pub(crate) async fn watch(self) {
        let Some(look) = look_period() else {
            return;
        };
        loop {
            tokio::time::sleep(look).await;
            let stopped = self.look();
            if stopped == 0 {
                tell(&[NotifyState::Watchdog]);
            } else {
                tracing::error!(
                    workers = stopped,
                    "no sign of life; the watchdog is not told that all is well"
                );
            }
        }
    }

    fn begin(&self) -> Arc<AtomicU64> {
        let beats = Arc::new(AtomicU64::new(0));
        self.hearts().push(Heart {
            beats: Arc::downgrade(&beats),
            seen: None,
        });
        beats
    }

    /// So many have not beaten since the last look.
    fn look(&self) -> usize {
        let mut hearts = self.hearts();
        hearts.retain(|heart| heart.beats.strong_count() > 0);
        let mut stopped = 0;
        for heart in hearts.iter_mut() {
            let now = heart.beats.upgrade().map(|beats| beats.load(Relaxed));
            stopped += usize::from(now.is_some() && now == heart.seen);
            heart.seen = now;
        }
        stopped
    }

    fn hearts(&self) -> std::sync::MutexGuard<'_, Vec<Heart>> {
        self.hearts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A quarter of the time after which the watchdog bites: twice as often as `sd_watchdog_enabled(3)` advises, so that one
/// look at which somebody was slow does not make it bite.
fn look_period() -> Option<Duration> {
    let look = sd_notify::watchdog_enabled()? / 4;
    (!look.is_zero()).then_some(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heart_that_stood_still_is_noticed() {
        let pulse = Pulse::default();
        let (one, other) = (pulse.begin(), pulse.begin());
        let beat = |heart: &AtomicU64| heart.fetch_add(1, Relaxed);
        assert_eq!(pulse.look(), 0, "nothing was known before");
        beat(&one);
        beat(&other);
        assert_eq!(pulse.look(), 0);
        beat(&other);
        assert_eq!(pulse.look(), 1);
        assert_eq!(pulse.look(), 2);
        beat(&one);
        beat(&other);
        assert_eq!(pulse.look(), 0, "what is over is over");
    }

    #[test]
    fn a_worker_that_has_ended_is_not_missed() {
        let pulse = Pulse::default();
        let (one, other) = (pulse.begin(), pulse.begin());
        assert_eq!(pulse.look(), 0);
        drop(one);
        other.fetch_add(1, Relaxed);
        assert_eq!(pulse.look(), 0);
        assert_eq!(pulse.look(), 1, "the one that is left");
    }
}
