//! Agents that have withdrawn: the requests that they reject go to another replica, and only an
//! agent's answer counts as such a rejection.

use crate::clients::Client;
use crate::proxy::Proxy;
use crate::replicas::Replica;

/// An agent that has withdrawn, and its other fields.
async fn withdrawn(fields: &'static str) -> Replica {
    Replica::scripted(move |mut connection| async move {
        while connection.head().await.is_some() {
            connection
                .send(&format!(
                    "HTTP/1.1 503 No\r\ncontent-type: text/plain; charset=utf-8\r\nx-slackwater-error: withdrawn\r\n\
                     retry-after: 1\r\n{fields}content-length: 51\r\n\r\n\
                     the server behind the agent cannot be connected to\n"
                ))
                .await;
        }
    })
    .await
}

#[tokio::test]
async fn requests_rejected_by_an_agent_are_retried_with_any_method() {
    let (gone, well) = (withdrawn("").await, Replica::echo("well").await);
    let proxy = Proxy::start(&[gone.address, well.address], "");
    let mut client = Client::connect(proxy.address).await;
    for method in ["GET", "POST", "GET", "DELETE", "PATCH"] {
        for body in ["", "hello"] {
            let length = body.len();
            client
                .send(&format!(
                    "{method} / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
                ))
                .await;
            let answer = client.answer().await;
            let text = answer.text();
            let is_whole = text.starts_with("well\n") && text.ends_with(body);
            assert!(is_whole, "{method}: {} {text}", answer.status);
        }
    }
    proxy.settled().await;
    let turned_away = proxy.sum("/requests/responses_5xx").await;
    assert!(turned_away > 0);
    assert_eq!(proxy.sum("/requests/retries").await, turned_away);
}

#[tokio::test]
async fn body_beyond_the_replay_buffer_is_not_retried() {
    let (gone, well) = (withdrawn("").await, Replica::echo("well").await);
    let proxy = Proxy::start(
        &[gone.address, well.address],
        "policy = \"round_robin\"\n[retries]\nbody_max = 4",
    );
    let mut client = Client::connect(proxy.address).await;
    let mut statuses = Vec::new();
    for body in ["hell", "hello", "hell", "hello"] {
        let length = body.len();
        client
            .send(&format!(
                "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n{body}"
            ))
            .await;
        let answer = client.answer().await;
        statuses.push((body, answer.status));
        if answer.status == 503 {
            assert_eq!(answer.field("x-slackwater-error"), Some("withdrawn"));
        }
    }
    let of = |wanted: &str| -> Vec<_> {
        let found = statuses.iter().filter(|(body, _)| *body == wanted);
        found.map(|(_, status)| *status).collect()
    };
    assert_eq!(of("hell"), [200, 200], "{statuses:?}");
    assert!(of("hello").contains(&503), "{statuses:?}");
}

#[tokio::test]
async fn forwarded_rejection_of_another_agent_is_not_retried() {
    let (relays, well) = (
        withdrawn("server: nginx\r\n").await,
        Replica::echo("well").await,
    );
    let proxy = Proxy::start(&[relays.address, well.address], "policy = \"round_robin\"");
    let mut client = Client::connect(proxy.address).await;
    let mut statuses = Vec::new();
    for _ in 0..2 {
        client
            .send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello")
            .await;
        statuses.push(client.answer().await.status);
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 503]);
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/retries").await, 0);
}
