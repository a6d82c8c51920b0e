//! Plays the pure values in virtual time, to see that the defaults make the point of the demo for any seed: balancing
//! that sees the replicas' load is several times better at the 99th percentile than balancing that does not.

use core::time::Duration;

use super::cost::Costs;
use super::draw::{Draws, Stream};
use super::neighbours::{Neighbourhood, Neighbours};
use super::processor::{JobId, Processor};

const REPLICAS: usize = 10;
const RATE_PER_S: f64 = 400.0;
const SPAN: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Picks {
    Random,
    RoundRobin,
    ShortestQueue,
}

/// What the requests of one run met.
struct Outcome {
    latencies: Vec<Duration>,
    refused: usize,
    jobs_high: usize,
    work: Duration,
    capacity: f64,
}

impl Outcome {
    fn quantile(&self, quantile: f64) -> Duration {
        self.latencies[((self.latencies.len() - 1) as f64 * quantile) as usize]
    }
}

struct Played {
    processor: Processor,
    neighbours: Neighbours,
    arrived: Vec<(JobId, Duration)>,
}

impl Played {
    fn next_event(&self) -> Duration {
        let completion = self.processor.next_completion().unwrap_or(Duration::MAX);
        completion.min(self.neighbours.next_change())
    }
}

fn play(picks: Picks, seed: u64) -> Outcome {
    let hood = Neighbourhood::default();
    let mut fleet: Vec<Played> = (0..REPLICAS)
        .map(|index| {
            let neighbours = Neighbours::new(&hood, seed, index, REPLICAS);
            let processor = Processor::new(super::machine::JOBS_MAX, neighbours.capacity());
            Played { processor, neighbours, arrived: Vec::new() }
        })
        .collect();
    let costs = Costs::new(seed, Costs::MEAN_BEFORE_CLIP);
    let mut arrivals = Draws::new(seed, Stream::Test, 10);
    let mut choices = Draws::new(seed, Stream::Test, 11);
    let mut outcome =
        Outcome { latencies: Vec::new(), refused: 0, jobs_high: 0, work: Duration::ZERO, capacity: 0.0 };
    let (mut number, mut arrival) = (0_u64, Duration::ZERO);
    loop {
        let at = fleet.iter().map(Played::next_event).min().unwrap().min(arrival);
        for replica in &mut fleet {
            while let Some(job) = replica.processor.poll_completed(at) {
                let place = replica.arrived.iter().position(|(other, _)| *other == job).unwrap();
                outcome.latencies.push(at - replica.arrived.swap_remove(place).1);
            }
            while let Some(changed) = replica.neighbours.poll_change(at) {
                replica.processor.set_capacity(changed, replica.neighbours.capacity());
                if changed <= SPAN {
                    outcome.capacity += replica.neighbours.capacity().as_f64() / 300.0;
                }
            }
        }
        if at < arrival {
            continue;
        }
        if arrival > SPAN {
            if fleet.iter().all(|replica| replica.processor.jobs() == 0) {
                outcome.latencies.sort_unstable();
                return outcome;
            }
            arrival += Duration::from_millis(10);
            continue;
        }
        let chosen = match picks {
            Picks::Random => choices.below(REPLICAS),
            Picks::RoundRobin => usize::try_from(number).unwrap() % REPLICAS,
            Picks::ShortestQueue => {
                let least = fleet.iter().map(|replica| replica.processor.jobs()).min().unwrap();
                let shortest: Vec<usize> =
                    (0..REPLICAS).filter(|&index| fleet[index].processor.jobs() == least).collect();
                shortest[choices.below(shortest.len())]
            }
        };
        let work = costs.numbered(number);
        outcome.work += work;
        match fleet[chosen].processor.arrive(at, work) {
            Ok(job) => fleet[chosen].arrived.push((job, at)),
            Err(_) => outcome.refused += 1,
        }
        outcome.jobs_high = outcome.jobs_high.max(fleet[chosen].processor.jobs());
        number += 1;
        arrival += arrivals.exponential(Duration::from_secs_f64(1.0 / RATE_PER_S));
    }
}

#[test]
fn seeing_the_load_is_several_times_better_at_the_tail_whatever_the_seed() {
    for seed in 0..20 {
        let runs = [Picks::Random, Picks::RoundRobin, Picks::ShortestQueue].map(|picks| play(picks, seed));
        for (run, name) in runs.iter().zip(["random", "round robin", "shortest queue"]) {
            println!(
                "seed {seed:2} {name:14} p50 {:6.1} p90 {:6.1} p99 {:7.1} p99.9 {:7.1} max {:7.1} ms, refused {}, most jobs {}, util {:.2}",
                run.quantile(0.5).as_secs_f64() * 1e3,
                run.quantile(0.9).as_secs_f64() * 1e3,
                run.quantile(0.99).as_secs_f64() * 1e3,
                run.quantile(0.999).as_secs_f64() * 1e3,
                run.quantile(1.0).as_secs_f64() * 1e3,
                run.refused,
                run.jobs_high,
                run.work.as_secs_f64() / SPAN.as_secs_f64() / run.capacity,
            );
        }
        let [random, round_robin, shortest] = runs.map(|run| run.quantile(0.99));
        assert!(shortest * 2 <= random.min(round_robin), "seed {seed}");
    }
}
