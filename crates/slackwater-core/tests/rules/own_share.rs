//! Clients that send most of the queries of a fleet: fewer probes, and further reports.

use crate::world::{MS, World, load};
use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Event, Outcome, Pick, Policy, Query, ShortestExpectedDelay, ShortestExpectedDelayConfig,
};
use slackwater_core::{LoadReport, Rate};

/// 40 replicas, to which one client sends 500 queries a second.
struct Fleet {
    world: World<ShortestExpectedDelay>,
    /// Queries a second that each replica reports.
    rate: Option<u32>,
    /// Whether each response carries a report with a capacity.
    carries: bool,
    /// Whether each query has a second copy, which is dropped.
    hedges: bool,
    probes: u32,
}

impl Fleet {
    fn new(settings: PrequalSettings) -> Self {
        let prequal = settings.validate().expect("in range");
        let config = ShortestExpectedDelayConfig::default();
        Self {
            world: World::of(40, ShortestExpectedDelay::new(prequal, &config)),
            rate: None,
            carries: false,
            hedges: false,
            probes: 0,
        }
    }

    fn report(&self) -> LoadReport {
        let mut report = load(1, 10);
        report.query_rate_millis = self.rate.map(|rate| rate * 1_000);
        report.capacity_millirif = self.carries.then_some(8_000);
        report
    }

    /// Sends a query, whose probes are answered at once. Returns how many were compared for it.
    fn query(&mut self) -> u16 {
        self.world.now += 2 * MS;
        let pick = self.world.pick();
        let (candidates, replica) = (pick.candidates, pick.ticket.replica());
        let report = self.report();
        for probe in self.world.probes() {
            self.probes += 1;
            self.world.answer(probe, &report);
        }
        if self.carries {
            self.world.handle(Event::CarriedReport(replica, &report));
        }
        self.end(pick, Outcome::Success);
        if self.hedges {
            let copy = self.world.pick_for(Query::hedge(&[replica]));
            self.end(copy, Outcome::Dropped);
        }
        candidates
    }

    fn end(&mut self, pick: Pick, outcome: Outcome) {
        let now = self.world.now;
        (self.world.policy).handle_query_done(now, pick.ticket, outcome);
    }

    /// Plays a second, and then counts the probes of 100 queries and what is compared for the next.
    fn after(&mut self, rate: Option<u32>) -> (u32, u16) {
        self.rate = rate;
        for _ in 0..500 {
            self.query();
        }
        self.probes = 0;
        for _ in 0..100 {
            self.query();
        }
        (self.probes, self.query())
    }
}

fn settings() -> PrequalSettings {
    PrequalSettings {
        probe_interval_min: Duration::ZERO,
        ..PrequalSettings::default()
    }
}

#[test]
fn client_of_most_queries_sends_one_probe_for_each_and_compares_eight_further_reports() {
    let after = |rate| Fleet::new(settings()).after(rate);
    // 12.5 a second at each replica are its own.
    assert_eq!(after(Some(12)), (100, 24));
    assert_eq!(after(Some(18)), (100, 24));
    assert_eq!(after(Some(19)), (300, 16), "a third are of others");
    assert_eq!(after(None), (300, 16), "no replica reports its rate");
}

#[test]
fn client_of_most_queries_sends_no_more_probes_than_others() {
    let few = PrequalSettings {
        probe_rate: Rate::from_millionths(250_000).expect("in range"),
        ..settings()
    };
    assert_eq!(Fleet::new(few).after(Some(12)).0, 25);
    let carrying = |rate| {
        let mut fleet = Fleet::new(settings());
        fleet.carries = true;
        fleet.after(Some(rate))
    };
    assert_eq!(carrying(19), (50, 16));
    assert_eq!(carrying(12), (50, 24));
}

#[test]
fn copies_that_are_dropped_are_no_queries_of_this_client() {
    let mut fleet = Fleet::new(settings());
    fleet.hedges = true;
    assert_eq!(fleet.after(Some(12)).0, 100);
    assert_eq!(
        fleet.after(Some(25)).0,
        300,
        "as many are of another client"
    );
}

#[test]
fn another_client_is_noticed_when_it_comes_and_when_it_goes() {
    let mut fleet = Fleet::new(settings());
    for (rate, probes) in [(12, 100), (25, 300), (12, 100)] {
        assert_eq!(fleet.after(Some(rate)).0, probes, "{rate}");
    }
}

/// Half of the replicas are not available, and have no queries.
#[test]
fn only_available_replicas_have_queries() {
    let mut fleet = Fleet::new(settings());
    for replica in fleet.world.replicas.clone().into_iter().skip(20) {
        fleet.world.handle(Event::Available(replica, false));
    }
    assert_eq!(fleet.after(Some(25)).0, 100);
    assert_eq!(fleet.after(Some(40)).0, 300);
}

#[test]
fn own_share_is_not_known_while_a_replica_answers_no_probes() {
    let mut fleet = Fleet::new(settings());
    fleet.rate = Some(12);
    let deaf = fleet.world.replicas[7];
    for _ in 0..3_000 {
        fleet.world.now += 2 * MS;
        let pick = fleet.world.pick();
        let report = fleet.report();
        for probe in fleet.world.probes() {
            if probe.replica == deaf {
                fleet.world.lose(probe);
            } else {
                fleet.world.answer(probe, &report);
            }
        }
        let now = fleet.world.now;
        (fleet.world.policy).handle_query_done(now, pick.ticket, Outcome::Success);
    }
    let snapshot = fleet.world.policy.snapshot(fleet.world.now);
    assert_eq!(snapshot.probe_rate, Some(settings().probe_rate));
}

#[test]
fn others_count_as_sending_alike_since_a_report_up_to_four_for_each_own_query() {
    // This client sends 12.5 a second to each.
    for (rate, with_two) in [
        (None, 3),
        (Some(12), 3),
        (Some(25), 5),
        (Some(50), 9),
        (Some(500), 11),
    ] {
        let mut fleet = Fleet::new(settings());
        fleet.after(rate);
        let target = fleet.world.replicas[7];
        let mut avoid = fleet.world.replicas.clone();
        avoid.remove(7);
        let report = |fleet: &mut Fleet, rif| {
            let report = load(rif, 10);
            (fleet.world).handle(Event::SiblingReport(target, &report));
            fleet.world.rif_of(target)
        };
        assert_eq!(report(&mut fleet, 1), Some(1));
        let out = [(); 2].map(|()| fleet.world.pick_for(Query::retry(&avoid)));
        assert_eq!(fleet.world.rif_of(target), Some(with_two), "{rate:?}");
        assert_eq!(report(&mut fleet, 3), Some(3), "a new report has them all");
        for pick in out {
            fleet.end(pick, Outcome::Success);
        }
        assert_eq!(fleet.world.rif_of(target), Some(1), "{rate:?}");
    }
}
