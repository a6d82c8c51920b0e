//! Tests of which requests are kept, how many, and which of them a query returns.

mod allocations;

use super::answer::{Found, answer, comparisons};
use super::archive::Archive;
use super::decision::Decision;
use super::keeper::Keeper;
use super::ring::Ring;
use super::wanted::Wanted;
use crate::request_record::ids::Ids;
use crate::request_record::{
    AttemptKind, Directory, Ended, RecordHandle, RequestRecorder, origin_of,
};
use crate::sampling::Sampling;
use core::time::Duration;
use http::{HeaderName, StatusCode};
use serde_json::Value;
use slackwater_config::{DecisionSettings, RequestIdSettings};
use slackwater_core::policy::{Outcome, PickReason, PooledView};
use slackwater_core::{Quantile, ReplicaId, ReplicaIds, Rif};
use slackwater_http::{Request, Response};
use slackwater_tower::client::PickView;
use std::rc::Rc;
use std::sync::Arc;

const ASKS: HeaderName = HeaderName::from_static("x-why");

#[derive(Debug)]
struct Names;

impl Directory for Names {
    fn policy(&self) -> &'static str {
        "prequal"
    }

    fn name(&self, part: ReplicaId) -> Option<Box<str>> {
        (part.index() < 10).then(|| format!("replica-{}", part.index()).into())
    }
}

pub(super) fn settings(change: impl FnOnce(&mut DecisionSettings)) -> DecisionSettings {
    let mut settings = DecisionSettings {
        sample: Quantile::ZERO,
        failed: Some(false),
        ..DecisionSettings::default()
    };
    change(&mut settings);
    settings
}

/// Makes a recorder whose decisions go to that ring.
pub(super) fn recorder(settings: &DecisionSettings, ring: &Arc<Ring>) -> Rc<RequestRecorder> {
    let sampling = Sampling::seeded(settings.sample, 11);
    let keeper = Keeper::with(sampling, settings, Arc::clone(ring));
    let ids = RequestIdSettings {
        header: Some(HeaderName::from_static("x-request-id")),
        ..RequestIdSettings::default()
    };
    RequestRecorder::new([None, Some(Box::new(keeper)), None], Ids::new(&ids), None)
}

pub(super) fn roomy() -> Arc<Ring> {
    Arc::new(Ring::new(100_000, 1 << 30))
}

pub(super) fn begin(
    recorder: &Rc<RequestRecorder>,
    request: http::request::Builder,
) -> RecordHandle {
    let request = Request::from(request.body(()).expect("a request"));
    let id = recorder.ids().of(request.headers());
    let origin = origin_of([10, 0, 0, 9].into());
    recorder.begin(&request, (id.as_ref(), None), &origin)
}

fn replica(place: usize) -> ReplicaId {
    let mut ids = ReplicaIds::new();
    (0..=place)
        .filter_map(|_| ids.allocate())
        .last()
        .expect("room")
}

/// Plays a request with these attempts: kind, index of the replica, reason, status.
fn play(
    recorder: &Rc<RequestRecorder>,
    id: &str,
    service: &str,
    attempts: &[(AttemptKind, usize, PickReason, u16)],
) {
    let record = begin(
        recorder,
        http::Request::get("/x?secret=1").header("x-request-id", id),
    );
    record.route(&service.into(), &Rc::new(Names));
    let mut last = None;
    for &(kind, place, reason, status) in attempts {
        let mut pick = PickView::without_report(replica(place), reason);
        pick.chosen = Some(PooledView {
            replica: replica(place),
            rif: Rif::new(2),
            latency: Some(Duration::from_micros(3_100)),
            age: Duration::from_millis(12),
            uses_left: 1,
            local: false,
            hot: false,
        });
        pick.rif_limit = Some(Rif::new(5));
        pick.candidates = 9;
        let name = format!("replica-{place}").into();
        let mut notes = record.begin_attempt(kind, &name, &pick, record.explanation());
        record.attempt(kind, &name, (&pick, None), None);
        let status = StatusCode::from_u16(status).expect("a status");
        notes.head(status, None);
        last = Some((kind, status));
        let failed = status.is_server_error();
        let outcome = if failed {
            Outcome::Failed
        } else {
            Outcome::Success
        };
        notes.end(outcome, || None);
    }
    if let Some((kind, status)) = last {
        pass_on(&record, kind, status);
    }
    record.end(Ended::Complete);
}

/// Passes the response of that attempt to the client.
fn pass_on(record: &RecordHandle, kind: AttemptKind, status: StatusCode) {
    record.pass_on(kind, None);
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    record.answer(status, &response);
}

fn ids(ring: &Ring) -> Vec<String> {
    let decisions = ring.decisions();
    decisions
        .iter()
        .map(|decision| decision.id.clone())
        .collect()
}

const FIRST: AttemptKind = AttemptKind::First;

fn is_kept(settings: &DecisionSettings, request: http::request::Builder, status: u16) -> bool {
    let ring = roomy();
    let recorder = recorder(settings, &ring);
    let record = begin(&recorder, request);
    pass_on(
        &record,
        FIRST,
        StatusCode::from_u16(status).expect("a status"),
    );
    record.end(Ended::Complete);
    drop(record);
    !ring.decisions().is_empty()
}

#[test]
fn configured_share_of_decisions_is_kept() {
    for (millionths, least, most) in [(0, 0, 0), (10_000, 120, 280), (1_000_000, 20_000, 20_000)] {
        let share = Quantile::from_millionths(millionths).expect("a share");
        let ring = roomy();
        let recorder = recorder(&settings(|it| it.sample = share), &ring);
        for _ in 0..20_000 {
            begin(&recorder, http::Request::get("/")).end(Ended::Complete);
        }
        // For one in a hundred, the standard deviation is 14.
        let kept = ring.decisions().len();
        assert!((least..=most).contains(&kept), "{millionths}: {kept}");
    }
}

#[test]
fn failed_slow_and_requested_decisions_are_kept_if_configured() {
    let get = || http::Request::get("/");
    let failed = settings(|it| it.failed = Some(true));
    assert!(is_kept(&failed, get(), 500));
    assert!(!is_kept(&failed, get(), 404));
    let slow = settings(|it| it.slower_than = Some(Duration::ZERO));
    assert!(is_kept(&slow, get(), 200));
    let very_slow = settings(|it| it.slower_than = Some(Duration::from_hours(1)));
    assert!(!is_kept(&very_slow, get(), 500));
    let asked = settings(|it| it.header = Some(ASKS));
    assert!(is_kept(&asked, get().header(ASKS, "1"), 200));
    assert!(!is_kept(&asked, get(), 500));
    let none = settings(|_| {});
    assert!(!is_kept(&none, get().header(ASKS, "1"), 500));
    assert!(!none.keeps_any() && failed.keeps_any() && slow.keeps_any() && asked.keeps_any());
    assert!(!settings(|it| (it.failed, it.capacity) = (Some(true), 0)).keeps_any());
    assert!(DecisionSettings::default().keeps_any());
}

#[test]
fn decision_states_why_it_is_kept() {
    let all = settings(|it| {
        (it.sample, it.failed, it.header) = (Quantile::ONE, Some(true), Some(ASKS));
        it.slower_than = Some(Duration::from_hours(1));
    });
    for (request, status, why) in [
        (http::Request::get("/"), 200, "sampled"),
        (http::Request::get("/"), 500, "failed"),
        (http::Request::get("/").header(ASKS, ""), 500, "asked"),
    ] {
        let ring = roomy();
        let record = begin(&recorder(&all, &ring), request);
        pass_on(
            &record,
            FIRST,
            StatusCode::from_u16(status).expect("a status"),
        );
        record.end(Ended::Complete);
        drop(record);
        let told = serde_json::to_value(&*ring.decisions()[0]).expect("JSON");
        assert_eq!(told["kept"], why);
    }
    let ring = roomy();
    let hasty = settings(|it| it.slower_than = Some(Duration::ZERO));
    begin(&recorder(&hasty, &ring), http::Request::get("/")).end(Ended::Complete);
    let told = serde_json::to_value(&*ring.decisions()[0]).expect("JSON");
    assert_eq!(told["kept"], "slow");
}

#[test]
fn ring_keeps_the_newest_within_its_count_and_byte_limits() {
    let all = settings(|it| it.sample = Quantile::ONE);
    let by_number = Arc::new(Ring::new(3, 1 << 20));
    let recorder_of = recorder(&all, &by_number);
    for id in ["a", "b", "c", "d", "e"] {
        play(
            &recorder_of,
            id,
            "web",
            &[(FIRST, 0, PickReason::Cold, 200)],
        );
    }
    assert_eq!(ids(&by_number), ["c", "d", "e"]);

    let one = by_number.decisions()[0].bytes();
    assert!(one > size_of::<Decision>());
    let by_bytes = Arc::new(Ring::new(100, 2 * one));
    let recorder_of = recorder(&all, &by_bytes);
    for id in ["a", "b", "c"] {
        play(
            &recorder_of,
            id,
            "web",
            &[(FIRST, 0, PickReason::Cold, 200)],
        );
    }
    assert_eq!(ids(&by_bytes), ["b", "c"]);
    let tiny = Arc::new(Ring::new(100, 1));
    let recorder_of = recorder(&all, &tiny);
    for id in ["a", "b"] {
        play(
            &recorder_of,
            id,
            "web",
            &[(FIRST, 0, PickReason::Cold, 200)],
        );
    }
    assert_eq!(ids(&tiny), ["b"], "the newest in any case");
}

#[test]
fn a_request_is_slow_by_the_time_to_its_response_head() {
    let slow = settings(|it| it.slower_than = Some(Duration::from_mins(30)));
    for (is_answered, is_kept) in [(true, false), (false, true)] {
        let ring = roomy();
        let record = begin(&recorder(&slow, &ring), http::Request::get("/"));
        if is_answered {
            pass_on(&record, FIRST, StatusCode::OK);
        }
        // The response is a stream, or there is none.
        record.goes_on_for(Duration::from_hours(1));
        drop(record);
        let kept = ring.decisions();
        assert_eq!(kept.len(), usize::from(is_kept), "answered: {is_answered}");
    }
    let all = settings(|it| it.sample = Quantile::ONE);
    let ring = roomy();
    let record = begin(&recorder(&all, &ring), http::Request::get("/"));
    pass_on(&record, FIRST, StatusCode::OK);
    record.goes_on_for(Duration::from_hours(1));
    drop(record);
    let decision = &ring.decisions()[0];
    assert!(decision.total >= Duration::from_hours(1));
    let takes = |query| {
        let wanted = Wanted::read(&parsed(query)).expect("known");
        wanted.takes(decision)
    };
    assert!(takes("slower_than=0") && !takes("slower_than=30m"));
}

#[test]
fn a_burst_of_failures_leaves_room_for_other_reasons() {
    let all = settings(|it| (it.sample, it.failed) = (Quantile::ONE, Some(true)));
    let by_number = Arc::new(Ring::new(4, 1 << 20));
    let recorder_of = recorder(&all, &by_number);
    let play = |id: &str, status| {
        let attempts = [(FIRST, 0, PickReason::Cold, status)];
        play(&recorder_of, id, "web", &attempts);
    };
    for id in ["a", "b", "c", "d", "e"] {
        play(id, 200);
    }
    assert_eq!(ids(&by_number), ["b", "c", "d", "e"], "alone it has all");
    for id in ["1", "2", "3", "4", "5"] {
        play(id, 500);
    }
    assert_eq!(ids(&by_number), ["d", "e", "4", "5"], "half, the newest");
    for id in ["f", "g", "h"] {
        play(id, 200);
    }
    assert_eq!(ids(&by_number), ["g", "h", "4", "5"], "and the other half");
}

#[test]
fn byte_limit_is_divided_among_reasons() {
    let all = settings(|it| (it.sample, it.failed) = (Quantile::ONE, Some(true)));
    let size = {
        let ring = roomy();
        play(
            &recorder(&all, &ring),
            "a",
            "web",
            &[(FIRST, 0, PickReason::Cold, 200)],
        );
        ring.decisions()[0].bytes()
    };
    let ring = Arc::new(Ring::new(100, 4 * size));
    let recorder_of = recorder(&all, &ring);
    for (ids, status) in [(["a", "b", "c", "d"], 200), (["1", "2", "3", "4"], 500)] {
        for id in ids {
            let attempts = [(FIRST, 0, PickReason::Cold, status)];
            play(&recorder_of, id, "web", &attempts);
        }
    }
    assert_eq!(ids(&ring), ["c", "d", "3", "4"]);
}

/// Makes an archive of two workers with some decisions.
fn archive() -> Arc<Archive> {
    let all = settings(|it| it.sample = Quantile::ONE);
    let archive = Archive::new(&all, 2).expect("on");
    let ids = || {
        Ids::new(&RequestIdSettings {
            header: Some(HeaderName::from_static("x-request-id")),
            ..RequestIdSettings::default()
        })
    };
    let [one, two] = [(), ()].map(|()| {
        RequestRecorder::new([None, Some(Box::new(archive.keeper())), None], ids(), None)
    });
    play(&one, "1", "web", &[(FIRST, 0, PickReason::Cold, 200)]);
    play(
        &two,
        "2",
        "web",
        &[
            (FIRST, 1, PickReason::Hot, 503),
            (AttemptKind::Retry, 2, PickReason::Fallback, 200),
        ],
    );
    play(&one, "3", "api", &[(FIRST, 1, PickReason::Cold, 500)]);
    archive
}

/// Splits parameters that need no decoding.
fn parsed(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), value.to_owned())
    };
    pairs.map(pair).collect()
}

/// Returns the content type and the body of the response.
fn told(archives: &[Arc<Archive>], query: &str) -> (&'static str, String) {
    let told = answer(archives, &parsed(query)).unwrap_or_else(|why| panic!("{why}"));
    let body: Vec<u8> = told.pieces.flatten().collect();
    let body = String::from_utf8(body).expect("text");
    (told.content_type, body)
}

fn found(archive: &Arc<Archive>, query: &str) -> Vec<String> {
    let decisions = found_of(archive, query);
    let id = |decision: &Value| decision["id"].as_str().expect("an id").to_owned();
    decisions.iter().map(id).collect()
}

fn found_of(archive: &Arc<Archive>, query: &str) -> Vec<Value> {
    let (content_type, body) = told(core::slice::from_ref(archive), query);
    assert_eq!(content_type, "application/json", "{body}");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["kept"], archive.decisions().len());
    body["decisions"].as_array().expect("a list").clone()
}

#[test]
fn each_filter_returns_matches_newest_first() {
    let archive = archive();
    for (query, ids) in [
        ("", &["3", "2", "1"][..]),
        ("id=2", &["2"]),
        ("id=4", &[]),
        ("service=web", &["2", "1"]),
        ("replica=replica-1", &["3", "2"]),
        ("replica=replica-2", &["2"]),
        ("reason=cold", &["3", "1"]),
        ("reason=fallback", &["2"]),
        ("attempt=retry", &["2"]),
        ("attempt=hedge", &[]),
        ("attempt=retry&replica=replica-2", &["2"]),
        ("attempt=retry&replica=replica-1", &[]),
        ("failed=true", &["3"]),
        ("failed=false", &["2", "1"]),
        ("slower_than=0", &["3", "2", "1"]),
        ("slower_than=1h", &[]),
        ("limit=2", &["3", "2"]),
        ("service=web&limit=1", &["2"]),
        ("failed=true&reason=cold&service=api&format=json", &["3"]),
    ] {
        assert_eq!(found(&archive, query), ids, "{query}");
    }
}

#[test]
fn responses_match_the_schema() {
    let archive = archive();
    let (_, body) = told(core::slice::from_ref(&archive), "limit=2");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    let mut all = archive.decisions();
    all.sort_by_key(|decision| core::cmp::Reverse(decision.time));
    let described = Found {
        kept: 3,
        matching: 3,
        comparisons: comparisons(&all[..2]),
        decisions: all[..2].iter().map(|decision| &**decision).collect(),
    };
    assert_eq!(body, serde_json::to_value(described).expect("JSON"));
}

#[test]
fn an_invalid_query_names_the_parameter() {
    for (query, told) in [
        (
            "colour=red",
            "parameter colour: unknown; there are id, service, ",
        ),
        (
            "reason=warm",
            "parameter reason: found \"warm\", expected one of cold, hot",
        ),
        (
            "attempt=last",
            "parameter attempt: found \"last\", expected one of first, retry, hedge, tie, trial",
        ),
        (
            "failed=yes",
            "parameter failed: found \"yes\", expected true or false",
        ),
        (
            "slower_than=5",
            "parameter slower_than: found \"5\", expected a duration",
        ),
        ("slower_than=-1s", "parameter slower_than: found \"-1s\""),
        (
            "limit=0",
            "parameter limit: found \"0\", expected a number from 1 to 10,000",
        ),
        ("limit=10001", "parameter limit:"),
        (
            "format=xml",
            "parameter format: found \"xml\", expected json or text",
        ),
    ] {
        let why = answer(&[], &parsed(query)).err().expect("refused");
        assert!(why.starts_with(told), "{query}: {why}");
    }
}

#[test]
fn decision_is_described_as_text() {
    let archive = archive();
    let (content_type, text) = told(core::slice::from_ref(&archive), "id=2&format=text");
    assert_eq!(content_type, "text/plain; charset=utf-8");
    for piece in [
        "GET /x for web (prequal): 200 after ",
        "; id 2\n",
        "1. first attempt, sent at ",
        "replica replica-1: all 0 hot, lowest RIF (latency 3.1 ms, RIF 2, 12.0 ms old, its last use); RIF limit 5\n",
        "503 at ",
        "failed at ",
        "2. another attempt, sent at ",
        "success at ",
        "; this is the answer that was passed on",
    ] {
        assert!(text.contains(piece), "{piece:?} in {text}");
    }
    assert!(!text.contains("secret"), "{text}");
    let (_, none) = told(core::slice::from_ref(&archive), "id=x&format=text");
    let expected = "no recorded decision matches id=x: 3 are kept; use fewer filters, or make \
                    [decisions] in the configuration keep more\n";
    assert_eq!(none, expected);
    let empty = Archive::new(&settings(|it| it.sample = Quantile::ONE), 1).expect("on");
    let (_, none) = told(&[empty], "id=x&format=text");
    assert!(none.starts_with("no decision is recorded yet: "), "{none}");
    let (_, off) = told(&[], "format=text");
    assert_eq!(
        off,
        "no decisions are kept: see [decisions] in the configuration\n"
    );
}

#[test]
fn a_large_response_is_split_into_pieces() {
    let all = settings(|it| {
        (it.sample, it.capacity) = (Quantile::ONE, 1_000);
    });
    let archive = Archive::new(&all, 1).expect("on");
    let recorder = RequestRecorder::new(
        [None, Some(Box::new(archive.keeper())), None],
        Ids::new(&RequestIdSettings::default()),
        None,
    );
    for _ in 0..400 {
        play(&recorder, "", "web", &[(FIRST, 0, PickReason::Cold, 200)]);
    }
    for (query, most) in [("limit=400", 66 << 10), ("limit=400&format=text", 66 << 10)] {
        let pieces = answer(core::slice::from_ref(&archive), &parsed(query));
        let Ok(told) = pieces else {
            panic!("{query}");
        };
        let pieces: Vec<_> = told.pieces.collect();
        assert!(pieces.len() > 1, "{query}");
        assert!(pieces.iter().all(|piece| piece.len() < most), "{query}");
    }
    assert_eq!(found_of(&archive, "limit=400").len(), 400);
    let (_, text) = told(core::slice::from_ref(&archive), "limit=400&format=text");
    assert_eq!(text.matches("\n\n").count(), 399, "a line between two");
}
