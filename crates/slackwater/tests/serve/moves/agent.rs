//! An agent, and the metrics of a proxy before two of them.

use super::{Moved, samples};
use crate::capacity::{BY_CAPACITY, says};
use crate::clients::{Client, get};
use crate::keys;
use crate::proxy::{Proxy, agent, until};
use crate::replicas::Replica;
use crate::ties::{Site, TIED};

pub(super) async fn all(moved: &Moved) {
    let site = Site::new(TIED).await;
    let (first, second) = (&site.agents[0], &site.agents[1]);
    let (before_first, before_second) = (moved.watch(first).await, moved.watch(second).await);
    let before_both = moved.watch(&site.proxy).await;
    let full = [site.fill(0).await, site.fill(1).await];
    let answer = site.ask("/work");
    before_first
        .moves(&[
            "slackwater_own_rif_requests",
            "slackwater_own_started_requests",
            "slackwater_own_waiting_requests",
            "slackwater_own_waiting_age_seconds",
            "slackwater_own_queued_total",
        ])
        .await;
    site.waits_at(1).await;
    // Its timeout is shorter than the wait.
    let mut client = Client::connect(first.address).await;
    client
        .send("GET /soon HTTP/1.1\r\nhost: x\r\nx-slackwater-timeout-ms: 20\r\n\r\n")
        .await;
    assert_eq!(client.answer().await.status, 503);
    before_first.moves(&["slackwater_own_shed_total"]).await;
    site.servers[1].go_on.notify_one();
    site.servers[1].is_asked("/work").await;
    before_first
        .moves(&["slackwater_own_ties_total", "slackwater_own_wait_seconds"])
        .await;
    site.servers[1].go_on.notify_one();
    assert_eq!(answer.await.unwrap().status, 200);
    before_both.moves(&["slackwater_ties_dropped_total"]).await;
    before_second
        .moves(&[
            "slackwater_own_latency_seconds",
            "slackwater_replica_head_seconds",
        ])
        .await;
    site.servers[0].go_on.notify_one();
    for full in full {
        assert_eq!(full.await.unwrap().status, 200);
    }
    learned(moved).await;
    told_with_responses(moved).await;
    hints(moved).await;
    // The server stops.
    let Site {
        servers: [server, _],
        ..
    } = &site;
    server.replica.stop();
    before_first
        .moves(&["slackwater_own_draining", "slackwater_ready"])
        .await;
}

/// What an agent learns of its server, whose process it takes this one for.
async fn learned(moved: &Moved) {
    let server = Replica::echo("server").await;
    let pid_file = std::env::temp_dir().join(format!("slackwater-moves-{}", std::process::id()));
    std::fs::write(&pid_file, std::process::id().to_string()).unwrap();
    let keys = format!(
        "report_with_responses = true\n[replica]\npid_file = \"{}\"\n",
        pid_file.display()
    );
    let agent = agent(server.address, &keys);
    moved
        .watch(&agent)
        .await
        .moves_with_requests(&[
            "slackwater_own_capacity_requests",
            "slackwater_own_capacity_source",
            "slackwater_own_cost_seconds",
            "slackwater_own_cpu_ratio",
        ])
        .await;
    std::fs::remove_file(&pid_file).unwrap();
}

/// Responses carry a capacity, so that requests of a proxy cause fewer probes.
async fn told_with_responses(moved: &Moved) {
    let replica = says("x-slackwater-load: 1;4000;\r\n").await;
    let proxy = Proxy::start(&[replica.address], BY_CAPACITY);
    let watched = moved.watch(&proxy).await;
    let rate = "slackwater_probe_rate{service=\"default\",worker=\"0\"}";
    assert_eq!(watched.first[rate].to_string(), "3", "as configured");
    until("requests ask for half a probe", async || {
        get(proxy.address, "/").await;
        let now = samples(&proxy).await;
        (now[rate].to_string() == "0.5").then_some(())
    })
    .await;
    watched.moves(&["slackwater_probe_rate"]).await;
}

/// A request with a hint is answered, and a probe has the same hint.
async fn hints(moved: &Moved) {
    let replica = Replica::echo("one").await;
    let agent = agent(replica.address, "[hint]\ncache_entries = 10\n");
    let before = moved.watch(&agent).await;
    for path in ["/", "/prequal/probe"] {
        let answer = keys::ask(&agent, path, "x-slackwater-hint: 61\r\n").await;
        assert_eq!(answer.status, 200, "{path}");
    }
    before
        .moves(&[
            "slackwater_own_hint_entries",
            "slackwater_own_hint_probes_total",
        ])
        .await;
}
