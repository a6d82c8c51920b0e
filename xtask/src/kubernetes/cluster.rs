//! A control plane: etcd, the API server, and the controllers that a deployment needs.

use super::api::Api;
use super::network::HOST;
use super::tools::Tools;
use crate::chaos::certificates::{Authority, Certificates};
use crate::loopback::http;
use crate::loopback::processes::{Process, Processes, wait_for};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use rcgen::KeyPair;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

/// Time from the start of a program until it is ready, also while others use the cores.
const START_MAX: Duration = Duration::from_mins(2);
/// The token of xtask and of the controllers, in the group that may do everything. It is known
/// only within the run's own network.
const TOKEN: &str = "kubernetes-of-xtask";
const PORT: u16 = 6443;
const ETCD: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 2379);

/// The controllers: those that make pods, and those that make slices of them.
const CONTROLLERS: [&str; 8] = [
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "namespace-controller",
    "replicaset-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "statefulset-controller",
];

/// A running control plane.
#[derive(Debug)]
pub(super) struct Cluster {
    processes: Processes,
    tools: Tools,
    folder: PathBuf,
    pub(super) api: Api,
    /// A kubeconfig with all rights.
    pub(super) kubeconfig: PathBuf,
    /// The certificate of the authority.
    pub(super) authority: PathBuf,
    /// `None` while it is down.
    api_server: Option<Process>,
    _controllers: Process,
    _etcd: Process,
}

impl Cluster {
    /// Starts a control plane on this etcd; when this returns, it answers.
    pub(super) fn start(
        processes: &Processes,
        tools: &Tools,
        etcd: &Path,
        folder: PathBuf,
    ) -> Result<Self, String> {
        let wrong = |error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(wrong)?;
        let authority = Rc::new(Authority::new(&folder)?);
        Certificates::new(&authority, &folder, "10.98.0.1")?;
        let key = KeyPair::generate().map_err(|error| format!("a key: {error}"))?;
        let put = |name: &str, text: &str| fs::write(folder.join(name), text).map_err(wrong);
        put("accounts.key", &key.serialize_pem())?;
        put("accounts.pub", &key.public_key_pem())?;
        put(
            "tokens.csv",
            &format!("{TOKEN},xtask,xtask,system:masters\n"),
        )?;
        let kubeconfig = folder.join("kubeconfig");
        let address = SocketAddr::from((HOST, PORT));
        let access = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "xtask",
            "contexts": [{ "name": "xtask", "context": { "cluster": "xtask", "user": "xtask" } }],
            "users": [{ "name": "xtask", "user": { "token": TOKEN } }],
            "clusters": [{ "name": "xtask", "cluster": {
                "server": format!("https://{address}"), "certificate-authority": authority.file,
            } }],
        });
        // JSON is YAML.
        put("kubeconfig", &access.to_string())?;
        let api = Api::new(address, TOKEN, authority.roots()?)?;
        let etcd = start_etcd(processes, etcd, &folder)?;
        let mut api_server = start_api_server(processes, tools, &folder)?;
        // The controllers give up if it takes long.
        await_api(&mut api_server, &api)?;
        Ok(Self {
            processes: processes.clone(),
            tools: tools.clone(),
            api,
            authority: authority.file.clone(),
            api_server: Some(api_server),
            _controllers: start_controllers(processes, tools, &kubeconfig)?,
            _etcd: etcd,
            kubeconfig,
            folder,
        })
    }

    /// Kills the API server.
    pub(super) fn kill_api(&mut self) {
        self.api_server = None;
    }

    /// Starts it again, and waits until it answers.
    pub(super) fn start_api(&mut self) -> Result<(), String> {
        let server = start_api_server(&self.processes, &self.tools, &self.folder)?;
        await_api(self.api_server.insert(server), &self.api)
    }

    /// Runs kubectl with all rights, and returns what it wrote.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.tools.path("kubectl"));
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        command.args(["--request-timeout=20s"]).args(arguments);
        // Its cache of the server's resources would be in the home folder.
        command.arg("--cache-dir").arg(self.folder.join("cache"));
        let ended = self.processes.run("kubectl", &mut command, START_MAX)?;
        if ended.status.success() {
            return Ok(ended.out);
        }
        let told = arguments.join(" ");
        Err(format!("kubectl {told}: {}", ended.err.trim()))
    }
}

/// Advances etcd by ten revisions of a key that the API server does not know, and discards all
/// revisions before the last. Returns it.
pub(super) fn compact() -> Result<u64, String> {
    let mut revision = None;
    for number in 0..10 {
        let answer = etcd(
            "kv/put",
            &json!({ "key": BASE64_STANDARD.encode("xtask"), "value": BASE64_STANDARD.encode(number.to_string()) }),
        )?;
        revision = answer["header"]["revision"].as_str().map(str::to_owned);
    }
    let revision = revision.ok_or("etcd names no revision")?;
    etcd(
        "kv/compaction",
        &json!({ "revision": revision, "physical": true }),
    )?;
    revision
        .parse()
        .map_err(|error| format!("revision {revision:?}: {error}"))
}

/// Sends a command to etcd, by its gateway for JSON.
fn etcd(path: &str, body: &Value) -> Result<Value, String> {
    http::post_json(ETCD, &format!("/v3/{path}"), body)
}

fn start_etcd(processes: &Processes, program: &Path, folder: &Path) -> Result<Process, String> {
    let mut command = Command::new(program);
    command.arg("--data-dir").arg(folder.join("etcd"));
    let clients = format!("http://{ETCD}");
    let peers = "http://127.0.0.1:2380";
    for (flag, url) in [
        ("--listen-client-urls", clients.as_str()),
        ("--advertise-client-urls", &clients),
        ("--listen-peer-urls", peers),
        ("--initial-advertise-peer-urls", peers),
    ] {
        command.args([flag, url]);
    }
    command.args(["--initial-cluster", &format!("default={peers}")]);
    let mut etcd = processes.start("etcd", &mut command)?;
    wait_for("etcd to be healthy", START_MAX, || {
        etcd.check_running()?;
        Ok(http::get(ETCD, "/health")
            .ok()
            .filter(|answer| answer.status == 200))
    })?;
    Ok(etcd)
}

fn start_api_server(
    processes: &Processes,
    tools: &Tools,
    folder: &Path,
) -> Result<Process, String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new(tools.path("kube-apiserver"));
    for (flag, value) in [
        ("etcd-servers", format!("http://{ETCD}")),
        ("bind-address", HOST.to_string()),
        ("advertise-address", HOST.to_string()),
        ("secure-port", PORT.to_string()),
        ("tls-cert-file", file("10.98.0.1.pem")),
        ("tls-private-key-file", file("10.98.0.1.key")),
        ("token-auth-file", file("tokens.csv")),
        ("authorization-mode", "RBAC".to_owned()),
        ("service-cluster-ip-range", "10.96.0.0/16".to_owned()),
        (
            "service-account-issuer",
            "https://kubernetes.default.svc".to_owned(),
        ),
        ("service-account-signing-key-file", file("accounts.key")),
        ("service-account-key-file", file("accounts.pub")),
        // It is killed: nothing needs time to notice its end.
        ("shutdown-delay-duration", "0s".to_owned()),
    ] {
        command.arg(format!("--{flag}={value}"));
    }
    processes.start("kube-apiserver", &mut command)
}

fn await_api(server: &mut Process, api: &Api) -> Result<(), String> {
    wait_for("the API server to be ready", START_MAX, || {
        server.check_running()?;
        Ok(matches!(api.status("/readyz"), Ok(200)).then_some(()))
    })
}

fn start_controllers(
    processes: &Processes,
    tools: &Tools,
    kubeconfig: &Path,
) -> Result<Process, String> {
    let mut command = Command::new(tools.path("kube-controller-manager"));
    command.arg("--kubeconfig").arg(kubeconfig);
    command.arg(format!("--controllers={}", CONTROLLERS.join(",")));
    command.args(["--leader-elect=false", "--secure-port=0"]);
    // It waits for the API server, also after that was killed.
    processes.start("kube-controller-manager", &mut command)
}
