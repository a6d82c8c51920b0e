//! Ejected and new replicas in the log, as an operator sees them; restarts of replicas, and the
//! effect of a reload.

use crate::aversion::{EAGER, WORK, count, failures, joining, says, stands, state, warms_up};
use crate::clients::Client;
use crate::proxy::{Proxy, until};
use crate::reload::{Written, reload};
use crate::replicas::Replica;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

async fn four() -> (
    Vec<Replica>,
    Arc<core::sync::atomic::AtomicU16>,
    Vec<SocketAddr>,
) {
    let (first, status) = says(500).await;
    let mut replicas = vec![first];
    for _ in 0..3 {
        replicas.push(says(200).await.0);
    }
    let addresses = replicas.iter().map(|replica| replica.address).collect();
    (replicas, status, addresses)
}

#[tokio::test]
async fn ejections_and_returns_are_logged_with_their_figures() {
    let (_replicas, bad, addresses) = four().await;
    let proxy = Proxy::start(&addresses, EAGER);
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    let out = proxy.log_line("replica ejected: too many failures");
    for part in [
        " WARN ".to_owned(),
        "service=\"default\"".to_owned(),
        format!("replica=\"{}\"", addresses[0]),
        "from=\"available\" to=\"ejected\" why=\"too many failures\"".to_owned(),
        "share_percent=0 success=0.".to_owned(),
        "median_success=1.0".to_owned(),
        "median_latency=".to_owned(),
        "remedy=\"see the replica's own log".to_owned(),
    ] {
        assert!(out.contains(&part), "{part}: {out}");
    }
    bad.store(200, Ordering::SeqCst);
    stands(&proxy, &mut client, 0, "available").await;
    // It may have been available with a part of its share in between.
    let back = proxy.log_line("replica available");
    assert!(
        back.contains(" INFO ") && back.contains("to=\"available\" why=\"\" success="),
        "{back}"
    );
    assert!(
        back.contains(&format!("replica=\"{}\"", addresses[0])),
        "{back}"
    );
}

#[tokio::test]
async fn many_simultaneous_changes_are_logged_in_few_lines() {
    let mut fleet = Vec::new();
    for _ in 0..24 {
        fleet.push(says(200).await.0);
    }
    let all: Vec<_> = fleet.iter().collect();
    let written = Written::new("standings", &joining(&all[..12], ""));
    let proxy = written.serve(&[]);
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(failures(&mut client, "GET", 40).await, 0);
    written.become_text(&joining(&all, ""));
    proxy.signal("HUP");
    let mut news = 0;
    let more = loop {
        let line = proxy.log_line("replica");
        if line.contains("more replicas") {
            break line;
        }
        news += u32::from(line.contains("replica warming_up: new or restarted"));
    };
    assert_eq!(news, 10);
    assert!(more.contains("more=2"), "{more}");
}

/// A replica that also answers probes, with an incarnation that can be changed.
async fn probed(incarnation: &Arc<AtomicUsize>) -> Replica {
    let incarnation = Arc::clone(incarnation);
    Replica::scripted(move |mut connection| {
        let incarnation = Arc::clone(&incarnation);
        async move {
            while let Some(head) = connection.head().await {
                if !head.starts_with("GET /prequal/probe ") {
                    tokio::time::sleep(WORK).await;
                }
                let now = incarnation.load(Ordering::SeqCst);
                let report = "x-prequal-rif: 1\r\nx-prequal-latency-us: 100\r\n";
                connection
                    .send(&format!(
                        "HTTP/1.1 200 OK\r\n{report}x-slackwater-incarnation: {now}\r\ncontent-length: 0\r\n\r\n"
                    ))
                    .await;
            }
        }
    })
    .await
}

#[tokio::test]
async fn restart_seen_in_reports_starts_a_warm_up() {
    let incarnations: [Arc<AtomicUsize>; 3] = core::array::from_fn(|_| Arc::default());
    let mut fleet = Vec::new();
    for incarnation in &incarnations {
        fleet.push(probed(incarnation).await);
    }
    let addresses: Vec<_> = fleet.iter().map(|replica| replica.address).collect();
    let toml = "policy = \"prequal\"\ndiscovery.warm_up = \"1h\"\n[probe]\ntransport = \"http\"\n";
    let proxy = Proxy::start(&addresses, toml);
    let mut client = Client::connect(proxy.address).await;
    until("all have reported", async || {
        assert_eq!(failures(&mut client, "GET", 10).await, 0);
        let status = proxy.status().await;
        let reports = status["counts"]["probes"]["answered"].as_u64().unwrap();
        (reports > 60).then_some(())
    })
    .await;
    assert_eq!(count(&proxy.status().await, "warm_ups"), 0);
    incarnations[1].store(7, Ordering::SeqCst);
    // There are no requests, so it cannot finish warming up.
    let restarted = until("its report has come", async || {
        let status = proxy.status().await;
        (state(&status, 1) == "warming_up").then_some(status)
    })
    .await;
    let shares =
        |place: usize| restarted["replicas"][place]["standing"]["share_millionths"].clone();
    assert_eq!((shares(0), shares(1)), (1_000_000.into(), 100_000.into()));
    assert_eq!(count(&restarted, "warm_ups"), 1);
    let new = proxy.log_line("replica warming_up: new or restarted");
    assert!(
        new.contains(&format!("replica=\"{}\"", addresses[1])),
        "{new}"
    );
    warms_up(&proxy, 1).await;
}

#[tokio::test]
async fn reload_keeps_learned_state_and_applies_new_settings() {
    let (_replicas, _bad, addresses) = four().await;
    let list: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    let toml = |aversion: &str, other: u32| {
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\n[services.web]\npolicy = \"round_robin\"\nreplicas = {list:?}\n\
             probe.transport = \"none\"\nejection.back_off = \"1h\"\nejection.back_off_max = \"1h\"\n{aversion}\n\
             [services.other]\nreplicas = [\"127.0.0.1:1\"]\nretries.attempts_max = {other}\n\
             [[routes]]\nservice = \"web\"\n"
        )
    };
    let written = Written::new("learned", &toml("", 2));
    let proxy = written.serve(&[]);
    let mut client = Client::connect(proxy.address).await;
    let standing = async |client: &mut Client| {
        let failed = failures(client, "GET", 80).await;
        let status = proxy.status().await;
        let named = |list: &str, key: &str, name: &str| {
            let mut entries = status[list].as_array().unwrap().iter();
            entries.find(|it| it[key] == name).unwrap().clone()
        };
        let state = &named("replicas", "address", &list[0])["state"];
        let counts = &named("services", "name", "web")["counts"]["standing"];
        (failed, state.clone(), counts["ejections"].clone())
    };
    until("it is out", async || {
        let (failed, state, _) = standing(&mut client).await;
        (failed == 0 && state == "ejected").then_some(())
    })
    .await;
    written.become_text(&toml("", 3));
    reload(&proxy);
    assert_eq!(standing(&mut client).await, (0, "ejected".into(), 1.into()));

    written.become_text(&toml("error_aversion.enabled = false", 3));
    reload(&proxy);
    assert_eq!(
        standing(&mut client).await,
        (20, "available".into(), 0.into())
    );
    written.become_text(&toml("error_aversion.failures_in_a_row = 3", 3));
    reload(&proxy);
    until("it is out again", async || {
        (standing(&mut client).await.1 == "ejected").then_some(())
    })
    .await;
}
