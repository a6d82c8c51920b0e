//! A latency of zero is unknown, in any report and for any policy.

use crate::world::{MS, World, quiet_default};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::health::{HealthSettings, ProbationSettings, guard};
use slackwater_core::policy::{
    DEFAULT_POLICY, Decision, Event, Outcome, POLICIES, Pick, Policy, PolicyEntry, PolicySettings,
    ProbeRound, Query, Settings, ShortestExpectedDelay, ShortestExpectedDelayConfig, Ticket,
};
use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64};

/// How unknown latencies are reported.
#[derive(Clone, Copy, Debug)]
enum Reported {
    Zero,
    Absent,
}

/// A policy that is driven at random, always in the same way.
struct Driven {
    policy: Box<dyn Policy>,
    reported: Reported,
    replicas: Vec<ReplicaId>,
    now: Instant,
    chance: SplitMix64,
    draw: SplitMix64,
    tickets: Vec<Ticket>,
    /// Its choices, with reasons.
    log: Vec<String>,
}

impl Driven {
    fn handle(&mut self, event: Event<'_>) {
        self.policy.handle(self.now, event, &mut self.draw);
    }

    fn new(entry: &PolicyEntry, reported: Reported, seed: u64, is_guarded: bool) -> Self {
        let mut policy = (entry.build)(&PolicySettings::default());
        if is_guarded {
            let mut settings = HealthSettings::default();
            settings.probation = Some(ProbationSettings::default());
            policy = guard(policy, &settings.validate().expect("in range"));
        }
        let mut ids = ReplicaIds::new();
        let replicas: Vec<_> = (0..5).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        Self {
            policy,
            reported,
            replicas,
            now: Instant::EPOCH,
            chance: SplitMix64::new(seed),
            draw: SplitMix64::new(!seed),
            tickets: Vec::new(),
            log: Vec::new(),
        }
    }

    fn below(&mut self, bound: u32) -> u32 {
        below(&mut self.chance, bound)
    }

    /// Half of the replicas report their latency now and then, the others never.
    fn report(&mut self, replica: ReplicaId) -> LoadReport {
        let rif = Rif::new(self.below(9));
        let has_latency = self.replicas.iter().position(|&other| other == replica) >= Some(2);
        let latency_ms = u64::from(self.below(30)) * u64::from(has_latency);
        let mut report = LoadReport::new(rif, None);
        // Sets the field itself: an adapter may set it to anything.
        report.latency = match (latency_ms, self.reported) {
            (0, Reported::Zero) => Some(Duration::ZERO),
            (0, Reported::Absent) => None,
            (known, _) => Some(Duration::from_millis(known)),
        };
        report.capacity_millirif = Some(4_000);
        report.cost = Some(MS);
        report.cpu_millionths = Some(500_000);
        report.query_rate_millis = Some(50_000);
        report
    }

    fn round(&mut self, mut round: ProbeRound) -> Option<Pick> {
        let targets: Vec<_> = round.targets().collect();
        for target in targets {
            let report = self.report(target);
            round.handle_report(target, &report);
        }
        (self.policy)
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
    }

    fn query(&mut self) {
        let decision = (self.policy).choose(self.now, Query::first(), &mut self.draw, None);
        let pick = match decision {
            Decision::Pick(pick) => Some(pick),
            Decision::Probe(round) => self.round(round),
            Decision::NoReplica => None,
        };
        let pick = pick.expect("there are replicas");
        self.log.push(format!("{pick:?}"));
        self.tickets.push(pick.ticket);
    }

    fn step(&mut self) {
        match self.below(10) {
            0..4 => self.query(),
            4..7 if !self.tickets.is_empty() => {
                let place = self.below(u32::try_from(self.tickets.len()).expect("few"));
                let ticket = self.tickets.swap_remove(place as usize);
                (self.policy).handle_query_done(self.now, ticket, Outcome::Success);
            }
            7 => {
                let place = self.below(5);
                let replica = self.replicas[place as usize];
                let report = self.report(replica);
                self.handle(Event::CarriedReport(replica, &report));
            }
            8 => {
                let place = self.below(5);
                let replica = self.replicas[place as usize];
                let report = self.report(replica);
                self.handle(Event::SiblingReport(replica, &report));
            }
            _ => {
                let span = MS * self.below(20);
                self.now += span;
            }
        }
        self.handle(Event::Timeout);
        while let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
            let report = self.report(probe.replica);
            self.handle(Event::Report(probe.id, &report));
        }
    }

    /// All choices in `steps` steps, and everything that can be seen of the policy then.
    fn played(mut self, steps: u32) -> Vec<String> {
        for _ in 0..steps {
            self.step();
        }
        let snapshot = self.policy.snapshot(self.now);
        self.log.push(format!("{snapshot:?}"));
        self.log.push(format!("{:?}", self.policy.counters()));
        self.log
    }
}

#[test]
fn every_policy_treats_zero_latency_as_unknown() {
    for entry in POLICIES {
        for seed in 0..8 {
            for is_guarded in [false, true] {
                let [zero, absent] = [Reported::Zero, Reported::Absent]
                    .map(|reported| Driven::new(entry, reported, seed, is_guarded).played(600));
                let differs = zero
                    .iter()
                    .zip(&absent)
                    .position(|(zero, absent)| zero != absent);
                assert_eq!(differs, None, "{}, seed {seed}", entry.name);
                assert!(zero.len() > 100, "{}", entry.name);
            }
        }
    }
}

/// How many of 150 queries, each ended at once, each replica gets. They report this RIF and no
/// latency.
fn shares(rifs: &[u32], latency: impl Fn(usize) -> Duration) -> Vec<usize> {
    let config = quiet_default().validate().expect("in range");
    let policy = ShortestExpectedDelay::new(config, &ShortestExpectedDelayConfig::default());
    assert_eq!(policy.name(), DEFAULT_POLICY.name);
    let mut world = World::of(rifs.len(), policy);
    for _ in 0..10 {
        for (place, &rif) in rifs.iter().enumerate() {
            let report = LoadReport::new(Rif::new(rif), Some(latency(place)));
            world.report(world.replicas[place], &report);
        }
    }
    let mut shares = vec![0; rifs.len()];
    for _ in 0..150 {
        let pick = world.pick();
        let chosen = pick.ticket.replica();
        let place = world.replicas.iter().position(|&other| other == chosen);
        shares[place.expect("one of the fleet")] += 1;
        (world.policy).handle_query_done(world.now, pick.ticket, Outcome::Success);
    }
    shares
}

#[test]
fn default_policy_uses_rif_if_all_report_zero_latency() {
    let shares = shares(&[50, 1, 1], |_| Duration::ZERO);
    assert_eq!(shares[0], 0, "{shares:?}");
    assert_eq!(shares[1], 75, "the others take turns: {shares:?}");
}

#[test]
fn replicas_reporting_zero_latency_are_no_faster() {
    let latency = |place: usize| [Duration::ZERO, 5 * MS][place % 2];
    let even = shares(&[2, 2, 2, 2], latency);
    assert!(
        even.iter().all(|&share| (37..=38).contains(&share)),
        "{even:?}"
    );
    let busy = shares(&[50, 2, 50, 2], latency);
    assert_eq!(
        busy,
        [0, 75, 0, 75],
        "not even where they have 50 in flight"
    );
}
