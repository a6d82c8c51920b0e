//! Streams made by the tests, and the histories read from them.

use super::*;
use slackwater_core::keys::KeyHash;
use slackwater_core::policy::{Event, Query};
use slackwater_core::{LoadReport, LoadScale, ReplicaIds, Rif};
use slackwater_recording::Asked;
use std::borrow::Cow;

const MS: u64 = 1_000_000;

const ANSWERED: RoundReply = RoundReply::Answered {
    rif: Rif::ZERO,
    latency: None,
    load_scale: LoadScale::ONE,
    draining: false,
};

fn name(replica: ReplicaId, name: &str) -> Entry<'_> {
    let name = Cow::Borrowed(name);
    Entry::Named { replica, name }
}

fn query(answer: Answer) -> Entry<'static> {
    let asked = Asked::new(Query::first());
    Entry::Query { asked, answer }
}

fn pick(replica: ReplicaId) -> Answer {
    let reason = PickReason::Cold;
    Answer::Pick { replica, reason }
}

fn round(began_at_ms: u64, replica: ReplicaId) -> Entry<'static> {
    Entry::Round {
        started_at_ns: began_at_ms * MS,
        asked: Asked::new(Query::first()),
        replies: vec![(replica, RoundReply::Lost), (replica, ANSWERED)],
        answer: Some((replica, PickReason::Hot)),
    }
}

fn done(picked_at_ms: u64, outcome: Outcome) -> Entry<'static> {
    Entry::Done {
        sent_at_ns: picked_at_ms * MS,
        outcome,
    }
}

/// Returns the history of two clients' streams. Each has its own clock in ms, and the second began
/// 100 ms later.
fn two_streams(first: Vec<(u64, Entry<'_>)>, second: Vec<(u64, Entry<'_>)>) -> History {
    let mut history = History::default();
    for (client, (since, events)) in (0..).zip([(0, first), (100 * MS, second)]) {
        let mut reader = Reader::new(client, since);
        for (at_ms, event) in events {
            reader.read(&mut history, Instant::from_nanos(at_ms * MS), &event);
        }
        reader.finish(&mut history);
    }
    history
}

#[test]
fn streams_are_merged_by_clock_and_replica_name() {
    let mut ids = ReplicaIds::new();
    let [a, b] = [(); 2].map(|()| ids.allocate().expect("room"));
    let probe = ProbeId::from_bits(3);
    let wanted = Some((probe, a));
    let report = &LoadReport::new(Rif::ZERO, None);
    let targets = vec![a, b];
    let first = vec![
        (0, Entry::Event(Event::Added(a))),
        (0, name(a, "one")),
        (5, query(pick(a))),
        (5, Entry::Poll { probe: wanted }),
        (7, Entry::Event(Event::Report(probe, report))),
        (9, done(5, Outcome::Success)),
        (9, query(pick(b))),
    ];
    let second = vec![
        (0, Entry::Event(Event::Added(b))),
        (0, name(b, "one")),
        (1, query(Answer::Probe { targets })),
        (3, round(1, b)),
        (8, done(3, Outcome::Broken)),
    ];
    let history = two_streams(first, second);
    let named = ["one", "r1"];
    assert_eq!(
        history.replicas, named,
        "a replica without a name is named by its id"
    );
    let short: Vec<_> = (history.queries.iter())
        .map(|query| (query.client, query.replica, query.latency(), query.failed()))
        .collect();
    let ms = |ms| Some(Duration::from_millis(ms));
    let expected = [
        (0, 0, ms(4), false),
        (0, 1, None, false),
        (1, 0, ms(7), true),
    ];
    assert_eq!(short, expected);
    let last = history.queries[2];
    assert_eq!((last.arrived_at, last.sent_at), (101 * MS, 103 * MS));
    assert_eq!(history.ended_at(), 108 * MS);
    assert_eq!(history.round_trips.mean(), Duration::from_millis(2));
    let probes = (history.probes, history.probes_answered, history.probes_lost);
    assert_eq!(probes, (3, 2, 1));
    assert_eq!(history.latencies().count(), 2);
    assert_eq!(
        history.changes, 0,
        "each fleet was there from the beginning"
    );
}

#[test]
fn keys_capacities_and_carried_reports_are_noted() {
    let mut ids = ReplicaIds::new();
    let a = ids.allocate().expect("room");
    let plain = LoadReport::new(Rif::ZERO, None);
    let mut capable = plain.clone();
    capable.capacity_millirif = Some(2_000);
    let probe = ProbeId::from_bits(3);
    let found = |event| {
        let with_key = Asked::new(Query::first().with_key(KeyHash::from_bits(7)));
        let keyed = Entry::Query {
            asked: with_key,
            answer: pick(a),
        };
        let events = vec![
            (0, Entry::Event(Event::Added(a))),
            (1, keyed),
            (2, query(pick(a))),
            (3, Entry::Event(event)),
        ];
        let history = two_streams(events, Vec::new());
        let keys: Vec<_> = history.queries.iter().map(|it| it.has_key).collect();
        assert_eq!(keys, [true, false]);
        (history.reports_capacity, history.carries_reports)
    };
    assert_eq!(found(Event::Report(probe, &plain)), (false, false));
    assert_eq!(found(Event::Report(probe, &capable)), (true, false));
    assert_eq!(found(Event::CarriedReport(a, &plain)), (false, true));
    assert_eq!(found(Event::CarriedReport(a, &capable)), (true, true));
}

#[test]
fn parts_of_a_replica_are_distinguished_and_reused() {
    let mut ids = ReplicaIds::new();
    let [a, b, c] = [(); 3].map(|()| ids.allocate().expect("room"));
    let add = |replica| Entry::Event(Event::Added(replica));
    let available = |replica, available| Entry::Event(Event::Available(replica, available));
    let remove = |replica| Entry::Event(Event::Removed(replica));
    // Two parts of one replica, named after both have joined. One of them leaves, and a third takes
    // its place.
    let first = vec![
        (0, add(a)),
        (0, add(b)),
        (1, available(b, false)),
        (1, name(a, "heavy")),
        (1, name(b, "heavy")),
        (5, query(pick(b))),
        (6, remove(a)),
        (7, add(c)),
        (7, name(c, "heavy")),
        (8, add(c)),
        (8, remove(a)),
    ];
    let second = vec![(0, add(a)), (0, name(a, "heavy")), (2, available(a, true))];
    let history = two_streams(first, second);
    assert_eq!(
        (&*history.replicas, &*history.parts),
        (&["heavy".to_owned()][..], &[0, 0][..])
    );
    let news: Vec<_> = (history.news.iter())
        .map(|it| (it.at_ns / MS, it.client, it.part, it.news))
        .collect();
    let expected = [
        (0, 0, 0, News::Joined),
        (0, 0, 1, News::Joined),
        (1, 0, 1, News::Withdrawn),
        (6, 0, 0, News::Left),
        (7, 0, 0, News::Joined),
        // The stream ends.
        (8, 0, 1, News::Left),
        (8, 0, 0, News::Left),
        (100, 1, 0, News::Joined),
        (102, 1, 0, News::Offered),
        (102, 1, 0, News::Left),
    ];
    assert_eq!(news, expected);
    // Two joins of c and two removals of a are recorded. One of each has no effect on the model,
    // but all count as changes.
    assert_eq!((history.changes, history.withdrawals), (4, 1));
}

#[test]
fn shadow_copies_have_no_client_and_trials_do() {
    let mut ids = ReplicaIds::new();
    let [a, b] = [(); 2].map(|()| ids.allocate().expect("room"));
    let answer = Some((a, PickReason::Trial));
    let trial = Answer::Pick {
        replica: a,
        reason: PickReason::Trial,
    };
    let pinned = Asked::new(Query::pinned(b));
    let events = [
        (0, Entry::Event(Event::Added(a))),
        (0, name(a, "one")),
        (1, Entry::Trial { answer }),
        (2, query(trial)),
        (
            3,
            Entry::Query {
                asked: pinned,
                answer: pick(a),
            },
        ),
        (4, done(1, Outcome::Success)),
        (4, done(2, Outcome::Success)),
        (5, done(3, Outcome::Dropped)),
    ];
    let mut history = History::default();
    let mut reader = Reader::new(0, 0);
    for (at_ms, event) in &events {
        reader.read(&mut history, Instant::from_nanos(at_ms * MS), event);
    }
    let told: Vec<_> = (history.queries.iter())
        .map(|it| {
            (
                it.is_first(),
                it.latency().map(|it| it.as_millis()),
                it.pinned,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            (false, None, None),
            (true, Some(2), None),
            (true, None, Some(1))
        ]
    );
}
