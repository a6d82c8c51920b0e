//! The processes of an outage, and access to their reports.

use super::live::Live;
use crate::loopback::behaviour::Behaviour;
use crate::loopback::load::Load;
use crate::loopback::pair::{Pair, Programs};
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::{Process, wait_for};
use crate::loopback::{http, serve};
use core::net::SocketAddr;
use core::time::Duration;
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const REPLICAS: u64 = 3;

/// Requests per second: what a debug build can serve, and enough to fail at once.
const RATE: u64 = 100;
/// Longer than all steps together; the load ends with xtask.
const LOAD_SECONDS: u64 = 120;

/// Time from the start of a process until it is ready.
const EFFECT_MAX: Duration = Duration::from_secs(30);

/// The action of a step.
pub(super) type Change = fn(&mut Site<'_>) -> Result<(), String>;

/// What stands before the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// `serve` alone.
    Direct,
    /// An agent before each replica.
    Agents,
}

impl Lane {
    /// The name of the lane's folder.
    const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Agents => "agents",
        }
    }
}

/// All processes.
#[derive(Debug)]
pub(super) struct Site<'a> {
    programs: Programs<'a>,
    lane: Lane,
    admin: SocketAddr,
    replicas: Vec<Pair>,
    serve: Process,
    live: Live,
    /// The length of the log of earlier steps.
    log_read: usize,
    _load: Load,
}

impl<'a> Site<'a> {
    /// When this returns, every process runs.
    pub(super) fn start(programs: Programs<'a>, folder: &Path, lane: Lane) -> Result<Self, String> {
        let folder = folder.join(lane.name());
        let wrong = |error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(wrong)?;
        let mut ports = FreePorts::default();
        let pair = |number: u64| Pair::new(format!("{}-{number}", lane.name()), &mut ports);
        let mut replicas: Vec<_> = (0..REPLICAS).map(pair).collect::<Result<_, _>>()?;
        let (address, admin) = (ports.take()?, ports.take()?);
        drop(ports);
        for replica in &mut replicas {
            replica.start_replica(&programs, &behaviour())?;
        }
        if lane == Lane::Agents {
            let file = folder.join("agent.toml");
            // Longer than a step, so that an agent that is stopped is seen to drain.
            fs::write(&file, "drain_delay = \"30s\"\n").map_err(wrong)?;
            for replica in &mut replicas {
                replica.start_agent(&programs, &file)?;
            }
        }
        let addresses: Vec<_> = (replicas.iter())
            .map(|it| address_of(it, lane).to_string())
            .collect();
        let file = folder.join("serve.toml");
        // Only addresses: all reports must work by default.
        let configuration = format!(
            "listen = \"{address}\"\nreplicas = {addresses:?}\n\n[admin]\nlisten = \"{admin}\"\n"
        );
        fs::write(&file, configuration).map_err(wrong)?;
        let ready = (admin, EFFECT_MAX);
        let serve = serve::start(programs.processes, programs.slackwater, &file, ready)?;
        let arguments = [
            ("--rate", RATE),
            ("--warmup", 0),
            ("--seconds", LOAD_SECONDS),
        ];
        let arguments = arguments.map(|(name, value)| [name.to_owned(), value.to_string()]);
        let arguments: Vec<_> = arguments.into_iter().flatten().collect();
        let (url, seen) = (format!("http://{address}/"), folder.join("load.json"));
        let load = Load::start(
            &programs,
            &format!("load-{}", lane.name()),
            &url,
            seen,
            &arguments,
        )?;
        Ok(Self {
            programs,
            lane,
            admin,
            replicas,
            serve,
            live: Live::read(admin)?,
            log_read: 0,
            _load: load,
        })
    }

    /// Why replicas fail, as every place says it.
    pub(super) const fn cause(&self) -> &'static str {
        match self.lane {
            Lane::Direct => "connection refused",
            Lane::Agents => "the agent's server cannot be connected to",
        }
    }

    /// How a failed request ends, as its decision says it.
    pub(super) const fn outcome(&self) -> &'static str {
        match self.lane {
            Lane::Direct => "no_connection",
            Lane::Agents => "withdrawn",
        }
    }

    /// The kind of failed requests in the line of a service.
    pub(super) const fn kind_of_failure(&self) -> &'static str {
        match self.lane {
            Lane::Direct => "without a connection",
            Lane::Agents => "answered 5xx",
        }
    }

    pub(super) const fn admin(&self) -> SocketAddr {
        self.admin
    }

    /// Waits until requests are answered and nothing is wrong.
    pub(super) fn wait_until_it_serves(&self) -> Result<(), String> {
        wait_for("requests, and no problem", EFFECT_MAX, || {
            let tick = self.tick();
            let requests = tick["services"][0]["classes"]["2xx"].as_u64();
            let is_well = tick["problems"].is_null() && requests >= Some(RATE / 2);
            Ok(is_well.then_some(()))
        })
    }

    pub(super) fn kill_one(&mut self) -> Result<(), String> {
        let first = self.replicas.first_mut();
        first.ok_or("there is no replica")?.kill_replica();
        Ok(())
    }

    pub(super) fn kill_all(&mut self) {
        self.replicas.iter_mut().for_each(Pair::kill_replica);
    }

    pub(super) fn restart_all(&mut self) -> Result<(), String> {
        for replica in &mut self.replicas {
            replica.start_replica(&self.programs, &behaviour())?;
        }
        Ok(())
    }

    /// Stops the first agent, which drains for longer than a step.
    pub(super) fn drain_one(&mut self) -> Result<(), String> {
        let first = self.replicas.first();
        first.ok_or("there is no agent")?.signal_agent(Signal::TERM)
    }

    /// Starts a new step: earlier log lines are ignored.
    pub(super) fn forget_log(&mut self) -> Result<(), String> {
        self.log_read = self.serve.errors()?.len();
        Ok(())
    }

    /// The log of this step.
    pub(super) fn log(&self) -> Result<String, String> {
        let log = self.serve.errors()?;
        Ok(log.get(self.log_read..).unwrap_or_default().to_owned())
    }

    /// The address of the replica that is killed first, as `serve` has it.
    pub(super) fn first(&self) -> String {
        let first = self.replicas.first();
        first.map_or_else(String::new, |pair| address_of(pair, self.lane).to_string())
    }

    pub(super) fn tick(&self) -> Value {
        self.live.tick()
    }

    /// Status and body of an answer of the admin server.
    pub(super) fn get(&self, path: &str) -> Result<(u16, String), String> {
        let answer = http::get(self.admin, path)?;
        Ok((answer.status, answer.body))
    }

    /// The output of `slackwater admin status`.
    pub(super) fn admin_status(&self) -> Result<String, String> {
        let mut command = Command::new(self.programs.slackwater);
        command.args(["admin", "--admin", &self.admin.to_string(), "status"]);
        let ended = self
            .programs
            .processes
            .run("status", &mut command, EFFECT_MAX)?;
        if ended.status.success() {
            Ok(ended.out)
        } else {
            Err(format!("slackwater admin status: {}", ended.err.trim()))
        }
    }
}

/// Destination of the requests of `serve`.
const fn address_of(pair: &Pair, lane: Lane) -> SocketAddr {
    match lane {
        Lane::Direct => pair.replica,
        Lane::Agents => pair.agent,
    }
}

/// Fast, and with enough permits for all requests.
fn behaviour() -> Behaviour {
    Behaviour {
        room: 100,
        service_ms: 5,
        ..Behaviour::default()
    }
}
