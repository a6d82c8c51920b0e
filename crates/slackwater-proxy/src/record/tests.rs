//! Tests of recordings: complete, full, torn and corrupted.

use super::Writing;
use core::time::Duration;
use slackwater_config::Config;
use slackwater_core::policy::{Decision, Event, Outcome, Policy, Query};
use slackwater_core::{Instant, NoDraw, ReplicaId, ReplicaIds, SplitMix64};
use slackwater_recording::Stream;
use slackwater_recording::file::{
    BLOCK_MAX, Block, END_BYTES, End, Ending, Head, MAGIC, Recording, StreamHead, first_block, read,
};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A temporary file, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("slackwater-record-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn start(&self, size_max: u32) -> Writing {
        Writing::start(&self.0, size_max, false, None).expect("it can be written")
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
    let text = "listen = \"127.0.0.1:0\"\npolicy = \"prequal\"\nreplicas = [\"127.0.0.1:1\"]\n";
    Config::of_text("test", text.to_owned()).expect("a valid configuration")
}

fn stream_head(number: u32) -> StreamHead {
    StreamHead {
        number,
        since_ns: 0,
        worker: 0,
        seed: 1,
        service: "web".to_owned(),
        policy: "prequal".to_owned(),
        settings: String::new(),
        fields: vec!["x-tenant".to_owned()],
    }
}

/// Records a policy with one replica.
fn start(writing: &Writing, label: &str) -> (Box<dyn Policy>, Stream, ReplicaId) {
    let config = config();
    let mut service = config.services.first().expect("one").clone();
    label.clone_into(&mut service.name);
    let policy = (service.policy.build)(&service.policy_settings);
    let (mut policy, stream) = writing.recorder().record(policy, &service, 3);
    let mut ids = ReplicaIds::new();
    let replica = ids.allocate().expect("room");
    policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
    stream.name(replica, "the one");
    (policy, stream, replica)
}

/// Records this many queries of one policy.
fn record(writing: &Writing, label: &str, queries: u64) {
    let (mut policy, ..) = start(writing, label);
    ask(&mut *policy, queries);
}

/// Waits until the file of a recording that is being written is as described.
fn until(scratch: &Scratch, what: &str, is_so: impl Fn(&Recording) -> bool) {
    let began = std::time::Instant::now();
    while !read(&scratch.bytes()).is_ok_and(|recording| is_so(&recording)) {
        assert!(began.elapsed() < Duration::from_mins(1), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn ask(policy: &mut dyn Policy, queries: u64) {
    let mut draw = SplitMix64::new(1);
    for query in 0..queries {
        let now = Instant::EPOCH + Duration::from_millis(query);
        let Decision::Pick(pick) = policy.choose(now, Query::first(), &mut draw, None) else {
            panic!("there is one replica");
        };
        policy.handle_query_done(now, pick.ticket, Outcome::Success);
    }
}

#[test]
fn recordings_are_read_stream_by_stream() {
    let scratch = Scratch::new("whole");
    let writing = scratch.start(u32::MAX);
    record(&writing, "one", 3);
    record(&writing, "two", 5_000);
    drop(writing);
    let read = read(&scratch.bytes()).expect("a recording");
    assert_eq!(read.end, Ending::EndBlock(End::Complete));
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
fn the_file_is_private_and_is_not_overwritten() {
    let scratch = Scratch::new("mode");
    drop(scratch.start(u32::MAX));
    let mode = fs::metadata(&scratch.0)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = scratch.bytes();
    let told = Writing::start(&scratch.0, u32::MAX, false, None).expect_err("it is there");
    assert!(told.to_string().contains("--record-force"), "{told}");
    assert_eq!(scratch.bytes(), before);
    let writing = Writing::start(&scratch.0, u32::MAX, true, None).expect("it is forced");
    record(&writing, "one", 1);
    drop(writing);
    assert_ne!(scratch.bytes(), before);
}

#[test]
fn full_file_ends_with_its_reason_within_its_size_limit() {
    let scratch = Scratch::new("full");
    let writing = scratch.start(100_000);
    record(&writing, "one", 60_000);
    let end = Ending::EndBlock(End::Full);
    until(&scratch, "it says so at once", |it| it.end == end);
    drop(writing);
    let bytes = scratch.bytes();
    assert!((50_000..=100_000).contains(&bytes.len()), "{}", bytes.len());
    let read = read(&bytes).expect("a recording");
    assert_eq!(read.end, end);
    assert!(!read.streams[0].events.is_empty());
}

#[test]
fn events_of_a_quiet_policy_are_written_without_another_event() {
    let scratch = Scratch::new("quiet");
    let writing = scratch.start(u32::MAX);
    let (mut policy, ..) = start(&writing, "one");
    let has_events = |it: &Recording| it.streams.iter().any(|one| !one.events.is_empty());
    ask(&mut *policy, 3);
    until(&scratch, "they are in the file", has_events);
}

#[test]
fn hundreds_of_streams_are_written_to_their_ends() {
    let scratch = Scratch::new("hundreds");
    let writing = scratch.start(u32::MAX);
    let streams: Vec<_> = (0..300).map(|_| start(&writing, "one")).collect();
    for (_, stream, replica) in &streams {
        // Nearly a full block.
        (0..120).for_each(|_| stream.name(*replica, &"x".repeat(256)));
    }
    drop(writing);
    let read = read(&scratch.bytes()).expect("a recording");
    assert_eq!(read.end, Ending::EndBlock(End::Complete));
    let lengths: Vec<_> = read.streams.iter().map(|it| it.events.len()).collect();
    assert_eq!(lengths.len(), streams.len());
    assert!(
        lengths.iter().all(|bytes| *bytes > 120 * 256),
        "{lengths:?}"
    );
}

#[test]
fn recording_cut_while_writing_is_read_to_its_last_full_block() {
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
}

/// Makes a file with two streams and some of their blocks, and returns where each block ends.
fn small_file() -> (Vec<u8>, Vec<usize>) {
    let head = Head {
        started_ms: 1_790_000_000_000,
        software: "slackwater 0.1.0".to_owned(),
    };
    let events = |stream, events| Block::Events { stream, events };
    let blocks = [
        Block::Head(head),
        Block::Stream(stream_head(7)),
        events(7, &[1, 2, 3]),
        Block::Stream(stream_head(9)),
        events(9, &[4, 5]),
        events(7, &[6]),
        Block::End(End::Complete),
    ];
    let (mut bytes, mut ends) = (MAGIC.to_vec(), Vec::new());
    for block in &blocks {
        bytes.extend(block.framed());
        ends.push(bytes.len());
    }
    (bytes, ends)
}

/// Returns the events of each stream.
fn events_of(recording: &Recording) -> Vec<&[u8]> {
    let streams = recording.streams.iter();
    streams.map(|stream| &*stream.events).collect()
}

#[test]
fn file_truncated_anywhere_is_read_to_its_last_full_block() {
    let (bytes, ends) = small_file();
    let whole = read(&bytes).expect("a recording");
    assert_eq!(events_of(&whole), [&[1, 2, 3, 6][..], &[4, 5]]);
    let by_blocks: [&[&[u8]]; 6] = [
        &[],
        &[&[]],
        &[&[1, 2, 3]],
        &[&[1, 2, 3], &[]],
        &[&[1, 2, 3], &[4, 5]],
        &[&[1, 2, 3, 6], &[4, 5]],
    ];
    for cut in 0..bytes.len() {
        let blocks = ends.partition_point(|end| *end <= cut);
        let Some(expected) = blocks.checked_sub(1).map(|last| by_blocks[last]) else {
            assert!(read(&bytes[..cut]).is_err(), "{cut}: there is no head");
            continue;
        };
        let recording = read(&bytes[..cut]).expect("its head is whole");
        assert_eq!(events_of(&recording), expected, "{cut}");
        let Ending::Torn { at, why } = recording.end else {
            panic!("{cut}: {recording:?}");
        };
        assert_eq!((at, why), (ends[blocks - 1], "it is cut off"), "{cut}");
    }
}

#[test]
fn flipped_bit_ends_a_file_before_its_block() {
    let (bytes, ends) = small_file();
    for bit in MAGIC.len() * 8..bytes.len() * 8 {
        let mut spoiled = bytes.clone();
        spoiled[bit / 8] ^= 1 << (bit % 8);
        let blocks = ends.partition_point(|end| *end <= bit / 8);
        match read(&spoiled) {
            Err(_) => assert_eq!(blocks, 0, "bit {bit}: only without a head"),
            Ok(recording) => {
                assert!(matches!(recording.end, Ending::Torn { at, .. } if at == ends[blocks - 1]));
            }
        }
    }
}

#[test]
fn a_file_of_the_first_version_is_read_and_has_no_fields() {
    let (mut bytes, _) = small_file();
    bytes.truncate(MAGIC.len());
    bytes[MAGIC.len() - 1] = 1;
    let head = Head {
        started_ms: 0,
        software: "slackwater 0.1.0".to_owned(),
    };
    bytes.extend(Block::Head(head).framed());
    let fieldless = StreamHead {
        fields: Vec::new(),
        ..stream_head(0)
    };
    // The count of fields is the last byte, which the first version did not have.
    let framed = Block::Stream(fieldless).framed();
    let (content, _) = first_block(&framed).expect("it is whole");
    let content = &content[..content.len() - 1];
    let length = u32::try_from(content.len()).expect("few");
    bytes.extend(length.to_le_bytes());
    bytes.extend(crc32c::crc32c(content).to_le_bytes());
    bytes.extend(content);
    let events = [0x80 | 0x40 | 9];
    bytes.extend(
        Block::Events {
            stream: 0,
            events: &events,
        }
        .framed(),
    );
    bytes.extend(Block::End(End::Complete).framed());
    let recording = read(&bytes).expect("a recording");
    assert_eq!(recording.end, Ending::EndBlock(End::Complete));
    assert_eq!(events_of(&recording), [&events[..]]);
    assert!(recording.streams[0].head.fields.is_empty());
    // Read as the second version, the same stream is incomplete.
    bytes[MAGIC.len() - 1] = 2;
    let recording = read(&bytes).expect("its head is whole");
    assert!(matches!(recording.end, Ending::Torn { .. }));
}

#[test]
fn a_file_that_is_not_a_recording_is_rejected() {
    let told = |bytes: &[u8]| read(bytes).expect_err("it is none");
    assert_eq!(told(b""), "is no recording of slackwater's");
    assert_eq!(told(b"#!/bin/sh\nexit"), "is no recording of slackwater's");
    let mut newer = MAGIC;
    newer[7] = 3;
    assert_eq!(
        told(&newer),
        "is a recording of version 3, this command reads versions 1 to 2"
    );
    newer[7] = 0;
    assert!(told(&newer).contains("version 0"));
    assert!(told(&MAGIC).contains("has no head"));
}

#[test]
fn invalid_blocks_are_rejected() {
    let scratch = Scratch::new("order");
    drop(scratch.start(u32::MAX));
    let bytes = scratch.bytes();
    let head = bytes[..bytes.len() - END_BYTES].to_vec();
    let stream = |number| Block::Stream(stream_head(number)).framed();
    let events = Block::Events {
        stream: 7,
        events: &[1, 2],
    }
    .framed();
    let second_head = Block::Head(Head {
        started_ms: 0,
        software: "another".to_owned(),
    });
    for (wrong, streams) in [
        ([events.clone(), stream(7)].concat(), 0),
        ([stream(7), stream(7)].concat(), 1),
        (second_head.framed(), 0),
    ] {
        let read = read(&[head.clone(), wrong].concat()).expect("its head is whole");
        assert!(
            matches!(read.end, Ending::Torn { why, .. } if why.contains("belong")),
            "{read:?}"
        );
        assert_eq!(
            read.streams.len(),
            streams,
            "a rejected block counts as nothing"
        );
        assert!(read.head.software.starts_with("slackwater "));
    }
    let right = read(&[head.clone(), stream(7), events].concat()).expect("a recording");
    assert_eq!(right.streams[0].events, [1, 2]);

    let long = u32::try_from(BLOCK_MAX + 1).expect("it fits").to_le_bytes();
    assert!(first_block(&[long, [0; 4]].concat()).is_err());
}
