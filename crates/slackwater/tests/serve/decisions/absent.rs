//! Replicas that were excluded from a pick: full, drained, down, or of a tier that is not in use.

use super::{ALL, decisions};
use crate::clients::{ask, get};
use crate::control::{Token, done};
use crate::proxy::{Proxy, until};
use crate::reload::Written;
use crate::replicas::{Replica, unused_address};
use crate::room::in_flight;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::{Notify, Semaphore};

/// The replicas that were excluded when a request was first sent, why, and the number of their
/// parts that were.
fn outs(decision: &Value) -> Vec<[Value; 3]> {
    let outs = decision["attempts"][0]["outs"].as_array().unwrap().iter();
    outs.map(|out| ["replica", "why", "parts"].map(|key| out[key].clone()))
        .collect()
}

#[tokio::test]
async fn pick_after_waiting_for_a_connection_is_not_shown_as_pinned() {
    let go = Arc::new(Semaphore::new(0));
    let wait = Arc::clone(&go);
    let replica = Replica::scripted(move |mut connection| {
        let wait = Arc::clone(&wait);
        async move {
            while connection.head().await.is_some() {
                wait.acquire().await.unwrap().forget();
                connection.answer("here").await;
            }
        }
    })
    .await;
    let toml = format!("{ALL}[replica]\nconnections_max = 1\n[timeouts]\nconnect = \"20s\"");
    let proxy = Proxy::start(&[replica.address], &toml);
    let first = ask(proxy.address, "/1");
    in_flight(&proxy, 1).await;
    let second = ask(proxy.address, "/2");
    until("it has found no room", async || {
        (proxy.sum("/requests/full").await > 0).then_some(())
    })
    .await;
    go.add_permits(2);
    for asked in [first, second] {
        assert_eq!(asked.await.unwrap().text(), "here");
    }
    let found = decisions(&proxy, "reason=room", 1).await;
    assert_eq!(found[0]["path"], "/2");
    let counts = ["room", "pinned"].map(|reason| format!("/counts/picks/{reason}"));
    let status = proxy.status().await;
    let counts = counts.map(|path| status.pointer(&path).cloned());
    assert_eq!(counts, [Some(1.into()), Some(0.into())]);
    let text = proxy.admin_page("/decisions?reason=room&format=text").await;
    let told = format!("replica {}: all were full, and it was", replica.address);
    assert!(text.contains(&told), "{text}");
}

#[tokio::test]
async fn a_full_replica_is_listed_as_full() {
    let go_on = Arc::new(Notify::new());
    let replicas = [
        Replica::slow(&go_on, "one").await,
        Replica::slow(&go_on, "two").await,
    ];
    let addresses = replicas.each_ref().map(|replica| replica.address);
    let toml = format!("{ALL}[replica]\nconnections_max = 1");
    let proxy = Proxy::start(&addresses, &toml);
    let first = ask(proxy.address, "/slow");
    in_flight(&proxy, 1).await;
    until("it has come", async || {
        let came = replicas.iter().map(Replica::connections).sum::<usize>();
        (came == 1).then_some(())
    })
    .await;
    let full = usize::from(replicas[0].connections() == 0);
    // Round robin would send every other request to the full one.
    for _ in 0..2 {
        assert_eq!(get(proxy.address, "/").await.status, 200);
    }
    let found = decisions(&proxy, "", 2).await;
    let expected = [
        addresses[full].to_string().into(),
        "full: no free connection".into(),
        Value::Null,
    ];
    let passed_over = found.iter().filter(|it| outs(it) == [expected.clone()]);
    assert_eq!(passed_over.count(), 1, "{found:?}");
    go_on.notify_one();
    assert_eq!(first.await.unwrap().status, 200);
}

#[tokio::test]
async fn down_drained_and_backup_replicas_are_distinguished() {
    let names = ["one", "drained", "backup"];
    let [one, drained, backup] = [
        Replica::echo(names[0]).await,
        Replica::echo(names[1]).await,
        Replica::echo(names[2]).await,
    ];
    let dead = unused_address().await;
    let token = Token::new("absent");
    let text = format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"least_loaded\"\nprobe.transport = \"none\"\n\
         replicas = [\"{}\", \"{dead}\", {{ address = \"{}\", weight = 2 }}, {{ address = \"{}\", tier = 1 }}]\n\
         discovery.warm_up = 0\n{ALL}[health]\ncheck = \"tcp\"\ninterval = \"20ms\"\ntimeout = \"20s\"\n{}",
        one.address,
        drained.address,
        backup.address,
        token.section()
    );
    let written = Written::new("absent", &text);
    let proxy = written.serve(&[]);
    // Both go on: checks would find them down otherwise.
    let [drained, backup] = [&drained, &backup].map(|replica| replica.address.to_string());
    let order = json!({"replica": drained, "drained": true});
    done(&proxy, "/replica", &order).await;
    let decision = until("all three are out", async || {
        get(proxy.address, "/").await;
        let found = decisions(&proxy, "limit=1", 1).await;
        (outs(&found[0]).len() == 3).then(|| found[0].clone())
    })
    .await;
    let mut told = outs(&decision);
    told.sort_by_key(|out| out[1].as_str().map(str::to_owned));
    let of = |name: &str, why: &str, parts: Value| [name.into(), why.into(), parts];
    let expected = [
        of(&backup, "backup: its tier is not in use", Value::Null),
        of(&dead.to_string(), "down: health checks failed", Value::Null),
        of(&drained, "draining: drained by an operator", 2.into()),
    ];
    assert_eq!(told, expected, "{decision}");
    let attempt = &decision["attempts"][0];
    assert_eq!(
        (&attempt["available"], &attempt["out"]),
        (&1.into(), &4.into())
    );
}
