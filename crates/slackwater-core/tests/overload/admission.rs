//! Queue and limit together.

use super::{BATCH, INTERACTIVE, at, config, ms};
use core::num::NonZeroU32;
use slackwater_core::Instant;
use slackwater_core::overload::{
    Admission, Admit, Asks, ConcurrencyLimit, GradientSettings, Left, Place, Shed, Started,
};
use slackwater_core::policy::Settings;
use slackwater_core::tracker::End;

fn admission(limit: u32, waiting_max: u32) -> Admission<u32> {
    let limit = NonZeroU32::new(limit).expect("some");
    let queue = config(|s| {
        s.waiting_max = waiting_max;
        s.wait_max = ms(100);
    });
    Admission::new(queue, ConcurrencyLimit::fixed(limit))
}

/// An admission whose limit is learned.
fn learned(change: impl FnOnce(&mut GradientSettings)) -> Admission<u32> {
    let mut settings = GradientSettings::default();
    change(&mut settings);
    let limit = ConcurrencyLimit::gradient(settings.validate().expect("in range"));
    Admission::new(config(|_| ()), limit)
}

fn starts(admission: &mut Admission<u32>, now: Instant, value: u32) -> Started {
    match admission.arrive(now, INTERACTIVE, value) {
        Admit::Start(started, _) => started,
        other => panic!("{value}: {other:?}"),
    }
}

fn waits(admission: &mut Admission<u32>, now: Instant, asks: Asks, value: u32) -> Place {
    match admission.arrive(now, asks, value) {
        Admit::Wait(waits) => waits.place,
        other => panic!("{value}: {other:?}"),
    }
}

/// The next query to start. Fails if one is shed.
fn next(admission: &mut Admission<u32>, now: Instant) -> Option<(Started, u32)> {
    match admission.poll(now)? {
        Left::Start(started, value) => Some((started, value)),
        Left::Shed(refused) => panic!("{refused:?}"),
    }
}

#[test]
fn limit_holds_and_each_end_admits_the_next_query() {
    let mut admission = admission(2, 9);
    let first = starts(&mut admission, at(0), 1);
    let second = starts(&mut admission, at(0), 2);
    waits(&mut admission, at(0), BATCH, 3);
    waits(&mut admission, at(1), INTERACTIVE, 4);
    assert!(admission.poll(at(1)).is_none());
    admission.finish(at(2), first, End::Success);
    // A query that comes now queues behind those that wait, though a permit is free.
    waits(&mut admission, at(2), INTERACTIVE, 5);
    let (third, value) = next(&mut admission, at(2)).expect("room");
    assert_eq!(value, 4);
    assert!(admission.poll(at(2)).is_none());
    admission.finish(at(3), second, End::Failed);
    admission.finish(at(3), third, End::Cancelled);
    assert_eq!(next(&mut admission, at(3)).map(|(_, value)| value), Some(5));
    assert_eq!(next(&mut admission, at(3)).map(|(_, value)| value), Some(3));
    let view = admission.view(at(3));
    assert_eq!((view.limit, view.rif, view.waiting), (2, 2, [0; 3]));
    assert_eq!((view.queued, view.shed), (3, [0; 5]));
}

#[test]
fn expired_query_does_not_start_despite_free_permit() {
    let mut admission = admission(1, 9);
    let deadline = Some(at(5));
    let late = Asks { deadline, ..BATCH };
    assert!(matches!(
        admission.arrive(at(5), late, 1),
        Admit::Shed(refused) if refused.shed == Shed::Deadline
    ));
    let first = starts(&mut admission, at(4), 2);
    waits(&mut admission, at(4), late, 3);
    assert_eq!(admission.poll_timeout(), Some(at(5)));
    assert!(admission.poll(at(4)).is_none());
    // It is shed at once, though no query has ended.
    assert!(matches!(
        admission.poll(at(5)),
        Some(Left::Shed(refused)) if refused.value == 3 && refused.shed == Shed::Deadline
    ));
    admission.finish(at(6), first, End::Success);
    assert!(admission.poll(at(6)).is_none());
    assert_eq!(admission.view(at(6)).shed[Shed::Deadline.index()], 2);
}

#[test]
fn cancelled_query_never_starts() {
    let mut admission = admission(1, 9);
    let first = starts(&mut admission, at(0), 1);
    let second = waits(&mut admission, at(0), BATCH, 2);
    let third = waits(&mut admission, at(0), BATCH, 3);
    waits(&mut admission, at(0), BATCH, 4);
    assert_eq!(admission.leave(second), Some(2));
    assert_eq!(admission.copy_started(third), Some(3));
    assert_eq!(admission.copy_started(third), None);
    assert_eq!(admission.refuse_copy(), Shed::CopyStarted);
    admission.finish(at(1), first, End::Success);
    assert_eq!(next(&mut admission, at(1)).map(|(_, value)| value), Some(4));
    let shed = admission.view(at(1)).shed;
    assert_eq!(shed[Shed::CopyStarted.index()], 2);
    assert_eq!(shed.iter().sum::<u64>(), 2, "giving up is not shedding");
}

#[test]
fn shed_queries_are_counted_for_every_reason() {
    let mut admission = admission(1, 1);
    let _first = starts(&mut admission, at(0), 1);
    waits(&mut admission, at(0), BATCH, 2);
    assert!(matches!(admission.arrive(at(0), BATCH, 3), Admit::Shed(_)));
    assert!(matches!(
        admission.arrive(at(0), INTERACTIVE, 4),
        Admit::Wait(waits) if waits.displaced.as_ref().is_some_and(|it| it.value == 2)
    ));
    let view = admission.view(at(7));
    assert_eq!(view.shed[Shed::Full.index()], 2);
    assert_eq!((view.queued, view.waiting, view.age), (2, [1, 0, 0], ms(7)));
}

#[test]
fn query_gives_one_latency_sample() {
    let mut admission = learned(|s| (s.samples_min, s.window) = (4, ms(1)));
    for value in 0..3 {
        let mut started = starts(&mut admission, at(0), value);
        admission.head_ready(at(10), &mut started, End::Success);
        admission.finish(at(90), started, End::Success);
    }
    assert_eq!(admission.view(at(90)).least_latency, None, "three of four");
    let last = starts(&mut admission, at(90), 3);
    admission.finish(at(100), last, End::Success);
    assert_eq!(admission.view(at(100)).least_latency, Some(ms(10)));
}

/// Starts streams whose heads take 10 ms.
fn streams(admission: &mut Admission<u32>, now: Instant, count: usize) -> Vec<Started> {
    let start = |_| {
        let mut stream = starts(admission, now, 0);
        admission.head_ready(now + ms(10), &mut stream, End::Success);
        stream
    };
    (0..count).map(start).collect()
}

#[test]
fn streams_do_not_stop_the_first_measurement() {
    let mut admission = learned(|_| ());
    let _streams = streams(&mut admission, at(0), 4);
    assert_eq!(admission.view(at(10)).limit, 4);
    let mut queries: Vec<Started> = (0..4).map(|_| starts(&mut admission, at(10), 1)).collect();
    waits(&mut admission, at(10), INTERACTIVE, 2);
    assert!(admission.poll(at(10)).is_none(), "four without a head");
    assert!(admission.head_ready(at(20), &mut queries[0], End::Success));
    assert!(next(&mut admission, at(20)).is_some());
}

#[test]
fn streams_do_not_stop_a_later_measurement() {
    let mut admission = learned(|s| {
        (s.limit_start, s.limit_max) = (40, 40);
        s.least_age_max = ms(100);
    });
    let mut now = at(0);
    let _streams = streams(&mut admission, now, 25);
    let mut limits = vec![4];
    while limits.len() < 4 {
        assert!(now < at(5_000), "{limits:?}: no measurement ends");
        let query = starts(&mut admission, now, 1);
        now += ms(14);
        admission.finish(now, query, End::Success);
        let limit = admission.view(now).limit;
        if limits.last() != Some(&limit) {
            limits.push(limit);
        }
    }
    assert_eq!(limits, [4, 40, 20, 40]);
    let _streams = streams(&mut admission, now, 15);
    waits(&mut admission, now, INTERACTIVE, 2);
    assert!(admission.poll(now).is_none(), "all 40 permits are taken");
}

#[test]
fn measured_latency_runs_from_start_to_head() {
    let mut admission = learned(|s| {
        (s.limit_start, s.limit_min) = (1, 1);
        (s.samples_min, s.window) = (1, ms(1));
    });
    let mut first = starts(&mut admission, at(0), 1);
    waits(&mut admission, at(0), BATCH, 2);
    admission.head_ready(at(10), &mut first, End::Success);
    assert_eq!(admission.view(at(10)).least_latency, Some(ms(10)));
    assert_eq!(admission.view(at(10)).rif, 1, "it keeps its place");
    admission.finish(at(50), first, End::Success);
    let (second, _) = next(&mut admission, at(50)).expect("room");
    admission.finish(at(53), second, End::Success);
    let least = admission.view(at(53)).least_latency;
    assert_eq!(least, Some(ms(3)), "its 50 ms in the queue do not count");
}
