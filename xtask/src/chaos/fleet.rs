//! The processes: replicas, an agent before each, `serve` before all of them, and streams of load.
//! `serve` uses TLS to the agents.

use super::certificates::{Authority, Certificates};
use super::serve::{Agents, Serve};
use crate::loopback::access_log::{self, Line};
use crate::loopback::behaviour::Behaviour;
use crate::loopback::load::Load;
use crate::loopback::pair::{Pair, Programs};
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::Processes;
use core::time::Duration;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Number of replicas, and of agents.
pub(super) const REPLICAS: usize = 4;

/// Requests per second that all replicas can serve.
pub(super) const CAPACITY: u64 = REPLICAS as u64 * ROOM * 1_000 / SERVICE_MS;

/// Concurrent requests of a replica.
const ROOM: u64 = 2;

/// Time for one request.
const SERVICE_MS: u64 = 10;

/// Time from the end of a schedule until its load has ended.
const LOAD_ENDS_MAX: Duration = Duration::from_mins(1);

/// How many times as long requests take while a replica is slowed.
const SLOWER: u64 = 10;

/// All processes and their addresses.
#[derive(Debug)]
pub(super) struct Fleet<'a> {
    programs: Programs<'a>,
    pub(super) folder: PathBuf,
    pub(super) pairs: Vec<Pair>,
    agents_certificates: Certificates,
    pub(super) serve: Serve,
}

impl<'a> Fleet<'a> {
    /// Starts everything except the load; when this returns, every process answers.
    pub(super) fn start(
        processes: &'a Processes,
        slackwater: &'a Path,
        folder: &Path,
    ) -> Result<Self, String> {
        let mut ports = FreePorts::default();
        let mut pairs = Vec::with_capacity(REPLICAS);
        for index in 0..REPLICAS {
            pairs.push(Pair::new(index.to_string(), &mut ports)?);
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
            programs: Programs {
                processes,
                slackwater,
            },
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

    /// The keys that all agents have in common.
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

    /// Replaces the certificates of `serve` and of the agents. Open connections continue.
    pub(super) fn replace_certificates(&self) -> Result<(), String> {
        self.agents_certificates.replace()?;
        self.serve.replace_certificate()
    }

    /// Starts a replica and waits until it answers.
    pub(super) fn start_replica(&mut self, index: usize) -> Result<(), String> {
        let behaviour = Behaviour {
            room: ROOM,
            service_ms: SERVICE_MS,
            slower: SLOWER,
            ..Behaviour::default()
        };
        self.pairs[index].start_replica(&self.programs, &behaviour)
    }

    /// Starts an agent and waits until it accepts requests.
    pub(super) fn start_agent(&mut self, index: usize) -> Result<(), String> {
        let configuration = self.agents_configuration();
        self.pairs[index].start_agent(&self.programs, &configuration)
    }

    /// Starts a stream of load of this length.
    pub(super) fn load(
        &self,
        (name, path): (&str, &str),
        rate: u64,
        length: Duration,
        more: &[&str],
    ) -> Result<Load, String> {
        let url = format!("http://{}{path}", self.serve.address);
        let file = self.folder.join(format!("{name}.json"));
        let (rate, seconds) = (rate.to_string(), length.as_secs().to_string());
        // Longer than all attempts of a request may take together.
        let arguments = ["--timeout", "30s", "--rate", &rate, "--seconds", &seconds];
        let arguments = arguments.iter().chain(more).map(ToString::to_string);
        let arguments: Vec<_> = arguments.collect();
        Load::start(&self.programs, name, &url, file, &arguments)
    }

    /// Requests in flight that the agents report.
    pub(super) fn rif(&self) -> Result<u64, String> {
        self.pairs.iter().map(Pair::rif).sum()
    }

    /// The lines of the access log.
    pub(super) fn lines(&self) -> Result<Vec<Line>, String> {
        access_log::read(&self.serve.access_log)
    }
}

/// Results of a stream of load.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) requests: u64,
    pub(super) errors: u64,
    /// Errors by kind, with the first of each.
    pub(super) words: String,
}

impl Seen {
    /// Waits for the end of a stream.
    pub(super) fn by(load: Load) -> Result<Self, String> {
        let figures = load.finish(LOAD_ENDS_MAX)?;
        let number = |name: &str| {
            let number = figures[name].as_u64();
            number.ok_or_else(|| format!("slackwater load reports no {name}"))
        };
        let kinds = figures["errors_by_kind"].as_object().into_iter().flatten();
        let kinds = kinds.filter(|(_, count)| count.as_u64() != Some(0));
        let kinds = kinds.map(|(kind, count)| format!("{kind} {count}"));
        let first = figures["first_failures"].as_object().into_iter().flatten();
        let first = first.map(|(_, failure)| format!("({failure})"));
        Ok(Self {
            requests: number("requests")?,
            errors: number("errors")?,
            words: kinds.chain(first).collect::<Vec<_>>().join(", "),
        })
    }
}
