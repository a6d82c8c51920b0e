//! The processes of one variant: replicas and agents, `serve`, load.

use super::measure::{Found, Left};
use super::plan::{Round, Step, Stream, Variant};
use crate::loopback::behaviour::Behaviour;
use crate::loopback::load::Load;
use crate::loopback::pair::{Pair, Programs};
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::Process;
use crate::loopback::{access_log, http, serve};
use core::fmt::Write as _;
use core::net::SocketAddr;
use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};

/// Time from the start of a process until it is ready, or from SIGTERM until it has ended.
const EFFECT_MAX: Duration = Duration::from_secs(30);

/// Time from the end of a stream until the generator has ended: longer than any of its requests may
/// take.
const LOAD_ENDS_MAX: Duration = Duration::from_mins(1);

/// Index of the replica that has the trouble.
const FIRST: usize = 0;

/// The processes of one variant.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    programs: Programs<'a>,
    folder: PathBuf,
    address: SocketAddr,
    admin: SocketAddr,
    pairs: Vec<Pair>,
    serve: Option<Process>,
    loads: Vec<Load>,
}

impl<'a> Lane<'a> {
    /// A lane without running processes.
    pub(super) fn new(
        programs: Programs<'a>,
        folder: PathBuf,
        replicas: usize,
        ports: &mut FreePorts,
    ) -> Result<Self, String> {
        let pair = |index| Pair::new(format!("{index}"), ports);
        let pairs = (0..replicas).map(pair).collect::<Result<_, _>>()?;
        Ok(Self {
            programs,
            folder,
            address: ports.take()?,
            admin: ports.take()?,
            pairs,
            serve: None,
            loads: Vec::new(),
        })
    }

    /// Starts everything except the load; when this returns, every process answers.
    pub(super) fn start(&mut self, round: &Round, variant: &Variant) -> Result<(), String> {
        fs::create_dir_all(&self.folder).map_err(|error| about(&self.folder, &error))?;
        write(&self.agent_file(), &variant.agent)?;
        let (programs, agent_file) = (self.programs, self.agent_file());
        for (seed, pair) in (1..).zip(&mut self.pairs) {
            let behaviour = Behaviour {
                seed,
                ..round.behaviour.clone()
            };
            pair.start_replica(&programs, &behaviour)?;
            pair.start_agent(&programs, &agent_file)?;
        }
        let file = self.folder.join("serve.toml");
        write(&file, &self.configuration(variant))?;
        let ready = (self.admin, EFFECT_MAX);
        let Programs {
            processes,
            slackwater,
        } = self.programs;
        self.serve = Some(serve::start(processes, slackwater, &file, ready)?);
        Ok(())
    }

    /// One worker, which learns everything in one place, as with any rate that needs one core.
    fn configuration(&self, variant: &Variant) -> String {
        let replicas: Vec<_> = (self.pairs.iter())
            .map(|pair| pair.agent.to_string())
            .collect();
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "listen = \"{}\"\nworkers = 1\npolicy = \"{}\"\nreplicas = {replicas:?}",
            self.address, variant.policy
        );
        let _ = writeln!(text, "[timeouts]\ndrain = \"5s\"");
        let _ = writeln!(text, "[admin]\nlisten = \"{}\"", self.admin);
        let _ = writeln!(
            text,
            "[access_log]\nto = \"{}\"\nformat = \"json\"",
            self.access_log().display()
        );
        text + &variant.serve
    }

    fn agent_file(&self) -> PathBuf {
        self.folder.join("agent.toml")
    }

    fn access_log(&self) -> PathBuf {
        self.folder.join("access.log")
    }

    /// Executes a step on the first replica.
    pub(super) fn take(&mut self, step: &Step) -> Result<(), String> {
        let agent_file = self.agent_file();
        let pair = &mut self.pairs[FIRST];
        match step {
            Step::Replica(signal) => pair.signal_replica(*signal),
            Step::Agent(signal) => pair.signal_agent(*signal),
            Step::Kill => {
                pair.kill_agent();
                pair.kill_replica();
                Ok(())
            }
            Step::Start(behaviour) => {
                pair.start_replica(&self.programs, behaviour)?;
                pair.start_agent(&self.programs, &agent_file)
            }
        }
    }

    /// Starts a stream.
    pub(super) fn send(&mut self, stream: &Stream, seed: u64) -> Result<(), String> {
        let url = format!("http://{}{}", self.address, stream.path);
        let file = self.folder.join(format!("{}.json", stream.name));
        let options = [
            ("--rate", stream.rate),
            ("--warmup", stream.warmup.as_secs()),
            ("--seconds", stream.measured.as_secs()),
            ("--seed", seed),
        ];
        let options = options.map(|(name, value)| [name.to_owned(), value.to_string()]);
        let more = stream.arguments.iter().map(ToString::to_string);
        let arguments: Vec<_> = options.into_iter().flatten().chain(more).collect();
        let load = Load::start(&self.programs, stream.name, &url, file, &arguments)?;
        self.loads.push(load);
        Ok(())
    }

    /// Waits for the end of the load, ends `serve`, and reads the results.
    pub(super) fn finish(mut self, round: &Round, began: Duration) -> Result<Found, String> {
        let limit = round.lasts() + LOAD_ENDS_MAX;
        let loads = core::mem::take(&mut self.loads);
        let seen = loads.into_iter().map(|load| load.finish(limit));
        let seen = seen.collect::<Result<_, _>>()?;
        let status = http::get_json(self.admin, "/status")?;
        let counts = self.pairs.iter().map(Pair::counts);
        let counts = counts.collect::<Result<_, _>>()?;
        let Some(serve) = self.serve.take() else {
            return Err("serve was not started".to_owned());
        };
        serve.stop(EFFECT_MAX)?;
        let left = Left {
            seen,
            lines: access_log::read(&self.access_log())?,
            began,
            first_replica: self.pairs[FIRST].agent.to_string(),
            counts,
            status,
        };
        Ok(Found::new(round, &left))
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| about(file, &error))
}

fn about(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
