//! When further copies of a query (hedges) are sent while the first is still in flight.
//!
//! [The Tail at Scale, "Hedged requests": "defer sending a secondary request until the first
//! request has been outstanding for more than the 95th-percentile expected latency for this class
//! of requests"] `[H1]`
//!
//! The expected latency is a quantile of recent latencies of first copies, for each class. Each
//! first copy counts once. If another copy's answer was used, the first counts with the time that
//! it had been in flight: it would have taken longer, and since it was already beyond the quantile,
//! the quantile needs no more. The same holds for a copy that failed or was given up, if it had
//! been in flight for longer than the quantile. A fast failure shows nothing about the latency of
//! an answer. Further copies do not count: they exist only for late queries, and only the fast ones
//! of them run to their end, so they would pull the quantile down.
//!
//! If the budget paid for fewer copies than there are late queries, it would be spent before the
//! slowest queries, which need it most: most queries that the quantile finds late end a little
//! later. So if the budget is the smaller of the two, it defines late: with a budget of 2 %, the
//! slowest 2 % of queries. A query that had no copy, or one that does not answer, is checked again
//! whenever its time in flight has doubled.
//!
//! A second copy helps if the first met a problem that other replicas do not have. If all replicas
//! are slow, it is only load, at the worst time. Two rules prevent it then. Copies are paid for by
//! queries, so they are always a small share of the load. And when more than half of a class's last
//! 64 queries were late, lateness does not indicate a bad replica, so no copies are sent until that
//! is over. (If all replicas stay slow, the quantile has followed within a window, and late again
//! means late among them.) Finagle's backup requests have the quantile, the window and the budget.
//! loki #4826 and failsafe-go #106 show what happens without them.

use super::budget::Tokens;
use super::window::Window;
use crate::fixed::{ONE, Quantile};
use crate::policy::{ConfigError, Settings, Valid, require, require_span_or_none};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

/// A class's quantile is updated this many times per window.
const REFRESHES: u64 = 10;
/// How many of a class's last queries show whether all replicas are slow.
const RECENT: u32 = u64::BITS;

/// The settings of [`Hedger`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HedgeSettings {
    /// A second copy is due when the first has been in flight for longer than this quantile of its
    /// class's latencies: 0 to 1, default 0.95. The remaining share of queries gets a copy if the
    /// `budget` pays for that many; otherwise a higher quantile applies. At 1 only a query that
    /// takes longer than all others of the window gets one.
    pub quantile: Quantile,
    /// Most further copies per query: 0 to 1, default 0.02. 0: none.
    pub budget: Quantile,
    /// Copies that an unused budget accumulates for: 1 to 10,000, default 10.
    pub burst: u32,
    /// Shortest delay of a copy: 0 to 1 hour, default 1 ms.
    pub delay_min: Duration,
    /// Older latencies do not count: 3 ms to 1 hour, default 30 s. The quantile follows within a
    /// tenth of it.
    pub window: Duration,
    /// Fewest latencies in the window for a quantile: 1 to 1,000,000, default 64. A class with
    /// fewer sends no copies.
    pub samples_min: u32,
    /// No copies are sent while more than this share of a class's last 64 queries was late: 0 to 1,
    /// default 0.5. At 0 a single late query stops them, at 1 nothing does.
    pub slow_share: Quantile,
    /// Most copies of one query, including the first: 2 to [`COPIES_MAX`], default 2. Each further
    /// one is due when the query's time in flight has doubled since the last check, and is paid for
    /// like the second.
    pub copies_max: u32,
}

/// Largest `copies_max`, including the first copy. If one copy in a hundred is stuck, all four are
/// stuck once in a hundred million times.
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
    /// Settings for the leaves of a fan-out, which waits for the slowest of them: 5 % more queries,
    /// and up to three copies. With a hundred leaves and one copy in a hundred stuck, two copies
    /// leave one request in a hundred stuck, three leave one in ten thousand.
    pub fn for_fan_out() -> Self {
        Self {
            budget: Quantile::from_millionths(ONE / 20).unwrap_or(Quantile::ZERO),
            copies_max: 3,
            ..Self::default()
        }
    }

    /// The quantile after which a query is late. At most as many queries are late as copies can be
    /// paid for.
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
    /// Copies after the first.
    copies: u32,
    /// Most copies after the first.
    copies_max: u32,
}

impl Watch {
    /// When to call [`Hedger::handle_due`] if the query has not ended before. `None`: never, or no
    /// longer.
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

/// What happened to a query's first copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchEnd {
    /// Its answer was used.
    Answered,
    /// Another copy's answer was used.
    Superseded,
    /// There is no answer: it failed, timed out or was given up.
    Failed,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HedgeCounters {
    /// Queries, which are first copies.
    pub queries: u64,
    /// Further copies that were sent.
    pub issued: u64,
    /// Further copies whose answer was used.
    pub won: u64,
    /// Further copies whose answer was not used.
    pub wasted: u64,
    /// Times that a late query had no further copy because the budget was spent.
    pub withheld_budget: u64,
    /// Times that a late query had no further copy because all replicas were slow.
    pub withheld_slow: u64,
    /// Queries without a known delay: too few of their class had ended.
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
    /// A hedger for this many classes of queries, at least one. Each class takes 8.5 kB.
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

    /// Notes that a query's first copy is sent. Classes count from 0; a number beyond the last
    /// means the last.
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

    /// Whether to send another copy now: a watch is due, and the query has no answer. In either
    /// case the query may be checked again at [`Watch::due_at`], which has moved to twice the time
    /// in flight. So if the budget is not enough for all, the queries in flight for longest have
    /// it, and a third copy is sent when the second has been in flight for as long as the first had
    /// been. Returns `false` before the time, and when the query has all the copies it may have.
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

    /// Takes back the last copy: it was not sent, as there was no replica to send it to.
    pub fn handle_unsent(&mut self, watch: &mut Watch) {
        if watch.copies > 0 {
            watch.copies -= 1;
            self.counters.issued -= 1;
            self.tokens.refund();
        }
    }

    /// Ends a query.
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
        // Without an answer it is only known that it would have taken longer.
        let is_beyond = || class.quantile_ns.is_some_and(|quantile| out_ns >= quantile);
        if end == WatchEnd::Answered || is_beyond() {
            class.window.record(out_ns);
        }
    }

    /// Delay before a second copy of a query of this class, as of the last query. `None` if it is
    /// unknown.
    pub fn delay(&self, class: usize) -> Option<Duration> {
        let class = &self.classes[class.min(self.classes.len() - 1)];
        class.delay_ns(&self.config).map(Duration::from_nanos)
    }

    /// Whether a class sends no copies because too many of its queries are late.
    pub fn is_slow(&self, class: usize) -> bool {
        self.classes[class.min(self.classes.len() - 1)].is_slow(&self.config)
    }

    /// The balance for copies, in millionths of a copy.
    pub const fn saved_millionths(&self) -> u64 {
        self.tokens.saved_millionths()
    }

    /// Counts since the start.
    pub const fn counters(&self) -> HedgeCounters {
        self.counters
    }
}

/// The state of a class of queries.
#[derive(Clone, Debug)]
struct Class {
    window: Window,
    quantile_ns: Option<u64>,
    /// When `quantile_ns` was updated.
    refreshed_at: Instant,
    /// The last queries, one bit each: whether it was late.
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

    /// Updates the quantile if that is due, or if it has just become known.
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

    /// Notes whether a query was late.
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
