//! Fleets and configurations that change.

use super::{Moved, is_of, samples};
use crate::aversion::failures;
use crate::clients::Client;
use crate::control::{controlled, done, send};
use crate::proxy::until;
use crate::reload::{Written, reload};
use crate::replicas::Replica;
use crate::xds;
use serde_json::json;

pub(super) async fn all(moved: &Moved) {
    reread(moved).await;
    followed(moved).await;
    planned(moved).await;
    ordered(moved).await;
}

async fn reread(moved: &Moved) {
    let mut replicas = Vec::new();
    for name in ["one", "two", "three", "four"] {
        replicas.push(Replica::echo(name).await);
    }
    let entries = replicas
        .iter()
        .map(|it| format!("address = \"{}\"", it.address));
    let entries: Vec<_> = entries.collect();
    let one = &entries[0];
    let three = format!("{{ {one} }}, {{ {} }}, {{ {} }}", entries[1], entries[2]);
    let config = |policy: &str, replicas: &str| {
        format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"{policy}\"\nreplicas = [{replicas}]\n\
             probe.transport = \"none\"\ndiscovery.warm_up = \"1h\"\n[admin]\nmetrics_replicas_max = 1\n"
        )
    };
    let turn = |replicas: &str| config("round_robin", replicas);
    let written = Written::new("moves", &turn(&three));
    let proxy = written.serve(&[]);
    let watched = moved.watch(&proxy).await;
    // One replica must be established, so that another one counts as new.
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(failures(&mut client, "GET", 40).await, 0);
    written.become_text(&turn(&format!("{three}, {{ {} }}", entries[3])));
    reload(&proxy);
    watched
        .moves_with_requests(&[
            "slackwater_reloads_total",
            "slackwater_reload_timestamp_seconds",
            "slackwater_metrics_folded_replicas",
            "slackwater_warm_ups_total",
        ])
        .await;
    written.become_text(&turn(&format!("{{ {one}, weight = 3 }}")));
    reload(&proxy);
    watched.moves(&["slackwater_replica_weight"]).await;
    written.become_text(&turn(&format!("{{ {one}, tier = 1 }}")));
    reload(&proxy);
    watched
        .moves_with_requests(&["slackwater_tier", "slackwater_replica_tier"])
        .await;
    written.become_text(&turn(&format!("{{ {one}, weight = 0 }}")));
    reload(&proxy);
    watched
        .moves_with_requests(&["slackwater_no_replica_total"])
        .await;
    written.become_text(&config("random", &format!("{{ {one} }}")));
    reload(&proxy);
    watched.moves(&["slackwater_service_info"]).await;
    written.become_text(&config("randomly", &format!("{{ {one} }}")));
    reload(&proxy);
    watched.moves(&["slackwater_reload_failing"]).await;
}

/// A fleet in a separate file.
async fn followed(moved: &Moved) {
    let replica = Replica::echo("one").await;
    let fleet = Written::new(
        "moves-fleet",
        &format!("replicas = [\"{}\"]\n", replica.address),
    );
    let written = Written::new(
        "moves-followed",
        &format!(
            "listen = \"127.0.0.1:0\"\nworkers = 1\npolicy = \"round_robin\"\ndiscovery.file = \"{}\"\n\
             probe.transport = \"none\"\nzone.name = \"here\"\n",
            fleet.path().display()
        ),
    );
    let proxy = written.serve(&[]);
    let watched = moved.watch(&proxy).await;
    let other = Replica::echo("two").await;
    fleet.become_text(&format!("replicas = [\"{}\"]\n", other.address));
    watched
        .moves(&[
            "slackwater_fleet_changes_total",
            "slackwater_fleet_answered_timestamp_seconds",
        ])
        .await;
    fleet.become_text(&format!(
        "replicas = [{{ address = \"{}\", zone = \"elsewhere\" }}]\n",
        other.address
    ));
    watched
        .moves_with_requests(&["slackwater_far_requests_total"])
        .await;
    fleet.become_text("replicas = []\n");
    watched
        .moves(&[
            "slackwater_fleet_failing",
            "slackwater_fleet_failures_total",
        ])
        .await;
}

/// A fleet of a control plane, whose stream ends.
async fn planned(moved: &Moved) {
    let replica = Replica::echo("one").await;
    let plane = xds::ControlPlane::start().await;
    let written = Written::new("moves-xds", &xds::config(&plane));
    plane.send("1", &[&replica]);
    let proxy = written.serve(&[]);
    // The control plane runs on this thread, so it may answer only now.
    until("there is a stream", async || {
        let found = samples(&proxy).await;
        let is_connected = |(name, value): (&String, &f64)| {
            is_of(name, "slackwater_xds_connected") && *value > 0.0
        };
        found.iter().any(is_connected).then_some(())
    })
    .await;
    let watched = moved.watch(&proxy).await;
    plane.send("2", &[&replica]);
    watched.moves(&["slackwater_xds_responses_total"]).await;
    plane.end();
    watched.moves(&["slackwater_xds_streams_total"]).await;
    // No server listens any more, so it stays without a stream.
    drop(plane);
    watched.moves(&["slackwater_xds_connected"]).await;
}

/// Authorized and unauthorized changes by operators.
async fn ordered(moved: &Moved) {
    let replicas = [Replica::echo("one").await, Replica::echo("two").await];
    let (proxy, _written, _token) = controlled("moves", &[&replicas[0], &replicas[1]]);
    let watched = moved.watch(&proxy).await;
    let name = replicas[0].address.to_string();
    let drained = json!({ "replica": name, "drained": true });
    done(&proxy, "/replica", &drained).await;
    watched
        .moves(&[
            "slackwater_overrides",
            "slackwater_replica_state",
            "slackwater_replica_state_timestamp_seconds",
            "slackwater_replicas_in_state",
        ])
        .await;
    assert_eq!(send(&proxy, "POST /reload", "", "{}").await.0, 401);
    watched.moves(&["slackwater_overrides_refused_total"]).await;
}
