//! The policy and the model side by side: applies one random operation at a time to both, then
//! compares everything.

use crate::slow::{SlowPrequal, SlowTicket};
use crate::{Driver, driver, one_of, settings};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::policy::{
    Attempt, Decision, Event, Outcome, PickReason, Policy, Prequal, ProbeId, Query, Ticket,
};
use slackwater_core::{
    Draw, Instant, LoadReport, NoDraw, Rate, ReplicaId, ReplicaIds, Rif, SplitMix64,
};

/// A generator that counts its draws.
struct Counted {
    draws: SplitMix64,
    count: u64,
}

impl Draw for Counted {
    fn draw(&mut self) -> u64 {
        self.count += 1;
        self.draws.draw()
    }
}

/// The policy, the model, and what the driver holds of them.
pub(crate) struct Pair {
    chance: SplitMix64,
    pub(crate) fast: Prequal,
    slow: SlowPrequal,
    fast_draws: Counted,
    slow_draws: Counted,
    ids: ReplicaIds,
    fleet: Vec<ReplicaId>,
    fleet_max: u32,
    now: Instant,
    /// The latest time that the policy has seen.
    seen: Instant,
    tickets: Vec<(Ticket, SlowTicket)>,
    /// Every probe of this run that may still be answered, including those that are over.
    probes: Vec<ProbeId>,
    driver: Driver,
}

impl Pair {
    pub(crate) fn new(seed: u64) -> Self {
        let mut chance = SplitMix64::new(seed);
        let settings = settings(&mut chance);
        let config = settings.clone().validate().expect("all in range");
        let draws = Counted {
            draws: SplitMix64::new(!seed),
            count: 0,
        };
        let twin = Counted {
            draws: draws.draws.clone(),
            count: 0,
        };
        let mut pair = Self {
            fast: Prequal::new(config),
            slow: SlowPrequal::new(settings),
            fast_draws: draws,
            slow_draws: twin,
            ids: ReplicaIds::new(),
            fleet: Vec::new(),
            fleet_max: 1 + below(&mut chance, 40),
            now: Instant::from_nanos(7),
            seen: Instant::EPOCH,
            tickets: Vec::new(),
            probes: Vec::new(),
            driver: driver(&mut chance),
            chance,
        };
        for _ in 0..below(&mut pair.chance, pair.fleet_max + 1) {
            pair.add_replica();
        }
        pair
    }

    /// The time of the driver's clock: now and then it steps back, which the policy ignores.
    fn clock(&mut self) -> Instant {
        let seen = core::mem::replace(&mut self.seen, self.now);
        if seen == self.now && self.percent(10) {
            Instant::from_nanos(self.now.as_nanos() / 2)
        } else {
            self.now
        }
    }

    fn percent(&mut self, chance: u32) -> bool {
        below(&mut self.chance, 100) < chance
    }

    pub(crate) fn step(&mut self) {
        match below(&mut self.chance, 100) {
            0..=1 => self.add_replica(),
            2 => self.remove_replica(),
            3..=5 => self.eject_or_readmit(),
            6..=45 => self.query(),
            46..=63 => self.end_query(),
            64..=83 => self.answer_probe(),
            84 => self.lose_probe(),
            85 => self.give_back_probe(),
            86..=95 => {
                self.now += Duration::from_micros(one_of(&mut self.chance, self.driver.steps_us));
            }
            _ => self.timeout(),
        }
        if self.percent(self.driver.polls_percent) {
            self.poll_probes();
        }
        self.compare();
    }

    fn add_replica(&mut self) {
        let again = self.fleet.first().copied().filter(|_| self.percent(5));
        let replica = match again {
            Some(known) => known,
            None if self.fleet.len() < self.fleet_max as usize => {
                let new = self.ids.allocate().expect("room");
                self.fleet.push(new);
                new
            }
            None => return,
        };
        let now = self.clock();
        self.fast.handle(now, Event::Added(replica), &mut NoDraw);
        self.slow.add(self.now, replica);
    }

    fn remove_replica(&mut self) {
        if !self.fleet.is_empty() {
            let place = below(
                &mut self.chance,
                u32::try_from(self.fleet.len()).expect("few"),
            );
            let replica = self.fleet.remove(place as usize);
            let now = self.clock();
            self.fast.handle(now, Event::Removed(replica), &mut NoDraw);
            self.slow.remove(replica);
            self.ids.release(replica);
        }
    }

    fn eject_or_readmit(&mut self) {
        if !self.fleet.is_empty() {
            let replica = one_of(&mut self.chance, &self.fleet);
            let available = self.percent(60);
            let now = self.clock();
            self.fast
                .handle(now, Event::Available(replica, available), &mut NoDraw);
            self.slow.set_ejected(replica, !available);
        }
    }

    fn query(&mut self) {
        let mut avoid = Vec::new();
        let attempt = one_of(
            &mut self.chance,
            &[
                Attempt::First,
                Attempt::First,
                Attempt::First,
                Attempt::Retry,
                Attempt::Hedge,
            ],
        );
        if attempt != Attempt::First && !self.fleet.is_empty() {
            for _ in 0..below(&mut self.chance, 4) {
                avoid.push(one_of(&mut self.chance, &self.fleet));
            }
            if self.percent(5) {
                avoid.clone_from(&self.fleet);
            }
        }
        let mut query = Query::first();
        (query.attempt, query.avoid) = (attempt, &avoid);
        let now = self.clock();
        let fast = self.fast.choose(now, query, &mut self.fast_draws, None);
        let slow = self
            .slow
            .query(self.now, attempt, &avoid, &mut self.slow_draws);
        let (pick, slow) = match (fast, slow) {
            (Decision::NoReplica, None) => return,
            (Decision::Pick(pick), Some(slow)) => (pick, slow),
            (fast, slow) => panic!("policy: {fast:?}, model: {slow:?}"),
        };
        assert_eq!(
            pick.ticket.replica(),
            slow.replica,
            "replica, because {}",
            slow.reason
        );
        assert_eq!(pick.ticket.sent_at(), self.now);
        assert_eq!(pick.reason, slow.reason);
        assert_eq!(pick.rif_limit, slow.limit);
        assert_eq!(pick.candidates, slow.candidates, "candidates");
        assert_eq!(pick.chosen, slow.chosen);
        assert_eq!(pick.probing, Duration::ZERO);
        match pick.runner_up {
            Some(second) => assert!(slow.runners_up.contains(&second), "{second}: {slow:?}"),
            None => assert_eq!(slow.runners_up, []),
        }
        self.tickets.push((pick.ticket, slow.ticket));
    }

    fn end_query(&mut self) {
        if self.tickets.is_empty() {
            return;
        }
        let place = below(
            &mut self.chance,
            u32::try_from(self.tickets.len()).expect("few"),
        );
        let (mut fast, mut slow) = self.tickets.swap_remove(place as usize);
        if self.percent(20) {
            let head = [Outcome::Success, Outcome::PushedBack][usize::from(self.percent(30))];
            self.fast.handle_head(self.now, &mut fast, head);
            self.slow.head(self.now, &mut slow, head);
            if self.percent(50) {
                self.tickets.push((fast, slow));
                return;
            }
        }
        let outcomes = [
            Outcome::Success,
            Outcome::Success,
            Outcome::Success,
            Outcome::Failed,
            Outcome::TimedOut,
            Outcome::Broken,
            Outcome::PushedBack,
            Outcome::Dropped,
            Outcome::NoConnection,
        ];
        let outcome = one_of(&mut self.chance, &outcomes);
        let now = self.clock();
        self.fast.handle_query_done(now, fast, outcome);
        self.slow.query_done(self.now, slow, outcome);
    }

    /// Mostly one of the last few probes; now and then any past one, which may be over.
    fn some_probe(&mut self) -> Option<ProbeId> {
        let recent = if self.percent(90) {
            8
        } else {
            self.probes.len()
        };
        let start = self.probes.len().saturating_sub(recent);
        let among = &self.probes[start..];
        (!among.is_empty()).then(|| one_of(&mut self.chance, among))
    }

    fn answer_probe(&mut self) {
        if !self.percent(self.driver.answers_percent) {
            return;
        }
        let Some(id) = self.some_probe() else { return };
        let rif = below(&mut self.chance, self.driver.rif_max);
        let latency = below(&mut self.chance, self.driver.latencies + 1);
        let mut report = LoadReport::new(Rif::new(rif), None);
        // Unknown is reported in two ways, which mean the same.
        if latency > 0 || rif.is_multiple_of(2) {
            report.latency = Some(Duration::from_millis(u64::from(latency)));
        }
        report.draining = self.percent(self.driver.draining_percent);
        let now = self.clock();
        self.fast
            .handle(now, Event::Report(id, &report), &mut self.fast_draws);
        self.slow
            .report(self.now, id, &report, &mut self.slow_draws);
    }

    fn lose_probe(&mut self) {
        if let Some(id) = self.some_probe() {
            let now = self.clock();
            self.fast
                .handle(now, Event::ProbeLost(id), &mut self.fast_draws);
            self.slow.probe_lost(self.now, id);
        }
    }

    fn give_back_probe(&mut self) {
        if let Some(id) = self.some_probe() {
            self.fast
                .handle(self.now, Event::ProbeUnsent(id), &mut NoDraw);
            self.slow.unsent(id);
        }
    }

    fn timeout(&mut self) {
        let now = self.clock();
        self.fast.handle(now, Event::Timeout, &mut self.fast_draws);
        self.slow.timeout(self.now, &mut self.slow_draws);
        let next = self.fast.poll_timeout();
        assert!(
            next.is_none_or(|next| next > self.now),
            "a driver would spin at {next:?}"
        );
    }

    fn poll_probes(&mut self) {
        loop {
            let now = self.clock();
            let fast = self.fast.poll_probe(now, &mut self.fast_draws);
            let slow = self.slow.poll_probe(self.now, &mut self.slow_draws);
            assert_eq!(fast.map(|probe| (probe.replica, probe.deadline)), slow);
            let (Some(fast), Some(slow)) = (fast, slow) else {
                return;
            };
            self.slow.sent(self.now, fast.id, slow);
            self.probes.push(fast.id);
        }
    }

    fn compare(&self) {
        // Once the policy has seen the time, an earlier one makes no difference.
        let seen = self.seen == self.now;
        let snapshot = self
            .fast
            .snapshot(if seen { Instant::EPOCH } else { self.now });
        assert_eq!(snapshot.pool, self.slow.pool_views(self.now), "pool");
        assert_eq!(snapshot.replicas, self.slow.replica_views(), "replicas");
        assert_eq!(snapshot.rif_limit, self.slow.limit(), "limit");
        let rate = snapshot.probe_rate.map(Rate::millionths).map(u64::from);
        assert_eq!(rate, self.slow.probe_rate(), "probe rate");
        let counters = self.fast.counters();
        let mut expected = self.slow.counters;
        expected.picks = counters.picks;
        assert_eq!(counters, expected, "the policy's counts, and the model's");
        for reason in PickReason::ALL {
            let picks = self.slow.picks.get(&reason).copied().unwrap_or(0);
            assert_eq!(counters.picks.of(reason), picks, "picks because {reason}");
        }
        // It may wake its driver too early (for a probe that has been answered), but never too
        // late.
        match (self.fast.poll_timeout(), self.slow.next_timeout()) {
            (Some(fast), Some(slow)) => assert!(fast <= slow, "wakes at {fast}, due at {slow}"),
            (fast, slow) => assert_eq!(fast, slow, "wakes, due"),
        }
        assert_eq!(self.fast_draws.count, self.slow_draws.count, "draws");
    }
}
