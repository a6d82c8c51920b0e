//! The result of a request in its log line, its decision and its spans: all three report what the
//! client received, and nothing else.

use crate::access_log::Log;
use crate::aversion::{failures, stands};
use crate::clients::{Answer, Client, get};
use crate::decisions::decisions;
use crate::grpc::says;
use crate::proxy::{Proxy, until};
use crate::replicas::{Connection, Replica, unused_address};
use crate::shadow_trials::{CALM, SHADOWS, fleet};
use crate::tracing::{collector, spans};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use serde_json::Value;
use slackwater_collector::{Collector, Span};
use std::sync::Arc;
use tokio::sync::Notify;

const EMPTY: &str = "content-length: 0\r\n\r\n";
const FULL: &str = "content-length: 2\r\n\r\nno";

/// A `serve` that writes all three.
struct Site {
    proxy: Proxy,
    log: Log,
    collector: Collector,
}

/// The three records of one request.
struct Story {
    line: Value,
    decision: Value,
    server: Span,
    attempts: Vec<Span>,
}

impl Site {
    async fn new(name: &str, replicas: &[SocketAddr], toml: &str) -> Self {
        let (collector, tracing) = collector("http").await;
        let log = Log::new(name);
        let toml = format!("{toml}\n{}{tracing}[decisions]\nsample = 1\n", log.toml(""));
        Self {
            proxy: Proxy::start(replicas, &toml),
            log,
            collector,
        }
    }

    /// Returns the records of the only request, which must have this many attempts.
    async fn story(&self, attempts: usize) -> Story {
        let lines = self.log.lines(1).await;
        let found = decisions(&self.proxy, "", 1).await;
        let (server, attempts) = spans(&self.collector, attempts + 1).await;
        let ([line], [decision]) = (&lines[..], &found[..]) else {
            panic!("one request: {lines:?} {found:?}");
        };
        assert_eq!(line["id"], decision["id"]);
        Story {
            line: line.clone(),
            decision: decision.clone(),
            server,
            attempts,
        }
    }
}

impl Story {
    /// Checks that all three have this status (0: none) and this end.
    fn assert_ended(&self, status: u16, end: &str) {
        let told = [&self.line, &self.decision];
        for told in told {
            assert_eq!(
                (&told["status"], &told["end"]),
                (&status.into(), &end.into()),
                "{told}"
            );
            assert_eq!(told["first_byte_us"].is_null(), status == 0, "{told}");
        }
        assert_eq!(self.server.text("slackwater.end"), end);
        let of_span = self.server.number("http.response.status_code");
        assert_eq!(of_span, Some(i64::from(status)).filter(|_| status != 0));
        assert_eq!(self.server.event("first_byte").is_some(), status != 0);
        assert_eq!(self.decision["failed"], self.server.failed);
    }

    /// Returns for each attempt whether its response was the client's, according to decision and
    /// spans. Both must have as many attempts as the line.
    fn answered(&self) -> Vec<bool> {
        let tries = self.tries();
        assert_eq!(self.line["attempts"], tries.len(), "{}", self.line);
        assert_eq!(
            self.server.number("slackwater.attempts"),
            i64::try_from(tries.len()).ok()
        );
        assert_eq!(self.attempts.len(), tries.len());
        for (attempt, span) in tries.iter().zip(&self.attempts) {
            let told = span.attributes.get("slackwater.attempt.answered");
            let told = told == Some(&slackwater_collector::Value::Bool(true));
            assert_eq!(attempt["answered"], told, "{attempt} {span:?}");
        }
        tries.iter().map(|it| it["answered"] == true).collect()
    }

    fn tries(&self) -> &Vec<Value> {
        self.decision["attempts"].as_array().unwrap()
    }
}

/// Two replicas with a common count of requests; `script` handles each by its number, from 0.
async fn pair<F>(script: impl Fn(usize, Connection) -> F + Clone + Send + 'static) -> [Replica; 2]
where
    F: Future<Output = ()> + Send + 'static,
{
    let asked = Arc::<AtomicUsize>::default();
    let replica = async || {
        let (asked, script) = (Arc::clone(&asked), script.clone());
        Replica::scripted(move |mut connection| {
            let (asked, script) = (Arc::clone(&asked), script.clone());
            async move {
                if connection.head().await.is_some() {
                    script(asked.fetch_add(1, Ordering::SeqCst), connection).await;
                }
            }
        })
        .await
    };
    [replica().await, replica().await]
}

/// Two replicas of a hedged request. The first one fails once the other has received the request,
/// too; the other one sends `second`, if it is not empty, and no more.
async fn race(failed_body: &'static str, second: &'static str) -> [Replica; 2] {
    let both = Arc::new(Notify::new());
    pair(move |number, mut connection| {
        let both = Arc::clone(&both);
        async move {
            if number == 0 {
                both.notified().await;
                let failure = format!("HTTP/1.1 500 X\r\n{failed_body}");
                connection.send(&failure).await;
            } else {
                both.notify_one();
                connection.send(second).await;
            }
            connection.more().await;
        }
    })
    .await
}

/// Sends a request, and leaves after `when`.
async fn leave(site: &Site, when: impl AsyncFnOnce()) {
    let mut client = Client::connect(site.proxy.address).await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    when().await;
}

#[tokio::test]
async fn client_that_leaves_during_a_retry_received_no_answer() {
    for (name, body) in [("retry-empty", EMPTY), ("retry-full", FULL)] {
        let retried = Arc::new(Notify::new());
        let notes = Arc::clone(&retried);
        let replicas = pair(move |number, mut connection| {
            let retried = Arc::clone(&notes);
            async move {
                if number == 0 {
                    connection.send(&format!("HTTP/1.1 503 X\r\n{body}")).await;
                } else {
                    retried.notify_one();
                }
                connection.more().await;
            }
        })
        .await;
        let addresses = replicas.each_ref().map(|it| it.address);
        let site = Site::new(name, &addresses, "error_aversion.enabled = false").await;
        leave(&site, async || retried.notified().await).await;
        let story = site.story(2).await;
        story.assert_ended(0, "client_gone");
        assert_eq!(story.answered(), [false, false]);
        assert_eq!(story.decision["failed"], false);
        let [first, retry] = &story.tries()[..] else {
            panic!("two: {}", story.decision);
        };
        assert_eq!(
            (&first["status"], &first["outcome"], &first["cause"]),
            (&503.into(), &"failed".into(), &"not passed on".into())
        );
        assert_eq!(retry["outcome"], "dropped");
        let text = site.proxy.admin_page("/decisions?format=text").await;
        assert!(
            text.contains(": no answer after ") && text.contains(", client gone"),
            "{text}"
        );
        assert!(
            !text.contains("passed on;") && !text.contains("the answer that"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn client_that_leaves_before_a_retry_received_no_answer() {
    for (name, body) in [("wait-empty", EMPTY), ("wait-full", FULL)] {
        let replicas = pair(move |_, mut connection| async move {
            let head = "HTTP/1.1 503 X\r\nretry-after: 30\r\n";
            connection.send(&format!("{head}{body}")).await;
            connection.more().await;
        })
        .await;
        let addresses = replicas.each_ref().map(|it| it.address);
        let toml = "error_aversion.enabled = false\nretries.retry_after_max = \"1m\"";
        let site = Site::new(name, &addresses, toml).await;
        leave(&site, async || {
            until("the refusal is here", async || {
                let count = site.proxy.sum("/requests/responses_5xx").await;
                (count == 1).then_some(())
            })
            .await;
        })
        .await;
        let story = site.story(1).await;
        story.assert_ended(0, "client_gone");
        assert_eq!(story.answered(), [false]);
        assert_eq!(story.tries()[0]["status"], 503);
        assert_eq!(story.decision["failed"], false);
    }
}

#[tokio::test]
async fn last_retryable_response_is_recorded_as_forwarded() {
    for (name, body) in [("last-empty", EMPTY), ("last-full", FULL)] {
        let replicas = pair(move |_, mut connection| async move {
            connection.send(&format!("HTTP/1.1 503 X\r\n{body}")).await;
            connection.more().await;
        })
        .await;
        let addresses = replicas.each_ref().map(|it| it.address);
        let site = Site::new(name, &addresses, "error_aversion.enabled = false").await;
        let answer = get(site.proxy.address, "/").await;
        assert_eq!(
            (answer.status, answer.body.len()),
            (503, usize::from(body == FULL) * 2)
        );
        let story = site.story(2).await;
        story.assert_ended(503, "complete");
        assert_eq!(story.answered(), [false, true]);
        assert_eq!(story.decision["failed"], true);
        assert_eq!(story.line["replica"], story.tries()[1]["replica"]);
        assert_eq!(story.line["bytes_out"], answer.body.len());
    }
}

const TIE: &str = "[tie]\nenabled = true\ndelay = \"1ms\"\n";

#[tokio::test]
async fn client_that_leaves_an_undecided_hedge_received_nothing() {
    for (name, body) in [("race-empty", EMPTY), ("race-full", FULL)] {
        let replicas = race(body, "").await;
        let addresses = replicas.each_ref().map(|it| it.address);
        let toml = format!("error_aversion.enabled = false\n{TIE}");
        let site = Site::new(name, &addresses, &toml).await;
        leave(&site, async || {
            until("the first has failed", async || {
                let count = site.proxy.sum("/requests/responses_5xx").await;
                (count == 1).then_some(())
            })
            .await;
        })
        .await;
        let story = site.story(2).await;
        story.assert_ended(0, "client_gone");
        assert_eq!(story.answered(), [false, false]);
        assert_eq!(story.line["tie"], "lost");
        assert_eq!(story.decision["failed"], false);
        assert_eq!(story.tries()[1]["outcome"], "dropped");
    }
}

#[tokio::test]
async fn winning_hedge_is_recorded_with_its_own_figures() {
    for (name, body) in [("won-empty", EMPTY), ("won-full", FULL)] {
        let half = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nha";
        let replicas = race(body, half).await;
        let addresses = replicas.each_ref().map(|it| it.address);
        let toml = format!("error_aversion.enabled = false\n{TIE}");
        let site = Site::new(name, &addresses, &toml).await;
        let mut client = Client::connect(site.proxy.address).await;
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(client.head().await.starts_with("HTTP/1.1 200 "));
        assert_eq!(client.exactly(2).await, b"ha");
        drop(client);
        let story = site.story(2).await;
        story.assert_ended(200, "client_gone");
        assert_eq!(story.answered(), [false, true]);
        let copy = &story.tries()[1];
        assert_eq!(
            (&story.line["tie"], &copy["kind"]),
            (&"won".into(), &"tie".into())
        );
        assert_eq!(story.line["replica"], copy["replica"]);
        let connect = copy["connect_us"].as_u64().expect("a new connection");
        assert_eq!(story.line["connect_us"], connect);
        assert!(story.line["queue_us"].as_u64() >= copy["sent_us"].as_u64());
    }
}

const CALL: &str = "POST /pkg.Service/Method HTTP/1.1\r\nhost: x\r\nte: trailers\r\n\
    content-type: application/grpc\r\ncontent-length: 0\r\nconnection: close, te\r\n\r\n";

async fn call(address: SocketAddr) -> String {
    let mut client = Client::connect(address).await;
    client.send(CALL).await;
    String::from_utf8(client.rest().await).unwrap()
}

#[tokio::test]
async fn failed_grpc_call_is_a_failure_in_log_decision_and_trace() {
    for (status, name, fails) in [
        ("0", "OK", false),
        ("5", "NOT_FOUND", false),
        ("13", "INTERNAL", true),
    ] {
        for has_body in [false, true] {
            let replica = says(status, has_body).await;
            let label = format!("grpc-{status}-{has_body}");
            let site = Site::new(&label, &[replica.address], "retries.attempts_max = 1").await;
            let answer = call(site.proxy.address).await;
            assert!(
                answer.contains(&format!("grpc-status: {status}\r\n")),
                "{answer}"
            );
            let story = site.story(1).await;
            story.assert_ended(200, "complete");
            assert_eq!(story.answered(), [true]);
            assert_eq!(
                (&story.decision["failed"], story.server.failed),
                (&fails.into(), fails)
            );
            let code: u16 = status.parse().unwrap();
            for told in [&story.line, &story.decision, &story.tries()[0]] {
                assert_eq!(told["grpc_status"], code, "{told}");
            }
            let key = "rpc.response.status_code";
            assert_eq!(
                (story.server.text(key), story.attempts[0].text(key)),
                (name, name)
            );
            let of_server = if fails { name } else { "" };
            let of_attempt = if code == 0 { "" } else { name };
            for (span, error) in [(&story.server, of_server), (&story.attempts[0], of_attempt)] {
                assert_eq!(span.failed, !error.is_empty());
                let told = span.attributes.contains_key("error.type");
                assert_eq!(told, !error.is_empty());
                if told {
                    assert_eq!(span.text("error.type"), error);
                }
            }
            for failed in [true, false] {
                let query = format!("failed={failed}");
                let found = decisions(&site.proxy, &query, 0).await;
                assert_eq!(
                    found.len(),
                    usize::from(failed == fails),
                    "{label}: {query}"
                );
            }
        }
    }
}

#[tokio::test]
async fn failed_grpc_calls_are_kept_and_logged_like_other_failures() {
    for has_body in [false, true] {
        let (bad, well) = (says("13", has_body).await, says("5", has_body).await);
        for (replica, is_told) in [(&bad, true), (&well, false)] {
            let log = Log::new(&format!("grpc-kept-{has_body}-{is_told}"));
            let more =
                "sample = 0\nalways_slower_than = \"1h\"\n[decisions]\nsample = 0\nfailed = true\n";
            let toml = format!("retries.attempts_max = 1\n{}", log.toml(more));
            let proxy = Proxy::start(&[replica.address], &toml);
            call(proxy.address).await;
            // An answer of our own that is always logged, after the other one.
            let mut client = Client::connect(proxy.address).await;
            client
                .send("CONNECT x:1 HTTP/1.1\r\nhost: x:1\r\n\r\n")
                .await;
            assert_eq!(client.answer().await.status, 501);
            let count = usize::from(is_told);
            let lines = log.lines(count + 1).await;
            assert_eq!(lines.len(), count + 1, "{lines:?}");
            let found = decisions(&proxy, "failed=true", count + 1).await;
            assert_eq!(found.len(), count + 1, "{found:?}");
            if is_told {
                assert_eq!(
                    (&lines[0]["status"], &lines[0]["grpc_status"]),
                    (&200.into(), &13.into())
                );
            }
        }
    }
}

#[tokio::test]
async fn proxy_answer_to_a_grpc_call_is_recorded_as_sent() {
    let site = Site::new("grpc-own", &[unused_address().await], "").await;
    let answer = call(site.proxy.address).await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.contains("grpc-status: 14"),
        "{answer}"
    );
    let story = site.story(1).await;
    for told in [&story.line, &story.decision] {
        assert_eq!(
            (&told["status"], &told["grpc_status"]),
            (&200.into(), &14.into()),
            "{told}"
        );
        assert_eq!(told["error"], "no_connection", "{told}");
    }
    assert_eq!(story.decision["failed"], true);
    assert_eq!(story.answered(), [false]);
    assert!(story.server.failed);
    assert_eq!(story.server.number("http.response.status_code"), Some(200));
    assert_eq!(story.server.text("rpc.response.status_code"), "UNAVAILABLE");
    assert_eq!(story.server.text("error.type"), "no_connection");
}

#[tokio::test]
async fn shadow_trial_is_in_log_decision_and_trace() {
    let (_sick, _well, addresses) = fleet(2).await;
    let toml = format!("{CALM}{SHADOWS}");
    let site = Site::new("trial", &addresses, &toml).await;
    let mut client = Client::connect(site.proxy.address).await;
    stands(&site.proxy, &mut client, 0, "ejected").await;
    let found = until("there is a trial", async || {
        assert_eq!(failures(&mut client, "GET", 4).await, 0);
        let found = decisions(&site.proxy, "attempt=trial", 0).await;
        found.into_iter().next_back()
    })
    .await;
    assert_eq!(found["attempts"].as_array().unwrap().len(), 2);
    let line = until("its line is there", async || {
        let lines = site.log.lines(1).await;
        lines.into_iter().find(|line| line["id"] == found["id"])
    })
    .await;
    assert_eq!(line["attempts"], 2);
    assert!(!line["shadow"].is_null());
    let trace = found["trace_id"].as_str().unwrap();
    let spans = until("its spans are there", async || {
        let spans = site.collector.trace(trace);
        (spans.len() == 3).then_some(spans)
    })
    .await;
    let mut told = spans
        .iter()
        .filter_map(|span| span.number("slackwater.attempts"));
    assert_eq!(told.next(), Some(2));
}

/// Whether the response has no `content-length`.
fn is_stream(answer: &Answer) -> bool {
    answer.field("content-length").is_none()
}

#[tokio::test]
async fn large_list_of_decisions_is_chunked() {
    let replica = Replica::echo("a").await;
    let toml = "[decisions]\nsample = 1\ncapacity = 1000\n";
    let proxy = Proxy::start(&[replica.address], toml);
    let mut client = Client::connect(proxy.address).await;
    for _ in 0..300 {
        assert_eq!(client.get("/").await.status, 200);
    }
    decisions(&proxy, "limit=300", 300).await;
    let mut admin = Client::connect(proxy.admin).await;
    assert!(!is_stream(&admin.get("/decisions?limit=1").await));
    let mut admin = Client::connect(proxy.admin).await;
    assert!(is_stream(&admin.get("/decisions?limit=300").await));
}
