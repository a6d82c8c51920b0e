//! A replica and the agent before it.

use super::behaviour::Behaviour;
use super::http;
use super::ports::FreePorts;
use super::processes::{Process, Processes, wait_for};
use super::replica::{CHORE, COUNTS};
use core::net::SocketAddr;
use core::time::Duration;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Time from the start of a process until it answers.
const START_MAX: Duration = Duration::from_secs(20);

/// Time from SIGTERM to an agent's end.
const STOP_MAX: Duration = Duration::from_secs(40);

/// The programs to run, and the manager that ends them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Programs<'a> {
    pub(crate) processes: &'a Processes,
    pub(crate) slackwater: &'a Path,
}

/// A replica and its agent.
#[derive(Debug)]
pub(crate) struct Pair {
    /// Part of the names of its processes.
    name: String,
    pub(crate) replica: SocketAddr,
    pub(crate) agent: SocketAddr,
    /// The agent's admin address.
    pub(crate) agent_admin: SocketAddr,
    /// The process; `None` while it is dead.
    replica_process: Option<Process>,
    agent_process: Option<Process>,
}

impl Pair {
    /// A pair without running processes.
    pub(crate) fn new(name: String, ports: &mut FreePorts) -> Result<Self, String> {
        Ok(Self {
            name,
            replica: ports.take()?,
            agent: ports.take()?,
            agent_admin: ports.take()?,
            replica_process: None,
            agent_process: None,
        })
    }

    /// Starts the replica and waits until it answers.
    pub(crate) fn start_replica(
        &mut self,
        programs: &Programs<'_>,
        behaviour: &Behaviour,
    ) -> Result<(), String> {
        let xtask = std::env::current_exe().map_err(|error| format!("xtask: {error}"))?;
        let mut command = Command::new(xtask);
        command.args([CHORE, &self.replica.to_string()]);
        command.args(behaviour.arguments());
        self.start_replica_as(programs, &mut command, COUNTS)
    }

    /// Starts another program as the replica. It must listen at [`replica`](Self::replica), and is
    /// ready when it answers `path` with 200.
    pub(crate) fn start_replica_as(
        &mut self,
        programs: &Programs<'_>,
        command: &mut Command,
        path: &str,
    ) -> Result<(), String> {
        let name = format!("replica-{}", self.name);
        let process = programs.processes.start(&name, command)?;
        let process = self.replica_process.insert(process);
        await_answer(process, self.replica, path)
    }

    /// Starts the agent and waits until it accepts requests.
    pub(crate) fn start_agent(
        &mut self,
        programs: &Programs<'_>,
        configuration: &Path,
    ) -> Result<(), String> {
        let mut command = Command::new(programs.slackwater);
        command.arg("agent").arg("--config").arg(configuration);
        command.args(["--listen", &self.agent.to_string()]);
        command.args(["--to", &self.replica.to_string()]);
        command.args(["--admin", &self.agent_admin.to_string()]);
        let name = format!("agent-{}", self.name);
        let process = programs.processes.start(&name, &mut command)?;
        let process = self.agent_process.insert(process);
        await_answer(process, self.agent_admin, "/healthz")
    }

    /// The replica's process, if it runs.
    pub(crate) fn replica_pid(&self) -> Option<Pid> {
        self.replica_process.as_ref().map(Process::pid)
    }

    /// The agent's process, if it runs.
    pub(crate) fn agent_pid(&self) -> Option<Pid> {
        self.agent_process.as_ref().map(Process::pid)
    }

    /// Kills the replica.
    pub(crate) fn kill_replica(&mut self) {
        self.replica_process = None;
    }

    /// Kills the agent.
    pub(crate) fn kill_agent(&mut self) {
        self.agent_process = None;
    }

    /// Sends SIGTERM to the agent, and waits for its end.
    pub(crate) fn stop_agent(&mut self) -> Result<(), String> {
        let Some(agent) = self.agent_process.take() else {
            return Err("the agent is not there".to_owned());
        };
        agent.stop(STOP_MAX)
    }

    /// Sends a signal to the replica.
    pub(crate) fn signal_replica(&self, signal: Signal) -> Result<(), String> {
        send(self.replica_process.as_ref(), signal)
    }

    /// Sends a signal to the agent.
    pub(crate) fn signal_agent(&self, signal: Signal) -> Result<(), String> {
        send(self.agent_process.as_ref(), signal)
    }

    /// Requests in flight that the agent reports.
    pub(crate) fn rif(&self) -> Result<u64, String> {
        let status = http::get_json(self.agent_admin, "/status")?;
        let rif = status["own_load"]["rif"].as_u64();
        rif.ok_or_else(|| format!("{}: a status without own_load.rif", self.agent_admin))
    }

    /// The replica's counts since its start.
    pub(crate) fn counts(&self) -> Result<Value, String> {
        http::get_json(self.replica, COUNTS)
    }
}

fn send(process: Option<&Process>, signal: Signal) -> Result<(), String> {
    let process = process.ok_or_else(|| "a process that is to get a signal is dead".to_owned())?;
    kill_process(process.pid(), signal).map_err(|error| format!("a signal: {error}"))
}

fn await_answer(process: &mut Process, address: SocketAddr, path: &str) -> Result<(), String> {
    wait_for(&format!("{address} to answer"), START_MAX, || {
        process.check_running()?;
        let answered = http::get(address, path).is_ok_and(|answer| answer.status == 200);
        Ok(answered.then_some(()))
    })
}
