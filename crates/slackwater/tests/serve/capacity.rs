//! Reported capacity with two agents, whose servers process one request at a time and ten.

use crate::clients::{Client, get};
use crate::proxy::{Proxy, agent, until};
use crate::replicas::Replica;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(crate) const BY_CAPACITY: &str =
    "policy = \"shortest_expected_delay\"\n[probe]\ntransport = \"udp\"\n";
/// More concurrent requests than the narrow server can take, but no more than both can.
const CLIENTS: usize = 10;

/// A server that works for 20 ms on each request, `at_a_time` of them concurrently.
async fn server(name: &'static str, at_a_time: usize) -> Replica {
    let places = Arc::new(Semaphore::new(at_a_time));
    Replica::scripted(move |mut connection| {
        let places = Arc::clone(&places);
        async move {
            while connection.head().await.is_some() {
                let place = places.acquire().await.unwrap();
                tokio::time::sleep(Duration::from_millis(20)).await;
                drop(place);
                connection.answer(name).await;
            }
        }
    })
    .await
}

/// How many requests each has answered.
#[derive(Debug, Default)]
struct Answers {
    wide: AtomicU64,
    narrow: AtomicU64,
}

impl Answers {
    fn now(&self) -> [u64; 2] {
        [&self.wide, &self.narrow].map(|count| count.load(Relaxed))
    }
}

/// A client that sends requests forever, and counts the replicas that answer.
async fn ask_on(proxy: SocketAddr, answers: Arc<Answers>) {
    let mut client = Client::connect(proxy).await;
    loop {
        let answer = client.get("/").await;
        assert_eq!(answer.status, 200);
        let head = answer.head.to_ascii_lowercase();
        assert!(
            !head.contains("x-slackwater-load"),
            "clients receive no load: {head}"
        );
        let count = match answer.text() {
            "wide" => &answers.wide,
            _ => &answers.narrow,
        };
        count.fetch_add(1, Relaxed);
    }
}

/// Runs clients until the condition holds.
async fn under_load(proxy: &Proxy, what: &str, mut holds: impl AsyncFnMut(&Answers) -> bool) {
    let answers = Arc::new(Answers::default());
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(ask_on(proxy.address, Arc::clone(&answers)));
    }
    let waiting = until(what, async || holds(&answers).await.then_some(()));
    tokio::select! {
        () = waiting => (),
        Some(ended) = clients.join_next() => ended.unwrap(),
    }
}

/// Agents need single requests to learn the service time without contention. Without it, and
/// without CPU figures, none reports a capacity.
async fn ask_alone(agents: &[Proxy; 2]) {
    for agent in agents {
        let mut client = Client::connect(agent.address).await;
        for _ in 0..40 {
            client.get("/").await;
        }
    }
}

async fn replicas(proxy: &Proxy) -> Vec<serde_json::Value> {
    let status = proxy.status().await;
    status["replicas"].as_array().unwrap().clone()
}

async fn carried(proxy: &Proxy) -> Vec<u64> {
    let replicas = replicas(proxy).await;
    (replicas.iter())
        .map(|replica| replica["requests"]["reports_carried"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn requests_follow_the_capacity_reported_in_responses() {
    let (wide, narrow) = (server("wide", 10).await, server("narrow", 1).await);
    let keys = "report_with_responses = true\n";
    let agents = [wide.address, narrow.address].map(|server| agent(server, keys));
    let addresses = agents.each_ref().map(|agent| agent.address);
    let toml = format!("{BY_CAPACITY}[decisions]\nsample = 1\n");
    let proxy = Proxy::start(&addresses, &toml);
    ask_alone(&agents).await;
    let mut since = [0, 0];
    under_load(
        &proxy,
        "the wide one gets six times as many",
        async |answers| {
            let now = answers.now();
            let [wide, narrow] = [now[0] - since[0], now[1] - since[1]];
            if wide + narrow < 200 {
                return false;
            }
            since = now;
            wide >= 6 * narrow
        },
    )
    .await;
    let carried = carried(&proxy).await;
    assert!(carried.iter().all(|reports| *reports > 0), "{carried:?}");
    let metrics = proxy.admin_page("/metrics").await;
    assert!(metrics.contains("slackwater_reports_carried_total{"));
    assert!(metrics.contains("slackwater_replica_reported_capacity_requests{"));
    assert!(metrics.contains("slackwater_replica_reported_cost_seconds{"));
    let reported = replicas(&proxy).await;
    let [wide, narrow] = [0, 1].map(|place| &reported[place]["reported"]);
    let capacity = |of: &serde_json::Value| of["capacity_millirif"].as_u64().unwrap();
    assert!(capacity(wide) > capacity(narrow), "{wide}, {narrow}");
    assert!(wide["cost_us"].is_u64(), "{wide}");
    let why = "/decisions?reason=lowest_score&limit=1&format=text";
    let why = proxy.admin_page(why).await;
    assert!(why.contains(" that it can carry ("), "{why}");
    assert!(why.contains(", a request costs "), "{why}");
    let told = until("only the one who asks is there", async || {
        let told = get(agents[0].address, "/").await;
        let load = told.field("x-slackwater-load")?;
        load.strip_prefix("0;").map(str::to_owned)
    })
    .await;
    let (capacity, cost) = told.split_once(';').unwrap();
    assert!(capacity.parse::<u32>().is_ok(), "{told}");
    assert!(cost.parse::<u64>().is_ok(), "{told}");
}

#[tokio::test]
async fn orca_reports_are_read_too() {
    let servers = [server("wide", 10).await, server("narrow", 1).await];
    let agents = servers
        .each_ref()
        .map(|server| agent(server.address, "orca = \"json\"\n"));
    let proxy = Proxy::start(&agents.each_ref().map(|agent| agent.address), BY_CAPACITY);
    ask_alone(&agents).await;
    under_load(&proxy, "both say it with responses", async |_| {
        carried(&proxy).await.iter().all(|reports| *reports > 0)
    })
    .await;
}

/// A replica that adds these fields to its responses.
pub(crate) async fn says(fields: &'static str) -> Replica {
    Replica::scripted(move |mut connection| async move {
        while connection.head().await.is_some() {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n{fields}\r\n");
            connection.send(&head).await;
        }
    })
    .await
}

#[tokio::test]
async fn unreadable_reports_are_removed_and_other_policies_forward_them() {
    let bad = "x-slackwater-load: 1;;\r\nx-slackwater-load: 2;;\r\nage: 7\r\n";
    let replica = says(bad).await;
    let proxy = Proxy::start(&[replica.address], BY_CAPACITY);
    let answer = get(proxy.address, "/").await;
    assert_eq!(answer.field("x-slackwater-load"), None, "{}", answer.head);
    assert_eq!(answer.field("age"), Some("7"));
    assert_eq!(carried(&proxy).await, [0]);
    let good = says("x-slackwater-load: 1;4000;\r\n").await;
    let proxy = Proxy::start(&[good.address], BY_CAPACITY);
    let answer = get(proxy.address, "/").await;
    assert_eq!(answer.field("x-slackwater-load"), None);
    assert_eq!(carried(&proxy).await, [1]);
    let other = Proxy::start(&[good.address], "");
    let answer = get(other.address, "/").await;
    let load = answer.field("x-slackwater-load");
    assert_eq!(load, Some("1;4000;"), "the policy does not read it");
    assert_eq!(carried(&other).await, [0]);
}
