//! A quota of CPU time, as containers have it: how much is left of the present period, and when the
//! next one begins.
//!
//! This is the kernel's CFS bandwidth control. Queries run on up to `at_once` cores, at most one
//! for each, until the CPU used in this period reaches the quota. Then the replica is *throttled*:
//! nothing runs until the next period begins. What is left of the last one is lost. A neighbour
//! within the same quota takes its share of the cores while it is there, and all cores that the
//! replica leaves. Periods and neighbour depend only on seed, replica and time.

use super::cpu::Pace;
use super::running::whole;
use super::{NEVER, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::{self, nanoseconds};

/// The replica runs for this many nanoseconds longer than its quota lasts. A query that needs
/// exactly what is left then ends with it, and not a period later because of rounding.
const SLACK: f64 = 2.0;

/// The CPU of a replica under a quota.
#[derive(Clone, Debug)]
pub(super) struct QuotaCpu {
    quota: scenario::Quota,
    period: Period,
    /// Cores that use the quota, including the neighbour's.
    drain: f64,
    /// When it is used up at this pace.
    used_up: Time,
    /// Length of a period.
    every: Time,
    /// When the next period begins.
    next_period: Time,
    neighbour: Option<Neighbour>,
}

/// What is left of a period.
#[derive(Clone, Copy, Debug)]
struct Period {
    /// Quota left in core-nanoseconds; below 0 within [`SLACK`].
    left: f64,
    /// Whether it was used up.
    throttled: bool,
}

impl QuotaCpu {
    /// Returns the CPU at time 0, with a whole quota for the rest of the first period.
    pub(super) fn new(quota: &scenario::Quota, replica: usize, seed: u64) -> Self {
        let mut stream = Stream::new(seed, Purpose::Quota, replica as u64);
        let every = whole(nanoseconds(quota.period));
        // This is the first draw, so that the position in the period is the same with and without a
        // neighbour.
        let first = whole(stream.uniform() * nanoseconds(quota.period)).max(1);
        Self {
            quota: *quota,
            period: Period::new(quota),
            drain: 0.0,
            used_up: NEVER,
            every,
            next_period: first,
            neighbour: quota.neighbour.map(|it| Neighbour::new(it, stream)),
        }
    }

    pub(super) fn allocation(&self) -> f64 {
        self.quota.allocation()
    }

    /// Returns the long-term cores if the neighbour stays or stays away. A hobble leaves the share
    /// `left`.
    pub(super) fn capacity(&self, left: f64) -> f64 {
        self.quota.cores() * (1.0 - self.taken()) * left
    }

    pub(super) fn is_throttled(&self) -> bool {
        self.period.throttled
    }

    /// Returns the share that the neighbour takes now.
    fn taken(&self) -> f64 {
        let neighbour = self.neighbour.as_ref().filter(|it| it.is_there);
        neighbour.map_or(0.0, |it| it.kind.share)
    }

    /// Returns the cores that `queries` queries have, and the cores that use up the quota. A
    /// neighbour takes what the replica leaves.
    fn cores(&self, queries: f64) -> (f64, f64) {
        let used = queries.min(self.quota.at_once * (1.0 - self.taken()));
        let is_alone = self.taken() <= 0.0;
        (used, if is_alone { used } else { self.quota.at_once })
    }

    /// Returns the pace from now on with `queries` in service. A hobble leaves the share `left` of
    /// the speed, and does not change the CPU use.
    pub(super) fn settle(&mut self, queries: usize, left: f64) -> Pace {
        let queries = queries as f64;
        let (used, drain) = if self.period.throttled {
            (0.0, 0.0)
        } else {
            self.cores(queries)
        };
        self.drain = drain;
        Pace {
            each: used / queries.max(1.0) * left,
            used,
        }
    }

    pub(super) fn elapse(&mut self, nanoseconds: f64) {
        self.period.left -= self.drain * nanoseconds;
    }

    /// Returns when something changes next: the quota is used up at the present pace, a period
    /// begins, or the neighbour comes or goes.
    pub(super) fn next_change(&mut self, now: Time) -> Time {
        self.used_up = if self.drain > 0.0 {
            now.saturating_add(whole(self.period.left / self.drain + SLACK))
        } else {
            NEVER
        };
        let neighbour = self.neighbour.as_ref().map_or(NEVER, |it| it.next_change);
        self.used_up.min(self.next_period).min(neighbour)
    }

    /// Plays the changes that are due now.
    pub(super) fn play_changes(&mut self, now: Time) {
        if self.used_up <= now {
            self.period.throttled = true;
        }
        if self.next_period <= now {
            self.period = Period::new(&self.quota);
            self.next_period = self.next_period.saturating_add(self.every);
        }
        if let Some(neighbour) = &mut self.neighbour
            && neighbour.next_change <= now
        {
            neighbour.step();
        }
    }

    /// Returns the nanoseconds until `work` ends if it joins queries that still need `needs`.
    /// Nothing arrives after it, and the neighbour stays or stays away. In the first `paused`
    /// nanoseconds the replica does not run. `needs` is reordered.
    pub(super) fn finish(&self, now: Time, paused: Time, needs: &mut [f64], work: f64) -> f64 {
        let mut ahead = Ahead {
            at: 0.0,
            next_period: self.next_period.saturating_sub(now) as f64,
            period: self.period,
            every: self.every as f64,
            full: Period::new(&self.quota),
        };
        ahead.pause(paused as f64, self.cores(0.0).1);
        needs.sort_unstable_by(f64::total_cmp);
        // The other queries leave one by one. Between two of them the pace is constant.
        let steps = needs.iter().map(|need| need.min(work)).chain([work]);
        let mut attained = 0.0;
        for (gone, attains) in steps.enumerate() {
            let here = (needs.len() - gone + 1) as f64;
            ahead.run(here * (attains - attained), self.cores(here));
            attained = attains;
        }
        ahead.at
    }
}

impl Period {
    /// Returns a new period.
    fn new(quota: &scenario::Quota) -> Self {
        Self {
            left: nanoseconds(quota.cpu),
            throttled: false,
        }
    }

    /// Uses the quota for this time with this many cores.
    fn drain(&mut self, nanoseconds: f64, cores: f64) {
        self.left -= nanoseconds * cores;
        self.throttled |= self.left < -SLACK * cores;
    }
}

/// The quota, played ahead.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// Nanoseconds from now.
    at: f64,
    next_period: f64,
    period: Period,
    every: f64,
    full: Period,
}

impl Ahead {
    /// Passes this time while the replica does nothing and `drain` cores use its quota.
    fn pause(&mut self, lasts: f64, drain: f64) {
        let until = self.at + lasts;
        if until >= self.next_period {
            self.begin_period();
            self.skip(((until - self.at) / self.every).floor());
        }
        self.period.drain(until - self.at, drain);
        self.at = until;
    }

    /// Uses this CPU with `used` cores, while `drain` cores use up the quota.
    fn run(&mut self, mut cpu: f64, (used, drain): (f64, f64)) {
        let in_a_period = (self.full.left / drain).min(self.every) * used;
        loop {
            let lasts = (self.period.left / drain).min(self.next_period - self.at);
            let takes = cpu / used;
            if takes <= lasts + SLACK && !self.period.throttled {
                self.period.left -= takes * drain;
                self.at += takes;
                return;
            }
            if !self.period.throttled {
                cpu -= lasts.max(0.0) * used;
            }
            self.begin_period();
            // Skips the whole periods in which the rest does not end.
            let periods = ((cpu / in_a_period).ceil() - 1.0).max(0.0);
            cpu -= periods * in_a_period;
            self.skip(periods);
        }
    }

    fn begin_period(&mut self) {
        self.at = self.next_period;
        self.next_period += self.every;
        self.period = self.full;
    }

    fn skip(&mut self, periods: f64) {
        self.at += periods * self.every;
        self.next_period += periods * self.every;
    }
}

/// A neighbour that comes and goes.
#[derive(Clone, Debug)]
pub(super) struct Neighbour {
    kind: scenario::Neighbour,
    stream: Stream,
    pub(super) is_there: bool,
    /// When it comes or goes.
    pub(super) next_change: Time,
}

impl Neighbour {
    /// Returns a neighbour that is there or not with even chances. The process is stationary: the
    /// interval that contains time 0 is drawn in proportion to its length, and time 0 is anywhere
    /// in it.
    pub(super) fn new(kind: scenario::Neighbour, mut stream: Stream) -> Self {
        let (least, most) = (nanoseconds(kind.least), nanoseconds(kind.most));
        let is_there = stream.below(2) == 0;
        let lasts = stream.uniform_between(least * least, most * most).sqrt();
        let next_change = whole(lasts * stream.uniform()).max(1);
        Self {
            kind,
            stream,
            is_there,
            next_change,
        }
    }

    /// Comes or goes.
    pub(super) fn step(&mut self) {
        self.is_there = !self.is_there;
        let (least, most) = (nanoseconds(self.kind.least), nanoseconds(self.kind.most));
        let lasts = whole(self.stream.uniform_between(least, most));
        self.next_change = self.next_change.saturating_add(lasts.max(1));
    }
}
