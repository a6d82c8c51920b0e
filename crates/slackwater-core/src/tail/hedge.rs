//! When further copies of a query go out while the first is still awaited.
//!
//! [The Tail at Scale, "Hedged requests": "defer sending a secondary request until the first
//! request has been outstanding for more than the 95th-percentile expected latency for this class
//! of requests"] `[H1]`
//!
//! The expected latency is a quantile of what first copies took lately, class by class. Each first
//! copy counts once. One that was left for another copy's answer counts by the time that it had
//! been out: all that is known is that it would have taken longer, and as it had been out for
//! longer than the quantile already, that is all the quantile needs. So the same is done with one
//! that failed or was given up, if it was out for longer than the quantile; a failure that comes
//! fast tells nothing of the time that an answer takes. Further copies do not count: there are only
//! those of late queries, and of these only the fast ones are seen to their end, so they would draw
//! the quantile down.
//!
//! A budget that pays for fewer copies than there are late queries would be gone when those come
//! that need it most: of those that the quantile finds late, most are over a little later. So where
//! the budget is the smaller of the two, it says when a query is late: of queries with 2 % of
//! copies, the slowest 2 %. And what had no copy, or has one that does not answer, is looked at
//! again whenever it has been out for twice as long.
//!
//! A second copy helps where the first met trouble that others do not meet. Where everybody is slow
//! it is only load, and it comes when there is least room for it. Two things keep it away then:
//! copies are paid for by queries, so that they are a small share of the load whatever happens; and
//! when more than half of a class's last 64 queries were late, being late says nothing of the
//! replica any more, and no copies are sent until that is over. (Should everybody stay slow, then
//! the quantile will have followed within a window, and late is again what is late among them.)
//! Finagle's backup requests have the quantile, the window and the budget; loki #4826 and
//! failsafe-go #106 tell what comes of it without them.

use super::budget::Tokens;
use super::window::Window;
use crate::fixed::{ONE, Quantile};
use crate::policy::{ConfigError, Settings, Valid, require, require_span_or_none};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// A class's quantile is found anew so many times in a window.
const REFRESHES: u64 = 10;
/// How many of a class's last queries tell whether everybody is slow.
const RECENT: u32 = u64::BITS;

/// The settings of [`Hedger`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HedgeSettings {
    /// A second copy is due when the first has been out for longer than this quantile of its
    /// class's latencies: 0 to 1, default 0.95. The rest, to 1, is the share of queries for which
    /// one falls due, if there is a `budget` for so many; otherwise the quantile is as much higher.
    /// At 1 only what takes longer than all others of the window.
    pub quantile: Quantile,
    /// Further copies for each query, at most: 0 to 1, default 0.02. 0: none.
    pub budget: Quantile,
    /// How many copies a budget that is not used piles up for: 1 to 10,000, default 10.
    pub burst: u32,
    /// No copy is due sooner than this: 0 to 1 hour, default 1 ms.
    pub delay_min: Duration,
    /// What is older than this does not count: 3 ms to 1 hour, default 30 s. The quantile follows
    /// within a tenth of it.
    pub window: Duration,
    /// A class with fewer latencies in its window has no quantile, and sends no copies: 1 to
    /// 1,000,000, default 64.
    pub samples_min: u32,
    /// No copies while more than this share of a class's last 64 queries was late: 0 to 1, default
    /// 0.5. At 0 a single late one is enough, at 1 it is never so.
    pub slow_share: Quantile,
    /// Copies of one query, the first among them, at most: 2 to [`COPIES_MAX`], default 2. Each
    /// further one is due when the query has been out for twice as long as when it was last looked
    /// at, and is paid for like the second.
    pub copies_max: u32,
}

/// No query has more copies than this, the first among them. Where one copy in a hundred is stuck,
/// all four are once in a hundred million times.
pub const COPIES_MAX: u32 = 4;

/// Settings that make sense.
pub type HedgeConfig = Valid<HedgeSettings>;

impl Default for HedgeSettings {
    fn default() -> Self {
        let share = |millionths| Quantile::from_millionths(millionths).unwrap_or(Quantile::ZERO);
        Self {
            quantile: share(950_000),
            budget: share(20_000),
            burst: 10,
            delay_min: Duration::from_millis(1),
            window: Duration::from_secs(30),
            samples_min: 64,
            slow_share: share(ONE / 2),
            copies_max: 2,
        }
    }
}

impl HedgeSettings {
    /// For the leaves of a fan-out, which waits for the slowest of them: 5 % more queries, and up
    /// to three copies. With two, a hundred leaves of which one in a hundred is stuck have both
    /// copies of one stuck in one request of a hundred; with three in one of ten thousand.
    pub fn for_fan_out() -> Self {
        Self {
            budget: Quantile::from_millionths(ONE / 20).unwrap_or(Quantile::ZERO),
            copies_max: 3,
            ..Self::default()
        }
    }

    /// The quantile after which a query is late: no more are than copies can be paid for.
    fn late_after(&self) -> Quantile {
        let unpaid = Quantile::from_millionths(ONE - self.budget.millionths());
        unpaid.map_or(self.quantile, |unpaid| self.quantile.max(unpaid))
    }
}

impl Settings for HedgeSettings {
    fn check(&self) -> Result<(), ConfigError> {
        const HOUR: Duration = Duration::from_hours(1);
        const WINDOW_MIN: Duration = Duration::from_millis(3);
        let burst = (1..=10_000).contains(&self.burst);
        let window = (WINDOW_MIN..=HOUR).contains(&self.window);
        let samples = (1..=1_000_000).contains(&self.samples_min);
        require(burst, "burst", "from 1 to 10000")?;
        require_span_or_none(self.delay_min, "delay_min")?;
        require(window, "window", "from 3 ms to 1 hour")?;
        require(samples, "samples_min", "from 1 to 1000000")?;
        let copies = (2..=COPIES_MAX).contains(&self.copies_max);
        require(copies, "copies_max", "from 2 to 4")
    }
}

/// A query's first copy, from when it is sent until the query ends.
#[derive(Debug)]
#[must_use = "a watch is handed back with `Hedger::end`"]
pub struct Watch {
    class: usize,
    sent_at: Instant,
    due_at: Option<Instant>,
    is_late: bool,
    /// Those after the first.
    copies: u32,
    /// How many of them there may be.
    copies_max: u32,
}

impl Watch {
    /// When [`Hedger::handle_due`] is to be called if the query has not ended before; `None`:
    /// never, or not any more.
    pub const fn due_at(&self) -> Option<Instant> {
        if self.copies < self.copies_max {
            self.due_at
        } else {
            None
        }
    }

    /// How many copies were sent after the first.
    pub const fn copies(&self) -> u32 {
        self.copies
    }
}

/// What became of a query's first copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchEnd {
    /// Its answer was taken.
    Answered,
    /// Another copy's was.
    Superseded,
    /// There is no answer: it failed, timed out or was given up.
    Failed,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HedgeCounters {
    /// Queries, that is first copies.
    pub queries: u64,
    /// Further copies that were sent.
    pub issued: u64,
    /// Further copies whose answer was taken.
    pub won: u64,
    /// Further copies that were of no use: of queries that have ended otherwise.
    pub wasted: u64,
    /// Times that a late query had no further copy, as the budget was spent.
    pub withheld_budget: u64,
    /// Times that a late query had no further copy, as everybody was slow.
    pub withheld_slow: u64,
    /// Queries of which nobody could say when they would be late: too few of their class had ended.
    pub unknown: u64,
}

/// Decides which queries are sent again, and when.
#[derive(Clone)]
pub struct Hedger {
    config: HedgeConfig,
    classes: Vec<Class>,
    tokens: Tokens,
    counters: HedgeCounters,
}

impl fmt::Debug for Hedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hedger")
            .field("config", &self.config)
            .field("classes", &self.classes.len())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Hedger {
    /// A hedger of queries of so many classes, one at least. Each class takes 8.5 kB.
    pub fn new(config: HedgeConfig, classes: usize) -> Self {
        let window_ns = span_ns(config.window);
        let tokens = Tokens::new(config.budget, config.burst);
        Self {
            classes: (0..classes.max(1)).map(|_| Class::new(window_ns)).collect(),
            tokens,
            counters: HedgeCounters::default(),
            config,
        }
    }

    /// A query's first copy is sent. Classes count from 0; whatever is beyond the last belongs to
    /// that.
    pub fn begin(&mut self, now: Instant, class: usize) -> Watch {
        self.counters.queries += 1;
        self.tokens.earn();
        let number = class.min(self.classes.len() - 1);
        let class = &mut self.classes[number];
        class.refresh(now, &self.config);
        let delay = class.delay_ns(&self.config);
        if delay.is_none() {
            self.counters.unknown += 1;
        }
        Watch {
            class: number,
            sent_at: now,
            due_at: delay.map(|ns| now.plus_ns(ns)),
            is_late: false,
            copies: 0,
            copies_max: self.config.copies_max - 1,
        }
    }

    /// The time at which a watch is due is here, and the query has no answer: whether to send
    /// another copy now. Whether it is or not, the query may be looked at once more at
    /// [`Watch::due_at`], which is later then: when it has been out for twice as long. So where
    /// there is not enough for all, those that are out for longest have it, and a third copy goes
    /// out when the second has been awaited for as long as the first had been. Before its time, and
    /// when there are as many copies as there may be, it is `false`.
    pub fn handle_due(&mut self, now: Instant, watch: &mut Watch) -> bool {
        let is_due = watch.due_at().is_some_and(|due_at| due_at <= now);
        if !is_due {
            return false;
        }
        let class = &mut self.classes[watch.class];
        if !watch.is_late {
            watch.is_late = true;
            class.seen(true);
        }
        watch.due_at = Some(now.plus_ns(now.ns_since(watch.sent_at).max(1)));
        let is_slow = class.is_slow(&self.config);
        let is_paid = !is_slow && self.tokens.pay();
        if is_paid {
            self.counters.issued += 1;
            watch.copies += 1;
        } else if is_slow {
            self.counters.withheld_slow += 1;
        } else {
            self.counters.withheld_budget += 1;
        }
        is_paid
    }

    /// The copy that was to be sent last was not sent after all: there was nowhere to send it to.
    pub fn handle_unsent(&mut self, watch: &mut Watch) {
        if watch.copies > 0 {
            watch.copies -= 1;
            self.counters.issued -= 1;
            self.tokens.refund();
        }
    }

    /// A query has ended.
    #[expect(clippy::needless_pass_by_value, reason = "a watch ends once")]
    pub fn end(&mut self, now: Instant, watch: Watch, end: WatchEnd) {
        let won = u64::from(end == WatchEnd::Superseded && watch.copies > 0);
        self.counters.won += won;
        self.counters.wasted += u64::from(watch.copies) - won;
        let class = &mut self.classes[watch.class];
        if watch.due_at.is_some() && !watch.is_late {
            class.seen(false);
        }
        class.refresh(now, &self.config);
        let out_ns = now.ns_since(watch.sent_at);
        // Of one without an answer it is only known that it would have taken longer.
        let is_beyond = || class.quantile_ns.is_some_and(|quantile| out_ns >= quantile);
        if end == WatchEnd::Answered || is_beyond() {
            class.window.record(out_ns);
        }
    }

    /// How long queries of a class are out before a second copy is due; `None` if that is not
    /// known. As of the last query.
    pub fn delay(&self, class: usize) -> Option<Duration> {
        let class = &self.classes[class.min(self.classes.len() - 1)];
        class.delay_ns(&self.config).map(Duration::from_nanos)
    }

    /// Whether no copies are sent of queries of a class because too many of them are late.
    pub fn is_slow(&self, class: usize) -> bool {
        self.classes[class.min(self.classes.len() - 1)].is_slow(&self.config)
    }

    /// What there is to pay for copies with, in millionths of a copy.
    pub const fn saved_millionths(&self) -> u64 {
        self.tokens.saved_millionths()
    }

    /// What has happened so far.
    pub const fn counters(&self) -> HedgeCounters {
        self.counters
    }
}

/// What is known of a class of queries.
#[derive(Clone, Debug)]
struct Class {
    window: Window,
    quantile_ns: Option<u64>,
    /// When that was found.
    refreshed_at: Instant,
    /// The last queries, a bit each: whether it was late.
    recent: u64,
}

impl Class {
    fn new(window_ns: u64) -> Self {
        Self {
            window: Window::new(window_ns),
            quantile_ns: None,
            refreshed_at: Instant::EPOCH,
            recent: 0,
        }
    }

    /// Finds the quantile if it is time for that, or if it is not known and may be now.
    fn refresh(&mut self, now: Instant, config: &HedgeConfig) {
        self.window.turn(now);
        let samples_min = u64::from(config.samples_min);
        let is_first = || self.quantile_ns.is_none() && self.window.len() == samples_min;
        let period_ns = span_ns(config.window) / REFRESHES;
        if now.ns_since(self.refreshed_at) >= period_ns || is_first() {
            self.refreshed_at = now;
            let is_known = self.window.len() >= samples_min;
            let quantile = is_known.then(|| self.window.quantile_ns(config.late_after()));
            self.quantile_ns = quantile.flatten();
        }
    }

    fn delay_ns(&self, config: &HedgeConfig) -> Option<u64> {
        let quantile_ns = self.quantile_ns?;
        Some(quantile_ns.max(span_ns(config.delay_min)))
    }

    /// It has turned out whether a query was late.
    fn seen(&mut self, is_late: bool) {
        self.recent = self.recent << 1 | u64::from(is_late);
    }

    fn is_slow(&self, config: &HedgeConfig) -> bool {
        let late = u64::from(self.recent.count_ones()) * u64::from(ONE);
        late > u64::from(RECENT) * u64::from(config.slow_share.millionths())
    }
}

#[cfg(test)]
mod tests;
