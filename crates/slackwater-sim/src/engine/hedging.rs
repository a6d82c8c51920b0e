//! Hedging: the core's [`Hedger`] decides when a client sends a second copy of a query. This file
//! builds it from the scenario and calls it.

use super::query::{Key, Query};
use super::{Engine, Timer};
use crate::scenario::Hedge;
use slackwater_core::policy::Settings;
use slackwater_core::tail::{HedgeSettings, Hedger, WatchEnd};
use slackwater_core::{Instant, Quantile};

/// Builds one client's hedger. All its queries are of one class.
pub(super) fn hedger(hedge: &Hedge) -> Hedger {
    let mut settings = HedgeSettings::default();
    settings.quantile = share(hedge.after_quantile);
    settings.budget = share(hedge.budget);
    settings.delay_min = hedge.delay_min;
    settings.copies_max = u32::try_from(hedge.copies_max).unwrap_or(u32::MAX);
    // A valid scenario has a narrower range than the core, so the default is never used.
    Hedger::new(settings.validate().unwrap_or_default(), 1)
}

/// Converts to the nearest millionth.
fn share(of_one: f64) -> Quantile {
    let millionths = u32::try_from(super::rounded(of_one * 1e6)).unwrap_or(u32::MAX);
    Quantile::from_millionths(millionths).unwrap_or(Quantile::ONE)
}

impl Engine {
    /// Starts to watch a query whose first copy is sent.
    #[inline]
    pub(super) fn watch(&mut self, key: Key) {
        if let Some(query) = self.queries.find_mut(key)
            && let Some(hedger) = self.hedging.get_mut(query.client as usize)
        {
            let watch = hedger.begin(Instant::from_nanos(self.now), 0);
            if let Some(due_at) = watch.due_at() {
                self.timers.push(due_at.as_nanos(), Timer::Hedge(key));
            }
            query.watch = Some(watch);
        }
    }

    /// Sends one more copy of a late query if the hedger allows it; `false` if the query has ended.
    pub(super) fn hedge(&mut self, key: Key) -> bool {
        let Some(query) = self.queries.find_mut(key) else {
            return false;
        };
        let Some(watch) = &mut query.watch else {
            return true;
        };
        let hedger = &mut self.hedging[query.client as usize];
        let is_copied = hedger.handle_due(Instant::from_nanos(self.now), watch);
        if let Some(due_at) = watch.due_at()
            && due_at.as_nanos() > self.now
        {
            self.timers.push(due_at.as_nanos(), Timer::Hedge(key));
        }
        if is_copied {
            self.choose(key);
        }
        true
    }

    /// Handles that no replica is available for another copy.
    pub(super) fn hedge_unsent(&mut self, key: Key) {
        if let Some(query) = self.queries.find_mut(key)
            && let Some(watch) = &mut query.watch
        {
            self.hedging[query.client as usize].handle_unsent(watch);
        }
    }

    /// Ends the watch of a query that has ended.
    #[inline]
    pub(super) fn watched(&mut self, query: &mut Query, end: WatchEnd) {
        if let Some(watch) = query.watch.take() {
            let now = Instant::from_nanos(self.now);
            self.hedging[query.client as usize].end(now, watch, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn hedger_uses_the_settings_of_the_scenario() {
        let said = Hedge {
            after_quantile: 0.75,
            budget: 0.25,
            delay_min: Duration::from_millis(3),
            copies_max: 2,
            needs_room: false,
        };
        let play = |hedger: &mut Hedger, out_ms: u64| {
            let mut watch = hedger.begin(Instant::EPOCH, 0);
            let ends = Instant::EPOCH + Duration::from_millis(out_ms);
            hedger.handle_due(ends, &mut watch);
            hedger.end(ends, watch, WatchEnd::Answered);
        };
        let mut even = hedger(&said);
        for out_ms in 1..=64 {
            play(&mut even, out_ms);
        }
        for _ in 0..32 {
            play(&mut even, 60);
        }
        let delay = even.delay(0).expect("64 are enough");
        assert!(delay.abs_diff(Duration::from_millis(48)) < Duration::from_millis(2));
        // The budget is ten saved copies, and one for each four queries.
        assert_eq!(even.counters().issued, 10 + 31 / 4);

        let mut quick = hedger(&said);
        for _ in 0..65 {
            play(&mut quick, 1);
        }
        assert_eq!(quick.delay(0), Some(Duration::from_millis(3)));
        assert!(share(1.0) == Quantile::ONE && share(0.0) == Quantile::ZERO);
    }
}
