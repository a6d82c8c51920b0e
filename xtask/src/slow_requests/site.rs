//! The processes of the scenario, and access to their data.

use crate::loopback::behaviour::Behaviour;
use crate::loopback::load::Load;
use crate::loopback::pair::{Pair, Programs};
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::{Process, wait_for};
use crate::loopback::{http, serve};
use core::net::SocketAddr;
use core::time::Duration;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const REPLICAS: u64 = 5;

/// Time from the start of a process until it is ready, and for data to arrive.
const EFFECT_MAX: Duration = Duration::from_secs(30);

const LOAD_ENDS_MAX: Duration = Duration::from_mins(1);

/// All processes.
#[derive(Debug)]
pub(super) struct Site<'a> {
    programs: Programs<'a>,
    folder: PathBuf,
    address: SocketAddr,
    admin: SocketAddr,
    collector: SocketAddr,
    /// Requests sent so far.
    sent: u64,
    _running: (Vec<Pair>, [Process; 2]),
}

/// One request in all three sources.
#[derive(Debug)]
pub(super) struct RequestSources {
    /// Its line in the access log.
    pub(super) line: Value,
    pub(super) decision: Value,
    /// The decision in words.
    pub(super) sentences: String,
    pub(super) spans: Vec<Value>,
}

impl<'a> Site<'a> {
    /// When this returns, every process answers.
    pub(super) fn start(
        programs: Programs<'a>,
        folder: &Path,
        collector: &Path,
    ) -> Result<Self, String> {
        let mut ports = FreePorts::default();
        let pair = |number: u64| Pair::new(number.to_string(), &mut ports);
        let mut pairs: Vec<_> = (0..REPLICAS).map(pair).collect::<Result<_, _>>()?;
        let [address, admin, grpc, traces] = {
            let mut take = || ports.take();
            [take()?, take()?, take()?, take()?]
        };
        drop(ports);
        let agent_file = folder.join("agent.toml");
        write(&agent_file, "")?;
        for (seed, pair) in (1..).zip(&mut pairs) {
            let behaviour = Behaviour {
                room: 4,
                service_ms: if seed == 1 { 100 } else { 10 },
                seed,
                ..Behaviour::default()
            };
            pair.start_replica(&programs, &behaviour)?;
            pair.start_agent(&programs, &agent_file)?;
        }
        let mut command = Command::new(collector);
        command.args([grpc.to_string(), traces.to_string()]);
        let mut collector = programs.processes.start("collector", &mut command)?;
        wait_for("the collector to answer", EFFECT_MAX, || {
            collector.check_running()?;
            Ok(http::get(traces, "/traces/0").ok())
        })?;
        let replicas: Vec<_> = pairs.iter().map(|pair| pair.agent.to_string()).collect();
        let log = folder.join("access.log");
        let file = folder.join("serve.toml");
        let configuration = format!(
            "listen = \"{address}\"\nworkers = 1\npolicy = \"prequal\"\nreplicas = {replicas:?}\n\
             [admin]\nlisten = \"{admin}\"\n\
             [access_log]\nto = \"{}\"\nformat = \"json\"\n\
             [decisions]\nsample = 1\ncapacity = 10000\n\
             [hedge]\nenabled = true\nquantile = 0.9\nbudget = 0.1\nsamples_min = 20\n\
             [tracing]\nendpoint = \"http://{grpc}\"\nsample = 1\n",
            log.display()
        );
        write(&file, &configuration)?;
        let ready = (admin, EFFECT_MAX);
        let serve = serve::start(programs.processes, programs.slackwater, &file, ready)?;
        Ok(Self {
            programs,
            folder: folder.to_owned(),
            address,
            admin,
            collector: traces,
            sent: 0,
            _running: (pairs, [collector, serve]),
        })
    }

    /// Sends requests, and waits for their end.
    pub(super) fn load(&mut self, rate: u64, seconds: u64) -> Result<(), String> {
        let url = format!("http://{}/cart", self.address);
        let arguments = [("--rate", rate), ("--warmup", 0), ("--seconds", seconds)];
        let arguments = arguments.map(|(name, value)| [name.to_owned(), value.to_string()]);
        let arguments: Vec<_> = arguments.into_iter().flatten().collect();
        let file = self.folder.join("load.json");
        let load = Load::start(&self.programs, "load", &url, file, &arguments)?;
        let seen = load.finish(LOAD_ENDS_MAX)?;
        let requests = seen["requests"].as_u64();
        self.sent += requests.ok_or_else(|| format!("load does not say what it sent: {seen}"))?;
        Ok(())
    }

    /// The access log of all requests that were sent.
    pub(super) fn lines(&self) -> Result<Vec<Value>, String> {
        let log = self.folder.join("access.log");
        wait_for("the whole access log", EFFECT_MAX, || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let whole = text.lines().count() as u64 >= self.sent && text.ends_with('\n');
            let lines = text.lines().map(serde_json::from_str);
            let lines = lines.collect::<Result<Vec<Value>, _>>();
            // An incomplete line is read again later.
            Ok(lines.ok().filter(|_| whole))
        })
    }

    /// Collects the data of a request, given its line of the access log.
    pub(super) fn collect(&self, line: Value) -> Result<RequestSources, String> {
        let text = |key: &str| {
            let text = line[key].as_str();
            text.ok_or_else(|| format!("a line without {key}: {line}"))
        };
        let (id, trace) = (text("id")?, text("trace_id")?);
        let about = format!("/decisions?id={id}");
        let decisions = http::get_json(self.admin, &about)?;
        let sentences = http::get(self.admin, &format!("{about}&format=text"))?.body;
        let path = format!("/traces/{trace}");
        let attempts = line["attempts"].as_u64().unwrap_or_default();
        let spans = wait_for("the spans to arrive", EFFECT_MAX, || {
            let spans = http::get_json(self.collector, &path)?;
            let spans = spans.as_array().cloned().unwrap_or_default();
            Ok((spans.len() as u64 > attempts).then_some(spans))
        })?;
        Ok(RequestSources {
            decision: decisions["decisions"][0].clone(),
            line,
            sentences,
            spans,
        })
    }
}

fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}
