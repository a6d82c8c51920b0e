//! When there is a record, what it contains, and when its consumers get it.

use super::ids::Ids;
use super::*;
use core::cell::RefCell;
use core::time::Duration;
use http::StatusCode;
use slackwater_config::RequestIdSettings;
use slackwater_core::ReplicaIds;
use slackwater_core::policy::{Outcome, PickReason};
use slackwater_http::Fields;
use slackwater_tower::client::PickView;
use slackwater_tower::clock::Clock;
use std::rc::Rc;

type Heard = Rc<RefCell<Vec<String>>>;

/// A consumer that needs this much detail, and remembers its calls.
#[derive(Debug)]
struct Listener {
    interest: Option<Interest>,
    heard: Heard,
}

impl Consumer for Listener {
    fn wants(&self, _headers: &Fields) -> Option<Interest> {
        self.interest
    }

    fn over(&self, record: &RequestRecord, mark: u8) {
        let attempt_records = record.attempt_records.len();
        self.heard
            .borrow_mut()
            .push(format!("{mark} over {attempt_records}"));
    }

    fn finished(&self, record: &RequestRecord, mark: u8) {
        let attempt_records = record.attempt_records.iter().map(|attempt| {
            let end = attempt.end.as_ref();
            let outcome = end.map_or("out", |end| end.outcome.as_str());
            let cause = end.and_then(|end| end.cause.as_deref()).unwrap_or("-");
            let status = attempt.status.map_or(0, |status| status.as_u16());
            format!(
                "{} {} {outcome} {status} {cause}",
                attempt.kind.as_str(),
                attempt.replica
            )
        });
        let attempt_records = attempt_records.collect::<Vec<_>>().join(", ");
        let leading = record.leading.filter(|place| record.is_answered_by(*place));
        self.heard
            .borrow_mut()
            .push(format!("{mark} [{attempt_records}] {leading:?}"));
    }
}

fn begin(interests: [Option<Interest>; 3]) -> (RecordHandle, Heard) {
    let heard = Heard::default();
    let consumers = interests.map(|interest| {
        let heard = Rc::clone(&heard);
        Some(Box::new(Listener { interest, heard }) as Box<dyn Consumer>)
    });
    let ids = Ids::new(&RequestIdSettings::default());
    let recorder = RequestRecorder::new(consumers, ids, None);
    let request = http::Request::get("/").body(()).expect("a request").into();
    let origin = origin_of([10, 0, 0, 9].into());
    let handle = recorder.begin(&request, (None, None), &origin);
    (handle, heard)
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the interest of a consumer is optional"
)]
fn interest(detail: Detail, mark: u8) -> Option<Interest> {
    Some(Interest { detail, mark })
}

fn pick() -> PickView {
    let replica = ReplicaIds::new().allocate().expect("room");
    PickView::without_report(replica, PickReason::Turn)
}

fn attempt(handle: &RecordHandle, kind: AttemptKind, replica: &str) -> AttemptHandle {
    let notes = handle.begin_attempt(kind, &replica.into(), &pick(), handle.explanation());
    if kind != AttemptKind::Trial {
        handle.attempt(kind, &replica.into(), (&pick(), None), None);
    }
    notes
}

#[test]
fn record_is_made_only_for_interested_consumers() {
    let (handle, heard) = begin([None, None, None]);
    assert!(format!("{handle:?}").contains("None"), "{handle:?}");
    attempt(&handle, AttemptKind::First, "a").head(StatusCode::OK, None);
    drop(handle);
    assert_eq!(*heard.borrow(), [""; 0]);

    let (handle, heard) = begin([None, interest(Detail::Summary, 7), None]);
    drop(handle);
    assert_eq!(*heard.borrow(), ["7 over 0", "7 [] None"]);
}

#[test]
fn attempts_are_recorded_only_for_consumers_that_request_them() {
    for (detail, attempts, explains) in [
        (Detail::Summary, 0, false),
        (Detail::Attempts, 1, false),
        (Detail::Choices, 1, true),
    ] {
        let (handle, heard) = begin([interest(Detail::Summary, 1), interest(detail, 2), None]);
        assert_eq!(handle.explanation().is_some(), explains, "{detail:?}");
        drop(attempt(&handle, AttemptKind::First, "a"));
        drop(handle);
        let over = format!("1 over {attempts}");
        assert_eq!(heard.borrow()[0], over, "{detail:?}");
    }
}

#[test]
fn each_attempt_has_its_own_end_and_the_last_of_them_ends_the_record() {
    let (handle, heard) = begin([interest(Detail::Attempts, 1), None, None]);
    let mut first = attempt(&handle, AttemptKind::First, "a");
    first.connected(Duration::from_millis(1));
    first.end(Outcome::NoConnection, || Some("no connection".into()));
    let mut second = attempt(&handle, AttemptKind::Retry, "b");
    second.head(StatusCode::OK, None);
    handle.pass_on(AttemptKind::Retry, None);
    let mut trial = attempt(&handle, AttemptKind::Trial, "c");
    second.end(Outcome::Success, || None);
    handle.end(Ended::Complete);
    drop(handle);
    assert_eq!(*heard.borrow(), ["1 over 3"], "the trial is still out");
    trial.end(Outcome::Failed, || None);
    assert_eq!(
        heard.borrow()[1],
        "1 [first a no_connection 0 no connection, retry b success 200 -, trial c failed 0 -] Some(1)"
    );
    assert_eq!(heard.borrow().len(), 2);
}

#[test]
fn winning_hedge_is_the_leading_attempt() {
    let (handle, heard) = begin([interest(Detail::Attempts, 1), None, None]);
    let mut first = attempt(&handle, AttemptKind::First, "a");
    let mut copy = attempt(&handle, AttemptKind::Hedge, "b");
    copy.due_after(Duration::from_millis(9));
    copy.head(StatusCode::OK, None);
    handle.pass_on(AttemptKind::Hedge, None);
    first.end(Outcome::Dropped, || Some("the other copy won".into()));
    copy.end(Outcome::Success, || None);
    drop(handle);
    assert_eq!(
        heard.borrow()[1],
        "1 [first a dropped 0 the other copy won, hedge b success 200 -] Some(1)"
    );
}

#[test]
fn record_ends_with_its_last_handle() {
    let (handle, heard) = begin([interest(Detail::Summary, 1), None, None]);
    let of_the_body = handle.clone();
    drop(handle);
    assert_eq!(heard.borrow().len(), 0);
    drop(of_the_body);
    assert_eq!(heard.borrow().len(), 2);
}

/// The total time of each record, its time to the first byte, and its queue.
#[derive(Debug, Default)]
struct Times(Rc<RefCell<Vec<[Option<Duration>; 3]>>>);

impl Consumer for Times {
    fn wants(&self, _headers: &Fields) -> Option<Interest> {
        interest(Detail::Summary, 0)
    }

    fn over(&self, record: &RequestRecord, _mark: u8) {
        let times = [record.queue, record.first_byte, record.total];
        self.0.borrow_mut().push(times);
    }
}

#[tokio::test(start_paused = true)]
async fn times_on_the_clock_of_the_service_count_from_the_request_head() {
    let times = Times::default();
    let read = Rc::clone(&times.0);
    let consumers = [Some(Box::new(times) as Box<dyn Consumer>), None, None];
    let ids = Ids::new(&RequestIdSettings::default());
    let recorder = RequestRecorder::new(consumers, ids, None);
    let request = http::Request::get("/").body(()).expect("a request").into();
    let origin = origin_of([10, 0, 0, 9].into());
    let clock = Clock::new();
    let ms = Duration::from_millis;
    for given in [true, false] {
        tokio::time::advance(ms(5)).await;
        let handle = recorder.begin(&request, (None, None), &origin);
        let began = handle.begin_on(clock).expect("a record");
        assert_eq!(began, clock.now());
        let at = |after| given.then(|| began + ms(after));
        tokio::time::advance(ms(100)).await;
        let first = AttemptKind::First;
        handle.attempt(first, &"a".into(), (&pick(), at(1)), None);
        tokio::time::advance(ms(100)).await;
        handle.pass_on_at(first, None, at(2));
        handle.answer(
            StatusCode::OK,
            &slackwater_http::Response::new(String::new()),
        );
        tokio::time::advance(ms(100)).await;
        handle.end_at(Ended::Complete, at(3));
    }
    let given = [1, 2, 3].map(|after| Some(ms(after)));
    let read_late = [100, 200, 300].map(|after| Some(ms(after)));
    assert_eq!(*read.borrow(), [given, read_late]);
}
