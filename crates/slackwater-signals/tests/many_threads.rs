//! More threads than files that may be open, and more than are watched. It is a single test because
//! all threads of the process count.

#![cfg(target_os = "linux")]
#![expect(clippy::expect_used, reason = "tests and their helpers")]

use core::time::Duration;
use rustix::process::{Resource, Rlimit, getpid, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use slackwater_signals::{Source, Target};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Instant;

/// A thread that burns CPU for each duration that it receives, and ends when the channel is closed.
struct Thread {
    orders: Sender<Duration>,
    done: Receiver<()>,
    handle: JoinHandle<()>,
}

impl Thread {
    fn start() -> Self {
        let (orders, given) = channel::<Duration>();
        let (say_done, done) = channel();
        let work = move || {
            for time in given {
                let begun = Instant::now();
                while begun.elapsed() < time {
                    core::hint::spin_loop();
                }
                let _ = say_done.send(());
            }
        };
        let thread = Builder::new().stack_size(64 << 10).spawn(work);
        let handle = thread.expect("a small thread starts");
        Self {
            orders,
            done,
            handle,
        }
    }

    fn burn(&self, time: Duration) {
        self.orders.send(time).expect("it waits for orders");
        self.done.recv().expect("the thread is done");
    }

    fn end(self) {
        drop(self.orders);
        self.handle.join().expect("it ends well");
    }
}

fn open_files() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").expect("there is /proc");
    files.count()
}

#[test]
fn open_files_and_watched_threads_are_bounded() {
    let limit = getrlimit(Resource::Nofile);
    let few = Rlimit {
        current: Some(64),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, few).expect("less is always granted");
    let mut threads: Vec<Thread> = (0..40).map(|_| Thread::start()).collect();
    let before = open_files();
    let mut source = Source::open(&Target::ThisProcess);
    let first = source.read();
    // An eighth of 64 descriptors for threads, beside those of the source itself.
    assert!(open_files() - before < 24, "{} files", open_files());
    let counted = first.threads.expect("there are threads");
    assert!(counted.watched > 40 && counted.watched == counted.total);
    // The last thread's file is opened for each reading, and the thread still counts.
    let last = threads.last().expect("there are some");
    last.burn(Duration::from_millis(30));
    let begun = Instant::now();
    while source.read().used_by_watched <= first.used_by_watched {
        last.burn(Duration::from_millis(5));
        assert!(begun.elapsed() < Duration::from_mins(1));
    }

    // The first thread may run on only one CPU, the other threads as before. So the process may use
    // all of them.
    let cores = first.cores_limit.expect("affinity is always there");
    let main = Some(getpid());
    let all = sched_getaffinity(main).expect("it is ours");
    let mut one = CpuSet::new();
    let first_cpu = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu));
    one.set(first_cpu.expect("it has one"));
    sched_setaffinity(main, &one).expect("it is ours");
    let pinned = Source::open(&Target::ThisProcess).read().cores_limit;
    sched_setaffinity(main, &all).expect("it is ours");
    assert_eq!(pinned, Some(cores));

    threads.extend((0..1100).map(|_| Thread::start()));
    let reading = source.read();
    let counted = reading.threads.expect("there are threads");
    assert_eq!(counted.watched, 1024);
    assert!(counted.total > 1140, "{counted:?}");
    let mut sum = source.read().used_by_watched;
    for thread in threads.drain(..) {
        thread.end();
    }
    // Threads that were not watched are found when others end, and no sum goes back.
    for _ in 0..3 {
        let now = source.read();
        assert!(now.used_by_watched >= sum);
        sum = now.used_by_watched;
    }
    let counted = source.read().threads.expect("there are threads");
    assert_eq!(counted.watched, counted.total);
}
