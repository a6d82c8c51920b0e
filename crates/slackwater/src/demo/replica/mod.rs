//! The demo's embedded replicas: a fleet of unequal servers played on one small machine.
//!
//! Service takes time, not CPU: a request becomes a job with a cost (`cost`) on a shared processor
//! (`processor`) whose capacity the neighbours change (`neighbours`). All three are pure values of
//! a seed (`draw`) and the time since the start. `machine` runs them by timers, `service` turns a
//! machine into an application, and `server` serves it over HTTP.
//!
//! Two fleets of the same [`World`] are identical: the same replica has the same capacity at any
//! time since the start, and the same request has the same cost. Load tracking and probes are
//! absent on purpose; they wrap a replica from outside.

pub(crate) mod cost;
mod draw;
pub(crate) mod machine;
pub(crate) mod neighbours;
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        reason = "the calibration asks for the jobs, the machine counts its own"
    )
)]
pub(crate) mod processor;
pub(crate) mod server;
pub(crate) mod service;
pub(crate) mod trouble;

#[cfg(test)]
mod calibration;

use cost::Costs;
use machine::Machine;
use neighbours::{Neighbourhood, Neighbours};
use processor::Cores;
use tokio::time::Instant;

/// What two identical fleets share: a seed, a start, the neighbours, the requests' costs.
#[derive(Debug, Clone)]
pub(crate) struct World {
    /// Seed of everything that is drawn.
    pub(crate) seed: u64,
    /// Replicas in each fleet, from 1. Default of the demo: 10.
    pub(crate) replicas: usize,
    /// Behaviour of the neighbours.
    pub(crate) neighbourhood: Neighbourhood,
    /// Costs of requests.
    pub(crate) costs: Costs,
    /// Maximum of queries that a replica serves at once; more are answered with 503. Default 512.
    pub(crate) jobs_max: usize,
    /// The start of the world, the same instant for both fleets.
    pub(crate) origin: Instant,
}

impl World {
    /// The average utilization of a fleet. The fleet has capacity to spare, but now and then a
    /// replica at its fair share has too little.
    const UTILISATION: f64 = 0.62;

    /// Lowest average capacity of a replica: a twentieth of a core, with which a request of 20 ms
    /// takes 400 ms.
    const CAPACITY_MIN: Cores = Cores::from_milli(50);

    /// Returns the world of the demo: the default neighbours and costs, and capacity in proportion
    /// to the load, so that the utilization is the same at any rate: 1.4 cores for each of 10
    /// replicas at 400 requests/s. With less than one core, a request takes longer even alone. At a
    /// rate so low that [`CAPACITY_MIN`](Self::CAPACITY_MIN) applies, the fleet is mostly idle.
    pub(crate) fn for_load(
        seed: u64,
        replicas: usize,
        requests_per_second: f64,
        origin: Instant,
    ) -> Self {
        let costs = Costs::new(seed, Costs::MEAN_BEFORE_CLIP);
        let busy_cores = requests_per_second * costs.mean().as_secs_f64() / replicas as f64;
        let capacity_mean = Cores::from_f64(busy_cores / Self::UTILISATION).max(Self::CAPACITY_MIN);
        let neighbourhood = Neighbourhood {
            capacity_mean,
            ..Neighbourhood::default()
        };
        Self {
            seed,
            replicas,
            neighbourhood,
            costs,
            jobs_max: machine::JOBS_MAX,
            origin,
        }
    }

    /// The schedule of replica `index` (from 0), from the start.
    fn neighbours(&self, index: usize) -> Neighbours {
        Neighbours::new(&self.neighbourhood, self.seed, index, self.replicas)
    }

    /// Returns the machine of replica `index` (from 0) in one of the two fleets; a new one for each
    /// call.
    pub(crate) fn machine(&self, index: usize) -> Machine {
        Machine::new(
            index,
            self.jobs_max,
            self.neighbours(index),
            self.costs,
            self.origin,
        )
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn capacity_follows_the_load_down_to_a_twentieth_of_a_core() {
        let cores = |replicas, rate| {
            World::for_load(1, replicas, rate, Instant::now())
                .neighbourhood
                .capacity_mean
        };
        assert!((1.39..1.41).contains(&cores(10, 400.0).as_f64()));
        assert!((2.78..2.82).contains(&cores(5, 400.0).as_f64()));
        assert!((0.34..0.36).contains(&cores(10, 100.0).as_f64()));
        assert_eq!(cores(10, 1.0), Cores::from_milli(50));
        assert_eq!(cores(10, f64::NAN), Cores::from_milli(50));
    }

    #[tokio::test(start_paused = true)]
    async fn both_fleets_have_the_same_neighbours_under_different_load() {
        let world = World::for_load(1, 10, 400.0, Instant::now());
        let (busy, idle) = (world.machine(3), world.machine(3));
        let watch = async {
            for number in 0..200 {
                busy.serve(busy.cost(Some(number))).await.expect("served");
                tokio::time::sleep(Duration::from_millis(20)).await;
                let (busy, idle) = (busy.figures(), idle.figures());
                assert_eq!((busy.capacity, busy.hobbled), (idle.capacity, idle.hobbled));
            }
            assert_eq!(busy.figures().served, 200);
        };
        tokio::select! {
            () = busy.run() => panic!("the busy machine stopped"),
            () = idle.run() => panic!("the idle machine stopped"),
            () = watch => {}
        }
    }
}
