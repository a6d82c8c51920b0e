//! Bytes as operations on a policy, with checks after each of them that hold for any input.
//!
//! Shared by the test beside it, which feeds seeded random bytes, and by the fuzz target
//! `core_operations`.

use core::time::Duration;
use slackwater_core::health::{self, HealthConfig, HealthState};
use slackwater_core::keys::{Identity, KeyHash, KeySettings, keyed};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Attempt, C3Settings, Counters, Decision, ElsSettings, Event, Explanation, LinearSettings,
    Outcome, POLICIES, PeakEwmaSettings, Pick, PickReason, Policy, PolicySettings,
    PolledPowerOfDSettings, PowerOfDSettings, ProbeId, ProbeRound, Query, RifThenLatencySettings,
    Settings, ShortestExpectedDelaySettings, Ticket, WeightedRoundRobinSettings,
};
use slackwater_core::{
    Draw, Instant, LoadReport, LoadScale, NoDraw, Quantile, Rate, ReplicaId, ReplicaIds, Rif,
    SplitMix64,
};
use std::collections::BTreeSet;

/// More than the number of replicas whose reports policies keep.
const FLEET_MAX: usize = 100;

/// The operands of an operation, taken from the input while there is any left.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    fn one_of<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let index = usize::from(self.byte());
        of.get(index % of.len().max(1)).copied()
    }
}

struct Machine {
    policy: Box<dyn Policy>,
    settings: PrequalSettings,
    /// Whether there is health around it.
    is_watched: bool,
    synchronous: bool,
    /// Most reports that are kept.
    kept_max: usize,
    /// Whether it polls each replica at intervals; otherwise its queries trigger probes.
    polls: bool,
    joined: u64,
    ids: ReplicaIds,
    fleet: Vec<ReplicaId>,
    now: Instant,
    draw: SplitMix64,
    tickets: Vec<Ticket>,
    rounds: Vec<ProbeRound>,
    probes: Vec<ProbeId>,
}

/// Plays the input. Panics if a property does not hold.
pub(crate) fn play(input: &[u8]) {
    let mut bytes = Bytes(input);
    let mut machine = Machine::new(&mut bytes);
    while !bytes.0.is_empty() {
        machine.step(&mut bytes);
        machine.check();
    }
    machine.end();
}

fn settings(bytes: &mut Bytes<'_>) -> PrequalSettings {
    let rate = |bytes: &mut Bytes<'_>| {
        Rate::from_millionths(bytes.word() % 16_000_001).unwrap_or(Rate::ZERO)
    };
    let span =
        |bytes: &mut Bytes<'_>| Duration::from_micros(1 + u64::from(bytes.word() % 5_000_000));
    let settings = PrequalSettings {
        probe_rate: rate(bytes),
        remove_rate: rate(bytes),
        pool_capacity: 2 + u16::from(bytes.byte() % 32),
        report_age_max: span(bytes),
        rif_limit_quantile: Quantile::from_millionths(bytes.word() % 1_000_001)
            .unwrap_or(Quantile::ONE),
        pool_drift: rate(bytes),
        reuse_max: 1 + u16::from(bytes.byte()),
        probe_idle_max: Duration::from_millis(1) + span(bytes),
        idle_probes: u16::from(bytes.byte() % 17),
        probe_interval_min: span(bytes),
        probe_deadline: span(bytes),
        probes_outstanding_max: 1 + u16::from(bytes.byte()),
        sync_probes: 2 + bytes.byte() % 7,
        sync_deadline: span(bytes),
        local_only: bytes.byte().is_multiple_of(8),
        probe_rate_min: rate(bytes),
        probes_per_second_max: match bytes.byte() {
            0..128 => 0,
            _ => bytes.word() % 10_000_001,
        },
    };
    // A drift of zero is not valid and is replaced by the defaults.
    settings
        .clone()
        .validate()
        .map_or_else(|_| PrequalSettings::default(), |_| settings)
}

/// Settings of all policies except Prequal, with times from far below to far above those of the
/// operations.
fn neighbours_settings(byte: u8) -> PolicySettings {
    let span = Duration::from_millis(1) * (1 << (byte % 8 * 2));
    let choices = 2 + byte / 8 % 15;
    let mut all = PolicySettings::default();
    all.power_of_d = PowerOfDSettings { choices }.validate().unwrap_or_default();
    let peak_ewma = PeakEwmaSettings {
        decay: span,
        failure_penalty: span,
        choices,
        ..PeakEwmaSettings::default()
    };
    all.peak_ewma = peak_ewma.validate().unwrap_or_default();
    let els = ElsSettings {
        time_bias: span,
        exclude_samples_min: u32::from(choices),
        ..ElsSettings::default()
    };
    all.els = els.validate().unwrap_or_default();
    let polled_power_of_d = PolledPowerOfDSettings {
        interval: span,
        choices,
    };
    all.polled_power_of_d = polled_power_of_d.validate().unwrap_or_default();
    let weighted_round_robin = WeightedRoundRobinSettings {
        interval: span,
        smoothing: span,
        blackout: span / 4,
        ..WeightedRoundRobinSettings::default()
    };
    all.weighted_round_robin = weighted_round_robin.validate().unwrap_or_default();
    let share = Quantile::from_millionths(u32::from(byte) * 3_900).unwrap_or(Quantile::ONE);
    let linear = LinearSettings {
        rif_weight: share,
        rif_scale: span,
    };
    all.linear = linear.validate().unwrap_or_default();
    let c3 = C3Settings {
        clients: 1 << (byte % 20),
        newest_weight: share,
    };
    all.c3 = c3.validate().unwrap_or_default();
    let rif_then_latency = RifThenLatencySettings {
        rif_slack_millionths: 1_000_000 + u32::from(byte) * 10_000,
    };
    all.rif_then_latency = rif_then_latency.validate().unwrap_or_default();
    let shortest_expected_delay = ShortestExpectedDelaySettings {
        probe_rate: Rate::from_millionths(u32::from(byte) * 50_000).unwrap_or(Rate::ZERO),
        latency_band_millionths: u32::from(byte) * 20_000,
        cost_band_millionths: u32::from(byte) * 20_000,
    };
    all.shortest_expected_delay = shortest_expected_delay.validate().unwrap_or_default();
    all
}

/// Checks a pick for a key against its explanation.
fn check_key(pick: &Pick, explanation: &Explanation, synchronous: bool) {
    let is_own = [PickReason::KeyHome, PickReason::KeySet].contains(&pick.reason);
    let Some(choice) = explanation.key() else {
        return assert!(!is_own, "it has no key");
    };
    let replicas: BTreeSet<_> = choice.set().iter().map(|it| it.replica).collect();
    assert_eq!(replicas.len(), choice.set().len(), "each once");
    if is_own && !synchronous {
        let mut set = choice.set().iter();
        let server = set.find(|it| it.replica == pick.ticket.replica());
        let is_free = server.is_some_and(|it| !it.avoided && it.is_below_cap());
        assert!(is_free, "{choice:?}");
    }
}

/// Puts keys around the policy, or not.
fn with_keys(policy: Box<dyn Policy>, kind: u8, size: u8) -> Box<dyn Policy> {
    if kind < 64 {
        return policy;
    }
    let partitions = if kind < 128 { 0 } else { u16::from(size) + 1 };
    let settings = KeySettings {
        balance_factor_millionths: match kind % 4 {
            0 => 0,
            more => 1_000_000 + 250_000 * u32::from(more - 1),
        },
        set: 1 + size % 16,
        partitions,
        replicate_max: if partitions > 0 { 1 + kind % 16 } else { 1 },
        replicate_time: Duration::from_millis(1 + u64::from(size)),
        hint_homes: kind % 9,
        ..KeySettings::default()
    };
    keyed(policy, &settings.validate().unwrap_or_default())
}

impl Machine {
    fn new(bytes: &mut Bytes<'_>) -> Self {
        let kind = bytes.byte();
        let entry = &POLICIES[usize::from(kind) % POLICIES.len()];
        let settings = settings(bytes);
        let mut all = neighbours_settings(bytes.byte());
        all.prequal = settings.clone().validate().unwrap_or_default();
        let policy = if kind < 128 {
            (entry.build)(&all)
        } else {
            health::build(entry, &all, &HealthConfig::default())
        };
        Self {
            policy: with_keys(policy, bytes.byte(), bytes.byte()),
            is_watched: kind >= 128,
            synchronous: entry.name == "prequal_sync",
            kept_max: if ["rif_then_latency", "shortest_expected_delay"].contains(&entry.name) {
                FLEET_MAX
            } else {
                settings.pool_capacity.into()
            },
            polls: ["polled_power_of_d", "weighted_round_robin"].contains(&entry.name),
            joined: 0,
            settings,
            ids: ReplicaIds::new(),
            fleet: Vec::new(),
            now: Instant::EPOCH,
            draw: SplitMix64::new(u64::from(bytes.word())),
            tickets: Vec::new(),
            rounds: Vec::new(),
            probes: Vec::new(),
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 21 {
            0 if self.fleet.len() < FLEET_MAX => self.join(),
            0 | 1 => {
                if let Some(replica) = bytes.one_of(&self.fleet) {
                    self.fleet.retain(|&other| other != replica);
                    self.handle(Event::Removed(replica));
                    self.ids.release(replica);
                    // Every later event about it is late.
                    self.handle(Event::Removed(replica));
                    self.handle(Event::Available(replica, true));
                }
            }
            2 => {
                if let Some(replica) = bytes.one_of(&self.fleet) {
                    let available = bytes.byte().is_multiple_of(2);
                    self.handle(Event::Available(replica, available));
                    self.handle(Event::Added(replica));
                }
            }
            3..=5 => self.query(bytes),
            6 | 7 => self.end_query(bytes),
            8 | 9 => self.report(bytes),
            10 => {
                if let Some(probe) = bytes.one_of(&self.probes) {
                    if bytes.byte().is_multiple_of(4) {
                        self.handle(Event::ProbeUnsent(probe));
                    } else {
                        self.handle(Event::ProbeLost(probe));
                    }
                }
            }
            11 => self.now += Duration::from_micros(u64::from(bytes.word() % 3_000_000)),
            12 => self.now = Instant::from_nanos(u64::from(bytes.word()) * 1_000),
            13 => {
                self.handle(Event::Timeout);
            }
            14 => self.finish_round(bytes),
            15 | 16 => {
                let report = Self::some_report(bytes);
                if let Some(replica) = bytes.one_of(&self.fleet) {
                    self.handle(Event::CarriedReport(replica, &report));
                }
            }
            17 => {
                // A large fleet is rare, because each step looks at all of it.
                let size = FLEET_MAX.saturating_sub(bytes.byte().into());
                while self.fleet.len() < size {
                    self.join();
                }
            }
            18 => self.sibling(bytes),
            19 => {
                // Few names, so that some replicas are parts of one server.
                let (name, part) = (u64::from(bytes.byte() % 32), u32::from(bytes.byte() % 4));
                if let Some(replica) = bytes.one_of(&self.fleet) {
                    self.handle(Event::Identified(replica, Identity { name, part }));
                }
            }
            _ => self.poll_probes(),
        }
    }

    /// Policies draw only for reports and timeouts.
    fn handle(&mut self, event: Event<'_>) {
        let draw: &mut dyn Draw = match event {
            Event::Report(..) | Event::SiblingReport(..) | Event::Timeout => &mut self.draw,
            _ => &mut NoDraw,
        };
        self.policy.handle(self.now, event, draw);
    }

    fn join(&mut self) {
        if let Some(replica) = self.ids.allocate() {
            self.fleet.push(replica);
            self.joined += 1;
            self.handle(Event::Added(replica));
        }
    }

    /// Adds reports that siblings received from some replicas, or queries that they sent to one.
    fn sibling(&mut self, bytes: &mut Bytes<'_>) {
        let report = Self::some_report(bytes);
        for _ in 0..bytes.byte() % 32 {
            if let Some(replica) = bytes.one_of(&self.fleet) {
                self.handle(Event::SiblingReport(replica, &report));
            }
        }
        if let Some(replica) = bytes.one_of(&self.fleet) {
            let queries = bytes.byte().into();
            self.handle(Event::SiblingQueries(replica, queries));
        }
    }

    fn query(&mut self, bytes: &mut Bytes<'_>) {
        let avoid: Vec<_> = (0..bytes.byte() % 4)
            .filter_map(|_| bytes.one_of(&self.fleet))
            .collect();
        let some = |bytes: &mut Bytes<'_>, at_least: u8| -> Vec<_> {
            let count = (bytes.byte() % 32).saturating_sub(at_least);
            (0..count)
                .filter_map(|_| bytes.one_of(&self.fleet))
                .collect()
        };
        let (among, homes) = (some(bytes, 20), some(bytes, 26));
        let mut query = match bytes.byte() % 4 {
            0 => Query::retry(&avoid),
            1 => Query::hedge(&avoid),
            _ => Query::first(),
        };
        (query.among, query.homes) = (&among, &homes);
        // A few keys are hot.
        let number = bytes.byte();
        let bits = (u64::MAX / 7).wrapping_mul((number % 9).into());
        query.key = (number < 200).then(|| KeyHash::from_bits(bits));
        let is_free =
            |it: &&ReplicaId| self.policy.fleet().is_available(**it) && !query.avoid.contains(it);
        let is_narrow = among.iter().take(16).any(|it| is_free(&it)) && homes.is_empty();
        let mut explanation = Explanation::new();
        let explained = Some(&mut explanation);
        match (self.policy).choose(self.now, query, &mut self.draw, explained) {
            Decision::Pick(pick) => {
                let replica = pick.ticket.replica();
                assert!(!query.avoid.contains(&replica), "it has been there");
                let is_inside = query.among.contains(&replica);
                assert!(is_inside || !is_narrow || self.is_watched, "{query:?}");
                check_key(&pick, &explanation, self.synchronous);
                self.picked(pick);
            }
            Decision::Probe(round) => {
                let targets: BTreeSet<_> = round.targets().collect();
                assert_eq!(targets.len(), round.targets().count(), "distinct");
                let most = usize::from(self.settings.sync_probes) + 1; // the scout
                assert!((2..=most).contains(&targets.len()));
                assert!(targets.iter().all(|target| !query.avoid.contains(target)));
                self.rounds.push(round);
            }
            Decision::NoReplica => {
                assert!(
                    self.fleet
                        .iter()
                        .all(|replica| query.avoid.contains(replica))
                        // A hedge goes to no unavailable replica.
                        || query.attempt == Attempt::Hedge && !query.avoid.is_empty()
                );
            }
        }
    }

    fn picked(&mut self, pick: Pick) {
        let replica = pick.ticket.replica();
        assert!(self.fleet.contains(&replica), "only the known are chosen");
        assert_ne!(pick.runner_up, Some(replica));
        if let Some(chosen) = pick.chosen {
            assert_eq!(chosen.replica, replica);
            assert!(chosen.uses_left >= 1);
        }
        self.tickets.push(pick.ticket);
    }

    fn end_query(&mut self, bytes: &mut Bytes<'_>) {
        if self.tickets.is_empty() {
            return;
        }
        let place = usize::from(bytes.byte()) % self.tickets.len();
        let mut ticket = self.tickets.swap_remove(place);
        if bytes.byte().is_multiple_of(2) {
            self.policy
                .handle_head(self.now, &mut ticket, Outcome::Success);
        }
        let outcome = bytes.one_of(&Outcome::ALL).unwrap_or(Outcome::Success);
        self.policy.handle_query_done(self.now, ticket, outcome);
    }

    fn some_report(bytes: &mut Bytes<'_>) -> LoadReport {
        let rif = Rif::new(if bytes.byte().is_multiple_of(8) {
            bytes.word()
        } else {
            bytes.byte().into()
        });
        let latency = match bytes.byte() % 4 {
            0 => None,
            1 => Some(Duration::MAX),
            _ => Some(Duration::from_micros(bytes.byte().into())),
        };
        let mut report = LoadReport::new(rif, latency);
        report.draining = bytes.byte().is_multiple_of(8);
        report.query_rate_millis = (!bytes.byte().is_multiple_of(4)).then(|| bytes.word());
        report.cpu_millionths = (!bytes.byte().is_multiple_of(4)).then(|| bytes.word());
        report.error_millionths = (!bytes.byte().is_multiple_of(2)).then(|| bytes.word());
        report.capacity_millirif = (!bytes.byte().is_multiple_of(8)).then(|| bytes.word() % 50_000);
        report.cost = match bytes.byte() % 4 {
            0 => None,
            1 => Some(Duration::MAX),
            _ => Some(Duration::from_micros(bytes.byte().into())),
        };
        report.load_scale = LoadScale::from_1024ths(u16::from(bytes.byte()) << 8);
        report
    }

    fn report(&mut self, bytes: &mut Bytes<'_>) {
        let report = Self::some_report(bytes);
        if let Some(probe) = bytes.one_of(&self.probes) {
            self.handle(Event::Report(probe, &report));
        }
    }

    fn finish_round(&mut self, bytes: &mut Bytes<'_>) {
        if self.rounds.is_empty() {
            return;
        }
        let place = usize::from(bytes.byte()) % self.rounds.len();
        let mut round = self.rounds.swap_remove(place);
        let targets: Vec<_> = round.targets().collect();
        for _ in 0..bytes.byte() % 10 {
            if let Some(target) = bytes.one_of(&targets) {
                if bytes.byte().is_multiple_of(4) {
                    round.handle_lost(target);
                } else {
                    round.handle_report(target, &Self::some_report(bytes));
                }
            }
        }
        match self
            .policy
            .choose(
                self.now,
                Query {
                    round: Some(&round),
                    ..Query::first()
                },
                &mut self.draw,
                None,
            )
            .pick()
        {
            Some(pick) => self.picked(pick),
            None => assert_eq!(self.fleet, [], "a replica could have been chosen"),
        }
    }

    fn poll_probes(&mut self) {
        while let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
            assert!(
                self.fleet.contains(&probe.replica),
                "only the known are probed"
            );
            self.probes.push(probe.id);
        }
        let oldest = self.probes.len().saturating_sub(255);
        self.probes.drain(..oldest);
    }

    fn check(&self) {
        let snapshot = self.policy.snapshot(self.now);
        assert!(snapshot.pool.len() <= self.kept_max);
        let pooled: BTreeSet<_> = snapshot.pool.iter().map(|view| view.replica).collect();
        assert_eq!(
            pooled.len(),
            snapshot.pool.len(),
            "one report for each replica"
        );
        for view in &snapshot.pool {
            assert!(view.uses_left >= 1 && view.age < self.settings.report_age_max);
        }
        let known: BTreeSet<_> = snapshot.replicas.iter().map(|view| view.replica).collect();
        assert_eq!(known, self.fleet.iter().copied().collect());
        for view in &snapshot.replicas {
            let out = self
                .tickets
                .iter()
                .filter(|ticket| ticket.replica() == view.replica)
                .count();
            assert_eq!(
                view.in_flight as usize, out,
                "in flight at {}",
                view.replica
            );
            assert!(view.available || !pooled.contains(&view.replica));
        }
        for view in snapshot.keys.iter().flat_map(|keys| &keys.partitions) {
            assert!(view.homes >= 1 && view.servers.len() <= 16, "{view:?}");
        }
        for view in &snapshot.health {
            let is_out = [HealthState::Ejected, HealthState::OnProbation].contains(&view.state);
            assert!(view.share_millionths <= 1_000_000 && view.success_millionths <= 1_000_000);
            assert_eq!(view.share_millionths == 0, is_out, "{view:?}");
            assert!(self.fleet.contains(&view.replica));
            assert!(!is_out || !self.policy.fleet().is_available(view.replica));
        }
        let counters = self.policy.counters();
        let ended = counters.probes_answered + counters.probes_lost + counters.probes_unsent;
        assert!(ended <= counters.probes_sent, "a probe has ended twice");
        let out = counters.probes_sent - ended;
        self.check_rate(&counters);
        // A replica's first two polls may be less than an interval apart.
        let most = if self.polls {
            2 * (self.joined + counters.health.readmissions)
        } else {
            self.settings.probes_outstanding_max.into()
        };
        assert!(self.synchronous || out <= most);
    }

    /// Checks that there are no more probes than the limit per second, plus a burst.
    fn check_rate(&self, counters: &Counters) {
        let per_second = u128::from(self.settings.probes_per_second_max);
        if per_second == 0 || self.synchronous || self.polls {
            return;
        }
        let burst = (per_second / 10).max(16);
        let flown = u128::from(self.now.as_nanos()) * per_second / 1_000_000_000;
        let sent = counters.probes_sent - counters.probes_unsent;
        assert!(u128::from(sent) <= burst + flown, "{sent} probes");
    }

    /// Ends every query and passes every deadline: then nothing is in flight.
    fn end(mut self) {
        for ticket in core::mem::take(&mut self.tickets) {
            self.policy
                .handle_query_done(self.now, ticket, Outcome::Dropped);
        }
        self.check();
        for round in core::mem::take(&mut self.rounds) {
            let _ = self
                .policy
                .choose(
                    self.now,
                    Query {
                        round: Some(&round),
                        ..Query::first()
                    },
                    &mut self.draw,
                    None,
                )
                .pick();
        }
        self.policy.handle(
            Instant::from_nanos(u64::MAX),
            Event::Timeout,
            &mut self.draw,
        );
        let counters = self.policy.counters();
        let late = if self.synchronous {
            counters.reports_late
        } else {
            0
        };
        let ended = counters.probes_answered + counters.probes_lost + counters.probes_unsent + late;
        assert_eq!(counters.probes_sent, ended, "every probe ends once");
        let _ = self.draw.draw();
    }
}
