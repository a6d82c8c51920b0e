//! Metrics of a working proxy: events change the numbers that count them.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{Replica, unused_address};

/// The value of the first series with this prefix; `None` if there is none.
async fn series(proxy: &Proxy, begin: &str) -> Option<f64> {
    let metrics = proxy.admin_page("/metrics").await;
    let mut lines = metrics.lines();
    let line = lines.find(|line| line.starts_with(begin))?;
    line.rsplit(' ').next()?.parse().ok()
}

async fn becomes(proxy: &Proxy, begin: &str, value: f64) {
    until(&format!("{begin} is {value}"), async || {
        let found = series(proxy, begin).await?;
        ((found - value).abs() < 1e-9).then_some(())
    })
    .await;
}

#[tokio::test]
async fn connections_are_counted_on_both_sides() {
    let replica = Replica::echo("a").await;
    let proxy = Proxy::start(&[replica.address], "");
    becomes(&proxy, "slackwater_client_connections ", 0.0).await;
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..2 {
        assert_eq!(client.get("/").await.status, 200);
    }
    becomes(&proxy, "slackwater_client_connections ", 1.0).await;
    becomes(&proxy, "slackwater_requests_total{", 2.0).await;
    becomes(&proxy, "slackwater_replica_connections_total{", 1.0).await;
    drop(client);
    becomes(&proxy, "slackwater_client_connections ", 0.0).await;
    becomes(&proxy, "slackwater_client_connections_begun_total ", 1.0).await;
}

#[tokio::test]
async fn histograms_count_answered_requests() {
    let replica = Replica::echo("a").await;
    let proxy = Proxy::start(&[replica.address], "");
    let of_class = "{service=\"default\",class=\"2xx\"";
    let of_replica = format!("{{service=\"default\",replica=\"{}\"", replica.address);
    let request = format!("slackwater_request_duration_seconds_count{of_class}}}");
    assert_eq!(
        series(&proxy, &request).await,
        Some(0.0),
        "before the first one"
    );
    for _ in 0..3 {
        get(proxy.address, "/").await;
    }
    becomes(&proxy, &request, 3.0).await;
    let first_byte = format!("slackwater_request_first_byte_seconds_count{of_class}}}");
    becomes(&proxy, &first_byte, 3.0).await;
    let all = format!("slackwater_request_duration_seconds_bucket{of_class},le=\"+Inf\"}}");
    becomes(&proxy, &all, 3.0).await;
    let head = format!("slackwater_replica_head_seconds_count{of_replica}}}");
    becomes(&proxy, &head, 3.0).await;
}

/// The end of the first bucket's line with such an exemplar, once there is one.
async fn exemplar(proxy: &Proxy, histogram: &str, labels: &str) -> String {
    until(&format!("{histogram} has {labels}"), async || {
        let metrics = proxy.open_metrics().await;
        let mut lines = metrics.lines().filter(|line| line.starts_with(histogram));
        let exemplar = format!(" # {{{labels}}} ");
        lines.find_map(|line| Some(line.split_once(&exemplar)?.1.to_owned()))
    })
    .await
}

#[tokio::test]
async fn exemplars_have_ids_of_kept_requests() {
    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    let replica = Replica::echo("a").await;
    let collector = unused_address().await;
    let proxy = Proxy::start(
        &[replica.address],
        &format!(
            "[decisions]\nsample = 0\nheader = \"x-explain\"\n[request_id]\nheader = \"x-request-id\"\n\
             [tracing]\nendpoint = \"http://{collector}\"\nsample = 0\n"
        ),
    );
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(client.get("/").await.status, 200);
    let count = "slackwater_request_duration_seconds_count{service=\"default\",class=\"2xx\"}";
    becomes(&proxy, count, 1.0).await;
    assert!(
        !proxy.open_metrics().await.contains(" # {"),
        "it cannot be looked up"
    );
    for (fields, labels) in [
        (
            "x-request-id: mine\r\nx-explain: 1".to_owned(),
            "request_id=\"mine\"".to_owned(),
        ),
        (
            format!("x-request-id: other\r\ntraceparent: 00-{TRACE}-b7ad6b7169203331-01"),
            format!("trace_id=\"{TRACE}\""),
        ),
    ] {
        client
            .send(&format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n\r\n"))
            .await;
        assert_eq!(client.answer().await.status, 200);
        let now = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap()
            .as_secs_f64();
        for histogram in [
            "slackwater_request_duration_seconds",
            "slackwater_request_first_byte_seconds",
        ] {
            let end = exemplar(&proxy, histogram, &labels).await;
            let (took, at) = end.split_once(' ').unwrap();
            assert!(took.parse::<f64>().unwrap() > 0.0, "{end}");
            assert!((at.parse::<f64>().unwrap() - now).abs() < 60.0, "{end}");
        }
    }
    let decision = proxy.admin_page("/decisions?id=mine").await;
    let decision: serde_json::Value = serde_json::from_str(&decision).unwrap();
    assert_eq!(decision["decisions"][0]["id"], "mine");
    assert!(!proxy.admin_page("/metrics").await.contains(" # {"));
}

/// Waits until this many client connections have ended for this reason.
async fn client_ends(proxy: &Proxy, reason: &str, count: f64) {
    let begin = format!("slackwater_client_connections_ended_total{{reason=\"{reason}\"}}");
    becomes(proxy, &begin, count).await;
}

#[tokio::test]
async fn ends_of_client_connections_are_counted_by_reason() {
    let replica = Replica::echo("a").await;
    let proxy = Proxy::start(&[replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(client.get("/").await.status, 200);
    drop(client);
    client_ends(&proxy, "client", 1.0).await;
    let last = "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    for (text, reason) in [(last, "answered"), ("GET / HTTP/9.9\r\n\r\n", "protocol")] {
        let mut client = Client::connect(proxy.address).await;
        client.send(text).await;
        client.rest().await;
        client_ends(&proxy, reason, 1.0).await;
    }
    // Each has ended for one reason, and none is open any more.
    becomes(&proxy, "slackwater_client_connections_begun_total ", 3.0).await;
    becomes(&proxy, "slackwater_client_connections ", 0.0).await;
    // Only one of the timeouts is short: a client that is slow to send is not idle.
    for (text, reason, toml) in [
        ("", "idle", "idle = \"50ms\"\nhead = \"1m\"\n"),
        ("GET / HT", "head_late", "idle = \"1m\"\nhead = \"50ms\"\n"),
    ] {
        let impatient = Proxy::start(&[replica.address], &format!("[timeouts]\n{toml}"));
        let mut client = Client::connect(impatient.address).await;
        client.send(text).await;
        client.rest().await;
        client_ends(&impatient, reason, 1.0).await;
        becomes(
            &impatient,
            "slackwater_client_connections_begun_total ",
            1.0,
        )
        .await;
        becomes(&impatient, "slackwater_client_connections ", 0.0).await;
    }
}

/// A replica that answers one request on each connection, or does not, depending on the path.
async fn wilful() -> Replica {
    Replica::scripted(|mut connection| async move {
        let head = connection.head().await.unwrap_or_default();
        match head.split(' ').nth(1).unwrap_or_default() {
            "/close" => {
                let last = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                connection.send(last).await;
            }
            "/silent" => {
                connection.more().await;
            }
            "/leave" => connection.answer("yes, and bye").await,
            _ => (),
        }
    })
    .await
}

#[tokio::test]
async fn ends_of_replica_connections_are_counted_by_reason() {
    let replica = wilful().await;
    // Only the request that is never answered has a short timeout.
    let quick = "[retries]\nattempts_max = 1\n\
                 [[routes]]\npath = \"/silent\"\nservice = \"default\"\ntimeouts.first_byte = \"50ms\"\n\
                 [[routes]]\nservice = \"default\"\n";
    let proxy = Proxy::start(&[replica.address], quick);
    for (path, status, reason) in [
        ("/close", 204, "answered"),
        ("/break", 502, "failed"),
        ("/silent", 504, "late"),
        ("/leave", 200, "closed"),
    ] {
        assert_eq!(get(proxy.address, path).await.status, status, "{path}");
        let begin = format!(
            "slackwater_replica_connections_ended_total{{service=\"default\",reason=\"{reason}\"}}"
        );
        becomes(&proxy, &begin, 1.0).await;
    }
}

#[tokio::test]
async fn replicas_beyond_the_limit_are_folded_and_that_is_logged_once() {
    let replicas = [
        Replica::echo("a").await,
        Replica::echo("b").await,
        Replica::echo("c").await,
    ];
    let addresses = replicas.each_ref().map(|replica| replica.address);
    let proxy = Proxy::start(&addresses, "[admin]\nmetrics_replicas_max = 1");
    for _ in 0..3 {
        get(proxy.address, "/").await;
    }
    let other = "slackwater_requests_total{service=\"default\",replica=\"(other)\"}";
    becomes(&proxy, other, 2.0).await;
    becomes(&proxy, "slackwater_metrics_folded_replicas{", 2.0).await;
    let said = proxy.log_line("admin.metrics_replicas_max");
    assert!(said.contains("replicas=2"), "{said}");
    let metrics = proxy.admin_page("/metrics").await;
    for address in &addresses[1..] {
        assert!(!metrics.contains(&address.to_string()), "{metrics}");
    }
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn process_metrics_match_the_system() {
    let replica = Replica::echo("a").await;
    let proxy = Proxy::start(&[replica.address], "workers = 2");
    let threads = series(&proxy, "process_threads ").await.unwrap();
    assert!(
        threads >= 3.0,
        "two workers and the admin server: {threads}"
    );
    let resident = series(&proxy, "process_resident_memory_bytes ").await;
    let (told, found) = (resident.unwrap(), proxy.resident_bytes() as f64);
    assert!(told > found / 2.0 && told < found * 2.0, "{told}, {found}");
    let open = series(&proxy, "process_open_fds ").await.unwrap();
    let folder = format!("/proc/{}/fd", proxy.process_id());
    let found = std::fs::read_dir(folder).unwrap().count() as f64;
    assert!((open - found).abs() <= 2.0, "{open}, {found}");
    let began = series(&proxy, "process_start_time_seconds ").await.unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs_f64();
    assert!(began <= now + 1.0 && now - began < 60.0, "{began}, {now}");
    for worker in ["worker-0", "worker-1"] {
        let cpu = format!("slackwater_thread_cpu_seconds_total{{thread=\"{worker}\"}}");
        assert!(series(&proxy, &cpu).await.is_some(), "{worker}");
    }
}
