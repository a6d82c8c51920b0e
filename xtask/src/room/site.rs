//! The processes of a policy's turn, each in its group: replicas, agents and neighbours, `serve`,
//! load. Before them, the calibration of the machines.

use super::cases::Case;
use super::cgroup::{Cgroups, Group};
use super::cpu;
use super::learned::Word;
use super::measure::{Found, Sample};
use super::options::Options;
use super::schedule::{Span, presence, presence_within};
use crate::loopback::load::Load;
use crate::loopback::pair::{Pair, Programs};
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::Process;
use crate::loopback::{http, serve};
use crate::output::say;
use core::net::SocketAddr;
use core::time::Duration;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

/// Time from the start of a process until it is ready.
const START_MAX: Duration = Duration::from_secs(30);

/// Time from the end of a stream until the generator has ended: longer than any of its requests may
/// take.
const LOAD_ENDS_MAX: Duration = Duration::from_mins(1);

/// Interval of probes to agents: several while a neighbour is there, and rare compared to the load.
const ASK: Duration = Duration::from_millis(250);

/// The groups of a machine.
#[derive(Debug)]
pub(super) struct Place {
    /// The group with the quota, which contains the other two.
    machine: Group,
    replica: Group,
    /// The neighbour's group, with the same share as the replica's.
    neighbour: Group,
    /// The core on which all of it runs, so that neighbours compete.
    core: usize,
}

/// What all turns have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rig<'a> {
    pub(super) programs: Programs<'a>,
    pub(super) burner: &'a Path,
    pub(super) options: &'a Options,
    pub(super) case: &'a Case,
    pub(super) places: &'a [Place],
}

/// A replica's capacity in cores.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    pub(super) alone: f64,
    /// With its neighbour; the same value if it has none.
    pub(super) beside: f64,
}

/// Creates the groups of a case's machines.
pub(super) fn places(cgroups: &Cgroups, case: &Case, period_ms: u64) -> Result<Vec<Place>, String> {
    let machines = case.machines.iter().enumerate();
    let place = machines.map(|(index, machine)| {
        let group = cgroups.group(&format!("{}-{index}", case.name))?;
        group.set_quota(machine.quota_percent, period_ms)?;
        Ok(Place {
            replica: group.group("replica")?,
            neighbour: group.group("neighbour")?,
            machine: group,
            core: index % cpu::cores(),
        })
    });
    place.collect()
}

impl Rig<'_> {
    /// Starts a process that burns its group's CPU.
    fn burn(&self, name: &str, place: &Place, group: &Group) -> Result<Process, String> {
        let mut command = Command::new(self.burner);
        command.args(["neighbour", "--core", &place.core.to_string()]);
        let process = self.programs.processes.start(name, &mut command)?;
        group.add(process.pid())?;
        Ok(process)
    }

    /// Measures the machines' capacity while all of them are busy, without neighbours and with
    /// them.
    pub(super) fn calibrate(&self) -> Result<Vec<Capacity>, String> {
        let places = self.places.iter();
        let replicas = places.map(|place| self.burn("calibration", place, &place.replica));
        let replicas: Vec<_> = replicas.collect::<Result<_, _>>()?;
        let alone = used(&replicas, self.options.calibration());
        let machines = self.case.machines.iter().zip(self.places);
        let neighbours = machines
            .filter(|(machine, _)| machine.has_neighbour)
            .map(|(_, place)| self.burn("neighbour", place, &place.neighbour));
        let neighbours: Vec<_> = neighbours.collect::<Result<_, _>>()?;
        let beside = if neighbours.is_empty() {
            alone.clone()
        } else {
            used(&replicas, self.options.calibration())
        };
        let machines = self.case.machines.iter().zip(alone.into_iter().zip(beside));
        let capacities = machines.map(|(machine, (alone, beside))| Capacity {
            alone,
            beside: if machine.has_neighbour { beside } else { alone },
        });
        Ok(capacities.collect())
    }

    /// Plays one policy's turn, with processes of its own.
    pub(super) fn play(
        &self,
        policy: &str,
        seed: u64,
        capacities: &[Capacity],
        folder: &Path,
    ) -> Result<Found, String> {
        let mut site = Site::start_with_retries(self, policy, seed, folder)?;
        let (rig, options) = (self, self.options);
        let window = Span {
            from: options.warmup(),
            to: options.warmup() + options.measured(),
        };
        let machines = self.case.machines.iter().enumerate();
        let spans = machines.map(|(index, machine)| {
            if machine.has_neighbour {
                presence(seed, index, window.to)
            } else {
                Vec::new()
            }
        });
        let spans: Vec<_> = spans.collect();

        let mut events = vec![(window.from, Event::Look), (window.to, Event::Look)];
        for (index, spans) in spans.iter().enumerate() {
            for span in spans {
                events.push((span.from, Event::Comes(index)));
                events.push((span.to, Event::Goes(index)));
            }
        }
        let mut at = window.from;
        while at < window.to {
            events.push((at, Event::Ask));
            at += ASK;
        }
        // A neighbour that leaves after the end is stopped with the others.
        events.retain(|(at, _)| *at <= window.to);
        events.sort_by_key(|(at, _)| *at);

        let load = site.load(rig, seed, folder)?;
        let began = Instant::now();
        let (mut samples, mut words) = (Vec::new(), vec![Vec::new(); spans.len()]);
        for (at, event) in events {
            thread::sleep(at.saturating_sub(began.elapsed()));
            match event {
                Event::Look => samples.push(site.sample(rig, load.pid())?),
                Event::Comes(index) => site.signal_neighbour(index, Signal::CONT)?,
                Event::Goes(index) => site.signal_neighbour(index, Signal::STOP)?,
                Event::Ask => {
                    for (words, pair) in words.iter_mut().zip(&site.pairs) {
                        words.push(Word::ask(pair.agent, began.elapsed())?);
                    }
                }
            }
        }
        let figures = load.finish(window.to + LOAD_ENDS_MAX)?;
        let [before, after] = &samples[..] else {
            return Err("not looked at twice".to_owned());
        };
        let capacities = capacities.iter().zip(&spans).zip(&self.case.machines);
        let capacities = capacities.map(|((capacity, spans), machine)| {
            let presence = presence_within(spans, window);
            let cores = capacity.alone * (1.0 - presence) + capacity.beside * presence;
            cores / (options.cost_seconds() * machine.slower as f64)
        });
        let capacities: Vec<_> = capacities.collect();
        Ok(Found::new(&figures, before, after, &capacities, &words))
    }
}

/// Cores that processes use from now on, for this long.
fn used(processes: &[Process], time: Duration) -> Vec<f64> {
    let look = || -> Vec<_> {
        let processes = processes.iter();
        processes
            .map(|process| cpu::of_process(process.pid()))
            .collect()
    };
    let (began, before) = (Instant::now(), look());
    thread::sleep(time);
    let (after, time) = (look(), began.elapsed());
    let used = before.into_iter().zip(after);
    used.map(|(before, after)| (after.saturating_sub(before)).div_duration_f64(time))
        .collect()
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The measurement begins or ends.
    Look,
    /// The neighbour on that machine comes.
    Comes(usize),
    Goes(usize),
    /// Agents are probed for what they have learned.
    Ask,
}

/// All processes except the load.
#[derive(Debug)]
struct Site {
    address: SocketAddr,
    admin: SocketAddr,
    pairs: Vec<Pair>,
    /// Neighbours; stopped while they are away.
    neighbours: Vec<Option<Process>>,
    serve: Process,
}

impl Site {
    /// Starts the site, with retries: a port that was free may be taken by another process's
    /// connection before ours listens there.
    fn start_with_retries(
        rig: &Rig<'_>,
        policy: &str,
        seed: u64,
        folder: &Path,
    ) -> Result<Self, String> {
        const TRIES: usize = 3;
        for _ in 1..TRIES {
            match Self::start(rig, policy, seed, folder) {
                Ok(site) => return Ok(site),
                Err(trouble) => say(&format!("{}, {policy}, again: {trouble}", rig.case.name)),
            }
        }
        Self::start(rig, policy, seed, folder)
    }

    /// When this returns, every process answers, and no neighbour is there.
    fn start(rig: &Rig<'_>, policy: &str, seed: u64, folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut ports = FreePorts::default();
        let (address, admin) = (ports.take()?, ports.take()?);
        let names = (0..rig.places.len()).map(|index| index.to_string());
        let pairs = names.map(|name| Pair::new(name, &mut ports));
        let mut pairs: Vec<_> = pairs.collect::<Result<_, _>>()?;
        drop(ports);

        let mut neighbours = Vec::new();
        let machines = rig.case.machines.iter().zip(rig.places);
        for (index, ((machine, place), pair)) in machines.zip(&mut pairs).enumerate() {
            let options = [
                ("--cost-us", rig.options.cost_us),
                ("--slower", machine.slower),
                ("--threads", rig.options.threads),
                // Each replica's own seed, the same for every policy.
                (
                    "--seed",
                    seed.wrapping_mul(1_000).wrapping_add(index as u64),
                ),
                ("--core", place.core as u64),
            ];
            let mut command = Command::new(rig.burner);
            command.args(["replica", &pair.replica.to_string()]);
            for (name, value) in options {
                command.args([name, &value.to_string()]);
            }
            pair.start_replica_as(&rig.programs, &mut command, "/ready")?;
            place.replica.add(there(pair.replica_pid())?)?;
            let file = folder.join(format!("agent-{index}.toml"));
            let file = write(file, &agent_configuration(&place.replica))?;
            pair.start_agent(&rig.programs, &file)?;
            let neighbour = machine.has_neighbour.then(|| {
                let neighbour = rig.burn("neighbour", place, &place.neighbour)?;
                signal(neighbour.pid(), Signal::STOP)?;
                Ok::<_, String>(neighbour)
            });
            neighbours.push(neighbour.transpose()?);
        }
        let replicas: Vec<_> = pairs.iter().map(|pair| pair.agent.to_string()).collect();
        let configuration = format!(
            "listen = \"{address}\"\nworkers = {}\npolicy = \"{policy}\"\nreplicas = {replicas:?}\n\
             [admin]\nlisten = \"{admin}\"\n",
            rig.options.workers
        );
        let file = write(folder.join("serve.toml"), &configuration)?;
        let programs = rig.programs;
        let ready = (admin, START_MAX);
        let serve = serve::start(programs.processes, programs.slackwater, &file, ready)?;
        Ok(Self {
            address,
            admin,
            pairs,
            neighbours,
            serve,
        })
    }

    /// Starts the load.
    fn load(&self, rig: &Rig<'_>, seed: u64, folder: &Path) -> Result<Load, String> {
        let options = rig.options;
        let url = format!("http://{}/", self.address);
        let arguments = [
            ("--rate", rig.options.rate(rig.case)),
            ("--warmup", options.warmup().as_secs_f64()),
            ("--seconds", options.measured().as_secs_f64()),
        ];
        let arguments = arguments.map(|(name, value)| [name.to_owned(), value.to_string()]);
        let mut arguments = arguments.concat();
        arguments.extend(["--seed".to_owned(), seed.to_string()]);
        Load::start(
            &rig.programs,
            "load",
            &url,
            folder.join("load.json"),
            &arguments,
        )
    }

    fn signal_neighbour(&self, index: usize, kind: Signal) -> Result<(), String> {
        let neighbour = self.neighbours[index].as_ref().map(Process::pid);
        signal(there(neighbour)?, kind)
    }

    /// CPU time and counts until now.
    fn sample(&mut self, rig: &Rig<'_>, load: Pid) -> Result<Sample, String> {
        self.serve.check_running()?;
        let used = |process: Option<Pid>| there(process).map(cpu::of_process);
        let replicas = self.pairs.iter().map(|pair| used(pair.replica_pid()));
        let agents = self.pairs.iter().map(|pair| used(pair.agent_pid()));
        let neighbours = self.neighbours.iter().map(|neighbour| {
            let neighbour = neighbour.as_ref().map(Process::pid);
            neighbour.map(cpu::of_process).unwrap_or_default()
        });
        let periods = rig.places.iter().map(|place| place.machine.periods());
        Ok(Sample {
            at: Instant::now(),
            load: cpu::of_process(load),
            serve: cpu::of_process(self.serve.pid()),
            agents: agents.sum::<Result<_, _>>()?,
            replicas: replicas.collect::<Result<_, _>>()?,
            neighbours: neighbours.collect(),
            machine: cpu::of_machine(),
            periods: periods.collect::<Result<_, _>>()?,
            names: self
                .pairs
                .iter()
                .map(|pair| pair.agent.to_string())
                .collect(),
            status: http::get_json(self.admin, "/status")?,
        })
    }
}

/// Equal for every policy, so that all pay for the agents' work. The cgroup is the server's own,
/// as in a container; the agent must find out that the quota is on a group around it.
fn agent_configuration(replica: &Group) -> String {
    let cgroup = replica.path().display().to_string();
    format!("report_with_responses = true\n[replica]\ncgroup = {cgroup:?}\n")
}

fn there(process: Option<Pid>) -> Result<Pid, String> {
    process.ok_or_else(|| "a process has ended unexpectedly".to_owned())
}

fn signal(process: Pid, signal: Signal) -> Result<(), String> {
    kill_process(process, signal).map_err(|error| format!("a signal: {error}"))
}

fn write(file: PathBuf, text: &str) -> Result<PathBuf, String> {
    fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(file)
}
