//! An agent process: started on ports that the system chooses, its log read to the end, killed when
//! dropped.

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

/// Timeout of a condition that a test waits for; far more than any takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// `slackwater agent` with these arguments.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slackwater"));
    command.arg("agent").args(arguments);
    command.stdin(Stdio::null()).env_remove("RUST_LOG");
    command
}

/// Waits until the condition holds.
pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(waited.is_ok(), "waited in vain until {what}");
}

/// Waits for something that must happen soon.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(PATIENCE, future).await;
    waited.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// A running agent.
pub(crate) struct Agent {
    child: Child,
    log: Arc<Mutex<String>>,
    /// The address for requests.
    pub(crate) address: SocketAddr,
    /// The address for UDP probes.
    pub(crate) probes: SocketAddr,
    /// The address of its admin server.
    pub(crate) admin: SocketAddr,
}

impl Agent {
    /// Starts an agent before `server`, and waits until it serves.
    pub(crate) async fn start(server: &str, more: &[&str]) -> Self {
        let mut arguments = vec!["--to", server, "--listen", "127.0.0.1:0"];
        arguments.extend(["--admin", "127.0.0.1:0"]);
        arguments.extend(more);
        Self::spawn(&mut command(&arguments)).await
    }

    /// Starts the command, with an admin server.
    pub(crate) async fn spawn(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let lines = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = lines.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut agent = Self {
            child,
            log,
            address: ([127, 0, 0, 1], 0).into(),
            probes: ([127, 0, 0, 1], 0).into(),
            admin: ([127, 0, 0, 1], 0).into(),
        };
        until("the agent serves", async || agent.said("serving")).await;
        let log = agent.log();
        agent.address = field(&log, "serving address=");
        agent.probes = field(&log, " probes=");
        agent.admin = field(&log, "status and metrics address=");
        agent
    }

    /// All that it has logged.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    fn said(&self, text: &str) -> bool {
        self.log().contains(text)
    }

    /// How often this text is in its log.
    pub(crate) fn times_said(&self, text: &str) -> usize {
        self.log().matches(text).count()
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    pub(crate) fn signal(&self, name: &str) {
        let (signal, id) = (format!("-{name}"), self.id().to_string());
        let sent = Command::new("kill").args([&signal, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until the process has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the agent has ended", async || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        })
        .await;
        status.unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log();
            let _ = std::io::Write::write_all(&mut std::io::stderr(), log.as_bytes());
        }
    }
}

fn field(log: &str, name: &str) -> SocketAddr {
    let (_, rest) = log
        .split_once(name)
        .unwrap_or_else(|| panic!("{name} in {log}"));
    let text = rest.split_whitespace().next().unwrap();
    text.parse().unwrap_or_else(|_| panic!("{text} in {log}"))
}
