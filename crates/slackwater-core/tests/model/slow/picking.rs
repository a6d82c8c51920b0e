//! The model's pick: expire, choose, charge, remove by rate, trigger probes. `[A7]`–`[A11]`

use super::{MILLION, SlowPick, SlowPrequal, SlowTicket};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::{Attempt, PickReason};
use slackwater_core::{Draw, Instant, ReplicaId, Rif};

fn rank(rif: u32, latency: Duration, limit: Option<Rif>) -> (bool, u128, u128) {
    let hot = limit.is_some_and(|limit| rif >= limit.count());
    if hot {
        (true, u128::from(rif), latency.as_nanos())
    } else {
        (false, latency.as_nanos(), u128::from(rif))
    }
}

impl SlowPrequal {
    /// Each pooled report's rank, in pool order. An unknown latency ranks as the median of the
    /// known ones. `[A7]`
    fn ranks(&self) -> Vec<(bool, u128, u128)> {
        let mut known: Vec<Duration> = self.pool.iter().filter_map(|entry| entry.latency).collect();
        known.sort_unstable();
        let median = match known.len() {
            0 => Duration::ZERO,
            k => known[k.div_ceil(2) - 1],
        };
        let limit = self.limit();
        self.pool
            .iter()
            .map(|e| rank(e.rif, e.latency.unwrap_or(median), limit))
            .collect()
    }

    /// Silent replicas that could recently not be reached come last. `[A13]`
    fn random(
        &self,
        now: Instant,
        attempt: Attempt,
        avoid: &[ReplicaId],
        draw: &mut dyn Draw,
    ) -> Option<ReplicaId> {
        let of = |from: &[ReplicaId], draw: &mut dyn Draw| {
            let allowed: Vec<_> = from
                .iter()
                .filter(|id| !avoid.contains(id))
                .copied()
                .collect();
            allowed
                .get(below(draw, u32::try_from(allowed.len()).expect("few")) as usize)
                .copied()
        };
        let first = if self.available.is_empty() {
            &self.known
        } else {
            &self.available
        };
        let out_of_reach = |id: &ReplicaId| {
            let it = &self.replicas[id];
            it.tracker.is_some() && now < it.unreachable_until
        };
        let within_reach: Vec<_> = first
            .iter()
            .filter(|id| !out_of_reach(id))
            .copied()
            .collect();
        if within_reach.iter().any(|id| !avoid.contains(id)) {
            return of(&within_reach, draw);
        }
        let chosen = of(first, draw);
        if attempt == Attempt::Hedge {
            return chosen;
        }
        chosen.or_else(|| of(&self.known, draw))
    }

    pub(crate) fn query(
        &mut self,
        now: Instant,
        attempt: Attempt,
        avoid: &[ReplicaId],
        draw: &mut dyn Draw,
    ) -> Option<SlowPick> {
        let fresh = self.pool.len();
        self.pool
            .retain(|e| now.saturating_since(e.received_at) < self.settings.report_age_max);
        self.counters.removed_expired += (fresh - self.pool.len()) as u64;

        let limit = self.limit();
        let usable: Vec<usize> = (0..self.pool.len())
            .filter(|&i| !avoid.contains(&self.pool[i].replica))
            .collect();
        let candidates = u16::try_from(usable.len()).expect("few");
        let chosen = if usable.len() < 2 {
            None
        } else {
            Some(self.best(&usable, draw))
        };
        let (replica, reason) = match &chosen {
            Some((best, _)) => {
                let hot = self.view(now, &self.pool[*best]).hot;
                (
                    self.pool[*best].replica,
                    if hot {
                        PickReason::Hot
                    } else {
                        PickReason::Cold
                    },
                )
            }
            None => match self.random(now, attempt, avoid, draw) {
                Some(replica) if self.available.is_empty() => (replica, PickReason::Panic),
                Some(replica) if !self.available.contains(&replica) => {
                    (replica, PickReason::LastResort)
                }
                Some(replica) => (replica, PickReason::Fallback),
                None => {
                    self.counters.no_replica += 1;
                    return None;
                }
            },
        };
        let view = chosen
            .as_ref()
            .map(|(best, _)| self.view(now, &self.pool[*best]));
        let runners_up = chosen.map_or_else(Vec::new, |(_, others)| others);
        self.charge(replica, view.is_some());
        if attempt == Attempt::First {
            self.after_first_try(now, limit, draw);
        }
        *self.picks.entry(reason).or_default() += 1;
        let it = self
            .replicas
            .get_mut(&replica)
            .expect("chosen among the known");
        it.in_flight += 1;
        let local = it
            .tracker
            .as_ref()
            .map(|tracker| (it.silences, tracker.arrive(now)));
        let ticket = SlowTicket { replica, local };
        Some(SlowPick {
            ticket,
            replica,
            reason,
            limit,
            candidates,
            chosen: view,
            runners_up,
        })
    }

    /// The best of at least two, and the possible runners-up: the best of the others. `[A7]`
    fn best(&self, usable: &[usize], draw: &mut dyn Draw) -> (usize, Vec<ReplicaId>) {
        let ranks = self.ranks();
        let lowest = usable
            .iter()
            .map(|&i| ranks[i])
            .min()
            .expect("at least two");
        let equals: Vec<usize> = usable
            .iter()
            .copied()
            .filter(|&i| ranks[i] == lowest)
            .collect();
        let best = one_of(&equals, draw);
        let others: Vec<usize> = usable.iter().copied().filter(|&i| i != best).collect();
        let second = others.iter().map(|&i| ranks[i]).min();
        let seconds = others.iter().filter(|&&i| Some(ranks[i]) == second);
        (best, seconds.map(|&i| self.pool[i].replica).collect())
    }

    /// Applies `[A11]` to the chosen replica, and `[A9]` to the report that decided.
    fn charge(&mut self, replica: ReplicaId, by_report: bool) {
        for entry in self
            .pool
            .iter_mut()
            .filter(|entry| entry.replica == replica)
        {
            entry.rif = entry.rif.saturating_add(1);
            entry.uses_left -= u32::from(by_report);
        }
        let before = self.pool.len();
        self.pool.retain(|entry| entry.uses_left > 0);
        self.counters.removed_spent += (before - self.pool.len()) as u64;
    }

    /// Applies `[A10]`, `[A2]`, and the yield of Decision 0001.
    fn after_first_try(&mut self, now: Instant, limit: Option<Rif>, draw: &mut dyn Draw) {
        assert_eq!(limit, self.limit(), "a pick changes no limit");
        self.back_off.tick(now);
        let whole = |millionths: u64| millionths / 1_000_000;
        let remove = self.remove_rate();
        let removals = whole(self.to_remove + remove) - whole(self.to_remove);
        self.to_remove += remove;
        for _ in 0..removals {
            let capacity = usize::from(self.settings.pool_capacity);
            if self.pool.len() <= 4.min(capacity - 1).max(2) {
                self.counters.removals_withheld += 1;
                continue;
            }
            if self.removals.is_multiple_of(2) {
                self.pool.remove(0);
                self.counters.removed_oldest += 1;
            } else {
                let worst = self.worst(draw);
                self.pool.remove(worst);
                self.counters.removed_worst += 1;
            }
            self.removals += 1;
        }
        let (rate, all) = (self.back_off.rate(), self.settings.probe_rate.millionths());
        let left_out = u64::from(all) - rate;
        let probes = whole(self.asked + rate) - whole(self.asked);
        self.asked += rate;
        self.counters.probes_backed_off += whole(self.left_out + left_out) - whole(self.left_out);
        self.left_out += left_out;
        self.want(u32::try_from(probes).expect("few"));
        self.window.0 += 1;
        if self.window.0 == 128 {
            let configured = i128::from(self.settings.probe_rate.millionths());
            let measured = i128::from(self.window.1) * MILLION / 128;
            self.measured = if measured >= configured * 9 / 10 {
                configured
            } else {
                measured
            };
            self.window = (0, 0);
        }
    }

    /// Reports removed after each query, in millionths: fewer if fewer probes are sent.
    pub(super) fn remove_rate(&self) -> u64 {
        u64::from(self.settings.remove_rate.millionths()) * self.back_off.share / 1_000_000
    }

    fn worst(&self, draw: &mut dyn Draw) -> usize {
        let ranks = self.ranks();
        let highest = ranks.iter().max().expect("at least three");
        let equals: Vec<usize> = (0..ranks.len()).filter(|&i| ranks[i] == *highest).collect();
        one_of(&equals, draw)
    }
}

/// One of some equals. It draws only if there is a choice.
fn one_of(equals: &[usize], draw: &mut dyn Draw) -> usize {
    match *equals {
        [only] => only,
        _ => equals[below(draw, u32::try_from(equals.len()).expect("few")) as usize],
    }
}
