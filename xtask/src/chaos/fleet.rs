//! What runs: replicas, an agent before each, `serve` before them all, and streams of load. `serve`
//! speaks TLS to the agents.

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

/// Replicas, and agents.
pub(super) const REPLICAS: usize = 4;

/// Requests per second that the replicas can serve together.
pub(super) const CAPACITY: u64 = REPLICAS as u64 * ROOM * 1_000 / SERVICE_MS;

/// Requests at once, of a replica.
const ROOM: u64 = 2;

/// For one.
const SERVICE_MS: u64 = 10;

/// From the end of a schedule until its load has ended.
const LOAD_ENDS_MAX: Duration = Duration::from_mins(1);

/// So many times, while a replica is slowed.
const SLOWER: u64 = 10;

/// Everything that runs, and where.
#[derive(Debug)]
pub(super) struct Fleet<'a> {
    programs: Programs<'a>,
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

    /// Replaces the certificates of `serve` and of the agents. Connections that were open before go
    /// on.
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

    /// Starts an agent and waits until it takes requests.
    pub(super) fn start_agent(&mut self, index: usize) -> Result<(), String> {
        let configuration = self.agents_configuration();
        self.pairs[index].start_agent(&self.programs, &configuration)
    }

    /// A stream of load for so long.
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
        // Longer than all tries of a request may take together.
        let arguments = ["--timeout", "30s", "--rate", &rate, "--seconds", &seconds];
        let arguments = arguments.iter().chain(more).map(ToString::to_string);
        let arguments: Vec<_> = arguments.collect();
        Load::start(&self.programs, name, &url, file, &arguments)
    }

    /// Requests in flight that any agent reports.
    pub(super) fn rif(&self) -> Result<u64, String> {
        self.pairs.iter().map(Pair::rif).sum()
    }

    /// What the access log has.
    pub(super) fn lines(&self) -> Result<Vec<Line>, String> {
        access_log::read(&self.serve.access_log)
    }
}

/// What a stream of load saw.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) requests: u64,
    pub(super) errors: u64,
    /// By kind, and the first of each.
    pub(super) words: String,
}

impl Seen {
    /// Waits for the end of a stream.
    pub(super) fn by(load: Load) -> Result<Self, String> {
        let figures = load.finish(LOAD_ENDS_MAX)?;
        let number = |name: &str| {
            let number = figures[name].as_u64();
            number.ok_or_else(|| format!("slackwater load says nothing of {name}"))
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
