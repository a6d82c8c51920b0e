//! Plays the pure values in virtual time to check that the demo's defaults make its point with any
//! seed: a balancer that observes the replicas' load is several times better at the 99th percentile
//! than one that does not.
//!
//! `cargo test -p slackwater calibration -- --nocapture` prints the figures. Prequal itself is
//! absent on purpose. The shortest queue, known exactly and immediately, is the simplest rule that
//! observes load, and it bounds what the demo can show.

use core::fmt;
use core::time::Duration;

use tokio::time::Instant;

use super::World;
use super::draw::{Draws, Stream};
use super::neighbours::Neighbours;
use super::processor::{JobId, Processor};

const REPLICAS: usize = 10;
const REQUESTS_PER_SECOND: f64 = 400.0;
const SPAN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
enum Rule {
    Random,
    RoundRobin,
    ShortestQueue,
}

/// One replica, and the arrival times of its jobs.
struct Played {
    processor: Processor,
    neighbours: Neighbours,
    arrived: Vec<(JobId, Duration)>,
}

/// One fleet under one rule.
struct Play {
    fleet: Vec<Played>,
    rule: Rule,
    draws: Draws,
    sent: usize,
    refused: usize,
    jobs_high: usize,
    work: Duration,
    /// Capacity of the fleet over time, in core-seconds.
    offered: f64,
    latencies: Vec<Duration>,
}

impl Play {
    /// Plays `SPAN` of Poisson arrivals, and then lets the jobs in flight finish.
    fn run(world: &World, rule: Rule) -> Self {
        let replica = |index| {
            let neighbours = world.neighbours(index);
            let processor = Processor::new(world.jobs_max, neighbours.capacity());
            Played {
                processor,
                neighbours,
                arrived: Vec::new(),
            }
        };
        let mut play = Self {
            fleet: (0..world.replicas).map(replica).collect(),
            rule,
            draws: Draws::new(world.seed, Stream::Test, 10),
            sent: 0,
            refused: 0,
            jobs_high: 0,
            work: Duration::ZERO,
            offered: 0.0,
            latencies: Vec::new(),
        };
        let mut arrivals = Draws::new(world.seed, Stream::Test, 11);
        let mut now = Duration::ZERO;
        while now < SPAN {
            now += arrivals.exponential(Duration::from_secs(1).div_f64(REQUESTS_PER_SECOND));
            play.run_until(now);
            let work = world.costs.numbered(play.sent as u64);
            play.send(now, work);
        }
        play.run_until(Duration::from_mins(10));
        play.latencies.sort_unstable();
        play
    }

    fn run_until(&mut self, end: Duration) {
        for replica in &mut self.fleet {
            loop {
                let changes = replica.neighbours.next_change();
                let completes = replica.processor.next_completion().unwrap_or(Duration::MAX);
                let now = changes.min(completes);
                if now > end {
                    break;
                }
                while let Some(job) = replica.processor.poll_completed(now) {
                    let at = replica.arrived.iter().position(|(other, _)| *other == job);
                    let (_, arrived) = replica.arrived.swap_remove(at.expect("a job that arrived"));
                    self.latencies.push(now.saturating_sub(arrived));
                }
                if replica.neighbours.poll_change(now).is_some() {
                    replica
                        .processor
                        .set_capacity(now, replica.neighbours.capacity());
                    let next = replica.neighbours.next_change().min(SPAN);
                    let span = next.saturating_sub(now).as_secs_f64();
                    self.offered += replica.neighbours.capacity().as_f64() * span;
                }
            }
        }
    }

    fn send(&mut self, now: Duration, work: Duration) {
        let chosen = self.pick();
        let replica = &mut self.fleet[chosen];
        match replica.processor.arrive(now, work) {
            Ok(job) => replica.arrived.push((job, now)),
            Err(_) => self.refused += 1,
        }
        self.sent += 1;
        self.work += work;
        self.jobs_high = self.jobs_high.max(replica.processor.jobs());
    }

    fn pick(&mut self) -> usize {
        let jobs = |index: usize| self.fleet[index].processor.jobs();
        let replicas = 0..self.fleet.len();
        match self.rule {
            Rule::Random => self.draws.below(replicas.len()),
            Rule::RoundRobin => self.sent % replicas.len(),
            Rule::ShortestQueue => {
                let least = replicas
                    .clone()
                    .map(jobs)
                    .min()
                    .expect("a fleet is not empty");
                let shortest: Vec<usize> = replicas.filter(|&index| jobs(index) == least).collect();
                shortest[self.draws.below(shortest.len())]
            }
        }
    }

    fn quantile(&self, per_mille: usize) -> Duration {
        self.latencies[(self.latencies.len() * per_mille / 1_000).min(self.latencies.len() - 1)]
    }

    fn utilisation(&self) -> f64 {
        self.work.as_secs_f64() / self.offered
    }
}

impl fmt::Display for Play {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |per_mille| self.quantile(per_mille).as_millis();
        write!(
            f,
            "{:>13}: p50 {:3} p90 {:4} ",
            format!("{:?}", self.rule),
            ms(500),
            ms(900)
        )?;
        write!(
            f,
            "p99 {:5} p99.9 {:5} max {:5} ms, ",
            ms(990),
            ms(999),
            ms(1_000)
        )?;
        write!(f, "{} sent, {} refused, ", self.sent, self.refused)?;
        write!(
            f,
            "most jobs {:3}, utilisation {:.2}",
            self.jobs_high,
            self.utilisation()
        )
    }
}

#[test]
fn shortest_queue_halves_tail_latency_with_any_seed() {
    for seed in 1..=8 {
        let world = World::for_load(seed, REPLICAS, REQUESTS_PER_SECOND, Instant::now());
        let rules = [Rule::Random, Rule::RoundRobin, Rule::ShortestQueue];
        let plays = rules.map(|rule| Play::run(&world, rule));
        for play in &plays {
            println!("seed {seed} {play}");
            assert_eq!(play.refused, 0, "seed {seed}: no query is rejected");
            assert!(
                (0.52..0.72).contains(&play.utilisation()),
                "seed {seed}: {play}"
            );
        }
        let [random, round_robin, shortest] = plays.map(|play| play.quantile(990));
        assert!(shortest * 2 <= random.min(round_robin), "seed {seed}");
    }
}
