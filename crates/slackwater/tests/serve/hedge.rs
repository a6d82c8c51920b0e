//! Second copies of late requests: which requests are hedged, where the copies go, which copy wins,
//! and what the loser sees.

mod http2;

use crate::access_log::Log;
use crate::clients::{Answer, Client, get};
use crate::proxy::{Proxy, until};
use crate::replicas::{Connection, Replica};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// One request is enough to learn the delay, and every hedge is within the budget. A request that
/// is answered at once is not late, even on a busy machine.
pub(crate) const EAGER: &str =
    "[hedge]\nenabled = true\nbudget = 1\nsamples_min = 1\nslow_share = 1\ndelay_min = \"250ms\"\n";

/// Two replicas that answer at once, except for requests to `/late…`: the replica with the first
/// copy of one waits for the test.
pub(crate) struct Pair {
    replicas: [Replica; 2],
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Number of received copies of late requests, by path.
    late: Mutex<HashMap<String, usize>>,
    /// The urgency in the second copies' fields.
    asked: Mutex<Vec<String>>,
    /// Lets the first copy be answered.
    go_on: Notify,
    /// The connection of the first copy was closed before it was answered.
    closed: Notify,
    second: Second,
    /// The first copy is answered with an error once there is a second.
    first_fails: bool,
    /// Lets the second copy be answered then.
    go_on_second: Notify,
}

/// The result of the second copy.
#[derive(Clone, Copy, Default, PartialEq)]
enum Second {
    #[default]
    Answered,
    /// Its connection is cut off.
    Broken,
    /// It receives this answer.
    Failed(&'static str),
}

const FAILED: &str = "HTTP/1.1 500 Oh\r\ncontent-length: 6\r\n\r\nfailed";
const BUSY: &str = "HTTP/1.1 429 Later\r\ncontent-length: 0\r\n\r\n";

impl Pair {
    pub(crate) async fn new() -> Self {
        Self::with(State::default()).await
    }

    async fn with(state: State) -> Self {
        let state = Arc::new(state);
        let replica = async || {
            let state = Arc::clone(&state);
            Replica::scripted(move |connection| serve(connection, Arc::clone(&state))).await
        };
        Self {
            replicas: [replica().await, replica().await],
            state,
        }
    }

    pub(crate) fn addresses(&self) -> [SocketAddr; 2] {
        self.replicas.each_ref().map(|replica| replica.address)
    }

    /// The number of received copies of a late request.
    fn late(&self, path: &str) -> usize {
        let late = self.state.late.lock().unwrap();
        late.get(path).copied().unwrap_or(0)
    }
}

async fn serve(mut connection: Connection, state: Arc<State>) {
    while let Some(head) = connection.head().await {
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |length| length.trim().parse().unwrap());
        let body = if head.contains("transfer-encoding: chunked") {
            connection.body("5\r\norder\r\n0\r\n\r\n".len()).await;
            Vec::from("order")
        } else {
            connection.body(length).await.unwrap_or_default()
        };
        let body = String::from_utf8(body).unwrap();
        if !head.contains(" /late") {
            connection.answer("at once").await;
            continue;
        }
        let path = head.split(' ').nth(1).unwrap().to_owned();
        let copies = {
            let mut late = state.late.lock().unwrap();
            let copies = late.entry(path).or_default();
            *copies += 1;
            *copies
        };
        if copies > 1 {
            match state.second {
                Second::Answered if state.first_fails => {
                    state.go_on.notify_one();
                    state.go_on_second.notified().await;
                }
                Second::Answered => (),
                Second::Broken => return,
                Second::Failed(answer) => {
                    connection.send(answer).await;
                    continue;
                }
            }
            let fields = head.lines().filter(|line| line.contains("priority"));
            state
                .asked
                .lock()
                .unwrap()
                .extend(fields.map(str::to_owned));
            connection.answer(&format!("second {body}")).await;
            continue;
        }
        if state.first_fails {
            state.go_on.notified().await;
            connection.send(FAILED).await;
            continue;
        }
        let is_closed = tokio::select! {
            () = state.go_on.notified() => false,
            _ = connection.more() => true,
        };
        if is_closed {
            state.closed.notify_one();
            return;
        }
        connection.answer(&format!("first {body}")).await;
    }
}

/// Sends two requests, so that there is a delay after which a request is late.
pub(crate) async fn teach(proxy: &Proxy) {
    for _ in 0..2 {
        assert_eq!(get(proxy.address, "/").await.text(), "at once");
    }
}

async fn ask(proxy: &Proxy, head: &str, body: &str) -> Answer {
    let mut client = Client::connect(proxy.address).await;
    let length = body.len();
    let fields = format!("host: x\r\ncontent-length: {length}\r\n\r\n");
    client.send(&format!("{head}{fields}{body}")).await;
    client.answer().await
}

/// Notifies `go_on` once the count is 1.
async fn once(proxy: &Proxy, count: &str, go_on: &Notify) {
    until(count, async || (proxy.sum(count).await == 1).then_some(())).await;
    go_on.notify_one();
}

/// Returns the answer to a late request. Its first copy is answered once a second one was withheld
/// for this reason.
pub(crate) async fn ask_withheld(pair: &Pair, proxy: &Proxy, reason: &str) -> Answer {
    let withheld =
        format!("slackwater_hedges_withheld_total{{service=\"default\",reason=\"{reason}\"}}");
    let before = metric(proxy, &withheld).await;
    let asking = get(proxy.address, "/late");
    let waiting = async {
        until("it is late", async || {
            (metric(proxy, &withheld).await > before).then_some(())
        })
        .await;
        pair.state.go_on.notify_one();
    };
    tokio::join!(asking, waiting).0
}

/// The value on a metric's line.
async fn metric(proxy: &Proxy, line: &str) -> u64 {
    let page = proxy.admin_page("/metrics").await;
    let found = page.lines().find_map(|found| found.strip_prefix(line));
    found.unwrap().trim().parse().unwrap()
}

#[tokio::test]
async fn late_request_is_hedged_and_the_first_copy_cancelled() {
    let pair = Pair::new().await;
    let proxy = Proxy::start(&pair.addresses(), EAGER);
    teach(&proxy).await;
    let answer = get(proxy.address, "/late").await;
    assert_eq!(answer.text(), "second ");
    assert_eq!(answer.field("x-slackwater-attempt"), Some("2"));
    pair.state.closed.notified().await;
    proxy.settled().await;
    assert_eq!(pair.late("/late"), 2);
    assert!(proxy.sum("/requests/hedges").await >= 1);
    assert!(proxy.sum("/requests/superseded").await >= 1);
    assert_eq!(
        proxy.sum("/requests/client_gone").await,
        0,
        "no client left"
    );
    assert_eq!(proxy.sum("/requests/retries").await, 0);
    let service = "{service=\"default\"}";
    assert!(metric(&proxy, &format!("slackwater_hedges_total{service}")).await >= 1);
    assert!(metric(&proxy, &format!("slackwater_hedges_won_total{service}")).await >= 1);
    let unknown = format!("slackwater_hedges_unknown_total{service}");
    assert_eq!(metric(&proxy, &unknown).await, 1, "the very first request");
    let in_time = get(proxy.address, "/").await;
    assert_eq!(in_time.text(), "at once");
}

#[tokio::test]
async fn the_access_log_names_the_copy_that_won() {
    for (second, hedge) in [(Second::Answered, "won"), (Second::Broken, "lost")] {
        let log = Log::new(hedge);
        let pair = Pair::with(State {
            second,
            ..State::default()
        })
        .await;
        let proxy = Proxy::start(&pair.addresses(), &(log.toml("") + EAGER));
        teach(&proxy).await;
        let asking = get(proxy.address, "/late");
        let waiting = async {
            if second == Second::Broken {
                until("the second has failed", async || {
                    (proxy.sum("/requests/broken").await == 1).then_some(())
                })
                .await;
                pair.state.go_on.notify_one();
            }
        };
        tokio::join!(asking, waiting);
        let lines = log.lines(3).await;
        let late = lines.iter().find(|line| line["path"] == "/late").unwrap();
        assert_eq!(late["hedge"], hedge);
        assert_eq!(late["attempts"], 2);
        let others = lines.iter().filter(|line| line["path"] == "/");
        assert!(others.into_iter().all(|line| line["hedge"].is_null()));
        if hedge == "won" {
            let served = late["replica"].as_str().unwrap();
            let hedges = proxy.admin_page("/metrics").await;
            let second = format!(
                "slackwater_replica_hedges_total{{service=\"default\",replica=\"{served}\"}}"
            );
            assert!(!hedges.contains(&format!("{second} 0\n")), "{hedges}");
        }
    }
}

#[tokio::test]
async fn unsafe_requests_are_never_hedged() {
    let pair = Pair::new().await;
    let proxy = Proxy::start(&pair.addresses(), EAGER);
    teach(&proxy).await;
    let posting = ask(&proxy, "POST /late/post HTTP/1.1\r\n", "order");
    let waiting = async {
        until("the order is there", async || {
            (pair.late("/late/post") == 1).then_some(())
        })
        .await;
        // This request is of the same class and starts later: once its copy is sent, that of the
        // order would have been sent, too.
        assert_eq!(get(proxy.address, "/late/get").await.text(), "second ");
        pair.state.closed.notified().await;
        pair.state.go_on.notify_one();
    };
    let (answer, ()) = tokio::join!(posting, waiting);
    assert_eq!(answer.text(), "first order");
    assert_eq!(answer.field("x-slackwater-attempt"), None);
    assert_eq!(pair.late("/late/post"), 1);
}

/// Nothing would move the time at which its copy is due.
#[tokio::test]
async fn late_request_that_cannot_be_copied_costs_no_cpu_time() {
    let pair = Pair::new().await;
    let toml = format!("timeouts.first_byte = \"2s\"\nretries.body_max = 0\n{EAGER}");
    let proxy = Proxy::start(&pair.addresses(), &toml);
    teach(&proxy).await;
    let before = proxy.cpu_time();
    let answer = ask(&proxy, "PUT /late/put HTTP/1.1\r\n", "order").await;
    assert_eq!(answer.status, 504);
    let used = proxy.cpu_time().saturating_sub(before);
    assert!(used < Duration::from_millis(500), "{used:?}");
    assert_eq!(pair.late("/late/put"), 1);
}

#[tokio::test]
async fn a_marked_request_is_sent_twice_with_its_body() {
    let pair = Pair::new().await;
    let proxy = Proxy::start(&pair.addresses(), EAGER);
    teach(&proxy).await;
    let answer = ask(
        &proxy,
        "POST /late HTTP/1.1\r\nidempotency-key: 1\r\n",
        "order",
    )
    .await;
    assert_eq!(answer.text(), "second order");
    pair.state.closed.notified().await;

    // This applies to a chunked body of unknown length, too.
    let mut client = Client::connect(proxy.address).await;
    let head = "PUT /late/chunked HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
    client.send(&format!("{head}5\r\norder\r\n0\r\n\r\n")).await;
    assert_eq!(client.answer().await.text(), "second order");
    pair.state.closed.notified().await;
}

#[tokio::test]
async fn hedge_is_sent_with_the_lowest_priority() {
    let pair = Pair::new().await;
    let proxy = Proxy::start(&pair.addresses(), EAGER);
    teach(&proxy).await;
    for head in [
        "GET /late/plain HTTP/1.1\r\n",
        "GET /late/said HTTP/1.1\r\nx-slackwater-priority: interactive\r\n",
    ] {
        assert_eq!(ask(&proxy, head, "").await.text(), "second ");
        pair.state.closed.notified().await;
    }
    let asked = pair.state.asked.lock().unwrap();
    let shadow = "x-slackwater-priority: shadow";
    assert_eq!(*asked, [shadow, shadow], "whatever was said of the first");
}

#[tokio::test]
async fn no_hedge_without_a_budget() {
    let pair = Pair::new().await;
    let toml = EAGER.replace("budget = 1", "budget = 0");
    let proxy = Proxy::start(&pair.addresses(), &toml);
    teach(&proxy).await;
    let answer = ask_withheld(&pair, &proxy, "budget").await;
    assert_eq!(answer.text(), "first ");
    assert_eq!(answer.field("x-slackwater-attempt"), None);
    assert_eq!(pair.late("/late"), 1);
    assert_eq!(proxy.sum("/requests/hedges").await, 0);
}

#[tokio::test]
async fn late_request_denied_a_hedge_is_checked_again() {
    let pair = Pair::new().await;
    // A fifth of a copy for each request: there are three requests so far, with the late one.
    let toml = EAGER.replace("budget = 1", "budget = 0.2\nburst = 1");
    let proxy = Proxy::start(&pair.addresses(), &toml);
    teach(&proxy).await;
    let withheld = "slackwater_hedges_withheld_total{service=\"default\",reason=\"budget\"}";
    let asking = get(proxy.address, "/late");
    let waiting = async {
        until("it is late", async || {
            (metric(&proxy, withheld).await > 0).then_some(())
        })
        .await;
        teach(&proxy).await;
    };
    let (answer, ()) = tokio::join!(asking, waiting);
    assert_eq!(answer.text(), "second ");
    pair.state.closed.notified().await;
}

#[tokio::test]
async fn there_is_no_hedge_while_all_replicas_are_slow() {
    let pair = Pair::new().await;
    let toml = EAGER.replace("slow_share = 1", "slow_share = 0");
    let proxy = Proxy::start(&pair.addresses(), &toml);
    teach(&proxy).await;
    let answer = ask_withheld(&pair, &proxy, "slow").await;
    assert_eq!(answer.text(), "first ");
    assert_eq!(pair.late("/late"), 1);
}

#[tokio::test]
async fn failed_hedge_waits_for_the_first_copy() {
    let pair = Pair::with(State {
        second: Second::Broken,
        ..State::default()
    })
    .await;
    let proxy = Proxy::start(&pair.addresses(), EAGER);
    teach(&proxy).await;
    let asking = get(proxy.address, "/late");
    let waiting = once(&proxy, "/requests/broken", &pair.state.go_on);
    let (answer, ()) = tokio::join!(asking, waiting);
    assert_eq!(answer.text(), "first ");
    assert_eq!(answer.field("x-slackwater-attempt"), Some("1"));
    // On a kept connection, the request is retried on another one.
    assert!(pair.late("/late") > 1);
    assert_eq!(proxy.sum("/requests/superseded").await, 0);
}

#[tokio::test]
async fn error_response_of_a_hedge_never_wins() {
    for (answer, class) in [
        (FAILED, "/requests/responses_5xx"),
        (BUSY, "/requests/responses_4xx"),
    ] {
        let pair = Pair::with(State {
            second: Second::Failed(answer),
            ..State::default()
        })
        .await;
        let proxy = Proxy::start(&pair.addresses(), EAGER);
        teach(&proxy).await;
        let head = "POST /late HTTP/1.1\r\nidempotency-key: 1\r\n";
        let asking = ask(&proxy, head, "order");
        let waiting = once(&proxy, class, &pair.state.go_on);
        let (answer, ()) = tokio::join!(asking, waiting);
        assert_eq!(answer.text(), "first order");
        assert_eq!(answer.field("x-slackwater-attempt"), Some("1"));
        let won = "slackwater_hedges_won_total{service=\"default\"}";
        assert_eq!(metric(&proxy, won).await, 0);
    }
}

#[tokio::test]
async fn error_response_of_a_hedge_is_better_than_none() {
    let pair = Pair::with(State {
        second: Second::Failed(FAILED),
        ..State::default()
    })
    .await;
    let toml = EAGER.to_owned() + "[timeouts]\nfirst_byte = \"1s\"\n";
    let proxy = Proxy::start(&pair.addresses(), &toml);
    teach(&proxy).await;
    let won = "slackwater_hedges_won_total{service=\"default\"}";
    let before = metric(&proxy, won).await;
    let answer = get(proxy.address, "/late").await;
    assert_eq!((answer.status, answer.text()), (500, "failed"));
    assert_eq!(answer.field("x-slackwater-attempt"), Some("2"));
    assert_eq!(metric(&proxy, won).await, before + 1);
    assert_eq!(proxy.sum("/requests/timeouts").await, 1);
}

#[tokio::test]
async fn error_of_the_first_copy_waits_for_the_hedge() {
    let pair = Pair::with(State {
        first_fails: true,
        ..State::default()
    })
    .await;
    let proxy = Proxy::start(&pair.addresses(), EAGER);
    teach(&proxy).await;
    let asking = get(proxy.address, "/late");
    let waiting = once(&proxy, "/requests/responses_5xx", &pair.state.go_on_second);
    let (answer, ()) = tokio::join!(asking, waiting);
    assert_eq!((answer.status, answer.text()), (200, "second "));
    proxy.settled().await;
    assert_eq!(proxy.sum("/requests/superseded").await, 0, "it had ended");
}

#[tokio::test]
async fn sticky_request_is_not_hedged() {
    let pair = Pair::new().await;
    let toml = format!("{EAGER}[sticky]\nby = \"header\"\nheader = \"x-user\"\n");
    let proxy = Proxy::start(&pair.addresses(), &toml);
    teach(&proxy).await;
    let asking = ask(&proxy, "GET /late/mine HTTP/1.1\r\nx-user: 7\r\n", "");
    let waiting = async {
        until("it is there", async || {
            (pair.late("/late/mine") == 1).then_some(())
        })
        .await;
        // This request is not sticky, starts later, and is late as soon.
        assert_eq!(get(proxy.address, "/late").await.text(), "second ");
        pair.state.closed.notified().await;
        pair.state.go_on.notify_one();
    };
    let (answer, ()) = tokio::join!(asking, waiting);
    assert_eq!(answer.text(), "first ");
    assert_eq!(answer.field("x-slackwater-attempt"), None);
}
