//! The process under test: started on free ports, watched through its log and its admin server,
//! killed at the end.

use core::cell::RefCell;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use slackwater_config::Variables;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Timeout of all waits in these tests; reached only if something is wrong.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Proxy {
    child: Child,
    log: Receiver<String>,
    /// Log lines before "serving" that no test has read yet: a check may be quicker than the start.
    early: RefCell<VecDeque<String>>,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// A command for the binary under test.
pub(crate) fn slackwater(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
    command.args(args);
    unconfigured(&mut command);
    command
}

/// Removes the developer's variables that would configure the process.
pub(crate) fn unconfigured(command: &mut Command) {
    for name in Variables::names().chain(["RUST_LOG"]) {
        command.env_remove(name);
    }
}

impl Proxy {
    /// A proxy with one worker and round robin, unless `toml` sets something else, before these
    /// replicas.
    pub(crate) fn start(replicas: &[SocketAddr], toml: &str) -> Self {
        let list: Vec<String> = replicas.iter().map(SocketAddr::to_string).collect();
        let mut lines = String::new();
        for (key, line) in [
            ("listen", "listen = \"127.0.0.1:0\""),
            ("workers", "workers = 1"),
            ("policy", "policy = \"round_robin\""),
        ] {
            if !toml.lines().any(|own| own.starts_with(key)) {
                lines += line;
                lines += "\n";
            }
        }
        let config = format!("{lines}replicas = {list:?}\n{toml}\n");
        let file = tempfile(&config);
        let mut args = vec![
            "serve",
            "--admin",
            "127.0.0.1:0",
            "--config",
            file.to_str().unwrap(),
        ];
        if !toml.contains("[probe]") {
            args.extend(["--probe", "none"]);
        }
        let proxy = Self::spawn(&args);
        std::fs::remove_file(&file).unwrap();
        proxy
    }

    /// A proxy with one worker that listens at a port of the system's choice, unless `toml` sets
    /// something else, and with the rest of `toml`.
    pub(crate) fn of_file(toml: &str) -> Self {
        let listen = if toml.contains("[[listeners]]") {
            ""
        } else {
            "listen = \"127.0.0.1:0\"\n"
        };
        let config = format!("workers = 1\n{listen}{toml}");
        let file = tempfile(&config);
        let name = file.to_str().unwrap();
        let proxy = Self::spawn(&["serve", "--admin", "127.0.0.1:0", "--config", name]);
        std::fs::remove_file(&file).unwrap();
        proxy
    }

    /// The address of the next listener, after [`Self::address`].
    pub(crate) fn next_address(&self) -> SocketAddr {
        address_in(&self.log_line("serving"))
    }

    pub(crate) fn spawn(args: &[&str]) -> Self {
        Self::spawn_command(&mut slackwater(args))
    }

    pub(crate) fn spawn_command(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let (send, log) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut proxy = Self {
            child,
            log,
            early: RefCell::default(),
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
            admin: SocketAddr::from(([0, 0, 0, 0], 0)),
        };
        proxy.admin = address_in(&proxy.start_line("status and metrics"));
        proxy.address = address_in(&proxy.start_line("serving"));
        proxy
    }

    /// Returns the line of the start that contains `text`. Lines before it are kept.
    fn start_line(&self, text: &str) -> String {
        let mut early = Vec::new();
        let found = loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(text) => break line,
                Ok(line) => early.push(line),
                Err(error) => panic!("no {text:?} in the log ({error}):\n{}", early.join("\n")),
            }
        };
        self.early.borrow_mut().extend(early);
        found
    }

    /// Returns the next line of the log that contains `text`.
    pub(crate) fn log_line(&self, text: &str) -> String {
        let mut seen = String::new();
        loop {
            let early = self.early.borrow_mut().pop_front();
            match early.map_or_else(|| self.log.recv_timeout(PATIENCE), Ok) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => {
                    seen += &line;
                    seen += "\n";
                }
                Err(error) => panic!("no {text:?} in the log ({error}):\n{seen}"),
            }
        }
    }

    /// Returns the next lines of the log, up to one that contains `text`.
    pub(crate) fn log_until(&self, text: &str) -> Vec<String> {
        let mut lines = Vec::new();
        while lines
            .last()
            .is_none_or(|line: &String| !line.contains(text))
        {
            lines.push(self.log_line(""));
        }
        lines
    }

    /// Whether a line that contains `text` was logged before "serving".
    pub(crate) fn has_logged_early(&self, text: &str) -> bool {
        let early = self.early.borrow();
        early.iter().any(|line| line.contains(text))
    }

    /// The CPU time that the process has used.
    pub(crate) fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split(' ').collect();
        // User and system time, in hundredths of a second.
        let ticks = |place: usize| fields[place].parse::<u64>().unwrap();
        Duration::from_millis(10 * (ticks(12) + ticks(13)))
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([&format!("-{name}"), &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for the process to end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        until("the process ends", async || self.child.try_wait().unwrap()).await
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Reads a page of the admin server.
    pub(crate) async fn admin_page(&self, path: &str) -> String {
        admin_page(self.admin, path, "").await
    }

    /// The status, from the admin server.
    pub(crate) async fn status(&self) -> serde_json::Value {
        serde_json::from_str(&self.admin_page("/status").await).unwrap()
    }

    /// The metrics in the format with exemplars.
    pub(crate) async fn open_metrics(&self) -> String {
        let accept = "accept: application/openmetrics-text\r\n";
        admin_page(self.admin, "/metrics", accept).await
    }

    /// The sum of a count over all replicas; `pointer` leads to it from a replica's entry in the
    /// status.
    pub(crate) async fn sum(&self, pointer: &str) -> u64 {
        let status = self.status().await;
        let replicas = status["replicas"].as_array().unwrap().iter();
        replicas
            .map(|replica| {
                replica
                    .pointer(pointer)
                    .and_then(serde_json::Value::as_u64)
                    .unwrap()
            })
            .sum()
    }

    /// Waits until no request is in flight in the balancer's count.
    pub(crate) async fn settled(&self) {
        until("nothing is in flight", async || {
            (self.sum("/in_flight").await == 0).then_some(())
        })
        .await;
    }

    /// Memory that the process has in use.
    pub(crate) fn resident_bytes(&self) -> u64 {
        resident_bytes(self.process_id()).unwrap()
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An agent before this server, with these keys in its file.
pub(crate) fn agent(server: SocketAddr, keys: &str) -> Proxy {
    let (file, to) = (tempfile(keys), server.to_string());
    let (path, any) = (file.to_str().unwrap(), "127.0.0.1:0");
    let agent = Proxy::spawn(&[
        "agent", "--config", path, "--to", &to, "--listen", any, "--admin", any,
    ]);
    std::fs::remove_file(&file).unwrap();
    agent
}

/// Reads a page of an admin server, with these header fields.
async fn admin_page(admin: SocketAddr, path: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(admin).await.unwrap();
    let request =
        format!("GET {path} HTTP/1.0\r\nhost: admin\r\n{fields}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    page.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// A new file with this text.
fn tempfile(text: &str) -> std::path::PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("slackwater-routes-{}-{number}.toml", std::process::id());
    let file = std::env::temp_dir().join(name);
    std::fs::write(&file, text).unwrap();
    file
}

/// Memory that a process has in use; `None` once it has ended.
pub(crate) fn resident_bytes(process: u32) -> Option<u64> {
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

pub(crate) fn address_in(line: &str) -> SocketAddr {
    let (_, rest) = line.split_once("address=").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// Awaits what must happen long before this has passed, such as the default of a setting that is
/// shorter.
pub(crate) async fn before<T>(late: Duration, what: impl Future<Output = T>) -> T {
    let waiting = tokio::time::timeout(late * 9 / 10, what).await;
    waiting.expect("it takes too long")
}

/// Repeats `ask` until it returns something.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let Ok(answer) = tokio::time::timeout(PATIENCE, waiting).await else {
        panic!("waited in vain until {what}");
    };
    answer
}
