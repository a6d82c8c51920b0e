//! Policies that a cluster chooses: they change while requests run, and are under the operator's.

use super::{ControlPlane, assignment, field};
use crate::clients::Client;
use crate::control::{Token, done, overrides};
use crate::proxy::{Proxy, until};
use crate::reload::{Written, reload};
use crate::replicas::Replica;
use crate::upgrade::{process, successor_of};
use core::sync::atomic::{AtomicBool, Ordering};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::task::JoinSet;

const CDS: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const TYPED_STRUCT: &[u8] = b"type.googleapis.com/xds.type.v3.TypedStruct";

/// A field of a configuration.
fn entry(name: &str, value: &[u8]) -> Vec<u8> {
    field(1, &[field(1, name.as_bytes()), field(2, value)].concat())
}

fn text(text: &str) -> Vec<u8> {
    field(3, text.as_bytes())
}

/// A number is a double, as in every `Struct`.
fn number(number: f64) -> Vec<u8> {
    [&[2 << 3 | 1], &number.to_le_bytes()[..]].concat()
}

/// A cluster with its endpoints inside, whose policy has this name and these texts for fields of
/// `prequal`. Without a name, it chooses none.
fn cluster(replicas: &[&Replica], policy: Option<&str>, prequal: &[(&str, &str)]) -> Vec<u8> {
    let config = policy.map(|name| {
        let prequal = prequal.iter();
        let prequal = prequal.map(|(name, value)| entry(name, &text(value)));
        let prequal = field(5, &prequal.collect::<Vec<_>>().concat());
        [entry("policy", &text(name)), entry("prequal", &prequal)].concat()
    });
    cluster_with("web", replicas, config)
}

/// A cluster with its endpoints inside, and this encoded configuration of a policy.
fn cluster_with(name: &str, replicas: &[&Replica], config: Option<Vec<u8>>) -> Vec<u8> {
    let mut cluster = [field(1, name.as_bytes()), field(33, &assignment(replicas))].concat();
    if let Some(config) = config {
        let typed = [
            field(1, b"type.googleapis.com/slackwater"),
            field(2, &config),
        ]
        .concat();
        let any = [field(1, TYPED_STRUCT), field(2, &typed)].concat();
        let extension = field(4, &field(2, &any));
        cluster.extend(field(41, &field(1, &extension)));
    }
    cluster
}

async fn policy_is(proxy: &Proxy, name: &str) {
    until("the policy is in force", async || {
        let found = proxy.status().await;
        (found["services"][0]["policy"] == name).then_some(())
    })
    .await;
}

/// Clients whose requests must all be answered, until they are stopped.
struct Clients {
    are_over: Arc<AtomicBool>,
    running: JoinSet<u64>,
}

impl Clients {
    fn start(proxy: &Proxy) -> Self {
        let are_over = Arc::new(AtomicBool::new(false));
        let mut running = JoinSet::new();
        for keeps_connection in [true, true, false] {
            let (are_over, address) = (Arc::clone(&are_over), proxy.address);
            running.spawn(async move {
                let mut client = Client::connect(address).await;
                let mut count = 0;
                while !are_over.load(Ordering::Relaxed) {
                    if !keeps_connection {
                        client = Client::connect(address).await;
                    }
                    assert_eq!(client.get("/").await.status, 200);
                    count += 1;
                }
                count
            });
        }
        Self { are_over, running }
    }

    async fn stop(self) {
        self.are_over.store(true, Ordering::Relaxed);
        let counts = self.running.join_all().await;
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }
}

fn config(plane: &ControlPlane, more: &str) -> String {
    super::config(plane).replace("xds = \"web\"", "xds_cluster = \"web\"") + more
}

fn control_plane(overrides: &Value) -> Vec<(String, String)> {
    let all = overrides["control_plane"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.map(|it| {
        assert_eq!(it["service"], "default");
        assert!(it["since_ms"].as_u64().unwrap() > 1_700_000_000_000);
        (text(&it["key"]), text(&it["value"]))
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_changes_the_policy_and_no_request_fails() {
    let replicas = [Replica::echo("one").await, Replica::echo("two").await];
    let fleet = [&replicas[0], &replicas[1]];
    let plane = ControlPlane::start().await;
    let send = |version, policy, prequal| {
        plane.respond(version, CDS, &cluster(&fleet, policy, prequal));
    };
    let token = Token::new("cluster-policy");
    let text = config(&plane, &token.section());
    let written = Written::new("cluster-policy", &text);
    send("1", None, &[]);
    let proxy = written.serve(&[]);
    until("it is ready", async || {
        (proxy.admin_page("/readyz").await.trim() == "serving").then_some(())
    })
    .await;
    policy_is(&proxy, "round_robin").await;
    assert_eq!(control_plane(&overrides(&proxy).await), []);
    let clients = Clients::start(&proxy);

    send("2", Some("least_loaded"), &[("probeDeadline", "0.020s")]);
    policy_is(&proxy, "least_loaded").await;
    let line = proxy.log_line("policy chosen by the cluster");
    for told in [
        "service=\"default\"",
        "least_loaded",
        "prequal.probe_deadline",
    ] {
        assert!(line.contains(told), "{told}: {line}");
    }
    let line = proxy.log_line("configuration reloaded");
    assert!(line.contains("services_started=\"default\""), "{line}");
    let before = overrides(&proxy).await;
    let chosen = control_plane(&before);
    let owned = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let expected = [
        owned("policy", "\"least_loaded\""),
        owned("prequal.probe_deadline", "\"20ms\""),
    ];
    assert_eq!(chosen, expected);

    // A reload keeps it, also if the file names another policy.
    written.become_text(&text.replace("round_robin", "power_of_d"));
    proxy.signal("HUP");
    let lines = proxy.log_until("configuration reloaded");
    assert!(
        lines.iter().all(|line| !line.contains("policy chosen")),
        "{lines:?}"
    );
    policy_is(&proxy, "least_loaded").await;
    assert_eq!(overrides(&proxy).await, before, "also since when");

    // A bad value is rejected with its field, and changes nothing.
    send("3", Some("least_loaded"), &[("probeDeadline", "soon")]);
    let field = "load_balancing_policy.policies[0].typed_extension_config.typed_config.value.\
                 prequal.probeDeadline found \"soon\"";
    until("the control plane knows what is wrong", async || {
        plane.has_received(&format!("web: {field}")).then_some(())
    })
    .await;
    let line = proxy.log_line("discovery failed, fleet unchanged");
    assert!(
        line.contains("cluster rejected: load_balancing_policy"),
        "{line}"
    );
    policy_is(&proxy, "least_loaded").await;

    // The operator's word is above the cluster's.
    done(&proxy, "/settings", &json!({"set": {"policy": "random"}})).await;
    policy_is(&proxy, "random").await;
    assert_eq!(
        overrides(&proxy).await["settings"][0]["instead_of"],
        "\"least_loaded\""
    );
    done(&proxy, "/overrides/clear", &json!({})).await;
    policy_is(&proxy, "least_loaded").await;

    // A control plane that is away leaves it, and its next version counts again.
    plane.end();
    until("the status says that the stream has ended", async || {
        let found = proxy.status().await;
        let streams = found["services"][0]["discovery"]["xds"]["streams"].as_u64();
        (streams > Some(1)).then_some(())
    })
    .await;
    policy_is(&proxy, "least_loaded").await;
    send("4", None, &[]);
    policy_is(&proxy, "power_of_d").await;
    proxy.log_line("the cluster chooses no policy any more");
    assert_eq!(control_plane(&overrides(&proxy).await), []);
    clients.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_requests_are_by_the_clusters_policy() {
    let one = Replica::echo("one").await;
    let plane = ControlPlane::start().await;
    let written = Written::new("cluster-policy-start", &config(&plane, ""));
    plane.respond("1", CDS, &cluster(&[&one], Some("random"), &[]));
    let proxy = written.serve(&["--policy", "least_loaded"]);
    for line in [
        "policy chosen by the cluster",
        "does nothing with policy = \"random\"",
    ] {
        assert!(proxy.has_logged_early(line), "{line}");
    }
    until("it is ready", async || {
        (proxy.admin_page("/readyz").await.trim() == "serving").then_some(())
    })
    .await;
    policy_is(&proxy, "random").await;
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(client.get("/").await.status, 200);
    let picks = proxy.status().await["services"][0]["counts"]["picks"]["random"].clone();
    assert_eq!(picks, 1);
}

/// The file's transport of probes is none, which this policy cannot use.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_the_file_forbids_waits_for_another_file() {
    let one = Replica::echo("one").await;
    let plane = ControlPlane::start().await;
    let text = config(&plane, "");
    let written = Written::new("cluster-policy-forbidden", &text);
    plane.respond("1", CDS, &cluster(&[&one], Some("prequal_sync"), &[]));
    let proxy = written.serve(&[]);
    let line = proxy.log_line("policy of the cluster not applied");
    assert!(line.contains("probe.transport: found \"none\""), "{line}");
    policy_is(&proxy, "round_robin").await;
    written.become_text(&text.replace("probe.transport = \"none\"\n", ""));
    reload(&proxy);
    policy_is(&proxy, "prequal_sync").await;
}

/// Where a policy of the cluster that needs probes is in force.
async fn with_probes(name: &str, more: &str) -> (Proxy, ControlPlane, Written, String, Replica) {
    let one = Replica::echo("one").await;
    let plane = ControlPlane::start().await;
    let text = config(&plane, more);
    let written = Written::new(name, &text.replace("\"none\"", "\"udp\""));
    plane.respond("1", CDS, &cluster(&[&one], Some("prequal_sync"), &[]));
    let proxy = written.serve(&[]);
    policy_is(&proxy, "prequal_sync").await;
    (proxy, plane, written, text, one)
}

const NOT_APPLIED: &str = "policy of the cluster not applied";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_file_is_in_force_also_if_it_forbids_the_policy() {
    let token = Token::new("cluster-policy-yields");
    let (proxy, _plane, written, text, _one) =
        with_probes("cluster-policy-yields", &token.section()).await;
    written.become_text(&text);
    proxy.signal("HUP");
    let line = proxy.log_line(NOT_APPLIED);
    for told in [
        "probe.transport: found \"none\"",
        "correct this in the file or in the cluster",
        "cluster=\"web\"",
    ] {
        assert!(line.contains(told), "{told}: {line}");
    }
    proxy.log_line("configuration reloaded");
    policy_is(&proxy, "round_robin").await;
    assert_eq!(proxy.status().await["reloads"]["refused"], 0);
    let found = overrides(&proxy).await;
    assert_eq!(control_plane(&found), []);
    let refused = found["control_plane_refused"].clone();
    assert_eq!(refused[0]["service"], "default");
    assert_eq!(refused[0]["cluster"], "web");
    let why = refused[0]["why"].as_str().unwrap();
    assert!(why.contains("probe.transport"), "{why}");

    // The reason is a warning once, however often the policy is tried.
    done(
        &proxy,
        "/settings",
        &json!({"set": {"retries.attempts_max": 4}}),
    )
    .await;
    proxy.signal("HUP");
    let lines = proxy.log_until("configuration reloaded");
    assert!(
        lines.iter().all(|line| !line.contains(NOT_APPLIED)),
        "{lines:?}"
    );
    assert_eq!(overrides(&proxy).await["control_plane_refused"], refused);

    written.become_text(&text.replace("\"none\"", "\"udp\""));
    reload(&proxy);
    policy_is(&proxy, "prequal_sync").await;
    assert_eq!(overrides(&proxy).await["control_plane_refused"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overrides_can_be_cleared_also_if_the_policy_needs_them() {
    let token = Token::new("cluster-policy-clear");
    let (proxy, _plane, written, text, _one) =
        with_probes("cluster-policy-clear", &token.section()).await;
    done(&proxy, "/settings", &json!({"set": {"policy": "random"}})).await;
    written.become_text(&text);
    reload(&proxy);
    policy_is(&proxy, "random").await;
    done(&proxy, "/overrides/clear", &json!({})).await;
    policy_is(&proxy, "round_robin").await;
    proxy.log_line(NOT_APPLIED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_starts_also_if_its_file_forbids_the_policy() {
    let one = Replica::echo("one").await;
    let needs_probes = cluster(&[&one], Some("prequal_sync"), &[]);
    let plane = ControlPlane::of_all(CDS, &needs_probes).await;
    let text = config(&plane, "");
    let udp = text.replace("\"none\"", "\"udp\"");
    let written = Written::new("cluster-policy-upgrade", &udp);
    let mut proxy = written.serve(&[]);
    policy_is(&proxy, "prequal_sync").await;
    let first = process(&proxy).await;
    written.become_text(&text);
    proxy.signal("USR2");
    proxy.log_line(NOT_APPLIED);
    let _second = successor_of(&proxy, first).await;
    assert_eq!(proxy.ended().await.code(), Some(0));
    policy_is(&proxy, "round_robin").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_ends_with_its_cluster() {
    let one = Replica::echo("one").await;
    let plane = ControlPlane::start().await;
    let text = config(&plane, "");
    let written = Written::new("cluster-policy-other", &text);
    plane.respond("1", CDS, &cluster(&[&one], Some("random"), &[]));
    let proxy = written.serve(&[]);
    policy_is(&proxy, "random").await;
    written.become_text(&text.replace("xds_cluster = \"web\"", "xds_cluster = \"gone\""));
    reload(&proxy);
    policy_is(&proxy, "round_robin").await;
    assert_eq!(control_plane(&overrides(&proxy).await), []);
}

/// Each change is a reload, so a control plane that changes its mind is slowed down.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_changes_in_quick_succession_the_newest_is_applied() {
    let one = Replica::echo("one").await;
    let plane = ControlPlane::start().await;
    let written = Written::new("cluster-policy-quick", &config(&plane, ""));
    let send = |version, policy| plane.respond(version, CDS, &cluster(&[&one], policy, &[]));
    send("version-one", None);
    let proxy = written.serve(&[]);
    policy_is(&proxy, "round_robin").await;
    send("version-two", Some("least_loaded"));
    policy_is(&proxy, "least_loaded").await;
    proxy.log_line("policy chosen by the cluster");
    send("version-three", Some("random"));
    until("the next one is accepted", async || {
        plane.has_received("version-three").then_some(())
    })
    .await;
    send("version-four", Some("power_of_d"));
    let line = proxy.log_line("policy chosen by the cluster");
    assert!(line.contains("power_of_d"), "{line}");
}

/// One service's policy is forbidden by the file. The others' are applied, and by one reload.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_policy_does_not_hold_up_those_of_other_services() {
    let one = Replica::echo("one").await;
    let plane = ControlPlane::start().await;
    let names = ["a", "b", "c"];
    let services = names.map(|name| {
        format!(
            "[services.{name}]\npolicy = \"round_robin\"\nprobe.transport = \"none\"\n\
             discovery = {{ xds_cluster = \"{name}\", warm_up = 0 }}\n"
        )
    });
    let text = format!(
        "listen = \"127.0.0.1:0\"\nworkers = 1\nxds.server = \"http://{}\"\n{}\
         [[routes]]\nservice = \"a\"\n[[routes]]\npath_prefix = \"/b\"\nservice = \"b\"\n\
         [[routes]]\npath_prefix = \"/c\"\nservice = \"c\"\n",
        plane.address,
        services.concat()
    );
    let written = Written::new("cluster-policy-several", &text);
    let send = |version, policies: [Option<&str>; 3]| {
        let clusters = names.iter().zip(policies).map(|(name, policy)| {
            let policy = policy.map(|policy| entry("policy", &self::text(policy)));
            cluster_with(name, &[&one], policy)
        });
        let clusters: Vec<_> = clusters.collect();
        let clusters: Vec<_> = clusters.iter().map(|cluster| &**cluster).collect();
        plane.respond_all(version, CDS, &clusters);
    };
    let policies_are = async |proxy: &Proxy, expected: [&str; 3]| {
        until("the policies are in force", async || {
            let found = proxy.status().await;
            let found = found["services"].as_array()?;
            let found: Vec<_> = found.iter().map(|it| it["policy"].as_str()).collect();
            (found == expected.map(Some)).then_some(())
        })
        .await;
    };
    send("1", [None, None, None]);
    let proxy = written.serve(&[]);
    policies_are(&proxy, ["round_robin"; 3]).await;
    send(
        "2",
        [Some("random"), Some("prequal_sync"), Some("least_loaded")],
    );
    policies_are(&proxy, ["random", "round_robin", "least_loaded"]).await;
    let line = proxy.log_line(NOT_APPLIED);
    assert!(line.contains("service=\"b\""), "{line}");
    let refused = overrides(&proxy).await["control_plane_refused"].clone();
    assert_eq!(refused.as_array().map(Vec::len), Some(1));
    assert_eq!(refused[0]["service"], "b");

    // The cluster of the bad one chooses another policy.
    send("3", [Some("random"), None, Some("least_loaded")]);
    until("nothing is refused any more", async || {
        let refused = overrides(&proxy).await["control_plane_refused"].clone();
        (refused == json!([])).then_some(())
    })
    .await;
    policies_are(&proxy, ["random", "round_robin", "least_loaded"]).await;
}

/// The source of the fleet knows the port, so another one takes its place, on the same stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_moves_the_port_of_probes() {
    let one = Replica::echo("one").await;
    let plane = ControlPlane::start().await;
    let send = |version, port| {
        let udp = entry("transport", &text("udp"));
        let probe = field(5, &[udp, entry("port", &number(port))].concat());
        plane.respond(
            version,
            CDS,
            &cluster_with("web", &[&one], Some(entry("probe", &probe))),
        );
    };
    let text = config(&plane, "").replace("probe.transport = \"none\"\n", "");
    let written = Written::new("cluster-policy-port", &text);
    send("1", 9000.0);
    let proxy = written.serve(&[]);
    let probed_at = async |port: u16| {
        until("probes go to the port", async || {
            let found = proxy.status().await;
            let address = found["replicas"][0]["probe_address"].as_str()?;
            address.ends_with(&format!(":{port}")).then_some(())
        })
        .await;
    };
    probed_at(9000).await;
    send("2", 9001.0);
    probed_at(9001).await;
    policy_is(&proxy, "shortest_expected_delay").await;
    let mut client = Client::connect(proxy.address).await;
    assert_eq!(client.get("/").await.status, 200);
    let found = proxy.status().await;
    assert_eq!(found["services"][0]["discovery"]["xds"]["streams"], 1);
}
