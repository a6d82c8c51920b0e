//! The site: three servers, an agent before each, and `serve`, with the files in `deploy/examples`,
//! in which only the ports are replaced by free ones.

use super::tools::Tools;
use crate::command::root;
use crate::loopback::http::{self, Answer};
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::{Process, Processes, wait_for};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of servers, and of agents.
pub(super) const REPLICAS: usize = 3;

/// Time from the start of a process until it answers.
const START_MAX: Duration = Duration::from_secs(10);
const SERVE_LINES_MAX: usize = 15;

/// A server and its agent.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) server: SocketAddr,
    pub(super) agent: SocketAddr,
    pub(super) agent_admin: SocketAddr,
    /// The process; `None` while it is dead.
    pub(super) server_process: Option<Process>,
    pub(super) agent_process: Option<Process>,
}

/// All processes and their addresses.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) processes: &'a Processes,
    pub(super) tools: &'a Tools,
    pub(super) slackwater: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) address: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) pairs: Vec<Pair>,
    /// The process; `None` once it has stopped.
    pub(super) serve: Option<Process>,
    /// Number of lines of its configuration.
    pub(super) serve_lines: usize,
}

impl<'a> Site<'a> {
    /// Writes the configuration and starts everything; when this returns, every process answers.
    pub(super) fn start(
        processes: &'a Processes,
        tools: &'a Tools,
        slackwater: &'a Path,
        folder: &'a Path,
    ) -> Result<Self, String> {
        let mut ports = FreePorts::default();
        let mut pairs = Vec::with_capacity(REPLICAS);
        for _ in 0..REPLICAS {
            pairs.push(Pair {
                server: ports.take()?,
                agent: ports.take()?,
                agent_admin: ports.take()?,
                server_process: None,
                agent_process: None,
            });
        }
        let (address, admin) = (ports.take()?, ports.take()?);
        drop(ports);
        let mut site = Self {
            processes,
            tools,
            slackwater,
            folder,
            address,
            admin,
            pairs,
            serve: None,
            serve_lines: 0,
        };
        site.write_configuration()?;
        for index in 0..REPLICAS {
            site.start_server(index)?;
            site.start_agent(index)?;
        }
        site.start_serve()?;
        Ok(site)
    }

    fn write_configuration(&mut self) -> Result<(), String> {
        let www = self.www();
        create_folder(&www.join("upload"))?;
        create_folder(&www.join("slow"))?;
        for (index, pair) in self.pairs.iter().enumerate() {
            let home = self.server_home(index);
            create_folder(&home.join("temp"))?;
            std::os::unix::fs::symlink(&www, home.join("www")).map_err(about(&home))?;
            let ports = [("127.0.0.1:9001", pair.server)];
            write(&home.join("nginx.conf"), &example("nginx.conf", &ports)?)?;
            let ports = [
                ("127.0.0.1:8001", pair.agent),
                ("127.0.0.1:9001", pair.server),
                ("127.0.0.1:9911", pair.agent_admin),
            ];
            let file = self.agent_file(index);
            write(&file, &example("agent.toml", &ports)?)?;
        }
        let ports = [
            ("127.0.0.1:8080", self.address),
            ("127.0.0.1:8001", self.pairs[0].agent),
            ("127.0.0.1:8002", self.pairs[1].agent),
            ("127.0.0.1:8003", self.pairs[2].agent),
            ("127.0.0.1:9900", self.admin),
        ];
        let serve = example("serve.toml", &ports)?;
        self.serve_lines = serve.lines().count();
        if self.serve_lines > SERVE_LINES_MAX {
            return Err(format!(
                "deploy/examples/serve.toml has {} lines, at most {SERVE_LINES_MAX} are promised",
                self.serve_lines
            ));
        }
        write(&self.folder.join("serve.toml"), &serve)
    }

    /// Starts a server and waits until it listens.
    pub(super) fn start_server(&mut self, index: usize) -> Result<(), String> {
        let mut command = Command::new(&self.tools.nginx);
        command.arg("-p").arg(self.server_home(index));
        command.args(["-c", "nginx.conf"]);
        if rustix::process::getuid().is_root() {
            // Otherwise nginx's worker runs as the user `nobody`, which may not write into the
            // folder.
            command.args(["-g", "user root;"]);
        }
        let process = self
            .processes
            .start(&format!("nginx-{index}"), &mut command)?;
        let pair = &mut self.pairs[index];
        let server = pair.server;
        wait_until_answers(pair.server_process.insert(process), || get_ok(server, "/"))
    }

    /// Starts an agent and waits until it serves.
    pub(super) fn start_agent(&mut self, index: usize) -> Result<(), String> {
        let mut command = Command::new(self.slackwater);
        command
            .arg("agent")
            .arg("--config")
            .arg(self.agent_file(index));
        let process = self
            .processes
            .start(&format!("agent-{index}"), &mut command)?;
        let pair = &mut self.pairs[index];
        let admin = pair.agent_admin;
        wait_until_answers(pair.agent_process.insert(process), || {
            get_ok(admin, "/readyz")
        })
    }

    fn start_serve(&mut self) -> Result<(), String> {
        let mut command = Command::new(self.slackwater);
        command
            .arg("serve")
            .arg("--config")
            .arg(self.folder.join("serve.toml"));
        let process = self.processes.start("serve", &mut command)?;
        let admin = self.admin;
        wait_until_answers(self.serve.insert(process), || get_ok(admin, "/readyz"))
    }

    /// The folder that the servers serve.
    pub(super) fn www(&self) -> PathBuf {
        self.folder.join("www")
    }

    /// A URL of `serve`.
    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The status of `serve`.
    pub(super) fn status(&self) -> Result<Value, String> {
        status(self.admin)
    }

    /// The status of a replica in `serve`.
    pub(super) fn replica_status(&self, index: usize) -> Result<Value, String> {
        Ok(self.status()?["replicas"][index].take())
    }

    /// Fails if a process has ended that should run.
    pub(super) fn check_running(&mut self) -> Result<(), String> {
        let pairs = self.pairs.iter_mut();
        pairs
            .flat_map(|pair| [&mut pair.server_process, &mut pair.agent_process])
            .chain([&mut self.serve])
            .flatten()
            .try_for_each(Process::check_running)
    }

    fn server_home(&self, index: usize) -> PathBuf {
        self.folder.join(format!("nginx-{index}"))
    }

    fn agent_file(&self, index: usize) -> PathBuf {
        self.folder.join(format!("agent-{index}.toml"))
    }
}

/// The status at an admin address.
pub(super) fn status(admin: SocketAddr) -> Result<Value, String> {
    let answer = get_ok(admin, "/status")?;
    serde_json::from_str(&answer.body).map_err(|error| format!("http://{admin}/status: {error}"))
}

/// An agent's answer to an HTTP probe: its RIF, and whether it is draining.
pub(super) fn probe(agent: SocketAddr) -> Result<(u64, bool), String> {
    let answer = get_ok(agent, "/prequal/probe")?;
    let rif = answer
        .header("x-prequal-rif")
        .and_then(|rif| rif.parse().ok());
    let rif = rif.ok_or_else(|| format!("{agent}: a probe's answer without x-prequal-rif"))?;
    Ok((rif, answer.header("x-slackwater-draining") == Some("1")))
}

fn get_ok(address: SocketAddr, path: &str) -> Result<Answer, String> {
    let answer = http::get(address, path)?;
    match answer.status {
        200..=299 => Ok(answer),
        status => Err(format!(
            "GET {address}{path}: {status}: {}",
            answer.body.trim()
        )),
    }
}

fn wait_until_answers(
    process: &mut Process,
    ask: impl Fn() -> Result<Answer, String>,
) -> Result<(), String> {
    let answered = wait_for("a process to answer", START_MAX, || {
        process.check_running()?;
        Ok(ask().ok().map(|_| ()))
    });
    answered.map_err(|waited| match ask() {
        Ok(_) => waited,
        Err(error) => format!("{waited}: {error}"),
    })
}

/// Reads an example and replaces its ports, each of which must occur.
fn example(name: &str, ports: &[(&str, SocketAddr)]) -> Result<String, String> {
    let file = root().join("deploy/examples").join(name);
    let mut text = fs::read_to_string(&file).map_err(about(&file))?;
    for (written, free) in ports {
        if !text.contains(written) {
            return Err(format!(
                "deploy/examples/{name}: {written} is not there any more"
            ));
        }
        // In angle brackets until all are replaced, so that a free port is not replaced again.
        text = text.replace(written, &format!("<{free}>"));
    }
    Ok(text.replace(['<', '>'], ""))
}

fn create_folder(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(about(path))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(about(path))
}

/// Adds a path before an error.
pub(super) fn about(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}
