//! Processes of a siege: proxies, real servers behind them, and the tools that may be missing.

use super::contenders::{self, Addresses, Contender};
use super::meters;
use super::setup::{Protocol, Setup};
use super::wire::http1;
use crate::command::{first_line, installed, root};
use crate::folder::numbered;
use crate::loopback::http;
use crate::loopback::ports::FreePorts;
use crate::loopback::processes::{Process, Processes, wait_for};
use crate::report::Page;
use core::net::SocketAddr;
use core::time::Duration;
use rustix::process::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Time from the start of a process until it answers.
const START_MAX: Duration = Duration::from_secs(20);

/// Time for the proxy's requests and connections to end after their clients have left.
const SETTLE_MAX: Duration = Duration::from_secs(15);

/// Each third-party tool, its package or page, and its version argument.
const TOOLS: [(&str, &str, &str); 5] = [
    ("nginx", "apt-get install nginx-light", "-v"),
    ("haproxy", "apt-get install haproxy", "-v"),
    ("go", "https://go.dev/dl", "version"),
    ("node", "apt-get install nodejs", "--version"),
    ("python3", "apt-get install python3", "--version"),
];

/// The path of a tool.
///
/// # Errors
///
/// Fails if it is not installed; the text has the command that installs it.
fn tool(name: &str) -> Result<PathBuf, String> {
    // Debian installs servers, and Go itself, in folders that are not in every user's PATH.
    let also = ["/usr/local/sbin", "/usr/sbin", "/usr/local/go/bin"];
    installed(name, &also).ok_or_else(|| {
        let tool = TOOLS.iter().find(|(tool, ..)| *tool == name);
        let how = tool.map_or("", |(_, how, _)| how);
        format!("not installed: {how}")
    })
}

/// Versions of the installed tools, and the names of missing ones.
fn versions() -> String {
    let version = |(name, _, argument): (&str, &str, &str)| match tool(name) {
        Err(_) => format!("{name} is not installed"),
        Ok(file) => {
            let line = first_line(file, &[argument]);
            let line = line.trim_start_matches("nginx version: ");
            let words: Vec<_> = line.split(' ').take(3).collect();
            match name {
                "node" => format!("Node {}", words.join(" ")),
                _ => words.join(" "),
            }
        }
    };
    TOOLS.map(version).join(", ")
}

/// The input of every part.
#[derive(Debug)]
pub(super) struct Site<'a> {
    pub(super) processes: &'a Processes,
    pub(super) slackwater: &'a Path,
    pub(super) folder: &'a Path,
    pub(super) short: bool,
    pub(super) seed: u64,
    /// The path of Go's server, once it is built.
    served: Result<PathBuf, String>,
}

impl<'a> Site<'a> {
    pub(super) fn new(
        processes: &'a Processes,
        (slackwater, folder): (&'a Path, &'a Path),
        (short, seed): (bool, u64),
    ) -> Self {
        Self {
            processes,
            slackwater,
            folder,
            short,
            seed,
            served: build_served(processes, folder),
        }
    }

    /// The first value in the short form, otherwise the second.
    pub(super) fn pick<T>(&self, short: T, whole: T) -> T {
        if self.short { short } else { whole }
    }

    /// The other proxies to attack. The short form attacks none of them.
    pub(super) fn peers(&self) -> &'static [Contender] {
        self.pick(&[], &Contender::PEERS)
    }

    /// Starts a proxy and waits until it answers.
    ///
    /// # Errors
    ///
    /// Fails if it is not installed, or did not start.
    pub(super) fn start(&self, contender: Contender, setup: &Setup<'_>) -> Result<Proxy, String> {
        let [http1, other, admin] = free_ports()?;
        let is_ours = contender == Contender::Slackwater;
        let at = Addresses {
            http1,
            http2: if is_ours { http1 } else { other },
            admin,
        };
        let name = contender.name();
        let home = numbered(self.folder, name)?;
        let (file, text) = match contender {
            Contender::Slackwater => ("serve.toml", contenders::slackwater(&at, setup)),
            Contender::Nginx => {
                let home = home.display().to_string();
                ("nginx.conf", contenders::nginx(&at, setup, &home))
            }
            Contender::Haproxy => ("haproxy.cfg", contenders::haproxy(&at, setup)),
        };
        let file = home.join(file);
        fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut command = match contender {
            Contender::Slackwater => {
                let mut command = match setup.files_max {
                    None => Command::new(self.slackwater),
                    Some(most) => {
                        let mut shell = Command::new("sh");
                        shell
                            .arg("-c")
                            .arg(format!("ulimit -n {most}; exec \"$0\" \"$@\""));
                        shell.arg(self.slackwater);
                        shell
                    }
                };
                command.arg("serve").arg("--config").arg(&file);
                command
            }
            Contender::Nginx => {
                let mut command = Command::new(tool(name)?);
                command.arg("-p").arg(&home).arg("-c").arg(&file);
                command.arg("-e").arg(home.join("error.log"));
                if rustix::process::getuid().is_root() {
                    // Otherwise its worker runs as the user `nobody`, which may not write into the
                    // folder.
                    command.args(["-g", "user root;"]);
                }
                command
            }
            Contender::Haproxy => {
                let mut command = Command::new(tool(name)?);
                command.arg("-db").arg("-f").arg(&file);
                command
            }
        };
        let mut process = self.processes.start(name, &mut command)?;
        wait_for(&format!("{name} to answer"), START_MAX, || {
            process.check_running()?;
            Ok(if is_ours {
                let ready = http::get(admin, "/readyz");
                ready.is_ok_and(|answer| answer.status == 200).then_some(())
            } else {
                std::net::TcpStream::connect(http1).ok().map(drop)
            })
        })?;
        Ok(Proxy { process, at })
    }

    /// Starts Slackwater.
    pub(super) fn start_ours(&self, setup: &Setup<'_>) -> Result<Proxy, String> {
        self.start(Contender::Slackwater, setup)
    }

    /// Starts Go's servers, which support both protocols.
    pub(super) fn start_go(&self, count: usize) -> Result<Servers, String> {
        let served = self.served.clone()?;
        self.start_servers("go", count, |at, log| {
            let mut command = Command::new(&served);
            command
                .args(["--listen", &at.to_string(), "--log"])
                .arg(log);
            Ok(command)
        })
    }

    /// Starts a Node server.
    pub(super) fn start_node(&self, protocol: Protocol) -> Result<Servers, String> {
        let node = tool("node")?;
        self.start_servers("node", 1, |at, log| {
            let mut command = Command::new(&node);
            command.arg(source("served.js")).arg(match protocol {
                Protocol::Http1 => "http",
                Protocol::H2c => "http2",
            });
            command.arg(at.to_string()).arg(log);
            Ok(command)
        })
    }

    /// Starts a server of Python's standard library.
    pub(super) fn start_python(&self) -> Result<Servers, String> {
        let python = tool("python3")?;
        self.start_servers("python", 1, |at, log| {
            let mut command = Command::new(&python);
            command
                .arg(source("served.py"))
                .arg(at.to_string())
                .arg(log);
            Ok(command)
        })
    }

    /// Starts nginx as a server. It reads a whole request before it answers, because it forwards to
    /// itself.
    pub(super) fn start_nginx_server(&self) -> Result<Servers, String> {
        let nginx = tool("nginx")?;
        let [inner] = free_ports()?;
        let folder = self.folder;
        self.start_servers("nginx-served", 1, |at, log| {
            let home = numbered(folder, "nginx-served")?;
            let file = home.join("nginx.conf");
            let text = nginx_server(at, inner, &home.display().to_string(), log);
            fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
            let mut command = Command::new(&nginx);
            command.arg("-p").arg(&home).arg("-c").arg(&file);
            command.arg("-e").arg(home.join("error.log"));
            if rustix::process::getuid().is_root() {
                command.args(["-g", "user root;"]);
            }
            Ok(command)
        })
    }

    fn start_servers(
        &self,
        name: &str,
        count: usize,
        command: impl Fn(SocketAddr, &Path) -> Result<Command, String>,
    ) -> Result<Servers, String> {
        let mut servers = Servers::default();
        for _ in 0..count {
            let [at] = free_ports()?;
            let log = self.folder.join(format!("{name}-{}.log", at.port()));
            fs::write(&log, "").map_err(|error| format!("{}: {error}", log.display()))?;
            let mut process = self.processes.start(name, &mut command(at, &log)?)?;
            wait_for(&format!("{name} to listen"), START_MAX, || {
                process.check_running()?;
                Ok(std::net::TcpStream::connect(at).ok().map(drop))
            })?;
            servers.processes.push(process);
            servers.addresses.push(at);
            servers.logs.push(log);
        }
        Ok(servers)
    }
}

fn nginx_server(at: SocketAddr, inner: SocketAddr, home: &str, log: &Path) -> String {
    format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid {home}/nginx.pid;\nerror_log {home}/error.log;\n\
         events {{}}\nhttp {{\nclient_body_temp_path {home}/body;\nproxy_temp_path {home}/proxy;\n\
         fastcgi_temp_path {home}/fastcgi;\nuwsgi_temp_path {home}/uwsgi;\nscgi_temp_path {home}/scgi;\n\
         log_format seen 'complete $request_method $request_uri 0';\n\
         server {{\nlisten {at};\naccess_log off;\nlocation / {{ proxy_pass http://{inner}; }}\n}}\n\
         server {{\nlisten {inner};\naccess_log {log} seen;\nlocation / {{ return 200 \"<served $request_uri>\"; }}\n}}\n}}\n",
        log = log.display()
    )
}

/// Servers of one kind.
#[derive(Debug, Default)]
pub(super) struct Servers {
    processes: Vec<Process>,
    pub(super) addresses: Vec<SocketAddr>,
    logs: Vec<PathBuf>,
}

impl Servers {
    /// All lines of their logs, and whether they all still run.
    pub(super) fn read_log(&mut self) -> Result<String, String> {
        self.processes
            .iter_mut()
            .try_for_each(Process::check_running)?;
        let mut text = String::new();
        for log in &self.logs {
            let bytes = fs::read(log).map_err(|error| format!("{}: {error}", log.display()))?;
            text += &String::from_utf8_lossy(&bytes);
        }
        Ok(text)
    }
}

/// A running proxy. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) process: Process,
    pub(super) at: Addresses,
}

/// Requests and connections that Slackwater reports at `/metrics`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) in_flight: u64,
    pub(super) connections: u64,
}

impl Proxy {
    pub(super) const fn pid(&self) -> Pid {
        self.process.pid()
    }

    pub(super) fn resident_kib(&self) -> u64 {
        meters::resident_kib(self.pid())
    }

    /// Slackwater's requests in flight and clients' connections.
    pub(super) fn held(&self) -> Result<Held, String> {
        let answer = http::get(self.at.admin, "/metrics")?;
        let sum = |name: &str| {
            let lines = answer.body.lines().filter(|line| {
                let rest = line.strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
            });
            let numbers = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
            numbers.reduce(|sum, number| sum + number)
        };
        let missing = |name: &str| format!("/metrics has no {name}");
        let read = |name: &str| sum(name).ok_or_else(|| missing(name));
        Ok(Held {
            in_flight: read("slackwater_replica_in_flight_requests")?,
            connections: read("slackwater_client_connections")?,
        })
    }

    /// Waits until nothing is in flight and no client is connected; returns what is held then, or
    /// after the longest wait.
    pub(super) fn settle(&self) -> Result<Held, String> {
        let mut last = Held::default();
        let settled = wait_for("connections to end", SETTLE_MAX, || {
            // A busy admin server is polled again.
            let Ok(held) = self.held() else {
                return Ok(None);
            };
            last = held;
            Ok((held == Held::default()).then_some(()))
        });
        settled.map_or_else(|_| self.held(), |()| Ok(last))
    }

    /// Whether a thread has panicked, according to the log.
    pub(super) fn has_panicked(&self) -> Result<bool, String> {
        Ok(self.process.errors()?.contains("panicked at"))
    }

    /// Sends a request that is answered with 200, to warm up connections and code.
    pub(super) fn warm_up(&self) -> Result<(), String> {
        wait_for("an answer", START_MAX, || {
            let answer = http1::ask(self.at.http1, &http1::get("/warm"), START_MAX);
            Ok(answer
                .is_ok_and(|answer| answer.status == 200)
                .then_some(()))
        })
    }
}

fn free_ports<const N: usize>() -> Result<[SocketAddr; N], String> {
    let mut ports = FreePorts::default();
    let mut taken = [SocketAddr::from(([127, 0, 0, 1], 0)); N];
    for port in &mut taken {
        *port = ports.take()?;
    }
    Ok(taken)
}

fn source(name: &str) -> PathBuf {
    root().join("xtask/src/siege/servers").join(name)
}

fn build_served(processes: &Processes, folder: &Path) -> Result<PathBuf, String> {
    const BUILD_MAX: Duration = Duration::from_mins(4);
    let file = folder.join("served");
    let mut command = Command::new(tool("go")?);
    command
        .env("GOTOOLCHAIN", "local")
        .env("GO111MODULE", "off");
    command
        .arg("build")
        .arg("-o")
        .arg(&file)
        .arg(source("served.go"));
    let ended = processes.run("go-build", &mut command, BUILD_MAX)?;
    if ended.status.success() {
        Ok(file)
    } else {
        Err(format!("served.go: {}", ended.err.trim()))
    }
}

/// The page's head.
pub(super) fn page() -> Page<'static> {
    Page {
        title: "Under siege",
        about: "Attacks on `slackwater serve` between real servers, beside nginx and HAProxy in the same run. What each row\n\
                means is in `docs/research/siege.md`.",
        tools: versions(),
    }
}
