//! Fleets of a cluster: the process follows the pods of a service, and outlives its API server.

use crate::clients::get;
use crate::proxy::{PATIENCE, Proxy, slackwater, until};
use crate::replicas::Replica;
use crate::upgrade::{process, successor_of};
use core::sync::atomic::{AtomicBool, Ordering};
use serde_json::{Value, json};
use slackwater_discovery::kubernetes::testing::{
    ApiServer, Port, Sending, endpoint, kubeconfig, slice,
};
use slackwater_discovery::testing::Folder;
use std::sync::Arc;

/// The slice with one replica as its only pod.
fn pod(name: &str, version: u32, replica: &Replica) -> Value {
    let address = replica.address;
    let endpoints = [endpoint(&address.ip().to_string(), name)];
    slice(name, version, address.port(), &endpoints)
}

/// Answers the next request, which must be a streaming list, with these slices.
async fn list(server: &mut ApiServer, slices: &[Value]) -> Sending {
    let asked = server.asked().await;
    assert!(asked.is_streaming_list(), "{}", asked.target);
    assert_eq!(asked.authorization.as_deref(), Some("Bearer s3cret"));
    let watch = asked.send(200);
    for slice in slices {
        watch.event("ADDED", slice);
    }
    watch.initial_events_end(100);
    watch
}

async fn answered_by(proxy: &Proxy, names: &[&str]) {
    until("exactly these replicas answer", async || {
        let mut seen = Vec::new();
        for _ in 0..8 {
            let answer = get(proxy.address, "/").await;
            seen.push(answer.text().lines().next().unwrap_or_default().to_owned());
        }
        seen.sort();
        seen.dedup();
        (seen == names).then_some(())
    })
    .await;
}

fn config(folder: &Folder) -> String {
    format!(
        "listen = \"127.0.0.1:0\"\nworkers = 2\npolicy = \"round_robin\"\n\
         probe.transport = \"none\"\ndiscovery.warm_up = 0\n\
         discovery.kubernetes = \"shop/web:http\"\n[kubernetes]\nkubeconfig = {:?}\n",
        folder.path("config").display()
    )
}

/// Access to this API server, and the configuration of a proxy that follows a service of it.
fn access(name: &str, server: &ApiServer) -> Folder {
    let folder = Folder::new(name);
    folder.write("token", "s3cret");
    point(&folder, server);
    folder.write("slackwater.toml", &config(&folder));
    folder
}

/// Writes a kubeconfig that leads to this API server.
fn point(folder: &Folder, server: &ApiServer) {
    let url = format!("http://{}", server.address.unwrap());
    folder.write("config", &kubeconfig(&url));
}

fn spawn(folder: &Folder) -> Proxy {
    let file = folder.path("slackwater.toml");
    let file = file.to_str().unwrap();
    Proxy::spawn(&["serve", "--config", file, "--admin", "127.0.0.1:0"])
}

/// A proxy whose start has waited for a list with this one pod.
async fn started(
    folder: &Folder,
    mut server: ApiServer,
    pod: Value,
) -> (Proxy, ApiServer, Sending) {
    let listing = tokio::spawn(async move {
        let watch = list(&mut server, &[pod]).await;
        (server, watch)
    });
    let proxy = spawn(folder);
    let (server, watch) = listing.await.unwrap();
    (proxy, server, watch)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_follows_its_pods_and_outlives_the_api_server() {
    let replicas = [
        Replica::echo("one").await,
        Replica::echo("two").await,
        Replica::echo("zoe").await,
    ];
    let [one, two, three] = &replicas;
    let port = Port::hold();
    let server = port.start();
    let folder = access("cluster", &server);
    let (proxy, server, watch) = started(&folder, server, pod("web-1", 1, one)).await;
    // The start has waited for the list, so not one request fails.
    let is_over = Arc::new(AtomicBool::new(false));
    let (ends, target) = (Arc::clone(&is_over), proxy.address);
    let load = tokio::spawn(async move {
        let mut count = 0;
        while !ends.load(Ordering::Relaxed) {
            assert_eq!(get(target, "/").await.status, 200, "request {count}");
            count += 1;
        }
        count
    });
    answered_by(&proxy, &["one"]).await;

    watch.event("ADDED", &pod("web-2", 101, two));
    answered_by(&proxy, &["one", "two"]).await;
    watch.event("DELETED", &pod("web-1", 102, one));
    answered_by(&proxy, &["two"]).await;
    let name = json!(format!("web-2@{}", two.address));
    until("the status has it alone", async || {
        let found = proxy.status().await;
        let replicas = found["replicas"].as_array().unwrap();
        (replicas.len() == 1 && replicas[0]["name"] == name).then_some(())
    })
    .await;

    // An empty list, and an API server that is away, change nothing.
    watch.event("DELETED", &pod("web-2", 103, two));
    proxy.log_line("has no EndpointSlice of a service web");
    drop((server, watch));
    proxy.log_line("cannot be reached");
    answered_by(&proxy, &["two"]).await;
    let found = proxy.status().await;
    let discovery = &found["services"][0]["discovery"];
    assert_eq!(discovery["source"], json!("kubernetes shop/web:http"));
    assert!(discovery["answered_at_ms"].is_u64(), "{discovery}");
    let failure = discovery["failure"].as_str().unwrap();
    assert!(failure.contains("cannot be reached"), "{failure}");
    let metrics = proxy.admin_page("/metrics").await;
    let labels = "{service=\"default\",source=\"kubernetes shop/web:http\"}";
    assert!(
        metrics.contains(&format!("slackwater_fleet_failing{labels} 1")),
        "{metrics}"
    );
    let answered = format!("slackwater_fleet_answered_timestamp_seconds{labels} 1");
    assert!(metrics.contains(&answered), "{metrics}");

    // It comes back, and knows nothing of the version from before.
    let mut server = port.start();
    let asked = server.asked().await;
    assert!(
        asked.target.ends_with("&resourceVersion=103"),
        "{}",
        asked.target
    );
    asked.refuse(410, "too old resource version");
    let _watch = list(&mut server, &[pod("web-3", 7, three)]).await;
    proxy.log_line("discovery recovered");
    answered_by(&proxy, &["zoe"]).await;

    is_over.store(true, Ordering::Relaxed);
    let requests = tokio::time::timeout(PATIENCE, load).await.unwrap().unwrap();
    assert!(requests > 0);
}

/// The first line of `/readyz`.
async fn readiness(proxy: &Proxy) -> String {
    let page = proxy.admin_page("/readyz").await;
    page.lines().next().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_is_ready_once_its_cluster_has_answered_and_stays_so() {
    let one = Replica::echo("one").await;
    let mut server = ApiServer::start().await;
    let folder = access("ready", &server);
    let refusing = tokio::spawn(async move {
        server.asked().await.refuse(503, "etcd is away");
        server
    });
    let proxy = spawn(&folder);
    let mut server = refusing.await.unwrap();
    // It listens, and does not know one replica.
    assert_eq!(readiness(&proxy).await, "starting");
    assert_eq!(get(proxy.address, "/").await.status, 503);
    // A reload meanwhile waits for the answer, too.
    proxy.signal("HUP");
    proxy.log_line("configuration reloaded");
    assert_eq!(readiness(&proxy).await, "starting");
    let watch = list(&mut server, &[pod("web-1", 1, &one)]).await;
    until("it is ready", async || {
        (readiness(&proxy).await == "serving").then_some(())
    })
    .await;
    answered_by(&proxy, &["one"]).await;

    // Neither an API server that is away nor a new source takes that back.
    drop((server, watch));
    proxy.log_line("cannot be reached");
    assert_eq!(readiness(&proxy).await, "serving");
    let silent = ApiServer::start().await;
    point(&folder, &silent);
    proxy.signal("HUP");
    proxy.log_line("configuration reloaded");
    assert_eq!(readiness(&proxy).await, "serving");
    answered_by(&proxy, &["one"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reload_reads_the_kubeconfig_and_keeps_a_source_that_is_the_same() {
    let replicas = [
        Replica::echo("one").await,
        Replica::echo("two").await,
        Replica::echo("zoe").await,
    ];
    let [one, two, three] = &replicas;
    let (server, mut other) = (ApiServer::start().await, ApiServer::start().await);
    let folder = access("reread", &server);
    let (proxy, mut server, watch) = started(&folder, server, pod("web-1", 1, one)).await;
    answered_by(&proxy, &["one"]).await;
    let reload = || {
        proxy.signal("HUP");
        proxy.log_line("configuration reloaded");
    };

    // The same: the watch of before goes on.
    reload();
    watch.event("ADDED", &pod("web-2", 101, two));
    answered_by(&proxy, &["one", "two"]).await;

    // Another protocol decides what is said of the port, so the source is another one.
    let text = config(&folder);
    let h2c = text.replace("[kubernetes]", "replica.protocol = \"h2c\"\n[kubernetes]");
    folder.write("slackwater.toml", &h2c);
    reload();
    let _watch = list(&mut server, &[pod("web-1", 1, one)]).await;
    watch.closed().await;

    // Another cluster, by a kubeconfig of the same name.
    folder.write("slackwater.toml", &text);
    point(&folder, &other);
    reload();
    let _other = list(&mut other, &[pod("web-9", 5, three)]).await;
    answered_by(&proxy, &["zoe"]).await;

    // One that is broken is refused, and changes nothing.
    folder.write("config", "kind: Config");
    proxy.signal("HUP");
    proxy.log_line("configuration rejected");
    proxy.log_line("current-context");
    answered_by(&proxy, &["zoe"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_takes_over_once_its_cluster_has_answered() {
    let (one, two) = (Replica::echo("one").await, Replica::echo("two").await);
    let port = Port::hold();
    let server = port.start();
    let folder = access("successor", &server);
    let (proxy, server, watch) = started(&folder, server, pod("web-1", 1, &one)).await;
    drop((server, watch));
    proxy.log_line("cannot be reached");
    let old = process(&proxy).await;
    proxy.signal("USR2");
    proxy.log_line("start waits");
    answered_by(&proxy, &["one"]).await;
    assert_eq!(process(&proxy).await, old);

    // Both processes ask again: one for what is new, the other for all.
    let mut server = port.start();
    let second = pod("web-2", 200, &two);
    let answering = tokio::spawn(async move {
        let mut watches = Vec::new();
        loop {
            let asked = server.asked().await;
            if !asked.is_streaming_list() {
                asked.refuse(410, "too old resource version");
                continue;
            }
            let watch = asked.send(200);
            watch.event("ADDED", &second);
            watch.initial_events_end(200);
            watches.push(watch);
        }
    });
    let new = successor_of(&proxy, old).await;
    answered_by(&proxy, &["two"]).await;
    drop(new);
    answering.abort();
}

#[tokio::test]
async fn a_token_is_not_logged_at_any_level() {
    let mut server = ApiServer::start().await;
    let folder = access("secret", &server);
    let file = folder.path("slackwater.toml");
    let log = folder.path("log");
    let mut child = slackwater(&["serve", "--config", file.to_str().unwrap()])
        .env("RUST_LOG", "trace")
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    server.asked().await.refuse(401, "Unauthorized");
    // The next request comes after the failure is logged.
    let again = server.asked().await;
    assert_eq!(again.authorization.as_deref(), Some("Bearer s3cret"));
    child.kill().unwrap();
    child.wait().unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    assert!(
        log.contains("answered 401") && log.contains("TRACE"),
        "{log}"
    );
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn a_start_without_access_to_a_cluster_says_what_to_do() {
    let folder = Folder::new("no-cluster");
    for (kubeconfig, expected) in [
        (
            Some("kind: Config"),
            "current-context: is missing; kubectl config use-context NAME",
        ),
        (
            None,
            "kubernetes.kubeconfig: is not set, and this process has no service account",
        ),
    ] {
        let mut text = config(&folder);
        match kubeconfig {
            Some(kubeconfig) => drop(folder.write("config", kubeconfig)),
            None => text.truncate(text.find("[kubernetes]").unwrap()),
        }
        let file = folder.write("slackwater.toml", &text);
        let output = slackwater(&["serve", "--config", file.to_str().unwrap()])
            .env_remove("KUBERNETES_SERVICE_HOST")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{told}");
        assert!(told.contains(expected), "{told}");
        if kubeconfig.is_some() {
            assert!(
                told.contains(folder.path("config").to_str().unwrap()),
                "{told}"
            );
        }
    }
}
