//! Allocations of a request that is not kept.

use super::*;
use slackwater_counting_allocator::calls_of;

#[test]
fn a_request_that_is_not_kept_allocates_nothing() {
    let share = Quantile::from_millionths(10_000).expect("a share");
    let ring = roomy();
    let settings = settings(|it| (it.sample, it.header) = (share, Some(ASKS)));
    let sampling = Sampling::seeded(share, 11);
    let keeper = Keeper::with(sampling, &settings, Arc::clone(&ring));
    let ids = Ids::new(&RequestIdSettings::default());
    let recorder = RequestRecorder::new([None, Some(Box::new(keeper)), None], ids, None);
    let request = http::Request::get("http://shop.example/x").header("user-agent", "curl");
    let request = Request::from(request.body(()).expect("a request"));
    let (service, directory) = (Rc::from("web"), Rc::new(Names));
    let name = Rc::from("replica-0");
    let pick = PickView::without_report(replica(0), PickReason::Turn);
    let response = Response::new(String::new());
    let origin = origin_of([10, 0, 0, 9].into());
    let mut quiet = 0;
    for _ in 0..1_000 {
        let (calls, ()) = calls_of(|| {
            let id = recorder.ids().of(request.headers());
            let told = (id.as_ref(), None);
            let record = recorder.begin(&request, told, &origin);
            record.route(&service, &directory);
            let explanation = record.explanation();
            let mut notes = record.begin_attempt(FIRST, &name, &pick, explanation);
            let of_the_body = record.clone();
            of_the_body.attempt(FIRST, &name, (&pick, None), None);
            notes.connected(Duration::from_millis(1));
            notes.head(StatusCode::OK, None);
            of_the_body.pass_on(FIRST, None);
            record.answer(StatusCode::OK, &response);
            drop(record);
            of_the_body.passed(2);
            of_the_body.end(Ended::Complete);
            notes.end(Outcome::Success, || None);
        });
        quiet += usize::from(calls == 0);
    }
    let kept = ring.decisions().len();
    assert!((1..100).contains(&kept), "{kept}");
    assert_eq!(quiet, 1_000 - kept);
}
