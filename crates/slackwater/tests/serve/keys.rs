//! Requests with a key go to the key's replica while it is not busy, and to others of its set when
//! it is busy, down or tried; and probes with hints find the replica that has answered the key.

use crate::clients::{Answer, Client};
use crate::control::{Token, done};
use crate::decisions::decisions;
use crate::proxy::{Proxy, agent, until};
use crate::reload::Written;
use crate::replicas::{Replica, unused_address};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Notify;

const BY_USER: &str = "[key]\nby = \"header:x-user\"\n";
const ALL: &str = "[decisions]\nsample = 1\n";
const USERS: u32 = 64;

/// Replicas that answer `/slow` only when notified.
struct Fleet {
    go_on: Arc<Notify>,
    replicas: Vec<Replica>,
}

const NAMES: [&str; 4] = ["one", "two", "three", "four"];

impl Fleet {
    async fn new(count: usize) -> Self {
        let go_on = Arc::new(Notify::new());
        let mut replicas = Vec::new();
        for name in &NAMES[..count] {
            replicas.push(Replica::slow(&go_on, name).await);
        }
        Self { go_on, replicas }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.replicas
            .iter()
            .map(|replica| replica.address)
            .collect()
    }

    /// The address of a replica in the status, by its name here.
    fn address(&self, name: &str) -> String {
        let place = NAMES.iter().position(|own| *own == name).unwrap();
        self.replicas[place].address.to_string()
    }
}

pub(crate) async fn ask(proxy: &Proxy, path: &str, fields: &str) -> Answer {
    let mut client = Client::connect(proxy.address).await;
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n{fields}\r\n");
    client.send(&head).await;
    client.answer().await
}

/// The name of the replica that answers a user.
async fn home(proxy: &Proxy, user: &str) -> String {
    let answer = ask(proxy, "/", &format!("x-user: {user}\r\n")).await;
    assert_eq!(answer.status, 200);
    answer.text().to_owned()
}

async fn homes(proxy: &Proxy) -> Vec<String> {
    let mut homes = Vec::new();
    for user in 0..USERS {
        homes.push(home(proxy, &user.to_string()).await);
    }
    homes
}

fn counted(names: &[String]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name.as_str()).or_default() += 1;
    }
    counts
}

/// The reasons of a decision's attempts.
fn reasons(decision: &Value) -> Vec<&str> {
    let attempts = decision["attempts"].as_array().unwrap().iter();
    attempts.map(|it| it["reason"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn key_has_the_same_home_through_each_process_and_after_a_restart() {
    let fleet = Fleet::new(3).await;
    let first = Proxy::start(&fleet.addresses(), BY_USER);
    let mut reversed = fleet.addresses();
    reversed.reverse();
    let second = Proxy::start(&reversed, BY_USER);
    let found = homes(&first).await;
    assert_eq!(
        found,
        homes(&second).await,
        "another process, another order"
    );
    assert_eq!(found, homes(&first).await, "again");
    assert_eq!(counted(&found).len(), 3, "each replica has keys: {found:?}");
    let metrics = first.admin_page("/metrics").await;
    let picks = format!(
        "slackwater_picks_total{{service=\"default\",reason=\"key_home\"}} {}",
        2 * USERS
    );
    assert!(metrics.contains(&picks), "{metrics}");
    drop(first);
    let restarted = Proxy::start(&fleet.addresses(), BY_USER);
    assert_eq!(found, homes(&restarted).await);
}

#[tokio::test]
async fn requests_without_a_key_go_where_the_policy_says() {
    let fleet = Fleet::new(3).await;
    let proxy = Proxy::start(&fleet.addresses(), BY_USER);
    let mut names = Vec::new();
    for fields in ["", "x-user: \r\n", "x-other: 1\r\n"] {
        names.push(ask(&proxy, "/", fields).await.text().to_owned());
    }
    names.sort();
    assert_eq!(names, ["one", "three", "two"], "in turn");
    let metrics = proxy.admin_page("/metrics").await;
    let picks = "slackwater_picks_total{service=\"default\",reason=\"turn\"} 3";
    assert!(metrics.contains(picks), "{metrics}");
}

#[tokio::test]
async fn only_keys_of_a_replica_that_leaves_move() {
    let fleet = Fleet::new(3).await;
    let whole = Proxy::start(&fleet.addresses(), BY_USER);
    let before = homes(&whole).await;
    let fewer = Proxy::start(&fleet.addresses()[..2], BY_USER);
    let after = homes(&fewer).await;
    for (user, (old, new)) in before.iter().zip(&after).enumerate() {
        assert!(new == old || old == "three", "user {user}: {old} → {new}");
        assert_ne!(new, "three");
    }
}

#[tokio::test]
async fn drained_replica_gives_up_its_keys_and_gets_them_back() {
    let fleet = Fleet::new(3).await;
    let token = Token::new("keys");
    let proxy = Proxy::start(&fleet.addresses(), &format!("{}{BY_USER}", token.section()));
    let before = homes(&proxy).await;
    let address = fleet.address("two");
    let order = |drained: bool| json!({"replica": address, "drained": drained});
    done(&proxy, "/replica", &order(true)).await;
    let drained = homes(&proxy).await;
    for (old, new) in before.iter().zip(&drained) {
        assert!(new == old || old == "two", "{old} → {new}");
        assert_ne!(new, "two");
    }
    done(&proxy, "/replica", &order(false)).await;
    assert_eq!(homes(&proxy).await, before);
}

/// Holds a request of the user `ann` at its home, whose name is returned.
async fn busy_home(proxy: &Proxy) -> (String, Client) {
    let name = home(proxy, "ann").await;
    let mut held = Client::connect(proxy.address).await;
    held.send("GET /slow HTTP/1.1\r\nhost: x\r\nx-user: ann\r\n\r\n")
        .await;
    until("the home is busy", async || {
        (proxy.sum("/in_flight").await == 1).then_some(())
    })
    .await;
    (name, held)
}

#[tokio::test]
async fn requests_of_a_busy_home_go_to_the_set() {
    let fleet = Fleet::new(3).await;
    let proxy = Proxy::start(
        &fleet.addresses(),
        &format!("{ALL}{BY_USER}set = 2\nbalance_factor = 1\n"),
    );
    // With one in flight there, one more would exceed the mean of three: only the home's latency is
    // known, and counts for all.
    let (name, mut held) = busy_home(&proxy).await;
    let other = home(&proxy, "ann").await;
    assert_ne!(other, name);
    fleet.go_on.notify_one();
    assert_eq!(held.answer().await.text(), name);
    proxy.settled().await;
    assert_eq!(home(&proxy, "ann").await, name, "it is idle again");

    let found = decisions(&proxy, "reason=key_set", 1).await;
    let attempt = &found[0]["attempts"][0];
    assert_eq!(attempt["replica"], fleet.address(&other), "{found:?}");
    let key = &attempt["key"];
    assert_eq!(key["homes"], 1, "{key}");
    let set: Vec<_> = key["set"].as_array().unwrap().iter().collect();
    let shown = |place: usize| {
        (
            &set[place]["replica"],
            &set[place]["load"],
            &set[place]["cap"],
        )
    };
    assert_eq!(
        shown(0),
        (&json!(fleet.address(&name)), &json!(1), &json!(1))
    );
    assert_eq!(
        shown(1),
        (&json!(fleet.address(&other)), &json!(0), &json!(1))
    );
    decisions(&proxy, "reason=key_home", 3).await;
    let words = proxy
        .admin_page("/decisions?reason=key_set&format=text&limit=1")
        .await;
    assert!(words.contains("the key's home is busy or out"), "{words}");
    assert!(words.contains("key: home "), "{words}");
}

#[tokio::test]
async fn requests_of_a_busy_set_go_where_the_policy_says() {
    let fleet = Fleet::new(3).await;
    let proxy = Proxy::start(
        &fleet.addresses(),
        &format!("{ALL}{BY_USER}set = 1\nbalance_factor = 1\n"),
    );
    let (name, mut held) = busy_home(&proxy).await;
    assert_ne!(home(&proxy, "ann").await, name);
    decisions(&proxy, "reason=key_spill", 1).await;
    fleet.go_on.notify_one();
    assert_eq!(held.answer().await.text(), name);
}

#[tokio::test]
async fn balance_factor_of_zero_keeps_all_requests_at_the_home() {
    let fleet = Fleet::new(3).await;
    let proxy = Proxy::start(
        &fleet.addresses(),
        &format!("{BY_USER}balance_factor = 0\n"),
    );
    let home_name = home(&proxy, "ann").await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut client = Client::connect(proxy.address).await;
        client
            .send("GET /slow HTTP/1.1\r\nhost: x\r\nx-user: ann\r\n\r\n")
            .await;
        held.push(client);
    }
    until("they wait", async || {
        (proxy.sum("/in_flight").await == 4).then_some(())
    })
    .await;
    assert_eq!(home(&proxy, "ann").await, home_name);
}

#[tokio::test]
async fn keys_of_any_length_have_a_home() {
    let fleet = Fleet::new(3).await;
    let toml = format!("[limits]\nhead_bytes_max = \"1MiB\"\n{BY_USER}");
    let proxy = Proxy::start(&fleet.addresses(), &toml);
    for length in [1, 4096, 60_000, (1 << 20) - 200] {
        let user = "u".repeat(length);
        let found = home(&proxy, &user).await;
        assert_eq!(home(&proxy, &user).await, found, "{length} bytes");
    }
    let too_long = "u".repeat(1 << 20);
    let answer = ask(&proxy, "/", &format!("x-user: {too_long}\r\n")).await;
    assert_eq!(answer.status, 431);
}

#[tokio::test]
async fn weights_share_the_keys() {
    let fleet = Fleet::new(2).await;
    let [light, heavy] = fleet.addresses()[..] else {
        panic!("two");
    };
    let toml = format!(
        "policy = \"round_robin\"\nprobe.transport = \"none\"\n\
         replicas = [\"{light}\", {{ address = \"{heavy}\", weight = 3 }}]\n\
         key.by = \"header:x-user\"\n"
    );
    let proxy = Proxy::of_file(&toml);
    let mut heavy = 0;
    for user in 0..400 {
        heavy += i32::from(home(&proxy, &user.to_string()).await == "two");
    }
    // Binomial: mean 300, standard deviation 8.7; the bound is six of them. The ports differ with
    // each run.
    assert!((heavy - 300).abs() < 53, "{heavy} of 400");
}

#[tokio::test]
async fn failed_requests_go_on_to_the_next_of_the_set() {
    let fleet = Fleet::new(3).await;
    let mut addresses = fleet.addresses();
    let down = unused_address().await;
    addresses.push(down);
    let toml = format!("{ALL}{BY_USER}set = 2\n[ejection]\nout_max = 0\n");
    let proxy = Proxy::start(&addresses, &toml);
    let found = homes(&proxy).await;
    let tried = decisions(&proxy, "attempt=retry", 1).await;
    for decision in &tried {
        assert_eq!(decision["status"], 200);
        assert_eq!(reasons(decision), ["key_home", "key_set"], "{decision}");
    }
    // The keys of the replica that is down have one replica, too: the next of their set.
    assert_eq!(found, homes(&proxy).await);
}

#[tokio::test]
async fn key_whose_whole_set_is_down_is_answered_elsewhere() {
    let fleet = Fleet::new(2).await;
    let mut addresses = fleet.addresses();
    for _ in 0..4 {
        addresses.push(unused_address().await);
    }
    let toml = format!("{BY_USER}set = 2\n[retries]\nattempts_max = 8\n");
    let proxy = Proxy::start(&addresses, &toml);
    let found = homes(&proxy).await;
    assert_eq!(counted(&found).len(), 2, "{found:?}");
    let metrics = proxy.admin_page("/metrics").await;
    let spilled = metrics
        .lines()
        .find(|line| line.contains("reason=\"key_spill\""));
    assert!(
        spilled.is_some_and(|line| !line.ends_with(" 0")),
        "{metrics}"
    );
}

#[tokio::test]
async fn grpc_metadata_is_a_key_of_calls_only() {
    let fleet = Fleet::new(3).await;
    let toml = "[key]\nby = [\"grpc:x-tenant\", \"query:user\"]\n";
    let proxy = Proxy::start(&fleet.addresses(), toml);
    let call = "content-type: application/grpc\r\nte: trailers\r\nx-tenant: a\r\n";
    let homes = [
        ask(&proxy, "/s/m", call).await,
        ask(&proxy, "/s/other", call).await,
        ask(&proxy, "/s/m?user=1", call).await,
    ];
    let names = homes.each_ref().map(Answer::text);
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");
    let mut plain = Vec::new();
    for _ in 0..3 {
        plain.push(ask(&proxy, "/", "x-tenant: a\r\n").await.text().to_owned());
    }
    plain.sort();
    plain.dedup();
    assert_eq!(plain.len(), 3, "no call, no key");
}

#[tokio::test]
async fn reload_changes_keys() {
    let fleet = Fleet::new(3).await;
    let list: Vec<_> = fleet.addresses().iter().map(ToString::to_string).collect();
    let text = |keys: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"round_robin\"\n\
             probe.transport = \"none\"\nreplicas = {list:?}\n{keys}"
        )
    };
    let written = Written::new("keys", &text(""));
    let proxy = written.serve(&[]);
    assert_eq!(same_user(&proxy).await.len(), 3, "no keys yet");
    for (keys, replicas) in [
        ("key.by = \"header:x-user\"\n", 1),
        ("key.by = \"cookie:sid\"\n", 3),
        ("key.by = [\"cookie:sid\", \"path\"]\n", 1),
    ] {
        written.become_text(&text(keys));
        proxy.signal("HUP");
        until(&format!("{keys} is in force"), async || {
            (same_user(&proxy).await.len() == replicas).then_some(())
        })
        .await;
    }
}

/// The replicas that answer one user three times.
async fn same_user(proxy: &Proxy) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for _ in 0..3 {
        names.insert(home(proxy, "ann").await);
    }
    names
}

/// A server whose work takes as long for each request, and that answers with its name and the
/// head that it received. The latencies of all servers are then alike, and hints decide.
async fn server(name: &'static str) -> Replica {
    Replica::scripted(move |mut connection| async move {
        while let Some(head) = connection.head().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
            connection.answer(&format!("{name}\n{head}")).await;
        }
    })
    .await
}

/// Both homes are probed, and a round of two waits for both. Latency alone decides: an agent may
/// count a request for a moment after the client has its answer, and would then be hot.
const SYNC: &str = "policy = \"prequal_sync\"\n[prequal]\nsync_probes = 2\nsync_deadline = \"10s\"\n\
                    rif_limit_quantile = 1\n[probe]\nhint = \"key\"\nhint_homes = 2\n\
                    [key]\nby = \"header:x-user\"\n";

async fn first_line(proxy: &Proxy, fields: &str) -> (String, String) {
    let answer = ask(proxy, "/", fields).await;
    assert_eq!(answer.status, 200);
    let (name, head) = answer.text().split_once('\n').unwrap();
    (name.to_owned(), head.to_owned())
}

#[tokio::test]
async fn hints_find_the_replica_that_has_answered_the_key() {
    // A replica that remembers the key tells a thousandth of its latency, so that no stall of the
    // machine hides the hint.
    const HINT: &str = "[hint]\ncache_entries = 1000\nscale = 0.001\n";
    let servers = [
        server("one").await,
        server("two").await,
        server("three").await,
    ];
    let agents = servers.each_ref().map(|it| agent(it.address, HINT));
    let addresses = agents.each_ref().map(|agent| agent.address);
    let proxy = Proxy::start(&addresses, SYNC);
    let user = |user: u32| format!("x-user: {user}\r\nx-slackwater-hint: forged\r\n");
    let mut found = Vec::new();
    for number in 0..10 {
        let (name, head) = first_line(&proxy, &user(number)).await;
        // The hint is the agent's; the application is unchanged, and sees nothing of it.
        assert!(!head.contains("x-slackwater-hint"), "{head}");
        found.push(name);
    }
    for round in 0..3 {
        for (number, name) in (0..).zip(&found) {
            let (again, _) = first_line(&proxy, &user(number)).await;
            assert_eq!(again, *name, "user {number} in round {round}");
        }
    }
    drop(proxy);
    let proxy = Proxy::start(&addresses, SYNC);
    for (number, name) in (0..).zip(&found) {
        let (again, _) = first_line(&proxy, &user(number)).await;
        assert_eq!(again, *name, "user {number} after a restart");
    }
    let mut counts = [0; 3];
    for agent in &agents {
        let hints = agent.status().await["own_hints"].clone();
        for (sum, key) in counts.iter_mut().zip(["entries", "hits", "misses"]) {
            *sum += hints[key].as_u64().unwrap();
        }
    }
    // Two probes for each of 50 requests; the first 10 find nothing, and the others one.
    assert_eq!(counts, [10, 40, 60]);
}

#[tokio::test]
async fn forged_hints_do_not_pass_where_hints_are_off() {
    let replica = server("one").await;
    for toml in ["", "[key]\nby = \"path\"\n"] {
        let proxy = Proxy::start(&[replica.address], toml);
        let (_, head) = first_line(&proxy, "x-slackwater-hint: 61\r\nx-other: 1\r\n").await;
        assert!(!head.contains("x-slackwater-hint"), "{toml}{head}");
        assert!(head.contains("x-other"), "{head}");
    }
}

#[tokio::test]
async fn malformed_and_false_hints_do_no_harm() {
    const HINT: &str = "[hint]\ncache_entries = 2\n";
    let replica = server("one").await;
    let agent = agent(replica.address, HINT);
    let long = "ab".repeat(257);
    for hint in ["zz", "a", "", "6b6579", &long] {
        for _ in 0..2 {
            let fields = format!("x-slackwater-hint: {hint}\r\n");
            let (name, head) = first_line(&agent, &fields).await;
            assert_eq!(name, "one", "{hint}");
            assert!(!head.contains("x-slackwater-hint"), "{head}");
        }
    }
    let twice = "x-slackwater-hint: 6b6579\r\nx-slackwater-hint: 6b6579\r\n";
    let (_, head) = first_line(&agent, twice).await;
    assert!(!head.contains("x-slackwater-hint"), "{head}");
}
