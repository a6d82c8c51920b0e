//! Once warm, a reading asks nothing of the heap.
//!
//! A test binary of its own, because it counts through the global allocator.

#![cfg(target_os = "linux")]

#[path = "../../slackwater-core/tests/support/counting_allocator.rs"]
mod counting_allocator;

use counting_allocator::calls_of;
use slackwater_signals::{Source, Target};
use std::sync::mpsc::channel;

/// As often as everything that is done now and then comes around: lists of a group, allowed CPUs.
const READINGS: usize = 200;

#[test]
fn a_reading_asks_nothing_of_the_heap() {
    let group = std::path::Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/v2-5.15-nested"
    ));
    for target in [
        Target::ThisProcess,
        Target::OwnCgroup,
        Target::Cgroup(group.into()),
    ] {
        let mut source = Source::open(&target);
        source.read();
        let (calls, ()) = calls_of(|| {
            for _ in 0..READINGS {
                let _ = core::hint::black_box(source.read());
            }
        });
        assert_eq!(calls, 0, "{target}");
    }
}

/// Threads that come and go neither, as long as there are no more of them than before.
#[test]
fn other_threads_in_the_place_of_those_that_ended_ask_nothing_either() {
    let mut source = Source::open(&Target::ThisProcess);
    for round in 0..3 {
        let (end, ended) = channel::<()>();
        let sleeper = std::thread::spawn(move || ended.recv());
        let (calls, with) = calls_of(|| source.read());
        assert!(round == 0 || calls == 0, "{calls} in round {round}");
        drop(end);
        let _ = sleeper.join();
        let threads = with.threads.unwrap();
        assert!(threads.total > 1 && threads.watched > 1, "{threads:?}");
    }
}
