//! The processes of a contender's turn: replicas, agents for Slackwater, balancers, load.

use super::cases::{Case, Trouble};
use super::contenders::{self, Contender, Kind, Setup};
use super::measure::Found;
use super::options::Options;
use super::tools;
use crate::loopback::pair::{self, Pair};
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::{Process, Processes, wait_for};
use crate::loopback::{http, serve};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// Time from the start of a process until it answers.
const START_MAX: Duration = Duration::from_secs(30);

/// Time to send each key once.
const FILL_MAX: Duration = Duration::from_mins(2);

/// Time from the end of a stream until the generator has ended: longer than any of its requests may
/// take.
const LOAD_ENDS_MAX: Duration = Duration::from_mins(1);

/// Time between the death of a replica and its start.
const DEAD: Duration = Duration::from_secs(1);

/// Pace of a slow replica, in percent of the time of others.
const SLOW_PERCENT: u32 = 300;

/// The programs to run, and the manager that ends them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Programs<'a> {
    pub(super) processes: &'a Processes,
    pub(super) slackwater: &'a Path,
    pub(super) keyed: &'a Path,
}

/// What has to be done before the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    Start,
    Fill,
}

#[derive(Debug)]
pub(super) struct Lane<'a> {
    programs: Programs<'a>,
    options: &'a Options,
    case: &'a Case,
    contender: &'a Contender,
    folder: PathBuf,
    pairs: Vec<Pair>,
    balancers: Vec<Balancer>,
    /// The replica that has the case's trouble.
    troubled: usize,
}

#[derive(Debug)]
struct Balancer {
    listen: SocketAddr,
    admin: SocketAddr,
    process: Option<Process>,
}

impl<'a> Lane<'a> {
    /// A lane without running processes.
    pub(super) fn new(
        programs: Programs<'a>,
        options: &'a Options,
        case: &'a Case,
        contender: &'a Contender,
        folder: PathBuf,
        ports: &mut FreePorts,
    ) -> Result<Self, String> {
        let mut pairs = Vec::new();
        for index in 0..options.replicas {
            pairs.push(Pair::new(index.to_string(), ports)?);
        }
        let mut balancers = Vec::new();
        for _ in 0..case.balancers {
            balancers.push(Balancer {
                listen: ports.take()?,
                admin: ports.take()?,
                process: None,
            });
        }
        Ok(Self {
            programs,
            options,
            case,
            contender,
            folder,
            pairs,
            balancers,
            troubled: 0,
        })
    }

    /// Goes through a phase before the measurement.
    pub(super) fn prepare(&mut self, phase: Phase, seed: u64) -> Result<(), String> {
        match phase {
            Phase::Start => self.start(),
            Phase::Fill => self.fill(seed),
        }
    }

    fn start(&mut self) -> Result<(), String> {
        fs::create_dir_all(&self.folder).map_err(|error| about(&self.folder, &error))?;
        for index in 0..self.pairs.len() {
            self.start_replica(index, 0)?;
        }
        for index in 0..self.balancers.len() {
            let process = self.start_balancer(index)?;
            self.balancers[index].process = Some(process);
        }
        Ok(())
    }

    /// Starts a replica, and for Slackwater the agent before it.
    fn start_replica(&mut self, index: usize, pace_percent: u32) -> Result<(), String> {
        let programs = pair::Programs {
            processes: self.programs.processes,
            slackwater: self.programs.slackwater,
        };
        let (options, agent_file) = (self.options, self.folder.join("agent.toml"));
        let pair = &mut self.pairs[index];
        let mut command = Command::new(self.programs.keyed);
        command.arg("replica").arg(pair.replica.to_string());
        for (name, value) in [
            ("--index", index.to_string()),
            ("--workers", options.workers.to_string()),
            ("--hit-ms", options.hit_ms.to_string()),
            ("--miss-ms", options.miss_ms.to_string()),
            ("--cache", options.cache.to_string()),
            ("--pace", pace_percent.to_string()),
        ] {
            command.args([name, &value]);
        }
        pair.start_replica_as(&programs, &mut command, "/stats")?;
        if let Kind::Slackwater(mode) = self.contender.kind {
            write(&agent_file, &contenders::agent(mode, options.cache))?;
            pair.start_agent(&programs, &agent_file)?;
        }
        Ok(())
    }

    fn start_balancer(&self, index: usize) -> Result<Process, String> {
        let folder = self.folder.join(format!("balancer-{index}"));
        fs::create_dir_all(&folder).map_err(|error| about(&folder, &error))?;
        let replicas: Vec<_> = (self.pairs.iter())
            .map(|pair| {
                if self.contender.is_ours() {
                    pair.agent
                } else {
                    pair.replica
                }
            })
            .collect();
        let Balancer { listen, admin, .. } = self.balancers[index];
        let setup = Setup {
            listen,
            admin,
            replicas: &replicas,
            folder: &folder,
        };
        let Programs {
            processes,
            slackwater,
            ..
        } = self.programs;
        let (file, text) = match self.contender.kind {
            Kind::Envoy(policy) => ("envoy.yaml", contenders::envoy(&setup, policy)),
            Kind::Haproxy => ("haproxy.cfg", contenders::haproxy(&setup)),
            Kind::Nginx => ("nginx.conf", contenders::nginx(&setup)),
            Kind::Slackwater(mode) => {
                let text = contenders::slackwater(&setup, mode, &self.options.key.join("\n"));
                ("serve.toml", text)
            }
        };
        let file = folder.join(file);
        write(&file, &text)?;
        let mut command = match self.contender.kind {
            Kind::Slackwater(_) => {
                return serve::start(processes, slackwater, &file, (admin, START_MAX));
            }
            Kind::Envoy(_) => {
                let mut command = Command::new(tools::get("envoy")?);
                command.arg("-c").arg(&file);
                command.args(["--concurrency", "1", "--disable-hot-restart"]);
                command.args(["--log-level", "error"]);
                command
            }
            Kind::Haproxy => {
                let mut command = Command::new(tools::get("haproxy")?);
                command.arg("-db").arg("-f").arg(&file);
                command
            }
            Kind::Nginx => {
                let mut command = Command::new(tools::get("nginx")?);
                command.arg("-p").arg(&folder).arg("-c").arg(&file);
                command.arg("-e").arg(folder.join("error.log"));
                command
            }
        };
        let name = self.contender.name;
        let mut process = processes.start(name, &mut command)?;
        wait_for(&format!("{name} to answer"), START_MAX, || {
            process.check_running()?;
            let answered = http::get(listen, "/stats").is_ok_and(|answer| answer.status == 200);
            Ok(answered.then_some(()))
        })?;
        Ok(process)
    }

    /// Sends each key once, to replicas that need no time for a request. Then sets their pace.
    fn fill(&mut self, seed: u64) -> Result<(), String> {
        let ended = self.keyed("fill", seed, &[])?.wait(FILL_MAX)?;
        if !ended.status.success() {
            return Err(format!(
                "filling the caches: {}: {}",
                ended.status,
                ended.err.trim()
            ));
        }
        if self.case.trouble == Trouble::HotHomeSlow {
            let home = ended
                .out
                .split(' ')
                .next()
                .and_then(|home| home.parse().ok());
            let home = home.filter(|home| *home < self.pairs.len());
            self.troubled = home.ok_or_else(|| format!("no replica is in {:?}", ended.out))?;
        }
        for index in 0..self.pairs.len() {
            self.set_pace(index)?;
        }
        Ok(())
    }

    fn pace_percent(&self, index: usize) -> u32 {
        let is_slow = matches!(self.case.trouble, Trouble::Slow | Trouble::HotHomeSlow);
        if is_slow && index == self.troubled {
            SLOW_PERCENT
        } else {
            100
        }
    }

    fn set_pace(&self, index: usize) -> Result<(), String> {
        let path = format!("/pace?percent={}", self.pace_percent(index));
        match http::get(self.pairs[index].replica, &path)?.status {
            200 => Ok(()),
            status => Err(format!("{path}: status {status}")),
        }
    }

    /// Starts the generator for a role.
    fn keyed(&self, role: &str, seed: u64, more: &[(&str, u64)]) -> Result<Process, String> {
        let mut command = Command::new(self.programs.keyed);
        command.arg(role);
        command.args(
            self.balancers
                .iter()
                .map(|balancer| balancer.listen.to_string()),
        );
        command.args(["--zipf", &self.options.zipf.to_string()]);
        let all = [
            ("--keys", self.options.keys),
            ("--hot-percent", self.case.hot_percent.into()),
            ("--seed", seed),
        ];
        for (name, value) in all.iter().chain(more) {
            command.args([*name, &value.to_string()]);
        }
        self.programs.processes.start(role, &mut command)
    }

    /// Sends the load, and has the trouble.
    pub(super) fn measure(mut self, seed: u64) -> Result<Found, String> {
        let (settle, measured) = (self.options.settle, self.options.seconds);
        let more = [
            ("--rate", self.options.rate),
            ("--warmup", settle),
            ("--seconds", measured),
        ];
        let load = self.keyed("load", seed, &more)?;
        if self.case.trouble == Trouble::Restart {
            thread::sleep(Duration::from_secs(settle));
            let pair = &mut self.pairs[self.troubled];
            pair.kill_agent();
            pair.kill_replica();
            thread::sleep(DEAD);
            self.start_replica(self.troubled, 100)?;
        }
        let limit = Duration::from_secs(settle + measured) + LOAD_ENDS_MAX;
        let ended = load.wait(limit)?;
        if !ended.status.success() {
            return Err(format!("load: {}: {}", ended.status, ended.err.trim()));
        }
        let result: Value = serde_json::from_str(&ended.out)
            .map_err(|error| format!("load: {error}: {:?}", ended.out))?;
        for balancer in &mut self.balancers {
            if let Some(process) = &mut balancer.process {
                process.check_running()?;
            }
        }
        Found::new(result, self.pairs.len(), self.troubled)
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| about(file, &error))
}

fn about(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
