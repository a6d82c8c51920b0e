//! Replicas that warm up by the clock: at a first weight, and not after a short absence.

use super::*;
use crate::service::Attempt;
use slackwater_config::Config;
use slackwater_core::policy::{Carried, Query, RoundRobin};
use slackwater_tower::client::{NoProber, Picked};

const TEXT: &str = r#"
listen = "127.0.0.1:0"
replicas = ["10.0.0.1:80", "10.0.0.2:80"]
"#;

/// A fleet of two, the second of which has one weight after another, each for a second. `None`:
/// it is not there.
struct Stage {
    balancer: Balancer,
    fleet: WorkerFleet,
    _health: watch::Sender<Health>,
    _orders: watch::Sender<Arc<Orders>>,
}

impl Stage {
    fn new() -> Self {
        let config = Config::of_text("test", TEXT.to_owned()).expect("valid");
        let service = &config.services[0];
        let options = ReplicaOptions::new(&service.replica, &service.timeouts, &config.limits);
        let (health, health_of) = watch::channel(Health::default());
        let (orders, orders_of) = watch::channel(Arc::default());
        let balancer = Balancer::with_seed(Box::new(RoundRobin::default()), NoProber, 1);
        let deadlines = Deadlines::new(Duration::from_secs(1));
        let fleet = WorkerFleet::new(
            balancer.clone(),
            options,
            &deadlines,
            (health_of, orders_of),
            None,
            None,
            None,
        );
        let stage = Self {
            balancer,
            fleet,
            _health: health,
            _orders: orders,
        };
        stage.apply(None);
        stage.fleet.set_warm_up(Duration::from_mins(1));
        stage
    }

    fn apply(&self, weight: Option<u32>) {
        let mut replicas = Config::of_text("test", TEXT.to_owned())
            .expect("valid")
            .services[0]
            .replicas
            .clone();
        match weight {
            Some(weight) => replicas[1].weight = weight,
            None => replicas.truncate(1),
        }
        self.fleet.apply(&Fleet::new(replicas));
    }

    /// Whether the second replica has its share.
    fn has_share(&self) -> bool {
        let picks = (0..20).filter(|_| {
            let Picked::Ready(lease) = self.balancer.pick(Query::first()) else {
                panic!("there is a replica");
            };
            lease.addr().ip().to_string() == "10.0.0.2"
        });
        picks.count() == 10
    }
}

/// Long streams may run on at a replica without a weight.
#[tokio::test(start_paused = true)]
async fn replica_that_is_absent_for_a_moment_keeps_its_counts() {
    let stage = Stage::new();
    let counts = || {
        let replicas = stage.fleet.by_address.borrow();
        replicas.values().last().map(|it| Arc::clone(&it.counts))
    };
    stage.apply(Some(1));
    let before = counts().expect("two replicas");
    stage.apply(Some(0));
    tokio::time::advance(RETURN_MAX).await;
    stage.apply(None);
    stage.apply(Some(0));
    assert!(Arc::ptr_eq(&before, &counts().expect("two replicas")));
}

/// Streams may run longer than the counts of a replica that left are kept.
#[tokio::test(start_paused = true)]
async fn requests_in_flight_are_counted_until_their_end_wherever_their_replica_is() {
    let stage = Stage::new();
    let second = || {
        let replicas = stage.fleet.by_address.borrow();
        replicas.values().last().map(Rc::clone).expect("two")
    };
    let in_flight = || second().counts.in_flight.read();
    stage.apply(Some(1));
    let picked = stage.balancer.pick(Query::pinned(second().parts[0]));
    let Picked::Ready(lease) = picked else {
        panic!("there is a replica");
    };
    let attempt = Attempt::new(lease, second(), Carried::Nothing);
    stage.apply(Some(0));
    assert_eq!(in_flight(), 1, "without a weight");
    stage.apply(None);
    tokio::time::advance(RETURN_MAX).await;
    stage.apply(None);
    stage.apply(Some(1));
    assert_eq!(in_flight(), 1, "a minute after it left");
    drop(attempt);
    assert_eq!(in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn replica_warms_up_at_its_first_weight_and_not_after_a_short_absence() {
    for (weights, has_share) in [
        (&[Some(1)][..], false),
        (&[Some(0), Some(1)], false),
        (&[Some(0), None, Some(1)], false),
        (&[Some(0), None, Some(0), Some(1)], false),
        (&[Some(1), None, Some(1)], true),
        (&[Some(1), Some(0), Some(1)], true),
        (&[Some(1), Some(0), None, Some(1)], true),
        (&[Some(1), None, Some(0), Some(1)], true),
    ] {
        let stage = Stage::new();
        for &weight in weights {
            tokio::time::advance(Duration::from_secs(1)).await;
            stage.apply(weight);
        }
        assert_eq!(stage.has_share(), has_share, "{weights:?}");
    }
}
