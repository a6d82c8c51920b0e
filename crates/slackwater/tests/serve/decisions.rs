//! Why a replica was picked, as the admin server reports it: consistent with the access log, under
//! the same id.

mod absent;

use crate::access_log::Log;
use crate::aversion::{failures, stands};
use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{Replica, unused_address};
use crate::shadow_trials::{CALM, SHADOWS, fleet};
use core::sync::atomic::{AtomicUsize, Ordering};
use serde_json::Value;
use std::sync::{Arc, Mutex};

const ALL: &str = "[decisions]\nsample = 1\n";
const NAMED: &str = "[request_id]\nheader = \"x-request-id\"\n";

/// Returns the decisions that match, once there are `count` of them.
pub(crate) async fn decisions(proxy: &Proxy, query: &str, count: usize) -> Vec<Value> {
    until("the decisions are there", async || {
        let page = proxy.admin_page(&format!("/decisions?{query}")).await;
        let page: Value = serde_json::from_str(&page).unwrap();
        let found = page["decisions"].as_array().unwrap().clone();
        (found.len() >= count).then_some(found)
    })
    .await
}

/// The kinds, replicas and outcomes of a decision's attempts.
fn story(decision: &Value) -> Vec<[&str; 3]> {
    let attempts = decision["attempts"].as_array().unwrap().iter();
    attempts
        .map(|attempt| ["kind", "replica", "outcome"].map(|key| attempt[key].as_str().unwrap()))
        .collect()
}

/// A replica that answers with this status, and records the heads that it receives.
async fn says(status: u16, heads: &Arc<Mutex<Vec<String>>>) -> Replica {
    let heads = Arc::clone(heads);
    Replica::scripted(move |mut connection| {
        let heads = Arc::clone(&heads);
        async move {
            while let Some(head) = connection.head().await {
                heads.lock().unwrap().push(head);
                let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
                connection.send(&answer).await;
            }
        }
    })
    .await
}

/// Two replicas. The one that receives the first copy of a late request never answers it.
async fn pair() -> [Replica; 2] {
    let late = Arc::<AtomicUsize>::default();
    let replica = async || {
        let late = Arc::clone(&late);
        Replica::scripted(move |mut connection| {
            let late = Arc::clone(&late);
            async move {
                while let Some(head) = connection.head().await {
                    if head.contains(" /late") && late.fetch_add(1, Ordering::SeqCst) == 0 {
                        connection.more().await;
                        return;
                    }
                    connection.answer("here").await;
                }
            }
        })
        .await
    };
    [replica().await, replica().await]
}

#[tokio::test]
async fn request_id_is_the_same_in_log_replica_client_and_decision() {
    let log = Log::new("decisions");
    let heads = Arc::default();
    let replica = says(200, &heads).await;
    let ids = format!("{NAMED}to_client = true\n");
    let proxy = Proxy::start(&[replica.address], &(log.toml("") + ALL + &ids));
    let drawn = get(proxy.address, "/drawn").await;
    let id = drawn.field("x-request-id").unwrap().to_owned();
    assert_eq!(id.len(), 32);
    let mut client = Client::connect(proxy.address).await;
    client
        .send("GET /own HTTP/1.1\r\nhost: x\r\nx-request-id: mine-7\r\n\r\n")
        .await;
    let own = client.answer().await;
    assert_eq!(own.field("x-request-id"), Some("mine-7"));
    drop(client);

    let lines = log.lines(2).await;
    for (line, id) in lines.iter().zip([&*id, "mine-7"]) {
        assert_eq!(line["id"], id);
        let found = decisions(&proxy, &format!("id={id}"), 1).await;
        let [decision] = &found[..] else {
            panic!("one decision: {found:?}");
        };
        for key in ["method", "path", "status", "end", "service", "host"] {
            assert_eq!(decision[key], line[key], "{key}");
        }
        let [attempt] = &decision["attempts"].as_array().unwrap()[..] else {
            panic!("one attempt: {decision}");
        };
        assert_eq!(attempt["replica"], line["replica"]);
        assert_eq!(attempt["reason"], line["reason"]);
        assert_eq!(attempt["answered"], true);
        assert_eq!(decision["total_us"], line["total_us"]);
        let is_sent = |head: &String| head.contains(&format!("x-request-id: {id}\r\n"));
        assert!(heads.lock().unwrap().iter().any(is_sent));
    }
}

#[tokio::test]
async fn without_a_configured_header_request_ids_are_not_sent() {
    let log = Log::new("nameless");
    let heads = Arc::default();
    let replica = says(200, &heads).await;
    let proxy = Proxy::start(&[replica.address], &(log.toml("") + ALL));
    let mut client = Client::connect(proxy.address).await;
    client
        .send("GET / HTTP/1.1\r\nhost: x\r\nx-request-id: mine-7\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.field("x-request-id"), None);
    drop(client);
    let lines = log.lines(1).await;
    let id = lines[0]["id"].as_str().unwrap();
    assert_eq!(id.len(), 32);
    assert_eq!(decisions(&proxy, &format!("id={id}"), 1).await.len(), 1);
    assert!(!heads.lock().unwrap()[0].contains(id));
}

#[tokio::test]
async fn a_retry_is_shown_with_the_attempt_before_it() {
    let heads = Arc::default();
    let (bad, well) = (says(503, &heads).await, Replica::echo("well").await);
    let toml = format!("error_aversion.enabled = false\n{ALL}");
    let proxy = Proxy::start(&[bad.address, well.address], &toml);
    for _ in 0..2 {
        assert_eq!(get(proxy.address, "/").await.status, 200);
    }
    let found = decisions(&proxy, "attempt=retry", 1).await;
    let [bad, well] = [&bad, &well].map(|replica| replica.address.to_string());
    assert_eq!(
        story(&found[0]),
        [["first", &bad, "failed"], ["retry", &well, "success"]]
    );
    let [first, retry] = &found[0]["attempts"].as_array().unwrap()[..] else {
        panic!("two attempts: {}", found[0]);
    };
    assert_eq!(
        (&first["status"], &first["answered"]),
        (&503.into(), &false.into())
    );
    assert_eq!(
        (&retry["status"], &retry["answered"]),
        (&200.into(), &true.into())
    );
    assert!(first["end_us"].as_u64() <= retry["end_us"].as_u64());
    assert!(first["sent_us"].as_u64() <= first["head_us"].as_u64());
    assert!(first["head_us"].as_u64() <= retry["sent_us"].as_u64());
}

#[tokio::test]
async fn a_hedge_is_shown_with_its_reason_and_the_loser() {
    let replicas = pair().await;
    let hedge = "[hedge]\nenabled = true\nbudget = 1\nsamples_min = 1\nslow_share = 1\ndelay_min = \"250ms\"\n";
    let addresses = replicas.each_ref().map(|replica| replica.address);
    let proxy = Proxy::start(&addresses, &(ALL.to_owned() + hedge));
    for _ in 0..2 {
        assert_eq!(get(proxy.address, "/").await.status, 200);
    }
    assert_eq!(get(proxy.address, "/late").await.text(), "here");
    let found = decisions(&proxy, "attempt=hedge", 1).await;
    let [first, hedge] = &found[0]["attempts"].as_array().unwrap()[..] else {
        panic!("two attempts: {}", found[0]);
    };
    assert_eq!(first["outcome"], "dropped");
    assert_eq!(first["cause"], "the other copy won");
    assert_eq!(
        (&first["answered"], &hedge["answered"]),
        (&false.into(), &true.into())
    );
    assert!(
        hedge["due_after_us"].as_u64().unwrap() >= 250_000,
        "{hedge}"
    );
    assert!(hedge["sent_us"].as_u64().unwrap() >= 250_000, "{hedge}");
    assert_ne!(first["replica"], hedge["replica"]);
    assert_eq!(hedge["outcome"], "success");
}

#[tokio::test]
async fn tied_copy_is_shown_as_an_attempt_of_kind_tie() {
    let replicas = pair().await;
    let tie = "[tie]\nenabled = true\ndelay = \"1ms\"\n";
    let addresses = replicas.each_ref().map(|replica| replica.address);
    let proxy = Proxy::start(&addresses, &(ALL.to_owned() + tie));
    assert_eq!(get(proxy.address, "/late").await.text(), "here");
    let found = decisions(&proxy, "attempt=tie", 1).await;
    let outcomes: Vec<_> = story(&found[0]).iter().map(|it| (it[0], it[2])).collect();
    assert_eq!(outcomes, [("first", "dropped"), ("tie", "success")]);
}

#[tokio::test]
async fn a_shadow_trial_is_shown_with_the_request_that_it_copies() {
    let (sick, _well, addresses) = fleet(2).await;
    let proxy = Proxy::start(&addresses, &(ALL.to_owned() + CALM + SHADOWS));
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    until("there is a trial", async || {
        assert_eq!(failures(&mut client, "GET", 4).await, 0);
        let page = proxy.admin_page("/decisions?attempt=trial").await;
        page.contains("\"trial\"").then_some(())
    })
    .await;
    let found = decisions(&proxy, "attempt=trial&limit=1", 1).await;
    let [first, trial] = &found[0]["attempts"].as_array().unwrap()[..] else {
        panic!("two attempts: {}", found[0]);
    };
    let sick = sick.replica.address.to_string();
    assert_eq!(
        (&trial["replica"], &trial["reason"]),
        (&(&*sick).into(), &"trial".into())
    );
    assert_eq!(
        (&trial["outcome"], &trial["status"]),
        (&"failed".into(), &500.into())
    );
    assert_eq!(
        (&first["answered"], &trial["answered"]),
        (&true.into(), &false.into())
    );
    // The first pick took into account that the failing replica is ejected.
    let out = &first["outs"][0];
    assert_eq!(
        (&out["replica"], &out["why"]),
        (&(&*sick).into(), &"ejected: too many failures".into())
    );
    assert_eq!(first["available"], 3);
}

#[tokio::test]
async fn a_failure_is_kept_with_its_cause_if_failures_are_kept() {
    let dead = unused_address().await;
    let failed = "[decisions]\nsample = 0\nfailed = true\n";
    let proxy = Proxy::start(&[dead], failed);
    assert_eq!(get(proxy.address, "/").await.status, 502);
    let found = decisions(&proxy, "failed=true", 1).await;
    assert_eq!(found[0]["kept"], "failed");
    let attempt = &found[0]["attempts"][0];
    assert_eq!(attempt["outcome"], "no_connection");
    let cause = attempt["cause"].as_str().unwrap();
    assert!(cause.starts_with("no connection: "), "{cause}");
    let text = proxy.admin_page("/decisions?format=text").await;
    assert!(text.contains("no response; no connection ("), "{text}");

    let live = Replica::echo("live").await;
    let proxy = Proxy::start(&[live.address], failed);
    assert_eq!(get(proxy.address, "/").await.status, 200);
    let page = proxy.admin_page("/decisions").await;
    assert!(page.contains("\"kept\": 0"), "{page}");
}

#[tokio::test]
async fn comparisons_are_shown_with_the_replicas_names() {
    let replicas = [
        Replica::echo("a").await,
        Replica::echo("b").await,
        Replica::echo("c").await,
    ];
    let addresses = replicas.each_ref().map(|replica| replica.address);
    let toml = format!("policy = \"least_loaded\"\n{ALL}");
    let proxy = Proxy::start(&addresses, &toml);
    assert_eq!(get(proxy.address, "/").await.status, 200);
    let found = decisions(&proxy, "reason=least_loaded", 1).await;
    assert_eq!(found[0]["policy"], "least_loaded");
    let attempt = &found[0]["attempts"][0];
    assert_eq!(
        (&attempt["available"], &attempt["considered"]),
        (&3.into(), &3.into())
    );
    let candidates = attempt["candidates"].as_array().unwrap();
    let mut names: Vec<_> = (candidates.iter())
        .map(|candidate| candidate["replica"].as_str().unwrap().to_owned())
        .collect();
    let mut expected = addresses.map(|address| address.to_string());
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert!(
        candidates
            .iter()
            .all(|candidate| candidate["in_flight"] == 0)
    );

    // Replicas without probes are ranked by the client's own counts. None is hot, however few
    // requests it has.
    let toml = format!(
        "policy = \"prequal\"\nprequal.local_only = true\nprequal.rif_limit_quantile = 1\n{ALL}"
    );
    let proxy = Proxy::start(&addresses, &toml);
    let mut client = Client::connect(proxy.address).await;
    let decision = until("a report decides", async || {
        // Requests follow quickly, because a report is valid for a second.
        for _ in 0..20 {
            assert_eq!(client.get("/").await.status, 200);
        }
        let found = decisions(&proxy, "reason=cold&limit=1", 0).await;
        found.into_iter().next()
    })
    .await;
    let attempt = &decision["attempts"][0];
    let mut candidates = attempt["candidates"].as_array().unwrap().iter();
    let chosen = candidates
        .find(|it| it["replica"] == attempt["replica"])
        .unwrap();
    for key in ["rif", "age_us", "hot", "local"] {
        assert_eq!(chosen[key], attempt["chosen"][key], "{key}: {attempt}");
    }
    assert_eq!(chosen["local"], true);
}

#[tokio::test]
async fn unknown_parameter_is_refused_by_name() {
    let proxy = Proxy::start(&[unused_address().await], "");
    let mut client = Client::connect(proxy.admin).await;
    client
        .send("GET /decisions?replca=a HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 400);
    assert!(
        answer
            .text()
            .starts_with("parameter replca: unknown; there are id, service, ")
    );
}
