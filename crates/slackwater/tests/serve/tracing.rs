//! Requests as spans, from outside: what a collector receives over real OTLP, what replicas
//! receive, and the behaviour without a collector.

mod export;

use crate::access_log::Log;
use crate::clients::{self, Client, empty, full, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{self, Replica, unused_address};
use core::net::SocketAddr;
use http::{Request, Response};
use slackwater_collector::{Collector, Kind, Span};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector, and a configuration section that sends it the spans of all requests.
pub(crate) async fn collector(protocol: &str) -> (Collector, String) {
    let collector = Collector::default();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let served = match protocol {
        "grpc" => collector.serve_grpc(any).await,
        _ => collector.serve_http(any).await,
    };
    let section = section(served.unwrap(), protocol);
    (collector, section)
}

fn section(address: SocketAddr, protocol: &str) -> String {
    format!("[tracing]\nendpoint = \"http://{address}\"\nprotocol = \"{protocol}\"\nsample = 1\n")
}

/// A replica that answers with `status`, and the trace fields that it received.
struct Witness {
    replica: Replica,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Witness {
    /// Requests for `/late` wait for `go_on`.
    async fn new(status: u16, go_on: &Arc<Notify>) -> Self {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (notes, go_on) = (Arc::clone(&heads), Arc::clone(go_on));
        let replica = Replica::scripted(move |mut connection| {
            let (heads, go_on) = (Arc::clone(&notes), Arc::clone(&go_on));
            async move {
                while let Some(head) = connection.head().await {
                    let is_late = head.starts_with("GET /late");
                    let is_first = {
                        let mut heads: std::sync::MutexGuard<'_, Vec<String>> =
                            heads.lock().unwrap();
                        heads.push(head);
                        heads.len() == 1
                    };
                    if is_late && is_first {
                        go_on.notified().await;
                    }
                    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 2\r\n\r\nhi");
                    connection.send(&answer).await;
                }
            }
        });
        Self {
            replica: replica.await,
            heads,
        }
    }

    async fn answering(status: u16) -> Self {
        Self::new(status, &Arc::new(Notify::new())).await
    }

    /// The values of a field in all received requests.
    fn told(&self, name: &str) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        let lines = heads.iter().flat_map(|head| head.lines());
        lines
            .filter_map(|line| Some(line.strip_prefix(name)?.strip_prefix(": ")?.to_owned()))
            .collect()
    }
}

/// Returns the spans of the only trace, once there are `count`: the request's, and those of its
/// attempts in order.
pub(crate) async fn spans(collector: &Collector, count: usize) -> (Span, Vec<Span>) {
    until("the spans have arrived", async || {
        (collector.received().len() >= count).then_some(())
    })
    .await;
    let received = collector.received();
    assert_eq!(received.len(), count);
    let of_kind = |kind| {
        let spans = received.iter().map(|it| it.span.clone());
        let mut spans: Vec<_> = spans.filter(|span| span.kind == kind).collect();
        spans.sort_by_key(|span| span.number("slackwater.attempt.number"));
        spans
    };
    let [server] = &of_kind(Kind::Server)[..] else {
        panic!("one request: {received:?}");
    };
    let attempts = of_kind(Kind::Client);
    for attempt in &attempts {
        assert_eq!(
            (&attempt.trace, &attempt.parent),
            (&server.trace, &server.id)
        );
        assert_ne!(attempt.id, server.id);
        assert!(server.start_ns <= attempt.start_ns && attempt.start_ns <= attempt.end_ns);
    }
    (server.clone(), attempts)
}

/// The `traceparent` that a replica receives for an attempt's span.
fn sent_by(span: &Span) -> String {
    // The id of a trace that starts here is random, and the flags say so.
    let flags = span.flags & 0xff;
    format!("00-{}-{}-{flags:02x}", span.trace, span.id)
}

fn kinds(attempts: &[Span]) -> Vec<&str> {
    let kinds = attempts
        .iter()
        .map(|span| span.text("slackwater.attempt.kind"));
    kinds.collect()
}

#[tokio::test]
async fn spans_log_decision_and_replica_agree_on_a_request() {
    for protocol in ["grpc", "http"] {
        let (collector, tracing) = collector(protocol).await;
        let witness = Witness::answering(200).await;
        let log = Log::new(&format!("tracing-{protocol}"));
        let more = format!("{tracing}[decisions]\nsample = 1\n[request_id]\nheader = \"x-id\"\n");
        let proxy = Proxy::start(&[witness.replica.address], &(log.toml("") + &more));
        let mut client = Client::connect(proxy.address).await;
        let fields = "host: shop.example:81\r\nuser-agent: test\r\nx-id: abc";
        (client.send(&format!(
            "GET /cart?token=s3cret HTTP/1.1\r\n{fields}\r\n\r\n"
        )))
        .await;
        assert_eq!(client.answer().await.status, 200);

        let (server, attempts) = spans(&collector, 2).await;
        let [attempt] = &attempts[..] else {
            panic!("one attempt: {attempts:?}");
        };
        assert_eq!(witness.told("traceparent"), [sent_by(attempt)]);
        assert_eq!((server.name.as_str(), server.parent.as_str()), ("GET", ""));
        assert!(!server.failed && !attempt.failed);
        let replica = witness.replica.address.to_string();
        let listener = proxy.address.to_string();
        for (key, value) in [
            ("http.request.method", "GET"),
            ("url.path", "/cart"),
            ("url.scheme", "http"),
            ("server.address", "shop.example"),
            ("client.address", "127.0.0.1"),
            ("network.protocol.version", "1.1"),
            ("user_agent.original", "test"),
            ("slackwater.request_id", "abc"),
            ("slackwater.service", "default"),
            ("slackwater.replica", &replica),
            ("slackwater.listener", &listener),
            ("slackwater.end", "complete"),
        ] {
            assert_eq!(server.text(key), value, "{key}");
        }
        for (key, value) in [
            ("server.port", 81),
            ("http.response.status_code", 200),
            ("http.response.body.size", 2),
            ("slackwater.attempts", 1),
        ] {
            assert_eq!(server.number(key), Some(value), "{key}");
        }
        for (key, value) in [
            ("server.address", "127.0.0.1"),
            ("slackwater.replica", &replica),
            ("slackwater.attempt.kind", "first"),
            ("slackwater.attempt.outcome", "success"),
        ] {
            assert_eq!(attempt.text(key), value, "{key}");
        }
        let port = i64::from(witness.replica.address.port());
        assert_eq!(attempt.number("server.port"), Some(port));
        assert!(server.event("first_byte").is_some() && attempt.event("first_byte").is_some());
        let all = format!("{:?}", collector.received());
        assert!(!all.contains("s3cret"), "{all}");

        let lines = log.lines(1).await;
        assert_eq!(
            (&lines[0]["trace_id"], &lines[0]["id"]),
            (&server.trace.clone().into(), &"abc".into())
        );
        assert_eq!(lines[0]["reason"], attempt.text("slackwater.pick.reason"));
        let decision = proxy.admin_page("/decisions?id=abc").await;
        assert!(
            decision.contains(&format!("\"trace_id\":\"{}\"", server.trace)),
            "{decision}"
        );
    }
}

#[tokio::test]
async fn sampled_client_trace_continues_and_unsampled_one_is_unchanged() {
    let (collector, tracing) = collector("grpc").await;
    let witness = Witness::answering(200).await;
    let tracing = tracing.replace("sample = 1", "sample = 0");
    let proxy = Proxy::start(&[witness.replica.address], &tracing);
    let mut client = Client::connect(proxy.address).await;
    for flags in ["00", "01"] {
        let fields = format!(
            "traceparent: 00-{TRACE}-{PARENT}-{flags}\r\ntracestate: a=1\r\ntracestate: b=2"
        );
        (client.send(&format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n\r\n"))).await;
        assert_eq!(client.answer().await.status, 200);
    }
    // With a share of 0, a request without a parent is not traced, either.
    assert_eq!(client.get("/").await.status, 200);
    let (server, attempts) = spans(&collector, 2).await;
    assert_eq!(
        (server.trace.as_str(), server.parent.as_str()),
        (TRACE, PARENT)
    );
    assert_eq!(server.state, "a=1,b=2");
    let unsampled = format!("00-{TRACE}-{PARENT}-00");
    assert_eq!(
        witness.told("traceparent"),
        [unsampled, sent_by(&attempts[0])]
    );
    assert_eq!(witness.told("tracestate"), ["a=1", "b=2", "a=1,b=2"]);
}

#[tokio::test]
async fn ignored_parent_context_has_no_effect() {
    let (collector, tracing) = collector("grpc").await;
    let witness = Witness::answering(200).await;
    let tracing = format!("{tracing}parent = \"ignore\"\n");
    let proxy = Proxy::start(&[witness.replica.address], &tracing);
    let mut client = Client::connect(proxy.address).await;
    let fields = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=1");
    (client.send(&format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n\r\n"))).await;
    assert_eq!(client.answer().await.status, 200);
    let (server, attempts) = spans(&collector, 2).await;
    assert_ne!(server.trace, TRACE);
    assert_eq!(server.parent, "");
    assert_eq!(witness.told("traceparent"), [sent_by(&attempts[0])]);
    assert!(witness.told("tracestate").is_empty());
}

#[tokio::test]
async fn each_attempt_has_its_own_span() {
    let (collector, tracing) = collector("http").await;
    let (bad, well) = (Witness::answering(503).await, Witness::answering(200).await);
    let toml = format!("error_aversion.enabled = false\n{tracing}");
    let proxy = Proxy::start(&[bad.replica.address, well.replica.address], &toml);
    let mut client = Client::connect(proxy.address).await;
    // Round robin: one of them has its first attempt at the bad replica.
    for number in 1..=4 {
        let parent = format!("traceparent: 00-{number:032x}-{PARENT}-01");
        (client.send(&format!("GET / HTTP/1.1\r\nhost: x\r\n{parent}\r\n\r\n"))).await;
        assert_eq!(client.answer().await.status, 200);
    }
    let servers = || {
        let spans = collector.received().into_iter().map(|it| it.span);
        let servers: Vec<_> = spans.filter(|span| span.kind == Kind::Server).collect();
        servers
    };
    until("the spans have arrived", async || {
        (servers().len() == 4).then_some(())
    })
    .await;
    let mut servers = servers().into_iter();
    let server = servers.find(|span| span.number("slackwater.attempts") == Some(2));
    let server = server.expect("a request that was tried twice");
    let mut spans = collector.trace(&server.trace);
    spans.sort_by_key(|span| span.number("slackwater.attempt.number"));
    let [_, first, retry] = &spans[..] else {
        panic!("three spans: {spans:?}");
    };
    assert_eq!(kinds(&[first.clone(), retry.clone()]), ["first", "retry"]);
    assert!(bad.told("traceparent").contains(&sent_by(first)));
    assert!(well.told("traceparent").contains(&sent_by(retry)));
    assert!(first.failed && !retry.failed && !server.failed);
    assert_eq!(first.text("error.type"), "503");
    assert_eq!(retry.number("http.request.resend_count"), Some(1));
    assert_eq!(server.number("slackwater.attempts"), Some(2));
    let retried = server.event("retried").expect("an event");
    assert_eq!(retried.at_ns, retry.start_ns);
}

/// A request whose first copy waits, and whose second copy wins.
async fn overtaken(toml: &str, warm_up: bool) -> (Span, Vec<Span>, [Vec<String>; 2]) {
    let (collector, tracing) = collector("grpc").await;
    let go_on = Arc::new(Notify::new());
    // Each replica may receive the request as its first one, so a common flag ensures that only one
    // of them waits.
    let late = Arc::new(Mutex::new(false));
    let heads = [(), ()].map(|()| Arc::new(Mutex::new(Vec::new())));
    let mut replicas = Vec::new();
    for heads in &heads {
        let (heads, late, go_on) = (Arc::clone(heads), Arc::clone(&late), Arc::clone(&go_on));
        let replica = Replica::scripted(move |mut connection| {
            let (heads, late, go_on) = (Arc::clone(&heads), Arc::clone(&late), Arc::clone(&go_on));
            async move {
                while let Some(head) = connection.head().await {
                    let told = head
                        .lines()
                        .find_map(|line| line.strip_prefix("traceparent: "));
                    let told: Vec<_> = told.map(str::to_owned).into_iter().collect();
                    let heads: &Mutex<Vec<String>> = &heads;
                    heads.lock().unwrap().extend(told);
                    let waits = head.starts_with("GET /late")
                        && !core::mem::replace(&mut *late.lock().unwrap(), true);
                    if waits {
                        tokio::select! {
                            () = go_on.notified() => (),
                            _ = connection.more() => return,
                        }
                    }
                    connection.answer("hi").await;
                }
            }
        });
        replicas.push(replica.await);
    }
    let addresses: Vec<_> = replicas.iter().map(|replica| replica.address).collect();
    let tracing = tracing.replace("sample = 1", "sample = 0");
    let proxy = Proxy::start(&addresses, &format!("{toml}{tracing}"));
    let mut client = Client::connect(proxy.address).await;
    if warm_up {
        assert_eq!(client.get("/").await.status, 200);
    }
    let parent = format!("traceparent: 00-{TRACE}-{PARENT}-01");
    client
        .send(&format!(
            "GET /late HTTP/1.1\r\nhost: x\r\n{parent}\r\n\r\n"
        ))
        .await;
    assert_eq!(client.answer().await.status, 200);
    let (server, attempts) = spans(&collector, 3).await;
    (
        server,
        attempts,
        heads.map(|heads| heads.lock().unwrap().clone()),
    )
}

/// Checks that the first copy lost and the second one won, and that each replica received the span
/// of its own attempt.
fn assert_overtaken(server: &Span, attempts: &[Span], heads: &[Vec<String>; 2], kind: &str) {
    assert_eq!(kinds(attempts), ["first", kind]);
    let mut told: Vec<_> = heads.iter().flatten().cloned().collect();
    let mut sent: Vec<_> = attempts.iter().map(sent_by).collect();
    told.sort();
    sent.sort();
    assert_eq!(told, sent);
    let outcomes = attempts
        .iter()
        .map(|span| span.text("slackwater.attempt.outcome"));
    assert_eq!(outcomes.collect::<Vec<_>>(), ["dropped", "success"]);
    let answered = attempts
        .iter()
        .map(|span| format!("{:?}", span.attributes["slackwater.attempt.answered"]));
    assert_eq!(answered.collect::<Vec<_>>(), ["Bool(false)", "Bool(true)"]);
    assert!(
        !server.failed && attempts.iter().all(|span| !span.failed),
        "to lose is no error"
    );
    assert_eq!(
        server.text("slackwater.replica"),
        attempts[1].text("slackwater.replica")
    );
}

#[tokio::test]
async fn a_late_request_and_its_second_copy_have_a_span_each() {
    let eager = "[hedge]\nenabled = true\nbudget = 1\nsamples_min = 1\nslow_share = 1\ndelay_min = \"50ms\"\n";
    let (server, attempts, heads) = overtaken(eager, true).await;
    assert_overtaken(&server, &attempts, &heads, "hedge");
    assert!(server.event("hedged").is_some());
}

#[tokio::test]
async fn both_copies_of_a_tied_request_have_a_span_each() {
    let tied = "[tie]\nenabled = true\ndelay = \"5ms\"\n";
    let (server, attempts, heads) = overtaken(tied, false).await;
    assert_overtaken(&server, &attempts, &heads, "tie");
    assert!(server.event("tied").is_some());
}

#[tokio::test]
async fn a_failed_request_has_its_cause() {
    let (collector, tracing) = collector("grpc").await;
    let proxy = Proxy::start(&[unused_address().await], &tracing);
    assert_eq!(get(proxy.address, "/").await.status, 502);
    let (server, attempts) = spans(&collector, 2).await;
    assert!(server.failed && attempts[0].failed);
    assert_eq!(server.text("error.type"), "no_connection");
    assert_eq!(server.number("http.response.status_code"), Some(502));
    assert!(server.event("gave_up").is_some());
    assert_eq!(attempts[0].text("error.type"), "no_connection");
    assert_eq!(
        attempts[0].text("slackwater.attempt.outcome"),
        "no_connection"
    );
    assert!(!attempts[0].text("slackwater.attempt.cause").is_empty());
}

#[tokio::test]
async fn route_names_the_span_and_local_answers_have_no_attempt() {
    let (collector, tracing) = collector("http").await;
    let witness = Witness::answering(404).await;
    let address = witness.replica.address;
    let proxy = Proxy::of_file(&format!(
        "[services.web]\npolicy = \"round_robin\"\nreplicas = [\"{address}\"]\n\
         [services.web.probe]\ntransport = \"none\"\n\
         [[routes]]\npath_prefix = \"/api\"\nservice = \"web\"\n{tracing}"
    ));
    assert_eq!(get(proxy.address, "/api/x").await.status, 404);
    let (server, attempts) = spans(&collector, 2).await;
    assert_eq!(
        (server.name.as_str(), server.text("http.route")),
        ("GET /api/*", "/api/*")
    );
    // A 404 is the client's own error. On the client side, which the attempt's span is, it counts
    // as failed.
    assert!(!server.failed && attempts[0].failed);

    assert_eq!(get(proxy.address, "/other").await.status, 404);
    until("its span has arrived", async || {
        (collector.received().len() == 3).then_some(())
    })
    .await;
    let span = &collector.received()[2].span;
    assert_eq!((span.kind, span.name.as_str()), (Kind::Server, "GET"));
    assert_eq!(span.number("slackwater.attempts"), Some(0));
}

#[tokio::test]
async fn http2_and_grpc_are_traced_in_the_same_way() {
    let (collector, tracing) = collector("grpc").await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&told);
    let replica = replicas::http2(move |request| {
        let traceparent = request.headers()["traceparent"]
            .to_str()
            .unwrap()
            .to_owned();
        notes.lock().unwrap().push(traceparent);
        async {
            let head = Response::builder().header("content-type", "application/grpc");
            head.header("grpc-status", "0").body(empty()).unwrap()
        }
    });
    let toml = format!("[replica]\nprotocol = \"h2c\"\n{tracing}");
    let proxy = Proxy::start(&[replica.await], &toml);
    let mut client = clients::http2(proxy.address).await;
    let call = Request::post(format!("http://{}/pkg.Service/Method", proxy.address))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("traceparent", format!("00-{TRACE}-{PARENT}-01"))
        .body(full(vec![0_u8; 5]))
        .unwrap();
    let response = client.send_request(call).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "0");
    drop(response);
    let (server, attempts) = spans(&collector, 2).await;
    assert_eq!(
        (server.trace.as_str(), server.parent.as_str()),
        (TRACE, PARENT)
    );
    assert_eq!(server.text("network.protocol.version"), "2");
    assert_eq!(*told.lock().unwrap(), [sent_by(&attempts[0])]);
}
