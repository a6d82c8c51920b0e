//! Replicas whose health shows in requests: those that fail or stall receive only trials, those
//! that recover or join earn their share.

use crate::access_log::Log;
use crate::clients::Client;
use crate::proxy::{Proxy, until};
use crate::reload::{Written, reload};
use crate::replicas::Replica;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use core::time::Duration;
use futures_util::future::join_all;
use serde_json::Value;
use std::sync::Arc;

/// A replica that answers all requests at once with a status that can be changed.
pub(crate) async fn says(status: u16) -> (Replica, Arc<AtomicU16>) {
    let status = Arc::new(AtomicU16::new(status));
    let now = Arc::clone(&status);
    let replica = Replica::scripted(move |mut connection| {
        let now = Arc::clone(&now);
        async move {
            while connection.head().await.is_some() {
                let status = now.load(Ordering::SeqCst);
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n");
                connection.send(&head).await;
            }
        }
    })
    .await;
    (replica, status)
}

/// One replica that fails all requests, and three healthy ones.
struct Fleet {
    replicas: Vec<Replica>,
    bad: Arc<AtomicU16>,
}

impl Fleet {
    async fn with_status(status: u16) -> Self {
        let (replica, bad) = says(status).await;
        let mut replicas = vec![replica];
        for _ in 0..3 {
            replicas.push(says(200).await.0);
        }
        Self { replicas, bad }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        let replicas = self.replicas.iter();
        replicas.map(|replica| replica.address).collect()
    }
}

/// Trials that are due soon and sent often.
pub(crate) const EAGER: &str =
    "[ejection]\nback_off = \"10ms\"\nback_off_max = \"10ms\"\ntrials = 0.1\n";

/// Sends requests, and returns how many of them failed.
pub(crate) async fn failures(client: &mut Client, method: &str, requests: usize) -> u64 {
    let mut failures = 0;
    for _ in 0..requests {
        client
            .send(&format!(
                "{method} / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
            ))
            .await;
        failures += u64::from(client.answer().await.status != 200);
    }
    failures
}

pub(crate) fn state(status: &Value, replica: usize) -> &Value {
    &status["replicas"][replica]["state"]
}

pub(crate) fn count(status: &Value, name: &str) -> u64 {
    status["counts"]["standing"][name].as_u64().unwrap()
}

/// Sends requests until the replica is in that state.
pub(crate) async fn stands(
    proxy: &Proxy,
    client: &mut Client,
    replica: usize,
    expected: &str,
) -> Value {
    until(&format!("it is {expected}"), async || {
        // Many requests for each poll: the state changes by requests, and a poll takes as long as
        // some of them.
        failures(client, "GET", 20).await;
        let status = proxy.status().await;
        (state(&status, replica) == expected).then_some(status)
    })
    .await
}

/// Service time of a replica in tests that compare replicas: long compared with what a busy machine
/// adds.
pub(crate) const WORK: Duration = Duration::from_millis(20);

/// A replica that takes [`WORK`] for each request.
async fn works() -> Replica {
    Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            tokio::time::sleep(WORK).await;
            connection.answer("").await;
        }
    })
    .await
}

/// Sends requests, some concurrently, until a replica that is as fast as the rest has its whole
/// share.
pub(crate) async fn warms_up(proxy: &Proxy, replica: usize) {
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(Client::connect(proxy.address).await);
    }
    until("it is sound", async || {
        let asking = clients.iter_mut().map(|client| failures(client, "GET", 4));
        join_all(asking).await;
        (state(&proxy.status().await, replica) == "available").then_some(())
    })
    .await;
}

#[tokio::test]
async fn failing_replica_gets_only_trials_until_it_recovers() {
    for policy in ["least_loaded", "prequal", "peak_ewma"] {
        let fleet = Fleet::with_status(500).await;
        let toml = format!("policy = \"{policy}\"\n{EAGER}");
        let proxy = Proxy::start(&fleet.addresses(), &toml);
        let mut client = Client::connect(proxy.address).await;
        let before = stands(&proxy, &mut client, 0, "ejected").await;
        assert_eq!(before["replicas"][0]["available"], false, "{policy}");
        assert_eq!(before["replicas"][0]["standing"]["share_millionths"], 0);
        assert_eq!(count(&before, "ejections"), 1, "{policy}");

        let failed = failures(&mut client, "GET", 200).await;
        let after = proxy.status().await;
        let trials = count(&after, "trials") - count(&before, "trials");
        assert_eq!(failed, trials, "{policy}: nothing else goes there");
        assert!(trials <= 20 + 3, "{policy}: {trials} of 200");
        assert_eq!(count(&after, "trials_passed"), 0);
        assert_eq!(state(&after, 1), "available");

        fleet.bad.store(200, Ordering::SeqCst);
        let healed = stands(&proxy, &mut client, 0, "available").await;
        assert_eq!(healed["replicas"][0]["available"], true, "{policy}");
        assert_eq!(count(&healed, "readmissions"), 1, "{policy}");
        assert!(count(&healed, "trials_passed") >= 3, "{policy}");
        assert_eq!(failures(&mut client, "GET", 100).await, 0, "{policy}");
    }
}

#[tokio::test]
async fn metrics_and_the_access_log_report_ejections() {
    let log = Log::new("trial");
    let fleet = Fleet::with_status(500).await;
    let proxy = Proxy::start(&fleet.addresses(), &(log.toml("") + EAGER));
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    until("there is a trial", async || {
        failures(&mut client, "GET", 4).await;
        (count(&proxy.status().await, "trials") > 0).then_some(())
    })
    .await;
    let trial = until("the log has the trial", async || {
        let lines = log.lines(1).await.into_iter();
        lines.rev().find(|line| line["reason"] == "trial")
    })
    .await;
    assert_eq!(trial["replica"], fleet.replicas[0].address.to_string());
    let metrics = proxy.admin_page("/metrics").await;
    let bad = fleet.replicas[0].address;
    let well = fleet.replicas[1].address;
    for line in [
        "slackwater_replicas_in_state{service=\"default\",state=\"available\"} 3".to_owned(),
        "slackwater_replicas_in_state{service=\"default\",state=\"ejected\"} 1".to_owned(),
        "slackwater_replicas_in_state{service=\"default\",state=\"warming_up\"} 0".to_owned(),
        format!("slackwater_replica_share{{service=\"default\",replica=\"{bad}\"}} 0\n"),
        format!("slackwater_replica_share{{service=\"default\",replica=\"{well}\"}} 1\n"),
        "slackwater_ejections_total{service=\"default\"} 1".to_owned(),
        "slackwater_readmissions_total{service=\"default\"} 0".to_owned(),
        "slackwater_trials_passed_total{service=\"default\"} 0".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
    let value = |name: &str| -> u64 {
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(name));
        value.unwrap().trim().parse().unwrap()
    };
    let trials = value("slackwater_trials_total{service=\"default\"}");
    let picks = value("slackwater_picks_total{service=\"default\",reason=\"trial\"}");
    assert!(trials > 0 && picks == trials, "{picks} of {trials}");
}

#[tokio::test]
async fn failed_trial_is_retried_like_any_request() {
    let fleet = Fleet::with_status(503).await;
    let proxy = Proxy::start(&fleet.addresses(), EAGER);
    let mut client = Client::connect(proxy.address).await;
    let before = stands(&proxy, &mut client, 0, "ejected").await;
    until("there were trials", async || {
        assert_eq!(failures(&mut client, "GET", 20).await, 0);
        (count(&proxy.status().await, "trials") >= count(&before, "trials") + 3).then_some(())
    })
    .await;
    until("a trial may not be repeated", async || {
        (failures(&mut client, "POST", 20).await > 0).then_some(())
    })
    .await;
    let after = proxy.status().await;
    let retries = proxy.sum("/requests/retries").await;
    let refused = after["replicas"][0]["requests"]["responses_5xx"].as_u64();
    assert!(
        retries >= 3 && refused > Some(retries),
        "{refused:?} {retries}"
    );
    assert_eq!(state(&after, 0), "ejected");

    // A failed trial is not retried if retries are off.
    let toml = format!("retries.attempts_max = 1\n{EAGER}");
    let proxy = Proxy::start(&fleet.addresses(), &toml);
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    until("a trial is not repeated", async || {
        (failures(&mut client, "GET", 20).await > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_trial_moves_no_session() {
    let fleet = Fleet::with_status(500).await;
    let toml = format!("[sticky]\nby = \"cookie\"\n{EAGER}");
    let proxy = Proxy::start(&fleet.addresses(), &toml);
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    let trial = until("a request is a trial", async || {
        let answer = client.get("/").await;
        let is_trial = answer.status == 500;
        assert_eq!(answer.field("set-cookie").is_some(), !is_trial);
        is_trial.then_some(())
    });
    trial.await;
}

#[tokio::test]
async fn no_replica_is_ejected_if_all_fail() {
    let fleet = [says(500).await.0, says(500).await.0, says(500).await.0];
    let addresses = fleet.each_ref().map(|replica| replica.address);
    for policy in ["round_robin", "least_loaded", "prequal"] {
        let proxy = Proxy::start(&addresses, &format!("policy = \"{policy}\""));
        let mut client = Client::connect(proxy.address).await;
        assert_eq!(failures(&mut client, "GET", 300).await, 300);
        let status = proxy.status().await;
        assert_eq!(count(&status, "ejections"), 0, "{policy}");
        for replica in 0..3 {
            assert_eq!(status["replicas"][replica]["available"], true, "{policy}");
        }
    }
}

#[tokio::test]
async fn failing_replica_keeps_its_share_without_error_aversion() {
    let fleet = Fleet::with_status(500).await;
    let off = "error_aversion.enabled = false";
    let proxy = Proxy::start(&fleet.addresses(), off);
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(failures(&mut client, "GET", 400).await, 100);
    let shown = proxy.status().await;
    assert_eq!(state(&shown, 0), "available");
    assert_eq!(count(&shown, "ejections"), 0);

    let off = format!("{off}\nwarm_up.by_evidence = false");
    let proxy = Proxy::start(&fleet.addresses(), &off);
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(failures(&mut client, "GET", 400).await, 100);
    let status = proxy.status().await;
    assert_eq!(status["replicas"][0]["standing"], Value::Null);
    let metrics = proxy.admin_page("/metrics").await;
    assert!(!metrics.contains("slackwater_replica_share{"), "{metrics}");
}

#[tokio::test]
async fn out_max_bounds_the_ejected_share() {
    let fleet = Fleet::with_status(500).await;
    let proxy = Proxy::start(&fleet.addresses(), "ejection.out_max = 0.24");
    let mut client = Client::connect(proxy.address).await;
    let status = until("it has a sixteenth", async || {
        failures(&mut client, "GET", 4).await;
        let status = proxy.status().await;
        (status["replicas"][0]["standing"]["share_millionths"] == 62_500).then_some(status)
    })
    .await;
    assert_eq!(state(&status, 0), "limited");
    assert_eq!(status["replicas"][0]["available"], true);
    assert_eq!(count(&status, "ejections"), 0);
}

pub(crate) const PROBATION: &str = "latency_probation.enabled = true\n\
                ejection.back_off = \"1m\"\nejection.back_off_max = \"1m\"";

/// Four replicas. The first one stops answering when the flag is set.
pub(crate) async fn who_stalls() -> (Vec<Replica>, Arc<AtomicBool>) {
    let stalls = Arc::new(AtomicBool::new(false));
    let now = Arc::clone(&stalls);
    let stalled = Replica::scripted(move |mut connection| {
        let now = Arc::clone(&now);
        async move {
            while connection.head().await.is_some() && !now.load(Ordering::SeqCst) {
                connection.answer("well").await;
            }
            while connection.more().await > 0 {}
        }
    })
    .await;
    let mut replicas = vec![stalled];
    for _ in 0..3 {
        replicas.push(says(200).await.0);
    }
    (replicas, stalls)
}

/// Sends requests until the replica is on probation.
pub(crate) async fn probation(proxy: &Proxy, stalls: &AtomicBool) -> Value {
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(failures(&mut client, "GET", 40).await, 0);
    stalls.store(true, Ordering::SeqCst);
    let mut waiting = Vec::new();
    until("it is on probation", async || {
        let mut client = Client::connect(proxy.address).await;
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        waiting.push(client);
        let status = proxy.status().await;
        (state(&status, 0) == "ejected").then_some(status)
    })
    .await
}

#[tokio::test]
async fn unresponsive_replica_is_on_probation_if_enabled() {
    let (replicas, stalls) = who_stalls().await;
    let addresses: Vec<_> = replicas.iter().map(|replica| replica.address).collect();
    let proxy = Proxy::start(&addresses, PROBATION);
    let status = probation(&proxy, &stalls).await;
    assert_eq!(status["replicas"][0]["available"], false);
    assert_eq!(count(&status, "probations"), 1);
    assert_eq!(count(&status, "ejections"), 0);
}

/// Round robin over these replicas, with warm-ups of an hour.
pub(crate) fn joining(replicas: &[&Replica], more: &str) -> String {
    let addresses = replicas.iter().map(|replica| replica.address.to_string());
    let list: Vec<_> = addresses.collect();
    format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"round_robin\"\nreplicas = {list:?}\n\
         probe.transport = \"none\"\ndiscovery.warm_up = \"1h\"\n{more}"
    )
}

/// Sends requests, and returns how many of them the last replica receives.
async fn requests_to_last(proxy: &Proxy, client: &mut Client, requests: usize) -> u64 {
    let sent = async || {
        let status = proxy.status().await;
        let replicas = status["replicas"].as_array().unwrap();
        replicas.last().unwrap()["requests"]["sent"]
            .as_u64()
            .unwrap()
    };
    let before = sent().await;
    assert_eq!(failures(client, "GET", requests).await, 0);
    sent().await - before
}

#[tokio::test]
async fn warm_up_by_evidence_grows_with_requests_and_not_with_time() {
    let [one, two, three, new] = &[works().await, works().await, works().await, works().await];
    let written = Written::new("evidence", &joining(&[one, two, three], ""));
    let proxy = written.serve(&[]);
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(failures(&mut client, "GET", 40).await, 0);
    let equally_new = proxy.status().await;
    assert_eq!(count(&equally_new, "warm_ups"), 0, "to begin with");

    written.become_text(&joining(&[one, two, three, new], ""));
    reload(&proxy);
    let joined = until("the worker has the change", async || {
        let status = proxy.status().await;
        (state(&status, 3) == "warming_up").then_some(status)
    })
    .await;
    assert_eq!(
        joined["replicas"][3]["standing"]["share_millionths"],
        100_000
    );
    assert_eq!(count(&joined, "warm_ups"), 1);
    warms_up(&proxy, 3).await;
    assert_eq!(requests_to_last(&proxy, &mut client, 80).await, 20);
}

#[tokio::test]
async fn warm_up_by_time_limits_a_new_replica() {
    let fleet = Fleet::with_status(200).await;
    let [one, two, three, new] = &fleet.replicas[..] else {
        panic!("four replicas");
    };
    let by_the_clock = "warm_up.by_evidence = false";
    let written = Written::new("clock", &joining(&[one, two, three], by_the_clock));
    let proxy = written.serve(&[]);
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(failures(&mut client, "GET", 40).await, 0);
    written.become_text(&joining(&[one, two, three, new], by_the_clock));
    reload(&proxy);
    until("the status has the change", async || {
        let replicas = proxy.status().await["replicas"].as_array().map(Vec::len);
        (replicas == Some(4)).then_some(())
    })
    .await;
    // A tenth of a quarter of the requests is 40.
    let sent = requests_to_last(&proxy, &mut client, 1_600).await;
    assert!((10..=90).contains(&sent), "{sent}");
    let status = proxy.status().await;
    assert_eq!(count(&status, "warm_ups"), 0);
    assert_eq!(state(&status, 3), "available");
}
