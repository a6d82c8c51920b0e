//! Descriptions of picks that real policies made.

use super::super::tests::{begin, recorder, roomy, settings};
use super::*;
use crate::request_record::{AttemptKind, Directory, Ended};
use http::StatusCode;
use serde_json::{Value, json};
use slackwater_core::policy::{
    Decision as Said, Event, Explanation, Policy, PolicySettings, Query, policy_named,
};
use slackwater_core::{
    Instant, LoadReport, NoDraw, Quantile, ReplicaId, ReplicaIds, Rif, SplitMix64,
};
use slackwater_tower::client::PickView;
use std::rc::Rc;
use std::sync::Arc;

const MS: Duration = Duration::from_millis(1);

/// Replicas A, B and so on, each with this many parts.
#[derive(Debug)]
struct Fleet {
    policy: &'static str,
    parts: &'static [usize],
}

impl Fleet {
    /// Returns the replica of a part, and the part's index in it.
    fn find(&self, part: ReplicaId) -> (usize, usize) {
        let (mut owner, mut place) = (0, part.index());
        while place >= self.parts[owner] {
            place -= self.parts[owner];
            owner += 1;
        }
        (owner, place)
    }
}

impl Directory for Fleet {
    fn policy(&self) -> &'static str {
        self.policy
    }

    fn name(&self, part: ReplicaId) -> Option<Box<str>> {
        let letter = char::from(b'A' + u8::try_from(self.find(part).0).expect("few"));
        Some(letter.to_string().into())
    }

    fn part(&self, part: ReplicaId) -> Option<(usize, usize)> {
        let (owner, place) = self.find(part);
        let of = self.parts[owner];
        (of > 1).then_some((place + 1, of))
    }
}

/// A policy with such a fleet, driven by hand.
struct Rig {
    fleet: Rc<Fleet>,
    policy: Box<dyn Policy>,
    parts: Vec<ReplicaId>,
    now: Instant,
    draw: SplitMix64,
    /// This many replicas report a capacity: the one at index i 4 (i + 2), with a cost of 2 ms.
    with_capacity: usize,
}

impl Rig {
    fn new(policy: &'static str, parts: &'static [usize]) -> Self {
        let entry = policy_named(policy).expect("a policy");
        let mut made = (entry.build)(&PolicySettings::default());
        let mut ids = ReplicaIds::new();
        let count: usize = parts.iter().sum();
        let all: Vec<_> = (0..count).filter_map(|_| ids.allocate()).collect();
        for &part in &all {
            made.handle(Instant::EPOCH, Event::Added(part), &mut NoDraw);
        }
        Self {
            fleet: Rc::new(Fleet { policy, parts }),
            policy: made,
            parts: all,
            now: Instant::EPOCH,
            draw: SplitMix64::new(9),
            with_capacity: 0,
        }
    }

    /// Answers all probes that queries trigger. The part at index i has i requests in flight (none
    /// if all are `alike`), and a latency of 10 + i ms.
    fn learn(&mut self, alike: bool) {
        for _ in 0..100 {
            self.now += MS;
            if let Said::Pick(pick) =
                (self.policy).choose(self.now, Query::first(), &mut self.draw, None)
            {
                (self.policy).handle_query_done(self.now, pick.ticket, Outcome::Dropped);
            }
            while let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
                let place = u32::try_from(probe.replica.index()).expect("few");
                let rif = Rif::new(if alike { 0 } else { place });
                let mut report = LoadReport::new(rif, Some(10 * MS + MS * place));
                if probe.replica.index() < self.with_capacity {
                    report.capacity_millirif = Some(4_000 * (place + 2));
                    report.cost = Some(2 * MS);
                }
                (self.policy).handle(self.now, Event::Report(probe.id, &report), &mut self.draw);
            }
        }
    }

    /// Runs a query that takes this long at that replica.
    fn serve(&mut self, place: usize, latency: Duration) {
        let query = Query::pinned(self.parts[place]);
        let Said::Pick(pick) = self.policy.choose(self.now, query, &mut self.draw, None) else {
            panic!("it may be chosen")
        };
        self.now += latency;
        (self.policy).handle_query_done(self.now, pick.ticket, Outcome::Success);
    }

    fn take_out(&mut self, places: core::ops::Range<usize>) {
        for place in places {
            let part = self.parts[place];
            self.policy
                .handle(self.now, Event::Available(part, false), &mut NoDraw);
        }
    }

    fn choose(&mut self, query: Query<'_>) -> (PickView, Box<Explanation>) {
        let mut told = Box::new(Explanation::new());
        let (now, draw) = (self.now, &mut self.draw);
        let pick = match (self.policy).choose(now, query, draw, Some(&mut *told)) {
            Said::Pick(pick) => pick,
            other => panic!("{other:?}"),
        };
        let mut view = PickView::without_report(pick.ticket.replica(), pick.reason);
        view.rif_limit = pick.rif_limit;
        view.candidates = pick.candidates;
        view.chosen = pick.chosen;
        view.runner_up = pick.runner_up;
        (view, told)
    }

    /// Returns the decision that is kept for a request with that pick.
    fn kept(&self, (pick, told): (PickView, Box<Explanation>)) -> Arc<Decision> {
        let ring = roomy();
        let all = settings(|it| it.sample = Quantile::ONE);
        let record = begin(&recorder(&all, &ring), http::Request::get("/"));
        record.route(&"web".into(), &self.fleet);
        let name = self.fleet.name(pick.replica).expect("a name");
        let mut notes = record.begin_attempt(AttemptKind::First, &name.into(), &pick, Some(told));
        notes.head(StatusCode::OK, None);
        notes.end(Outcome::Success, || None);
        record.end(Ended::Complete);
        drop((record, notes));
        Arc::clone(&ring.decisions()[0])
    }

    /// Returns the decision of a request after reports of all replicas have arrived.
    fn learned(&mut self) -> Arc<Decision> {
        self.learn(false);
        let choice = self.choose(Query::first());
        self.kept(choice)
    }

    /// Returns only the lines about the pick.
    fn said(&mut self, query: Query<'_>) -> String {
        let choice = self.choose(query);
        said(&self.kept(choice))
    }

    fn avoiding(&self, places: core::ops::Range<usize>) -> Vec<ReplicaId> {
        self.parts[places].into()
    }
}

fn said(decision: &Decision) -> String {
    let text = describe(decision);
    let begin = text.find("     replica ").expect("a choice") + "     replica ".len();
    let end = text.rfind("\n     200 ").expect("its end");
    // The columns between these two lines have tests of their own.
    let is_sentence =
        |&(place, line): &(usize, &str)| place == 0 || line.contains("not available or limited");
    let lines = text[begin..end].lines().enumerate().filter(is_sentence);
    let lines: Vec<_> = lines.map(|(_, line)| line).collect();
    lines.join("\n")
}

#[test]
fn the_factors_of_a_choice_are_columns_beside_their_formula() {
    let mut rig = Rig::new("shortest_expected_delay", THREE);
    let text = describe(&rig.learned());
    let formula = "     expected delay = (requests in flight + turn surcharge) × mean latency\n";
    assert!(text.contains(formula), "{text}");
    let rows: Vec<_> = text
        .lines()
        .skip_while(|line| !formula.contains(line))
        .collect();
    let heads = [
        "replica",
        "requests in flight",
        "mean latency",
        "turn surcharge",
        "expected delay",
        "last turn",
    ];
    assert!(heads.iter().all(|head| rows[1].contains(head)), "{text}");
    assert!(
        rows[2].starts_with("     > A "),
        "the chosen one is marked: {text}"
    );
    assert!(rows[3].starts_with("       "), "{text}");
}

const THREE: &[usize] = &[1, 1, 1];

#[test]
fn picks_without_a_comparison_are_described() {
    for (policy, rule) in [
        ("round_robin", "its turn among 3"),
        ("random", "drawn at random among 3"),
        (
            "prequal",
            "fewer than two reports were of use; drawn at random among 3",
        ),
    ] {
        let mut rig = Rig::new(policy, THREE);
        let text = rig.said(Query::first());
        assert_eq!(&text[1..], format!(": {rule}"), "{policy}");
    }
    let mut rig = Rig::new("round_robin", THREE);
    let (second, third) = (rig.parts[1], rig.parts[2]);
    assert_eq!(
        rig.said(Query::pinned(second)),
        "B: the request belongs there"
    );
    let room = "C: all were full, and it was the first to have room";
    assert_eq!(rig.said(Query::with_room(third)), room);
}

#[test]
fn comparison_rule_is_described_if_no_replica_is_available() {
    let fewest = "fewest requests in flight (0 of ours) of 3; runner-up";
    for (policy, rule) in [
        ("round_robin", "its turn among all"),
        ("random", "drawn at random among all"),
        ("least_loaded", fewest),
        ("peak_ewma", "lowest cost 30.000 ms of 2 drawn; runner-up"),
        ("rif_then_latency", fewest),
        ("prequal", "drawn at random among all"),
    ] {
        let mut rig = Rig::new(policy, THREE);
        rig.take_out(0..3);
        let text = rig.said(Query::first());
        let expected = format!(": none may be chosen, so all may be; {rule}");
        assert!(text[1..].starts_with(&expected), "{policy}: {text}");
        assert!(
            text.contains("\n     not available or limited: "),
            "{policy}: {text}"
        );
    }
}

#[test]
fn pick_among_excluded_replicas_is_described_as_last_resort() {
    let least = "fewest requests in flight (0 of ours) of 3";
    for (policy, rule) in [
        ("round_robin", "drawn at random"),
        ("prequal", "drawn at random"),
        ("rif_then_latency", least),
    ] {
        let mut rig = Rig::new(policy, THREE);
        rig.take_out(2..3);
        let tried = rig.avoiding(0..2);
        let text = rig.said(Query::retry(&tried));
        let expected = "C: it may not be chosen, but all that may be have had the request, and it is \
                        better than none; ";
        let expected =
            format!("{expected}{rule}\n     not available or limited: C (down or draining)");
        assert_eq!(text, expected, "{policy}");
    }
}

#[test]
fn all_cold_replicas_are_counted_even_if_not_all_are_listed() {
    let mut rig = Rig::new("rif_then_latency", &[40]);
    rig.learn(true);
    let text = rig.said(Query::first());
    let expected = "A, part 1 of 40: cold, lowest latency of 40 cold (latency 10.0 ms, RIF 0, ";
    assert!(text.starts_with(expected), "{text}");
    let second = "; runner-up A, part 2 of 40 (cold, latency 11.0 ms, RIF 0, ";
    assert!(text.contains(second), "{text}");
}

#[test]
fn scores_and_weights_are_those_of_the_chosen_one() {
    let mut rig = Rig::new("linear", THREE);
    rig.learn(false);
    let text = rig.said(Query::first());
    assert!(text.starts_with("A: lowest score 5.0"), "{text}");
    assert!(!text.contains("cold"), "nothing is hot or cold: {text}");
    assert!(
        text.contains(" ms of 3 (latency 10.0 ms, RIF 0, "),
        "{text}"
    );
    let mut rig = Rig::new("shortest_expected_delay", THREE);
    rig.learn(false);
    let text = rig.said(Query::first());
    assert!(text.starts_with("A: lowest expected delay "), "{text}");
    assert!(
        text.contains(" ms of 3 (latency 10.0 ms, RIF 0, "),
        "{text}"
    );
    let mut rig = Rig::new("els", THREE);
    let tried = rig.avoiding(0..2);
    let text = rig.said(Query::retry(&tried));
    assert_eq!(text, "C: drawn, with a chance of 100% among 1");
    let mut rig = Rig::new("weighted_round_robin", THREE);
    let text = rig.said(Query::first());
    let turn = ": its turn among 3, which it has 65535 times in 65535 rounds";
    assert_eq!(&text[1..], turn);
    let mut rig = Rig::new("polled_power_of_d", THREE);
    let tried = rig.avoiding(0..1);
    let text = rig.said(Query::retry(&tried));
    let unreported = ": fewest requests in flight (0 of ours) of 2; runner-up ";
    assert!(text[1..].starts_with(unreported), "{text}");
    rig.learn(false);
    let text = rig.said(Query::retry(&tried));
    let reported =
        "B: lowest RIF by its last report, 1, of 2 drawn; runner-up C (RIF 2 by its last report, ";
    assert!(text.starts_with(reported), "{text}");
}

#[test]
fn capacity_is_described_with_the_share_in_use() {
    let mut rig = Rig::new("shortest_expected_delay", THREE);
    rig.with_capacity = 3;
    // By then each replica has been picked a few times, and the scores include that.
    let decision = rig.learned();
    let text = said(&decision);
    let (carries, costs) = ("that it can carry", "a request costs 2.0 ms");
    for part in [
        format!(
            "A: lowest score 2.108 ms of 3 (latency 10.0 ms, RIF 0 of 8.0 {carries} (0% in use), {costs}, "
        ),
        "; runner-up B (2.125 ms, ".to_owned(),
        format!(", RIF 1 of 12.0 {carries} (8% in use), {costs}, "),
    ] {
        assert!(text.contains(&part), "{part} in {text}");
    }
    assert!(!text.contains("prequal"), "{text}");
    let told = |fields: &Value| {
        let fields =
            ["replica", "capacity_millirif", "cost_us", "in_use"].map(|it| fields[it].clone());
        Value::from(fields.to_vec())
    };
    let json: Value = serde_json::to_value(&*decision).expect("JSON");
    let candidates = json["attempts"][0]["candidates"].as_array();
    let found: Vec<_> = candidates.expect("a list").iter().map(told).collect();
    let expected = [
        json!(["A", 8_000, 2_000, 0.0]),
        json!(["B", 12_000, 2_000, 0.083]),
        json!(["C", 16_000, 2_000, 0.125]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn replica_without_a_capacity_is_described_beside_others_that_report_it() {
    let mut rig = Rig::new("shortest_expected_delay", THREE);
    rig.with_capacity = 2;
    let decision = rig.learned();
    let text = said(&decision);
    assert!(text.contains("A: lowest score "), "{text}");
    let json: Value = serde_json::to_value(&*decision).expect("JSON");
    let candidates = json["attempts"][0]["candidates"].as_array();
    let mut known = candidates.expect("a list").iter();
    let untold = known.find(|it| it["replica"] == "C").expect("all three");
    for field in ["capacity_millirif", "cost_us"] {
        assert!(untold.get(field).is_none(), "absent is not zero: {untold}");
    }
    // It counts with the mean of the others.
    assert_eq!(untold["factors"]["capacity"], 10.0);
}

#[test]
fn parts_of_one_replica_are_distinguished() {
    let mut rig = Rig::new("peak_ewma", &[1, 2]);
    rig.serve(1, 80 * MS);
    let tried = rig.avoiding(0..1);
    let choice = rig.choose(Query::retry(&tried));
    let decision = rig.kept(choice);
    let text = said(&decision);
    assert!(
        text.starts_with("B, part 2 of 2: lowest cost 29."),
        "{text}"
    );
    let second = "; runner-up B, part 1 of 2 (80.000 ms, 0 of ours in flight)";
    assert!(text.ends_with(second), "{text}");
    let json: Value = serde_json::to_value(&*decision).expect("JSON");
    let attempt = &json["attempts"][0];
    let candidates = attempt["candidates"].as_array().expect("a list");
    let of = |it: &Value| json!([it["replica"], it["part"], it["parts"], it["chosen"]]);
    assert_eq!(of(&candidates[0]), json!(["B", 2, 2, true]));
    assert_eq!(of(&candidates[1]), json!(["B", 1, 2, null]));
    assert_eq!(attempt["runner_up"]["part"], 1);
    assert_eq!(attempt["runner_up"]["factors"]["cost_us"], 80_000.0);
}

#[test]
fn excluded_replicas_are_listed_once_each_by_severity() {
    let mut rig = Rig::new("random", &[3, 1, 1, 2, 1]);
    rig.take_out(0..7);
    let (pick, mut told) = rig.choose(Query::first());
    told.say_why(rig.parts[3], "down");
    told.say_why(rig.parts[5], "drained");
    told.say_why(rig.parts[6], "drained");
    told.pass_over(rig.parts[7], "full");
    told.say_of_others("not_in_use");
    let decision = rig.kept((pick, told));
    let text = said(&decision);
    let out = "not available or limited: B (down: health checks failed), D (draining: drained by an operator, 2 parts), \
               E (full: no free connection), A (backup: its tier is not in use, 3 parts), \
               C (backup: its tier is not in use)";
    assert!(text.ends_with(out), "{text}");
    let json: Value = serde_json::to_value(&*decision).expect("JSON");
    let outs = json["attempts"][0]["outs"].as_array().expect("a list");
    assert_eq!(
        json!([outs[1]["parts"], outs[0]["parts"]]),
        json!([2, null])
    );
}
