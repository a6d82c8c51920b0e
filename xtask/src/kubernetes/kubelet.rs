//! Scheduler and kubelet of the run's two nodes: a thread that binds pods to nodes, starts, probes
//! and stops them, and reports their status to the API server.

use super::api::Api;
use super::pod::{Pod, Runtime};
use super::volumes::Contents;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The nodes with their zones.
pub(super) const NODES: [(&str, &str); 2] = [("node-a", "zone-a"), ("node-b", "zone-b")];
/// Interval at which pods are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The running thread. Dropping it ends all pods.
#[derive(Debug)]
pub(super) struct Kubelet {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    api: Api,
    runtime: Runtime,
    authority: PathBuf,
    stops: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By their unique id.
    pods: BTreeMap<String, Pod>,
    /// Number of pods so far.
    started: u32,
    /// Names of pods that are not ready, whatever their probes say.
    held_unready: BTreeSet<String>,
    /// What went wrong, other than that the API server is down.
    failures: Vec<String>,
}

/// The facts of a pod that cases need.
#[derive(Clone, Debug)]
pub(super) struct PodFacts {
    pub(super) name: String,
    pub(super) node: String,
    pub(super) address: core::net::Ipv4Addr,
    pub(super) ready: bool,
}

impl Kubelet {
    /// Creates the nodes, and starts the thread.
    pub(super) fn start(api: &Api, runtime: Runtime, authority: PathBuf) -> Result<Self, String> {
        for (node, zone) in NODES {
            let labels = json!({
                "kubernetes.io/hostname": node, "topology.kubernetes.io/zone": zone,
                "topology.kubernetes.io/region": "region",
            });
            api.create(
                "/api/v1/nodes",
                &json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": node, "labels": labels } }),
            )?;
        }
        let shared = Arc::new(Shared {
            api: api.clone(),
            runtime,
            authority,
            stops: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let running = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !running.stops.load(Relaxed) {
                // The API server is down in some cases; then nothing is to be done.
                if let Ok(pods) = running.api.get("/api/v1/pods") {
                    running.look(&pods);
                }
                std::thread::sleep(LOOK);
            }
        });
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    /// The pods of a namespace that run or end.
    pub(super) fn pods(&self, namespace: &str) -> Vec<PodFacts> {
        let state = self.state();
        let pods = state.pods.values().filter(|pod| pod.namespace == namespace);
        let facts = |pod: &Pod| PodFacts {
            name: pod.name.clone(),
            node: pod.node.clone(),
            address: pod.address,
            ready: pod.ready,
        };
        pods.map(facts).collect()
    }

    /// Makes a pod unready, or lets its probes decide again.
    pub(super) fn hold_unready(&self, name: &str, hold: bool) {
        let mut state = self.state();
        if hold {
            state.held_unready.insert(name.to_owned());
        } else {
            state.held_unready.remove(name);
        }
    }

    /// Replaces the token of a namespace's pods by this one, or by a valid one.
    pub(super) fn replace_tokens(
        &self,
        namespace: &str,
        account: &str,
        token: Option<&str>,
    ) -> Result<(), String> {
        let contents = self.shared.contents(namespace);
        let token = match token {
            Some(token) => token.to_owned(),
            None => self.shared.api.token_of(namespace, account)?,
        };
        let mut state = self.state();
        let pods = state
            .pods
            .values_mut()
            .filter(|pod| pod.namespace == namespace);
        let volumes = pods.flat_map(|pod| &mut pod.volumes);
        for volume in volumes.filter(|volume| volume.has_token()) {
            volume.write_token(&token, contents)?;
        }
        Ok(())
    }

    /// The log of the first container of a pod.
    pub(super) fn log(&self, name: &str) -> Result<String, String> {
        let state = self.state();
        let pod = state.pods.values().find(|pod| pod.name == name);
        pod.ok_or_else(|| format!("{name} does not run"))?.log()
    }

    /// What went wrong since the last call.
    pub(super) fn failures(&self) -> Vec<String> {
        core::mem::take(&mut self.state().failures)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.shared.stops.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.state().pods.clear();
    }
}

impl Shared {
    fn contents<'a>(&'a self, namespace: &'a str) -> Contents<'a> {
        Contents {
            api: &self.api,
            namespace,
            authority: &self.authority,
        }
    }

    fn look(&self, listed: &Value) {
        let items: Vec<_> = listed["items"].as_array().into_iter().flatten().collect();
        let mut state = lock(&self.state);
        let uid = |pod: &Value| {
            pod["metadata"]["uid"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let there: BTreeSet<_> = items.iter().map(|pod| uid(pod)).collect();
        state.pods.retain(|uid, _| there.contains(uid));
        let mut bound: BTreeMap<(String, String), usize> = BTreeMap::new();
        for pod in &items {
            if let (Some(node), Some(namespace)) = place(pod)
                && !is_deleted(pod)
            {
                *bound
                    .entry((namespace.to_owned(), node.to_owned()))
                    .or_default() += 1;
            }
        }
        for pod in items {
            let done = match place(pod) {
                (None, Some(namespace)) if !is_deleted(pod) => {
                    let count = |node: &str| {
                        let key = (namespace.to_owned(), node.to_owned());
                        bound.get(&key).copied().unwrap_or_default()
                    };
                    let nodes = NODES.into_iter().map(|(node, _)| node);
                    let node = nodes.min_by_key(|node| count(node)).unwrap_or_default();
                    let key = (namespace.to_owned(), node.to_owned());
                    *bound.entry(key).or_default() += 1;
                    self.bind(pod, node)
                }
                _ => self.carry(&mut state, &uid(pod), pod),
            };
            if let Err(failure) = done {
                state.failures.push(failure);
            }
        }
    }

    fn bind(&self, pod: &Value, node: &str) -> Result<(), String> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod["metadata"]["name"] },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        self.api
            .create(&format!("{}/binding", path(pod)), &binding)?;
        Ok(())
    }

    /// Does the next step of a pod's life.
    fn carry(&self, state: &mut State, uid: &str, pod: &Value) -> Result<(), String> {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        let contents = self.contents(namespace);
        let Some(running) = state.pods.get_mut(uid) else {
            if is_deleted(pod) {
                return self.remove(pod);
            }
            state.started += 1;
            let started = Pod::start(pod, state.started, &self.runtime, contents)?;
            self.api
                .patch_status(&format!("{}/status", started.path()), &started.status())?;
            state.pods.insert(uid.to_owned(), started);
            return Ok(());
        };
        if is_deleted(pod) {
            let grace = pod["metadata"]["deletionGracePeriodSeconds"].as_u64();
            if running.stop(Duration::from_secs(grace.unwrap_or_default())) {
                state.pods.remove(uid);
                return self.remove(pod);
            }
            return Ok(());
        }
        running.check()?;
        for volume in &mut running.volumes {
            volume.refresh(contents)?;
        }
        running.probe(state.held_unready.contains(&running.name));
        if running.ready != running.reported {
            let path = format!("{}/status", running.path());
            self.api.patch_status(&path, &running.status())?;
            running.reported = running.ready;
        }
        Ok(())
    }

    /// Tells the API server that a deleted pod has ended.
    fn remove(&self, pod: &Value) -> Result<(), String> {
        let options = json!({
            "gracePeriodSeconds": 0, "preconditions": { "uid": pod["metadata"]["uid"] },
        });
        self.api.delete(&path(pod), &options)
    }
}

/// The node and the namespace of a pod.
fn place(pod: &Value) -> (Option<&str>, Option<&str>) {
    let node = pod["spec"]["nodeName"].as_str();
    (node, pod["metadata"]["namespace"].as_str())
}

fn is_deleted(pod: &Value) -> bool {
    pod["metadata"]["deletionTimestamp"].is_string()
}

fn path(pod: &Value) -> String {
    let text = |key: &str| pod["metadata"][key].as_str().unwrap_or_default();
    format!(
        "/api/v1/namespaces/{}/pods/{}",
        text("namespace"),
        text("name")
    )
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
