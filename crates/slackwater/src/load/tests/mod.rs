//! The generator against real sockets on loopback: stalls, caps, stops, and the requests that
//! arrive at the target. Targets that refuse, hang, close early or send garbage are in `errors`.
//! Each wait is for a condition and has a limit.

mod errors;
mod targets;

use super::{Live, Plan, Protocol, Run, Summary};
use bytes::Bytes;
use core::net::SocketAddr;
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use std::sync::Arc;
use targets::{gated, http, ok, raw};
use tokio::io::AsyncReadExt;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Far longer than any of these runs takes; reached only if something is broken.
const LIMIT: Duration = Duration::from_secs(20);

const H2: Protocol = Protocol::Http2 {
    streams_per_connection: NonZeroUsize::MIN.saturating_add(99),
};

/// `count` arrivals, evenly over `duration`.
fn plan(address: SocketAddr, count: u32, duration: Duration) -> Plan {
    let target = format!("http://{address}/").parse().unwrap();
    let mut plan = Plan::new(target, f64::from(count) / duration.as_secs_f64(), duration);
    plan.arrivals = super::Arrivals::Constant;
    plan.timeout = LIMIT;
    plan
}

async fn drive(plan: Plan) -> Summary {
    let run = Run::prepare(plan, 1).await.unwrap();
    let driven = run.drive(CancellationToken::new());
    tokio::time::timeout(LIMIT, driven).await.unwrap().unwrap()
}

/// Checks every millisecond until `condition` holds.
async fn until(condition: impl Fn() -> bool) {
    let looking = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, looking)
        .await
        .expect("the condition never held");
}

#[tokio::test]
async fn answers_are_counted_with_their_bodies_over_both_protocols() {
    let address = http(|_| async { ok() }).await;
    for protocol in [Protocol::Http1, H2] {
        let mut plan = plan(address, 50, Duration::from_millis(100));
        plan.protocol = protocol;
        let summary = drive(plan).await;
        assert_eq!((summary.requests, summary.errors), (50, 0), "{summary}");
        assert_eq!((summary.statuses.of("2xx"), summary.body_bytes), (50, 250));
        assert_eq!((summary.unfinished, summary.interrupted), (0, false));
        assert!(summary.latency.p50_ms > 0.0 && summary.latency.max_ms < 2e4);
    }
}

/// The purpose of the open loop: one stall must show in the latency of each arrival that was due
/// during it.
async fn stall(protocol: Protocol, connections: usize) -> Summary {
    const STALL: Duration = Duration::from_millis(300);
    // The fortieth request holds the lock, and thus delays all others, for the length of the stall.
    let count = Arc::new(Mutex::new(0));
    let address = http(move |_| {
        let count = Arc::clone(&count);
        async move {
            let mut count = count.lock().await;
            *count += 1;
            if *count == 40 {
                tokio::time::sleep(STALL).await;
            }
            ok()
        }
    })
    .await;
    let mut plan = plan(address, 200, Duration::from_secs(1));
    plan.protocol = protocol;
    plan.connections = NonZeroUsize::new(connections).unwrap();
    let summary = drive(plan).await;
    assert_eq!((summary.requests, summary.errors), (200, 0), "{summary}");
    // One arrival every 5 ms: some 30 of the 200 fall into the stall's first half, and each of them
    // waits for the second half. A generator that waits for its answers would see one slow request,
    // and a p90 of almost zero.
    assert!(summary.latency.p90_ms >= 150.0, "{summary}");
    assert!(summary.latency.max_ms >= 295.0, "{summary}");
    summary
}

#[tokio::test]
async fn stall_is_measured_in_every_arrival_due_during_it() {
    assert_eq!(stall(Protocol::Http1, 200).await.waited_for_connection, 0);
}

#[tokio::test]
async fn stall_is_measured_in_arrivals_that_wait_for_a_connection() {
    assert!(stall(Protocol::Http1, 1).await.waited_for_connection > 0);
}

#[tokio::test]
async fn stall_is_measured_in_every_arrival_over_http2() {
    assert_eq!(stall(H2, 2).await.waited_for_connection, 0);
}

#[tokio::test]
async fn arrivals_beyond_the_cap_queue_and_beyond_the_queue_fail() {
    let one_stream = Protocol::Http2 {
        streams_per_connection: NonZeroUsize::MIN,
    };
    for protocol in [Protocol::Http1, one_stream] {
        let (address, gate, held) = gated().await;
        let mut plan = plan(address, 20, Duration::from_millis(400));
        plan.protocol = protocol;
        plan.connections = NonZeroUsize::new(2).unwrap();
        plan.queue_capacity = NonZeroUsize::new(3).unwrap();
        let run = Run::prepare(plan, 1).await.unwrap();
        let live = run.live();
        let driven = tokio::spawn(run.drive(CancellationToken::new()));
        // 20 are due: 2 are on their connections, 3 in the queue, and 15 have failed.
        until(|| live.figures().requests == 15).await;
        until(|| held.load(Ordering::SeqCst) == 2).await;
        let figures = live.figures();
        assert_eq!(
            (figures.in_flight, figures.waiting, figures.errors),
            (2, 3, 15)
        );
        gate.send_replace(true);
        let summary = tokio::time::timeout(LIMIT, driven)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!((summary.requests, summary.errors), (20, 15), "{summary}");
        assert_eq!(summary.errors_by_kind.of("overload"), 15);
        assert_eq!(
            (summary.waited_for_connection, summary.connections_opened),
            (3, 2)
        );
        // It was not sent, so it was never answered, and counts with the whole timeout.
        assert!((summary.latency.p50_ms - LIMIT.as_secs_f64() * 1e3).abs() < 1e-6);
        assert!(summary.without_errors.max_ms < summary.latency.max_ms);
    }
}

#[tokio::test]
async fn a_target_that_closes_after_each_answer_gets_new_connections() {
    let address = http(|_| async {
        let mut response = ok();
        let close = http::HeaderValue::from_static("close");
        response.headers_mut().insert("connection", close);
        response
    })
    .await;
    let summary = drive(plan(address, 10, Duration::from_millis(50))).await;
    assert_eq!((summary.requests, summary.errors), (10, 0), "{summary}");
    assert_eq!(summary.connections_opened, 10);
}

#[tokio::test]
async fn method_headers_and_body_arrive_as_planned() {
    let address = http(|request: Request<Incoming>| async move {
        use http_body_util::BodyExt;
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let is_right = head.method == "PUT"
            && head.uri.path_and_query().unwrap() == "/a?b=c"
            && head.headers["x-note"] == "1"
            && body == "body";
        let mut response = ok();
        if !is_right {
            *response.status_mut() = StatusCode::BAD_REQUEST;
        }
        response
    })
    .await;
    for protocol in [Protocol::Http1, H2] {
        let mut plan = plan(address, 3, Duration::from_millis(30));
        plan.target = format!("http://{address}/a?b=c").parse().unwrap();
        plan.protocol = protocol;
        plan.method = http::Method::PUT;
        plan.headers
            .insert("x-note", http::HeaderValue::from_static("1"));
        plan.body = Bytes::from_static(b"body");
        assert_eq!(drive(plan).await.statuses.of("2xx"), 3);
    }
}

#[tokio::test]
async fn the_warm_up_is_sent_but_not_in_the_summary() {
    let address = http(|_| async { ok() }).await;
    let mut plan = plan(address, 20, Duration::from_millis(100));
    plan.warmup = Duration::from_millis(100);
    let run = Run::prepare(plan, 5).await.unwrap();
    let live: Live = run.live();
    let summary = run.drive(CancellationToken::new()).await.unwrap();
    assert_eq!(
        (summary.requests, summary.body_bytes),
        (20, 100),
        "{summary}"
    );
    assert_eq!(live.figures().requests, 40);
}

#[tokio::test]
async fn stop_ends_the_schedule_and_waits_for_requests_in_flight() {
    let (address, gate, held) = gated().await;
    let run = Run::prepare(plan(address, 360_000, Duration::from_hours(1)), 1)
        .await
        .unwrap();
    let (live, stop) = (run.live(), CancellationToken::new());
    let driven = tokio::spawn(run.drive(stop.clone()));
    until(|| held.load(Ordering::SeqCst) >= 5).await;
    assert!(live.summary().unfinished >= 5 && live.summary().interrupted);
    stop.cancel();
    gate.send_replace(true);
    let summary = tokio::time::timeout(LIMIT, driven)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert!(summary.interrupted && summary.requests >= 5, "{summary}");
    assert_eq!((summary.errors, summary.unfinished), (0, 0), "{summary}");
    assert!(summary.seconds < 60.0);
}

#[tokio::test]
async fn dropping_a_run_closes_its_connections() {
    let open = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&open);
    let address = raw(move |mut stream| {
        let counter = Arc::clone(&counter);
        async move {
            counter.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read_to_end(&mut Vec::new()).await;
            counter.fetch_sub(1, Ordering::SeqCst);
        }
    })
    .await;
    let run = Run::prepare(plan(address, 360_000, Duration::from_hours(1)), 1)
        .await
        .unwrap();
    let live = run.live();
    let driven = tokio::spawn(run.drive(CancellationToken::new()));
    until(|| open.load(Ordering::SeqCst) >= 3).await;
    driven.abort();
    until(|| open.load(Ordering::SeqCst) == 0).await;
    assert!(live.summary().unfinished >= 3);
}

#[tokio::test]
async fn requests_are_numbered_by_arrival_if_configured() {
    let name = http::HeaderName::from_static("x-number");
    for header in [Some(name.clone()), None] {
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let key = name.clone();
        let address = http(move |request| {
            let number = request.headers().get(&key).cloned();
            log.lock().unwrap().push(number);
            async { ok() }
        })
        .await;
        let mut plan = plan(address, 10, Duration::from_millis(50));
        plan.number_header = header.clone();
        assert_eq!(drive(plan).await.errors, 0);
        let mut seen = core::mem::take(&mut *seen.lock().unwrap());
        seen.sort();
        let numbers = (0..10_u64).map(|n| header.as_ref().map(|_| n.into()));
        assert!(seen.into_iter().eq(numbers));
    }
}

#[tokio::test]
async fn a_plan_without_a_host_is_an_error_before_anything_is_sent() {
    let plan = Plan::new("/path".parse().unwrap(), 1.0, Duration::from_secs(1));
    let error = Run::prepare(plan, 1).await.unwrap_err();
    assert_eq!(error.to_string(), "the target has no host");
}
