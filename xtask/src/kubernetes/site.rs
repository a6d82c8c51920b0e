//! A control plane with the charts installed: the example `web` with agents in the namespace
//! `shop`, and the proxy before it in `edge`.

use super::chart::Charts;
use super::cluster::Cluster;
use super::kubelet::{Kubelet, PodFacts};
use super::pod::Runtime;
use super::tools::Tools;
use crate::loopback::http;
use crate::loopback::load::Load;
use crate::loopback::pair::Programs;
use crate::loopback::processes::wait_for;
use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Namespaces of the proxy and of its replicas.
pub(super) const EDGE: &str = "edge";
pub(super) const SHOP: &str = "shop";
/// Pods of the example.
pub(super) const PODS: usize = 4;
/// Time until a change has reached everything, also while others use the cores.
pub(super) const EFFECT_MAX: Duration = Duration::from_mins(1);
/// Requests per second: what a debug build can serve on a busy machine.
const RATE: u64 = 50;

/// Longer than any case; the load is ended earlier.
const LOAD_SECONDS: u64 = 600;

/// The proxy's configuration. Defaults, except that the example's service is found.
const CONFIG: &str = "listen = \"0.0.0.0:8080\"\n\n[discovery]\nkubernetes = \"shop/web:http\"\n";
/// Values of the proxy's chart. The status is read at the pod's address, hence the metrics.
const VALUES: [&str; 4] = ["--set", "replicas=1", "--set", "metrics.enabled=true"];

/// Everything that runs.
#[derive(Debug)]
pub(super) struct Site<'a> {
    // Before the cluster, so that pods end while the API server still runs.
    pub(super) kubelet: Kubelet,
    pub(super) cluster: Cluster,
    pub(super) charts: &'a Charts,
    programs: Programs<'a>,
    folder: PathBuf,
    loads: Cell<u32>,
    /// How long the API server is down.
    pub(super) outage: Duration,
}

impl<'a> Site<'a> {
    /// Starts a control plane, installs both charts, and waits until requests can be served.
    pub(super) fn start(
        (programs, agent): (Programs<'a>, &Path),
        tools: &Tools,
        charts: &'a Charts,
        etcd: &Path,
        folder: PathBuf,
    ) -> Result<Self, String> {
        fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let cluster = Cluster::start(programs.processes, tools, etcd, folder.join("cluster"))?;
        let whole = |program: &Path| {
            fs::canonicalize(program).map_err(|error| format!("{}: {error}", program.display()))
        };
        let runtime = Runtime {
            processes: programs.processes.clone(),
            slackwater: whole(programs.slackwater)?,
            agent: whole(agent)?,
            folder: folder.join("pods"),
        };
        let kubelet = Kubelet::start(&cluster.api, runtime, cluster.authority.clone())?;
        let site = Self {
            kubelet,
            cluster,
            charts,
            programs,
            folder,
            loads: Cell::new(0),
            outage: Duration::from_secs(30),
        };
        for namespace in [SHOP, EDGE, "slackwater"] {
            site.cluster.api.create(
                "/api/v1/namespaces",
                &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }),
            )?;
        }
        Ok(site)
    }

    /// Installs both charts, and waits until requests can be served.
    pub(super) fn install(&self) -> Result<(), String> {
        self.apply("web", &self.charts.example("web")?)?;
        self.configure("")?;
        // The example prefers its zone. Only the case `hints` does.
        self.distribute(None)?;
        self.await_scaled(PODS)
    }

    /// Installs the proxy, with these lines at the end of its configuration, and waits until only
    /// pods of this version run.
    pub(super) fn configure(&self, more: &str) -> Result<(), String> {
        let config = format!("config={CONFIG}{more}");
        let values = [&VALUES[..], &["--set-literal", &config]].concat();
        self.apply("proxy", &self.charts.proxy(EDGE, &values)?)?;
        let path = format!("/apis/apps/v1/namespaces/{EDGE}/deployments/slackwater");
        wait_for("the proxy's deployment", EFFECT_MAX, || {
            let deployment = self.cluster.api.get(&path)?;
            let (status, wanted) = (&deployment["status"], &deployment["spec"]["replicas"]);
            let is_done = status["observedGeneration"] == deployment["metadata"]["generation"]
                && ["updatedReplicas", "availableReplicas", "replicas"]
                    .iter()
                    .all(|count| status[count] == *wanted);
            Ok(is_done.then_some(()))
        })?;
        self.await_pods(EDGE, 1)
    }

    /// Writes a manifest to a file, for kubectl.
    pub(super) fn put(&self, name: &str, manifest: &str) -> Result<String, String> {
        let file = self.folder.join(format!("{name}.yaml"));
        fs::write(&file, manifest).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file.display().to_string())
    }

    fn apply(&self, name: &str, manifest: &str) -> Result<(), String> {
        let file = self.put(name, manifest)?;
        self.cluster
            .kubectl(&["apply", "--validate=strict", "-f", &file])?;
        Ok(())
    }

    /// Pods of a namespace that are ready.
    pub(super) fn ready_pods(&self, namespace: &str) -> Vec<PodFacts> {
        let pods = self.kubelet.pods(namespace).into_iter();
        pods.filter(|pod| pod.ready).collect()
    }

    /// Waits until exactly `count` pods run, all of them ready.
    pub(super) fn await_pods(&self, namespace: &str, count: usize) -> Result<(), String> {
        let waited = wait_for(
            &format!("{count} ready pods in {namespace}"),
            EFFECT_MAX,
            || {
                let all = self.kubelet.pods(namespace).len();
                Ok((all == count && self.ready_pods(namespace).len() == count).then_some(()))
            },
        );
        waited.map_err(|error| {
            let pods = self.kubelet.pods(namespace);
            format!("{error}; found {pods:?}; {:?}", self.kubelet.failures())
        })
    }

    /// The proxy's pod.
    pub(super) fn proxy(&self) -> Result<PodFacts, String> {
        let pods = self.ready_pods(EDGE);
        pods.into_iter()
            .next()
            .ok_or_else(|| "the proxy does not run".to_owned())
    }

    fn proxy_address(&self, port: u16) -> Result<SocketAddr, String> {
        Ok(SocketAddr::new(IpAddr::V4(self.proxy()?.address), port))
    }

    /// The proxy's status.
    pub(super) fn status(&self) -> Result<Value, String> {
        http::get_json(self.proxy_address(9900)?, "/status")
    }

    /// The facts of the proxy's discovery.
    pub(super) fn discovery(&self) -> Result<Value, String> {
        Ok(self.status()?["services"][0]["discovery"].clone())
    }

    /// The proxy's replicas: each name with its state.
    pub(super) fn fleet(&self) -> Result<Vec<(String, String)>, String> {
        let status = self.status()?;
        let replicas = status["replicas"].as_array().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(replicas
            .map(|replica| (text(&replica["name"]), text(&replica["state"])))
            .collect())
    }

    /// Waits until a number of the proxy's replicas within `count` take requests.
    pub(super) fn await_fleet(
        &self,
        count: core::ops::RangeInclusive<usize>,
    ) -> Result<usize, String> {
        let mut last = Vec::new();
        let waited = wait_for(
            &format!("{count:?} replicas that take requests"),
            EFFECT_MAX,
            || {
                last = self.fleet()?;
                let taking = last
                    .iter()
                    .filter(|(_, state)| takes_requests(state))
                    .count();
                Ok(count.contains(&taking).then_some(taking))
            },
        );
        waited.map_err(|error| {
            let discovery = self.discovery().unwrap_or_default();
            format!("{error}; found {last:?}; discovery: {discovery}")
        })
    }

    /// Waits until discovery fails for a cause with this text, or not at all.
    pub(super) fn await_failure(&self, cause: Option<&str>) -> Result<String, String> {
        let mut last = Value::Null;
        let what = cause.map_or_else(
            || "discovery to work".to_owned(),
            |cause| format!("discovery to fail with {cause:?}"),
        );
        let waited = wait_for(&what, EFFECT_MAX, || {
            last = self.discovery()?["failure"].clone();
            let found = last.as_str();
            Ok(match (cause, found) {
                (None, None) => Some(String::new()),
                (Some(cause), Some(found)) => found.contains(cause).then(|| found.to_owned()),
                _ => None,
            })
        });
        waited.map_err(|error| format!("{error}; found {last}"))
    }

    /// Sets the number of pods of the example.
    pub(super) fn scale(&self, pods: usize) -> Result<(), String> {
        let path = format!("/apis/apps/v1/namespaces/{SHOP}/deployments/web");
        self.cluster
            .api
            .patch(&path, &json!({ "spec": { "replicas": pods } }))?;
        Ok(())
    }

    /// Waits until exactly `pods` pods run, and as many replicas take requests.
    pub(super) fn await_scaled(&self, pods: usize) -> Result<(), String> {
        self.await_pods(SHOP, pods)?;
        self.await_fleet(pods..=pods)?;
        Ok(())
    }

    /// Requests that each pod of the example has begun, by its name.
    pub(super) fn counts(&self) -> Result<Vec<(PodFacts, u64)>, String> {
        let count = |pod: PodFacts| {
            let address = SocketAddr::new(IpAddr::V4(pod.address), 8080);
            let counts = http::get_json(address, crate::loopback::replica::COUNTS)?;
            let begun = counts["begun"].as_u64();
            Ok((pod, begun.ok_or("a replica without counts")?))
        };
        self.kubelet.pods(SHOP).into_iter().map(count).collect()
    }

    /// One request through the proxy.
    pub(super) fn request(&self) -> Result<u16, String> {
        request_at(&self.proxy()?.address.to_string())
    }

    /// Sets which pods of the example are preferred.
    pub(super) fn distribute(&self, preference: Option<&str>) -> Result<(), String> {
        let path = format!("/api/v1/namespaces/{SHOP}/services/web");
        let change = json!({ "spec": { "trafficDistribution": preference } });
        self.cluster.api.patch(&path, &change)?;
        Ok(())
    }

    /// Starts load through the proxy. Its requests are POST, which are not sent twice, so each
    /// failure is seen.
    pub(super) fn load(&self) -> Result<RunningLoad, String> {
        let number = self.loads.get() + 1;
        self.loads.set(number);
        let url = format!("http://{}/", self.proxy_address(8080)?);
        let file = self.folder.join(format!("load-{number}.json"));
        let arguments = [
            ("--rate", RATE),
            ("--seconds", LOAD_SECONDS),
            ("--body-bytes", 64),
        ];
        let arguments = arguments.map(|(name, value)| [name.to_owned(), value.to_string()]);
        let arguments: Vec<_> = arguments.into_iter().flatten().collect();
        let load = Load::start(&self.programs, "load", &url, file, &arguments)?;
        Ok(RunningLoad(load))
    }
}

/// One request through the proxy's pod at this address.
pub(super) fn request_at(address: &str) -> Result<u16, String> {
    let address = address
        .parse()
        .map_err(|error| format!("{address}: {error}"))?;
    http::get(SocketAddr::new(address, 8080), "/").map(|answer| answer.status)
}

/// Load that has not ended.
#[derive(Debug)]
pub(super) struct RunningLoad(Load);

impl RunningLoad {
    /// Ends it, and fails if a request did.
    pub(super) fn without_failure(self) -> Result<String, String> {
        kill_process(self.0.pid(), Signal::INT).map_err(|error| format!("SIGINT: {error}"))?;
        let results = self.0.finish(EFFECT_MAX)?;
        let number = |name: &str| {
            let number = results[name].as_u64();
            number.ok_or_else(|| format!("the load's results have no {name}"))
        };
        let (requests, errors) = (number("requests")?, number("errors")?);
        if errors == 0 && requests > 0 {
            return Ok(format!("{requests} requests, none failed"));
        }
        Err(format!(
            "{errors} of {requests} requests failed: {}; {}",
            results["errors_by_kind"], results["first_failures"]
        ))
    }
}

/// Whether a replica in this state gets new requests.
pub(super) fn takes_requests(state: &str) -> bool {
    !matches!(
        state,
        "draining" | "disabled" | "down" | "ejected" | "unreachable"
    )
}
