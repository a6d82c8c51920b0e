//! The cases: what happens, and what must follow.

use super::chart::EXAMPLE_NAMES;
use super::cluster;
use super::kubelet::{NODES, PodFacts};
use super::site::{self, EDGE, EFFECT_MAX, PODS, SHOP, Site, takes_requests};
use crate::command::root;
use crate::loopback::processes::wait_for;
use core::time::Duration;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;

/// What a case does; its text says what was found.
type Play = fn(&mut Site<'_>) -> Result<String, String>;

/// A case and the control plane that it needs.
pub(super) enum Run {
    OnNewEtcd(Play),
    OnOldEtcd(Play),
}

/// A case.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) expects: &'static str,
    pub(super) run: Run,
}

const fn case(name: &'static str, expects: &'static str, run: Play) -> Case {
    let run = Run::OnNewEtcd(run);
    Case { name, expects, run }
}

/// All cases, in order.
pub(super) const ALL: &[Case] = &[
    case(
        "manifests",
        "the API server accepts all manifests, with strict validation",
        manifests,
    ),
    case(
        "rights",
        "the proxy's account may list and watch slices where its services are, and nothing else",
        rights,
    ),
    case("scale", "the fleet follows, and no request fails", scale),
    case(
        "rolling-update",
        "all pods are replaced, and no request fails",
        rolling_update,
    ),
    case(
        "rolling-delete",
        "pods are deleted one by one, and no request fails",
        rolling_delete,
    ),
    case(
        "proxy-update",
        "the proxy's own pod is replaced, and no request of clients that follow its Service fails",
        proxy_update,
    ),
    case(
        "terminating",
        "requests are served while all pods are terminating, not answered with 503",
        terminating,
    ),
    case(
        "not-ready",
        "a pod that is not ready gets no requests until it is ready again",
        not_ready,
    ),
    case(
        "hints",
        "requests stay in the proxy's zone while there are hints, and go everywhere without",
        hints,
    ),
    case(
        "reload",
        "a changed ConfigMap is loaded by the running process",
        reload,
    ),
    case(
        "api-down",
        "no request fails while the API server is down, and the fleet follows afterwards",
        api_down,
    ),
    case(
        "compaction",
        "the fleet follows after the watched revision is gone (410)",
        compaction,
    ),
    case(
        "forbidden",
        "the fleet stays when the Role is taken away (403), and follows once it is back",
        forbidden,
    ),
    case(
        "unauthorized",
        "the fleet stays while the token is refused (401), and a new token is read",
        unauthorized,
    ),
    Case {
        name: "old-etcd",
        expects: "the fleet follows where the API server refuses streaming lists",
        run: Run::OnOldEtcd(old_etcd),
    },
];

/// Restores what a failed case may have left.
pub(super) fn restore(site: &mut Site<'_>) -> Result<(), String> {
    if site.cluster.api.status("/readyz").is_err() {
        site.cluster.start_api()?;
    }
    for pod in site.kubelet.pods(SHOP) {
        site.kubelet.hold_unready(&pod.name, false);
    }
    site.configure("")?;
    site.distribute(None)?;
    site.scale(PODS)?;
    site.await_scaled(PODS)
}

fn manifests(site: &mut Site<'_>) -> Result<String, String> {
    const EVERYTHING: &str = r#"{
        "metrics": { "enabled": true },
        "networkPolicy": {
            "enabled": true, "clients": [{ "podSelector": {} }], "metrics": [{ "podSelector": {} }],
            "replicas": [{ "namespaceSelector": {} }], "apiServer": { "to": [{ "ipBlock": { "cidr": "10.98.0.1/32" } }] }
        },
        "autoscaling": { "enabled": true },
        "service": {
            "type": "LoadBalancer", "externalTrafficPolicy": "Local", "trafficDistribution": "PreferSameZone",
            "appProtocol": "kubernetes.io/h2c", "annotations": { "a/b": "c" }
        },
        "tolerations": [{ "operator": "Exists" }], "nodeSelector": { "a": "b" }, "priorityClassName": "high",
        "affinity": { "podAntiAffinity": {} }, "imagePullSecrets": [{ "name": "pull" }],
        "podLabels": { "a": "b" }, "podAnnotations": { "a": "b" }, "extraArgs": ["--log-level=debug"],
        "extraEnv": [{ "name": "A", "value": "b" }],
        "extraVolumes": [{ "name": "tls", "secret": { "secretName": "tls" } }],
        "extraVolumeMounts": [{ "name": "tls", "mountPath": "/tls" }]
    }"#;
    let dry_run = |site: &Site<'_>, file: &str| {
        let arguments = ["apply", "--dry-run=server", "--validate=strict", "-f", file];
        let out = site.cluster.kubectl(&arguments)?;
        Ok::<_, String>(out.lines().count())
    };
    let folder = root().join("deploy/kubernetes");
    let plain = folder.join("slackwater.yaml");
    let mut objects = dry_run(site, &plain.to_string_lossy())?;
    for name in EXAMPLE_NAMES {
        let file = folder.join(format!("examples/{name}.yaml"));
        objects += dry_run(site, &file.to_string_lossy())?;
    }
    let values = site.put("everything-values", EVERYTHING)?;
    let config = "config=listen = \"0.0.0.0:8080\"\n[discovery]\nkubernetes = \"shop/web:http\"";
    let arguments = ["--values", &values, "--set-literal", config];
    let everything = site.charts.proxy(EDGE, &arguments)?;
    let file = site.put("everything", &everything)?;
    objects += dry_run(site, &file)?;
    // Without this, nothing shows that the validation is strict.
    let wrong = site.put(
        "wrong",
        &everything.replace("minReadySeconds:", "minReadySecond:"),
    )?;
    match dry_run(site, &wrong) {
        Err(said) if said.contains("unknown field \"spec.minReadySecond\"") => {
            Ok(format!("{objects} objects; an unknown field is refused"))
        }
        other => Err(format!("a manifest with an unknown field: {other:?}")),
    }
}

fn rights(site: &mut Site<'_>) -> Result<String, String> {
    const SLICES: &str = "/apis/discovery.k8s.io/v1";
    let token = site.cluster.api.token_of(EDGE, "slackwater")?;
    let proxy = site.cluster.api.with_token(&token);
    for (path, expected) in [
        (format!("{SLICES}/namespaces/{SHOP}/endpointslices"), 200),
        (
            format!("{SLICES}/namespaces/{SHOP}/endpointslices?watch=1&timeoutSeconds=1"),
            200,
        ),
        (
            format!("{SLICES}/namespaces/{SHOP}/endpointslices/web"),
            403,
        ),
        (format!("{SLICES}/namespaces/{EDGE}/endpointslices"), 403),
        (format!("{SLICES}/endpointslices"), 403),
        (format!("/api/v1/namespaces/{SHOP}/services"), 403),
        (format!("/api/v1/namespaces/{SHOP}/pods"), 403),
        (format!("/api/v1/namespaces/{EDGE}/secrets"), 403),
        ("/api/v1/nodes".to_owned(), 403),
    ] {
        let status = proxy.status(&path)?;
        if status != expected {
            return Err(format!("{path}: expected {expected}, found {status}"));
        }
    }
    Ok("list and watch: 200; seven other requests: 403".to_owned())
}

fn scale(site: &mut Site<'_>) -> Result<String, String> {
    let load = site.load()?;
    for pods in [PODS + 2, PODS - 1, PODS] {
        site.scale(pods)?;
        site.await_scaled(pods)?;
    }
    load.without_failure()
}

fn names(pods: Vec<PodFacts>) -> BTreeSet<String> {
    pods.into_iter().map(|pod| pod.name).collect()
}

fn rolling_update(site: &mut Site<'_>) -> Result<String, String> {
    let old = names(site.kubelet.pods(SHOP));
    let load = site.load()?;
    roll_out(site, SHOP, "web")?;
    wait_for("all pods to be replaced", EFFECT_MAX * 2, || {
        let new = names(site.kubelet.pods(SHOP));
        Ok((new.is_disjoint(&old) && new.len() == PODS).then_some(()))
    })?;
    site.await_scaled(PODS)?;
    load.without_failure()
}

/// Changes the pods of a deployment, as `kubectl rollout restart` does.
fn roll_out(site: &Site<'_>, namespace: &str, name: &str) -> Result<(), String> {
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/{name}");
    let now = format!("{:?}", Instant::now());
    let annotations = json!({ "kubectl.kubernetes.io/restartedAt": now });
    let change = json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } });
    site.cluster.api.patch(&path, &change)?;
    Ok(())
}

fn proxy_update(site: &mut Site<'_>) -> Result<String, String> {
    let old = site.proxy()?.name;
    roll_out(site, EDGE, "slackwater")?;
    let mut requests = 0;
    wait_for("the proxy to be replaced", EFFECT_MAX * 2, || {
        // As kube-proxy: new connections go to endpoints that are ready.
        for endpoint in endpoints(site, EDGE)? {
            let address = endpoint["addresses"][0].as_str().unwrap_or_default();
            if endpoint["conditions"]["ready"] == true {
                let status = site::request_at(address)?;
                if status != 200 {
                    return Err(format!("{status} from {address} after {requests} requests"));
                }
                requests += 1;
            }
        }
        let pods = site.kubelet.pods(EDGE);
        Ok((pods.len() == 1 && pods[0].ready && pods[0].name != old).then_some(()))
    })?;
    if requests == 0 {
        return Err("no endpoint was ready".to_owned());
    }
    Ok(format!(
        "{requests} requests, each on a new connection, none failed"
    ))
}

fn rolling_delete(site: &mut Site<'_>) -> Result<String, String> {
    let load = site.load()?;
    for pod in site.kubelet.pods(SHOP) {
        let path = format!("/api/v1/namespaces/{SHOP}/pods/{}", pod.name);
        site.cluster.api.delete(&path, &json!({}))?;
        wait_for("a deleted pod to end", EFFECT_MAX, || {
            let there = names(site.kubelet.pods(SHOP)).contains(&pod.name);
            Ok((!there).then_some(()))
        })?;
        site.await_scaled(PODS)?;
    }
    load.without_failure()
}

/// The endpoints of a namespace's only service.
fn endpoints(site: &Site<'_>, namespace: &str) -> Result<Vec<Value>, String> {
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector=kubernetes.io/service-name%20in%20(web,slackwater)"
    );
    let slices = site.cluster.api.get(&path)?;
    let slices = slices["items"].as_array().into_iter().flatten();
    let endpoints = slices
        .filter_map(|slice| slice["endpoints"].as_array())
        .flatten();
    Ok(endpoints.cloned().collect())
}

fn terminating(site: &mut Site<'_>) -> Result<String, String> {
    // Less than the time that the example's servers wait before they stop.
    const SERVED: Duration = Duration::from_millis(4_500);
    let begun = Instant::now();
    site.scale(0)?;
    let mut requests = 0;
    let mut while_all_terminate = 0;
    while begun.elapsed() < SERVED {
        let endpoints = endpoints(site, SHOP)?;
        let all_terminate = endpoints.len() == PODS
            && endpoints.iter().all(|endpoint| {
                let conditions = &endpoint["conditions"];
                conditions["terminating"] == true && conditions["serving"] == true
            });
        let status = site.request()?;
        if status != 200 {
            return Err(format!(
                "{status} after {:.1} s, {requests} requests; all are terminating: {all_terminate}",
                begun.elapsed().as_secs_f32()
            ));
        }
        requests += 1;
        while_all_terminate += u32::from(all_terminate);
    }
    let fleet = site.fleet()?;
    site.await_pods(SHOP, 0)?;
    site.scale(PODS)?;
    site.await_scaled(PODS)?;
    if while_all_terminate == 0 {
        return Err(format!(
            "the pods never were all terminating and serving; {fleet:?}"
        ));
    }
    Ok(format!(
        "{requests} requests served, {while_all_terminate} of them while all were terminating"
    ))
}

/// Requests that each pod gets under load for a while: its facts with the number.
fn shares(site: &Site<'_>) -> Result<Vec<(PodFacts, u64)>, String> {
    const LENGTH: Duration = Duration::from_secs(4);
    let before = site.counts()?;
    let load = site.load()?;
    std::thread::sleep(LENGTH);
    load.without_failure()?;
    let after = site.counts()?;
    Ok(after
        .into_iter()
        .map(|(pod, count)| {
            let earlier = before.iter().find(|(earlier, _)| earlier.name == pod.name);
            (pod, count - earlier.map_or(0, |(_, count)| *count))
        })
        .collect())
}

/// Fails unless exactly the pods of which `gets` is true got requests.
fn check_shares(
    shares: &[(PodFacts, u64)],
    gets: impl Fn(&PodFacts) -> bool,
) -> Result<String, String> {
    let found: Vec<_> = (shares.iter())
        .map(|(pod, count)| format!("{} ({}): {count}", pod.name, pod.node))
        .collect();
    let found = found.join(", ");
    if shares.iter().all(|(pod, count)| gets(pod) == (*count > 0)) {
        return Ok(found);
    }
    Err(format!("requests of each pod: {found}"))
}

fn not_ready(site: &mut Site<'_>) -> Result<String, String> {
    let pod = site
        .ready_pods(SHOP)
        .into_iter()
        .next()
        .ok_or("no pod is ready")?;
    site.kubelet.hold_unready(&pod.name, true);
    site.await_fleet(PODS - 1..=PODS - 1)?;
    let found = check_shares(&shares(site)?, |other| other.name != pod.name)?;
    site.kubelet.hold_unready(&pod.name, false);
    site.await_fleet(PODS..=PODS)?;
    check_shares(&shares(site)?, |_| true)?;
    Ok(found)
}

fn hints(site: &mut Site<'_>) -> Result<String, String> {
    let proxy = site.proxy()?;
    let (_, zone) = NODES
        .into_iter()
        .find(|(node, _)| *node == proxy.node)
        .unwrap_or_default();
    let local = |pod: &PodFacts| pod.node == proxy.node;
    let pods = site.ready_pods(SHOP);
    let count = pods.iter().filter(|pod| local(pod)).count();
    if count == 0 || count == pods.len() {
        return Err(format!("the pods are not in two zones: {pods:?}"));
    }
    site.distribute(Some("PreferSameZone"))?;
    wait_for("hints", EFFECT_MAX, || {
        let endpoints = endpoints(site, SHOP)?;
        let has_hints = |endpoint: &Value| endpoint["hints"]["forZones"].is_array();
        Ok((!endpoints.is_empty() && endpoints.iter().all(has_hints)).then_some(()))
    })?;
    site.await_fleet(count..=count)?;
    let found = check_shares(&shares(site)?, local)?;
    site.distribute(None)?;
    site.await_fleet(PODS..=PODS)?;
    let without = check_shares(&shares(site)?, |_| true)?;
    Ok(format!(
        "the proxy is in {zone}; with hints {found}; without {without}"
    ))
}

fn reload(site: &mut Site<'_>) -> Result<String, String> {
    let (pod, before) = (site.proxy()?, site.status()?);
    let taken = |status: &Value| status["reloads"]["taken"].as_u64().unwrap_or_default();
    site.configure("\n[timeouts]\nfirst_byte = \"7s\"\n")?;
    let after = wait_for("a reload", EFFECT_MAX, || {
        let status = site.status()?;
        Ok((taken(&status) > taken(&before)).then_some(status))
    })?;
    if after["process"] != before["process"] || site.proxy()?.name != pod.name {
        return Err(format!(
            "another process: {} after {}",
            after["process"], before["process"]
        ));
    }
    // What a reload cannot change replaces the pod.
    site.configure("\n[log]\nformat = \"json\"\n")?;
    let new = site.proxy()?.name;
    if new == pod.name {
        return Err("log.format changed, and the pod is the same".to_owned());
    }
    let log = site.kubelet.log(&new)?;
    if log.lines().any(|line| !line.starts_with('{')) {
        return Err(format!("the log is not JSON: {log}"));
    }
    Ok("timeouts: by the same process; log.format: by a new pod".to_owned())
}

/// Adds a pod and removes it again; the proxy must follow.
fn follows(site: &Site<'_>) -> Result<(), String> {
    for pods in [PODS + 1, PODS] {
        site.scale(pods)?;
        site.await_scaled(pods)?;
    }
    Ok(())
}

fn api_down(site: &mut Site<'_>) -> Result<String, String> {
    let load = site.load()?;
    site.cluster.kill_api();
    let begun = Instant::now();
    let failure = wait_for("discovery to fail", site.outage, || {
        let failure = site.discovery()?["failure"].clone();
        Ok(failure.as_str().map(str::to_owned))
    })?;
    std::thread::sleep(site.outage.saturating_sub(begun.elapsed()));
    let fleet = site.fleet()?;
    let taking = fleet
        .iter()
        .filter(|(_, state)| takes_requests(state))
        .count();
    site.cluster.start_api()?;
    site.await_failure(None)?;
    follows(site)?;
    if taking != PODS {
        return Err(format!(
            "the fleet while the API server was down: {fleet:?}"
        ));
    }
    let down = site.outage.as_secs();
    Ok(format!(
        "down for {down} s ({failure}); {}",
        load.without_failure()?
    ))
}

/// The version of the collection of slices.
fn version(site: &Site<'_>) -> Result<String, String> {
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/{SHOP}/endpointslices");
    let slices = site.cluster.api.get(&path)?;
    let version = slices["metadata"]["resourceVersion"].as_str();
    version
        .map(str::to_owned)
        .ok_or_else(|| "a list without a version".to_owned())
}

/// What the first line of a watch from this version is.
fn first_event(site: &Site<'_>, query: &str) -> Result<Value, String> {
    let path = format!(
        "/apis/discovery.k8s.io/v1/namespaces/{SHOP}/endpointslices?watch=1&timeoutSeconds=5&{query}"
    );
    let mut first = Value::Null;
    site.cluster.api.watch(&path, |line| {
        first = serde_json::from_str(line).unwrap_or_default();
        false
    })?;
    Ok(first)
}

fn compaction(site: &mut Site<'_>) -> Result<String, String> {
    let old = version(site)?;
    let load = site.load()?;
    site.cluster.kill_api();
    let revision = cluster::compact()?;
    site.cluster.start_api()?;
    // The API server says it in an event, or by its status.
    match first_event(site, &format!("resourceVersion={old}")) {
        Ok(event) if event["object"]["code"] == 410 => (),
        Err(error) if error.ends_with(": 410") => (),
        other => {
            return Err(format!(
                "a watch from {old} after compaction at {revision}: {other:?}"
            ));
        }
    }
    site.await_failure(None)?;
    follows(site)?;
    let load = load.without_failure()?;
    Ok(format!(
        "a watch from {old} gets 410 after compaction at {revision}; {load}"
    ))
}

fn forbidden(site: &mut Site<'_>) -> Result<String, String> {
    let load = site.load()?;
    let binding = format!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{SHOP}/rolebindings/slackwater.{EDGE}"
    );
    site.cluster.api.delete(&binding, &json!({}))?;
    let failure = refused(site, "403")?;
    site.configure("")?;
    site.await_failure(None)?;
    follows(site)?;
    Ok(format!("{failure}; {}", load.without_failure()?))
}

fn unauthorized(site: &mut Site<'_>) -> Result<String, String> {
    let load = site.load()?;
    site.kubelet
        .replace_tokens(EDGE, "slackwater", Some("expired"))?;
    let failure = refused(site, "401");
    site.kubelet.replace_tokens(EDGE, "slackwater", None)?;
    let failure = failure?;
    site.await_failure(None)?;
    follows(site)?;
    Ok(format!("{failure}; {}", load.without_failure()?))
}

/// Ends the running watch, because rights are checked only at its beginning; the next must fail
/// with this status, and the fleet must stay.
fn refused(site: &mut Site<'_>, status: &str) -> Result<String, String> {
    site.cluster.kill_api();
    site.cluster.start_api()?;
    let failure = site.await_failure(Some(status))?;
    site.await_fleet(PODS..=PODS)?;
    Ok(failure)
}

fn old_etcd(site: &mut Site<'_>) -> Result<String, String> {
    let event = first_event(
        site,
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    )?;
    let load = site.load()?;
    follows(site)?;
    let load = load.without_failure()?;
    if event["type"] != "ERROR" {
        return Err(format!(
            "the API server does not refuse streaming lists: {event}"
        ));
    }
    let message = event["object"]["message"].as_str().unwrap_or_default();
    Ok(format!("the API server says {message:?}; {load}"))
}
