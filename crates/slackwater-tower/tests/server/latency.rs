//! How latency is measured, in paused time: no sockets, exact values.

use bytes::Bytes;
use core::convert::Infallible;
use core::future::{Ready, ready};
use core::task::{Context, Poll};
use core::time::Duration;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use slackwater_tower::server::{Load, LoadLayer};
use tokio::time::sleep;
use tower::{Layer, Service, ServiceExt, service_fn};

const MS: Duration = Duration::from_millis(1);

fn get(path: &str) -> Request<()> {
    Request::get(path).body(()).unwrap()
}

/// Takes 12 ms to the head. `/fail` is a 500, `/grpc` a failure by its gRPC status only.
async fn answer(request: Request<()>) -> Result<Response<Full<Bytes>>, Infallible> {
    sleep(12 * MS).await;
    let mut response = Response::new(Full::from("body"));
    match request.uri().path() {
        "/fail" => *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR,
        "/grpc" => {
            let code = "14".parse().unwrap();
            response.headers_mut().insert("grpc-status", code);
        }
        _ => {}
    }
    Ok(response)
}

#[tokio::test(start_paused = true)]
async fn latency_ends_with_the_head_and_rif_with_the_body() {
    let load = Load::new();
    let service = LoadLayer::new(load.clone()).layer(service_fn(answer));
    let response = service.oneshot(get("/")).await.unwrap();
    assert_eq!(load.report(None).latency, Some(12 * MS));
    assert_eq!(load.rif().count(), 1, "the body is not yet out");
    sleep(500 * MS).await;
    response.into_body().collect().await.unwrap();
    assert_eq!(load.report(None).latency, Some(12 * MS));
    assert_eq!(load.rif().count(), 0);
    assert_eq!(load.counts().queries_succeeded, 1);
}

#[tokio::test(start_paused = true)]
async fn http_probe_reports_microseconds_and_is_not_a_query() {
    let load = Load::new();
    let layer = LoadLayer::new(load.clone());
    let ask = async || {
        let service = layer.layer(service_fn(answer));
        service.oneshot(get("/prequal/probe")).await.unwrap()
    };
    let before = ask().await;
    assert_eq!(before.headers()["x-prequal-rif"], "0");
    assert!(
        !before.headers().contains_key("x-prequal-latency-us"),
        "unknown is not zero"
    );
    let service = layer.layer(service_fn(answer));
    let _response = service.oneshot(get("/")).await.unwrap();
    let after = ask().await;
    assert_eq!(after.headers()["x-prequal-latency-us"], "12000");
    assert_eq!(after.headers()["x-prequal-rif"], "1");
    assert_eq!(after.headers()["cache-control"], "no-store");
    assert_eq!(load.counts().http_answered, 2);
}

#[tokio::test(start_paused = true)]
async fn probes_are_answered_only_at_the_probe_path() {
    let load = Load::new();
    let default = LoadLayer::new(load.clone());
    let moved = default.clone().probe_path("/load").unwrap();
    let none = default.clone().without_probe_path();
    let cases = [
        (&default, get("/prequal/probe?x=1"), true),
        (
            &default,
            Request::post("/prequal/probe").body(()).unwrap(),
            false,
        ),
        (&default, get("/prequal/probe/"), false),
        (&moved, get("/load"), true),
        (&moved, get("/prequal/probe"), false),
        (&none, get("/prequal/probe"), false),
    ];
    for (layer, request, is_probe) in cases {
        let asked = format!("{} {}", request.method(), request.uri());
        let service = layer.layer(service_fn(answer));
        let response = service.oneshot(request).await.unwrap();
        assert_eq!(
            response.headers().contains_key("x-prequal-rif"),
            is_probe,
            "{asked}"
        );
    }
    assert_eq!(load.counts().http_answered, 2);
    assert_eq!(
        load.counts().queries_cancelled,
        4,
        "queries whose bodies were dropped unread"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_leave_no_latency_sample() {
    for path in ["/fail", "/grpc"] {
        let load = Load::new();
        let service = LoadLayer::new(load.clone()).layer(service_fn(answer));
        let response = service.oneshot(get(path)).await.unwrap();
        response.into_body().collect().await.unwrap();
        assert_eq!(load.report(None).latency, None, "{path}");
        assert_eq!(
            (load.rif().count(), load.counts().queries_failed),
            (0, 1),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_error_is_a_failure() {
    let load = Load::new();
    let failing = service_fn(async |_: Request<()>| Err::<Response<Full<Bytes>>, _>("no"));
    let service = LoadLayer::new(load.clone()).layer(failing);
    assert_eq!(service.oneshot(get("/")).await.unwrap_err(), "no");
    assert_eq!((load.rif().count(), load.counts().queries_failed), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn cancelled_query_leaves_no_latency_sample() {
    let load = Load::new();
    let service = LoadLayer::new(load.clone()).layer(service_fn(answer));
    let given_up = tokio::time::timeout(5 * MS, service.oneshot(get("/"))).await;
    assert!(given_up.is_err());
    assert_eq!(
        (load.rif().count(), load.counts().queries_cancelled),
        (0, 1)
    );
    assert_eq!(load.report(None).latency, None);
}

#[tokio::test(start_paused = true)]
async fn responses_without_a_body_end_with_their_head() {
    let cases = [("HEAD", 200), ("GET", 204), ("GET", 304), ("GET", 101)];
    for (method, status) in cases {
        let load = Load::new();
        let service = LoadLayer::new(load.clone()).layer(service_fn(async |_: Request<()>| {
            let response = Response::builder().status(status);
            Ok::<_, Infallible>(response.body(Full::<Bytes>::from("not sent")).unwrap())
        }));
        let request = Request::builder().method(method).body(()).unwrap();
        let _response = service.oneshot(request).await.unwrap();
        let counts = (load.rif().count(), load.counts().queries_succeeded);
        assert_eq!(counts, (0, 1), "{method} {status}");
    }
}

/// Ready once per `poll_ready`, as the contract allows; a clone is not ready.
#[derive(Default)]
struct OnceReady(bool);

impl Clone for OnceReady {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl Service<Request<()>> for OnceReady {
    type Response = Response<Full<Bytes>>;
    type Error = &'static str;
    type Future = Ready<Result<Response<Full<Bytes>>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.0 = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        let was_ready = core::mem::take(&mut self.0);
        ready(
            was_ready
                .then(Response::default)
                .ok_or("called without being ready"),
        )
    }
}

#[tokio::test(start_paused = true)]
async fn layer_calls_the_service_instance_that_was_ready() {
    let mut service = LoadLayer::new(Load::new()).layer(OnceReady::default());
    for path in ["/", "/prequal/probe", "/"] {
        let service = service.ready().await.unwrap();
        assert!(service.call(get(path)).await.is_ok(), "{path}");
    }
}
