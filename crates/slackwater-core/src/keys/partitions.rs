//! Micro-partitions: a fixed number of parts of the keys, each with its own servers, its rate and
//! its mean queries in flight; and more homes for those that are hot.
//!
//! A partition is hot while its mean in flight, which is its rate times its latency, is more than a
//! part of what its homes would have if all load were even. Then the number of its homes doubles;
//! it halves again when half as many would have room for twice the load. Only this client's own
//! queries count on both sides, so that clients with different shares of the traffic come to the
//! same number. Homes are a prefix of the partition's order, so they agree but for the moment of
//! growth.

use super::order::{First, ORDERED_MAX, Order};
use super::settings::KeySettings;
use crate::draw::mix;
use crate::fixed::{ONE, mul_div};
use crate::key::KeyHash;
use crate::policy::{KeyView, PartitionView};
use crate::time::{Instant, span_ns};
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The time over which means are taken, in nanoseconds.
const MEMORY_NS: u64 = 1_000_000_000;
/// Means are renewed after this time, in nanoseconds. Until then only the sum is kept.
const STEP_NS: u64 = 10_000_000;
/// Parts of a query in which means are kept.
const FINE: u64 = 1 << 16;
/// A partition is not hot before it has had this many queries while it seemed to be: fewer are
/// chance.
const QUERIES_MIN: u32 = 16;

/// Queries in flight, and their mean over the last second or so.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    in_flight: u32,
    /// In 1/65536.
    mean: u64,
    /// Since when `sum_ns` is kept, and until when.
    since: Instant,
    until: Instant,
    /// The time that queries were in flight.
    sum_ns: u64,
}

impl Busy {
    /// Takes in the time that has passed. If the mean is renewed, returns for how long it was not.
    fn update(&mut self, now: Instant) -> Option<u64> {
        let passed_ns = now.ns_since(self.until);
        let sum_ns = u64::from(self.in_flight).saturating_mul(passed_ns);
        self.sum_ns = self.sum_ns.saturating_add(sum_ns);
        self.until = self.until.max(now);
        let span_ns = self.until.ns_since(self.since);
        if span_ns < STEP_NS {
            return None;
        }
        self.mean = left_of(self.mean, span_ns) + mul_div(self.sum_ns, FINE, all_ns(span_ns));
        (self.since, self.sum_ns) = (self.until, 0);
        Some(span_ns)
    }
}

/// The time that a mean is over, which ends with this span.
const fn all_ns(span_ns: u64) -> u64 {
    MEMORY_NS.saturating_add(span_ns)
}

/// What is left of a mean after this span.
fn left_of(mean: u64, span_ns: u64) -> u64 {
    mul_div(mean, MEMORY_NS, all_ns(span_ns))
}

/// Where the load of a partition is, seen from its homes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Trend {
    #[default]
    Steady,
    Hot,
    Cold,
}

#[derive(Clone, Copy, Debug, Default)]
struct Partition {
    busy: Busy,
    /// Queries within the memory, in 1/65536.
    recent: u64,
    homes: u8,
    trend: Trend,
    /// When the trend began, and queries since then.
    since: Instant,
    queries: u32,
    /// The version of the order that its servers are of.
    version: Option<u32>,
}

impl Partition {
    /// Takes in the time that has passed. Returns whether the mean is renewed.
    fn update(&mut self, now: Instant) -> bool {
        let span_ns = self.busy.update(now);
        if let Some(span_ns) = span_ns {
            self.recent = left_of(self.recent, span_ns);
        }
        span_ns.is_some()
    }
}

/// The partitions of all keys.
#[derive(Debug)]
pub(super) struct Partitions {
    list: Vec<Partition>,
    /// The first servers of each partition, as many as `width`.
    servers: Vec<u32>,
    width: usize,
    all: Busy,
    homes_max: u8,
    above: u64,
    time_ns: u64,
    sweep: usize,
}

impl Partitions {
    pub(super) fn new(settings: &KeySettings) -> Self {
        let count = usize::from(settings.partitions);
        let width = settings
            .set
            .max(settings.replicate_max)
            .max(settings.hint_homes);
        let width = usize::from(width);
        let partition = Partition {
            homes: 1,
            ..Partition::default()
        };
        Self {
            list: alloc::vec![partition; count],
            servers: alloc::vec![u32::MAX; count * width],
            width,
            all: Busy::default(),
            homes_max: settings.replicate_max,
            above: settings.replicate_above.millionths().into(),
            time_ns: span_ns(settings.replicate_time),
            sweep: 0,
        }
    }

    /// The partition of a key; `None` without partitions.
    pub(super) fn of(&self, key: KeyHash) -> Option<u16> {
        let count = self.list.len() as u64;
        let place = (u128::from(key.to_bits()) * u128::from(count)) >> u64::BITS;
        u16::try_from(place).ok().filter(|_| count > 0)
    }

    /// The first servers of a partition.
    pub(super) fn first(&mut self, partition: u16, order: &Order) -> First {
        let place = usize::from(partition);
        self.refresh(place, order);
        let kept = self
            .servers
            .get(place * self.width..(place + 1) * self.width);
        let kept = kept.unwrap_or(&[]);
        let len = kept.iter().take_while(|&&server| server != u32::MAX);
        First::of(&kept[..len.count().min(ORDERED_MAX)])
    }

    /// Takes in changes of the order.
    fn refresh(&mut self, place: usize, order: &Order) {
        let servers = place * self.width..(place + 1) * self.width;
        if let Some(of) = self.list.get_mut(place)
            && let Some(kept) = self.servers.get_mut(servers)
            && of.version != Some(order.version())
        {
            of.version = Some(order.version());
            let first = order.first(mix(place as u64), kept.len());
            kept.fill(u32::MAX);
            kept[..first.as_slice().len()].copy_from_slice(first.as_slice());
        }
    }

    /// How many homes a partition has.
    pub(super) fn homes(&self, partition: u16) -> u8 {
        self.list
            .get(usize::from(partition))
            .map_or(1, |it| it.homes)
    }

    /// Notes a query, and the partition of its key if it has one.
    pub(super) fn sent(&mut self, now: Instant, partition: Option<u16>, order: &Order) {
        if self.list.is_empty() {
            return;
        }
        self.all.update(now);
        self.all.in_flight = self.all.in_flight.saturating_add(1);
        self.change(now, partition, order, |of| {
            of.busy.in_flight = of.busy.in_flight.saturating_add(1);
            of.recent = of.recent.saturating_add(FINE);
            of.queries = of.queries.saturating_add(1);
        });
        // A partition without queries settles, too.
        if self.homes_max > 1 {
            self.sweep = (self.sweep + 1) % self.list.len();
            if self.list[self.sweep].homes > 1 {
                self.list[self.sweep].update(now);
                self.refresh(self.sweep, order);
                self.settle(now, self.sweep, order);
            }
        }
    }

    /// Notes the end of a query.
    pub(super) fn done(&mut self, now: Instant, partition: Option<u16>, order: &Order) {
        if self.list.is_empty() {
            return;
        }
        self.all.update(now);
        self.all.in_flight = self.all.in_flight.saturating_sub(1);
        self.change(now, partition, order, |of| {
            of.busy.in_flight = of.busy.in_flight.saturating_sub(1);
        });
    }

    /// Brings the partition of a key up to date and changes it. If its means were renewed, its
    /// homes are looked at.
    fn change(
        &mut self,
        now: Instant,
        partition: Option<u16>,
        order: &Order,
        change: impl FnOnce(&mut Partition),
    ) {
        if let Some(place) = partition.map(usize::from)
            && let Some(of) = self.list.get_mut(place)
        {
            let is_renewed = of.update(now);
            change(of);
            if is_renewed {
                self.settle(now, place, order);
            }
        }
    }

    /// The mean in flight of a partition up to which `homes` homes are enough, in 1/65536.
    fn enough(&self, place: usize, homes: u8, order: &Order) -> u64 {
        let servers = self.servers.iter().skip(place * self.width);
        let servers = servers.take(usize::from(homes).min(self.width));
        let parts = servers.map(|&server| order.parts(server).len() as u64);
        let fair = mul_div(self.all.mean, parts.sum(), order.all_parts() as u64);
        mul_div(fair, self.above, ONE.into())
    }

    /// Gives a partition more homes, or fewer, if its load has called for that for long enough.
    fn settle(&mut self, now: Instant, place: usize, order: &Order) {
        let of = self.list[place];
        if self.homes_max == 1 || of.version != Some(order.version()) {
            return;
        }
        let most = usize::from(self.homes_max).min(order.servers()).max(1);
        let most = u8::try_from(most).unwrap_or(self.homes_max);
        let fewer = of.homes / 2;
        let trend = if of.homes < most && of.busy.mean > self.enough(place, of.homes, order) {
            Trend::Hot
        } else if of.homes > 1 && of.busy.mean * 2 < self.enough(place, fewer, order) {
            Trend::Cold
        } else {
            Trend::Steady
        };
        let lasts = now.ns_since(of.since) >= self.time_ns;
        let of = &mut self.list[place];
        if trend != of.trend {
            (of.trend, of.since, of.queries) = (trend, now, 0);
        } else if lasts && trend == Trend::Hot && of.queries >= QUERIES_MIN {
            of.homes = of.homes.saturating_mul(2).min(most);
            of.trend = Trend::Steady;
        } else if lasts && trend == Trend::Cold {
            of.homes = fewer.max(1);
            of.trend = Trend::Steady;
        }
    }

    /// The busiest partitions, and how many are replicated.
    pub(super) fn view(&self, now: Instant, order: &Order) -> KeyView {
        let is_busy = |of: &Partition| of.busy.in_flight > 0 || of.recent > 0;
        let mut busiest: Vec<_> = (0_u16..).zip(self.list.iter().copied()).collect();
        busiest.retain(|(_, of)| is_busy(of));
        for (_, of) in &mut busiest {
            of.update(now);
        }
        busiest.retain(|(_, of)| is_busy(of));
        busiest.sort_by_key(|(_, of)| Reverse(of.busy.mean));
        let busiest = busiest.iter().take(KeyView::PARTITIONS_MAX);
        let view = |&(partition, of): &(u16, Partition)| {
            let begin = usize::from(partition) * self.width;
            let servers = self.servers.iter().skip(begin).take(self.width);
            let is_current = of.version == Some(order.version());
            PartitionView {
                partition,
                homes: of.homes,
                in_flight: of.busy.in_flight,
                in_flight_millis: mul_div(of.busy.mean, 1_000, FINE),
                query_rate_millis: mul_div(of.recent, 1_000, FINE),
                servers: (servers.filter(|_| is_current))
                    .filter_map(|&server| order.parts(server).first().copied())
                    .collect(),
            }
        };
        let replicated = self.list.iter().filter(|of| of.homes > 1).count();
        KeyView {
            cap: None,
            replicated: u32::try_from(replicated).unwrap_or(u32::MAX),
            partitions: busiest.map(view).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
