//! What runs: replicas, an agent before each, `serve` before them all, and streams of load. `serve` speaks TLS to the agents.

use super::certificates::{Authority, Certificates};
use super::lines::Line;
use super::replica::{ROOM, SERVICE_MS};
use super::serve::{Agents, Serve};
use crate::peers::http;
use crate::peers::ports::FreePorts;
use crate::peers::processes::{Process, Processes, wait_for};
use core::net::SocketAddr;
use core::time::Duration;
use rustix::process::{Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

/// Replicas, and agents.
pub(super) const REPLICAS: usize = 4;

/// Requests per second that the replicas can serve together.
pub(super) const CAPACITY: u64 = REPLICAS as u64 * ROOM * 1_000 / SERVICE_MS;

/// From the start of a process until it answers.
const START_MAX: Duration = Duration::from_secs(20);

/// One replica and its agent.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) replica: SocketAddr,
    pub(super) agent: SocketAddr,
    /// Where the agent tells how it does.
    agent_admin: SocketAddr,
    /// `None` while it is dead.
    replica_process: Option<Process>,
    agent_process: Option<Process>,
}

/// Everything that runs, and where.
#[derive(Debug)]
pub(super) struct Fleet<'a> {
    pub(super) processes: &'a Processes,
    pub(super) slackwater: &'a Path,
    pub(super) folder: PathBuf,
    pub(super) pairs: Vec<Pair>,
    agents_certificates: Certificates,
    pub(super) serve: Serve,
}

impl<'a> Fleet<'a> {
    /// Starts everything but the load; when this returns, everything answers.
    pub(super) fn start(
        processes: &'a Processes,
        slackwater: &'a Path,
        folder: &Path,
    ) -> Result<Self, String> {
        let mut ports = FreePorts::default();
        let mut pairs = Vec::with_capacity(REPLICAS);
        for _ in 0..REPLICAS {
            pairs.push(Pair {
                replica: ports.take()?,
                agent: ports.take()?,
                agent_admin: ports.take()?,
                replica_process: None,
                agent_process: None,
            });
        }
        let addresses = [ports.take()?, ports.take()?, ports.take()?];
        drop(ports);
        let authority = Rc::new(Authority::new(folder)?);
        let certificates = Certificates::new(&authority, folder, "agent.test")?;
        let agents = Agents {
            addresses: pairs.iter().map(|pair| pair.agent).collect(),
            host: certificates.host,
            authority,
        };
        let serve = Serve::new(folder, addresses, agents)?;
        let mut fleet = Self {
            processes,
            slackwater,
            folder: folder.to_owned(),
            pairs,
            agents_certificates: certificates,
            serve,
        };
        fleet.write_agents_configuration()?;
        for index in 0..REPLICAS {
            fleet.start_replica(index)?;
            fleet.start_agent(index)?;
        }
        fleet.serve.start(processes, slackwater)?;
        Ok(fleet)
    }

    /// What all agents have in common.
    fn write_agents_configuration(&self) -> Result<(), String> {
        let file = |path: &Path| path.display().to_string();
        let text = format!(
            "drain_delay = \"500ms\"\n[tls]\ncertificates = [{{ certificate = {:?}, key = {:?} }}]\n",
            file(&self.agents_certificates.certificate),
            file(&self.agents_certificates.key)
        );
        let path = self.agents_configuration();
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn agents_configuration(&self) -> PathBuf {
        self.folder.join("agent.toml")
    }

    /// Replaces the certificates of `serve` and of the agents. Connections that were open before go on.
    pub(super) fn replace_certificates(&self) -> Result<(), String> {
        self.agents_certificates.replace()?;
        self.serve.replace_certificate()
    }

    /// Starts a replica and waits until it listens.
    pub(super) fn start_replica(&mut self, index: usize) -> Result<(), String> {
        let program = std::env::current_exe().map_err(|error| format!("xtask: {error}"))?;
        let pair = &mut self.pairs[index];
        let mut command = Command::new(program);
        command.args([super::REPLICA, &pair.replica.port().to_string()]);
        let process = self
            .processes
            .start(&format!("replica-{index}"), &mut command)?;
        let address = pair.replica;
        await_answer(pair.replica_process.insert(process), address, "/")
    }

    /// Starts an agent and waits until it takes requests.
    pub(super) fn start_agent(&mut self, index: usize) -> Result<(), String> {
        let configuration = self.agents_configuration();
        let pair = &mut self.pairs[index];
        let mut command = Command::new(self.slackwater);
        command.arg("agent").arg("--config").arg(configuration);
        command.args(["--listen", &pair.agent.to_string()]);
        command.args(["--to", &pair.replica.to_string()]);
        command.args(["--admin", &pair.agent_admin.to_string()]);
        let process = self
            .processes
            .start(&format!("agent-{index}"), &mut command)?;
        let address = pair.agent_admin;
        await_answer(pair.agent_process.insert(process), address, "/healthz")
    }

    /// Kills a replica.
    pub(super) fn kill_replica(&mut self, index: usize) {
        self.pairs[index].replica_process = None;
    }

    /// Kills an agent.
    pub(super) fn kill_agent(&mut self, index: usize) {
        self.pairs[index].agent_process = None;
    }

    /// Asks an agent to stop, and waits until it has.
    pub(super) fn stop_agent(&mut self, index: usize) -> Result<(), String> {
        let Some(agent) = self.pairs[index].agent_process.take() else {
            return Err("the agent is not there".to_owned());
        };
        agent.terminate()?;
        let ended = agent.wait(Duration::from_secs(40))?;
        if ended.status.success() {
            Ok(())
        } else {
            Err(format!("an agent ended with {}", ended.status))
        }
    }

    /// Sends a replica a signal.
    pub(super) fn signal_replica(&self, index: usize, signal: Signal) -> Result<(), String> {
        let Some(process) = &self.pairs[index].replica_process else {
            return Err("the replica is not there".to_owned());
        };
        kill_process(process.pid(), signal).map_err(|error| format!("a signal: {error}"))
    }

    /// A stream of load for so long.
    pub(super) fn load(
        &self,
        (name, path): (&str, &str),
        rate: u64,
        length: Duration,
        more: &[&str],
    ) -> Result<Load, String> {
        let file = self.folder.join(format!("{name}.json"));
        let mut command = Command::new(self.slackwater);
        command
            .args([
                "load",
                &format!("http://{}{path}", self.serve.address),
                "--quiet",
            ])
            // Longer than all tries of a request may take together.
            .args(["--timeout", "30s", "--rate", &rate.to_string()])
            .args(["--seconds", &length.as_secs().to_string()])
            .args(more)
            .arg("--json")
            .arg(&file);
        let process = self.processes.start(name, &mut command)?;
        Ok(Load { process, file })
    }

    /// Requests in flight that any agent reports.
    pub(super) fn rif(&self) -> Result<u64, String> {
        let rifs = self.pairs.iter().map(|pair| {
            let status = http::get_json(pair.agent_admin, "/status")?;
            let rif = status["own_load"]["rif"].as_u64();
            rif.ok_or_else(|| format!("{}: a status without own_load.rif", pair.agent_admin))
        });
        rifs.sum()
    }

    /// What the access log has.
    pub(super) fn lines(&self) -> Result<Vec<Line>, String> {
        super::lines::read(&self.serve.access_log)
    }
}

/// A stream of load.
#[derive(Debug)]
pub(super) struct Load {
    process: Process,
    file: PathBuf,
}

/// What one saw.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) requests: u64,
    pub(super) errors: u64,
    /// By kind, and the first of each.
    pub(super) words: String,
}

impl Load {
    /// Waits for its end.
    pub(super) fn finish(self, limit: Duration) -> Result<Seen, String> {
        let ended = self.process.wait(limit)?;
        if !ended.status.success() {
            return Err(format!(
                "slackwater load: {}: {}",
                ended.status,
                ended.err.trim()
            ));
        }
        let wrong = |error: &dyn core::fmt::Display| format!("{}: {error}", self.file.display());
        let text = std::fs::read_to_string(&self.file).map_err(|error| wrong(&error))?;
        let all: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        let number = |name: &str| {
            all[name]
                .as_u64()
                .ok_or_else(|| wrong(&format!("no {name}")))
        };
        let kinds = all["errors_by_kind"].as_object().into_iter().flatten();
        let kinds = kinds.filter(|(_, count)| count.as_u64() != Some(0));
        let kinds = kinds.map(|(kind, count)| format!("{kind} {count}"));
        let first = all["first_failures"].as_object().into_iter().flatten();
        let first = first.map(|(_, failure)| format!("({failure})"));
        Ok(Seen {
            requests: number("requests")?,
            errors: number("errors")?,
            words: kinds.chain(first).collect::<Vec<_>>().join(", "),
        })
    }
}

fn await_answer(process: &mut Process, address: SocketAddr, path: &str) -> Result<(), String> {
    wait_for(&format!("{address} to answer"), START_MAX, || {
        process.check_running()?;
        let answered = http::get(address, path).is_ok_and(|answer| answer.status == 200);
        Ok(answered.then_some(()))
    })
}
