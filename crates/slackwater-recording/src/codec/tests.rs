//! Every event there and back, the size of each, and bytes that no encoder wrote.

use super::{Decoder, Encoder, STRANGER};
use crate::{Answer, Asked, Bytes, Entry, Request};
use core::time::Duration;
use slackwater_core::keys::{Identity, KeyHash};
use slackwater_core::policy::{Attempt, Event, Outcome, PickReason, ProbeId, Query, RoundReply};
use slackwater_core::{
    Draw, Instant, LoadReport, LoadScale, ReplicaId, ReplicaIds, Rif, SplitMix64,
};
use std::borrow::Cow;

fn replicas() -> [ReplicaId; 3] {
    let mut ids = ReplicaIds::new();
    [(); 3].map(|()| ids.allocate().expect("room"))
}

fn report(rif: u32) -> LoadReport {
    LoadReport::new(Rif::new(rif), Some(Duration::from_micros(1_500)))
}

/// Every field has a value.
fn full_report() -> LoadReport {
    let mut report = report(7);
    report.load_scale = LoadScale::from_1024ths(102);
    report.draining = true;
    report.incarnation = Some(u64::MAX);
    report.error_millionths = Some(1);
    report.cpu_millionths = Some(u32::MAX);
    report.query_rate_millis = Some(0);
    report.capacity_millirif = Some(5_000);
    report.cost = Some(Duration::from_nanos(3));
    report
}

fn kept(report: LoadReport) -> &'static LoadReport {
    Box::leak(Box::new(report))
}

fn request(fields: &[Option<&str>]) -> Entry<'static> {
    let fields = fields.iter().map(|field| field.map(str::to_owned));
    let request = Request {
        method: "GET".to_owned(),
        status: (fields.len() != 1).then_some(204),
        bytes_in: 0,
        bytes_out: u64::MAX,
        fields: fields.collect(),
    };
    Entry::Request {
        sent_at_ns: 0,
        request: Cow::Owned(request),
    }
}

/// Every kind of event in each of its forms.
fn all_events() -> Vec<Entry<'static>> {
    let [a, b, c] = replicas();
    let plain = || Asked::new(Query::first());
    let hedge = Asked {
        attempt: Attempt::Hedge,
        avoid: Cow::Owned(vec![a, STRANGER]),
        pinned: Some(c),
        has_room: false,
        ..plain()
    };
    let probe = ProbeId::from_bits(u64::MAX - 5);
    let pick = |replica, reason| Answer::Pick { replica, reason };
    let answered = |latency| RoundReply::Answered {
        rif: Rif::new(3),
        latency,
        load_scale: LoadScale::ONE,
        draining: latency.is_none(),
    };
    let mut events: Vec<_> = [a, b, c]
        .map(|replica| Entry::Event(Event::Added(replica)))
        .into();
    let name = Cow::Borrowed("ein Name");
    events.extend([
        Entry::Named { replica: b, name },
        Entry::Event(Event::Available(b, false)),
        Entry::Event(Event::Available(b, true)),
        Entry::Query {
            asked: plain(),
            answer: pick(c, PickReason::Trial),
        },
        Entry::Query {
            asked: hedge.clone(),
            answer: Answer::NoReplica,
        },
        Entry::Query {
            asked: Asked::new(Query::with_room(a)),
            answer: pick(a, PickReason::Room),
        },
        Entry::Query {
            asked: plain(),
            answer: Answer::Probe {
                targets: vec![c, a],
            },
        },
        Entry::Trial { answer: None },
        Entry::Trial {
            answer: Some((b, PickReason::Trial)),
        },
        Entry::Head {
            sent_at_ns: 4,
            outcome: Outcome::PushedBack,
        },
        Entry::Done {
            sent_at_ns: 0,
            outcome: Outcome::Dropped,
        },
        Entry::Round {
            started_at_ns: 5,
            asked: hedge,
            replies: vec![
                (a, RoundReply::Lost),
                (b, answered(None)),
                (c, answered(Some(Duration::from_millis(1)))),
            ],
            answer: Some((a, PickReason::SoleAnswer)),
        },
        Entry::Round {
            started_at_ns: 5,
            asked: plain(),
            replies: Vec::new(),
            answer: None,
        },
        Entry::Poll { probe: None },
        Entry::Poll {
            probe: Some((probe, c)),
        },
        Entry::Event(Event::Report(probe, kept(LoadReport::new(Rif::ZERO, None)))),
        Entry::Event(Event::Report(probe, kept(full_report()))),
        Entry::Event(Event::SiblingReport(a, kept(full_report()))),
        Entry::Event(Event::SiblingQueries(a, u32::MAX)),
        Entry::Event(Event::CarriedReport(STRANGER, kept(report(9)))),
        Entry::Event(Event::ProbeLost(probe)),
        Entry::Event(Event::ProbeUnsent(probe)),
        Entry::Event(Event::Timeout),
    ]);
    events.extend(
        [
            &[][..],
            &[Some("acme"), None, Some("")],
            &[Some("GET"), Some("acme"), Some("grün")],
        ]
        .map(request),
    );
    events.extend(keyed_events());
    events.push(Entry::Event(Event::Removed(b)));
    events
}

/// Names of replicas, and queries with keys.
fn keyed_events() -> [Entry<'static>; 3] {
    let [a, b, c] = replicas();
    let keyed = |key, query: Query<'static>| query.with_key(KeyHash::from_bits(key));
    let pick = |reason| Answer::Pick { replica: a, reason };
    let identity = Identity {
        name: u64::MAX,
        part: u32::MAX,
    };
    [
        Entry::Event(Event::Identified(b, identity)),
        Entry::Query {
            asked: Asked::new(keyed(0, Query::first())),
            answer: pick(PickReason::KeyHome),
        },
        Entry::Query {
            asked: Asked {
                homes: Cow::Owned(vec![b]),
                among: Cow::Owned(vec![b, STRANGER, c]),
                ..Asked::new(keyed(u64::MAX, Query::with_room(a)))
            },
            answer: pick(PickReason::KeySpill),
        },
    ]
}

fn encoded(events: &[Entry<'_>]) -> Vec<u8> {
    let (mut encoder, mut bytes) = (Encoder::default(), Vec::new());
    for (place, event) in (0_u64..).zip(events) {
        // Every second event happens at the time of the one before.
        let at = Instant::from_nanos(place / 2 * 1_000_000);
        encoder.put(&mut bytes, at, event);
    }
    bytes
}

#[test]
fn every_event_round_trips_with_its_time() {
    let events = all_events();
    let bytes = encoded(&events);
    let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(&bytes));
    for (place, event) in (0_u64..).zip(&events) {
        let (at, read) = decoder.take(&mut rest).expect("what was written");
        assert_eq!(at.as_nanos(), place / 2 * 1_000_000);
        assert_eq!(read, *event);
    }
    assert!(rest.is_empty());
}

#[test]
fn repeated_report_is_compact() {
    let [replica, ..] = replicas();
    let carried = Entry::Event(Event::CarriedReport(replica, kept(full_report())));
    let length = |times| {
        let mut events = vec![Entry::Event(Event::Added(replica))];
        events.extend((0..times).map(|_| carried.clone()));
        encoded(&events).len()
    };
    let (first, second) = (length(3) - length(1), length(5) - length(3));
    assert!(
        second < 26,
        "kind, replica, flags, RIF, latency, scale, place, twice: {second}"
    );
    assert!(
        first == second && length(1) > 30,
        "the first is complete: {first}"
    );
}

#[test]
fn repeated_texts_are_compact_and_long_texts_are_cut() {
    let long = "ü".repeat(99);
    let said = [Some(long.as_str()), Some("acme"), None];
    let length = |times: usize| encoded(&vec![request(&said); times]).len();
    let again = length(5) - length(3);
    assert!(
        again <= 2 * 28,
        "ten of them the bytes that went out: {again}"
    );
    assert!(length(1) > 64 + 4, "the first is complete");

    let bytes = encoded(&[request(&said)]);
    let mut decoder = Decoder::default();
    let (_, event) = decoder.take(&mut Bytes::new(&bytes)).expect("written");
    let Entry::Request { request, .. } = event else {
        panic!("{event:?}");
    };
    let cut = request.fields[0].as_deref().expect("it had one");
    assert!(
        long.starts_with(cut) && cut.len() == Request::TEXT_MAX,
        "{cut}"
    );
}

#[test]
fn requests_have_limits_on_fields_and_texts() {
    let many = vec![Some("x"); Request::FIELDS_MAX + 3];
    let bytes = encoded(&[request(&many)]);
    let mut decoder = Decoder::default();
    let (_, event) = decoder.take(&mut Bytes::new(&bytes)).expect("written");
    assert_eq!(event, request(&many[..Request::FIELDS_MAX]));
    // No encoder writes a count of nine or a text of 65 bytes.
    let mut bytes = encoded(&[request(&[])]);
    *bytes.last_mut().expect("the count") = 9;
    bytes.extend([0; 9]);
    assert!(Decoder::default().take(&mut Bytes::new(&bytes)).is_err());
    let mut bytes = encoded(&[request(&[Some("y")])]);
    bytes.truncate(bytes.len() - 2);
    bytes.push(65);
    bytes.extend([b'y'; 65]);
    assert!(Decoder::default().take(&mut Bytes::new(&bytes)).is_err());
}

#[test]
fn departed_replica_is_unknown_successor_is_known() {
    let mut ids = ReplicaIds::new();
    let first = ids.allocate().expect("room");
    ids.release(first);
    let second = ids.allocate().expect("room");
    let available = |replica| Entry::Event(Event::Available(replica, true));
    let bytes = encoded(&[
        Entry::Event(Event::Added(first)),
        Entry::Event(Event::Removed(first)),
        Entry::Event(Event::Added(second)),
        available(first),
        available(second),
    ]);
    let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(&bytes));
    for expected in [
        Entry::Event(Event::Added(first)),
        Entry::Event(Event::Removed(first)),
        Entry::Event(Event::Added(second)),
        available(STRANGER),
        available(second),
    ] {
        assert_eq!(decoder.take(&mut rest).expect("written").1, expected);
    }
}

#[test]
fn index_beyond_the_fleet_is_rejected() {
    let mut ids = ReplicaIds::new();
    let many: Vec<_> = (0..3).filter_map(|_| ids.allocate()).collect();
    let bytes = encoded(&[Entry::Event(Event::Added(many[2]))]);
    let mut decoder = Decoder::default();
    let told = decoder.take(&mut Bytes::new(&bytes));
    assert!(told.is_err(), "it would make tables long: {told:?}");
}

#[test]
fn fleet_larger_than_any_is_rejected() {
    let ids = (0..=ReplicaIds::MAX as u64).map(ReplicaId::from_bits);
    let events: Vec<_> = ids.map(|id| Entry::Event(Event::Added(id))).collect();
    let bytes = encoded(&events);
    let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(&bytes));
    let joined = (0..events.len()).take_while(|_| decoder.take(&mut rest).is_ok());
    assert_eq!(joined.count(), ReplicaIds::MAX);
}

#[test]
fn malformed_bytes_never_panic() {
    let whole = encoded(&all_events());
    let mut draw = SplitMix64::new(11);
    for _ in 0..20_000 {
        let mut bytes = whole.clone();
        for _ in 0..=draw.draw() % 4 {
            let place = usize::try_from(draw.draw()).unwrap_or(0) % bytes.len();
            bytes[place] = draw.draw().to_le_bytes()[0];
        }
        let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(&bytes));
        while !rest.is_empty() && decoder.take(&mut rest).is_ok() {}
    }
    for cut in 0..whole.len() {
        let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(&whole[..cut]));
        while !rest.is_empty() && decoder.take(&mut rest).is_ok() {}
    }
}

#[test]
fn reserved_bits_are_rejected() {
    let mut bytes = encoded(&[Entry::Event(Event::Timeout)]);
    bytes[0] |= 0x20;
    assert!(Decoder::default().take(&mut Bytes::new(&bytes)).is_err());

    let asked = Asked {
        attempt: Attempt::Retry,
        avoid: Cow::Borrowed(&[]),
        pinned: Some(STRANGER),
        has_room: false,
        ..Asked::new(Query::first())
    };
    let answer = Answer::NoReplica;
    let mut bytes = encoded(&[Entry::Query { asked, answer }]);
    assert!(Decoder::default().take(&mut Bytes::new(&bytes)).is_ok());
    // The byte after kind, attempt and the empty list to avoid: whether the query is pinned.
    assert_eq!(bytes[3], 1);
    bytes[3] = 33;
    assert!(Decoder::default().take(&mut Bytes::new(&bytes)).is_err());
    bytes[3] = 3;
    assert!(Decoder::default().take(&mut Bytes::new(&bytes)).is_err());
}
