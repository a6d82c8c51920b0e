//! Cgroups of version 1 with real quotas, and a busy process in them. Where no groups can be made
//! (no version 1, or no right to), the tests check that a source reports why there is nothing.

#![cfg(target_os = "linux")]
#![expect(
    clippy::expect_used,
    clippy::unchecked_time_subtraction,
    reason = "tests and their helpers; sums that went back would be found so"
)]

mod support;

use core::time::Duration;
use rustix::thread::gettid;
use slackwater_signals::{Figure, LimitedBy, Origin, Reading, Source, Target};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Instant;
use support::{Busy, TOO_LONG, until};

const CPU: &str = "/sys/fs/cgroup/cpu";
const ACCOUNTING: &str = "/sys/fs/cgroup/cpuacct";

/// A cgroup that is removed at the end.
struct Group(PathBuf);

impl Group {
    /// Makes a group; `None`: it cannot be made here, and sources report why.
    fn new(below: &Path, name: &str) -> Option<Self> {
        let path = below.join(name);
        if fs::create_dir(&path).is_ok() && path.join("tasks").exists() {
            return Some(Self(path));
        }
        let _ = fs::remove_dir(&path);
        let mut source = Source::open(&Target::Cgroup(path.clone()));
        assert_eq!(source.read(), Reading::default());
        for finding in source.findings() {
            let named = finding.detail.contains(&path.display().to_string());
            assert!(finding.origin.is_none() && named, "{finding}");
        }
        None
    }

    fn write(&self, file: &str, value: &str) {
        fs::write(self.0.join(file), value).expect("the group is ours");
    }

    fn source(&self) -> Source {
        Source::open(&Target::Cgroup(self.0.clone()))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let begun = Instant::now();
        // It may take a moment until the processes that were in it are gone.
        while fs::remove_dir(&self.0).is_err() && begun.elapsed() < TOO_LONG {
            std::thread::yield_now();
        }
    }
}

fn name(test: &str) -> String {
    format!("slackwater-signals-{}-{test}", std::process::id())
}

/// One busy thread has a fifth of a core. All of its time is either used or waited, so `waited` has
/// the time during which the quota stops it. This fails on a kernel whose `schedstat` leaves that
/// time out.
#[test]
fn waited_time_includes_throttling_by_a_quota() {
    let Some(group) = Group::new(CPU.as_ref(), &name("quota")) else {
        return;
    };
    group.write("cpu.cfs_period_us", "100000");
    group.write("cpu.cfs_quota_us", "20000");
    let busy = Busy::start();
    group.write("cgroup.procs", &busy.0.id().to_string());
    let mut source = group.source();
    let mut process = Source::open(&Target::Process(busy.0.id()));
    assert_eq!(source.origin(Figure::Waited), Some(Origin::Threads));

    // From the end of one wait to the end of another, with some stops between: no wait is under way
    // at either end.
    let mut last = source.read().waited;
    let mut has_ended = move |reading: &Reading| {
        let before = core::mem::replace(&mut last, reading.waited);
        reading.waited > before
    };
    let first = until(&mut source, "a wait", |it| {
        has_ended(it) && it.throttled.unwrap().throttled_periods > 0
    });
    let (begun, at_process) = (Instant::now(), process.read());
    let stops = first.throttled.unwrap().throttled_periods + 4;
    let mut wall = Duration::ZERO;
    let end = until(&mut source, "stops", |it| {
        wall = begun.elapsed();
        has_ended(it) && it.throttled.unwrap().throttled_periods >= stops
    });
    let waited = end.waited.unwrap() - first.waited.unwrap();
    let used = end.used_by_watched.unwrap() - first.used_by_watched.unwrap();
    assert!(
        used + waited > wall * 8 / 10,
        "{used:?} used and {waited:?} waited of {wall:?}"
    );
    assert!(waited > used, "{waited:?} waited, {used:?} used");
    assert!(end.throttled.unwrap().time > first.throttled.unwrap().time);
    let limit = end.cores_limit.unwrap();
    assert_eq!((limit.millicores, limit.by), (200, LimitedBy::Quota));
    assert_eq!(end.quota_period, Some(Duration::from_millis(100)));

    // A source of the process alone has the same figures, and finds the group itself.
    let process = process.read();
    assert!(process.waited.unwrap() - at_process.waited.unwrap() > waited / 2);
    assert_eq!(process.cores_limit, Some(limit));
    assert!(process.throttled.unwrap().throttled_periods >= stops);
    // A changed quota is seen at once.
    group.write("cpu.cfs_quota_us", "50000");
    let limit = source.read().cores_limit.unwrap();
    assert_eq!((limit.millicores, limit.by), (500, LimitedBy::Quota));
}

#[test]
fn inner_group_has_quota_and_throttling_of_the_outer_one() {
    let Some(outer) = Group::new(CPU.as_ref(), &name("outer")) else {
        return;
    };
    outer.write("cpu.cfs_quota_us", "30000");
    let inner = Group::new(&outer.0, "inner").expect("the outer one could be made");
    let deep = Group::new(&inner.0, "deep").expect("the outer one could be made");
    let busy = Busy::start();
    deep.write("cgroup.procs", &busy.0.id().to_string());
    let mut within = inner.source();
    let mut around = outer.source();
    let limit = within.read().cores_limit.unwrap();
    assert_eq!((limit.millicores, limit.by), (300, LimitedBy::Quota));
    until(&mut within, "a stop", |it| {
        it.throttled.unwrap().throttled_periods > 0
    });
    // Groups within a group are part of it.
    let seen = until(&mut around, "a thread", |it| {
        it.used_by_watched > Some(Duration::ZERO)
    });
    assert_eq!(seen.threads.unwrap().watched, 1);
    // A thread that leaves is dropped at the next list of its group.
    drop(busy);
    until(&mut around, "no thread", |it| {
        it.threads.unwrap().watched == 0
    });
    drop(deep);
    drop(inner);
    assert!(within.read().throttled.is_some(), "the outer one is there");
    drop(outer);
    assert_eq!(within.read().throttled, None);
    assert_eq!(around.read().throttled, None);
}

#[test]
fn read_times_reports_the_last_known_limit() {
    let Some(group) = Group::new(CPU.as_ref(), &name("times")) else {
        return;
    };
    group.write("cpu.cfs_period_us", "100000");
    group.write("cpu.cfs_quota_us", "20000");
    let mut source = group.source();
    let told = |it: Reading| (it.cores_limit.unwrap().millicores, it.throttled.is_some());
    assert_eq!(told(source.read()), (200, true));
    group.write("cpu.cfs_period_us", "50000");
    let times = source.read_times();
    assert_eq!(told(times), (200, false));
    assert_eq!(times.quota_period, Some(Duration::from_millis(100)));
    assert_eq!(told(source.read()), (400, true));
    let period = source.read_times().quota_period;
    assert_eq!(period, Some(Duration::from_millis(50)));
    group.write("cpu.cfs_quota_us", "10000");
    assert_eq!(told(source.read_times_and_limits()), (200, false));
}

/// Groups of version 1 can have single threads in them. Such a thread has a past, which does not
/// count for the group.
#[test]
fn thread_counts_from_when_it_joins_the_group() {
    let Some(group) = Group::new(CPU.as_ref(), &name("thread")) else {
        return;
    };
    let mut source = group.source();
    assert_eq!(source.read().threads.unwrap().watched, 0);
    let (say_id, id) = channel();
    let (end, ended) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {
            core::hint::spin_loop();
        }
        say_id.send(gettid()).unwrap();
        let _ = ended.recv();
    });
    let id = id.recv().unwrap().as_raw_nonzero().to_string();
    group.write("tasks", &id);
    let seen = until(&mut source, "it", |it| it.threads.unwrap().watched == 1);
    assert!(
        seen.used_by_watched < Some(Duration::from_millis(5)),
        "its past is in: {seen:?}"
    );
    // The thread leaves the group and lives on.
    fs::write(Path::new(CPU).join("tasks"), &id).expect("the root takes anybody");
    until(&mut source, "no thread", |it| {
        it.threads.unwrap().watched == 0
    });
    drop(end);
    thread.join().unwrap();
}

#[test]
fn group_cpu_time_comes_from_the_accounting_controller() {
    let name = name("accounting");
    let Some(group) = Group::new(CPU.as_ref(), &name) else {
        return;
    };
    // Nothing counts the group's CPU time, so it is what its threads have used.
    let alone = group.source();
    let Some(beside) = Group::new(ACCOUNTING.as_ref(), &name) else {
        return;
    };
    assert_eq!(alone.origin(Figure::Used), Some(Origin::Threads));
    let busy = Busy::start();
    for group in [&group, &beside] {
        group.write("cgroup.procs", &busy.0.id().to_string());
    }
    let mut source = group.source();
    assert_eq!(source.origin(Figure::Used), Some(Origin::CgroupAccounting));
    let first = source.read().used.unwrap();
    until(&mut source, "CPU time", |it| {
        it.used.unwrap() > first + Duration::from_millis(20)
    });
    drop(busy);
    drop(beside);
    assert_eq!(source.read().used, None, "no file counts it any more");
}
