//! The access log: a line for each request, whatever its result.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{Replica, unused_address};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A file that is removed when this is dropped.
pub(crate) struct Log(PathBuf);

impl Log {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("slackwater-log-{name}-{}", std::process::id());
        let file = std::env::temp_dir().join(name);
        // One may be left of an earlier process with the same number.
        let _ = std::fs::remove_file(&file);
        Self(file)
    }

    pub(crate) fn toml(&self, more: &str) -> String {
        let file = self.0.display();
        format!("[access_log]\nto = \"{file}\"\nformat = \"json\"\n{more}")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }

    /// Returns the first `count` lines, once they are written.
    pub(crate) async fn lines(&self, count: usize) -> Vec<Value> {
        until("the lines are there", async || {
            let text = self.text();
            let lines: Vec<_> = text
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'))
                .collect();
            let parse = |line: &&str| serde_json::from_str(line).unwrap();
            (lines.len() >= count).then(|| lines.iter().map(parse).collect())
        })
        .await
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
async fn a_line_has_the_result_of_a_request() {
    let log = Log::new("line");
    let replica = Replica::scripted(|mut connection| async move {
        while connection.head().await.is_some() {
            connection.body(5).await;
            connection.answer("thirteen byte").await;
        }
    })
    .await;
    let toml = log.toml("[request_id]\nheader = \"x-request-id\"");
    let proxy = Proxy::start(&[replica.address], &toml);
    let mut client = Client::connect(proxy.address).await;
    let fields = "host: shop\r\nuser-agent: test\r\nx-request-id: 7\r\ncookie: secret";
    for _ in 0..2 {
        client
            .send(&format!(
                "POST /a?token=secret HTTP/1.1\r\n{fields}\r\ncontent-length: 5\r\n\r\nhello"
            ))
            .await;
        assert_eq!(client.answer().await.status, 200);
    }
    let [first, second] = &log.lines(2).await[..] else {
        panic!("two lines");
    };
    let replica = replica.address.to_string();
    let local = proxy.address.to_string();
    for (key, value) in [
        ("client", "127.0.0.1"),
        ("listener", &local),
        ("host", "shop"),
        ("method", "POST"),
        ("path", "/a"),
        ("protocol", "HTTP/1.1"),
        ("service", "default"),
        ("replica", &replica),
        ("reason", "turn"),
        ("end", "complete"),
        ("id", "7"),
        ("user_agent", "test"),
    ] {
        assert_eq!(first[key], value, "{key}");
    }
    for (key, value) in [
        ("status", 200),
        ("bytes_in", 5),
        ("bytes_out", 13),
        ("attempts", 1),
    ] {
        assert_eq!(first[key], value, "{key}");
    }
    assert!(!log.text().contains("secret"));
    assert!(first["connect_us"].is_u64(), "a new connection");
    assert!(second.get("connect_us").is_none(), "the kept one");
    let [queue, first_byte, total] =
        ["queue_us", "first_byte_us", "total_us"].map(|key| first[key].as_u64().unwrap());
    assert!(queue <= first_byte && first_byte <= total);
}

#[tokio::test]
async fn failures_are_logged() {
    let log = Log::new("failures");
    let breaking = Replica::scripted(|mut connection| async move {
        connection.head().await;
        connection
            .send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nten bytes.")
            .await;
    })
    .await;
    let quiet = log.toml("sample = 0\nalways_slower_than = \"1h\"");
    let proxy = Proxy::start(&[breaking.address], &quiet);
    let mut client = Client::connect(proxy.address).await;
    client.send("GET /broken HTTP/1.1\r\nhost: x\r\n\r\n").await;
    client.head().await;
    let _ = client.rest().await;
    let line = &log.lines(1).await[0];
    assert_eq!(
        (&line["end"], &line["attempts"]),
        (&"broken".into(), &1.into())
    );
    assert_eq!(
        (&line["status"], &line["bytes_out"]),
        (&200.into(), &10.into())
    );
    assert_eq!(line["replica"], breaking.address.to_string());
    drop(proxy);

    let (one, other) = (unused_address().await, unused_address().await);
    let proxy = Proxy::start(&[one, other], &quiet);
    let answer = get(proxy.address, "/unreachable").await;
    assert_eq!(answer.status, 502);
    let line = &log.lines(2).await[1];
    assert_eq!(
        (&line["status"], &line["error"]),
        (&502.into(), &"no_connection".into())
    );
    assert_eq!(
        (&line["end"], &line["attempts"]),
        (&"complete".into(), &2.into())
    );
    assert_eq!(line["bytes_out"], answer.body.len());

    let mut client = Client::connect(proxy.address).await;
    client
        .send("HEAD /unreachable HTTP/1.1\r\nhost: x\r\n\r\n")
        .await;
    assert!(client.head().await.starts_with("HTTP/1.1 502"));
    let line = &log.lines(3).await[2];
    assert_eq!(line["bytes_out"], 0);
}

#[tokio::test]
async fn malformed_requests_are_logged_and_counted() {
    let log = Log::new("unreadable");
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], &log.toml(""));
    let endless = format!("GET /{}", "x".repeat(70_000));
    // However much arrives at once, no line end is searched beyond the size limit of a head.
    let whole = format!("{endless} HTTP/1.1\r\nhost: x\r\n\r\n");
    let field = format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(70_000));
    let requests = [
        ("GET / HTTP/1.1\r\nhost: x\r\nbad field\r\n\r\n", 400),
        ("SSH-2.0-me\r\n\r\n", 400),
        (&endless[..], 414),
        (&whole[..], 414),
        (&field[..], 431),
        ("GET / HTTP/3.0\r\nhost: x\r\n\r\n", 505),
        (
            "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            501,
        ),
    ];
    for (at, (request, status)) in requests.into_iter().enumerate() {
        let mut client = Client::connect(proxy.address).await;
        client.send(request).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, status, "{request:.40}");
        let line = &log.lines(at + 1).await[at];
        for (key, value) in [
            ("method", "-"),
            ("path", "-"),
            ("client", "127.0.0.1"),
            ("service", "-"),
            ("end", "complete"),
            ("error", "refused"),
        ] {
            assert_eq!(line[key], value, "{line}");
        }
        assert_eq!(line["status"], status, "{line}");
        assert_eq!(line["bytes_out"], answer.body.len(), "{line}");
    }
    let metrics = proxy.admin_page("/metrics").await;
    for (status, count) in [(400, 2), (414, 2), (431, 1), (501, 1), (505, 1)] {
        let sample =
            format!("slackwater_unreadable_requests_total{{status=\"{status}\"}} {count}\n");
        assert!(metrics.contains(&sample), "{sample}{metrics}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_logged() {
    let log = Log::new("gone");
    let replica = Replica::scripted(|mut connection| async move {
        connection.head().await;
        // Until the proxy closes the connection.
        connection.more().await;
    })
    .await;
    let proxy = Proxy::start(&[replica.address], &log.toml(""));
    let mut client = Client::connect(proxy.address).await;
    client.send("GET /left HTTP/1.1\r\nhost: x\r\n\r\n").await;
    until("the request is out", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
    drop(client);
    let line = &log.lines(1).await[0];
    assert_eq!(
        (&line["end"], &line["status"]),
        (&"client_gone".into(), &0.into())
    );
}

#[tokio::test]
async fn the_file_is_reopened_on_a_signal() {
    let log = Log::new("reopen");
    let moved = Log::new("reopen-moved");
    let replica = Replica::echo("r").await;
    let proxy = Proxy::start(&[replica.address], &log.toml(""));
    get(proxy.address, "/first").await;
    log.lines(1).await;
    std::fs::rename(&log.0, &moved.0).unwrap();
    proxy.signal("USR1");
    until("there is a new file", async || {
        Path::exists(&log.0).then_some(())
    })
    .await;
    get(proxy.address, "/second").await;
    assert_eq!(log.lines(1).await[0]["path"], "/second");
    assert_eq!(moved.lines(1).await.len(), 1);
}

#[tokio::test]
async fn last_lines_are_written_before_exit() {
    let log = Log::new("end");
    let replica = Replica::echo("r").await;
    let mut proxy = Proxy::start(&[replica.address], &log.toml(""));
    get(proxy.address, "/last").await;
    proxy.signal("TERM");
    assert_eq!(proxy.ended().await.code(), Some(0));
    assert!(log.text().contains("\"/last\""), "{}", log.text());
}
