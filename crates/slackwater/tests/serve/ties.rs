//! Tied requests: a proxy, agents with queues, and servers that process one request at a time. The
//! tests check which copies reach a server, and how the other ones are reported and counted.

use crate::clients::{Answer, Client, ask};
use crate::proxy::{Proxy, agent, until};
use crate::replicas::{Replica, unused_address};
use core::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Enough time for an agent that starts a request to report it before the second copy arrives.
pub(crate) const TIED: &str = "[tie]\nenabled = true\ndelay = \"300ms\"\n";

/// Keys of an agent that starts one request at a time, and shares tied requests on this machine.
const QUEUED: &str =
    "[queue]\nrequests_max = 1\nwait_max = \"1m\"\n[tie]\npeers = [\"127.0.0.0/8\"]\n";

/// A server that answers each request when notified; at `/break` the server `other` breaks the
/// connection.
pub(crate) struct Server {
    pub(crate) replica: Replica,
    pub(crate) go_on: Arc<Notify>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) async fn new(name: &'static str) -> Self {
        let (go_on, heads) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
        let (told, notes) = (Arc::clone(&go_on), Arc::clone(&heads));
        let replica = Replica::scripted(move |mut connection| {
            let (go_on, heads): (_, Arc<Mutex<Vec<String>>>) =
                (Arc::clone(&told), Arc::clone(&notes));
            async move {
                while let Some(head) = connection.head().await {
                    let breaks = name == "other" && head.starts_with("GET /break");
                    heads.lock().unwrap().push(head);
                    if breaks {
                        return;
                    }
                    go_on.notified().await;
                    connection.answer(name).await;
                }
            }
        });
        Self {
            replica: replica.await,
            go_on,
            heads,
        }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Number of requests for this path that it received.
    fn asked(&self, path: &str) -> usize {
        let begin = format!(" {path} ");
        self.heads()
            .iter()
            .filter(|head| head.contains(&begin))
            .count()
    }

    pub(crate) async fn is_asked(&self, path: &str) {
        until("the server is asked", async || {
            (self.asked(path) > 0).then_some(())
        })
        .await;
    }
}

/// Two agents, each before a server, and a proxy before them.
pub(crate) struct Site {
    pub(crate) servers: [Server; 2],
    pub(crate) agents: [Proxy; 2],
    pub(crate) proxy: Proxy,
}

impl Site {
    pub(crate) async fn new(keys: &str) -> Self {
        let servers = [Server::new("one").await, Server::new("other").await];
        let agents = servers
            .each_ref()
            .map(|server| agent(server.replica.address, QUEUED));
        let addresses = agents.each_ref().map(|agent| agent.address);
        Self {
            servers,
            agents,
            proxy: Proxy::start(&addresses, keys),
        }
    }

    /// Takes the only permit at the server behind that agent.
    pub(crate) async fn fill(&self, number: usize) -> JoinHandle<Answer> {
        let asking = ask(self.agents[number].address, "/full");
        self.servers[number].is_asked("/full").await;
        asking
    }

    pub(crate) fn ask(&self, path: &'static str) -> JoinHandle<Answer> {
        ask(self.proxy.address, path)
    }

    /// Waits until a request is queued at the agent.
    pub(crate) async fn waits_at(&self, number: usize) {
        until("it waits", async || {
            let status = self.agents[number].status().await;
            (status["own_queue"]["waiting"]["interactive"] == 1).then_some(())
        })
        .await;
    }

    /// One of the agent's counts.
    async fn ties(&self, number: usize, count: &str) -> u64 {
        self.agents[number].status().await["own_ties"][count]
            .as_u64()
            .unwrap()
    }

    async fn drops(&self, number: usize) {
        until("a copy is dropped", async || {
            (self.ties(number, "dropped").await > 0).then_some(())
        })
        .await;
    }

    /// Waits until the proxy has read the report of a dropped copy. A response to the other copy
    /// that it reads before would end its interest in that report.
    async fn proxy_reads_of_the_drop(&self) {
        until("the proxy counts the dropped copy", async || {
            (counts(&self.proxy).await[3] > 0).then_some(())
        })
        .await;
    }
}

/// Counts of the proxy's service: tied requests, second copies sent, won by a second copy, dropped
/// by a replica, without a second copy for lack of budget.
async fn counts(proxy: &Proxy) -> [u64; 5] {
    let status = proxy.status().await;
    let admission = &status["services"][0]["admission"];
    [
        "ties",
        "ties_sent",
        "ties_won",
        "ties_dropped",
        "ties_over_budget",
    ]
    .map(|name| admission[name].as_u64().unwrap())
}

#[tokio::test]
async fn waiting_copy_leaves_its_queue_when_the_other_starts() {
    let site = Site::new(TIED).await;
    let full = [site.fill(0).await, site.fill(1).await];
    let answer = site.ask("/work");
    site.waits_at(0).await;
    site.waits_at(1).await;
    site.servers[1].go_on.notify_one();
    site.servers[1].is_asked("/work").await;
    site.drops(0).await;
    site.proxy_reads_of_the_drop().await;
    site.servers[1].go_on.notify_one();
    let answer = answer.await.unwrap();
    assert_eq!((answer.status, answer.text()), (200, "other"));
    let won = match answer.field("x-slackwater-attempt") {
        Some("1") => 0,
        Some("2") => 1,
        other => panic!("{other:?}"),
    };
    site.servers[0].go_on.notify_one();
    for full in full {
        assert_eq!(full.await.unwrap().status, 200);
    }
    site.proxy.settled().await;
    assert_eq!(site.servers[0].asked("/work"), 0, "nothing is done twice");
    assert_eq!(site.ties(1, "notified").await, 1);
    assert_eq!(
        site.ties(0, "doubled").await + site.ties(1, "doubled").await,
        0
    );
    assert_eq!(counts(&site.proxy).await, [1, 1, won, 1, 0]);
    // A dropped copy counts neither as a failure nor as load.
    assert_eq!(site.proxy.sum("/requests/superseded").await, 1);
    for none in ["responses_5xx", "shed", "retries", "client_gone"] {
        assert_eq!(
            site.proxy.sum(&format!("/requests/{none}")).await,
            0,
            "{none}"
        );
    }
    let dropped = "slackwater_own_ties_total{event=\"dropped\"} 1";
    assert!(
        site.agents[0]
            .admin_page("/metrics")
            .await
            .contains(dropped)
    );
    let dropped = "slackwater_ties_dropped_total{service=\"default\"} 1";
    assert!(site.proxy.admin_page("/metrics").await.contains(dropped));
    let seen = site.servers[1].heads().concat();
    assert!(!seen.contains("x-slackwater-tie"), "{seen}");
}

#[tokio::test]
async fn copy_that_arrives_after_the_other_started_is_dropped() {
    let site = Site::new(TIED).await;
    let answer = site.ask("/work");
    until("a copy is dropped", async || {
        let dropped = site.ties(0, "dropped").await + site.ties(1, "dropped").await;
        (dropped > 0).then_some(())
    })
    .await;
    until("it has started", async || {
        let asked = site.servers.iter().map(|server| server.asked("/work"));
        (asked.sum::<usize>() > 0).then_some(())
    })
    .await;
    let asked = site.servers.each_ref().map(|server| server.asked("/work"));
    assert_eq!(asked[0] + asked[1], 1, "there was room at both");
    site.proxy_reads_of_the_drop().await;
    site.servers[asked[1]].go_on.notify_one();
    let answer = answer.await.unwrap();
    assert_eq!(
        (answer.status, answer.text()),
        (200, ["one", "other"][asked[1]])
    );
    assert_eq!(answer.field("x-slackwater-attempt"), Some("1"));
    assert_eq!(counts(&site.proxy).await, [1, 1, 0, 1, 0]);
}

#[tokio::test]
async fn failed_tied_copy_is_retried_where_the_other_was_dropped() {
    let site = Site::new(TIED).await;
    let full = [site.fill(0).await, site.fill(1).await];
    let answer = site.ask("/break");
    site.waits_at(0).await;
    site.waits_at(1).await;
    site.servers[1].go_on.notify_one();
    site.servers[1].is_asked("/break").await;
    site.drops(0).await;
    site.waits_at(0).await;
    site.servers[0].go_on.notify_one();
    site.servers[0].is_asked("/break").await;
    site.servers[0].go_on.notify_one();
    let answer = answer.await.unwrap();
    assert_eq!((answer.status, answer.text()), (200, "one"));
    for full in full {
        assert_eq!(full.await.unwrap().status, 200);
    }
    assert_eq!(site.proxy.sum("/requests/retries").await, 1);
    assert_eq!(
        site.ties(0, "notified").await,
        0,
        "it has no other copy any more"
    );
}

#[tokio::test]
async fn tied_request_succeeds_if_one_agent_is_down() {
    let server = Server::new("one").await;
    let agent = agent(server.replica.address, QUEUED);
    let addresses = [agent.address, unused_address().await];
    for addresses in [addresses, [addresses[1], addresses[0]]] {
        let proxy = Proxy::start(&addresses, TIED);
        let answer = ask(proxy.address, "/work");
        until("the other one is tried", async || {
            (proxy.sum("/requests/connect_failures").await == 1).then_some(())
        })
        .await;
        server.go_on.notify_one();
        let answer = answer.await.unwrap();
        assert_eq!((answer.status, answer.text()), (200, "one"));
        proxy.settled().await;
    }
}

#[tokio::test]
async fn replicas_without_tie_support_run_both_copies_within_the_budget() {
    let servers = [Server::new("one").await, Server::new("other").await];
    let addresses = servers.each_ref().map(|server| server.replica.address);
    let keys = format!("{TIED}budget = 0\nburst = 1\n");
    let proxy = Proxy::start(&addresses, &keys);
    let answer = ask(proxy.address, "/twice");
    for server in &servers {
        server.is_asked("/twice").await;
    }
    let said = servers.each_ref().map(|server| {
        let head = &server.heads()[0];
        let said = head.split("x-slackwater-tie: ").nth(1).unwrap();
        let said = said.lines().next().unwrap();
        let (name, twin) = said.split_once("; twin=").unwrap();
        (name.to_owned(), twin.parse::<SocketAddr>().unwrap())
    });
    assert_eq!(said[0].0, said[1].0);
    assert_eq!((said[0].1, said[1].1), (addresses[1], addresses[0]));
    servers[1].go_on.notify_one();
    let answer = answer.await.unwrap();
    assert_eq!(answer.text(), "other");
    let won = u64::from(answer.field("x-slackwater-attempt") == Some("2"));
    assert_eq!(counts(&proxy).await, [1, 1, won, 0, 0]);
    // No replica dropped a copy, so the budget is used up.
    let answer = ask(proxy.address, "/once");
    until("the budget is spent", async || {
        (counts(&proxy).await[4] == 1).then_some(())
    })
    .await;
    // The replica that gets no copy has nothing in flight.
    assert_eq!(proxy.sum("/in_flight").await, 1);
    // The cancelled first copy still waits for its notification.
    for server in &servers {
        server.go_on.notify_one();
        server.go_on.notify_one();
    }
    assert_eq!(answer.await.unwrap().field("x-slackwater-attempt"), None);
    let once: usize = servers.iter().map(|server| server.asked("/once")).sum();
    assert_eq!(once, 1);
}

#[tokio::test]
async fn only_repeatable_requests_are_tied_and_clients_cannot_tie_any() {
    let servers = [Server::new("one").await, Server::new("other").await];
    let addresses = servers.each_ref().map(|server| server.replica.address);
    for keys in ["", TIED] {
        let proxy = Proxy::start(&addresses, keys);
        for server in &servers {
            server.go_on.notify_one();
        }
        let tie = "x-slackwater-tie: 00c0ffee00c0ffee; twin=127.0.0.1:1\r\n";
        let mut client = Client::connect(proxy.address).await;
        client
            .send(&format!(
                "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n{tie}\r\n"
            ))
            .await;
        assert_eq!(client.answer().await.status, 200);
        assert_eq!(counts(&proxy).await[0], 0);
        let seen: String = servers
            .iter()
            .map(|server| server.heads().concat())
            .collect();
        assert!(!seen.contains("x-slackwater-tie"), "{seen}");
    }
}
