//! This process and others: threads that come and go, and processes that end.

#![cfg(target_os = "linux")]
#![expect(
    clippy::expect_used,
    clippy::unchecked_time_subtraction,
    reason = "tests and their helpers; sums that went back would be found so"
)]

mod support;

use core::time::Duration;
use slackwater_signals::{Figure, LimitedBy, Origin, Reading, Source, Target};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::Instant;
use support::{Busy, TOO_LONG, until};

fn burn(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        core::hint::spin_loop();
    }
}

#[test]
fn own_process_has_all_thread_figures() {
    let mut source = Source::open(&Target::ThisProcess);
    assert_eq!(source.origin(Figure::Used), Some(Origin::ProcessClock));
    assert_eq!(source.origin(Figure::Waited), Some(Origin::Threads));
    assert_eq!(source.origin(Figure::AllowedCpus), Some(Origin::Affinity));
    let first = source.read();
    assert_eq!(first.busiest_thread, None, "there was no reading before");
    assert!(first.waited.is_some() && first.cores_limit.is_some());
    burn(Duration::from_millis(5));
    let later = until(&mut source, "CPU time", |it| it.used > first.used);
    assert!(later.busiest_thread.is_some());
}

/// Rarely changing figures keep their last values.
#[test]
fn read_times_keeps_other_figures_unchanged() {
    let mut source = Source::open(&Target::ThisProcess);
    assert_eq!(source.read_times().cores_limit, None, "no full reading yet");
    let all = source.read();
    burn(Duration::from_millis(5));
    let times = source.read_times();
    assert!(times.used > all.used && times.waited >= all.waited);
    assert_eq!(times.cores_limit, all.cores_limit);
    assert_eq!((times.throttled, times.stalled), (None, None));
    let mut other = Source::open(&Target::ThisProcess);
    let both = other.read_times_and_limits();
    assert_eq!(both.cores_limit, all.cores_limit);
    assert!(both.used.is_some() && both.waited.is_some());
    assert_eq!((both.throttled, both.stalled), (None, None));
}

#[test]
fn threads_are_counted_as_they_start_and_end() {
    let busy = Busy::start();
    let mut source = Source::open(&Target::Process(busy.0.id()));
    let reading = source.read();
    let threads = reading.threads.unwrap();
    assert_eq!((threads.watched, threads.total), (1, 1));
    drop(busy);

    let mut source = Source::open(&Target::ThisProcess);
    let before = source.read().threads.unwrap().total;
    let (end, ended) = channel::<()>();
    let sleeper = std::thread::spawn(move || ended.recv());
    until(&mut source, "one more", |it| {
        let threads = it.threads.unwrap();
        threads.total > before && threads.watched == threads.total
    });
    drop(end);
    let _ = sleeper.join();
}

/// A loop that is always busy has no spare capacity, although it may never wait for a CPU.
#[test]
fn busiest_thread_matches_a_single_threaded_process() {
    let busy = Busy::start();
    let mut source = Source::open(&Target::Process(busy.0.id()));
    let first = source.read();
    let mut sum = Duration::ZERO;
    let last = until(&mut source, "a busy thread", |it| {
        sum += it.busiest_thread.unwrap();
        sum > Duration::from_millis(40)
    });
    let used = last.used_by_watched.unwrap() - first.used_by_watched.unwrap();
    assert_eq!(sum, used);
    drop(busy);
}

#[test]
fn ended_process_gives_an_empty_reading() {
    let busy = Busy::start();
    let id = busy.0.id();
    let mut source = Source::open(&Target::Process(id));
    assert_eq!(source.origin(Figure::Used), Some(Origin::ProcessClock));
    until(&mut source, "CPU time", |it| {
        it.used > Some(Duration::from_millis(5))
    });
    drop(busy);
    assert_eq!(source.read(), Reading::default());
    let gone = Source::open(&Target::Process(id));
    for finding in gone.findings() {
        assert_eq!(finding.origin, None, "{finding}");
        assert!(finding.detail.contains("is not there"), "{finding}");
    }
}

/// A process pinned to one CPU has one core on any machine.
#[test]
fn affinity_limits_the_cores() {
    let work = format!("while [ -d /proc/{} ]; do :; done", std::process::id());
    let begun = Command::new("taskset")
        .args(["-c", "0", "sh", "-c", &work])
        .spawn();
    let Ok(child) = begun else {
        let missing = Command::new("taskset").arg("--version").output();
        assert!(missing.is_err(), "taskset is there, and did not start");
        return;
    };
    let busy = Busy(child);
    let begun = Instant::now();
    // It may run anywhere until it has pinned itself. A source reads the allowed CPUs only now and
    // then.
    loop {
        let limit = Source::open(&Target::Process(busy.0.id()))
            .read()
            .cores_limit;
        let limit = limit.expect("affinity is always there");
        if limit.by == LimitedBy::AllowedCpus && limit.millicores == 1000 {
            break;
        }
        if limit.by == LimitedBy::Quota && limit.millicores < 1000 {
            break;
        }
        assert!(begun.elapsed() < TOO_LONG, "{limit:?}");
    }
    drop(busy);
}
