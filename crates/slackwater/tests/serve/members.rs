//! Replicas of a service that differ: weights, and tiers of backups.

use crate::clients::{Client, ask, get};
use crate::proxy::{Proxy, until};
use crate::reload::{Written, reload};
use crate::replicas::Replica;
use crate::room::in_flight;
use core::sync::atomic::{AtomicBool, Ordering};
use slackwater_tower::server::{Load, respond_udp};
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

/// One service with one worker, round robin; `replicas` as in the file.
fn config(replicas: &str, more: &str) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"round_robin\"\nreplicas = [{replicas}]\n\
         probe.transport = \"none\"\ndiscovery.warm_up = 0\n{more}"
    )
}

fn weighted(replica: &Replica, weight: u16) -> String {
    format!(
        "{{ address = \"{}\", weight = {weight} }},",
        replica.address
    )
}

fn of_tier(replica: &Replica, tier: u8) -> String {
    format!("{{ address = \"{}\", tier = {tier} }},", replica.address)
}

/// Sends requests on one connection, and counts how many each replica answers.
pub(crate) async fn answers<const N: usize>(
    proxy: &Proxy,
    names: [&str; N],
    requests: usize,
) -> [usize; N] {
    let mut client = Client::connect(proxy.address).await;
    let mut counts = [0; N];
    for _ in 0..requests {
        let answer = client.get("/").await;
        let name = answer.text().lines().next().unwrap_or_default();
        let place = names.iter().position(|other| *other == name);
        counts[place.unwrap_or_else(|| panic!("{}: {name:?}", answer.status))] += 1;
    }
    counts
}

#[tokio::test]
async fn share_is_proportional_to_weight_and_follows_its_changes() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let written = Written::new(
        "weights",
        &config(&(weighted(&one, 30) + &weighted(&two, 10)), ""),
    );
    let proxy = written.serve(&[]);
    let names = ["one", "two"];
    assert_eq!(answers(&proxy, names, 40).await, [30, 10]);
    let connections = (one.connections(), two.connections());

    for (weights, expected) in [((1, 1), [20, 20]), ((2, 3), [16, 24]), ((0, 7), [0, 40])] {
        let replicas = weighted(&one, weights.0) + &weighted(&two, weights.1);
        written.become_text(&config(&replicas, ""));
        reload(&proxy);
        until(&format!("shares are as {weights:?}"), async || {
            (answers(&proxy, names, 40).await == expected).then_some(())
        })
        .await;
        let shown = proxy.status().await;
        assert_eq!(shown["replicas"][0]["weight"], weights.0);
        assert_eq!(shown["replicas"][0]["available"], weights.0 > 0);
    }
    assert_eq!((one.connections(), two.connections()), connections, "kept");
    let sent = proxy.sum("/requests/sent").await;
    assert!(sent >= 160, "counts go on: {sent}");
    let metrics = proxy.admin_page("/metrics").await;
    for (replica, weight) in [(&one, 0), (&two, 7)] {
        let line = format!(
            "slackwater_replica_weight{{service=\"default\",replica=\"{}\"}} {weight}\n",
            replica.address
        );
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
}

#[tokio::test]
async fn replica_that_joins_takes_requests_that_wait_for_a_connection() {
    let go_on = Arc::new(Notify::new());
    let (one, two) = (
        Replica::slow(&go_on, "one").await,
        Replica::echo("two").await,
    );
    let more = "replica.connections_max = 1\ntimeouts.connect = \"1m\"\n";
    let written = Written::new("joins", &config(&weighted(&one, 1), more));
    let proxy = written.serve(&[]);
    let first = ask(proxy.address, "/slow");
    in_flight(&proxy, 1).await;
    let waits = ask(proxy.address, "/");
    until("it has found no room", async || {
        (proxy.sum("/requests/full").await > 0).then_some(())
    })
    .await;
    let both = weighted(&one, 1) + &weighted(&two, 1);
    written.become_text(&config(&both, more));
    reload(&proxy);
    assert!(waits.await.unwrap().text().starts_with("two"));
    go_on.notify_one();
    assert_eq!(first.await.unwrap().text(), "one");
}

#[tokio::test]
async fn replica_of_weight_0_finishes_its_requests_and_gets_no_more() {
    let go_on = Arc::new(Notify::new());
    let one = Replica::slow(&go_on, "one").await;
    let written = Written::new("weightless", &config(&weighted(&one, 1), ""));
    let proxy = written.serve(&[]);
    let mut runs = Client::connect(proxy.address).await;
    runs.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until("it is there", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
    written.become_text(&config(&weighted(&one, 0), ""));
    reload(&proxy);
    // Not even if there is no other replica.
    until("it gets nothing", async || {
        let answer = get(proxy.address, "/").await;
        let is_none = answer.field("x-slackwater-error") == Some("no_replica");
        (is_none && answer.field("retry-after") == Some("1")).then_some(())
    })
    .await;
    go_on.notify_one();
    assert_eq!(runs.answer().await.text(), "one");
    let connections = one.connections();
    written.become_text(&config(&weighted(&one, 1), ""));
    reload(&proxy);
    until("it gets requests again", async || {
        (get(proxy.address, "/").await.status == 200).then_some(())
    })
    .await;
    assert_eq!(one.connections(), connections, "kept meanwhile");
}

#[tokio::test]
async fn retry_avoids_all_parts_of_a_tried_replica() {
    let bad = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            let head = "HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n";
            connection.send(head).await;
        }
    })
    .await;
    let well = Replica::echo("well").await;
    let replicas = weighted(&bad, 9) + &weighted(&well, 1);
    let written = Written::new("retry", &config(&replicas, "retries.attempts_max = 2"));
    let proxy = written.serve(&[]);
    assert_eq!(answers(&proxy, ["well"], 50).await, [50]);
}

/// A replica that passes its checks while the flag is set, and answers all other requests with its
/// name.
async fn checked(name: &'static str) -> (Replica, Arc<AtomicBool>) {
    let is_well = Arc::new(AtomicBool::new(true));
    let now = Arc::clone(&is_well);
    let replica = Replica::scripted(move |mut connection| {
        let now = Arc::clone(&now);
        async move {
            while let Some(head) = connection.head().await {
                if head.starts_with("GET /check ") && !now.load(Ordering::SeqCst) {
                    let head = "HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n";
                    connection.send(head).await;
                } else {
                    connection.answer(name).await;
                }
            }
        }
    })
    .await;
    (replica, is_well)
}

/// Waits until requests go to these replicas alone, and the status agrees.
async fn served_by<const N: usize>(proxy: &Proxy, tier: Option<u8>, names: [&str; N]) {
    until(&format!("requests go to {names:?}"), async || {
        let shown = proxy.status().await;
        if shown["services"][0]["tier"] != serde_json::to_value(tier).unwrap() {
            return None;
        }
        let mut client = Client::connect(proxy.address).await;
        let mut found = Vec::new();
        for _ in 0..8 {
            found.push(client.get("/").await.text().to_owned());
        }
        found.sort();
        found.dedup();
        (found == names).then_some(())
    })
    .await;
}

#[tokio::test]
async fn backups_serve_while_no_other_replica_passes_its_checks() {
    let (one, one_well) = checked("one").await;
    let (two, two_well) = checked("two").await;
    let (backup, backup_well) = checked("backup").await;
    let replicas = of_tier(&backup, 1) + &of_tier(&one, 0) + &of_tier(&two, 0);
    let checks =
        "[health]\ncheck = \"http\"\npath = \"/check\"\ninterval = \"20ms\"\ntimeout = \"20s\"\n";
    let written = Written::new("tiers", &config(&replicas, checks));
    let proxy = written.serve(&[]);
    served_by(&proxy, Some(0), ["one", "two"]).await;
    one_well.store(false, Ordering::SeqCst);
    served_by(&proxy, Some(0), ["two"]).await;
    two_well.store(false, Ordering::SeqCst);
    served_by(&proxy, Some(1), ["backup"]).await;
    let metrics = proxy.admin_page("/metrics").await;
    assert!(
        metrics.contains("slackwater_tier{service=\"default\"} 1"),
        "{metrics}"
    );
    backup_well.store(false, Ordering::SeqCst);
    served_by(&proxy, None, ["backup", "one", "two"]).await;
    one_well.store(true, Ordering::SeqCst);
    served_by(&proxy, Some(0), ["one"]).await;

    // The weight becomes 0, which disables the last replica of the tier.
    let address = one.address;
    let replicas = of_tier(&backup, 1) + &format!("{{ address = \"{address}\", weight = 0 }},");
    backup_well.store(true, Ordering::SeqCst);
    written.become_text(&config(&replicas, checks));
    reload(&proxy);
    served_by(&proxy, Some(1), ["backup"]).await;
}

/// A replica that answers probes, and its entry in the file.
pub(crate) async fn probed(
    name: &'static str,
    tier: u8,
) -> (Replica, Load, AbortOnDropHandle<()>, String) {
    let replica = Replica::scripted(move |mut connection| async move {
        while connection.head().await.is_some() {
            connection.answer(name).await;
        }
    })
    .await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let probe = socket.local_addr().unwrap();
    let load = Load::new();
    let answers = load.clone();
    let task = tokio::spawn(async move {
        let _ = respond_udp(socket, answers, None).await;
    });
    let address = replica.address;
    let entry = format!("{{ address = \"{address}\", probe = \"{probe}\", tier = {tier} }},");
    (replica, load, AbortOnDropHandle::new(task), entry)
}

#[tokio::test]
async fn backups_serve_while_all_others_drain_or_are_unreachable() {
    let (_one, one_load, one_probes, one) = probed("one", 0).await;
    let (_two, two_load, two_probes, two) = probed("two", 0).await;
    let (_backup, _, _probes, backup) = probed("backup", 1).await;
    let toml = config(&(one + &two + &backup), "")
        .replace("round_robin", "prequal")
        .replace("probe.transport = \"none\"\n", "");
    let written = Written::new("tiers-probes", &toml);
    let proxy = written.serve(&[]);
    served_by(&proxy, Some(0), ["one", "two"]).await;
    one_load.set_draining(true);
    two_load.set_draining(true);
    served_by(&proxy, Some(1), ["backup"]).await;
    one_load.set_draining(false);
    served_by(&proxy, Some(0), ["one"]).await;
    two_load.set_draining(false);
    served_by(&proxy, Some(0), ["one", "two"]).await;
    drop((one_probes, two_probes));
    served_by(&proxy, Some(1), ["backup"]).await;
}

#[tokio::test]
async fn a_replica_that_never_answered_probes_is_not_unreachable() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let (_backup, _, _probes, backup) = probed("backup", 1).await;
    let toml = config(&(of_tier(&one, 0) + &of_tier(&two, 0) + &backup), "")
        .replace("round_robin", "prequal")
        .replace("probe.transport = \"none\"\n", "");
    let proxy = Written::new("tiers-mute", &toml).serve(&[]);
    until("they are unprobed", async || {
        answers(&proxy, ["one", "two"], 10).await;
        let shown = proxy.status().await;
        let is_unprobed = |place: usize| shown["replicas"][place]["state"] == "unprobed";
        (is_unprobed(0) && is_unprobed(1)).then_some(())
    })
    .await;
    answers(&proxy, ["one", "two"], 50).await;
    assert_eq!(proxy.status().await["services"][0]["tier"], 0);
}

/// A replica that answers probes as long as the task runs, and requests until it hangs.
async fn that_hangs(
    name: &'static str,
) -> (Replica, Arc<AtomicBool>, AbortOnDropHandle<()>, String) {
    let hangs = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&hangs);
    let replica = Replica::scripted(move |mut connection| {
        let now = Arc::clone(&now);
        async move {
            while connection.head().await.is_some() {
                if now.load(Ordering::SeqCst) {
                    core::future::pending::<()>().await;
                }
                connection.answer(name).await;
            }
        }
    })
    .await;
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (address, probe) = (replica.address, socket.local_addr().unwrap());
    let task = tokio::spawn(async move {
        let _ = respond_udp(socket, Load::new(), None).await;
    });
    let entry = format!("{{ address = \"{address}\", probe = \"{probe}\" }},");
    (replica, hangs, AbortOnDropHandle::new(task), entry)
}

#[tokio::test]
async fn a_replica_that_hangs_is_not_chosen_while_others_answer_probes() {
    for policy in ["prequal", "rif_then_latency", "linear"] {
        let (_one, hangs, one_probes, one) = that_hangs("one").await;
        let (_two, _, _two_probes, two) = that_hangs("two").await;
        // Long enough for an answer on a busy machine: if no replica answers in time, none counts
        // as unreachable.
        let toml = config(&(one + &two), "[prequal]\nprobe_deadline = \"500ms\"\n")
            .replace("round_robin", policy)
            .replace("probe.transport = \"none\"\n", "");
        let proxy = Written::new("hangs", &toml).serve(&[]);
        answers(&proxy, ["one", "two"], 20).await;
        hangs.store(true, Ordering::SeqCst);
        drop(one_probes);
        // There are no requests meanwhile: idle probes notice it.
        until("it is unreachable", async || {
            let shown = proxy.status().await;
            (shown["replicas"][0]["state"] == "unreachable").then_some(())
        })
        .await;
        let shown = proxy.status().await;
        assert_eq!(shown["replicas"][0]["available"], false, "{policy}");
        assert_eq!(shown["replicas"][1]["state"], "available", "{policy}");
        for _ in 0..200 {
            let answer = get(proxy.address, "/").await;
            assert!(answer.text().starts_with("two"), "{policy}");
        }
        proxy.log_line("replica unreachable: probes time out");
    }
}
