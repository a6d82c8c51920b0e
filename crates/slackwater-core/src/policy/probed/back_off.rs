//! How far the probe rate is lowered while the probes themselves show an overload. `[A2]`
//! `[Decision 0011]`
//!
//! A probe costs its replica and its client the same for each query, at any load. When either is
//! overloaded, probes are the first thing to save. The sign is how probes end, in windows of a
//! tenth of a second: answers that are late or take far longer than usual, probes that the driver
//! could not send, or that found no free slot. The client's own delay is part of all this: a probe
//! waits to be sent, and its answer waits to be read.
//!
//! Replicas are counted, not probes: a single replica that answers nothing but is probed often has
//! a problem of its own. After two such windows in a row the rate is lowered by a quarter, and
//! again after each further one. It recovers over half a minute, while round trips are far from
//! slow.

use crate::fixed::{ONE, Rate};
use crate::policy::last_probe::Fared;
use crate::policy::prequal::PrequalConfig;
use crate::time::{Instant, span_ns};

const MS: u64 = 1_000_000;
/// Length of a window,
const WINDOW_NS: u64 = 100 * MS;
/// and its longest length if fewer than [`ENDED_MIN`] probes end in it.
const WINDOW_MAX_NS: u64 = 1_000 * MS;
const ENDED_MIN: u64 = 8;
/// Fewer replicas in trouble show nothing about the others.
const TROUBLED_MIN: u32 = 2;
/// A round trip is slow if it is longer than this many times the usual one, and at least
/// [`SLOW_MIN_NS`] or half the deadline. In an idle client an answer may wait for the next pick,
/// which is not slow.
const SLOW_TIMES: u64 = 8;
const SLOW_MIN_NS: u64 = 25 * MS;
/// Fewer probes without a free slot are chance.
const STARVED_MIN: u64 = 8;
/// What remains of the rate after a window of overload, in millionths.
const KEPT: u64 = 750_000;
/// Time in which the rate recovers from 0 to all.
const RECOVERY_NS: u64 = 30_000 * MS;

/// Counts of one window.
#[derive(Clone, Copy, Debug)]
struct Window {
    began_at: Instant,
    /// Identifies the window; 0 is none.
    number: u32,
    sent: u64,
    /// Returned by the driver.
    unsent: u64,
    /// Not sent because no slot was free.
    starved: u64,
    ended: u64,
    answers: u64,
    round_trips_ns: u64,
    /// Replicas of which a probe ended, and those with at least as many bad ends as good ones.
    replicas: u32,
    troubled: u32,
}

impl Window {
    const fn new(began_at: Instant, number: u32) -> Self {
        Self {
            began_at,
            number,
            sent: 0,
            unsent: 0,
            starved: 0,
            ended: 0,
            answers: 0,
            round_trips_ns: 0,
            replicas: 0,
            troubled: 0,
        }
    }

    fn shows_overload(&self) -> bool {
        let troubled = self.troubled >= TROUBLED_MIN && 2 * self.troubled >= self.replicas;
        let starved = self.starved >= STARVED_MIN && self.starved >= self.sent;
        troubled || starved || self.unsent > 0
    }

    /// Whether a replica answers normally.
    const fn shows_health(&self) -> bool {
        self.replicas > self.troubled
    }
}

/// Controls the share of the configured rate that is used.
#[derive(Clone, Debug)]
pub(super) struct BackOff {
    window: Window,
    /// The window before showed an overload.
    again: bool,
    /// Round-trip time without congestion. 0 before the first window with an answer.
    usual_ns: u64,
    slow_min_ns: u64,
    /// In millionths.
    share: u32,
    /// Smallest share. It is all of the rate if the rate is never lowered.
    share_min: u32,
    rate_min: Rate,
}

impl BackOff {
    pub(super) fn new(config: &PrequalConfig) -> Self {
        let (least, all) = (
            u64::from(config.probe_rate_min.millionths()),
            u64::from(config.probe_rate.millionths()),
        );
        let share_min = (least * u64::from(ONE)).checked_div(all);
        let share_min = share_min.map_or(ONE, |share| u32::try_from(share).unwrap_or(ONE).min(ONE));
        Self {
            window: Window::new(Instant::EPOCH, 1),
            again: false,
            usual_ns: 0,
            slow_min_ns: SLOW_MIN_NS.min(span_ns(config.probe_deadline) / 2),
            share: ONE,
            share_min,
            rate_min: config.probe_rate_min,
        }
    }

    /// Whether the rate is never lowered.
    const fn is_off(&self) -> bool {
        self.share_min == ONE
    }

    /// The share of the configured rate that is used, in millionths.
    pub(super) const fn share(&self) -> u32 {
        self.share
    }

    /// The rate that is used of a `wanted` one: at least the configured minimum, unless less is
    /// wanted.
    pub(super) fn lowered(&self, wanted: Rate) -> Rate {
        if self.share == ONE {
            return wanted;
        }
        wanted.share(self.share).max(self.rate_min.min(wanted))
    }

    /// Evaluates the window if it is over. Called with each query.
    #[inline]
    pub(super) fn tick(&mut self, now: Instant) {
        let lasted_ns = now.ns_since(self.window.began_at);
        if lasted_ns >= WINDOW_NS && !self.is_off() {
            self.tick_after(now, lasted_ns);
        }
    }

    #[cold]
    fn tick_after(&mut self, now: Instant, lasted_ns: u64) {
        if self.window.ended >= ENDED_MIN || lasted_ns >= WINDOW_MAX_NS {
            self.close(lasted_ns);
            let number = self.window.number.checked_add(1).unwrap_or(1);
            self.window = Window::new(now, number);
        }
    }

    fn close(&mut self, lasted_ns: u64) {
        let overload = self.window.shows_overload();
        if overload && self.again {
            let kept = u64::from(self.share) * KEPT / u64::from(ONE);
            self.share = u32::try_from(kept).unwrap_or(ONE).max(self.share_min);
        } else if !overload && self.window.shows_health() && !self.is_crowded() {
            let gained = u64::from(ONE) * lasted_ns.min(RECOVERY_NS) / RECOVERY_NS;
            let share = u64::from(self.share) + gained;
            self.share = u32::try_from(share).unwrap_or(ONE).min(ONE);
        }
        self.again = overload;
        self.learn();
    }

    /// Updates the usual round trip. It falls to a shorter one within seconds, and doubles in a
    /// little more than a minute, after which an overload is over or has become usual.
    fn learn(&mut self) {
        let Some(mean) = self.window.round_trips_ns.checked_div(self.window.answers) else {
            return;
        };
        self.usual_ns = if self.usual_ns == 0 {
            mean
        } else if mean < self.usual_ns {
            self.usual_ns - (self.usual_ns - mean) / 16
        } else {
            mean.min(self.usual_ns + self.usual_ns / 1024 + 1)
        };
    }

    pub(super) fn sent(&mut self) {
        self.window.sent += 1;
    }

    pub(super) fn unsent(&mut self) {
        self.window.unsent += 1;
    }

    /// Notes that this many probes found no free slot or waiting place.
    pub(super) fn starved(&mut self, probes: u32) {
        self.window.starved += u64::from(probes);
    }

    /// Notes that a probe of a replica that normally answers has ended: after this round trip, or
    /// unanswered. `fared` belongs to the replica.
    #[expect(
        clippy::inline_always,
        reason = "counted by examples/policy_cost: a call costs more than a copy"
    )]
    #[inline(always)]
    pub(super) fn ended(&mut self, fared: &mut Fared, round_trip_ns: Option<u64>) {
        if self.is_off() {
            return;
        }
        let well = round_trip_ns.is_some_and(|round_trip_ns| {
            self.window.answers += 1;
            self.window.round_trips_ns = self.window.round_trips_ns.saturating_add(round_trip_ns);
            !self.is_slow(round_trip_ns)
        });
        self.window.ended += 1;
        if fared.window == self.window.number {
            self.window.troubled -= u32::from(fared.balance >= 0);
        } else {
            self.window.replicas += 1;
            *fared = Fared {
                window: self.window.number,
                balance: 0,
            };
        }
        // A client without queries may stay in one window for weeks.
        fared.balance = fared.balance.saturating_add(if well { -1 } else { 1 });
        self.window.troubled += u32::from(fared.balance >= 0);
    }

    fn is_slow(&self, round_trip_ns: u64) -> bool {
        round_trip_ns >= self.slow_min_ns
            && self.usual_ns > 0
            && round_trip_ns >= self.usual_ns.saturating_mul(SLOW_TIMES)
    }

    /// Whether round trips are half way to slow in the mean. The rate then stays where it is, or
    /// each rise would lead to the next overload.
    fn is_crowded(&self) -> bool {
        let mean = self.window.round_trips_ns.checked_div(self.window.answers);
        self.usual_ns > 0 && mean.is_some_and(|mean| mean >= self.slow_ns() / 2)
    }

    fn slow_ns(&self) -> u64 {
        let times = self.usual_ns.saturating_mul(SLOW_TIMES);
        times.max(self.slow_min_ns)
    }
}
