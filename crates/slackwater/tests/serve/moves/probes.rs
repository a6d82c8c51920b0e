//! Probes, their results, and picks by them.

use super::Moved;
use crate::clients::get;
use crate::members::probed;
use crate::proxy::Proxy;
use crate::replicas::Replica;
use slackwater_tower::server::{End, Load, respond_udp};
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

pub(super) async fn all(moved: &Moved) {
    pool(moved).await;
    late(moved).await;
    rounds(moved).await;
}

async fn pool(moved: &Moved) {
    let (_one, one_load, one_probes, one) = probed("one", 0).await;
    let (_two, two_load, _two_probes, two) = probed("two", 0).await;
    let silent = Replica::echo("silent").await;
    // No probes are sent before the first request.
    let proxy = Proxy::of_file(&format!(
        "policy = \"prequal\"\nreplicas = [{one}{two}\"{}\"]\ndiscovery.warm_up = 0\n\
         [prequal]\nremove_rate = 4\nidle_probes = 0\n",
        silent.address
    ));
    let watched = moved.watch(&proxy).await;
    let _busy: Vec<_> = (0..5).map(|_| one_load.arrive()).collect();
    let mut query = two_load.arrive();
    get(proxy.address, "/").await;
    query.head_ready(End::Success);
    query.finish(End::Success);
    watched
        .moves_with_requests(&[
            "slackwater_probes_sent_total",
            "slackwater_probes_answered_total",
            "slackwater_probes_lost_total",
            "slackwater_reports_removed_total",
            "slackwater_removals_withheld_total",
            "slackwater_replica_reported_rif_requests",
            "slackwater_replica_reported_latency_seconds",
            "slackwater_replica_report_age_seconds",
            "slackwater_pool_reports",
            "slackwater_pool_hot_reports",
            "slackwater_pool_report_age_seconds",
            "slackwater_rif_limit_requests",
            "slackwater_probes_local_total",
            "slackwater_replicas_in_state",
        ])
        .await;
    let address = proxy.address;
    watched
        .moves_while(&["slackwater_probes_skipped_total"], async || {
            tokio::join!(get(address, "/"), get(address, "/"), get(address, "/"));
        })
        .await;
    // A replica learns its capacity only after some requests.
    watched
        .moves_while(
            &[
                "slackwater_replica_reported_capacity_requests",
                "slackwater_replica_reported_cost_seconds",
            ],
            async || {
                get(address, "/").await;
                two_load.arrive().finish(End::Success);
            },
        )
        .await;
    two_load.set_draining(true);
    watched
        .moves_with_requests(&["slackwater_replica_state"])
        .await;
    two_load.set_draining(false);
    drop(one_probes);
    watched
        .moves_with_requests(&["slackwater_replica_state_timestamp_seconds"])
        .await;
}

/// A replica whose answers to probes wait until the test releases them, one at a time; and its
/// entry in the file.
async fn dawdler(go_on: &Arc<Notify>) -> (Replica, AbortOnDropHandle<()>, String) {
    let replica = Replica::echo("late").await;
    let bind = async || UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (outside, behind, inside) = (bind().await, bind().await, bind().await);
    let (probe, behind_it) = (outside.local_addr().unwrap(), behind.local_addr().unwrap());
    let go_on = Arc::clone(go_on);
    let task = tokio::spawn(async move {
        let responder = respond_udp(behind, Load::new(), None);
        let passing = async {
            let mut datagram = [0; 2048];
            loop {
                let (length, from) = outside.recv_from(&mut datagram).await.unwrap();
                go_on.notified().await;
                inside
                    .send_to(&datagram[..length], behind_it)
                    .await
                    .unwrap();
                let length = inside.recv(&mut datagram).await.unwrap();
                outside.send_to(&datagram[..length], from).await.unwrap();
            }
        };
        let _ = tokio::join!(responder, passing);
    });
    let entry = format!(
        "{{ address = \"{}\", probe = \"{probe}\" }},",
        replica.address
    );
    (replica, AbortOnDropHandle::new(task), entry)
}

/// Answers that arrive after their deadline.
async fn late(moved: &Moved) {
    let go_on = Arc::new(Notify::new());
    let (_replica, _task, entry) = dawdler(&go_on).await;
    let proxy = Proxy::of_file(&format!(
        "policy = \"prequal\"\nreplicas = [{entry}]\ndiscovery.warm_up = 0\n"
    ));
    let watched = moved.watch(&proxy).await;
    watched.moves(&["slackwater_probes_idle_total"]).await;
    watched
        .moves_with_requests(&["slackwater_probes_lost_total"])
        .await;
    let address = proxy.address;
    watched
        .moves_while(&["slackwater_reports_ignored_total"], async || {
            go_on.notify_one();
            get(address, "/").await;
        })
        .await;
}

/// Synchronous probing.
async fn rounds(moved: &Moved) {
    let (_one, _, _one_probes, one) = probed("one", 0).await;
    let (_two, _, _two_probes, two) = probed("two", 0).await;
    let proxy = Proxy::of_file(&format!(
        "policy = \"prequal_sync\"\nreplicas = [{one}{two}]\ndiscovery.warm_up = 0\n"
    ));
    let watched = moved.watch(&proxy).await;
    watched
        .moves_with_requests(&[
            "slackwater_sync_rounds_total",
            "slackwater_probing_seconds_total",
        ])
        .await;
}
