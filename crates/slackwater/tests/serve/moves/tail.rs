//! Retries and hedges, and their budgets.

use super::Moved;
use crate::clients::{Client, ask, get};
use crate::hedge::{EAGER, Pair, ask_withheld, teach};
use crate::proxy::{Proxy, until};
use crate::replicas::Replica;
use crate::ties::{Server, TIED};
use std::sync::Arc;
use tokio::sync::Notify;

pub(super) async fn all(moved: &Moved) {
    retried(moved).await;
    hedged(moved).await;
    withheld(moved).await;
    tied(moved).await;
}

async fn retried(moved: &Moved) {
    let go_on = Arc::new(Notify::new());
    let bad = Replica::closing().await;
    let well = Replica::slow(&go_on, "well").await;
    let toml = "[retries]\nbudget_share = 1\nbudget_min = 0\n";
    let proxy = Proxy::start(&[bad.address, well.address], toml);
    let watched = moved.watch(&proxy).await;
    let mut client = Client::connect(proxy.address).await;
    client.send("GET /slow HTTP/1.1\r\nhost: x\r\n\r\n").await;
    watched.moves(&["slackwater_budget_size_requests"]).await;
    go_on.notify_one();
    assert_eq!(client.answer().await.status, 200);
    watched
        .moves_with_requests(&[
            "slackwater_retries_total",
            "slackwater_request_failures_total",
        ])
        .await;

    let toml = "[retries]\nbudget_share = 0\nbudget_min = 0\n";
    let proxy = Proxy::start(&[bad.address, well.address], toml);
    let watched = moved.watch(&proxy).await;
    watched
        .moves_with_requests(&["slackwater_retries_over_budget_total"])
        .await;
}

async fn hedged(moved: &Moved) {
    let pair = Pair::new().await;
    let proxy = Proxy::start(&pair.addresses(), EAGER);
    let watched = moved.watch(&proxy).await;
    teach(&proxy).await;
    watched
        .moves(&[
            "slackwater_hedges_unknown_total",
            "slackwater_budget_left_requests",
        ])
        .await;
    assert_eq!(get(proxy.address, "/late").await.text(), "second ");
    watched
        .moves(&[
            "slackwater_hedges_total",
            "slackwater_hedges_won_total",
            "slackwater_replica_hedges_total",
            "slackwater_replica_superseded_total",
            "slackwater_replica_connections_ended_total",
        ])
        .await;
}

/// Hedges without a budget.
async fn withheld(moved: &Moved) {
    let pair = Pair::new().await;
    let toml = EAGER.replace("budget = 1", "budget = 0");
    let proxy = Proxy::start(&pair.addresses(), &toml);
    let watched = moved.watch(&proxy).await;
    teach(&proxy).await;
    ask_withheld(&pair, &proxy, "budget").await;
    watched.moves(&["slackwater_hedges_withheld_total"]).await;
}

async fn tied(moved: &Moved) {
    let servers = [Server::new("one").await, Server::new("other").await];
    let addresses = servers.each_ref().map(|server| server.replica.address);
    let toml = format!("{TIED}budget = 0\nburst = 2\n");
    let proxy = Proxy::start(&addresses, &toml);
    let watched = moved.watch(&proxy).await;
    // One of the two has the second copy, so each of them is once the one that answers.
    for (path, answers) in [("/one", &servers[0]), ("/other", &servers[1])] {
        let asked = ask(proxy.address, path);
        for server in &servers {
            server.is_asked(path).await;
        }
        answers.go_on.notify_one();
        assert_eq!(asked.await.unwrap().status, 200);
        // The cancelled copy still waits for its notification.
        let given_up = &servers[usize::from(path == "/one")];
        given_up.go_on.notify_one();
        until("it is gone", async || {
            (proxy.sum("/in_flight").await == 0).then_some(())
        })
        .await;
    }
    watched
        .moves(&[
            "slackwater_ties_total",
            "slackwater_ties_sent_total",
            "slackwater_ties_won_total",
        ])
        .await;
    let asked = ask(proxy.address, "/third");
    watched.moves(&["slackwater_ties_over_budget_total"]).await;
    for server in &servers {
        server.go_on.notify_one();
    }
    assert_eq!(asked.await.unwrap().status, 200);
}
