//! Once warm, a reading does not allocate.
//!
//! This is a separate test binary because it counts with the global allocator.

#![cfg(target_os = "linux")]

use slackwater_counting_allocator::calls_of;
use slackwater_signals::{Source, Target, Threads};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// Enough readings for all occasional work to happen: listing a group, reading the allowed CPUs.
const READINGS: usize = 200;

/// The process's own cgroup may contain other processes, whose threads come and go.
#[test]
fn reading_does_not_allocate() {
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
                let _ = core::hint::black_box(source.read_times());
                let _ = core::hint::black_box(source.read_times_and_limits());
            }
        });
        assert_eq!(calls, 0, "{target}");
    }
}

#[test]
fn starting_and_ending_threads_cause_no_allocation() {
    let mut source = Source::open(&Target::ThisProcess);
    source.read();
    for threads in [1, 100, 1, 200] {
        let (calls, seen) = read_among(threads, &mut source);
        assert_eq!(calls, 0, "{threads} more");
        let seen = seen.unwrap();
        assert!(seen.total > threads && seen.watched > threads, "{seen:?}");
    }
}

/// Reads while `threads` more threads wait. Returns the number of allocations and the threads that
/// were seen.
fn read_among(threads: u32, source: &mut Source) -> (u64, Option<Threads>) {
    let sleepers: Vec<_> = (0..threads).map(|_| sleeper()).collect();
    let (calls, with) = calls_of(|| source.read());
    for (end, sleeper) in sleepers {
        drop(end);
        let _ = sleeper.join();
    }
    (calls, with.threads)
}

/// A thread that waits until the other end is dropped.
fn sleeper() -> (Sender<()>, JoinHandle<()>) {
    let (end, ended) = channel();
    let sleeper = std::thread::spawn(move || {
        let _ = ended.recv();
    });
    (end, sleeper)
}
