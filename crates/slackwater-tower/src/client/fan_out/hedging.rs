//! Hedges for leaves that are late. `[H1]`

use crate::client::balance::Copies;
use crate::clock::Clock;
use core::future::pending;
use core::pin::pin;
use core::time::Duration;
use futures_util::future::select_all;
use slackwater_core::tail::{HedgeConfig, HedgeCounters, Hedger, Watch, WatchEnd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::sleep;

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

    /// Sends a request, and a hedge whenever it is late and the hedger permits one. Returns the
    /// first success and drops the other copies. An error does not end the call while another copy
    /// is in flight. If all copies fail, the first copy's error is returned. `sent_to` shows
    /// which hedges found no replica, and these are refunded. Without it, each counts as sent.
    pub(super) async fn ask<T, E, F>(
        &self,
        ask: impl Fn() -> F,
        sent_to: Option<&Copies>,
    ) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut watched = Watched::begin(self);
        let mut first = pin!(ask());
        let mut failure = None;
        let mut copies = Vec::new();
        loop {
            let (answer, end) = tokio::select! {
                biased;
                answer = &mut first, if failure.is_none() => (answer, WatchEnd::Answered),
                ((answer, is_unsent), place, _) = async { select_all(copies.iter_mut()).await }, if !copies.is_empty() => {
                    drop(copies.swap_remove(place));
                    if is_unsent {
                        watched.handle_unsent();
                    }
                    (answer, WatchEnd::Superseded)
                }
                () = late(watched.delay()) => {
                    if watched.handle_due() {
                        copies.push(Box::pin(hedge(ask(), sent_to)));
                    }
                    continue;
                }
            };
            match answer {
                Ok(_) => return watched.end(answer, end),
                Err(error) if end == WatchEnd::Answered => failure = Some(error),
                Err(_) => (),
            }
            if copies.is_empty()
                && let Some(error) = failure.take()
            {
                return watched.end(Err(error), WatchEnd::Failed);
            }
        }
    }
}

/// Awaits the answer to a hedge. Returns with it whether no replica was left to send the hedge to.
async fn hedge<T, E>(
    answer: impl Future<Output = Result<T, E>>,
    sent_to: Option<&Copies>,
) -> (Result<T, E>, bool) {
    let sent = || sent_to.map_or(0, Copies::sent);
    let before = sent();
    let answer = answer.await;
    // At a shard that is not balanced the number stays 0, although copies are sent.
    let is_unsent = answer.is_err() && before > 0 && sent() == before;
    (answer, is_unsent)
}

/// Waits until the next hedge is due; `None`: forever.
async fn late(delay: Option<Duration>) {
    match delay {
        Some(delay) => sleep(delay).await,
        None => pending().await,
    }
}

/// A leaf that is watched. Dropping it means that it was given up.
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

    /// The time until the next hedge is due; `None`: never.
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

    fn handle_unsent(&mut self) {
        if let Some(watch) = &mut self.watch {
            self.hedging.lock().handle_unsent(watch);
        }
    }

    /// Ends the watch with the answer that is returned to the caller.
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
