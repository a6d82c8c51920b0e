//! The `serve` under test: its configuration, its reloads, and its successors, which are not our
//! children.

use super::certificates::{Authority, Certificates};
use super::secure::Secure;
use crate::loopback::processes::{Process, Processes, wait_for};
use crate::loopback::{http, serve};
use core::fmt::Write as _;
use core::net::SocketAddr;
use core::time::Duration;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Time from a signal to its effect.
const EFFECT_MAX: Duration = Duration::from_secs(40);

/// Timeout for a response's head: longer than a replica is ever stopped, so that only faults cause
/// losses.
const FIRST_BYTE: &str = "15s";

/// A path that `serve` answers itself, without a replica.
const ANSWERED_HERE: &str = "/answered-here";

/// Requests below this path go to the agents over HTTP/2, all others over HTTP/1.1.
pub(super) const OVER_HTTP2: &str = "/over-http2";

/// `serve` in all of its generations.
#[derive(Debug)]
pub(super) struct Serve {
    pub(super) address: SocketAddr,
    pub(super) secure: Secure,
    pub(super) admin: SocketAddr,
    pub(super) access_log: PathBuf,
    file: PathBuf,
    tls_address: SocketAddr,
    certificates: Certificates,
    agents: Agents,
    /// The first generation, which is our child process.
    first: Option<Process>,
    /// All generations; their memory is recorded.
    generations: Vec<Pid>,
    /// Number of reloads; each changes a value of the configuration.
    reloads: u64,
}

/// The agents' addresses and TLS names.
#[derive(Debug)]
pub(super) struct Agents {
    pub(super) addresses: Vec<SocketAddr>,
    /// The name in their certificates.
    pub(super) host: &'static str,
    pub(super) authority: Rc<Authority>,
}

impl Serve {
    pub(super) fn new(
        folder: &Path,
        [address, tls_address, admin]: [SocketAddr; 3],
        agents: Agents,
    ) -> Result<Self, String> {
        let certificates = Certificates::new(&agents.authority, folder, "chaos.test")?;
        let roots = agents.authority.roots()?;
        Ok(Self {
            address,
            secure: Secure::new(tls_address, certificates.host, roots)?,
            admin,
            tls_address,
            certificates,
            access_log: folder.join("access.log"),
            file: folder.join("serve.toml"),
            agents,
            first: None,
            generations: Vec::new(),
            reloads: 0,
        })
    }

    /// Starts the first generation.
    pub(super) fn start(&mut self, processes: &Processes, slackwater: &Path) -> Result<(), String> {
        self.write_configuration()?;
        let ready = (self.admin, EFFECT_MAX);
        let process = serve::start(processes, slackwater, &self.file, ready)?;
        self.generations.push(process.pid());
        self.first = Some(process);
        Ok(())
    }

    fn write_configuration(&self) -> Result<(), String> {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "workers = 2\n[[listeners]]\naddress = \"{}\"\n[[listeners]]\naddress = \"{}\"",
            self.address, self.tls_address
        );
        let file = |path: &Path| path.display().to_string();
        let _ = writeln!(
            text,
            "[listeners.tls]\ncertificates = [{{ certificate = {:?}, key = {:?} }}]",
            file(&self.certificates.certificate),
            file(&self.certificates.key)
        );
        let _ = writeln!(
            text,
            "[[routes]]\npath = \"{ANSWERED_HERE}\"\nrespond = {{ status = 200, body = \"here\" }}\n\
             [[routes]]\npath_prefix = \"{OVER_HTTP2}\"\nservice = \"http2\"\n\
             [[routes]]\nservice = \"http1\""
        );
        let agents: Vec<_> = (self.agents.addresses.iter())
            .map(ToString::to_string)
            .collect();
        for (service, protocol) in [("http1", "http1"), ("http2", "h2")] {
            let _ = writeln!(
                text,
                "[services.{service}]\nreplicas = {agents:?}\nreplica.protocol = \"{protocol}\"\n\
                 replica.tls = {{ ca = {:?}, server_name = \"{}\" }}",
                file(&self.agents.authority.file),
                self.agents.host
            );
        }
        let _ = writeln!(
            text,
            "[timeouts]\nconnect = \"250ms\"\nfirst_byte = \"{FIRST_BYTE}\""
        );
        // The values that each reload changes; they have no effect on requests.
        let _ = writeln!(text, "idle = \"{}s\"\ndrain = \"20s\"", 60 + self.reloads);
        let _ = writeln!(text, "[admin]\nlisten = \"{}\"", self.admin);
        let _ = writeln!(
            text,
            "[access_log]\nto = \"{}\"\nformat = \"json\"",
            self.access_log.display()
        );
        fs::write(&self.file, text).map_err(|error| format!("{}: {error}", self.file.display()))
    }

    /// The generation that accepts requests.
    pub(super) fn current(&self) -> Result<Pid, String> {
        self.generations
            .last()
            .copied()
            .ok_or_else(|| "serve is not there".to_owned())
    }

    /// Number of generations.
    pub(super) const fn generations(&self) -> usize {
        self.generations.len()
    }

    /// Upgrades to a new process, and waits until it serves.
    pub(super) fn upgrade(&mut self) -> Result<(), String> {
        let old = self.current()?;
        kill_process(old, Signal::USR2).map_err(|error| format!("SIGUSR2: {error}"))?;
        let new = wait_for("a successor to serve", EFFECT_MAX, || {
            let serving = self.process_serving().ok();
            Ok(serving.filter(|process| *process != old))
        })?;
        self.generations.push(new);
        Ok(())
    }

    /// Changes the configuration, and waits until the serving process has loaded it.
    pub(super) fn reload(&mut self) -> Result<(), String> {
        let before = self.reloads_taken()?;
        self.reloads += 1;
        self.write_configuration()?;
        kill_process(self.current()?, Signal::HUP).map_err(|error| format!("SIGHUP: {error}"))?;
        wait_for("a reload to be taken", EFFECT_MAX, || {
            Ok((self.reloads_taken()? > before).then_some(()))
        })
    }

    /// Replaces certificate and key, and waits until handshakes show the new one. Open connections
    /// continue.
    pub(super) fn replace_certificate(&self) -> Result<(), String> {
        let mut open = self.secure.hold()?;
        let before = open.shown();
        open.get(ANSWERED_HERE)?;
        let new = self.certificates.replace()?;
        if before.as_ref() == Some(&new) {
            return Err("the new certificate is the old one".to_owned());
        }
        wait_for("a new certificate to be shown", EFFECT_MAX, || {
            let shown = self.secure.hold()?.shown();
            match shown {
                Some(shown) if shown == new => Ok(Some(())),
                shown if shown == before => Ok(None),
                _ => {
                    Err("a certificate is shown that is neither the old nor the new one".to_owned())
                }
            }
        })?;
        open.get(ANSWERED_HERE)
            .map_err(|error| format!("on a connection from before: {error}"))
    }

    /// Number of successful reloads of the serving process.
    fn reloads_taken(&self) -> Result<u64, String> {
        let status = self.status()?;
        let taken = status["reloads"]["taken"].as_u64();
        taken.ok_or_else(|| "the status names no reloads".to_owned())
    }

    /// The process that answers at the admin address.
    fn process_serving(&self) -> Result<Pid, String> {
        let status = self.status()?;
        let process = status["process"]
            .as_i64()
            .and_then(|process| i32::try_from(process).ok());
        process
            .and_then(Pid::from_raw)
            .ok_or_else(|| "the status names no process".to_owned())
    }

    pub(super) fn status(&self) -> Result<Value, String> {
        http::get_json(self.admin, "/status")
    }

    /// Waits until all generations except the current one have ended.
    pub(super) fn await_predecessors(&mut self) -> Result<(), String> {
        let current = self.current()?;
        if let Some(first) = self.first.take_if(|first| first.pid() != current) {
            let ended = first.wait(EFFECT_MAX)?;
            if !ended.status.success() {
                return Err(format!("the first generation ended with {}", ended.status));
            }
        }
        let is_old = |process: &&Pid| **process != current;
        let old: Vec<_> = self.generations.iter().filter(is_old).copied().collect();
        await_ends(&old)
    }

    /// Stops the serving generation as an operator does, and waits for its end, after which its log
    /// is complete.
    pub(super) fn stop(&self) -> Result<(), String> {
        let current = self.current()?;
        kill_process(current, Signal::TERM).map_err(|error| format!("SIGTERM: {error}"))?;
        await_ends(&[current])
    }

    /// Memory in use by the current generation.
    pub(super) fn resident_bytes(&self) -> Result<u64, String> {
        let pid = self.current()?.as_raw_nonzero();
        let file = format!("/proc/{pid}/statm");
        let text = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let pages = text
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<u64>().ok());
        let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
        pages
            .map(|pages| pages * page)
            .ok_or_else(|| format!("{file}: {text:?}"))
    }
}

fn await_ends(processes: &[Pid]) -> Result<(), String> {
    wait_for("generations of serve to end", EFFECT_MAX, || {
        let has_ended = |process: &Pid| !is_alive(*process);
        Ok(processes.iter().all(has_ended).then_some(()))
    })
}

/// Whether the process exists and is not a zombie.
fn is_alive(process: Pid) -> bool {
    let file = format!("/proc/{}/stat", process.as_raw_nonzero());
    let state = fs::read_to_string(file).ok();
    let state = state.as_deref().and_then(|text| text.rsplit_once(") "));
    state.is_some_and(|(_, state)| !state.starts_with('Z'))
}

impl Drop for Serve {
    fn drop(&mut self) {
        // Successors are not our children, so nothing else ends them. The configuration in their
        // arguments distinguishes them from another process that may have got the same id.
        for process in &self.generations {
            let file = format!("/proc/{}/cmdline", process.as_raw_nonzero());
            let ours = self.file.as_os_str().as_encoded_bytes();
            let is_ours =
                fs::read(file).is_ok_and(|line| line.windows(ours.len()).any(|part| part == ours));
            if is_ours && test_kill_process(*process).is_ok() {
                let _ = kill_process(*process, Signal::KILL);
            }
        }
    }
}
