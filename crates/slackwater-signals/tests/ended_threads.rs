//! Threads whose work is done before they are first read, and that end. This is a separate test
//! binary because the CPU time of all threads counts.

#![cfg(target_os = "linux")]
#![expect(clippy::expect_used, reason = "tests and their helpers")]

use core::time::Duration;
use rustix::time::{ClockId, clock_gettime};
use slackwater_signals::{Source, Target};
use std::sync::mpsc::channel;

const WORK: Duration = Duration::from_millis(30);

/// Returns the CPU time of this thread.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("it is never negative")
}

/// A thread counts from its beginning, and its share stays when it ends.
#[test]
fn sums_keep_the_use_of_ended_threads() {
    let mut source = Source::open(&Target::ThisProcess);
    let mut sum = source.read().used_by_watched.expect("it is watched");
    for _ in 0..3 {
        let (end, ended) = channel::<()>();
        let (say_done, done) = channel();
        let busy = std::thread::spawn(move || {
            while used() < WORK {
                core::hint::spin_loop();
            }
            say_done.send(()).expect("the test waits for it");
            let _ = ended.recv();
        });
        done.recv().expect("the thread is done");
        let with = source.read();
        let now = with.used_by_watched.expect("it is watched");
        assert!(now >= sum + WORK, "{now:?} after {sum:?}");
        assert!(with.busiest_thread < Some(WORK), "new, not busy: {with:?}");
        drop(end);
        busy.join().expect("it ends well");
        let after = source.read().used_by_watched.expect("it is watched");
        assert!(after >= now, "{after:?} after {now:?}");
        sum = after;
    }
}
