//! The demand of a scenario on the machine that plays it: how many queries are in progress at once,
//! and the memory for them.
//!
//! It is computed with flows, before anything is played: what arrives less what can be served, over
//! the run. There are two results. One is the expectation if load is spread evenly over the
//! replicas, from which memory is computed. The other is a lower bound under every policy. Only
//! that one makes a scenario a mistake.

use super::{FailureCost, Group, Scenario, Service, nanoseconds};
use core::time::Duration;

/// Bytes for one query in progress: the client's side, the copy at the replica, and the spare
/// capacity of tables. Measured with twenty million queries.
const QUERY_BYTES: f64 = 320.0;
/// Bytes for a deadline. It is kept until its time comes, even if the query has been answered.
const DEADLINE_BYTES: f64 = 48.0;
/// Bytes for a second of a replica's utilization, and for the count of its queries in it.
const SAMPLE_BYTES: f64 = 16.0;
/// Bytes for the same once the run has ended.
const KEPT_SAMPLE_BYTES: f64 = 8.0;
/// Bytes for the count of a replica's queries.
const COUNT_BYTES: f64 = 8.0;
/// The most bytes of a run's histograms once they are packed.
const HISTOGRAM_BYTES: f64 = 65_536.0;
/// Bytes that a client keeps of a replica, under the policy that keeps most.
const PAIR_BYTES: f64 = 200.0;

impl Scenario {
    /// Returns the most queries in progress at once if each replica gets the same share of the
    /// load: at the replicas, whether they are answered, given up or not, and on the network.
    pub fn under_way(&self) -> f64 {
        let seconds = self.seconds();
        let share = self.load.rate / self.replicas().max(1) as f64;
        let kept = self.kept(seconds);
        let held = self.fleet.iter().map(|group| {
            let spell = spell_seconds(group, seconds).min(kept);
            let waits = mean_wait(group, kept) + self.load.mean_wait();
            let one = if let Some([usual, hobbled]) = self.latencies(group) {
                let spell = if spell > 0.0 { hobbled.min(spell) } else { 0.0 };
                share * (waits + usual + spell)
            } else {
                let up = up_share(group, f64::INFINITY);
                let served = |left| self.served(group, up * left * lasting_cores(&group.service));
                let excess = |left| (share - served(left)).max(0.0);
                let left = group.hobble.map_or(1.0, |hobble| hobble.capacity);
                let rising = self.load.swing.map_or(0.0, |swing| {
                    let peak = share * (1.0 + swing.amplitude) - served(1.0);
                    peak.max(0.0) * (swing.period.as_secs_f64() / 2.0).min(kept)
                });
                excess(1.0) * (kept - spell) + excess(left) * spell + rising + share * waits
            };
            group.count as f64 * one.min(share * kept)
        });
        let extra = self.fleet.iter().map(|group| group.extra_delay).max();
        let between_zones = self.zones.as_ref().map(|zones| zones.delay);
        let extra = extra.unwrap_or_default() + between_zones.unwrap_or_default();
        let delay = self.network.delay.most + extra;
        let travelling = 2.0 * delay.as_secs_f64();
        held.sum::<f64>() + self.load.peak_rate() * travelling.min(seconds)
    }

    /// Returns the least number of queries in progress at once, under any policy, once all have
    /// arrived: what the whole fleet cannot serve in this time, even if neighbours leave as much as
    /// they ever can.
    pub(super) fn under_way_least(&self) -> f64 {
        let seconds = (self.warmup + self.span).as_secs_f64();
        let kept = self.kept(seconds);
        let capacity: f64 = (self.fleet.iter())
            .map(|group| group.count as f64 * self.served_most(group, seconds))
            .sum();
        let least = |values: &mut dyn Iterator<Item = f64>| values.fold(kept, f64::min);
        let excess_held = least(&mut self.fleet.iter().filter_map(|group| {
            let [usual, hobbled] = self.latencies(group)?;
            let latency = if spell_seconds(group, seconds) < seconds {
                usual.min(hobbled)
            } else {
                hobbled
            };
            Some(latency + mean_wait(group, kept))
        }));
        let waits = least(&mut self.fleet.iter().map(|group| mean_wait(group, kept)));
        let excess = (self.load.rate - capacity).max(0.0);
        let held = (excess * excess_held).max(self.load.rate * waits);
        let delay = self.network.delay;
        let travelling = (delay.least + delay.most).as_secs_f64();
        held + self.load.rate * travelling.min(seconds)
    }

    /// Returns the memory of one run, in bytes: for queries, for measurements, and for what clients
    /// keep of replicas.
    pub fn memory_bytes(&self) -> f64 {
        let deadlines = self.load.peak_rate() * self.deadline.as_secs_f64().min(self.seconds());
        let samples = self.replicas() as f64 * self.span.as_secs_f64();
        let pairs = self.replicas() as f64 * self.load.clients.len() as f64;
        QUERY_BYTES * self.under_way()
            + DEADLINE_BYTES * deadlines
            + SAMPLE_BYTES * samples
            + PAIR_BYTES * pairs
    }

    /// Returns the memory of a run that has ended, in bytes: utilization second by second, and
    /// counts.
    pub fn kept_bytes(&self) -> f64 {
        let replicas = self.replicas() as f64;
        KEPT_SAMPLE_BYTES * replicas * self.span.as_secs_f64().floor()
            + COUNT_BYTES * replicas
            + HISTOGRAM_BYTES
    }

    /// Returns the queries a second that `cores` cores serve on a replica of the group.
    fn served(&self, group: &Group, cores: f64) -> f64 {
        let cost_seconds = self.load.mean_cost() * self.cost.mean_ns() / 1e9;
        cores / group.slowness / cost_seconds
    }

    /// Returns the queries a second that no replica of the group exceeds over a run of this length;
    /// 0 where latencies are replayed, which means no limit.
    fn served_most(&self, group: &Group, seconds: f64) -> f64 {
        let (cores, bucket) = match &group.service {
            Service::Shared(sharing) => {
                let headroom = self
                    .antagonists
                    .as_ref()
                    .map_or(0.0, |near| near.headroom_max);
                (sharing.cores + headroom, sharing.bucket)
            }
            // The incomplete periods at the beginning and at the end of a run may have a whole
            // quota each.
            Service::Quota(quota) => (quota.cores(), 2.0 * quota.cpu.as_secs_f64()),
            Service::Fifo { workers } => (*workers as f64, 0.0),
            Service::Batch(batching) => (batching.capacity(), 0.0),
            Service::Latency | Service::LatencyTrace(_) => return 0.0,
        };
        let lost = group.hobble.map_or(0.0, |hobble| {
            (1.0 - hobble.capacity) * spell_seconds(group, seconds) / seconds
        });
        let lasting = cores * up_share(group, seconds) * (1.0 - lost);
        let cheapest = self.load.mean_cost() / self.load.least_mean_cost();
        let usual = cheapest * self.served(group, lasting + bucket / seconds);
        // A query that fails may cost less, or nothing at all.
        group.failure.map_or(usual, |failure| {
            let window = window_seconds(failure.from, failure.until, seconds) / seconds;
            let cost = 1.0 - failure.share * (1.0 - self.cost_share(failure.cost));
            match window {
                0.0 => usual,
                _ => usual * (1.0 - window + window / cost),
            }
        })
    }

    /// Returns the cost of a failing query, as a share of other queries' cost, at most 1, because
    /// there may be no failing query.
    fn cost_share(&self, cost: FailureCost) -> f64 {
        match cost {
            FailureCost::Share(share) => share,
            FailureCost::Fixed(cost) => (nanoseconds(cost) / self.cost.mean_ns()).min(1.0),
        }
    }

    /// Returns the latency of a query where latencies are replayed, usually and in a spell of lower
    /// capacity, in seconds.
    fn latencies(&self, group: &Group) -> Option<[f64; 2]> {
        let mean_ns = match &group.service {
            Service::Latency => self.cost.mean_ns(),
            Service::LatencyTrace(trace) => {
                let sum: f64 = trace.iter().copied().map(nanoseconds).sum();
                sum / trace.len().max(1) as f64
            }
            Service::Shared(_) | Service::Quota(_) | Service::Fifo { .. } | Service::Batch(_) => {
                return None;
            }
        };
        let usual = mean_ns / 1e9 * group.slowness;
        let hobbled = group.hobble.map_or(usual, |hobble| match hobble.latency {
            Some(latency) => latency.as_secs_f64(),
            None => usual / hobble.capacity,
        });
        Some([usual, hobbled])
    }

    /// Returns how long a query stays at its replica at most, in a run of this length.
    fn kept(&self, seconds: f64) -> f64 {
        if self.cancel_expired {
            seconds.min(self.deadline.as_secs_f64())
        } else {
            seconds
        }
    }

    /// Returns the longest time that is played: the last measured query may take until its
    /// deadline.
    fn seconds(&self) -> f64 {
        let parts: [Duration; 3] = [self.warmup, self.span, self.deadline];
        parts.iter().map(Duration::as_secs_f64).sum()
    }
}

/// Returns a replica's sustained capacity at its worst, in cores.
fn lasting_cores(service: &Service) -> f64 {
    match service {
        Service::Shared(sharing) => sharing.cores * (1.0 - sharing.contention_loss),
        Service::Quota(quota) => quota.allocation(),
        Service::Fifo { workers } => *workers as f64,
        Service::Batch(batching) => batching.capacity(),
        Service::Latency | Service::LatencyTrace(_) => f64::INFINITY,
    }
}

/// Returns an upper estimate of the share of time in which a replica does not stall, in a run of
/// this length. A run begins outside of a stall, which counts as `lasts` more seconds.
fn up_share(group: &Group, seconds: f64) -> f64 {
    group.stall.map_or(1.0, |stall| {
        let (every, lasts) = (stall.every.as_secs_f64(), stall.lasts.as_secs_f64());
        (every / (every + lasts) * (1.0 + lasts / seconds)).min(1.0)
    })
}

/// Returns how many of a run's first seconds are in the group's spell of lower capacity.
fn spell_seconds(group: &Group, seconds: f64) -> f64 {
    let spell = group.hobble;
    spell.map_or(0.0, |spell| {
        window_seconds(spell.from, spell.until, seconds)
    })
}

fn window_seconds(from: Duration, until: Duration, seconds: f64) -> f64 {
    until.as_secs_f64().min(seconds) - from.as_secs_f64().min(seconds)
}

/// Returns the mean wait without the CPU of a query that is kept this long. Waits are uniform.
fn mean_wait(group: &Group, kept: f64) -> f64 {
    let longest = group.io_wait.as_secs_f64();
    if longest <= kept {
        longest / 2.0
    } else {
        kept * (1.0 - kept / longest / 2.0)
    }
}

#[cfg(test)]
mod tests;
