//! Once warm, a reading asks nothing of the heap.
//!
//! A test binary of its own, because it counts through the global allocator.

#![cfg(target_os = "linux")]
#![expect(
    unsafe_code,
    reason = "a global allocator can be written in no other way"
)]

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use slackwater_signals::{Source, Target};
use std::alloc::System;
use std::sync::mpsc::channel;

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    CALLS.with(|calls| calls.set(calls.get() + 1));
}

// SAFETY: every call is handed to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        let before = CALLS.with(Cell::get);
        for _ in 0..READINGS {
            let _ = core::hint::black_box(source.read());
        }
        assert_eq!(CALLS.with(Cell::get) - before, 0, "{target}");
    }
}

/// Threads that come and go neither, as long as there are no more of them than before.
#[test]
fn other_threads_in_the_place_of_those_that_ended_ask_nothing_either() {
    let mut source = Source::open(&Target::ThisProcess);
    for round in 0..3 {
        let (end, ended) = channel::<()>();
        let sleeper = std::thread::spawn(move || ended.recv());
        let before = CALLS.with(Cell::get);
        let with = source.read();
        let calls = CALLS.with(Cell::get) - before;
        assert!(round == 0 || calls == 0, "{calls} in round {round}");
        drop(end);
        let _ = sleeper.join();
        let threads = with.threads.unwrap();
        assert!(threads.total > 1 && threads.watched > 1, "{threads:?}");
    }
}
