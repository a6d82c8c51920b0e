//! The states of replicas, by their requests and by checks.

use super::Moved;
use crate::aversion::{EAGER, PROBATION, failures, probation, says, stands, who_stalls};
use crate::clients::Client;
use crate::health::{HTTP, checked};
use crate::proxy::Proxy;
use crate::replicas::Replica;
use crate::shadow_trials::{CALM, SHADOWS, fleet};
use core::sync::atomic::Ordering;

pub(super) async fn all(moved: &Moved) {
    ejected(moved).await;
    spared(moved).await;
    tried_out(moved).await;
    stalled(moved).await;
    unwell(moved).await;
}

/// Three healthy replicas.
async fn well() -> [Replica; 3] {
    [says(200).await.0, says(200).await.0, says(200).await.0]
}

async fn ejected(moved: &Moved) {
    let ((bad, status), others) = (says(500).await, well().await);
    let all = core::iter::once(&bad).chain(&others);
    let addresses: Vec<_> = all.map(|replica| replica.address).collect();
    let proxy = Proxy::start(&addresses, EAGER);
    let watched = moved.watch(&proxy).await;
    let mut client = Client::connect(proxy.address).await;
    stands(&proxy, &mut client, 0, "ejected").await;
    watched
        .moves_with_requests(&[
            "slackwater_ejections_total",
            "slackwater_replica_share",
            "slackwater_replica_success_ratio",
            "slackwater_replica_available",
            "slackwater_trials_total",
        ])
        .await;
    status.store(200, Ordering::SeqCst);
    stands(&proxy, &mut client, 0, "available").await;
    watched
        .moves(&[
            "slackwater_trials_passed_total",
            "slackwater_readmissions_total",
            "slackwater_replica_latency_seconds",
        ])
        .await;
}

/// An ejection that is spared because too many replicas would be ejected.
async fn spared(moved: &Moved) {
    let ((bad, _), others) = (says(500).await, well().await);
    let all = core::iter::once(&bad).chain(&others);
    let addresses: Vec<_> = all.map(|replica| replica.address).collect();
    let proxy = Proxy::start(&addresses, "ejection.out_max = 0.24");
    let watched = moved.watch(&proxy).await;
    watched
        .moves_with_requests(&["slackwater_ejections_spared_total"])
        .await;
}

/// Trials with copies of requests.
async fn tried_out(moved: &Moved) {
    let (_sick, _well, addresses) = fleet(2).await;
    let proxy = Proxy::start(&addresses, &(CALM.to_owned() + SHADOWS));
    let watched = moved.watch(&proxy).await;
    let mut client = Client::connect(proxy.address).await;
    watched
        .moves_while(&["slackwater_shadow_trials_total"], async || {
            failures(&mut client, "GET", 4).await;
        })
        .await;
}

async fn stalled(moved: &Moved) {
    let (replicas, stalls) = who_stalls().await;
    let addresses: Vec<_> = replicas.iter().map(|replica| replica.address).collect();
    let proxy = Proxy::start(&addresses, PROBATION);
    let watched = moved.watch(&proxy).await;
    probation(&proxy, &stalls).await;
    watched.moves(&["slackwater_probations_total"]).await;
}

async fn unwell(moved: &Moved) {
    let (replica, status) = checked("one", 200).await;
    let proxy = Proxy::start(&[replica.address], HTTP);
    let watched = moved.watch(&proxy).await;
    watched.moves(&["slackwater_health_checks_total"]).await;
    status.store(503, Ordering::SeqCst);
    watched
        .moves(&[
            "slackwater_replica_healthy",
            "slackwater_replica_health_changes_total",
            // The only replica is down, so the service fails.
            "slackwater_service_failing",
            "slackwater_problems",
        ])
        .await;
}
