//! Replicas that reject requests before starting them: where those requests go then, how they are
//! counted, and how a replica receives a request's timeout.

use crate::aversion::{count, failures, state};
use crate::clients::Client;
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;
use crate::routes::{ask, services};

/// An agent that rejects all requests for this reason, with the text that belongs to it.
pub(crate) async fn sheds(mark: &'static str, line: &'static str) -> Replica {
    Replica::scripted(move |mut connection| async move {
        while connection.head().await.is_some() {
            let length = line.len() + 1;
            connection
                .send(&format!(
                    "HTTP/1.1 503 No\r\ncontent-type: text/plain; charset=utf-8\r\nx-slackwater-error: {mark}\r\n\
                     retry-after: 1\r\ncontent-length: {length}\r\n\r\n{line}\n"
                ))
                .await;
        }
    })
    .await
}

/// A replica that answers with the fields that it received.
async fn mirror() -> Replica {
    Replica::scripted(move |mut connection| async move {
        while let Some(head) = connection.head().await {
            let length = head.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{head}");
            connection.send(&answer).await;
        }
    })
    .await
}

#[tokio::test]
async fn rejected_requests_are_retried_with_any_method() {
    let full = sheds("shed_full", "too many queries wait already").await;
    let well = Replica::echo("well").await;
    let proxy = Proxy::start(&[full.address, well.address], "policy = \"round_robin\"");
    let mut client = Client::connect(proxy.address).await;
    for method in ["GET", "POST", "PATCH", "POST"] {
        client
            .send(&format!(
                "{method} / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello"
            ))
            .await;
        assert_eq!(client.answer().await.status, 200, "{method}");
    }
    proxy.settled().await;
    let shed = proxy.sum("/requests/shed").await;
    assert!(shed > 0);
    assert_eq!(proxy.sum("/requests/retries").await, shed);
    assert_eq!(proxy.sum("/requests/broken").await, 0);
    assert!(shed > 1);
    assert_eq!(full.connections(), 1, "its connection is used again");
}

#[tokio::test]
async fn request_rejected_by_all_replicas_is_answered_with_retry_after() {
    let one = sheds("shed_overloaded", "the queue has stood for too long").await;
    let other = sheds("shed_wait_over", "its turn did not come in time").await;
    let proxy = Proxy::start(&[one.address, other.address], "");
    let mut client = Client::connect(proxy.address).await;
    client
        .send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n")
        .await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.field("x-slackwater-error"), Some("overloaded"));
    assert_eq!(answer.field("retry-after"), Some("1"));
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/shed").await, 2);
}

#[tokio::test]
async fn a_replica_that_rejects_all_requests_gets_less_and_is_not_ejected() {
    for (mark, line) in [
        ("shed_full", "too many queries wait already"),
        // A server's own 503.
        ("busy", "come again"),
    ] {
        let full = sheds(mark, line).await;
        let well = [
            Replica::echo("one").await,
            Replica::echo("two").await,
            Replica::echo("three").await,
        ];
        let all = core::iter::once(&full).chain(&well);
        let addresses: Vec<_> = all.map(|replica| replica.address).collect();
        let proxy = Proxy::start(&addresses, "policy = \"round_robin\"");
        let mut client = Client::connect(proxy.address).await;
        // How much less depends on how many requests it rejects in a tenth of a second, and so on
        // the machine.
        let status = until("it has less than half", async || {
            assert_eq!(failures(&mut client, "GET", 20).await, 0, "{mark}");
            let status = proxy.status().await;
            let share = &status["replicas"][0]["standing"]["share_millionths"];
            (share.as_u64() < Some(500_000)).then_some(status)
        })
        .await;
        assert_eq!(state(&status, 0), "limited", "{mark}");
        assert_eq!(count(&status, "ejections"), 0, "{mark}");
        assert_eq!(status["replicas"][0]["available"], true, "{mark}");
    }
}

#[tokio::test]
async fn request_past_its_deadline_is_not_retried() {
    let late = || sheds("shed_deadline", "the deadline passed before its turn came");
    let (one, other) = (late().await, late().await);
    let proxy = Proxy::start(&[one.address, other.address], "");
    let mut client = Client::connect(proxy.address).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 504);
    assert_eq!(answer.field("x-slackwater-error"), Some("deadline"));
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/shed").await, 1);
    assert_eq!(proxy.sum("/requests/retries").await, 0);
}

/// The number before `unit` in a field of the head that the replica received.
fn told(head: &str, field: &str, unit: &str) -> Option<u64> {
    let line = head.lines().find_map(|line| line.strip_prefix(field))?;
    line.strip_suffix(unit)?.parse().ok()
}

#[tokio::test]
async fn replica_receives_at_most_the_remaining_timeout() {
    let replica = mirror().await;
    let toml = services(&[("web", replica.address)])
        + "[[routes]]\npath_prefix = \"/bound\"\nservice = \"web\"\ntimeouts.total = \"20s\"\n\
           [[routes]]\nservice = \"web\"\n";
    let proxy = Proxy::of_file(&toml);
    let ms = "x-slackwater-timeout-ms: ";
    for (target, fields, field, unit, most) in [
        ("/free", "", ms, "", None),
        ("/bound", "", ms, "", Some(20_000)),
        (
            "/free",
            "x-slackwater-timeout-ms: 9000\r\n",
            ms,
            "",
            Some(9_000),
        ),
        (
            "/bound",
            "x-slackwater-timeout-ms: 9000\r\n",
            ms,
            "",
            Some(9_000),
        ),
        (
            "/bound",
            "x-slackwater-timeout-ms: 90000\r\n",
            ms,
            "",
            Some(20_000),
        ),
        (
            "/bound",
            "x-slackwater-timeout-ms: soon\r\n",
            ms,
            "",
            Some(20_000),
        ),
        (
            "/free",
            "grpc-timeout: 9S\r\n",
            "grpc-timeout: ",
            "u",
            Some(9_000_000),
        ),
        (
            "/bound",
            "grpc-timeout: 1H\r\n",
            "grpc-timeout: ",
            "u",
            Some(20_000_000),
        ),
    ] {
        let request = format!("GET {target} HTTP/1.1\r\nhost: a\r\n{fields}\r\n");
        let answer = ask(&proxy, &request).await;
        let head = answer.text();
        let left = told(head, field, unit);
        match most {
            None => assert!(!head.contains("timeout"), "{head}"),
            Some(most) => {
                let left = left.unwrap_or_else(|| panic!("{target} {fields}: {head}"));
                assert!(left <= most && left > most / 2, "{target} {fields}: {left}");
            }
        }
    }
}
