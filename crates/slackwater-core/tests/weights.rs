//! Replicas of different sizes, with every policy: to the policy, a replica of weight w is w
//! replicas, each with 1/w of its load.
//!
//! A small simulation: each replica serves as many queries at once as its weight, first come, first
//! served, with work of random length; one client, Poisson arrivals. Shares must follow weights,
//! and so must the load of each.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking"
)]

use core::cmp::Reverse;
use core::num::NonZeroU32;
use core::time::Duration;
use slackwater_core::policy::{
    Decision, Event, Outcome, POLICIES, Policy, PolicySettings, Query, Ticket,
};
use slackwater_core::{Draw, Instant, LoadReport, NoDraw, ReplicaId, ReplicaIds, Rif, SplitMix64};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

const WEIGHTS: [u32; 4] = [1, 2, 4, 1];
const WORK_MEAN: Duration = Duration::from_millis(10);
const UTILIZATION: f64 = 0.6;

struct Machine {
    weight: u32,
    busy: u32,
    queue: VecDeque<usize>,
    in_flight: u32,
    finished: u64,
    /// The mean of recent latencies.
    latency: Option<Duration>,
}

struct Out {
    ticket: Ticket,
    machine: usize,
    sent_at: Instant,
}

struct World {
    policy: Box<dyn Policy>,
    draw: SplitMix64,
    now: Instant,
    machines: Vec<Machine>,
    /// The machine that each part belongs to.
    parts: BTreeMap<ReplicaId, usize>,
    out: Vec<Option<Out>>,
    ends: BinaryHeap<Reverse<(Instant, usize)>>,
    sent: Vec<u64>,
}

fn exponential(draw: &mut SplitMix64, mean: Duration) -> Duration {
    let uniform = (draw.draw() >> 11) as f64 / (1_u64 << 53) as f64;
    mean.mul_f64(-(1.0 - uniform).ln())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "what this simulation counts is small and not negative"
)]
fn whole(number: f64) -> u32 {
    number as u32
}

impl World {
    fn new(policy: Box<dyn Policy>) -> Self {
        let machine = |weight| Machine {
            weight,
            busy: 0,
            queue: VecDeque::new(),
            in_flight: 0,
            finished: 0,
            latency: None,
        };
        let mut world = Self {
            policy,
            draw: SplitMix64::new(11),
            now: Instant::EPOCH,
            machines: WEIGHTS.into_iter().map(machine).collect(),
            parts: BTreeMap::new(),
            out: Vec::new(),
            ends: BinaryHeap::new(),
            sent: vec![0; WEIGHTS.len()],
        };
        let mut ids = ReplicaIds::new();
        for (index, weight) in WEIGHTS.into_iter().enumerate() {
            for _ in 0..weight {
                let part = ids.allocate().unwrap();
                world
                    .policy
                    .handle(world.now, Event::Added(part), &mut NoDraw);
                world.parts.insert(part, index);
            }
        }
        world
    }

    fn report(&mut self, part: ReplicaId) -> LoadReport {
        let machine = &self.machines[self.parts[&part]];
        let mut report = LoadReport::new(Rif::new(machine.in_flight), machine.latency);
        let seconds = self
            .now
            .saturating_since(Instant::EPOCH)
            .as_secs_f64()
            .max(1e-3);
        let rate = machine.finished as f64 / seconds;
        let busy = rate * WORK_MEAN.as_secs_f64() / f64::from(machine.weight);
        report.cpu_millionths = Some(whole(busy * 1e6));
        report.query_rate_millis = Some(whole(rate * 1e3));
        report.of_part(NonZeroU32::new(machine.weight).unwrap(), &mut self.draw)
    }

    fn probe(&mut self) {
        while let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
            let report = self.report(probe.replica);
            self.policy
                .handle(self.now, Event::Report(probe.id, &report), &mut self.draw);
        }
    }

    fn timeouts(&mut self) {
        while self.policy.poll_timeout().is_some_and(|at| at <= self.now) {
            self.policy.handle(self.now, Event::Timeout, &mut self.draw);
            self.probe();
        }
    }

    fn query(&mut self) {
        let query = Query::first();
        let decision = self.policy.choose(self.now, query, &mut self.draw, None);
        let pick = match decision {
            Decision::Pick(pick) => Some(pick),
            Decision::Probe(mut round) => {
                let targets: Vec<_> = round.targets().collect();
                for part in targets {
                    let report = self.report(part);
                    round.handle_report(part, &report);
                }
                self.policy
                    .choose(
                        self.now,
                        Query {
                            round: Some(&round),
                            ..query
                        },
                        &mut self.draw,
                        None,
                    )
                    .pick()
            }
            Decision::NoReplica => None,
        };
        let ticket = pick.expect("there are replicas").ticket;
        let machine = self.parts[&ticket.replica()];
        self.sent[machine] += 1;
        self.machines[machine].in_flight += 1;
        let number = self.out.len();
        self.out.push(Some(Out {
            ticket,
            machine,
            sent_at: self.now,
        }));
        self.machines[machine].queue.push_back(number);
        self.serve(machine);
        self.probe();
    }

    fn serve(&mut self, machine: usize) {
        let Machine { weight, .. } = self.machines[machine];
        while self.machines[machine].busy < weight {
            let Some(number) = self.machines[machine].queue.pop_front() else {
                return;
            };
            self.machines[machine].busy += 1;
            let work = exponential(&mut self.draw, WORK_MEAN);
            self.ends.push(Reverse((self.now + work, number)));
        }
    }

    fn end(&mut self, number: usize) {
        let Out {
            ticket,
            machine,
            sent_at,
        } = self.out[number].take().expect("each ends once");
        let took = self.now.saturating_since(sent_at);
        let own = &mut self.machines[machine];
        own.busy -= 1;
        own.in_flight -= 1;
        own.finished += 1;
        own.latency = Some(own.latency.map_or(took, |mean| (mean * 15 + took) / 16));
        self.policy
            .handle_query_done(self.now, ticket, Outcome::Success);
        self.serve(machine);
        self.probe();
    }

    fn run(&mut self, queries: usize) {
        let room = f64::from(WEIGHTS.iter().sum::<u32>());
        let gap = WORK_MEAN.div_f64(room * UTILIZATION);
        let mut next = self.now;
        for _ in 0..queries {
            next += exponential(&mut self.draw, gap);
            loop {
                let end = self.ends.peek().map(|Reverse((at, _))| *at);
                let timeout = self.policy.poll_timeout();
                let Some(event) = end
                    .into_iter()
                    .chain(timeout)
                    .min()
                    .filter(|at| *at <= next)
                else {
                    break;
                };
                self.now = self.now.max(event);
                self.timeouts();
                if end.is_some_and(|at| at <= self.now) {
                    let Reverse((_, number)) = self.ends.pop().expect("peeked");
                    self.end(number);
                }
            }
            self.now = next;
            self.query();
        }
    }
}

#[test]
fn shares_follow_weights_with_every_policy() {
    for entry in POLICIES {
        let mut world = World::new((entry.build)(&PolicySettings::default()));
        // A warm-up until each policy has data about its replicas.
        world.run(4_000);
        world.sent.fill(0);
        world.run(20_000);
        let sum = WEIGHTS.iter().sum::<u32>();
        for (index, weight) in WEIGHTS.into_iter().enumerate() {
            let share = world.sent[index] as f64 / 20_000.0;
            let due = f64::from(weight) / f64::from(sum);
            // A replica that serves one at a time has longer waits than one that serves four, and
            // policies by latency give it a little less. Without weights these ratios would be 0.5
            // and 2.
            let ratio = share / due;
            assert!(
                (0.7..1.3).contains(&ratio),
                "{}: replica {index} of weight {weight} got {ratio:.3} of its share",
                entry.name
            );
        }
    }
}

#[test]
fn part_of_a_report_has_its_mean_share_of_load() {
    let mut draw = SplitMix64::new(2);
    for (rif, parts) in [
        (0_u32, 3_u32),
        (1, 3),
        (7, 3),
        (8, 4),
        (9, 2),
        (u32::MAX, 2),
    ] {
        let report = LoadReport::new(Rif::new(rif), Some(WORK_MEAN));
        let parts = NonZeroU32::new(parts).unwrap();
        let mut sum = 0_u64;
        for _ in 0..10_000 {
            let part = report.of_part(parts, &mut draw);
            assert_eq!(part.latency, report.latency, "that of the whole");
            assert!(part.rif.count().abs_diff(rif / parts) <= 1);
            sum += u64::from(part.rif.count());
        }
        let mean = sum as f64 / 10_000.0;
        let due = f64::from(rif) / f64::from(parts.get());
        assert!(
            (mean - due).abs() <= due * 1e-6 + 0.03,
            "{rif}/{parts}: {mean}"
        );
    }
    let mut whole = LoadReport::new(Rif::new(5), None);
    whole.query_rate_millis = Some(900);
    whole.capacity_millirif = Some(6000);
    whole.cpu_millionths = Some(500_000);
    let part = whole.of_part(NonZeroU32::new(3).unwrap(), &mut draw);
    assert_eq!(part.query_rate_millis, Some(300));
    assert_eq!(part.capacity_millirif, Some(2000));
    assert_eq!(part.cpu_millionths, Some(500_000), "a share already");
    let no_draw = &mut || -> u64 { unreachable!("a whole needs no draw") };
    assert_eq!(whole.of_part(NonZeroU32::MIN, no_draw), whole);
}
