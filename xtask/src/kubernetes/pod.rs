//! A pod whose containers are processes in its network namespace. Those with an image of ours run
//! it as a container would; every other container is a replica that listens at the port of its
//! argument `--listen`.
//!
//! A pod starts, is probed and stops as the kubelet does it: sidecars start first and end last, and
//! a server stops after its `preStop`.

use super::network::{self, HOST};
use super::volumes::{Contents, Volume};
use crate::loopback::processes::{Process, Processes};
use crate::loopback::replica::CHORE;
use core::net::Ipv4Addr;
use core::time::Duration;
use rustix::process::Pid;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Interval of readiness probes, as long as the pod is not ready. Later the container's own counts.
const PROBE_SOON: Duration = Duration::from_millis(200);
/// The script that runs Slackwater.
const CONTAINER: &str = include_str!("container.sh");

/// What pods are started with.
#[derive(Clone, Debug)]
pub(super) struct Runtime {
    pub(super) processes: Processes,
    /// The program in the image `slackwater`.
    pub(super) slackwater: PathBuf,
    /// The program in the image `slackwater-agent`.
    pub(super) agent: PathBuf,
    pub(super) folder: PathBuf,
}

/// A pod on a node.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) node: String,
    pub(super) address: Ipv4Addr,
    pub(super) ready: bool,
    /// The readiness that the API server knows.
    pub(super) reported: bool,
    pub(super) volumes: Vec<Volume>,
    sidecars: Vec<Container>,
    servers: Vec<Container>,
    stage: Stage,
    /// When the kubelet kills what is left.
    killed_at: Option<Instant>,
    probed_at: Option<Instant>,
    _sandbox: Process,
}

#[derive(Debug)]
struct Container {
    process: Process,
    has_ended: bool,
    /// The readiness probe's command and interval.
    probe: Option<(Vec<String>, Duration)>,
    pre_stop: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Running,
    PreStop(Instant),
    StoppingServers,
    StoppingSidecars,
    Ended,
}

impl Pod {
    /// Starts all containers of a pod.
    pub(super) fn start(
        pod: &Value,
        number: u32,
        runtime: &Runtime,
        contents: Contents<'_>,
    ) -> Result<Self, String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, spec) = (text(&pod["metadata"]["name"]), &pod["spec"]);
        let sandbox = network::sandbox(&runtime.processes, &name, number)?;
        let address = network::address(number);
        let folder = runtime.folder.join(&name);
        let account = spec["serviceAccountName"].as_str().unwrap_or("default");
        let volumes = (spec["volumes"].as_array().into_iter().flatten())
            .map(|volume| Volume::new(volume, account, &folder, contents))
            .collect::<Result<Vec<_>, _>>()?;
        let site = Launch {
            pod,
            address,
            sandbox: sandbox.pid(),
            folder: &folder,
            volumes: &volumes,
            runtime,
        };
        let start = |list: &str| {
            let containers = spec[list].as_array().into_iter().flatten();
            containers
                .map(|container| site.start(container))
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            namespace: text(&pod["metadata"]["namespace"]),
            node: text(&spec["nodeName"]),
            address,
            ready: false,
            reported: false,
            sidecars: start("initContainers")?,
            servers: start("containers")?,
            stage: Stage::Running,
            killed_at: None,
            probed_at: None,
            _sandbox: sandbox,
            volumes,
            name,
        })
    }

    /// The path of the pod in the API.
    pub(super) fn path(&self) -> String {
        format!("/api/v1/namespaces/{}/pods/{}", self.namespace, self.name)
    }

    /// Its status, for the API server.
    pub(super) fn status(&self) -> Value {
        let ready = if self.ready { "True" } else { "False" };
        let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status });
        json!({ "status": {
            "phase": "Running",
            "hostIP": HOST,
            "podIP": self.address,
            "podIPs": [{ "ip": self.address }],
            "conditions": [
                condition("PodScheduled", "True"),
                condition("Initialized", "True"),
                condition("ContainersReady", ready),
                condition("Ready", ready),
            ],
        } })
    }

    /// Probes the pod if it is time.
    pub(super) fn probe(&mut self, is_held_unready: bool) {
        let interval = (self.sidecars.iter().chain(&self.servers))
            .filter_map(|container| Some(container.probe.as_ref()?.1))
            .min()
            .filter(|_| self.ready && !is_held_unready)
            .unwrap_or(PROBE_SOON);
        if self.probed_at.is_some_and(|at| at.elapsed() < interval) {
            return;
        }
        self.probed_at = Some(Instant::now());
        let mut containers = self.sidecars.iter_mut().chain(&mut self.servers);
        self.ready = !is_held_unready && containers.all(Container::is_ready);
    }

    /// Fails if a container has ended that was not told to.
    pub(super) fn check(&mut self) -> Result<(), String> {
        for container in self.sidecars.iter_mut().chain(&mut self.servers) {
            container.process.check_running()?;
        }
        Ok(())
    }

    /// Continues the end of a pod that was deleted. Returns whether it has ended.
    pub(super) fn stop(&mut self, grace: Duration) -> bool {
        let killed_at = *self.killed_at.get_or_insert(Instant::now() + grace);
        let now = Instant::now();
        if now >= killed_at {
            return true;
        }
        match self.stage {
            Stage::Running => {
                let pre_stop = self
                    .servers
                    .iter()
                    .map(|container| container.pre_stop)
                    .max();
                self.stage = Stage::PreStop(now + pre_stop.unwrap_or_default());
            }
            Stage::PreStop(until) if now >= until => {
                self.servers.iter().for_each(Container::terminate);
                self.stage = Stage::StoppingServers;
            }
            Stage::StoppingServers if self.servers.iter_mut().all(Container::has_ended) => {
                self.sidecars.iter().for_each(Container::terminate);
                self.stage = Stage::StoppingSidecars;
            }
            Stage::StoppingSidecars if self.sidecars.iter_mut().all(Container::has_ended) => {
                self.stage = Stage::Ended;
            }
            _ => (),
        }
        self.stage == Stage::Ended
    }

    /// The log of its first container.
    pub(super) fn log(&self) -> Result<String, String> {
        let server = self.servers.first().ok_or("a pod without a container")?;
        server.process.errors()
    }
}

impl Container {
    fn is_ready(&mut self) -> bool {
        if self.has_ended() {
            return false;
        }
        let Some((command, _)) = &self.probe else {
            return true;
        };
        let pid = self.process.pid().as_raw_nonzero().to_string();
        let mut enter = Command::new("nsenter");
        enter.args(["--target", &pid, "--mount", "--net", "--root", "--"]);
        // The command has its own timeout.
        let status = (enter.args(command).stdin(Stdio::null()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    }

    fn terminate(&self) {
        // One that has ended cannot be signalled, and need not be.
        let _ = self.process.terminate();
    }

    fn has_ended(&mut self) -> bool {
        self.has_ended = self.has_ended || self.process.check_running().is_err();
        self.has_ended
    }
}

/// What a container is started with.
struct Launch<'a> {
    pod: &'a Value,
    address: Ipv4Addr,
    sandbox: Pid,
    folder: &'a Path,
    volumes: &'a [Volume],
    runtime: &'a Runtime,
}

impl Launch<'_> {
    fn start(&self, container: &Value) -> Result<Container, String> {
        let name = container["name"].as_str().unwrap_or_default();
        let variables = self.variables(container);
        let arguments: Vec<_> = (container["args"].as_array().into_iter().flatten())
            .filter_map(Value::as_str)
            .map(|argument| expand(argument, &variables))
            .collect();
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", network::file(self.sandbox)));
        let image = container["image"].as_str().unwrap_or_default();
        let program = match image.split(':').next() {
            Some("slackwater") => Some(&self.runtime.slackwater),
            Some("slackwater-agent") => Some(&self.runtime.agent),
            _ => None,
        };
        if let Some(program) = program {
            self.slackwater(&mut command, program, container, &arguments)?;
        } else {
            let xtask = std::env::current_exe().map_err(|error| format!("xtask: {error}"))?;
            let port = arguments
                .iter()
                .find_map(|argument| argument.strip_prefix("--listen="));
            let port = port.and_then(|address| address.rsplit_once(':'));
            let (_, port) = port.ok_or_else(|| format!("{name}: no argument --listen"))?;
            // At all addresses, so that its counts can be read from outside of the pod.
            command.arg(xtask).args([CHORE, &format!("0.0.0.0:{port}")]);
            command.args(["--service-ms", "5", "--room", "16"]);
        }
        command.envs(variables);
        let logs = format!(
            "{}-{name}",
            self.pod["metadata"]["name"].as_str().unwrap_or_default()
        );
        let seconds = |value: &Value| Duration::from_secs(value.as_u64().unwrap_or_default());
        let probe = &container["readinessProbe"];
        let words = probe["exec"]["command"].as_array().map(|words| {
            let words = words.iter().filter_map(Value::as_str).map(str::to_owned);
            (words.collect(), seconds(&probe["periodSeconds"]))
        });
        Ok(Container {
            process: self.runtime.processes.start(&logs, &mut command)?,
            has_ended: false,
            probe: words,
            pre_stop: seconds(&container["lifecycle"]["preStop"]["sleep"]["seconds"]),
        })
    }

    /// Completes the command of a container with an image of Slackwater's.
    fn slackwater(
        &self,
        command: &mut Command,
        program: &Path,
        container: &Value,
        arguments: &[String],
    ) -> Result<(), String> {
        let name = container["name"].as_str().unwrap_or_default();
        let context = |key: &str| {
            let own = &container["securityContext"][key];
            let pods = &self.pod["spec"]["securityContext"][key];
            if own.is_null() {
                pods.clone()
            } else {
                own.clone()
            }
        };
        // The script does what these ask for.
        let is_restricted = context("runAsNonRoot") == json!(true)
            && context("readOnlyRootFilesystem") == json!(true)
            && context("allowPrivilegeEscalation") == json!(false)
            && context("capabilities")["drop"] == json!(["ALL"]);
        let user = context("runAsUser").as_u64().filter(|_| is_restricted);
        let user = user.ok_or_else(|| format!("{name}: privileges that it does not need"))?;
        let root = self.folder.join(format!("root-{name}"));
        fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
        command.args(["unshare", "--mount", "--propagation", "private"]);
        command.args(["sh", "-e", "-c", CONTAINER, "sh"]);
        command.arg(root).arg(program).arg(user.to_string());
        for mount in container["volumeMounts"].as_array().into_iter().flatten() {
            let volume = self
                .volumes
                .iter()
                .find(|volume| mount["name"] == volume.name.as_str());
            let volume = volume.ok_or_else(|| format!("{name}: no volume for {mount}"))?;
            command
                .arg(&volume.folder)
                .arg(mount["mountPath"].as_str().unwrap_or_default());
        }
        command.arg("--").args(arguments);
        Ok(())
    }

    /// The environment of a container.
    fn variables(&self, container: &Value) -> BTreeMap<String, String> {
        let of_cluster = [
            ("KUBERNETES_SERVICE_HOST".to_owned(), HOST.to_string()),
            ("KUBERNETES_SERVICE_PORT".to_owned(), "6443".to_owned()),
        ];
        let own = container["env"].as_array().into_iter().flatten();
        let own = own.filter_map(|variable| {
            let field = variable["valueFrom"]["fieldRef"]["fieldPath"].as_str();
            let value = match field {
                Some(field) => self.field(field),
                None => variable["value"].as_str().unwrap_or_default().to_owned(),
            };
            Some((variable["name"].as_str()?.to_owned(), value))
        });
        of_cluster.into_iter().chain(own).collect()
    }

    /// A field of the pod by the downward API; empty if it is not there.
    fn field(&self, path: &str) -> String {
        if path == "status.podIP" {
            return self.address.to_string();
        }
        let label = path
            .strip_prefix("metadata.labels['")
            .and_then(|rest| rest.strip_suffix("']"));
        let found = label.map_or_else(
            || path.split('.').fold(self.pod, |value, key| &value[key]),
            |label| &self.pod["metadata"]["labels"][label],
        );
        found.as_str().unwrap_or_default().to_owned()
    }
}

/// Replaces `$(NAME)` by variables.
fn expand(argument: &str, variables: &BTreeMap<String, String>) -> String {
    let mut text = argument.to_owned();
    for (name, value) in variables {
        text = text.replace(&format!("$({name})"), value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_in_arguments_are_replaced() {
        let variables = [("POD_IP".to_owned(), "10.98.1.7".to_owned())].into();
        assert_eq!(
            expand("--listen=$(POD_IP):8000", &variables),
            "--listen=10.98.1.7:8000"
        );
        assert_eq!(expand("$(OTHER)", &variables), "$(OTHER)");
    }
}
