//! The layer with hyper: every way in which a response can end, with RIF back at zero after each.

use crate::eventually;
use crate::rig::{Rig, Step, Steps, connect_http1, connect_http2, get};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use slackwater_tower::server::{Load, LoadLayer};
use slackwater_tower::wire::PROBE_PATH;
use slackwater_tower::wire::carried::take_carried_report;
use slackwater_tower::wire::headers::{read_report, write_hint};

/// Waits for RIF zero, and compares how queries ended.
async fn assert_ended(rig: &Rig, [succeeded, failed, cancelled]: [u64; 3]) {
    eventually("RIF is back at zero", || rig.rif() == 0).await;
    assert_eq!(
        rig.ends(),
        [succeeded, failed, cancelled],
        "succeeded, failed, cancelled"
    );
}

fn send(steps: &Steps, step: Step) {
    assert!(steps.send(step).is_ok(), "the body is still there");
}

#[tokio::test]
async fn responses_count_until_they_end() {
    let rig = Rig::start().await;
    let (mut client, _) = connect_http1(rig.address).await;
    for path in ["/ok", "/nothing-here"] {
        let response = client.send_request(get(path)).await.unwrap();
        response.into_body().collect().await.unwrap();
    }
    assert_ended(&rig, [2, 0, 0]).await;
    let response = client.send_request(get("/fail")).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    response.into_body().collect().await.unwrap();
    assert_ended(&rig, [2, 1, 0]).await;
}

#[tokio::test]
async fn a_stream_counts_until_its_last_byte() {
    let mut rig = Rig::start().await;
    let (mut client, _) = connect_http1(rig.address).await;
    let mut response = client.send_request(get("/stream")).await.unwrap();
    let steps = rig.next_stream().await;
    for text in ["one", "two", "three"] {
        send(&steps, Step::Data(text));
        let frame = response.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), text);
        assert_eq!(rig.rif(), 1);
    }
    drop(steps);
    assert!(response.frame().await.is_none());
    assert_ended(&rig, [1, 0, 0]).await;
}

#[tokio::test]
async fn body_ends_at_its_announced_length_without_a_final_poll() {
    let mut rig = Rig::start().await;
    let (mut client, _) = connect_http1(rig.address).await;
    let response = client.send_request(get("/sized")).await.unwrap();
    let steps = rig.next_stream().await;
    send(&steps, Step::Data("he"));
    send(&steps, Step::Data("llo"));
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "hello");
    assert_ended(&rig, [1, 0, 0]).await;
}

#[tokio::test]
async fn an_error_in_mid_body_is_a_failure() {
    let mut rig = Rig::start().await;
    let (mut client, _) = connect_http1(rig.address).await;
    let response = client.send_request(get("/stream")).await.unwrap();
    let steps = rig.next_stream().await;
    send(&steps, Step::Data("half"));
    send(&steps, Step::Error);
    assert!(response.into_body().collect().await.is_err());
    assert_ended(&rig, [0, 1, 0]).await;
}

#[tokio::test]
async fn a_service_error_is_a_failure() {
    let rig = Rig::start().await;
    let (mut client, _) = connect_http1(rig.address).await;
    assert!(client.send_request(get("/error")).await.is_err());
    assert_ended(&rig, [0, 1, 0]).await;
}

#[tokio::test]
async fn panics_are_failures_in_the_service_and_in_the_body() {
    let mut rig = Rig::start().await;
    let (mut client, _) = connect_http1(rig.address).await;
    assert!(client.send_request(get("/panic")).await.is_err());
    assert_ended(&rig, [0, 1, 0]).await;

    let (mut client, _) = connect_http1(rig.address).await;
    let response = client.send_request(get("/stream")).await.unwrap();
    let steps = rig.next_stream().await;
    send(&steps, Step::Panic);
    assert!(response.into_body().collect().await.is_err());
    assert_ended(&rig, [0, 2, 0]).await;
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_body_cancels() {
    let mut rig = Rig::start().await;
    let (mut client, line) = connect_http1(rig.address).await;
    let mut response = client.send_request(get("/stream")).await.unwrap();
    let steps = rig.next_stream().await;
    send(&steps, Step::Data("half"));
    response.frame().await.unwrap().unwrap();
    line.cut();
    assert_ended(&rig, [0, 0, 1]).await;
    assert!(steps.is_closed(), "the body is gone");
}

#[tokio::test]
async fn a_client_that_leaves_before_the_head_cancels() {
    let rig = Rig::start().await;
    let (mut client, line) = connect_http1(rig.address).await;
    let asking = tokio::spawn(async move { client.send_request(get("/hang")).await.map(drop) });
    eventually("the query is in flight", || rig.rif() == 1).await;
    line.cut();
    assert!(asking.await.unwrap().is_err());
    assert_ended(&rig, [0, 0, 1]).await;
}

#[tokio::test]
async fn http2_streams_are_counted_and_end_independently() {
    let mut rig = Rig::start().await;
    let (mut client, line) = connect_http2(rig.address).await;
    let mut open = Vec::new();
    for in_flight in 1..=5 {
        let response = client.send_request(get("/stream")).await.unwrap();
        open.push((response, rig.next_stream().await));
        assert_eq!(rig.rif(), in_flight);
    }
    let mut next = || open.pop().unwrap();

    let (response, steps) = next();
    send(&steps, Step::Data("all of it"));
    drop(steps);
    response.into_body().collect().await.unwrap();
    eventually("one has ended", || rig.ends() == [1, 0, 0]).await;

    let (response, steps) = next();
    send(&steps, Step::Error);
    assert!(response.into_body().collect().await.is_err());
    eventually("one has failed", || rig.ends() == [1, 1, 0]).await;

    let (response, _steps) = next();
    drop(response); // resets this stream alone
    eventually("one was reset", || rig.ends() == [1, 1, 1]).await;

    let (response, steps) = next();
    send(&steps, Step::Panic);
    assert!(response.into_body().collect().await.is_err());
    eventually("one has panicked", || rig.ends() == [1, 2, 1]).await;
    assert_eq!(rig.rif(), 1, "the last one is untouched");

    line.cut();
    assert_ended(&rig, [1, 2, 2]).await;
}

#[tokio::test]
async fn grpc_trailers_determine_success_or_failure() {
    let mut rig = Rig::start().await;
    let (mut client, _) = connect_http2(rig.address).await;
    for (status, ends) in [("0", [1, 0, 0]), ("13", [1, 1, 0]), ("5", [2, 1, 0])] {
        let response = client.send_request(get("/stream")).await.unwrap();
        let steps = rig.next_stream().await;
        send(&steps, Step::Data("message"));
        send(&steps, Step::GrpcStatus(status));
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["grpc-status"], status);
        assert_ended(&rig, ends).await;
    }
}

#[tokio::test]
async fn pushback_counts_as_cancelled() {
    let mut rig = Rig::start().await;
    let (mut client, _) = connect_http2(rig.address).await;
    let response = client.send_request(get("/busy")).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    response.into_body().collect().await.unwrap();
    assert_ended(&rig, [0, 0, 1]).await;
    let response = client.send_request(get("/stream")).await.unwrap();
    let steps = rig.next_stream().await;
    send(&steps, Step::GrpcPushBack);
    response.into_body().collect().await.unwrap();
    assert_ended(&rig, [0, 0, 2]).await;
}

#[tokio::test]
async fn probe_is_answered_while_queries_are_in_flight() {
    let mut rig = Rig::start().await;
    let (mut client, _) = connect_http2(rig.address).await;
    let _open = client.send_request(get("/stream")).await.unwrap();
    let _steps = rig.next_stream().await;
    let answer = client.send_request(get(PROBE_PATH)).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let report = read_report(answer.headers()).unwrap();
    assert_eq!(report.rif.count(), 1, "the probe itself is no query");
    assert!(report.latency.is_some() && report.incarnation.is_some());
    assert!(
        answer
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .is_empty()
    );

    let mut hinted = get(PROBE_PATH);
    write_hint(b"user-17", hinted.headers_mut()).unwrap();
    assert_eq!(
        client.send_request(hinted).await.unwrap().status(),
        StatusCode::OK
    );
    let mut garbled = get(PROBE_PATH);
    garbled
        .headers_mut()
        .insert("x-slackwater-hint", "no hex".parse().unwrap());
    let refused = client.send_request(garbled).await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(read_report(refused.headers()).is_err());
    let counts = rig.load.counts();
    assert_eq!((counts.http_answered, counts.http_refused), (2, 1));
}

#[test]
fn invalid_probe_path_is_rejected() {
    let layer = || LoadLayer::new(Load::new());
    for path in ["/", "/load", "/a/b-c"] {
        assert!(layer().probe_path(path).is_ok(), "{path}");
    }
    for path in ["", "load", "http://x/load", "/load?now", "/lo ad", "/l#d"] {
        let error = layer().probe_path(path).unwrap_err();
        assert_eq!(&*error.path, path);
    }
}

#[tokio::test]
async fn responses_carry_load_reports_if_configured() {
    fn said(headers: &mut HeaderMap) -> Option<u32> {
        take_carried_report(headers).map(|report| report.unwrap().rif.count())
    }
    let mut rig = Rig::with_layer(|layer| layer.report_with_responses(true)).await;
    let (mut busy, _) = connect_http1(rig.address).await;
    let mut stream = busy.send_request(get("/stream")).await.unwrap();
    let steps = rig.next_stream().await;
    assert_eq!(said(stream.headers_mut()), Some(0), "itself does not count");
    let (mut client, _) = connect_http1(rig.address).await;
    for path in ["/ok", "/fail"] {
        let mut response = client.send_request(get(path)).await.unwrap();
        assert_eq!(said(response.headers_mut()), Some(1), "{path}");
        response.into_body().collect().await.unwrap();
    }
    drop(steps);
    let silent = Rig::start().await;
    let (mut client, _) = connect_http1(silent.address).await;
    let mut response = client.send_request(get("/ok")).await.unwrap();
    assert_eq!(
        said(response.headers_mut()),
        None,
        "by default there is no report"
    );
}
