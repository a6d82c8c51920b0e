//! What is logged about a request, and what is not.

use super::*;
use crate::access_log::buffer::LineBuffer;
use crate::forward::{Origin, Rules, X_SLACKWATER_ERROR};
use crate::request_record::ids::Ids;
use crate::request_record::{
    AttemptKind, Directory, Ended, RecordHandle, RequestRecorder, origin_of,
};
use http::uri::Authority;
use http::{HeaderName, StatusCode};
use slackwater_config::{AccessLogFormat, ForwardedSettings, Limits, RequestIdSettings};
use slackwater_core::policy::PickReason;
use slackwater_core::{Quantile, ReplicaId, ReplicaIds};
use slackwater_counting_allocator::calls_of;
use slackwater_http::GRPC_STATUS;
use slackwater_http::{Request, Response};
use slackwater_tower::client::PickView;
use std::rc::Rc;

fn recorder(settings: &AccessLogSettings) -> (Rc<RequestRecorder>, Arc<Queue>) {
    let queue = Arc::new(Queue::new(std::thread::current()));
    let lines = Lines::new(settings, Arc::clone(&queue));
    let ids = RequestIdSettings {
        header: Some(HeaderName::from_static("x-request-id")),
        ..RequestIdSettings::default()
    };
    (
        RequestRecorder::new([Some(Box::new(lines)), None, None], Ids::new(&ids), None),
        queue,
    )
}

/// A directory without replicas.
#[derive(Debug)]
struct NoDirectory;

impl Directory for NoDirectory {
    fn policy(&self) -> &'static str {
        "random"
    }

    fn name(&self, _part: ReplicaId) -> Option<Box<str>> {
        None
    }
}

fn pick(reason: PickReason) -> PickView {
    let replica = ReplicaIds::new().allocate().expect("room");
    PickView::without_report(replica, reason)
}

fn json() -> AccessLogSettings {
    AccessLogSettings {
        format: AccessLogFormat::Json,
        ..AccessLogSettings::default()
    }
}

fn begin(recorder: &Rc<RequestRecorder>, request: http::request::Builder) -> RecordHandle {
    let request = Request::from(request.body(()).expect("a request"));
    let id = recorder.ids().of(request.headers());
    let origin = origin_of([10, 0, 0, 9].into());
    recorder.begin(&request, (id.as_ref(), None), &origin)
}

fn grpc_status(said: &'static str) -> Fields {
    Fields::from_iter([(GRPC_STATUS, HeaderValue::from_static(said))])
}

fn lines(queue: &Queue) -> Vec<serde_json::Value> {
    let mut lines = LineBuffer::new();
    queue.exchange(&mut lines);
    let lines = lines
        .lines()
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect()
}

#[test]
fn a_record_is_written_once_with_its_outcome() {
    let (recorder, queue) = recorder(&json());
    let record = begin(
        &recorder,
        http::Request::post("/a?secret=1").header("host", "x"),
    );
    record.route(&"web".into(), &Rc::new(NoDirectory));
    record.attempt(
        AttemptKind::First,
        &"one".into(),
        (&pick(PickReason::Cold), None),
        None,
    );
    record.connected(AttemptKind::First, Duration::from_micros(7));
    record.attempt(
        AttemptKind::Retry,
        &"two".into(),
        (&pick(PickReason::Fallback), None),
        None,
    );
    record.pass_on(AttemptKind::Retry, None);
    record.answer(
        StatusCode::OK,
        &Response::new(String::from("not ours to count")),
    );
    record.passed(10);
    let of_the_body = record.clone();
    drop(record);
    of_the_body.passed(3);
    of_the_body.end(Ended::Complete);
    assert!(lines(&queue).is_empty(), "not before its end");
    drop(of_the_body);
    let [line] = &lines(&queue)[..] else {
        panic!("one line");
    };
    for (key, value) in [
        ("service", "web"),
        ("replica", "two"),
        ("reason", "fallback"),
        ("path", "/a"),
        ("end", "complete"),
        ("host", "x"),
    ] {
        assert_eq!(line[key], value, "{line}");
    }
    for (key, value) in [("attempts", 2), ("status", 200), ("bytes_out", 13)] {
        assert_eq!(line[key], value, "{line}");
    }
    assert!(line["queue_us"].as_u64() <= line["first_byte_us"].as_u64());
    assert!(line["first_byte_us"].as_u64() <= line["total_us"].as_u64());
    for absent in ["query", "connect_us", "error", "rif"] {
        assert!(line.get(absent).is_none(), "{absent}: {line}");
    }
}

#[test]
fn the_client_is_the_peer_or_the_one_that_a_trusted_proxy_names() {
    let settings = ForwardedSettings::of_toml("trust = [\"10.0.0.0/8\"]");
    let rules = Rules::new(&settings, &Limits::default());
    let local = Authority::from_static("10.0.0.1:80");
    let origin = Rc::new(Origin::new(&rules, ([10, 0, 0, 9], 1).into(), local, 0));
    for settings in [json(), AccessLogSettings::default()] {
        let (recorder, queue) = recorder(&settings);
        for (named, client) in [(None, "10.0.0.9"), (Some("203.0.113.1"), "203.0.113.1")] {
            let mut request = Request::new(());
            if let Some(named) = named {
                let named = HeaderValue::from_static(named);
                request.headers_mut().insert("x-forwarded-for", named);
            }
            drop(recorder.begin(&request, (None, None), &origin));
            let mut written = LineBuffer::new();
            queue.exchange(&mut written);
            let line = str::from_utf8(written.lines()).expect("text");
            let is_shown = line.starts_with(&format!("{client} "))
                || line.contains(&format!("\"client\":\"{client}\""));
            assert!(is_shown, "{client}: {line}");
        }
    }
}

#[test]
fn record_dropped_without_an_end_is_client_gone() {
    let (recorder, queue) = recorder(&json());
    drop(begin(&recorder, http::Request::get("/")));
    assert_eq!(lines(&queue)[0]["end"], "client_gone");
    let mut answer = Response::new("x".repeat(41));
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let kind = HeaderValue::from_static("no_replica");
    answer.headers_mut().insert(X_SLACKWATER_ERROR, kind);
    let record = begin(&recorder, http::Request::get("/"));
    record.attempt(
        AttemptKind::First,
        &"one".into(),
        (&pick(PickReason::Cold), None),
        None,
    );
    record.answer(answer.status(), &answer);
    drop(record);
    let line = &lines(&queue)[0];
    assert_eq!(
        (&line["status"], &line["bytes_out"]),
        (&503.into(), &41.into())
    );
    assert_eq!(
        (&line["end"], &line["error"]),
        (&"complete".into(), &"no_replica".into())
    );
}

#[test]
fn secrets_are_not_logged_and_queries_only_if_configured() {
    let request = || {
        http::Request::get("http://user:hunter2@host.example/a?token=hunter2")
            .header("authorization", "hunter2")
            .header("cookie", "hunter2")
            .header("proxy-authorization", "hunter2")
            .header("x-request-id", "id-1")
            .header("referer", "http://other/?token=hunter2")
    };
    let (quiet, queue) = recorder(&json());
    drop(begin(&quiet, request()));
    let line = &lines(&queue)[0];
    assert!(!line.to_string().contains("hunter2"), "{line}");
    assert_eq!(line["host"], "host.example");
    assert_eq!(line["referer"], "http://other/");
    for length in 0..20 {
        let user = "x".repeat(length);
        let refused = http::Request::get("/").header("host", format!("{user}@host.example"));
        let refused = refused.header("host", "hunter2").header("referer", "/r");
        drop(begin(&quiet, refused));
        let line = &lines(&queue)[0];
        assert_eq!(line["host"], "host.example", "{user}");
        assert_eq!(line["referer"], "/r");
    }

    let (telling, queue) = recorder(&AccessLogSettings {
        query: true,
        ..json()
    });
    drop(begin(&telling, request()));
    let line = &lines(&queue)[0];
    assert_eq!(
        (&line["query"], &line["id"]),
        (&"token=hunter2".into(), &"id-1".into())
    );
    assert_eq!(line["referer"], "http://other/?token=hunter2");
}

#[test]
fn with_a_share_of_0_only_failures_are_logged() {
    let (recorder, queue) = recorder(&AccessLogSettings {
        sample: Quantile::ZERO,
        always_slower_than: Duration::from_hours(1),
        ..json()
    });
    for (status, grpc, ended, written) in [
        (200, "", Ended::Complete, false),
        (200, "0", Ended::Complete, false),
        (200, "5", Ended::Complete, false),
        (200, "13", Ended::Complete, true),
        (404, "", Ended::Complete, false),
        (500, "", Ended::Complete, true),
        (200, "", Ended::Broken, true),
        (200, "", Ended::Stalled, true),
        (101, "", Ended::TunnelIdle, false),
        (200, "", Ended::CutOff, true),
        (200, "", Ended::ClientGone, false),
        (200, "", Ended::ClientStalled, false),
    ] {
        let record = begin(&recorder, http::Request::get("/"));
        let mut response = Response::new(String::new());
        *response.status_mut() = StatusCode::from_u16(status).expect("a status");
        let told = GrpcStatus::of(&grpc_status(grpc));
        record.pass_on(AttemptKind::First, told);
        record.answer(response.status(), &response);
        record.end(ended);
        drop(record);
        assert_eq!(
            lines(&queue).len(),
            usize::from(written),
            "{status} {grpc} {ended:?}"
        );
    }
}

#[test]
fn answer_of_the_proxy_is_logged_as_the_client_receives_it() {
    let (recorder, queue) = recorder(&AccessLogSettings {
        sample: Quantile::ZERO,
        always_slower_than: Duration::from_hours(1),
        ..json()
    });
    // A gRPC client gets status 200, and that is what is logged. The HTTP status that it stands for
    // decides whether the request failed, because the gRPC status may blame the server either way.
    for (stands_for, written) in [(503, true), (404, false)] {
        let mut answer = Response::new(String::new());
        *answer.headers_mut() = grpc_status("12");
        let record = begin(&recorder, http::Request::get("/"));
        let stands_for = StatusCode::from_u16(stands_for).expect("a status");
        record.answer(stands_for, &answer);
        drop(record);
        let lines = lines(&queue);
        let told = lines
            .first()
            .map(|line| (&line["status"], &line["grpc_status"]));
        let expected = (&200.into(), &12.into());
        assert_eq!(told, written.then_some(expected), "{stands_for}");
    }
}

#[test]
fn a_line_allocates_nothing_once_memory_is_warm() {
    for format in [AccessLogFormat::Text, AccessLogFormat::Json] {
        let (sampled, queue) = recorder(&AccessLogSettings {
            format,
            ..AccessLogSettings::default()
        });
        let request = http::Request::get("http://shop.example/x?y")
            .header("user-agent", "caf\u{e9} \"\\")
            .header("referer", "http://other/")
            .body(())
            .expect("a request")
            .into();
        let origin = origin_of("2001:db8::7".parse().expect("an address"));
        let (service, replica) = ("web".into(), "one".into());
        let directory = Rc::new(NoDirectory);
        let pick = pick(PickReason::Cold);
        let response = Response::new(String::new());
        let mut written = LineBuffer::new();
        let mut pass = || {
            let record = sampled.begin(&request, (None, None), &origin);
            record.route(&service, &directory);
            record.attempt(AttemptKind::First, &replica, (&pick, None), None);
            record.connected(AttemptKind::First, Duration::from_millis(1));
            record.pass_on(AttemptKind::First, None);
            record.answer(StatusCode::OK, &response);
            let of_the_body = record.clone();
            drop(record);
            of_the_body.passed(2);
            of_the_body.end(Ended::Complete);
            drop(of_the_body);
            written.clear();
            queue.exchange(&mut written);
        };
        pass();
        let (calls, ()) = calls_of(|| (0..100).for_each(|_| pass()));
        assert!(!written.lines().is_empty());
        assert_eq!(calls, 0, "{format:?}");
    }
}
