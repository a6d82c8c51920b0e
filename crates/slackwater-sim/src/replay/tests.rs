//! Records each policy of the registry, with health around it, through everything that can happen
//! to it, and plays the recording again.

use super::exact::{Difference, Player};
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::health::{HealthSettings, build};
use slackwater_core::policy::{
    Decision, Event, Outcome, POLICIES, Pick, Policy, PolicyEntry, PolicySettings, ProbeId,
    ProbeRound, Query, Settings, Ticket, policy_named,
};
use slackwater_core::{Instant, LoadReport, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64};
use slackwater_recording::{Bytes, Decoder, Entry, Sink, record};
use std::sync::{Arc, Mutex};

const SEED: u64 = 77;

/// A sink that keeps up to this many blocks.
#[derive(Debug)]
struct Memory {
    blocks: Mutex<Vec<Vec<u8>>>,
    blocks_max: usize,
}

impl Memory {
    fn new(blocks_max: usize) -> Arc<Self> {
        Arc::new(Self {
            blocks: Mutex::default(),
            blocks_max,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        self.blocks.lock().expect("no thread panicked").concat()
    }
}

impl Sink for Memory {
    fn take(&self, stream: u32, events: Vec<u8>) -> bool {
        assert_eq!(stream, 5);
        let mut blocks = self.blocks.lock().expect("no thread panicked");
        let has_room = blocks.len() < self.blocks_max;
        if has_room {
            blocks.push(events);
        }
        has_room
    }
}

fn policy(entry: &PolicyEntry) -> Box<dyn Policy> {
    let mut settings = HealthSettings::default();
    settings.shadow_trials = true;
    settings.back_off = Duration::from_millis(50);
    let health = settings.validate().expect("they make sense");
    build(entry, &PolicySettings::default(), &health)
}

/// A driver that makes random calls.
struct Driver {
    policy: Box<dyn Policy>,
    draw: SplitMix64,
    now: Instant,
    ids: ReplicaIds,
    members: Vec<ReplicaId>,
    gone: Option<ReplicaId>,
    out: Vec<Ticket>,
    rounds: Vec<ProbeRound>,
    probes: Vec<ProbeId>,
    picks: u64,
}

impl Driver {
    fn new(policy: Box<dyn Policy>) -> Self {
        let mut driver = Self {
            policy,
            draw: SplitMix64::new(3),
            now: Instant::EPOCH,
            ids: ReplicaIds::new(),
            members: Vec::new(),
            gone: None,
            out: Vec::new(),
            rounds: Vec::new(),
            probes: Vec::new(),
            picks: 0,
        };
        for _ in 0..6 {
            driver.join();
        }
        driver
    }

    fn below(&mut self, bound: usize) -> usize {
        let bound = u32::try_from(bound).expect("few");
        below(&mut self.draw, bound) as usize
    }

    fn member(&mut self) -> ReplicaId {
        let index = self.below(self.members.len());
        self.members[index]
    }

    fn handle(&mut self, event: Event<'_>) {
        self.policy.handle(self.now, event, &mut self.draw);
    }

    fn join(&mut self) {
        let id = self.ids.allocate().expect("room");
        self.members.push(id);
        self.handle(Event::Added(id));
    }

    fn leave(&mut self) {
        if self.members.len() > 3 {
            let index = self.below(self.members.len());
            let id = self.members.swap_remove(index);
            self.handle(Event::Removed(id));
            self.ids.release(id);
            self.gone = Some(id);
        }
    }

    fn picked(&mut self, pick: Option<Pick>) {
        if let Some(pick) = pick {
            self.picks += 1;
            self.out.push(pick.ticket);
        }
    }

    fn ask(&mut self) {
        let avoid = [self.member(), self.gone.unwrap_or_else(|| self.members[0])];
        let query = match self.below(10) {
            0 => Query::retry(&avoid),
            1 => Query::hedge(&avoid[..1]),
            2 => Query::pinned(avoid[1]),
            3 => Query::with_room(avoid[0]),
            _ => Query::first(),
        };
        match self.policy.choose(self.now, query, &mut self.draw, None) {
            Decision::Pick(pick) => self.picked(Some(pick)),
            Decision::Probe(round) => self.rounds.push(round),
            Decision::NoReplica => (),
        }
    }

    fn end_round(&mut self) {
        if self.rounds.is_empty() {
            return;
        }
        let index = self.below(self.rounds.len());
        let mut round = self.rounds.swap_remove(index);
        let targets: Vec<_> = round.targets().collect();
        for target in targets {
            match self.below(4) {
                0 => round.handle_lost(target),
                1 => (),
                _ => {
                    let report = self.report();
                    round.handle_report(target, &report);
                }
            }
        }
        let query = Query::first();
        let pick = (self.policy)
            .choose(
                self.now,
                Query {
                    round: Some(&round),
                    ..query
                },
                &mut self.draw,
                None,
            )
            .pick();
        self.picked(pick);
    }

    fn report(&mut self) -> LoadReport {
        let rif = u32::try_from(self.below(20)).expect("few");
        let latency = Duration::from_micros(self.below(90_000) as u64);
        let mut report = LoadReport::new(Rif::new(rif), (rif != 3).then_some(latency));
        report.draining = self.below(40) == 0;
        report.incarnation = Some(self.below(3) as u64);
        report.cpu_millionths = Some(u32::try_from(self.below(4) * 100_000).expect("few"));
        report.query_rate_millis = Some(10_000);
        report
    }

    fn end_query(&mut self) {
        if self.out.is_empty() {
            return;
        }
        let index = self.below(self.out.len());
        let mut ticket = self.out.swap_remove(index);
        // One replica fails often, so that health reacts.
        let outcome = match self.below(20) {
            0 => Outcome::PushedBack,
            1 => Outcome::Dropped,
            2..15 if ticket.replica().index() == 1 => Outcome::Failed,
            _ => Outcome::Success,
        };
        if self.below(2) == 0 {
            self.policy.handle_head(self.now, &mut ticket, outcome);
            self.now += Duration::from_micros(300);
        }
        self.policy.handle_query_done(self.now, ticket, outcome);
    }

    fn answer_probe(&mut self) {
        if self.probes.is_empty() {
            return;
        }
        let index = self.below(self.probes.len());
        let probe = self.probes.swap_remove(index);
        let report = self.report();
        let (now, draw) = (self.now, &mut self.draw);
        match below(draw, 12) {
            0 => self.policy.handle(now, Event::ProbeLost(probe), draw),
            1 => self.policy.handle(now, Event::ProbeUnsent(probe), draw),
            _ => self.policy.handle(now, Event::Report(probe, &report), draw),
        }
    }

    fn hear_of_others(&mut self) {
        let replica = self.member();
        let report = self.report();
        let (now, draw) = (self.now, &mut self.draw);
        match below(draw, 4) {
            0 => (self.policy).handle(now, Event::SiblingReport(replica, &report), draw),
            1 => self
                .policy
                .handle(now, Event::SiblingQueries(replica, 2), draw),
            _ => self
                .policy
                .handle(now, Event::CarriedReport(replica, &report), &mut NoDraw),
        }
    }

    fn step(&mut self) {
        // Sometimes no time passes, and rarely the clock steps back.
        let passed = Duration::from_micros([0, 300, 2_000][self.below(3)]);
        self.now += passed;
        if self.below(500) == 0 {
            self.now = Instant::from_nanos(self.now.as_nanos().saturating_sub(5_000_000));
        }
        match self.below(200) {
            0 => self.join(),
            1 => self.leave(),
            2..6 => {
                let (replica, available) = (self.member(), self.below(3) > 0);
                self.handle(Event::Available(replica, available));
            }
            6..12 => self.hear_of_others(),
            12..90 => self.ask(),
            90..130 => self.end_query(),
            130..170 => self.answer_probe(),
            _ => self.end_round(),
        }
        if self.out.len() > 60 {
            self.end_query();
        }
        if self.policy.wants_trial() {
            let pick = self
                .policy
                .choose(self.now, Query::trial(), &mut self.draw, None)
                .pick();
            self.picked(pick);
        }
        if (self.policy.poll_timeout()).is_some_and(|due| due <= self.now) {
            self.handle(Event::Timeout);
        }
        while let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
            self.probes.push(probe.id);
        }
    }
}

/// Records this many steps of a policy. Returns the number of picks.
fn recorded(entry: &PolicyEntry, steps: u32, memory: &Arc<Memory>) -> u64 {
    let sink: Arc<dyn Sink> = Arc::clone(memory) as _;
    let (policy, stream) = record(policy(entry), SEED, 5, sink);
    let mut driver = Driver::new(policy);
    stream.name(driver.members[0], "the first");
    for _ in 0..steps {
        driver.step();
    }
    driver.picks
}

fn replayed(entry: &PolicyEntry, seed: u64, bytes: &[u8]) -> Result<Player, Difference> {
    let mut player = Player::new(policy(entry), seed);
    let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(bytes));
    while !rest.is_empty() {
        let (at, event) = decoder.take(&mut rest).expect("what was written");
        player.play(at, &event)?;
    }
    Ok(player)
}

#[test]
fn every_policy_repeats_its_recorded_picks() {
    for entry in POLICIES {
        let memory = Memory::new(usize::MAX);
        let picks = recorded(entry, 20_000, &memory);
        let player = replayed(entry, SEED, &memory.bytes());
        let player = player.unwrap_or_else(|difference| panic!("{}: {difference}", entry.name));
        assert_eq!(player.picks(), picks, "{}", entry.name);
        assert!(picks > 2_000, "{}: {picks}", entry.name);
    }
}

#[test]
fn different_seed_is_detected() {
    for entry in POLICIES {
        let memory = Memory::new(usize::MAX);
        recorded(entry, 2_000, &memory);
        let difference = replayed(entry, SEED + 1, &memory.bytes());
        let difference = difference.expect_err(entry.name);
        assert_ne!(difference.recorded, difference.replayed, "{}", entry.name);
    }
}

#[test]
fn different_policy_is_detected() {
    let entry = |name| policy_named(name).expect("it is listed");
    let memory = Memory::new(usize::MAX);
    recorded(entry("least_loaded"), 2_000, &memory);
    let difference = replayed(entry("round_robin"), SEED, &memory.bytes());
    let difference = difference.expect_err("it goes by turns");
    let told = difference.to_string();
    assert!(
        told.contains("recorded") && told.contains("least_loaded"),
        "{told}"
    );
}

#[test]
fn each_missing_input_is_detected() {
    // Without one report, failure or member, the results differ sooner or later.
    let entry = policy_named("prequal").expect("it is listed");
    let memory = Memory::new(usize::MAX);
    recorded(entry, 6_000, &memory);
    let bytes = memory.bytes();
    let leaves_out: [fn(&Entry<'_>) -> bool; 5] = [
        |entry| matches!(entry, Entry::Event(Event::Report(..))),
        |entry| matches!(entry, Entry::Done { .. }),
        |entry| matches!(entry, Entry::Event(Event::Removed(_))),
        |entry| matches!(entry, Entry::Event(Event::Available(..))),
        |entry| matches!(entry, Entry::Event(Event::Timeout | Event::ProbeLost(_))),
    ];
    for (number, leaves_out) in leaves_out.into_iter().enumerate() {
        let mut player = Player::new(policy(entry), SEED);
        let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(&bytes));
        let mut outcome = Ok(());
        while !rest.is_empty() && outcome.is_ok() {
            let (at, event) = decoder.take(&mut rest).expect("what was written");
            if !leaves_out(&event) {
                outcome = player.play(at, &event);
            }
        }
        assert!(outcome.is_err(), "{number} is not missed");
    }
}

#[test]
fn full_sink_ends_the_stream_at_a_block_boundary() {
    let entry = policy_named("prequal").expect("it is listed");
    let all = Memory::new(usize::MAX);
    let picks = recorded(entry, 20_000, &all);
    let memory = Memory::new(2);
    recorded(entry, 20_000, &memory);
    let (bytes, whole) = (memory.bytes(), all.bytes());
    assert!(whole.starts_with(&bytes) && bytes.len() < whole.len());
    let player = replayed(entry, SEED, &bytes).expect("the same up to there");
    assert!((1..picks).contains(&player.picks()), "{}", player.picks());
}
