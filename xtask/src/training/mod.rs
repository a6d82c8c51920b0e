//! `cargo xtask training`: the load under which a program counts what it executes.
//!
//! A release compiles each program twice. The first one counts how often each part of its code runs
//! (`-Cprofile-generate`), and writes the counts when it ends. With them the compiler inlines what
//! is called most, and puts side by side what runs together. This is the load in between: the
//! ordinary work of `serve`, `agent` and `load`, in [lanes] that leave no feature out that many
//! use, since code that was not executed is compiled to be small. Counts hardly depend on speed, so
//! an emulator can run the programs. `[Decision 0028]`

mod lanes;

use crate::chaos::certificates::{Authority, Certificates};
use crate::command::find_slackwater;
use crate::folder::Folder;
use crate::loopback::behaviour::Behaviour;
use crate::loopback::load::Load;
use crate::loopback::pair::{Pair, Programs};
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::Processes;
use crate::loopback::serve;
use crate::output::progress;
use clap::value_parser;
use core::net::SocketAddr;
use core::time::Duration;
use lanes::{Address, LANES, Lane, Stream};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

const REPLICAS: u64 = 3;

/// Requests per second: what an emulator can serve.
const RATE: u64 = 200;

/// Time from the start of `serve` until it is ready.
const START_MAX: Duration = Duration::from_mins(1);

/// The longest time for a stream's end, or that of a process, after it should be over.
const END_MAX: Duration = Duration::from_mins(1);

/// The name that the certificate is for.
const HOST: &str = "localhost";

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Keeps the temporary folder with configuration and logs
    #[arg(long)]
    keep: bool,
    /// Length of each stream in seconds: 1 to 3,600
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=3_600))]
    #[arg(default_value_t = 8)]
    seconds: u64,
    /// The program to train; built by default
    #[arg(long, value_name = "FILE")]
    slackwater: Option<PathBuf>,
    /// Another program for the agents
    #[arg(long, value_name = "FILE")]
    agent: Option<PathBuf>,
}

/// Plays all lanes.
///
/// # Errors
///
/// Fails if a process did not start or end, or if a request failed.
pub(crate) fn run(options: &Options) -> Result<(), String> {
    let slackwater = find_slackwater(options.slackwater.as_deref(), "quick")?;
    let agent = options.agent.as_ref().unwrap_or(&slackwater);
    let folder = Folder::new("training", options.keep)?;
    let processes = Processes::new(&folder.path)?;
    processes.end_on_signals(folder.path.clone(), options.keep)?;
    let programs = |slackwater| Programs {
        processes: &processes,
        slackwater,
    };
    let authority = Rc::new(Authority::new(&folder.path)?);
    let site = Site {
        programs: programs(&slackwater),
        agents: programs(agent),
        folder: &folder.path,
        certificates: Certificates::new(&authority, &folder.path, HOST)?,
        authority,
        seconds: options.seconds,
    };
    for lane in &LANES {
        let streams = lane.streams.len();
        progress(&format!("training: {}: {streams} streams", lane.name));
        site.play(lane)?;
    }
    check_counts(&processes)
}

/// Fails if a process could not write its counts, which does not change how it ends.
fn check_counts(processes: &Processes) -> Result<(), String> {
    let of_counts = |line: &&str| line.starts_with("LLVM Profile");
    for errors in processes.errors()? {
        if let Some(line) = errors.lines().find(of_counts) {
            return Err(format!("training: counts are missing: {line}"));
        }
    }
    Ok(())
}

/// What all lanes have in common.
#[derive(Debug)]
struct Site<'a> {
    programs: Programs<'a>,
    /// With the program for agents.
    agents: Programs<'a>,
    folder: &'a Path,
    authority: Rc<Authority>,
    certificates: Certificates,
    /// The length of each stream.
    seconds: u64,
}

impl Site<'_> {
    fn play(&self, lane: &Lane) -> Result<(), String> {
        let mut ports = FreePorts::default();
        let pair = |number: u64| Pair::new(format!("{}-{number}", lane.name), &mut ports);
        let mut pairs: Vec<_> = (0..REPLICAS).map(pair).collect::<Result<_, _>>()?;
        let [plain, secure, admin] = [ports.take()?, ports.take()?, ports.take()?];
        drop(ports);
        let behaviour = Behaviour {
            room: 1_000,
            service_ms: 1,
            body_bytes: lane.body_bytes,
            trailers: lane.has_trailers.into(),
            ..Behaviour::default()
        };
        let file = self.write("agent.toml", "drain_delay = 0\n")?;
        for pair in &mut pairs {
            pair.start_replica(&self.programs, &behaviour)?;
            if lane.has_agents {
                pair.start_agent(&self.agents, &file)?;
            }
        }
        let replicas: Vec<_> = (pairs.iter())
            .map(|it| {
                if lane.has_agents {
                    it.agent
                } else {
                    it.replica
                }
            })
            .collect();
        let configuration = self.configuration(lane, [plain, secure, admin], &replicas);
        let file = self.write("serve.toml", &configuration)?;
        let Programs {
            processes,
            slackwater,
        } = self.programs;
        let serve = serve::start(processes, slackwater, &file, (admin, START_MAX))?;
        for stream in lane.streams {
            let sent = self.send(stream, plain.port(), secure.port());
            sent.map_err(|wrong| format!("{}, {stream:?}: {wrong}", lane.name))?;
        }
        // A killed one would write no counts.
        serve.stop(END_MAX)?;
        for pair in &mut pairs {
            if lane.has_agents {
                pair.stop_agent()?;
            }
        }
        Ok(())
    }

    /// Sends one stream of requests to `serve`, of which none may fail.
    fn send(&self, stream: &Stream, plain: u16, secure: u16) -> Result<(), String> {
        let url = match stream.to {
            Address::Plain => format!("http://{HOST}:{plain}/items/7?page=2"),
            Address::Secure => format!("https://{HOST}:{secure}/items/7?page=2"),
        };
        let ca = self.authority.file.display().to_string();
        let (rate, seconds) = (RATE.to_string(), self.seconds.to_string());
        let mut arguments = vec!["--rate", &rate, "--seconds", &seconds];
        if stream.to == Address::Secure {
            arguments.extend(["--ca", &ca]);
        }
        // What most clients send besides.
        for header in [
            "user-agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "accept: text/html,application/json;q=0.9,*/*;q=0.8",
            "accept-encoding: gzip, deflate, br",
            "cookie: session=0123456789abcdef",
        ] {
            arguments.extend(["--header", header]);
        }
        arguments.extend(stream.options);
        let arguments: Vec<_> = arguments.into_iter().map(str::to_owned).collect();
        let file = self.folder.join("load.json");
        let load = Load::start(&self.programs, "load", &url, file, &arguments)?;
        let figures = load.finish(Duration::from_secs(self.seconds) + END_MAX)?;
        match figures["errors"].as_u64() {
            Some(0) => Ok(()),
            _ => Err(format!(
                "requests failed: {}; {}",
                figures["errors_by_kind"], figures["first_failures"]
            )),
        }
    }

    fn configuration(
        &self,
        lane: &Lane,
        [plain, secure, admin]: [SocketAddr; 3],
        replicas: &[SocketAddr],
    ) -> String {
        let replicas: Vec<_> = replicas.iter().map(SocketAddr::to_string).collect();
        let log = self.folder.join("access.log");
        let files = [&self.certificates.certificate, &self.certificates.key, &log];
        let [certificate, key, log] = files.map(|file| file.display().to_string());
        format!(
            "[[listeners]]\naddress = \"{plain}\"\n\n\
             [[listeners]]\naddress = \"{secure}\"\n[listeners.tls]\n\
             certificates = [{{ certificate = {certificate:?}, key = {key:?} }}]\n\n\
             [admin]\nlisten = \"{admin}\"\n\n\
             [access_log]\nto = {log:?}\nformat = \"{format}\"\n\n\
             [[routes]]\nservice = \"web\"\n\n\
             [services.web]\nreplicas = {replicas:?}\n{service}",
            format = lane.log,
            service = lane.service,
        )
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let file = self.folder.join(name);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(file)
    }
}
