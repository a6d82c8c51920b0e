//! `slackwater load` as a user runs it: a process against a server on loopback; its table, its
//! JSON, its exit codes. The generator's behaviour with each kind of bad target is tested next to
//! it, in `src/load/tests.rs`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests and their helpers")]

use bytes::Bytes;
use core::convert::Infallible;
use core::net::SocketAddr;
use core::time::Duration;
use http::{Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::sign::SingleCertAndKey;
use serde_json::Value;
use slackwater_config::tls::Identity;
use slackwater_config::tls::testing::{Authority, Folder};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// A server for HTTP/1.1 and h2c that answers all requests with this status, until it is dropped.
struct Server {
    runtime: Runtime,
    address: SocketAddr,
    requests: watch::Sender<u64>,
}

impl Server {
    fn start(status: StatusCode) -> Self {
        Self::start_with(status, None)
    }

    /// Starts the server, with TLS if there is an acceptor.
    fn start_with(status: StatusCode, tls: Option<TlsAcceptor>) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = watch::Sender::new(0);
        let counter = requests.clone();
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (counter, tls) = (counter.clone(), tls.clone());
                let service = service_fn(move |_| {
                    counter.send_modify(|requests| *requests += 1);
                    let mut response = Response::new(Full::new(Bytes::from_static(b"hello")));
                    *response.status_mut() = status;
                    async { Ok::<_, Infallible>(response) }
                });
                tokio::spawn(async move {
                    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let Some(tls) = tls else {
                        let _ = server.serve_connection(TokioIo::new(stream), service).await;
                        return;
                    };
                    if let Ok(stream) = tls.accept(stream).await {
                        let _ = server.serve_connection(TokioIo::new(stream), service).await;
                    }
                });
            }
        });
        Self {
            runtime,
            address,
            requests,
        }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = load(&[&format!("http://{}/", self.address)]);
        command.args(options);
        command
    }
}

/// The server side of TLS, which offers these protocols by ALPN.
fn acceptor(identity: &Identity, protocols: &[&[u8]]) -> TlsAcceptor {
    let provider = Arc::clone(slackwater_config::tls::provider());
    let shown = SingleCertAndKey::from(Arc::clone(&identity.certified));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(shown));
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

fn load(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
    command.arg("load").args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).unwrap()
}

/// A path for this test alone, with no file at it.
fn scratch(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
        _ => path,
    }
}

fn assert_ends_with(output: &Output, code: i32, complaint: &str) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(complaint), "{stderr}");
}

#[test]
fn json_has_every_documented_field_and_matches_the_table() {
    let server = Server::start(StatusCode::OK);
    for http in ["1", "2"] {
        let path = scratch(&format!("load-fields-{http}.json"));
        // The previous content, longer than the new one, must be gone afterwards.
        std::fs::write(&path, "x".repeat(100_000)).unwrap();
        let path = path.to_str().unwrap();
        let options = [
            "--rate",
            "200",
            "--seconds",
            "0.5",
            "--arrivals",
            "constant",
        ];
        let more = ["--http", http, "--timeout", "20s", "--json", path];
        let output = server.command(&options).args(more).output().unwrap();
        assert_ends_with(&output, 0, "");
        let json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for field in [
            "p50_ms",
            "p90_ms",
            "p99_ms",
            "p999_ms",
            "mean_ms",
            "max_ms",
            "achieved_rate",
            "rate",
        ] {
            assert!(
                json[field].as_f64().is_some_and(|value| value > 0.0),
                "{field}: {json}"
            );
        }
        for kind in [
            "connect",
            "timeout",
            "closed",
            "status_5xx",
            "overload",
            "other",
        ] {
            assert_eq!(json["errors_by_kind"][kind], 0, "{json}");
        }
        for group in ["sent_late", "without_errors"] {
            for field in ["p50_ms", "p90_ms", "p99_ms", "p999_ms", "mean_ms", "max_ms"] {
                assert!(json[group][field].is_f64(), "{group}.{field}: {json}");
            }
        }
        assert_eq!(
            (&json["requests"], &json["errors"]),
            (&100.into(), &0.into()),
            "{json}"
        );
        assert_eq!(json["statuses"]["2xx"], 100);
        assert_eq!(json["body_bytes"], 500);
        assert_eq!(json["interrupted"], false);
        assert_eq!(
            json["protocol"],
            if http == "1" { "http/1.1" } else { "h2c" }
        );
        let table = text(&output.stdout);
        assert!(table.contains("requests     100 ("), "{table}");
        assert!(table.contains("answers      2xx 100"), "{table}");
        assert!(
            output.stderr.is_empty(),
            "no progress bar where there is no terminal"
        );
    }
    assert_eq!(*server.requests.borrow(), 200);
}

/// The figures of ten requests to this URL.
fn figures(url: &str, options: &[&str]) -> Value {
    let short = [
        "--rate",
        "100",
        "--seconds",
        "0.1",
        "--arrivals",
        "constant",
    ];
    let rest = ["--timeout", "20s", "--json", "-"];
    let output = load(&[url])
        .args(short)
        .args(rest)
        .args(options)
        .output()
        .unwrap();
    assert_ends_with(&output, 0, "");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn https_verifies_certificates_over_both_protocols() {
    let (authority, folder) = (Authority::new(), Folder::new());
    let ca = folder.write("ca.pem", &authority.pem());
    let ca = ca.to_str().unwrap();
    let identity = authority.identity(&["localhost"]);
    let tls = acceptor(&identity, &[b"h2", b"http/1.1"]);
    let server = Server::start_with(StatusCode::OK, Some(tls));
    let port = server.address.port();
    let (named, by_address) = (
        format!("https://localhost:{port}/"),
        format!("https://127.0.0.1:{port}/"),
    );
    for (http, protocol) in [("1", "http/1.1"), ("2", "h2")] {
        let json = figures(&named, &["--ca", ca, "--http", http]);
        assert_eq!(
            (&json["errors"], &json["statuses"]["2xx"]),
            (&0.into(), &10.into()),
            "{json}"
        );
        assert_eq!(json["protocol"], protocol);
        // The certificate is for another name, or from an unknown authority.
        for (url, options) in [(&by_address, &["--ca", ca][..]), (&named, &[])] {
            let json = figures(url, &[options, &["--http", http]].concat());
            assert_eq!(json["errors_by_kind"]["connect"], 10, "{json}");
            let why = json["first_failures"]["connect"].as_str().unwrap();
            assert!(why.contains("certificate"), "{why}");
        }
        let json = figures(&by_address, &["--insecure", "--http", http]);
        assert_eq!(json["errors"], 0, "{json}");
    }
    assert_eq!(*server.requests.borrow(), 40);
}

#[test]
fn a_target_without_http2_over_tls_is_a_clear_error() {
    let authority = Authority::new();
    let tls = acceptor(&authority.identity(&["localhost"]), &[]);
    let server = Server::start_with(StatusCode::OK, Some(tls));
    let url = format!("https://localhost:{}/", server.address.port());
    let json = figures(&url, &["--insecure", "--http", "2"]);
    assert_eq!(json["errors_by_kind"]["connect"], 10, "{json}");
    let why = json["first_failures"]["connect"].as_str().unwrap();
    assert!(why.contains("use --http 1"), "{why}");
    assert_eq!(figures(&url, &["--insecure"])["errors"], 0);
}

#[test]
fn json_on_stdout_is_the_only_output_and_quiet_prints_nothing() {
    let server = Server::start(StatusCode::OK);
    let options = ["--rate", "100", "--seconds", "0.1", "--threads", "2"];
    let output = server
        .command(&options)
        .args(["--json", "-"])
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["errors"], 0, "{json}");
    let output = server.command(&options).arg("--quiet").output().unwrap();
    assert_ends_with(&output, 0, "");
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn errors_of_the_target_fail_the_command_only_beyond_max_errors() {
    let server = Server::start(StatusCode::BAD_GATEWAY);
    let options = [
        "--rate",
        "100",
        "--seconds",
        "0.1",
        "--arrivals",
        "constant",
    ];
    let output = server.command(&options).output().unwrap();
    assert_ends_with(&output, 0, "");
    let table = text(&output.stdout);
    assert!(table.contains("errors       10 (100.00 %)"), "{table}");
    assert!(
        table.contains("status_5xx 10 (first: 502 Bad Gateway)"),
        "{table}"
    );
    let output = server
        .command(&options)
        .args(["--max-errors", "10"])
        .output()
        .unwrap();
    assert_ends_with(&output, 0, "");
    let output = server
        .command(&options)
        .args(["--max-errors", "9"])
        .output()
        .unwrap();
    assert_ends_with(&output, 1, "10 requests failed, more than --max-errors 9");
    assert!(
        text(&output.stdout).contains("requests     10 ("),
        "the table comes all the same"
    );
}

#[test]
fn mistakes_are_reported_before_anything_is_sent() {
    let server = Server::start(StatusCode::OK);
    for (options, complaint) in [
        (&["--rate", "NaN"][..], "--rate NaN: must be above 0"),
        (&["--rate", "-1"], "--rate -1: must be above 0"),
        (
            &["--rate", "1", "--threads", "0"],
            "--threads 0: must be from 1 to 64",
        ),
        (
            &["--rate", "1", "--json", "/no/such/folder/x.json"],
            "cannot be written",
        ),
        (&["--rate", "1", "--http", "3"], "invalid value '3'"),
        (
            &["--rate", "1", "--body-bytes", "1", "--body-file", "x"],
            "cannot be used with",
        ),
        (&[], "--rate"),
    ] {
        let output = server.command(options).output().unwrap();
        assert_ends_with(&output, 2, complaint);
        assert!(output.stdout.is_empty());
    }
    let output = load(&["https://127.0.0.1/", "--rate", "1", "--ca", "/no/such/file"])
        .output()
        .unwrap();
    assert_ends_with(&output, 2, "--ca /no/such/file: ");
    assert_eq!(*server.requests.borrow(), 0);
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_run_early_with_its_figures() {
    let server = Server::start(StatusCode::OK);
    let path = scratch("load-interrupted.json");
    let options = [
        "--rate",
        "200",
        "--seconds",
        "3600",
        "--json",
        path.to_str().unwrap(),
    ];
    let mut command = server.command(&options);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut requests = server.requests.subscribe();
    let some = async {
        let some = requests.wait_for(|requests| *requests >= 5);
        timeout(Duration::from_mins(1), some).await.map(drop)
    };
    assert!(server.runtime.block_on(some).is_ok(), "no requests came");
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("(interrupted)"));
    let json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(
        (&json["interrupted"], &json["unfinished"]),
        (&true.into(), &0.into())
    );
    let requests = json["requests"].as_u64().unwrap();
    assert_eq!(requests, *server.requests.borrow());
}
