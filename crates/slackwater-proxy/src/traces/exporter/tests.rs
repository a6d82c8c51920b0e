//! The exporter with collectors that accept spans, and with collectors that do not.

use super::*;
use crate::traces::messages::Span;
use core::net::SocketAddr;
use rustls::pki_types::PrivateKeyDer;
use slackwater_collector::{Collector, Manner, Value};
use slackwater_config::{CollectorHeaders, CollectorProtocol};
use slackwater_core::Quantile;
use slackwater_http::Fields;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Deadline for events that must happen; far longer than they take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(1);

const PROTOCOLS: [CollectorProtocol; 2] = [CollectorProtocol::Grpc, CollectorProtocol::Http];

/// Starts a collector, and makes the settings for it.
async fn collector(protocol: CollectorProtocol) -> (Collector, TracingSettings) {
    let collector = Collector::default();
    let any = "127.0.0.1:0".parse().expect("an address");
    let served = match protocol {
        CollectorProtocol::Grpc => collector.serve_grpc(any).await,
        CollectorProtocol::Http => collector.serve_http(any).await,
    };
    let address = served.expect("a port");
    let settings = TracingSettings {
        endpoint: Endpoint::parse(&format!("http://{address}")),
        protocol,
        sample: Quantile::ONE,
        ..TracingSettings::default()
    };
    (collector, settings)
}

fn start(settings: &TracingSettings) -> Exporter {
    Exporter::start(settings).expect("a thread").expect("on")
}

/// Sends a span of its own trace.
fn send(tracer: &Rc<Tracer>, name: &str) {
    let begun = tracer.begin(&mut Fields::new(), |_| "http");
    let span = Span {
        name: name.to_owned(),
        ..begun.expect("sampled").server_span()
    };
    tracer.finish(&[span]);
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    let in_time = timeout(PATIENCE, waiting).await;
    in_time.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// Dropped outside of the test's runtime, which may run the collector.
async fn end(exporter: Exporter) {
    let ended = tokio::task::spawn_blocking(move || drop(exporter));
    ended.await.expect("no panic");
}

#[tokio::test]
async fn spans_of_all_workers_arrive_with_their_resource() {
    for protocol in PROTOCOLS {
        let (collector, mut settings) = collector(protocol).await;
        settings.service_name = "edge".to_owned();
        settings.resource = vec![("host.name".to_owned(), "h1".to_owned())];
        settings.headers = CollectorHeaders::Fields(vec![(
            "x-token".parse().expect("a name"),
            "s3cret".parse().expect("a value"),
        )]);
        let exporter = start(&settings);
        let switch = exporter.switch().clone();
        let (one, other) = (switch.tracer(), switch.tracer());
        send(&one, "one");
        send(&other, "other");
        until("they have arrived", || collector.received().len() == 2).await;
        send(&one, "the last");
        end(exporter).await;

        let received = collector.received();
        let mut names: Vec<_> = received.iter().map(|it| it.span.name.as_str()).collect();
        names.sort_unstable();
        assert_eq!(names, ["one", "other", "the last"], "{protocol:?}");
        for it in &received {
            let said = |key: &str| it.resource.get(key).cloned();
            assert_eq!(said("service.name"), Some(Value::Text("edge".to_owned())));
            assert_eq!(said("host.name"), Some(Value::Text("h1".to_owned())));
            let version = env!("CARGO_PKG_VERSION").to_owned();
            assert_eq!(said("service.version"), Some(Value::Text(version)));
            let process = i64::from(std::process::id());
            assert_eq!(said("process.pid"), Some(Value::Int(process)));
            assert_eq!(it.scope, "slackwater");
            assert_eq!((it.span.trace.len(), it.span.id.len()), (32, 16));
        }
        assert_eq!(collector.header("x-token").as_deref(), Some("s3cret"));
        let counts = SpanCounts {
            exported: 3,
            ..SpanCounts::default()
        };
        assert_eq!(switch.counts(), counts, "{protocol:?}");
    }
}

#[tokio::test]
async fn export_is_retried_if_the_collector_is_busy() {
    for protocol in PROTOCOLS {
        let (collector, settings) = collector(protocol).await;
        collector.set_manner(Manner::Busy);
        let exporter = start(&settings);
        let tracer = exporter.switch().tracer();
        send(&tracer, "early");
        until("it was refused", || {
            exporter.switch().counts().exports_failed > 0
        })
        .await;
        collector.set_manner(Manner::Takes);
        until("it has arrived", || !collector.received().is_empty()).await;
        end(exporter).await;
        assert_eq!(collector.received().len(), 1, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_permanently_rejected_export_is_dropped_and_counted() {
    for protocol in PROTOCOLS {
        let (collector, settings) = collector(protocol).await;
        collector.set_manner(Manner::Refuses);
        let exporter = start(&settings);
        let switch = exporter.switch().clone();
        let tracer = switch.tracer();
        send(&tracer, "refused");
        until("it is dropped", || switch.counts().dropped == 1).await;
        collector.set_manner(Manner::Takes);
        send(&tracer, "taken");
        end(exporter).await;
        let counts = SpanCounts {
            exported: 1,
            dropped: 1,
            exports_failed: 1,
        };
        assert_eq!(switch.counts(), counts, "{protocol:?}");
        assert_eq!(collector.received()[0].span.name, "taken");
    }
}

#[tokio::test]
async fn a_hanging_collector_delays_neither_workers_nor_the_shutdown() {
    for protocol in PROTOCOLS {
        let (collector, mut settings) = collector(protocol).await;
        settings.timeout = Duration::from_mins(1);
        collector.set_manner(Manner::Hangs);
        let exporter = start(&settings);
        let switch = exporter.switch().clone();
        let tracer = switch.tracer();
        send(&tracer, "hangs");
        until("it hangs", || collector.exports() == 1).await;
        // Far more than fits.
        let name = "n".repeat(100_000);
        (0..30).for_each(|_| send(&tracer, &name));
        let without_room = switch.counts().dropped;
        assert!((15..30).contains(&without_room), "{without_room}");
        // It gives up long before the export's own deadline.
        let ended = timeout(Duration::from_secs(30), end(exporter)).await;
        ended.expect("the end comes");
        let counts = switch.counts();
        assert_eq!((counts.exported, counts.dropped), (0, 31), "{protocol:?}");
    }
}

#[tokio::test]
async fn a_missing_answer_times_out() {
    let (collector, mut settings) = collector(CollectorProtocol::Grpc).await;
    settings.timeout = Duration::from_millis(10);
    collector.set_manner(Manner::Hangs);
    let exporter = start(&settings);
    send(&exporter.switch().tracer(), "hangs");
    until("it is given up", || {
        exporter.switch().counts().exports_failed > 0
    })
    .await;
    collector.set_manner(Manner::Takes);
    until("it has arrived", || !collector.received().is_empty()).await;
    end(exporter).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_collector_spans_are_dropped_after_some_attempts() {
    let endpoint = Endpoint::parse("http://127.0.0.1:1").expect("an endpoint");
    let shared = Arc::<Shared>::default();
    let (_end, ending) = watch::channel(None);
    let settings = TracingSettings::default();
    let mut sending = Sending::new(&settings, endpoint, Arc::clone(&shared), ending);
    let mut batch = Batch {
        bytes: vec![0; 10],
        spans: 7,
    };
    let begun = Instant::now();
    sending.deliver(&mut batch).await;
    let load = |count: &AtomicU64| count.load(Relaxed);
    assert_eq!(load(&shared.exports_failed), 5);
    assert_eq!((load(&shared.dropped), load(&shared.exported)), (7, 0));
    // 1, 2, 4 and 8 seconds.
    assert!(begun.elapsed() >= Duration::from_secs(15));
    assert_eq!((batch.bytes.len(), batch.spans), (0, 0));
}

/// Runs TLS in front of a collector, and returns its certificate as PEM.
async fn behind_tls(collector: SocketAddr, protocol: CollectorProtocol) -> (SocketAddr, String) {
    let issued = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
    let issued = issued.expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth();
    let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).expect("a key");
    let server = server.with_single_cert(vec![issued.cert.der().clone()], key);
    let mut server = server.expect("a certificate with its key");
    let spoken: &[u8] = match protocol {
        CollectorProtocol::Grpc => b"h2",
        CollectorProtocol::Http => b"http/1.1",
    };
    server.alpn_protocols = vec![spoken.to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut secured = acceptor.accept(stream).await?;
                let mut plain = TcpStream::connect(collector).await?;
                copy_bidirectional(&mut secured, &mut plain).await
            });
        }
    });
    (address, issued.cert.pem())
}

#[tokio::test]
async fn over_tls_spans_go_only_to_a_verified_collector() {
    for protocol in PROTOCOLS {
        let (collector, mut settings) = collector(protocol).await;
        let plain = settings.endpoint.take().expect("an endpoint");
        let plain = plain.authority().parse().expect("an address");
        let (address, certificate) = behind_tls(plain, protocol).await;
        settings.endpoint = Endpoint::parse(&format!("https://{address}"));
        let name = format!("slackwater-spans-{}-{protocol:?}.pem", std::process::id());
        let ca = std::env::temp_dir().join(name);
        settings.tls.ca = Some(ca.clone());

        let (_, strange) = behind_tls(plain, protocol).await;
        std::fs::write(&ca, strange).expect("a file for the test");
        let exporter = start(&settings);
        let switch = exporter.switch().clone();
        send(&switch.tracer(), "kept");
        until("it is not sent to a stranger", || {
            switch.counts().exports_failed > 0
        })
        .await;
        assert_eq!(collector.exports(), 0, "{protocol:?}");
        // Files are read for each connection.
        std::fs::write(&ca, certificate).expect("a file for the test");
        until("it has arrived", || collector.received().len() == 1).await;
        end(exporter).await;
        std::fs::remove_file(&ca).expect("the test's own file");
    }
}

#[test]
fn without_an_endpoint_there_is_no_thread() {
    let off = Exporter::start(&TracingSettings::default());
    assert!(off.expect("nothing to fail").is_none());
}
