//! Related requests go to the same replica, and to another one if it is not available.

use crate::clients::{Answer, Client, full};
use crate::proxy::{Proxy, until};
use crate::replicas::{self, Replica};
use crate::room::in_flight;
use core::net::SocketAddr;
use http::{Request, Response};
use std::sync::Arc;
use tokio::sync::Notify;

async fn three() -> [Replica; 3] {
    [
        Replica::echo("one").await,
        Replica::echo("two").await,
        Replica::echo("three").await,
    ]
}

fn addresses(replicas: &[Replica; 3]) -> [SocketAddr; 3] {
    replicas.each_ref().map(|replica| replica.address)
}

async fn ask(proxy: &Proxy, fields: &str) -> Answer {
    let mut client = Client::connect(proxy.address).await;
    client
        .send(&format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n"))
        .await;
    client.answer().await
}

fn name(answer: &Answer) -> String {
    answer.text().lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn cookie_selects_its_replica_and_is_replaced_after_it_leaves() {
    let three = three().await;
    let all = addresses(&three);
    // Without kept connections, a replica that does not listen cannot be reached.
    let toml = "[replica]\nidle_connections_max = 0\n\
                [sticky]\nby = \"cookie\"\ncookie = \"at\"\ncookie_age = \"1m\"";
    let proxy = Proxy::start(&all, toml);
    let first = ask(&proxy, "").await;
    let set = first.field("set-cookie").unwrap().to_owned();
    let (pair, attributes) = set.split_once("; ").unwrap();
    assert!(pair.starts_with("at="), "{set}");
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax; Max-Age=60");
    let cookie = format!("cookie: a=b; {pair}\r\n");
    for _ in 0..6 {
        let again = ask(&proxy, &cookie).await;
        assert_eq!(name(&again), name(&first));
        assert_eq!(again.field("set-cookie"), None, "nothing has changed");
    }
    assert_eq!(proxy.sum("/in_flight").await, 0);
    let metrics = proxy.admin_page("/metrics").await;
    let picks = "slackwater_picks_total{service=\"default\",reason=\"pinned\"} 6";
    assert!(metrics.contains(picks), "{metrics}");

    let home = all
        .into_iter()
        .zip(["one", "two", "three"])
        .find(|(_, own)| *own == name(&first));
    let home = home.unwrap().0;
    three
        .iter()
        .filter(|it| it.address == home)
        .for_each(Replica::stop);
    let moved = until("its replica is gone", async || {
        let answer = ask(&proxy, &cookie).await;
        assert_eq!(answer.status, 200, "another one is tried");
        (name(&answer) != name(&first)).then_some(answer)
    })
    .await;
    let set = moved.field("set-cookie").expect("it has moved");
    let (new, _) = set.split_once("; ").unwrap();
    assert_ne!(new, pair);
    let settled = ask(&proxy, &format!("cookie: {new}\r\n")).await;
    assert_eq!(name(&settled), name(&moved));
    proxy.settled().await;
}

#[tokio::test]
async fn session_stays_at_a_replica_that_is_full() {
    let go_on = Arc::new(Notify::new());
    let http1 = [
        Replica::slow(&go_on, "one").await,
        Replica::slow(&go_on, "two").await,
    ];
    let mut http2 = Vec::new();
    for name in ["one", "two"] {
        let go_on = Arc::clone(&go_on);
        let answers = move |request: Request<_>| {
            let go_on = Arc::clone(&go_on);
            async move {
                if request.uri().path() == "/slow" {
                    go_on.notified().await;
                }
                Response::new(full(name))
            }
        };
        http2.push(replicas::http2(answers).await);
    }
    let over_http2 =
        "protocol = \"h2c\"\n[limits]\nstreams_max = 1\n[timeouts]\nconnect = \"50ms\"";
    for (fleet, more) in [
        (&http1.each_ref().map(|it| it.address)[..], ""),
        (&http2, over_http2),
    ] {
        let toml = format!("[sticky]\nby = \"cookie\"\n[replica]\nconnections_max = 1\n{more}");
        let proxy = Proxy::start(fleet, &toml);
        let first = ask(&proxy, "").await;
        let (pair, _) = first.field("set-cookie").unwrap().split_once("; ").unwrap();
        let cookie = format!("cookie: {pair}\r\n");
        let mut holds = Client::connect(proxy.address).await;
        let slow = format!("GET /slow HTTP/1.1\r\nhost: x\r\n{cookie}\r\n");
        holds.send(&slow).await;
        in_flight(&proxy, 1).await;
        let elsewhere = ask(&proxy, &cookie).await;
        assert_ne!(elsewhere.text(), first.text());
        assert_eq!(elsewhere.field("set-cookie"), None, "{more}");
        go_on.notify_one();
        assert_eq!(holds.answer().await.text(), first.text());
    }
}

#[tokio::test]
async fn field_is_read_as_the_client_sent_it() {
    let replicas = three().await;
    let mut http2 = Vec::new();
    for name in ["one", "two", "three"] {
        let answers = move |_| async move { Response::new(full(name)) };
        http2.push(replicas::http2(answers).await);
    }
    let service = |addresses: &[SocketAddr], more: &str| {
        let listed: Vec<_> = addresses.iter().map(|it| format!("\"{it}\"")).collect();
        format!(
            "[services.web]\nreplicas = [{}]\nprobe.transport = \"none\"\n\
             policy = \"round_robin\"\nsticky = {{ by = \"header\", header = \"host\" }}\n{more}",
            listed.join(", ")
        )
    };
    let one_host = "[[routes]]\nservice = \"web\"\nrewrite.host = \"inner\"\n";
    let over_http2 = "replica.protocol = \"h2c\"\n[[routes]]\nservice = \"web\"\n";
    for (fleet, more) in [(&addresses(&replicas)[..], one_host), (&http2, over_http2)] {
        let proxy = Proxy::of_file(&service(fleet, more));
        let mut names = Vec::new();
        for host in 0..64 {
            let asked = async || {
                let mut client = Client::connect(proxy.address).await;
                let head = format!("GET / HTTP/1.1\r\nhost: h{host}.test\r\n\r\n");
                client.send(&head).await;
                name(&client.answer().await)
            };
            let home = asked().await;
            assert_eq!(asked().await, home, "{more}");
            names.push(home);
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3, "{more}");
    }
}

#[tokio::test]
async fn requests_with_the_same_field_value_go_to_the_same_replica() {
    let replicas = three().await;
    let toml = "[sticky]\nby = \"header\"\nheader = \"x-user\"";
    let proxy = Proxy::start(&addresses(&replicas), toml);
    let mut names = Vec::new();
    // There are enough users for each of the three replicas to get some, whatever their ports.
    for user in 0..64 {
        let field = format!("x-user: {user}\r\n");
        let home = name(&ask(&proxy, &field).await);
        assert_eq!(name(&ask(&proxy, &field).await), home);
        names.push(home);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3, "each replica has users");
    let mut without = Vec::new();
    for _ in 0..3 {
        without.push(name(&ask(&proxy, "").await));
    }
    without.sort();
    assert_eq!(
        without,
        ["one", "three", "two"],
        "in turn, without the field"
    );
}

#[tokio::test]
async fn sticky_address_is_the_client_behind_trusted_proxies() {
    let replicas = three().await;
    let toml = "[sticky]\nby = \"address\"\n[forwarded]\ntrust = [\"127.0.0.0/8\"]";
    let proxy = Proxy::start(&addresses(&replicas), toml);
    let mut names = Vec::new();
    for client in 0..64 {
        let field = format!("x-forwarded-for: 192.0.2.{client}\r\n");
        let home = name(&ask(&proxy, &field).await);
        assert_eq!(name(&ask(&proxy, &field).await), home);
        names.push(home);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3);
    drop(proxy);
    let proxy = Proxy::start(&addresses(&replicas), "[sticky]\nby = \"address\"");
    let mut names = Vec::new();
    for client in 0..6 {
        names.push(name(
            &ask(&proxy, &format!("x-forwarded-for: 192.0.2.{client}\r\n")).await,
        ));
    }
    names.dedup();
    assert_eq!(
        names.len(),
        1,
        "no proxy is trusted, and all clients are 127.0.0.1"
    );
}

#[tokio::test]
async fn failed_sticky_requests_are_retried_elsewhere() {
    let (bad, well) = (
        Replica::scripted(|mut connection| async move {
            while connection.head().await.is_some() {
                connection
                    .send("HTTP/1.1 503 X\r\ncontent-length: 0\r\n\r\n")
                    .await;
            }
        })
        .await,
        Replica::echo("well").await,
    );
    let toml = "[sticky]\nby = \"header\"\nheader = \"x-user\"";
    let proxy = Proxy::start(&[bad.address, well.address], toml);
    // Some of these users belong to the bad replica.
    for user in 0..64 {
        let answer = ask(&proxy, &format!("x-user: {user}\r\n")).await;
        assert_eq!(name(&answer), "well");
    }
    assert!(proxy.sum("/requests/retries").await > 0);
}
