//! Tests of the rule: the replica in the lowest place is picked, and places follow by hand.

use super::*;
use crate::draw::{SplitMix64, below};
use crate::policy::explanation::Explanation;
use crate::policy::prequal::PrequalSettings;
use crate::policy::turns::Turn;
use crate::policy::{Decision, Event, Outcome, Pick, Policy, Query};
use crate::replica::ReplicaIds;
use crate::report::{LoadReport, Rif};
use alloc::vec::Vec;

const MS: u64 = 1_000_000;
/// One query in flight, and one that takes as long as the mean, in the units of a score.
const SCORE: u64 = UNIT * UNIT;

fn rule(replicas: usize) -> (ExpectedDelay, Vec<ReplicaId>) {
    let settings = ShortestExpectedDelaySettings::default();
    let mut rule = ExpectedDelay {
        probe_rate: settings.probe_rate,
        latency_band: settings.latency_band_millionths.into(),
        cost_band: settings.cost_band_millionths.into(),
        table: Table::default(),
        zones: Zones::default(),
        usual: Usual::default(),
    };
    let mut ids = ReplicaIds::new();
    let replicas: Vec<_> = (0..replicas).filter_map(|_| ids.allocate()).collect();
    for &replica in &replicas {
        rule.add_replica(replica);
    }
    (rule, replicas)
}

/// A report of this RIF, all of it of other clients, and of this latency in milliseconds.
fn reported(replica: ReplicaId, rif: u32, latency_ms: u64) -> Reported {
    Reported {
        replica,
        from: From::Probe { local: false },
        rif: Rif::new(rif),
        others: rif,
        latency_ns: Some(latency_ms * MS),
        query_rate_millis: 0,
        capacity_millirif: 0,
        cost_ns: 0,
    }
}

/// As [`reported`], with a capacity of ten.
fn with_cost(replica: ReplicaId, cost_ns: u64) -> Reported {
    Reported {
        capacity_millirif: 10_000,
        cost_ns,
        ..reported(replica, 0, 10)
    }
}

/// A load of this many queries in flight, as reported this long ago, with this surcharge.
fn load(in_flight: u64, age_ns: u64, ahead: u64) -> LatestLoad {
    LatestLoad {
        in_flight: in_flight * FINE,
        rif_limit: None,
        latency_ns: 0,
        age_ns,
        turn: Turn { last: 0, ahead },
    }
}

fn score(rule: &ExpectedDelay, known: &Known, load: LatestLoad) -> u64 {
    rule.place(load, known, &rule.moment()).first
}

#[test]
fn own_queries_age_and_turns_only_raise_the_score() {
    for capacity_millirif in [0, 300, 1_000, 10_000] {
        let (mut rule, replicas) = rule(2);
        for rif in [9, 3] {
            let report = Reported {
                capacity_millirif,
                ..reported(replicas[0], rif, 10)
            };
            let known = rule.handle_report(Instant::EPOCH, report).known;
            let least = known.score_min;
            let fresh = load(rif.into(), 0, 0);
            assert_eq!(least, score(&rule, &known, fresh), "{capacity_millirif}");
            for more in [
                load(u64::from(rif) + 1, 0, 0),
                load(rif.into(), 0, FINE),
                load(rif.into(), 100 * MS, 0),
            ] {
                assert!(score(&rule, &known, more) >= least, "{more:?}");
            }
        }
    }
}

#[test]
fn surcharge_counts_as_queries_in_flight_and_does_not_fade() {
    let (mut rule, replicas) = rule(1);
    for _ in 0..64 {
        rule.handle_report(Instant::EPOCH, reported(replicas[0], 9, 10));
    }
    let known = rule.known(replicas[0], 1);
    assert_eq!(score(&rule, &known, load(3, 0, FINE)), 5 * SCORE);
    // Ten in flight are usual, and after two latencies half of a report counts: 2 become 6.
    let old = load(1, 20 * MS, FINE);
    assert_eq!(score(&rule, &known, old), 7 * SCORE);
    let values = rule.values(old, &known, &rule.moment());
    assert_eq!((values.at(0), values.at(2)), (Some(6_000_000), Some(FINE)));
}

#[test]
fn usual_load_includes_own_queries() {
    let (mut rule, replicas) = rule(1);
    let report = Reported {
        others: 2,
        ..reported(replicas[0], 6, 10)
    };
    let known = rule.handle_report(Instant::EPOCH, report).known;
    // Seven are usual: 1 becomes 4.
    assert_eq!(score(&rule, &known, load(0, 20 * MS, 0)), 4 * SCORE);
}

#[test]
fn fewer_probes_are_sent_from_five_reports_in_six_queries_on() {
    let (rule, _) = rule(0);
    let config = PrequalConfig::default();
    let at =
        |millionths| rule.probe_rate(Rate::from_millionths(millionths).unwrap(), false, &config);
    assert_eq!(at(833_329), config.probe_rate);
    assert_eq!(at(833_330).millionths(), 500_000);
}

#[test]
fn replicas_that_carry_less_than_one_request_are_probed_as_without_reports() {
    let config = PrequalConfig::default();
    let of = |capacities: [u32; 2]| {
        let (mut rule, replicas) = rule(2);
        for (replica, capacity_millirif) in replicas.into_iter().zip(capacities) {
            let report = Reported {
                capacity_millirif,
                ..with_cost(replica, MS)
            };
            rule.handle_report(Instant::EPOCH, report);
        }
        rule.probe_rate(Rate::ONE, false, &config)
    };
    assert_eq!(of([200, 1_800]).millionths(), 500_000);
    assert_eq!(of([200, 1_799]), config.probe_rate);
}

#[test]
fn client_that_sends_most_queries_probes_at_the_lowest_rate() {
    let (mut rule, _) = rule(0);
    rule.probe_rate = Rate::ZERO;
    let at = |most: u32, least: u32| {
        let [probe_rate, probe_rate_min] =
            [most, least].map(|millionths| Rate::from_millionths(millionths).unwrap());
        let settings = PrequalSettings {
            probe_rate,
            probe_rate_min,
            ..PrequalSettings::default()
        };
        let config = settings.validate().unwrap();
        rule.probe_rate(Rate::ZERO, true, &config).millionths()
    };
    assert_eq!(at(3_000_000, 1_000_000), 1_000_000);
    assert_eq!(at(3_000_000, 4_000_000), 3_000_000);
    assert_eq!(at(3_000_000, 0), 500_000, "enough to notice other clients");
    assert_eq!(at(250_000, 0), 250_000);
}

#[test]
fn replica_with_unknown_cost_counts_with_the_mean_cost() {
    let (mut rule, replicas) = rule(2);
    rule.handle_report(Instant::EPOCH, with_cost(replicas[0], 90 * MS));
    let report = with_cost(replicas[1], 0);
    let known = rule.handle_report(Instant::EPOCH, report).known;
    assert_eq!(known.alone, UNIT);
}

#[test]
fn cost_counts_as_a_millionth_to_a_thousand_times_the_mean() {
    let (mut rule, replicas) = rule(1_300);
    for &replica in &replicas {
        rule.handle_report(Instant::EPOCH, with_cost(replica, MS));
    }
    let hour_ns = 3_600_000 * MS;
    let known = (rule.handle_report(Instant::EPOCH, with_cost(replicas[0], hour_ns))).known;
    assert_eq!(known.alone, 1_000 * UNIT, "and not 1,300 times");
    let known = (rule.handle_report(Instant::EPOCH, with_cost(replicas[1], 1))).known;
    assert_eq!(known.alone, 1, "and not 0, at which load would not count");
}

#[test]
fn mean_latency_counts_as_at_most_four_times_the_mean() {
    let (mut rule, replicas) = rule(8);
    // It reports first, so there is no other mean that would limit what is remembered.
    for &replica in replicas.iter().rev() {
        let latency_ms = if replica == replicas[7] { 100 } else { 1 };
        for _ in 0..8 {
            rule.handle_report(Instant::EPOCH, reported(replica, 0, latency_ms));
        }
    }
    // 100 ms are 7.5 times the mean of all, 13.4 ms.
    assert_eq!(rule.known(replicas[7], 0).alone, 4 * UNIT);
    assert_eq!(rule.known(replicas[0], 0).alone, UNIT / 4);
}

#[test]
fn unknown_mean_latency_counts_as_the_mean() {
    let (mut rule, replicas) = rule(2);
    for _ in 0..8 {
        rule.handle_report(Instant::EPOCH, reported(replicas[0], 0, 100));
    }
    assert_eq!(rule.known(replicas[1], 0).alone, UNIT);
}

#[test]
fn share_in_use_counts_up_to_4096_and_requests_up_to_four_million() {
    let known = Known::with_capacity(1_000, UNIT);
    // 4,194,304 / 0.85.
    assert_eq!(known.share(u64::MAX) / UNIT, 4_934_475);
    let thousands = |capacities: u64| known.times_longer(capacities * UNIT) / (1_000 * UNIT);
    // 4,000 × (1 + 0.3 · 4,000), and so on.
    let longer = [4_000, 4_096, 4_097, 5_500].map(thousands);
    assert_eq!(longer, [4_803, 5_037, 5_037, 5_037]);
}

#[test]
fn query_behind_others_takes_longer_at_a_capacity_below_one() {
    let known = Known::with_capacity(500, UNIT);
    // Three requests are 3.53 of the usable capacity: 3.53 × (1 + 0.3 · 3.53). The two before it
    // take 4 times their cost and this one takes 1, instead of 3: times 5/3.
    let times = known.times_longer(known.share(3 * FINE));
    assert_eq!(times * 1_000 / UNIT, 12_110);
}

#[test]
fn probes_of_the_shipped_settings_are_few_and_soon_given_up() {
    let shipped = PrequalSettings::default();
    let spans = [
        shipped.probe_interval_min,
        shipped.probe_deadline,
        shipped.probe_idle_max,
        shipped.report_age_max,
    ];
    assert_eq!(
        spans.map(|span| span.as_micros()),
        [1_000, 50_000, 100_000, 1_000_000]
    );
    assert_eq!(shipped.probe_rate.millionths(), 3_000_000);
    let counts = (shipped.idle_probes, shipped.probes_outstanding_max);
    assert_eq!(counts, (2, 64));
}

/// A fleet with random reports, own queries and failures.
struct Fleet {
    policy: ShortestExpectedDelay,
    replicas: Vec<ReplicaId>,
    now: Instant,
    draw: SplitMix64,
    picks: Vec<Pick>,
    /// How many of four replicas report a capacity, and how many of four answer no probes.
    kinds: (u32, u32),
}

impl Fleet {
    fn new(seed: u64) -> Self {
        let mut draw = SplitMix64::new(seed);
        let settings = PrequalSettings {
            probe_interval_min: Duration::ZERO,
            ..PrequalSettings::default()
        };
        let mut policy = ShortestExpectedDelay::new(
            settings.validate().unwrap(),
            &ShortestExpectedDelayConfig::default(),
        );
        let mut ids = ReplicaIds::new();
        let count = 2 + below(&mut draw, 23);
        let replicas: Vec<_> = (0..count).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut draw);
        }
        Self {
            kinds: (below(&mut draw, 5), below(&mut draw, 3)),
            policy,
            replicas,
            now: Instant::EPOCH,
            draw,
            picks: Vec::new(),
        }
    }

    fn any(&mut self) -> ReplicaId {
        let count = u32::try_from(self.replicas.len()).unwrap();
        self.replicas[below(&mut self.draw, count) as usize]
    }

    fn report(&mut self, replica: ReplicaId) -> LoadReport {
        let latency = Duration::from_millis(u64::from(below(&mut self.draw, 40)) + 1);
        let mut report = LoadReport::new(Rif::new(below(&mut self.draw, 12)), Some(latency));
        if replica.index() % 4 < self.kinds.0 as usize {
            report.capacity_millirif = Some(300 + below(&mut self.draw, 20_000));
            report.cost = Some(latency);
        }
        report
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(below(&mut self.draw, 20_000).into());
        self.policy.handle(self.now, Event::Timeout, &mut self.draw);
        while let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
            let report = self.report(probe.replica);
            let event = if probe.replica.index() / 4 % 4 < self.kinds.1 as usize {
                Event::ProbeLost(probe.id)
            } else {
                Event::Report(probe.id, &report)
            };
            self.policy.handle(self.now, event, &mut self.draw);
        }
        match below(&mut self.draw, 8) {
            0 => {
                let (replica, is_back) = (self.any(), below(&mut self.draw, 2) == 0);
                let event = Event::Available(replica, is_back);
                self.policy.handle(self.now, event, &mut self.draw);
            }
            1..5 if !self.picks.is_empty() => {
                let count = u32::try_from(self.picks.len()).unwrap();
                let ended = below(&mut self.draw, count) as usize;
                let pick = self.picks.swap_remove(ended);
                let outcomes = [Outcome::Success, Outcome::Failed, Outcome::NoConnection];
                let outcome = outcomes[below(&mut self.draw, 12).saturating_sub(9) as usize];
                (self.policy).handle_query_done(self.now, pick.ticket, outcome);
            }
            _ => {}
        }
    }

    /// Picks. Returns whether the lowest place decided, and fails if another was picked.
    fn pick(&mut self) -> bool {
        let avoid = [self.any()];
        let query = match below(&mut self.draw, 4) {
            0 => Query::retry(&avoid),
            _ => Query::first(),
        };
        let mut explanation = Explanation::new();
        let (now, draw) = (self.now, &mut self.draw);
        let decision = (self.policy).choose(now, query, draw, Some(&mut explanation));
        let Decision::Pick(pick) = decision else {
            return false;
        };
        let candidates = explanation.candidates().iter().filter(|it| !it.avoided);
        let mut places: Vec<_> = candidates.map(|it| (it.place, it.replica)).collect();
        places.sort_unstable();
        let place_of = |replica| places.iter().find(|it| it.1 == replica).map(|it| it.0);
        let decided = pick.reason == PickReason::LowestScore;
        if decided {
            let lowest = places.first().map(|it| it.0);
            assert_eq!(place_of(pick.ticket.replica()), lowest, "{places:?}");
            let second = pick.runner_up.and_then(place_of);
            assert_eq!(second, places.get(1).map(|it| it.0), "{places:?}");
            assert_ne!(pick.runner_up, Some(pick.ticket.replica()));
        }
        self.picks.push(pick);
        decided
    }
}

/// A pick compares only those whose lowest possible score is low enough. The explanation has the
/// places of all.
#[test]
fn lowest_place_is_picked_and_the_second_lowest_is_the_runner_up() {
    let mut decided = 0;
    for seed in 0..60 {
        let mut fleet = Fleet::new(seed);
        for _ in 0..300 {
            fleet.step();
            decided += u32::from(fleet.pick());
        }
    }
    assert!(decided > 15_000, "{decided}");
}

/// Replicas of equal speed. Most requests in flight take far longer than those that end: by the
/// reports of the third one ten times as long, so a fifth of each difference counts.
#[test]
fn long_running_requests_hide_how_fast_a_replica_is_where_none_reports_a_capacity() {
    for (capacity_millirif, expected) in [(0, [91, 108]), (10_000, [59, 139])] {
        let (mut rule, replicas) = rule(3);
        for number in 0..400 {
            let now = Instant::from_nanos(number * 50 * MS);
            for (place, rif) in [(0, 60), (1, 140)] {
                let report = Reported {
                    query_rate_millis: 1_000_000,
                    ..reported(replicas[place], rif, 10)
                };
                rule.handle_report(now, report);
            }
            let third = Reported {
                query_rate_millis: 1_000_000,
                capacity_millirif,
                ..reported(replicas[2], 100, 10)
            };
            rule.handle_report(now, third);
        }
        let percent = [0, 1].map(|place| rule.known(replicas[place], 0).alone * 100 / UNIT);
        assert_eq!(percent, expected, "{capacity_millirif}");
    }
}
