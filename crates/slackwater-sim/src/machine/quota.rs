//! A quota of CPU time, as containers have it: how much is left of the present period, and when the
//! next one begins.
//!
//! The kernel's CFS bandwidth control: queries run on so many cores at once, each on one at the
//! most, until what was used in this period comes to the quota. Then the replica is *throttled*:
//! nothing runs until the next period begins, and what was left over of the last one is gone. A
//! neighbour within the same quota takes its share of the cores while it is there, and all that the
//! replica leaves of them. Periods and neighbour depend on seed, replica and time alone.

use super::cpu::Pace;
use super::running::whole;
use super::{NEVER, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::{self, nanoseconds};

/// In nanoseconds: the replica runs for so much longer than its quota lasts, so that a query that
/// needs just what is left ends with it and not a period later, by a rounding.
const SLACK: f64 = 2.0;

/// The CPU of a replica under a quota.
#[derive(Clone, Debug)]
pub(super) struct QuotaCpu {
    quota: scenario::Quota,
    period: Period,
    /// Cores that use it, the neighbour's included.
    drain: f64,
    /// When it is used up at this pace.
    used_up: Time,
    /// From one beginning of a period to the next.
    every: Time,
    /// When the next one begins.
    next_period: Time,
    neighbour: Option<Neighbour>,
}

/// What is left of a period.
#[derive(Clone, Copy, Debug)]
struct Period {
    /// In core-nanoseconds; below 0 within [`SLACK`].
    left: f64,
    /// It was used up.
    throttled: bool,
}

impl QuotaCpu {
    /// At time 0, with a whole quota for what is left of the first period.
    pub(super) fn new(quota: &scenario::Quota, replica: usize, seed: u64) -> Self {
        let mut stream = Stream::new(seed, Purpose::Quota, replica as u64);
        let every = whole(nanoseconds(quota.period));
        // The first draw: where in its period a replica begins is the same with a neighbour and
        // without.
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

    /// Cores in the long run, if the neighbour stays or stays away, of which a hobble leaves the
    /// share `left`.
    pub(super) fn capacity(&self, left: f64) -> f64 {
        self.quota.cores() * (1.0 - self.taken()) * left
    }

    pub(super) fn is_throttled(&self) -> bool {
        self.period.throttled
    }

    /// The share that the neighbour takes now.
    fn taken(&self) -> f64 {
        let neighbour = self.neighbour.as_ref().filter(|it| it.is_there);
        neighbour.map_or(0.0, |it| it.kind.share)
    }

    /// With so many queries: cores that they have, and cores that use up the quota. A neighbour
    /// takes what the replica leaves.
    fn cores(&self, queries: f64) -> (f64, f64) {
        let used = queries.min(self.quota.at_once * (1.0 - self.taken()));
        let is_alone = self.taken() <= 0.0;
        (used, if is_alone { used } else { self.quota.at_once })
    }

    /// The pace from now on with `queries` in service. A hobble leaves the share `left` of the
    /// speed: CPU is used as ever.
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

    /// When something changes next: the quota is used up at the present pace, a period begins, the
    /// neighbour comes or goes.
    pub(super) fn next_change(&mut self, now: Time) -> Time {
        self.used_up = if self.drain > 0.0 {
            now.saturating_add(whole(self.period.left / self.drain + SLACK))
        } else {
            NEVER
        };
        let neighbour = self.neighbour.as_ref().map_or(NEVER, |it| it.next_change);
        self.used_up.min(self.next_period).min(neighbour)
    }

    /// What is due now happens.
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

    /// Nanoseconds until `work` ends that joins queries which still need `needs`, if nothing comes
    /// after it and the neighbour stays or stays away; for the first `paused` nanoseconds nothing
    /// of it runs. `needs` is left in another order.
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
        // The others leave one by one; between two of them the pace is the same.
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
    /// One that begins.
    fn new(quota: &scenario::Quota) -> Self {
        Self {
            left: nanoseconds(quota.cpu),
            throttled: false,
        }
    }

    /// The quota is used for so long by so many cores.
    fn drain(&mut self, nanoseconds: f64, cores: f64) {
        self.left -= nanoseconds * cores;
        self.throttled |= self.left < -SLACK * cores;
    }
}

/// The quota played ahead.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    /// Nanoseconds from the beginning.
    at: f64,
    next_period: f64,
    period: Period,
    every: f64,
    full: Period,
}

impl Ahead {
    /// For so long the replica does nothing, while so many cores use its quota.
    fn pause(&mut self, lasts: f64, drain: f64) {
        let until = self.at + lasts;
        if until >= self.next_period {
            self.begin_period();
            self.skip(((until - self.at) / self.every).floor());
        }
        self.period.drain(until - self.at, drain);
        self.at = until;
    }

    /// So much CPU is used by so many cores, while so many use up the quota.
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
            // Whole periods that are not enough for what is left.
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
    /// When it comes, or goes.
    pub(super) next_change: Time,
}

impl Neighbour {
    /// There or not with even chances, and stationary from the beginning: time 0 falls into a time
    /// in proportion to its length, and anywhere in it.
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

    /// It comes or goes.
    pub(super) fn step(&mut self) {
        self.is_there = !self.is_there;
        let (least, most) = (nanoseconds(self.kind.least), nanoseconds(self.kind.most));
        let lasts = whole(self.stream.uniform_between(least, most));
        self.next_change = self.next_change.saturating_add(lasts.max(1));
    }
}
