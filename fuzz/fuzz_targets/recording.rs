//! Arbitrary contents of a recording's file: nothing panics, memory is bounded by the input, and a
//! truncated file is read as far as it is complete. Events that can be read are played to a policy,
//! which accepts all of them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use slackwater_core::policy::{POLICIES, PolicySettings, policy_named};
use slackwater_recording::file::read;
use slackwater_recording::{Bytes, Decoder};
use slackwater_sim::replay::exact::Player;
use slackwater_sim::replay::history::{History, Reader};

fuzz_target!(|bytes: &[u8]| {
    // As a file, whose checksums are rarely valid.
    if let Ok(recording) = read(bytes) {
        for stream in &recording.streams {
            play(&stream.head.policy, &stream.events);
        }
        let cut = read(&bytes[..bytes.len() / 2]);
        let fewer = cut.map_or(0, |cut| cut.streams.len());
        assert!(
            fewer <= recording.streams.len(),
            "half has no more than all"
        );
    }
    // As the events of a stream.
    play("prequal", bytes);
});

fn play(policy: &str, events: &[u8]) {
    let entry = policy_named(policy).unwrap_or(&POLICIES[0]);
    let policy = (entry.build)(&PolicySettings::default());
    let mut player = Some(Player::new(policy, 1));
    let (mut decoder, mut rest) = (Decoder::default(), Bytes::new(events));
    let (mut reader, mut history) = (Reader::new(0, 0), History::default());
    while !rest.is_empty() {
        let Ok((at, event)) = decoder.take(&mut rest) else {
            break;
        };
        reader.read(&mut history, at, &event);
        if player
            .as_mut()
            .is_some_and(|player| player.play(at, &event).is_err())
        {
            player = None;
        }
    }
    reader.finish(&mut history);
    assert!(history.queries.len() <= events.len());
    assert!(
        history.news.len() <= 2 * events.len(),
        "each that joins may leave at the end"
    );
}
