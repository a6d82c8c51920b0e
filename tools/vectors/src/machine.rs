//! The replicas of a scenario: how long a query takes there, how it ends, and what they report.

use crate::chance::Chance;
use crate::habits::{Habits, MS, Reporter};
use crate::line::nanos;
use core::time::Duration;
use slackwater_core::policy::Outcome;
use slackwater_core::{LoadReport, LoadScale, ReplicaId, Rif};

/// The longest span in a vector: what a signed 64-bit number of nanoseconds can hold.
const SPAN_MAX: u64 = i64::MAX as u64;

/// How a replica does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Sound,
    /// Fails this many queries in a thousand, fast.
    Failing(u32),
    /// Takes this many times longer.
    Slow(u32),
    /// Answers nothing.
    Stopped,
    /// Pushes back this many queries in a thousand.
    PushingBack(u32),
    /// Breaks off this many responses in a thousand.
    Breaking(u32),
    /// Takes no connections.
    Refusing,
}

impl Condition {
    pub(crate) fn drawn(chance: &mut Chance) -> Self {
        let times = chance.one_of(&[1_000, 1_000, 500, 200, 60]);
        match chance.within(0, 15) {
            0..=4 => Self::Failing(times),
            5..=8 => Self::Slow(chance.one_of(&[3, 6, 20, 200])),
            9 => Self::Stopped,
            10 | 11 => Self::PushingBack(times),
            12 => Self::Breaking(times),
            13 => Self::Refusing,
            _ => Self::Sound,
        }
    }
}

/// A replica.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each holds or not, whatever the others do"
)]
pub(crate) struct Machine {
    pub(crate) id: ReplicaId,
    /// Queries of this client there.
    pub(crate) own: u32,
    /// Queries of other clients there.
    pub(crate) others: u32,
    pub(crate) cores: u32,
    /// Time of a query alone.
    pub(crate) base_ns: u64,
    pub(crate) reporter: Reporter,
    /// Whether it reports how many queries it finishes.
    pub(crate) has_rate: bool,
    /// By what factor requests in flight take longer than its reports say.
    pub(crate) excess: u64,
    pub(crate) answers_probes: bool,
    pub(crate) condition: Condition,
    pub(crate) incarnation: Option<u64>,
    pub(crate) draining: bool,
    /// The driver lets it be chosen.
    pub(crate) offered: bool,
}

/// How a query will go at a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    /// After how long the head comes, and what it shows.
    pub(crate) head: Option<(u64, Outcome)>,
    /// After how long it ends.
    pub(crate) ends_in: u64,
    pub(crate) outcome: Outcome,
}

impl Machine {
    pub(crate) fn new(id: ReplicaId, habits: &Habits, chance: &mut Chance) -> Self {
        let uneven = if chance.in_1000(200) { 3 } else { 1 };
        Self {
            id,
            own: 0,
            others: 0,
            cores: habits.cores,
            base_ns: habits.base_ns.saturating_mul(uneven),
            reporter: chance.one_of(&habits.reporters),
            has_rate: chance.in_1000(habits.rates),
            excess: if habits.streams > 0 { 8 } else { 1 },
            answers_probes: !chance.in_1000(habits.unprobed),
            condition: Condition::Sound,
            incarnation: chance.in_1000(800).then(|| chance.number()),
            draining: false,
            offered: true,
        }
    }

    /// Whether it answers nothing at present.
    pub(crate) const fn is_mute(&self) -> bool {
        matches!(self.condition, Condition::Stopped | Condition::Refusing)
    }

    pub(crate) const fn rif(&self) -> u32 {
        self.own.saturating_add(self.others)
    }

    /// The latency of a query that starts now.
    fn latency_ns(&self, chance: &mut Chance) -> u64 {
        let (rif, cores) = (u64::from(self.rif()), u64::from(self.cores));
        let busy = self.base_ns.saturating_mul(rif.max(cores)) / cores;
        let slow = match self.condition {
            Condition::Slow(factor) => u64::from(factor),
            _ => 1,
        };
        let spread = u64::from(chance.within(700, 1_300));
        (busy.saturating_mul(slow) / 1_000).saturating_mul(spread)
    }

    pub(crate) fn report(&self, chance: &mut Chance) -> LoadReport {
        let mut report = LoadReport::new(Rif::new(self.rif()), None);
        report.incarnation = self.incarnation;
        report.draining = self.draining;
        let latency = Duration::from_nanos(self.latency_ns(chance).min(SPAN_MAX));
        let cost = u64::from(chance.within(850, 1_150)) * (self.base_ns / 1_000);
        let capacity = self.cores * 1_000 + chance.within(0, 400);
        match self.reporter {
            Reporter::Rif => {}
            Reporter::Latency => report.latency = Some(latency),
            Reporter::Zero => report.latency = Some(Duration::ZERO),
            Reporter::Capacity => {
                report.latency = Some(latency);
                report.capacity_millirif = Some(capacity);
                report.cost = Some(Duration::from_nanos(cost));
            }
            Reporter::CapacityOnly => {
                report.latency = chance.in_1000(200).then_some(latency);
                report.capacity_millirif = Some(capacity);
                report.cost = (!chance.in_1000(200)).then_some(Duration::from_nanos(cost));
            }
            Reporter::Extreme => self.exaggerate(&mut report, latency, chance),
        }
        if self.has_rate {
            // Little's law. A replica that is idle finishes few.
            let latency_ns = nanos(latency).max(1_000);
            let per_second = 1_000_000_000_000 / latency_ns / self.excess;
            let rate = per_second.saturating_mul(self.rif().max(1).into());
            let rate = if chance.in_1000(60) { 0 } else { rate };
            report.query_rate_millis = Some(u32::try_from(rate).unwrap_or(u32::MAX));
        }
        if chance.in_1000(30) {
            report.latency = None;
        }
        if chance.in_1000(60) {
            report.error_millionths = Some(chance.within(0, 1_000_000));
        } else if let Condition::Failing(failing) = self.condition {
            report.error_millionths = chance.in_1000(300).then_some(failing * 1_000);
        }
        if chance.in_1000(40) {
            report.cpu_millionths = Some(chance.within(0, 3_000_000));
            report.query_rate_millis = Some(chance.within(0, 9_000_000));
        }
        if chance.in_1000(200) {
            let scale = chance.one_of(&[0, 1, 100, 512, 1_023, 1_025, 2_048, 65_535]);
            report.load_scale = LoadScale::from_1024ths(scale);
        }
        report
    }

    fn exaggerate(&self, report: &mut LoadReport, latency: Duration, chance: &mut Chance) {
        let span = |chance: &mut Chance| {
            let ends = [
                0,
                1,
                999,
                SPAN_MAX,
                SPAN_MAX - 1,
                1 << 53,
                3_600_000_000_000,
            ];
            let end = chance.one_of(&ends);
            (!chance.in_1000(200)).then_some(Duration::from_nanos(end))
        };
        let count = |chance: &mut Chance| {
            let end = chance.one_of(&[0, 1, u32::MAX, u32::MAX - 1, 1 << 31, 999, 1_000]);
            (!chance.in_1000(200)).then_some(end)
        };
        report.latency = if chance.in_1000(500) {
            span(chance)
        } else {
            Some(latency)
        };
        if chance.in_1000(200) {
            report.rif = Rif::new(count(chance).unwrap_or(0));
        }
        if chance.in_1000(500) {
            report.capacity_millirif = count(chance).map(|capacity| capacity.max(1));
            report.cost = span(chance);
        }
        report.error_millionths = count(chance);
        report.incarnation = self.incarnation.map(|_| chance.one_of(&[0, 1, u64::MAX]));
    }

    /// How a query goes that starts now.
    pub(crate) fn course(&self, habits: &Habits, chance: &mut Chance) -> Course {
        let deadline_ns = habits.deadline_ns;
        let latency = self.latency_ns(chance);
        let fast = 1 + latency / u64::from(chance.within(3, 40));
        let ended = |ends_in, outcome| Course {
            head: None,
            ends_in,
            outcome,
        };
        if chance.in_1000(10) {
            return ended(chance.wide(latency.saturating_add(1)), Outcome::Dropped);
        }
        if chance.in_1000(8) {
            return ended(fast, Outcome::NoConnection);
        }
        let timed_out = ended(deadline_ns, Outcome::TimedOut);
        let (head, outcome, takes) = match self.condition {
            Condition::Stopped => return timed_out,
            Condition::Refusing => return ended(fast, Outcome::NoConnection),
            Condition::Failing(times) if chance.in_1000(times) => {
                (Outcome::Failed, Outcome::Failed, fast)
            }
            Condition::PushingBack(times) if chance.in_1000(times) => {
                (Outcome::PushedBack, Outcome::PushedBack, fast)
            }
            Condition::Breaking(times) if chance.in_1000(times) => {
                if chance.in_1000(400) {
                    return ended(latency, Outcome::Broken);
                }
                let end = chance.one_of(&[Outcome::Broken, Outcome::TimedOut]);
                (Outcome::Success, end, latency)
            }
            _ => (Outcome::Success, Outcome::Success, latency),
        };
        if takes > deadline_ns {
            return timed_out;
        }
        if chance.in_1000(habits.heads) {
            let body = if habits.streams > 0 && chance.in_1000(habits.streams) {
                1_000 * MS + chance.wide(4_000 * MS)
            } else {
                chance.wide(takes.saturating_mul(2).saturating_add(1))
            };
            let given_up = outcome == Outcome::Success && chance.in_1000(40);
            return Course {
                head: Some((takes, head)),
                ends_in: takes.saturating_add(body),
                outcome: if given_up { Outcome::Dropped } else { outcome },
            };
        }
        ended(takes, outcome)
    }
}
