//! Metrics of a proxy at work: what happens moves the numbers that tell of it.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;

/// The value of the first series that begins so; `None` if there is none.
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
async fn histograms_count_what_was_answered() {
    let replica = Replica::echo("a").await;
    let proxy = Proxy::start(&[replica.address], "");
    let of_class = "{service=\"default\",class=\"2xx\"";
    let of_replica = format!("{{service=\"default\",replica=\"{}\"", replica.address);
    let request = format!("slackwater_request_duration_seconds_count{of_class}}}");
    assert_eq!(series(&proxy, &request).await, None, "before the first one");
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

#[tokio::test]
async fn replicas_beyond_the_bound_are_told_together_and_that_is_said_once() {
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
async fn the_process_is_told_as_its_system_sees_it() {
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
