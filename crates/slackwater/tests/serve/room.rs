//! The limit of connections to each replica: requests that find none free go to another replica, or
//! wait for a while.

use crate::clients::{self, ask, empty, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{self, Replica};
use core::time::Duration;
use http::Request;
use http_body_util::BodyExt;
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};

pub(crate) async fn in_flight(proxy: &Proxy, count: u64) {
    until(&format!("{count} are in flight"), async || {
        (proxy.sum("/in_flight").await == count).then_some(())
    })
    .await;
}

#[tokio::test]
async fn full_replica_is_skipped_for_another_one() {
    let go_on = Arc::new(Notify::new());
    let (one, two) = (
        Replica::slow(&go_on, "one").await,
        Replica::slow(&go_on, "two").await,
    );
    let proxy = Proxy::start(
        &[one.address, two.address],
        "[replica]\nconnections_max = 1",
    );
    let first = ask(proxy.address, "/slow");
    in_flight(&proxy, 1).await;
    until("it has come", async || {
        (one.connections() + two.connections() == 1).then_some(())
    })
    .await;
    // Round robin would send every other request to the full one.
    let other = if one.connections() == 1 { "two" } else { "one" };
    for _ in 0..6 {
        assert_eq!(get(proxy.address, "/").await.text(), other);
    }
    assert!(proxy.sum("/requests/full").await > 0);
    assert_eq!(proxy.sum("/requests/retries").await, 0, "it was no try");
    go_on.notify_one();
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(one.connections() + two.connections(), 2, "one each");
    proxy.settled().await;
}

#[tokio::test]
async fn request_waits_for_a_free_connection_if_all_are_in_use() {
    let go = Arc::new(Semaphore::new(0));
    let wait = Arc::clone(&go);
    let replica = Replica::scripted(move |mut connection| {
        let wait = Arc::clone(&wait);
        async move {
            while let Some(head) = connection.head().await {
                wait.acquire().await.unwrap().forget();
                connection.answer(head.split(' ').nth(1).unwrap()).await;
            }
        }
    })
    .await;
    let toml = "[replica]\nconnections_max = 2\n[timeouts]\nconnect = \"20s\"";
    let proxy = Proxy::start(&[replica.address], toml);
    let (one, two) = (ask(proxy.address, "/1"), ask(proxy.address, "/2"));
    in_flight(&proxy, 2).await;
    let three = ask(proxy.address, "/3");
    until("it has found no room", async || {
        (proxy.sum("/requests/full").await > 0).then_some(())
    })
    .await;
    go.add_permits(3);
    for (asked, path) in [(one, "/1"), (two, "/2"), (three, "/3")] {
        assert_eq!(asked.await.unwrap().text(), path);
    }
    assert_eq!(replica.connections(), 2);
    proxy.settled().await;
}

#[tokio::test]
async fn timed_out_wait_for_a_connection_is_a_503_with_the_reason() {
    let go_on = Arc::new(Notify::new());
    let slow = Replica::slow(&go_on, "slow").await;
    let toml = "[replica]\nconnections_max = 1\n[timeouts]\nconnect = \"1200ms\"";
    let proxy = Proxy::start(&[slow.address], toml);
    let first = ask(proxy.address, "/slow");
    in_flight(&proxy, 1).await;
    let began = std::time::Instant::now();
    let answer = get(proxy.address, "/").await;
    // More than the default.
    assert!(began.elapsed() >= Duration::from_millis(1200));
    assert_eq!(answer.status, 503);
    assert_eq!(answer.field("x-slackwater-error"), Some("replicas_full"));
    assert_eq!(answer.field("retry-after"), Some("1"));
    let metrics = proxy.admin_page("/metrics").await;
    let count = "slackwater_shed_total{service=\"default\",reason=\"replicas_full\"} 1";
    assert!(metrics.contains(count), "{metrics}");
    go_on.notify_one();
    assert_eq!(first.await.unwrap().text(), "slow");
    // The connection is free again.
    assert_eq!(get(proxy.address, "/").await.text(), "slow");
    proxy.settled().await;
}

#[tokio::test]
async fn request_is_not_sent_if_its_time_is_over_before_there_is_room() {
    let go_on = Arc::new(Notify::new());
    let slow = Replica::slow(&go_on, "slow").await;
    let toml = "[replica]\nconnections_max = 1\n[timeouts]\nconnect = \"1m\"\n\
                [[routes]]\npath_prefix = \"/slow\"\nservice = \"default\"\n\
                [[routes]]\nservice = \"default\"\ntimeouts.total = \"100ms\"\n";
    let proxy = Proxy::start(&[slow.address], toml);
    let first = ask(proxy.address, "/slow");
    in_flight(&proxy, 1).await;
    let answer = get(proxy.address, "/").await;
    assert_eq!(answer.status, 504);
    assert_eq!(answer.field("x-slackwater-error"), Some("deadline"));
    let admission = &proxy.status().await["services"][0]["admission"];
    let sheds = ["shed_deadline", "shed_replicas_full"].map(|name| admission[name].as_u64());
    assert_eq!(sheds, [Some(1), Some(0)]);
    assert_eq!(proxy.sum("/requests/timeouts").await, 0);
    go_on.notify_one();
    assert_eq!(first.await.unwrap().text(), "slow");
}

#[tokio::test]
async fn client_that_disconnects_frees_its_connection_slot() {
    let go_on = Arc::new(Notify::new());
    let slow = Replica::slow(&go_on, "slow").await;
    let toml = "[replica]\nconnections_max = 1\n[timeouts]\nconnect = \"20s\"";
    let proxy = Proxy::start(&[slow.address], toml);
    let leaves = ask(proxy.address, "/slow");
    in_flight(&proxy, 1).await;
    leaves.abort();
    assert_eq!(get(proxy.address, "/").await.text(), "slow");
}

#[tokio::test]
async fn connections_max_counts_connections_and_not_http2_streams() {
    let go = Arc::new(Semaphore::new(0));
    let address = replicas::http2_held(&go).await;
    let toml = "[replica]\nprotocol = \"h2c\"\nconnections_max = 1\n[limits]\nstreams_max = 8";
    let proxy = Proxy::start(&[address], toml);
    let asked: Vec<_> = (0..6).map(|_| ask(proxy.address, "/")).collect();
    in_flight(&proxy, 6).await;
    go.add_permits(6);
    for answer in asked {
        assert_eq!(answer.await.unwrap().status, 200);
    }
    assert_eq!(proxy.sum("/requests/full").await, 0);
    let mut client = clients::http2(proxy.address).await;
    go.add_permits(1);
    let request = Request::get("http://x/").body(empty()).unwrap();
    let response = client.send_request(request).await.unwrap();
    assert!(response.into_body().collect().await.is_ok());
}
