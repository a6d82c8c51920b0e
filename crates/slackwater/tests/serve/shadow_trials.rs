//! Trials with copies of requests, for which no client waits: which requests are copied, to which
//! replica, and the effects.

use crate::access_log::Log;
use crate::aversion::{EAGER, count, failures, says, stands};
use crate::clients::Client;
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) const SHADOWS: &str = "shadow_trials = true\n";
/// Trials that are due soon, but never with a client's request within a test's timeout.
pub(crate) const CALM: &str =
    "[ejection]\nback_off = \"10ms\"\nback_off_max = \"1h\"\ntrials = 0.1\n";

/// The mark of a copy.
const SHADOW: &str = "x-slackwater-priority: shadow\r\n";

/// A replica that fails until it heals, and records the heads and bodies that it receives.
pub(crate) struct Sick {
    pub(crate) replica: Replica,
    is_well: Arc<AtomicBool>,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Sick {
    /// Once healthy, it answers with this many bytes.
    async fn new(bytes: usize) -> Self {
        let (is_well, heard) = (
            Arc::<AtomicBool>::default(),
            Arc::<Mutex<Vec<_>>>::default(),
        );
        let (well, told) = (Arc::clone(&is_well), Arc::clone(&heard));
        let replica = Replica::scripted(move |mut connection| {
            let (well, told) = (Arc::clone(&well), Arc::clone(&told));
            async move {
                while let Some(head) = connection.head().await {
                    let length = head
                        .lines()
                        .find_map(|it| it.strip_prefix("content-length: "));
                    let length = length.map_or(0, |length| length.parse().unwrap());
                    let body = connection.body(length).await.unwrap();
                    told.lock()
                        .unwrap()
                        .push(head + core::str::from_utf8(&body).unwrap());
                    if well.load(Ordering::SeqCst) {
                        connection.answer(&"x".repeat(bytes)).await;
                    } else {
                        connection
                            .send("HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n")
                            .await;
                    }
                }
            }
        })
        .await;
        Self {
            replica,
            is_well,
            heard,
        }
    }

    fn heal(&self) {
        self.is_well.store(true, Ordering::SeqCst);
    }

    /// The requests that it received since the last call.
    fn heard(&self) -> Vec<String> {
        core::mem::take(&mut *self.heard.lock().unwrap())
    }

    /// Like [`Self::heard`], once it has received all copies that the proxy has counted, except the
    /// `beyond` that were there before. Also returns the proxy's count. A copy is counted before
    /// its request is answered, and sent afterwards.
    async fn heard_copies(&self, proxy: &Proxy, beyond: u64) -> (Vec<String>, u64) {
        until("all copies have come", async || {
            let counted = shadow_trials(proxy).await;
            let mut heard = self.heard.lock().unwrap();
            let copies = heard.iter().filter(|it| it.contains(SHADOW)).count();
            let is_all = copies as u64 == counted - beyond;
            is_all.then(|| (core::mem::take(&mut *heard), counted))
        })
        .await
    }
}

/// One failing and three healthy replicas.
pub(crate) async fn fleet(bytes: usize) -> (Sick, [Replica; 3], Vec<SocketAddr>) {
    let sick = Sick::new(bytes).await;
    let well = [says(200).await.0, says(200).await.0, says(200).await.0];
    let all = core::iter::once(&sick.replica).chain(&well);
    let addresses = all.map(|replica| replica.address).collect();
    (sick, well, addresses)
}

async fn shadow_trials(proxy: &Proxy) -> u64 {
    let shadows = &proxy.status().await["services"][0]["admission"]["shadow_trials"];
    shadows.as_u64().unwrap()
}

#[tokio::test]
async fn no_client_request_reaches_an_ejected_replica_until_it_is_healthy() {
    let log = Log::new("shadow");
    let (sick, _well, addresses) = fleet(2).await;
    let proxy = Proxy::start(&addresses, &(log.toml("") + CALM + SHADOWS));
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    // Requests until the ejection may have been copied, too.
    let (_, shadows_before) = sick.heard_copies(&proxy, 0).await;
    let before = proxy.status().await;
    assert_eq!(failures(&mut client, "GET", 300).await, 0);
    until("there were copies", async || {
        assert_eq!(failures(&mut client, "GET", 4).await, 0);
        (shadow_trials(&proxy).await >= shadows_before + 3).then_some(())
    })
    .await;
    let (heard, shadows) = sick.heard_copies(&proxy, shadows_before).await;
    let trials = count(&proxy.status().await, "trials") - count(&before, "trials");
    let copies = shadows - shadows_before;
    assert_eq!((trials, heard.len() as u64), (copies, copies));
    for head in &heard {
        assert!(head.contains(SHADOW), "{head}");
    }
    let metric = format!("slackwater_shadow_trials_total{{service=\"default\"}} {shadows}\n");
    assert!(proxy.admin_page("/metrics").await.contains(&metric));
    let line = until("the log has a copy", async || {
        let lines = log.lines(1).await.into_iter();
        lines
            .rev()
            .find(|line| line["shadow"] != serde_json::Value::Null)
    })
    .await;
    assert_eq!(line["shadow"], sick.replica.address.to_string());
    assert_ne!(line["replica"], line["shadow"]);

    sick.heal();
    let healed = stands(&proxy, &mut client, 0, "available").await;
    assert!(count(&healed, "trials_passed") >= 3);
    assert_eq!(failures(&mut client, "GET", 100).await, 0);
}

#[tokio::test]
async fn only_repeatable_requests_are_copied_with_their_bodies() {
    let (sick, _well, addresses) = fleet(2).await;
    let proxy = Proxy::start(&addresses, &(CALM.to_owned() + SHADOWS));
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    let (_, before) = sick.heard_copies(&proxy, 0).await;
    let marked =
        "POST /marked HTTP/1.1\r\nhost: x\r\nidempotency-key: 7\r\ncontent-length: 5\r\n\r\norder";
    until("there is a copy", async || {
        client.send(marked).await;
        assert_eq!(client.answer().await.status, 200);
        (shadow_trials(&proxy).await > before).then_some(())
    })
    .await;
    let (heard, _) = sick.heard_copies(&proxy, before).await;
    assert!(!heard.is_empty());
    for copy in &heard {
        assert!(copy.starts_with("POST /marked "), "{copy}");
        assert!(copy.ends_with("\r\n\r\norder"), "{copy}");
    }

    // A request that may not be repeated becomes a trial itself, if there was nothing to copy for a
    // while.
    let proxy = Proxy::start(&addresses, &(EAGER.to_owned() + SHADOWS));
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    let (_, before) = sick.heard_copies(&proxy, 0).await;
    until("a request is a trial", async || {
        (failures(&mut client, "POST", 20).await > 0).then_some(())
    })
    .await;
    assert_eq!(shadow_trials(&proxy).await, before);
    for request in sick.heard() {
        assert!(!request.contains("priority"), "{request}");
    }
}

#[tokio::test]
async fn requests_that_failed_elsewhere_are_not_copied() {
    let sick = Sick::new(2).await;
    let well = async || {
        Replica::scripted(|mut connection| async move {
            while let Some(head) = connection.head().await {
                let failed = if head.starts_with("GET /deadly") {
                    "500 X"
                } else if head.starts_with("GET /unwell") {
                    "200 X\r\ncontent-type: application/grpc\r\ngrpc-status: 13"
                } else {
                    "200 X"
                };
                let head = format!("HTTP/1.1 {failed}\r\ncontent-length: 0\r\n\r\n");
                connection.send(&head).await;
            }
        })
        .await
    };
    let others = [well().await, well().await, well().await];
    let all = core::iter::once(&sick.replica).chain(&others);
    let addresses: Vec<_> = all.map(|replica| replica.address).collect();
    let proxy = Proxy::start(&addresses, &(EAGER.to_owned() + SHADOWS));
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    until("there were copies", async || {
        assert_eq!(client.get("/deadly").await.status, 500);
        // 500 if it is a trial itself.
        client.get("/unwell").await;
        failures(&mut client, "GET", 3).await;
        (shadow_trials(&proxy).await >= 20).then_some(())
    })
    .await;
    let (heard, counted) = sick.heard_copies(&proxy, 0).await;
    // Requests may be trials themselves, so only copies count.
    let copies: Vec<_> = heard.iter().filter(|it| it.contains(SHADOW)).collect();
    assert!(copies.len() >= 20, "{} of {counted}", copies.len());
    for failed in ["/deadly", "/unwell"] {
        assert!(!copies.iter().any(|copy| copy.contains(failed)), "{failed}");
    }
}

#[tokio::test]
async fn trial_with_too_long_a_response_counts_too() {
    let (sick, _well, addresses) = fleet(3 << 20).await;
    let toml = CALM.replace("trials = 0.1", "trials = 0.02") + SHADOWS;
    let proxy = Proxy::start(&addresses, &toml);
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    sick.heal();
    let back = until("it is back", async || {
        assert_eq!(failures(&mut client, "GET", 4).await, 0);
        let status = proxy.status().await;
        (count(&status, "readmissions") > 0).then_some(status)
    })
    .await;
    assert_eq!(
        count(&back, "trials_passed"),
        shadow_trials(&proxy).await.min(3)
    );
    assert_eq!(proxy.sum("/requests/client_gone").await, 0);
}
