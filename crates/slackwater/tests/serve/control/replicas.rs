//! Replicas that are drained, or get another weight, while requests run.

use super::{Token, ask, controlled, done, overrides};
use crate::clients::{Client, get};
use crate::members;
use crate::proxy::{Proxy, until};
use crate::reload::{Written, config, reload};
use crate::replicas::Replica;
use serde_json::{Value, json};
use slackwater_tower::server::{Load, respond_udp};
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

/// Sends requests, and counts how many each replica answers, in all workers.
async fn answers<const N: usize>(proxy: &Proxy, names: [&str; N], requests: usize) -> [usize; N] {
    let mut counts = [0; N];
    for _ in 0..requests {
        // The connections are distributed randomly over workers.
        let one = members::answers(proxy, names, 1).await;
        counts = core::array::from_fn(|place| counts[place] + one[place]);
    }
    counts
}

async fn until_shown(proxy: &Proxy, place: usize, what: &str, wanted: impl Into<Value>) {
    let wanted = wanted.into();
    until(&format!("{what} is {wanted}"), async || {
        (proxy.status().await["replicas"][place][what] == wanted).then_some(())
    })
    .await;
}

#[tokio::test]
async fn drained_replica_finishes_its_requests_and_gets_no_new_ones() {
    let go_on = Arc::new(Notify::new());
    let names = ["one", "two"];
    let replicas = [
        Replica::slow(&go_on, "one").await,
        Replica::slow(&go_on, "two").await,
    ];
    let (proxy, _written, _token) = controlled("drain", &[&replicas[0], &replicas[1]]);
    let mut held = Client::connect(proxy.address).await;
    held.send("GET /slow HTTP/1.1\r\nhost: test\r\n\r\n").await;
    let place = until("one of them has a request", async || {
        let shown = proxy.status().await;
        (0..2).find(|&place| shown["replicas"][place]["in_flight"] == 1)
    })
    .await;
    let name = replicas[place].address.to_string();

    let drained = done(
        &proxy,
        "/replica",
        &json!({"replica": name, "drained": true}),
    )
    .await;
    assert_eq!(drained["drained"], true);
    assert_eq!(drained["service"], "default");
    let line = proxy.log_line("changed at run time");
    for told in [
        "peer=127.0.0.1:",
        &name,
        "from=\"weight 1\"",
        "to=\"weight 1, drained\"",
    ] {
        assert!(line.contains(told), "{told}: {line}");
    }
    until_shown(&proxy, place, "available", false).await;
    let shown = proxy.status().await;
    assert_eq!(shown["replicas"][place]["drained"], true);
    assert_eq!(shown["replicas"][place]["state"], "draining");
    assert_eq!(shown["overrides"]["replicas"], 1);
    let mut expected = [20, 20];
    expected[place] = 0;
    assert_eq!(answers(&proxy, names, 20).await, expected);
    go_on.notify_one();
    assert_eq!(held.answer().await.text(), names[place], "it had started");

    let body = json!({"replica": name, "drained": false});
    done(&proxy, "/replica", &body).await;
    until_shown(&proxy, place, "available", true).await;
    assert_eq!(overrides(&proxy).await["replicas"], json!([]));
    until("both are chosen again", async || {
        (answers(&proxy, names, 4).await[place] > 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn drained_replica_gets_no_requests_even_if_all_others_are_down() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let down = "[health]\ncheck = \"tcp\"\ninterval = \"20ms\"\ntimeout = \"20s\"\nfall = 1\n";
    let token = Token::new("all-drained");
    let text = config(&[&one, &two], &(token.section() + down));
    let written = Written::new("all-drained", &text);
    let proxy = written.serve(&[]);
    let (first, second) = (one.address.to_string(), two.address.to_string());
    done(
        &proxy,
        "/replica",
        &json!({"replica": first, "drained": true}),
    )
    .await;
    until_shown(&proxy, 0, "available", false).await;
    two.stop();
    until("the other one is down", async || {
        (proxy.status().await["replicas"][1]["health"]["verdict"] == "down").then_some(())
    })
    .await;
    // The policy finds no available replica, so it picks from all that no operator has drained.
    for _ in 0..10 {
        assert_ne!(get(proxy.address, "/").await.status, 200);
    }
    done(
        &proxy,
        "/replica",
        &json!({"replica": second, "drained": true}),
    )
    .await;
    until_shown(&proxy, 1, "drained", true).await;
    for _ in 0..10 {
        assert_eq!(get(proxy.address, "/").await.status, 503);
    }
    let shown = proxy.status().await;
    assert_eq!(shown["replicas"][0]["requests"]["sent"], 0);
    assert!(shown["replicas"][1]["requests"]["sent"].as_u64().unwrap() >= 10);
    done(&proxy, "/overrides/clear", &json!({})).await;
    until("it is chosen again", async || {
        (get(proxy.address, "/").await.status == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn drained_replica_is_still_probed() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (probe, load) = (socket.local_addr().unwrap(), Load::new());
    let answers_probes = load.clone();
    tokio::spawn(async move {
        let _ = respond_udp(socket, answers_probes, None).await;
    });
    let token = Token::new("probed-on");
    let text = format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\nreplicas = [{{ address = \"{0}\", probe = \"{probe}\" }}, \
         {{ address = \"{1}\", probe = \"{probe}\" }}]\ndiscovery.warm_up = 0\n{2}",
        one.address,
        two.address,
        token.section()
    );
    let written = Written::new("probed-on", &text);
    let proxy = written.serve(&[]);
    let body = json!({"replica": one.address.to_string(), "drained": true});
    done(&proxy, "/replica", &body).await;
    until_shown(&proxy, 0, "available", false).await;
    let _query = load.arrive();
    until("a report from after the drain is received", async || {
        assert_ne!(
            get(proxy.address, "/").await.text().lines().next(),
            Some("one")
        );
        (proxy.status().await["replicas"][0]["reported"]["rif"] == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_weight_changes_the_share_and_stays_with_its_replica() {
    let replicas = [Replica::echo("one").await, Replica::echo("two").await];
    let [one, two] = &replicas;
    let token = Token::new("weights");
    let text =
        |list: &[&Replica]| config(list, &token.section()).replace("workers = 2", "workers = 1");
    let written = Written::new("own-weights", &text(&[one, two]));
    let proxy = written.serve(&[]);
    let name = one.address.to_string();
    let shares = async |expected: [usize; 2]| {
        until(&format!("shares are {expected:?}"), async || {
            (answers(&proxy, ["one", "two"], 40).await == expected).then_some(())
        })
        .await;
    };
    shares([20, 20]).await;
    let set = async |weight: Value| {
        done(
            &proxy,
            "/replica",
            &json!({"replica": name, "weight": weight}),
        )
        .await
    };
    assert_eq!(set(json!(3)).await["weight"], 3);
    shares([30, 10]).await;
    let shown = proxy.status().await["replicas"][0].clone();
    assert_eq!(
        (&shown["weight"], &shown["fleet_weight"]),
        (&json!(3), &json!(1))
    );

    // A fleet without this replica for a moment changes nothing about that.
    written.become_text(&text(&[two]));
    reload(&proxy);
    written.become_text(&text(&[one, two]));
    reload(&proxy);
    shares([30, 10]).await;
    assert_eq!(set(json!(0)).await["weight"], 0);
    shares([0, 40]).await;
    assert_eq!(set(Value::Null).await["since_ms"], Value::Null);
    shares([20, 20]).await;
}

#[tokio::test]
async fn concurrent_changes_are_serialized() {
    let replicas = [Replica::echo("one").await, Replica::echo("two").await];
    let [one, two] = &replicas;
    let (proxy, written, _token) = controlled("at-once", &[one, two]);
    let name = two.address.to_string();
    let (mut statuses, mut weights) = (Vec::new(), Vec::new());
    for round in 0..6_u16 {
        let policy = ["random", "least_loaded"][usize::from(round % 2)];
        let (settings, weight, again) = (
            json!({"set": {"policy": policy}}),
            json!({"replica": name, "weight": round + 1}),
            json!({}),
        );
        proxy.signal("HUP");
        let (first, second, third, served) = tokio::join!(
            ask(&proxy, "/settings", &settings),
            ask(&proxy, "/replica", &weight),
            ask(&proxy, "/reload", &again),
            get(proxy.address, "/"),
        );
        statuses.extend([first.0, second.0, third.0, served.status]);
        weights.push(second.1);
    }
    assert!(statuses.iter().all(|&status| status == 200), "{statuses:?}");
    let told = overrides(&proxy).await;
    assert_eq!(told["settings"][0]["value"], "\"least_loaded\"");
    assert_eq!(told["replicas"][0]["weight"], 6, "{weights:?}");
    let shown = proxy.status().await;
    assert_eq!(shown["services"][0]["policy"], "least_loaded");
    assert_eq!(shown["replicas"][1]["weight"], 6);
    drop(written);
}
