//! Leaves that are late are asked a second time. `[H1]`

use crate::clock::Clock;
use core::pin::pin;
use core::time::Duration;
use slackwater_core::tail::{HedgeConfig, HedgeCounters, Hedger, Watch, WatchEnd};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A hedger among tasks. All leaves are one class.
#[derive(Debug)]
pub(super) struct Hedging {
    clock: Clock,
    hedger: Mutex<Hedger>,
}

impl Hedging {
    pub(super) fn new(config: HedgeConfig) -> Self {
        Self {
            clock: Clock::new(),
            hedger: Mutex::new(Hedger::new(config, 1)),
        }
    }

    pub(super) fn counters(&self) -> HedgeCounters {
        self.lock().counters()
    }

    fn lock(&self) -> MutexGuard<'_, Hedger> {
        self.hedger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks once, and a second time if that is late and the hedger lets it be. The first good answer is taken, and the other
    /// copy dropped. Who fails is not the end while the other one is awaited; if both do, it is the first copy's error.
    pub(super) async fn ask<T, E, F>(&self, ask: impl Fn() -> F) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut watched = Watched::begin(self);
        let mut first = pin!(ask());
        if let Some(delay) = watched.delay() {
            tokio::select! {
                biased;
                answer = &mut first => return watched.end(answer, WatchEnd::Answered),
                () = tokio::time::sleep(delay) => (),
            }
        }
        if !watched.handle_due() {
            return watched.end(first.await, WatchEnd::Answered);
        }
        let mut second = pin!(ask());
        let (answer, end) = tokio::select! {
            biased;
            answer = &mut first => match answer {
                Ok(_) => (answer, WatchEnd::Answered),
                Err(error) => (second.await.map_err(|_| error), WatchEnd::Superseded),
            },
            answer = &mut second => match answer {
                Ok(_) => (answer, WatchEnd::Superseded),
                Err(_) => (first.await, WatchEnd::Answered),
            },
        };
        watched.end(answer, end)
    }
}

/// A leaf that is watched; dropped, it was given up.
struct Watched<'a> {
    hedging: &'a Hedging,
    /// `None` once ended.
    watch: Option<Watch>,
}

impl<'a> Watched<'a> {
    fn begin(hedging: &'a Hedging) -> Self {
        let watch = hedging.lock().begin(hedging.clock.now(), 0);
        Self {
            hedging,
            watch: Some(watch),
        }
    }

    /// How long until a second copy is due.
    fn delay(&self) -> Option<Duration> {
        let due_at = self.watch.as_ref()?.due_at()?;
        let now = self.hedging.clock.now();
        Some(due_at.saturating_since(now))
    }

    fn handle_due(&mut self) -> bool {
        let now = self.hedging.clock.now();
        let watch = self.watch.as_mut();
        watch.is_some_and(|watch| self.hedging.lock().handle_due(now, watch))
    }

    /// The answer is taken, or it is the last one of a leaf that failed.
    fn end<T, E>(mut self, answer: Result<T, E>, end: WatchEnd) -> Result<T, E> {
        self.end_as(if answer.is_ok() {
            end
        } else {
            WatchEnd::Failed
        });
        answer
    }

    fn end_as(&mut self, end: WatchEnd) {
        if let Some(watch) = self.watch.take() {
            let now = self.hedging.clock.now();
            self.hedging.lock().end(now, watch, end);
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.end_as(WatchEnd::Failed);
    }
}
