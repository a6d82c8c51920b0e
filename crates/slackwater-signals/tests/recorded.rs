//! Cgroups as directories of files: version 2 as kernels of several ages write them, version 1 as
//! 6.18 does.
//!
//! The files of version 2 were put together from the kernels' code and published files, not
//! recorded. For version 1, `cpu.stat` and `cpuacct.usage` were recorded. Threads have the id 0
//! where they must look as if they could not be seen from a container.

#![cfg(target_os = "linux")]
#![expect(clippy::expect_used, reason = "tests and their helpers")]

use core::time::Duration;
use slackwater_signals::{Figure, LimitedBy, Origin, Source, Target};
use std::path::Path;

fn open(group: &str) -> Source {
    let fixtures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"));
    Source::open(&Target::Cgroup(fixtures.join(group)))
}

fn detail(source: &Source, figure: Figure) -> &str {
    let mut findings = source.findings().iter();
    let finding = findings.find(|finding| finding.figure == figure);
    &finding.expect("each figure has a finding").detail
}

fn limit(source: &mut Source) -> Option<(u32, LimitedBy)> {
    source.read().cores_limit.map(|it| (it.millicores, it.by))
}

#[test]
fn recorded_group_with_a_quota_of_200_millicores() {
    let mut source = open("v2-6.12");
    let reading = source.read();
    assert_eq!(reading.used, Some(Duration::from_micros(9_554_321)));
    assert_eq!(reading.stalled, Some(Duration::from_micros(38_211_076)));
    let throttled = reading.throttled.unwrap();
    assert_eq!(throttled.time, Duration::from_micros(38_150_222));
    assert_eq!((throttled.periods, throttled.throttled_periods), (478, 477));
    assert_eq!(limit(&mut source), Some((200, LimitedBy::Quota)));
    assert_eq!(reading.quota_period, Some(Duration::from_millis(100)));
    assert_eq!(source.origin(Figure::AllowedCpus), Some(Origin::Cpuset));
    let weight = detail(&source, Figure::Weight);
    assert!(weight.ends_with("cpu.weight 100, usually 100"), "{weight}");
}

#[test]
fn invisible_threads_leave_a_lower_bound_of_waited_time() {
    let mut source = open("v2-6.12");
    assert_eq!(source.origin(Figure::Waited), Some(Origin::CgroupPressure));
    let reading = source.read();
    assert_eq!(reading.waited, reading.stalled);
    assert_eq!(reading.used_by_watched, reading.used);
    assert_eq!((reading.busiest_thread, reading.threads), (None, None));
    let why = detail(&source, Figure::Waited);
    assert!(
        why.contains("a lower bound by") && why.contains("another namespace"),
        "{why}"
    );
}

#[test]
fn without_quota_and_cpuset_there_is_no_limit() {
    let mut source = open("v2-4.15");
    let quota = detail(&source, Figure::Quota);
    assert!(quota.ends_with("no limit now"), "{quota}");
    // The group has no cpuset either, and no thread whose affinity could be read.
    assert_eq!(limit(&mut source), None);
    let reading = source.read();
    assert_eq!(reading.quota_period, None);
    assert_eq!(
        reading.throttled,
        Some(slackwater_signals::Throttled::default())
    );
    // Kernels of this age had no pressure for groups. The machine's own pressure may exist.
    assert_ne!(source.origin(Figure::Stalled), Some(Origin::CgroupPressure));
}

#[test]
fn lowest_quota_of_the_ancestors_is_the_limit() {
    let mut group = open("v2-5.15-nested");
    assert_eq!(limit(&mut group), Some((1500, LimitedBy::Quota)));
    // Its own quota is twice that of the group that it is in.
    let mut pod = open("v2-5.15-nested/pod");
    assert_eq!(limit(&mut pod), Some((1500, LimitedBy::Quota)));
    let throttled = pod.read().throttled.unwrap();
    assert_eq!(
        throttled.throttled_periods, 7,
        "its own, for it has a quota"
    );
}

#[test]
fn group_without_cpu_controller_has_limits_of_its_ancestors() {
    let mut app = open("v2-5.15-nested/pod/app");
    let reading = app.read();
    assert_eq!(reading.used, Some(Duration::from_micros(55_000_123)));
    assert_eq!(reading.stalled, Some(Duration::from_micros(1_000_500)));
    let throttled = reading.throttled.unwrap();
    assert_eq!(throttled.throttled_periods, 7, "of the next with a quota");
    assert_eq!(limit(&mut app), Some((1500, LimitedBy::Quota)));
    let weight = detail(&app, Figure::Weight);
    assert!(weight.contains("cpu.weight is not there"), "{weight}");
}

#[test]
fn waited_time_is_unknown_without_quota_pressure_and_threads() {
    let mut source = open("v2-no-cpu-controller");
    let reading = source.read();
    assert_eq!(reading.used, Some(Duration::from_secs(5)));
    assert_eq!((reading.waited, reading.throttled), (None, None));
    let why = detail(&source, Figure::Throttled);
    assert!(why.contains("no cpu controller"), "{why}");
    let why = detail(&source, Figure::Quota);
    assert!(why.contains("cpu.max is not there"), "{why}");
}

#[test]
fn version_one_files_and_units_are_read() {
    let mut source = open("v1-6.18");
    let reading = source.read();
    assert_eq!(reading.used, Some(Duration::from_nanos(422_555_578)));
    assert_eq!(source.origin(Figure::Used), Some(Origin::CgroupAccounting));
    let throttled = reading.throttled.unwrap();
    assert_eq!(throttled.time, Duration::from_nanos(1_053_379_152));
    assert_eq!(limit(&mut source), Some((200, LimitedBy::Quota)));
    // A group within it that has no quota of its own, and none of the files that count CPU time.
    let mut within = open("v1-6.18/unlimited");
    assert_eq!(limit(&mut within), Some((200, LimitedBy::Quota)));
    assert_eq!(within.origin(Figure::Used), Some(Origin::Threads));
    assert_eq!(within.read().throttled, Some(throttled));
}

#[test]
fn malformed_files_are_reported_and_ignored() {
    let mut source = open("v2-broken");
    let reading = source.read();
    assert_eq!(
        (reading.used, reading.throttled),
        (source.read().used_by_watched, None)
    );
    assert_eq!(reading.cores_limit, None);
    for figure in [Figure::Quota, Figure::Throttled, Figure::Weight] {
        assert_eq!(source.origin(figure), None);
        let why = detail(&source, figure);
        assert!(why.contains("is not of the form that is known"), "{why}");
    }
}

#[test]
fn non_cgroup_directory_gives_an_empty_reading() {
    let mut source = open("");
    assert_eq!(source.read(), slackwater_signals::Reading::default());
    for finding in source.findings() {
        assert_eq!(finding.origin, None);
        let line = finding.to_string();
        assert!(
            line.contains("none: ") && line.contains("is no cgroup"),
            "{line}"
        );
    }
}
