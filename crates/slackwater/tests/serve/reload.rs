//! Configurations and fleets that change while requests run.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, before, until};
use crate::replicas::{Replica, vacant};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A configuration file that the test rewrites; removed when dropped.
pub(crate) struct Written(PathBuf);

impl Written {
    pub(crate) fn new(name: &str, text: &str) -> Self {
        let name = format!("slackwater-{name}-{}.toml", std::process::id());
        let written = Self(std::env::temp_dir().join(name));
        written.become_text(text);
        written
    }

    /// Replaces the file atomically, as careful programs do: no reader finds a half-written file.
    pub(crate) fn become_text(&self, text: &str) {
        let new = self.0.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &self.0).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn serve(&self, more: &[&str]) -> Proxy {
        let file = self.0.to_str().unwrap();
        let args = ["serve", "--config", file, "--admin", "127.0.0.1:0"];
        Proxy::spawn(&[&args, more].concat())
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn list(replicas: &[&Replica]) -> String {
    let addresses = replicas.iter().map(|replica| replica.address.to_string());
    format!("{:?}", addresses.collect::<Vec<_>>())
}

/// One service with two workers, round robin, without probes.
pub(crate) fn config(replicas: &[&Replica], more: &str) -> String {
    let list = list(replicas);
    format!(
        "listen = \"127.0.0.1:0\"\nworkers = 2\npolicy = \"round_robin\"\nreplicas = {list}\n\
         probe.transport = \"none\"\ndiscovery.warm_up = 0\n{more}"
    )
}

/// Reads the configuration again, and waits until it is in force or rejected.
pub(crate) fn reload(proxy: &Proxy) {
    proxy.signal("HUP");
    proxy.log_line("reload requested");
    // Reloaded or rejected.
    proxy.log_line("configuration re");
}

async fn nothing_in_flight(proxy: &Proxy) {
    until("nothing is in flight", async || {
        (proxy.sum("/in_flight").await == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_fails_during_repeated_reloads() {
    let replicas = [
        Replica::echo("one").await,
        Replica::echo("two").await,
        Replica::echo("three").await,
    ];
    let [one, two, three] = &replicas;
    let written = Written::new("again", &config(&[one, two], ""));
    let proxy = written.serve(&[]);
    let is_over = Arc::new(AtomicBool::new(false));
    let mut clients = JoinSet::new();
    for keeps_connection in [true, true, true, false, false] {
        let (is_over, address) = (Arc::clone(&is_over), proxy.address);
        clients.spawn(async move {
            let mut client = Client::connect(address).await;
            let mut count = 0_u64;
            while count <= 12 || !is_over.load(Ordering::Relaxed) {
                if !keeps_connection {
                    client = Client::connect(address).await;
                }
                assert_eq!(client.get("/").await.status, 200);
                count += 1;
            }
        });
    }
    // Another fleet, another policy, other settings, and changes without an effect.
    let texts = [
        config(&[one, two, three], ""),
        config(&[three], "[retries]\nattempts_max = 2\n"),
        config(&[one, two], "").replace("round_robin", "least_loaded"),
        config(&[one, two], "# the same\n").replace("round_robin", "least_loaded"),
    ];
    for round in 0..12 {
        written.become_text(&texts[round % texts.len()]);
        reload(&proxy);
    }
    is_over.store(true, Ordering::Relaxed);
    clients.join_all().await;
    nothing_in_flight(&proxy).await;
    let status = proxy.status().await;
    assert_eq!(status["reloads"]["taken"], 12);
    assert_eq!(status["reloads"]["refused"], 0);
}

#[tokio::test]
async fn timeouts_that_a_reload_shortens_are_precise() {
    let never = Arc::new(Notify::new());
    let replica = Replica::slow(&never, "late").await;
    let long = config(&[&replica], "retries.attempts_max = 1\n");
    let written = Written::new("shorter", &long);
    let proxy = written.serve(&[]);
    written.become_text(&format!("{long}timeouts.first_byte = \"100ms\"\n"));
    reload(&proxy);
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        assert_eq!(get(proxy.address, "/slow").await.status, 504);
        shortest = shortest.min(began.elapsed());
    }
    // With the precision of the default timeouts each takes more than a second.
    assert!(shortest < Duration::from_millis(900), "{shortest:?}");
}

#[tokio::test]
async fn invalid_configuration_is_reported_and_changes_nothing() {
    let replica = Replica::echo("one").await;
    let good = config(&[&replica], "");
    let written = Written::new("mistaken", &good);
    let proxy = written.serve(&[]);
    for (text, expected) in [
        (
            good.replace("round_robin", "round_robbing"),
            ":3:10: policy: found \"round_robbing\"",
        ),
        (
            good.replace("\"127.0.0.1:0\"", "[\"127.0.0.1:0\", \"192.0.2.1:80\"]"),
            "cannot listen on 192.0.2.1:80",
        ),
        (
            good.replace(
                &format!("replicas = {}", list(&[&replica])),
                "discovery.file = \"/nowhere/fleet.json\"",
            ),
            "/nowhere/fleet.json: there is no such file",
        ),
        (String::new(), "is empty"),
    ] {
        written.become_text(&text);
        reload(&proxy);
        let status = proxy.status().await;
        let failure = status["reloads"]["failure"].as_str().unwrap();
        assert!(failure.contains(expected), "{failure}");
        assert_eq!(status["services"][0]["policy"], "round_robin");
        assert_eq!(
            get(proxy.address, "/").await.text().lines().next(),
            Some("one")
        );
    }
    written.become_text(&good);
    reload(&proxy);
    let status = proxy.status().await;
    assert_eq!(status["reloads"]["refused"], 4);
    assert_eq!(status["reloads"]["taken"], 1);
    assert_eq!(status["reloads"]["failure"], serde_json::Value::Null);
}

#[tokio::test]
async fn secrets_of_a_rejected_file_are_neither_logged_nor_shown() {
    let replica = Replica::echo("one").await;
    let good = config(&[&replica], "");
    let written = Written::new("secret", &good);
    let proxy = written.serve(&[]);
    let set = "{ authorization = \"Bearer s3cret\", host = \"x\" }";
    written.become_text(&format!("{good}[[routes]]\nrequest_headers.set = {set}\n"));
    proxy.signal("HUP");
    let mut log = proxy.log_until("configuration rejected");
    let status = proxy.admin_page("/status").await;
    assert!(status.contains("request_headers.set.host: "), "{status}");
    assert!(!status.contains("s3cret"), "{status}");
    written.become_text(&good);
    proxy.signal("HUP");
    log.extend(proxy.log_until("configuration reloaded"));
    assert!(!log.concat().contains("s3cret"), "{log:?}");
}

#[tokio::test]
async fn file_that_cannot_be_read_to_its_end_does_not_stop_signals() {
    let replica = Replica::echo("one").await;
    let written = Written::new("fifo", &config(&[&replica], ""));
    let mut proxy = written.serve(&[]);
    let fifo = written.path().with_extension("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    std::fs::rename(&fifo, written.path()).unwrap();
    proxy.signal("HUP");
    proxy.log_line("reload requested");
    proxy.signal("TERM");
    // After 10 s the file would no longer be waited for.
    let ended = before(Duration::from_secs(10), proxy.ended());
    assert_eq!(ended.await.code(), Some(0));
}

#[tokio::test]
async fn reload_keeps_state_and_names_keys_that_need_a_restart() {
    let replicas = [Replica::echo("one").await, Replica::echo("two").await];
    let [one, two] = &replicas;
    let written = Written::new("stays", &config(&[one], ""));
    let proxy = written.serve(&[]);
    for _ in 0..5 {
        assert_eq!(get(proxy.address, "/").await.status, 200);
    }
    let picks = async || {
        proxy.status().await["counts"]["picks"]["turn"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(picks().await, 5);

    written.become_text(&config(&[two, one], "").replace("workers = 2", "workers = 3"));
    proxy.signal("HUP");
    proxy.log_line("services_kept=1");
    proxy.log_line("workers not changed: restart to apply it");
    assert_eq!(picks().await, 5, "the same policies");
    let after = proxy.status().await;
    let of_one = after["replicas"].as_array().unwrap().iter();
    let sent: Vec<_> = of_one.map(|it| it["requests"]["sent"].as_u64()).collect();
    assert_eq!(sent, [Some(0), Some(5)], "in the order of the file");

    written.become_text(&config(&[two, one], "").replace("round_robin", "random"));
    proxy.signal("HUP");
    proxy.log_line("services_started=\"default\"");
    assert_eq!(picks().await, 0, "rebuilt");
    assert_eq!(get(proxy.address, "/").await.status, 200);
}

#[tokio::test]
async fn listeners_are_added_and_removed_without_losing_requests() {
    let go_on = Arc::new(Notify::new());
    let replica = Replica::slow(&go_on, "slow").await;
    let (first, second) = (vacant([127, 94, 0, 1]).await, vacant([127, 94, 0, 2]).await);
    let at = |addresses: &[SocketAddr]| {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        config(&[&replica], "").replace("\"127.0.0.1:0\"", &format!("{addresses:?}"))
    };
    let written = Written::new("listeners", &at(&[first]));
    let proxy = written.serve(&[]);
    let mut idle = Client::connect(first).await;
    assert_eq!(idle.get("/").await.status, 200);
    let mut busy = Client::connect(first).await;
    busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until("the request is out", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;

    written.become_text(&at(&[first, second]));
    reload(&proxy);
    assert_eq!(get(second, "/").await.status, 200);
    assert_eq!(idle.get("/").await.status, 200, "as if nothing had been");

    written.become_text(&at(&[second]));
    reload(&proxy);
    assert!(
        idle.rest().await.is_empty(),
        "an idle connection is just closed"
    );
    until("no connection is accepted any more", async || {
        TcpStream::connect(first).await.is_err().then_some(())
    })
    .await;
    go_on.notify_one();
    assert_eq!(busy.answer().await.text(), "slow");
    assert_eq!(get(second, "/").await.status, 200);
    nothing_in_flight(&proxy).await;
}

#[tokio::test]
async fn changed_client_settings_reuse_the_listening_socket() {
    let replica = Replica::echo("one").await;
    let text = config(&[&replica], "");
    let written = Written::new("socket", &text);
    let proxy = written.serve(&[]);
    let mut old = Client::connect(proxy.address).await;
    assert_eq!(old.get("/").await.status, 200);
    written.become_text(&format!("{text}[limits]\nhead_bytes_max = \"8KiB\"\n"));
    reload(&proxy);
    assert!(
        old.rest().await.is_empty(),
        "what the old ones started ends"
    );
    let long = format!("/{}", "x".repeat(9000));
    let answer = get(proxy.address, &long).await;
    assert_eq!(answer.status, 414);
    assert_eq!(get(proxy.address, "/").await.status, 200);
}

#[tokio::test]
async fn a_replica_that_leaves_finishes_its_requests_and_gets_no_more() {
    let go_on = Arc::new(Notify::new());
    let replicas = [
        Replica::slow(&go_on, "slow").await,
        Replica::echo("two").await,
    ];
    let [slow, two] = &replicas;
    let fleet = Written::new("fleet", &format!("replicas = {}\n", list(&[slow])));
    let file = format!("discovery.file = {:?}\n", fleet.0);
    let text = config(&[slow], "").replace(&format!("replicas = {}\n", list(&[slow])), &file);
    // With one worker, an answer of the new replica shows that the old one has left everywhere.
    let text = text.replace("workers = 2", "workers = 1");
    let written = Written::new("leaves", &text);
    let proxy = written.serve(&[]);
    let mut busy = Client::connect(proxy.address).await;
    busy.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until("the request is out", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;

    fleet.become_text(&format!("replicas = {}\n", list(&[two])));
    proxy.log_line("fleet changed: 1 replica");
    until("the new one is asked", async || {
        let answer = get(proxy.address, "/").await;
        answer.text().starts_with("two").then_some(())
    })
    .await;
    let connections = slow.connections();
    for _ in 0..20 {
        assert!(get(proxy.address, "/").await.text().starts_with("two"));
    }
    assert_eq!(slow.connections(), connections);
    go_on.notify_one();
    assert_eq!(busy.answer().await.text(), "slow");
    nothing_in_flight(&proxy).await;

    // A mistake in the file keeps the fleet as it is, and is shown in the status.
    fleet.become_text("replicas = []\n");
    proxy.log_line("discovery failed, fleet unchanged");
    let found = proxy.status().await;
    let failure = &found["services"][0]["discovery"]["failure"];
    assert!(
        failure.as_str().unwrap().contains("found no replica"),
        "{failure}"
    );
    assert_eq!(get(proxy.address, "/").await.status, 200);
}

#[tokio::test]
async fn watched_file_is_reloaded_without_a_signal() {
    let replicas = [Replica::echo("one").await, Replica::echo("two").await];
    let [one, two] = &replicas;
    let written = Written::new("watched", &config(&[one], ""));
    let proxy = written.serve(&["--watch"]);
    assert!(get(proxy.address, "/").await.text().starts_with("one"));
    written.become_text(&config(&[two], ""));
    proxy.log_line("configuration reloaded");
    until("the new one is asked", async || {
        let answer = get(proxy.address, "/").await;
        answer.text().starts_with("two").then_some(())
    })
    .await;
}

#[tokio::test]
async fn reload_signal_without_a_file_is_ignored() {
    let replica = Replica::echo("one").await;
    let address = replica.address.to_string();
    let proxy = Proxy::spawn(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--replicas",
        &address,
        "--probe",
        "none",
        "--admin",
        "127.0.0.1:0",
    ]);
    proxy.signal("HUP");
    proxy.log_line("reload ignored: there is no configuration file");
    assert_eq!(get(proxy.address, "/").await.status, 200);
}

#[tokio::test]
async fn settings_of_client_connections_rebuild_no_service() {
    let replica = Replica::echo("one").await;
    let text = config(&[&replica], "");
    let written = Written::new("clients", &text);
    let proxy = written.serve(&[]);
    for (key, value) in [
        ("head", "5s"),
        ("drain", "20s"),
        ("drain_idle", "2s"),
        ("handshake", "5s"),
    ] {
        written.become_text(&format!("{text}[timeouts]\n{key} = \"{value}\"\n"));
        proxy.signal("HUP");
        let told = proxy.log_line("configuration reloaded");
        assert!(told.contains("services_kept=1"), "{key}: {told}");
    }
    written.become_text(&format!("{text}[timeouts]\nconnect = \"2s\"\n"));
    proxy.signal("HUP");
    let told = proxy.log_line("configuration reloaded");
    assert!(told.contains("services_kept=0"), "{told}");
}

#[tokio::test]
async fn results_of_health_checks_survive_a_reload() {
    // It passes all checks but the first.
    let down = Replica::scripted(|mut connection| async move {
        let first = connection.index == 0;
        while let Some(head) = connection.head().await {
            if first && head.starts_with("GET /check ") {
                let answer = "HTTP/1.1 500 X\r\ncontent-length: 0\r\n\r\n";
                connection.send(answer).await;
            } else {
                connection.answer("down").await;
            }
        }
    })
    .await;
    let up = Replica::echo("up").await;
    let checks =
        "[health]\ncheck = \"http\"\npath = \"/check\"\ninterval = \"10m\"\ntimeout = \"30s\"\n";
    let text = config(&[&down, &up], checks);
    let written = Written::new("found", &text);
    let proxy = written.serve(&[]);
    let verdict = async || {
        let status = proxy.status().await;
        status["replicas"][0]["health"]["verdict"].clone()
    };
    until("it is down", async || {
        (verdict().await == "down").then_some(())
    })
    .await;

    written.become_text(&format!("{text}[retries]\nattempts_max = 2\n"));
    proxy.signal("HUP");
    let told = proxy.log_line("configuration reloaded");
    assert!(told.contains("services_started=\"default\""), "{told}");
    for _ in 0..20 {
        assert!(get(proxy.address, "/").await.text().starts_with("up"));
    }
    assert_eq!(verdict().await, "down");

    // With other settings of the check, it is checked again.
    written.become_text(&text.replace("\"10m\"", "\"11m\""));
    reload(&proxy);
    until("it is up", async || (verdict().await == "up").then_some(())).await;
}

#[tokio::test]
async fn listeners_on_ephemeral_ports_survive_a_reload() {
    let replica = Replica::echo("one").await;
    let two = "[\"127.0.0.1:0\", \"127.0.0.1:0\"]";
    let text = config(&[&replica], "").replace("\"127.0.0.1:0\"", two);
    let written = Written::new("ports", &text);
    let proxy = written.serve(&[]);
    let second = proxy.next_address();
    written.become_text(&format!("{text}[retries]\nattempts_max = 2\n"));
    reload(&proxy);
    for address in [proxy.address, second] {
        assert_eq!(get(address, "/").await.status, 200);
    }
}
