//! Recordings of the tests' own: whole, full, torn and spoiled.

use super::format::{BLOCK_MAX, Block, END_BYTES, End, MAGIC, StreamHead, first_block};
use super::read::{Ending, read};
use super::{RecordArgs, Writing};
use crate::config::Config;
use core::time::Duration;
use slackwater_core::policy::{Decision, Outcome, Policy, Query};
use slackwater_core::{Instant, ReplicaIds, SplitMix64};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A file of the test's own, gone at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("slackwater-record-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn start(&self, size_max: u32) -> Writing {
        Writing::start(&self.0, size_max, false).expect("it can be written")
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.0).expect("it was written")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn config() -> Config {
    let text = "listen = \"127.0.0.1:0\"\nreplicas = [\"127.0.0.1:1\"]\n";
    Config::of_text("test", text.to_owned()).expect("a valid configuration")
}

/// Records so many queries of one policy.
fn record(writing: &Writing, label: &str, queries: u64) {
    let config = config();
    let mut service = config.services.first().expect("one").clone();
    label.clone_into(&mut service.name);
    let policy = (service.policy.build)(&service.policy_settings);
    let (mut policy, stream) = writing.recorder().record(policy, &service, 3);
    let mut ids = ReplicaIds::new();
    let replica = ids.allocate().expect("room");
    policy.add_replica(Instant::EPOCH, replica);
    stream.name(replica, "the one");
    ask(&mut *policy, queries);
}

fn ask(policy: &mut dyn Policy, queries: u64) {
    let mut draw = SplitMix64::new(1);
    for query in 0..queries {
        let now = Instant::EPOCH + Duration::from_millis(query);
        let Decision::Pick(pick) = policy.handle_query(now, Query::first(), &mut draw) else {
            panic!("there is one replica");
        };
        policy.handle_query_done(now, pick.ticket, Outcome::Success);
    }
}

#[test]
fn what_was_recorded_is_read_stream_by_stream() {
    let scratch = Scratch::new("whole");
    let writing = scratch.start(u32::MAX);
    record(&writing, "one", 3);
    record(&writing, "two", 5_000);
    drop(writing);
    let read = read(&scratch.bytes()).expect("a recording");
    assert_eq!(read.end, Ending::Said(End::Complete));
    assert!(read.head.software.starts_with("slackwater "));
    let heads: Vec<_> = read.streams.iter().map(|stream| &stream.head).collect();
    let config = config();
    for (number, (head, service)) in (0_u32..).zip(heads.iter().zip(["one", "two"])) {
        assert_eq!((head.number, head.worker), (number, 3));
        assert_eq!((&*head.service, &*head.policy), (service, "prequal"));
        assert_eq!(head.settings, config.services[0].policy_toml());
    }
    assert_ne!(heads[0].seed, heads[1].seed);
    assert!(heads[0].since_ns <= heads[1].since_ns);
    let bytes: Vec<_> = read.streams.iter().map(|it| it.events.len()).collect();
    assert!(bytes[0] < 100 && bytes[1] > 40_000, "{bytes:?}");
}

#[test]
fn the_file_is_its_owners_and_is_not_written_over() {
    let scratch = Scratch::new("mode");
    drop(scratch.start(u32::MAX));
    let mode = fs::metadata(&scratch.0)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = scratch.bytes();
    let told = Writing::start(&scratch.0, u32::MAX, false).expect_err("it is there");
    assert!(told.to_string().contains("--record-force"), "{told}");
    assert_eq!(scratch.bytes(), before);
    let writing = Writing::start(&scratch.0, u32::MAX, true).expect("it is forced");
    record(&writing, "one", 1);
    drop(writing);
    assert_ne!(scratch.bytes(), before);
}

#[test]
fn who_takes_over_writes_beside() {
    let scratch = Scratch::new("beside");
    let args = RecordArgs {
        record: Some(scratch.0.clone()),
        record_max: u32::MAX,
        record_force: false,
    };
    let first = args.start(false).expect("it can be written");
    let beside = Scratch(super::numbered(&scratch.0, 2));
    let second = args.start(true).expect("it can be written");
    drop((first, second));
    assert_eq!(
        read(&beside.bytes()).expect("a recording").end,
        Ending::Said(End::Complete)
    );
    assert!(
        RecordArgs::default()
            .start(false)
            .expect("nothing to do")
            .is_none()
    );
}

#[test]
fn a_file_that_is_full_ends_with_a_word_and_keeps_to_its_size() {
    let scratch = Scratch::new("full");
    let writing = scratch.start(100_000);
    record(&writing, "one", 60_000);
    drop(writing);
    let bytes = scratch.bytes();
    assert!((50_000..=100_000).contains(&bytes.len()), "{}", bytes.len());
    let read = read(&bytes).expect("a recording");
    assert_eq!(read.end, Ending::Said(End::Full));
    assert!(!read.streams[0].events.is_empty());
}

#[test]
fn a_torn_file_is_read_to_its_last_whole_block() {
    let scratch = Scratch::new("torn");
    let writing = scratch.start(u32::MAX);
    record(&writing, "one", 6_000);
    drop(writing);
    let bytes = scratch.bytes();
    let whole = read(&bytes).expect("a recording");
    let events = &whole.streams[0].events;
    let mut lengths = Vec::new();
    for cut in (0..bytes.len())
        .step_by(501)
        .chain([bytes.len() - END_BYTES])
    {
        let Ok(read) = read(&bytes[..cut]) else {
            assert!(cut < 64, "the head is whole: {cut}");
            continue;
        };
        assert!(
            matches!(read.end, Ending::Torn { at, .. } if at <= cut),
            "{cut}"
        );
        let kept = read
            .streams
            .first()
            .map_or(&[][..], |stream| &stream.events);
        assert!(events.starts_with(kept));
        lengths.push(kept.len());
    }
    assert!(lengths.is_sorted_by(|a, b| a <= b || *b == events.len()));
    assert_eq!(lengths.last(), Some(&events.len()));

    for place in (MAGIC.len()..bytes.len()).step_by(97) {
        let mut spoiled = bytes.clone();
        spoiled[place] ^= 0x10;
        if let Ok(read) = read(&spoiled) {
            assert!(matches!(read.end, Ending::Torn { .. }), "{place}");
        }
    }
}

#[test]
fn what_is_no_recording_is_told() {
    let told = |bytes: &[u8]| read(bytes).expect_err("it is none");
    assert_eq!(told(b""), "is no recording of slackwater's");
    assert_eq!(told(b"#!/bin/sh\nexit"), "is no recording of slackwater's");
    let mut newer = MAGIC;
    newer[7] = 2;
    assert_eq!(
        told(&newer),
        "is a recording of version 2, this command reads version 1"
    );
    assert!(told(&MAGIC).contains("has no head"));
}

#[test]
fn blocks_that_do_not_belong_are_not_taken() {
    let scratch = Scratch::new("order");
    drop(scratch.start(u32::MAX));
    let bytes = scratch.bytes();
    let head = bytes[..bytes.len() - END_BYTES].to_vec();
    let stream = |number| {
        Block::Stream(StreamHead {
            number,
            since_ns: 0,
            worker: 0,
            seed: 1,
            service: "web".to_owned(),
            policy: "prequal".to_owned(),
            settings: String::new(),
        })
        .framed()
    };
    let events = Block::Events {
        stream: 7,
        events: &[1, 2],
    }
    .framed();
    for wrong in [
        [events.clone(), stream(7)].concat(),
        [stream(7), stream(7)].concat(),
        head[MAGIC.len()..].to_vec(),
    ] {
        let read = read(&[head.clone(), wrong].concat()).expect("its head is whole");
        assert!(
            matches!(read.end, Ending::Torn { why, .. } if why.contains("belong")),
            "{read:?}"
        );
    }
    let right = read(&[head.clone(), stream(7), events].concat()).expect("a recording");
    assert_eq!(right.streams[0].events, [1, 2]);

    let long = u32::try_from(BLOCK_MAX + 1).expect("it fits").to_le_bytes();
    assert!(first_block(&[long, [0; 4]].concat()).is_err());
}
