//! The queue before a service, with the load layer around it, in paused time: which requests start,
//! in which order, and which never do.

use super::rig::{Scripted, Step, Steps};
use core::num::NonZeroU32;
use core::pin::Pin;
use core::time::Duration;
use futures_util::FutureExt;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use slackwater_core::policy::Settings;
use slackwater_tower::response::head_outcome;
use slackwater_tower::server::admission::{
    Admission, AdmissionLayer, Asks, ConcurrencyLimit, GradientSettings, QueueSettings, Shed,
};
use slackwater_tower::server::{End, Load, LoadLayer};
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tower::{Layer, Service, ServiceExt, service_fn};

type Answer = Result<Response<Body>, std::io::Error>;
type Body = Pin<Box<dyn http_body::Body<Data = bytes::Bytes, Error = std::io::Error> + Send>>;
type Pending = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// A service that records its requests. The test drives the body of `/stream`; all other responses
/// end at once.
struct Rig {
    load: Load,
    admission: Admission,
    begun: Arc<Mutex<Vec<String>>>,
    /// The remaining time that the service received, in ms.
    left: Arc<Mutex<Vec<String>>>,
    streams: mpsc::UnboundedReceiver<Steps>,
    call: Box<dyn Fn(Request<()>) -> Pending>,
}

impl Rig {
    fn new(limit: u32, waiting_max: u32) -> Self {
        let mut settings = QueueSettings::default();
        settings.waiting_max = waiting_max;
        let limit = ConcurrencyLimit::fixed(NonZeroU32::new(limit).unwrap());
        let admission = Admission::new(settings.validate().unwrap(), limit);
        let load = Load::new();
        let begun = Arc::new(Mutex::new(Vec::new()));
        let (opened, streams) = mpsc::unbounded_channel();
        let left = Arc::new(Mutex::new(Vec::new()));
        let (notes, told) = (begun.clone(), left.clone());
        let app = service_fn(move |request: Request<()>| {
            let path = request.uri().path().to_owned();
            notes.lock().unwrap().push(path.clone());
            if let Some(left) = request.headers().get("x-slackwater-timeout-ms") {
                told.lock().unwrap().push(left.to_str().unwrap().to_owned());
            }
            let opened = opened.clone();
            async move {
                let (steps, body) = mpsc::unbounded_channel();
                match path.as_str() {
                    "/stream" => opened.send(steps).unwrap(),
                    "/error" => return Err(std::io::Error::other("asked for")),
                    "/panic" => panic!("asked for"),
                    _ => {}
                }
                Ok(Response::new(Scripted(body)))
            }
        });
        let app = AdmissionLayer::new(admission.clone()).layer(app);
        let app = LoadLayer::new(load.clone()).layer(app);
        let call = move |request| -> Pending {
            let mut app = app.clone();
            Box::pin(async move {
                let response = app.ready().await?.call(request).await?;
                Ok(response.map(|body| -> Body { Box::pin(body) }))
            })
        };
        Self {
            load,
            admission,
            begun,
            left,
            streams,
            call: Box::new(call),
        }
    }

    /// Sends a request: it starts, waits, or is rejected.
    fn come(&self, path: &str, fields: &[(&str, &str)]) -> Pending {
        let request = Request::get(path);
        let request = fields.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        let mut pending = (self.call)(request.body(()).unwrap());
        match (&mut pending).now_or_never() {
            Some(answer) => Box::pin(core::future::ready(answer)),
            None => pending,
        }
    }

    async fn stream(&mut self) -> (Response<Body>, Steps) {
        let response = self.come("/stream", &[]).await.unwrap();
        (response, self.streams.recv().await.unwrap())
    }

    fn begun(&self) -> Vec<String> {
        core::mem::take(&mut *self.begun.lock().unwrap())
    }

    fn rif(&self) -> u32 {
        self.load.rif().count()
    }

    #[track_caller]
    fn is_empty(&self) {
        let view = self.admission.view();
        assert_eq!((view.rif, view.waiting, self.rif()), (0, [0; 3], 0));
    }
}

async fn finish(answer: Pending) {
    let body = answer.await.unwrap().into_body();
    body.collect().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn higher_priorities_start_first_and_queued_requests_count_as_rif() {
    let mut rig = Rig::new(1, 9);
    let (response, steps) = rig.stream().await;
    let priority = |value| [("x-slackwater-priority", value)];
    let waits = [
        rig.come("/shadow", &priority("shadow")),
        rig.come("/batch", &priority("batch")),
        rig.come("/one", &[]),
        rig.come("/two", &priority("interactive")),
    ];
    assert_eq!(rig.begun(), ["/stream"]);
    assert_eq!(rig.rif(), 5, "what waits is load, too");
    assert_eq!(rig.admission.view().waiting, [2, 1, 1]);
    drop(steps);
    response.into_body().collect().await.unwrap();
    futures_util::future::join_all(waits.map(finish)).await;
    assert_eq!(rig.begun(), ["/one", "/two", "/batch", "/shadow"]);
    rig.is_empty();
}

#[tokio::test(start_paused = true)]
async fn an_expired_request_is_never_started_and_is_rejected_at_once() {
    let mut rig = Rig::new(1, 9);
    let (_response, _steps) = rig.stream().await;
    for (field, value) in [("x-slackwater-timeout-ms", "300"), ("grpc-timeout", "300m")] {
        let began = tokio::time::Instant::now();
        let answer = rig.come("/late", &[(field, value)]).await.unwrap();
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(300), "{took:?}");
        assert!(took <= Duration::from_millis(302), "{took:?}");
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()["x-slackwater-error"], "shed_deadline");
    }
    let none = rig.come("/late", &[("x-slackwater-timeout-ms", "0")]);
    assert_eq!(none.now_or_never().unwrap().unwrap().status(), 503);
    assert_eq!(rig.begun(), ["/stream"]);
    assert_eq!(rig.admission.view().shed[Shed::Deadline.index()], 3);
    assert_eq!(rig.rif(), 1);
}

#[tokio::test(start_paused = true)]
async fn rejected_request_counts_as_cancelled_and_not_as_failed() {
    let mut rig = Rig::new(1, 1);
    let (_response, _steps) = rig.stream().await;
    let batch = rig.come("/batch", &[("x-slackwater-priority", "batch")]);
    let plain = rig.come("/plain", &[("x-slackwater-priority", "batch")]);
    let plain = plain.now_or_never().expect("at once").unwrap();
    assert_eq!(plain.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(plain.headers()["retry-after"], "1");
    // A more urgent request takes the place of the waiting one.
    let _urgent = rig.come("/urgent", &[]);
    let batch = batch.now_or_never().expect("at once").unwrap();
    assert_eq!(batch.headers()["x-slackwater-error"], "shed_full");
    let call = [
        ("content-type", "application/grpc"),
        ("x-slackwater-priority", "shadow"),
    ];
    let call = rig.come("/call", &call).now_or_never().unwrap().unwrap();
    assert_eq!(
        (call.status(), &call.headers()["grpc-status"]),
        (StatusCode::OK, &"14".parse().unwrap())
    );
    for answer in [plain, batch, call] {
        let outcome = head_outcome(answer.status(), answer.headers());
        assert_eq!(format!("{outcome:?}"), "PushedBack");
        assert!(http_body::Body::is_end_stream(answer.body()));
    }
    assert_eq!(rig.load.counts().queries_failed, 0);
    assert_eq!(rig.load.counts().queries_cancelled, 3);
    assert_eq!(rig.rif(), 2);
}

#[tokio::test(start_paused = true)]
async fn permit_is_returned_however_a_request_ends() {
    let mut rig = Rig::new(1, 9);
    let (response, _steps) = rig.stream().await;
    drop(response);
    rig.is_empty();
    let (response, steps) = rig.stream().await;
    steps.send(Step::Error).unwrap();
    assert!(response.into_body().collect().await.is_err());
    rig.is_empty();
    let (response, steps) = rig.stream().await;
    steps.send(Step::GrpcStatus("0")).unwrap();
    let mut body = response.into_body();
    body.frame().await.unwrap().unwrap();
    rig.is_empty();
    assert!(rig.come("/error", &[]).await.is_err());
    rig.is_empty();
    let panic = tokio::spawn(rig.come("/ok", &[]));
    drop(panic.await.unwrap());
    let call = (rig.call)(Request::get("/panic").body(()).unwrap());
    assert!(tokio::spawn(call).await.is_err());
    rig.is_empty();
}

#[tokio::test(start_paused = true)]
async fn request_that_leaves_the_queue_takes_no_permit() {
    let mut rig = Rig::new(1, 9);
    let (response, _steps) = rig.stream().await;
    let leaves = rig.come("/leaves", &[]);
    let called = rig.come("/called", &[]);
    let last = rig.come("/last", &[]);
    drop(leaves);
    assert_eq!(rig.admission.view().waiting, [2, 0, 0]);
    drop(response);
    // Its turn has come, but it is dropped before it is polled.
    drop(called);
    finish(last).await;
    assert_eq!(rig.begun(), ["/stream", "/last"]);
    rig.is_empty();
}

#[tokio::test(start_paused = true)]
async fn request_is_rejected_at_its_maximal_queue_time() {
    let mut rig = Rig::new(1, 9);
    let (_response, _steps) = rig.stream().await;
    let early = rig.come("/early", &[]);
    tokio::time::sleep(Duration::from_millis(600)).await;
    let late = rig.come("/late", &[]);
    let began = tokio::time::Instant::now();
    let answer = early.await.unwrap();
    assert_eq!(answer.headers()["x-slackwater-error"], "shed_wait_over");
    assert!(
        began.elapsed() < Duration::from_millis(402),
        "its own second, not another's"
    );
    assert_eq!(rig.admission.view().waiting, [1, 0, 0]);
    late.await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn service_receives_the_time_remaining_after_the_queue() {
    let mut rig = Rig::new(1, 9);
    let at_once = rig.come("/", &[("x-slackwater-timeout-ms", "900")]);
    finish(at_once).await;
    let (response, _steps) = rig.stream().await;
    let waiting = rig.come("/waits", &[("x-slackwater-timeout-ms", "900")]);
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(response);
    finish(waiting).await;
    assert_eq!(*rig.left.lock().unwrap(), ["900", "600"]);
}

#[tokio::test(start_paused = true)]
async fn an_adaptive_limit_that_rises_admits_a_waiting_request() {
    let mut settings = GradientSettings::default();
    settings.samples_min = 1;
    let limit = ConcurrencyLimit::gradient(settings.validate().unwrap());
    let admission = Admission::new(QueueSettings::default().validate().unwrap(), limit);
    let before = admission.view().limit;
    let enter = || admission.enter(Asks::default());
    let mut streams = Vec::new();
    for _ in 0..before {
        streams.push(enter().await.unwrap());
    }
    let mut waiting = Box::pin(enter());
    assert!((&mut waiting).now_or_never().is_none());
    // All heads are ready soon, but no body ends.
    tokio::time::sleep(Duration::from_millis(200)).await;
    for stream in &mut streams {
        stream.head_ready(End::Success);
    }
    assert!(admission.view().limit > before);
    assert!(waiting.now_or_never().is_some());
}
