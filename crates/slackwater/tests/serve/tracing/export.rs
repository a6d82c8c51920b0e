//! The export itself: collectors that are absent or busy, the end of the process, another
//! configuration, and no tracing at all.

use super::{Witness, collector, section, spans};
use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::reload::{Written, reload};
use crate::replicas::unused_address;
use slackwater_collector::Manner;

#[tokio::test]
async fn trace_fields_are_forwarded_unchanged_without_a_section() {
    let witness = Witness::answering(200).await;
    let proxy = Proxy::start(&[witness.replica.address], "");
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(client.get("/").await.status, 200);
    assert!(witness.told("traceparent").is_empty());
    let fields = "traceparent: whatever\r\ntracestate: not valid";
    client
        .send(&format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n\r\n"))
        .await;
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(witness.told("traceparent"), ["whatever"]);
    assert_eq!(witness.told("tracestate"), ["not valid"]);
    assert!(proxy.status().await["spans"].is_null());
}

#[tokio::test]
async fn unreachable_collector_does_not_affect_requests() {
    let witness = Witness::answering(200).await;
    let mut proxy = Proxy::start(
        &[witness.replica.address],
        &section(unused_address().await, "grpc"),
    );
    for _ in 0..20 {
        assert_eq!(get(proxy.address, "/").await.status, 200);
    }
    let line = proxy.log_line("span export failed");
    assert!(line.contains("http://127.0.0.1:"), "{line}");
    let spans = async |key: &str| proxy.status().await["spans"][key].as_u64().unwrap();
    assert!(spans("exports_failed").await > 0);
    assert_eq!(spans("exported").await, 0);
    let metrics = proxy.admin_page("/metrics").await;
    // They are tried again.
    for end in ["exported", "dropped"] {
        let none = format!("slackwater_spans_total{{end=\"{end}\"}} 0\n");
        assert!(metrics.contains(&none), "{metrics}");
    }
    // The process ends although there are spans that cannot be delivered.
    proxy.signal("TERM");
    assert!(proxy.ended().await.success());
}

#[tokio::test]
async fn the_last_spans_are_sent_at_the_end() {
    let (collector, tracing) = collector("grpc").await;
    // Busy until the end, so that no span is delivered before.
    collector.set_manner(Manner::Busy);
    let witness = Witness::answering(200).await;
    let mut proxy = Proxy::start(&[witness.replica.address], &tracing);
    assert_eq!(get(proxy.address, "/").await.status, 200);
    until("an export is refused", async || {
        (collector.exports() > 0).then_some(())
    })
    .await;
    collector.set_manner(Manner::Takes);
    proxy.signal("TERM");
    assert!(proxy.ended().await.success());
    assert_eq!(collector.received().len(), 2);
}

#[tokio::test]
async fn reload_changes_the_sampled_share_but_not_the_collector() {
    let (collector, tracing) = collector("grpc").await;
    let witness = Witness::answering(200).await;
    let address = witness.replica.address;
    let config = |tracing: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"round_robin\"\nreplicas = [\"{address}\"]\n\
             probe.transport = \"none\"\n{tracing}"
        )
    };
    let written = Written::new(
        "tracing",
        &config(&tracing.replace("sample = 1", "sample = 0")),
    );
    let proxy = written.serve(&[]);
    assert_eq!(get(proxy.address, "/").await.status, 200);
    written.become_text(&config(&format!("{tracing}timeout = \"3s\"\n")));
    reload(&proxy);
    assert_eq!(get(proxy.address, "/").await.status, 200);
    spans(&collector, 2).await;
    assert_eq!(witness.told("traceparent").len(), 1);
}
