//! Replicas that say with their responses how loaded they are.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;

/// A replica that answers with its name, and with `metrics` in its head.
async fn says(name: &'static str, metrics: &'static str) -> Replica {
    Replica::scripted(move |mut connection| async move {
        while connection.head().await.is_some() {
            let length = name.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n");
            let metrics = format!("endpoint-load-metrics: {metrics}\r\n\r\n");
            connection.send(&format!("{head}{metrics}{name}")).await;
        }
    })
    .await
}

#[tokio::test]
async fn weights_follow_what_responses_say() {
    let busy = says("busy", "TEXT cpu_utilization=0.9,rps_fractional=10").await;
    let idle = says(
        "idle",
        "JSON {\"cpu_utilization\": 0.1, \"rps_fractional\": 10}",
    )
    .await;
    let toml = "policy = \"weighted_round_robin\"\n\
                [probe]\ntransport = \"udp\"\n\
                [weighted_round_robin]\nsmoothing = 0\nblackout = 0\nupdate_period = \"100ms\"";
    let proxy = Proxy::start(&[busy.address, idle.address], toml);
    let mut client = Client::connect(proxy.address).await;
    until("the idle one gets nine times as many", async || {
        let mut idles = 0;
        for _ in 0..20 {
            let answer = client.get("/").await;
            assert_eq!(
                answer.field("endpoint-load-metrics"),
                None,
                "clients are not told"
            );
            idles += usize::from(answer.text() == "idle");
        }
        (idles == 18).then_some(())
    })
    .await;
}

#[tokio::test]
async fn who_does_not_ask_for_them_passes_them_on() {
    let replica = says("replica", "TEXT cpu_utilization=0.9,rps_fractional=10").await;
    let proxy = Proxy::start(&[replica.address], "");
    let answer = get(proxy.address, "/").await;
    assert!(answer.field("endpoint-load-metrics").is_some());
}
