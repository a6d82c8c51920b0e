//! Child processes that end with xtask. Each has its own process group and writes its output to
//! files. It is ended when its handle is dropped, or when a signal ends xtask. Every wait has a
//! limit.

use core::time::Duration;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Polling interval of waits.
const LOOK: Duration = Duration::from_millis(5);

/// All running processes.
#[derive(Clone, Debug)]
pub(crate) struct Processes {
    logs: PathBuf,
    running: Arc<Mutex<BTreeMap<u64, Pid>>>,
    started: Arc<Mutex<u64>>,
}

/// A process that has exited.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Processes {
    /// Writes the processes' output into `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Self, String> {
        let logs = folder.join("logs");
        fs::create_dir(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
        Ok(Self {
            logs,
            running: Arc::default(),
            started: Arc::default(),
        })
    }

    /// What each process has written to standard error.
    pub(crate) fn errors(&self) -> Result<Vec<String>, String> {
        let wrong = |error| format!("{}: {error}", self.logs.display());
        let files = fs::read_dir(&self.logs).map_err(wrong)?;
        let mut texts = Vec::new();
        for file in files {
            let path = file.map_err(wrong)?.path();
            if path.extension().is_some_and(|end| end == "err") {
                let bytes = fs::read(&path).map_err(wrong)?;
                texts.push(String::from_utf8_lossy(&bytes).into());
            }
        }
        Ok(texts)
    }

    /// From now on, Ctrl-C and SIGTERM end every process, then xtask, and remove `folder` unless it
    /// is to be kept.
    pub(crate) fn end_on_signals(&self, folder: PathBuf, keep: bool) -> Result<(), String> {
        self.end_on_signals_and(folder, keep, || ())
    }

    /// Like [`end_on_signals`](Self::end_on_signals), and then calls `ending` to clean up what is
    /// normally dropped.
    pub(crate) fn end_on_signals_and(
        &self,
        folder: PathBuf,
        keep: bool,
        ending: impl FnOnce() + Send + 'static,
    ) -> Result<(), String> {
        use tokio::signal::unix::{SignalKind, signal};
        let describe = |error| format!("signals cannot be awaited: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(describe)?;
        let signals = runtime.block_on(async {
            Ok((
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            ))
        });
        let (mut interrupt, mut terminate) = signals.map_err(describe)?;
        let running = Arc::clone(&self.running);
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupt.recv() => (),
                    _ = terminate.recv() => (),
                }
            });
            // Stays locked, so that no further process is started.
            let running = lock(&running);
            for &pid in running.values() {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            ending();
            crate::folder::leave(&folder, keep);
            std::process::exit(130);
        });
        Ok(())
    }

    /// Starts a process that runs until it is ended.
    pub(crate) fn start(&self, name: &str, command: &mut Command) -> Result<Process, String> {
        let number = {
            let mut started = lock(&self.started);
            *started += 1;
            *started
        };
        let log = |kind: &str| self.logs.join(format!("{number:03}-{name}.{kind}"));
        let (out, err) = (log("out"), log("err"));
        let create = |path: &Path| {
            File::create(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        command
            .stdin(Stdio::null())
            .stdout(create(&out)?)
            .stderr(create(&err)?);
        std::os::unix::process::CommandExt::process_group(command, 0);
        let mut running = lock(&self.running);
        let child = (command.spawn()).map_err(|error| format!("{name} did not start: {error}"))?;
        let pid = Pid::from_child(&child);
        running.insert(number, pid);
        drop(running);
        Ok(Process {
            name: name.to_owned(),
            child,
            pid,
            number,
            status: None,
            out,
            err,
            running: Arc::clone(&self.running),
        })
    }

    /// Runs a process to its end, which must come within `limit`.
    pub(crate) fn run(
        &self,
        name: &str,
        command: &mut Command,
        limit: Duration,
    ) -> Result<Ended, String> {
        self.start(name, command)?.wait(limit)
    }
}

/// A running process and its group. Dropping it kills both.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    pid: Pid,
    number: u64,
    /// The exit status, once it was reaped.
    status: Option<ExitStatus>,
    out: PathBuf,
    err: PathBuf,
    running: Arc<Mutex<BTreeMap<u64, Pid>>>,
}

impl Process {
    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    /// Its output on standard error so far.
    pub(crate) fn errors(&self) -> Result<String, String> {
        let bytes =
            fs::read(&self.err).map_err(|error| format!("{}: {error}", self.err.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into())
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) -> Result<(), String> {
        kill_process(self.pid, Signal::TERM)
            .map_err(|error| format!("{} cannot be signalled: {error}", self.name))
    }

    /// Ends it as its user would, with SIGTERM, which must be a success.
    pub(crate) fn stop(self, limit: Duration) -> Result<(), String> {
        let name = self.name.clone();
        self.terminate()?;
        let ended = self.wait(limit)?;
        if ended.status.success() {
            Ok(())
        } else {
            Err(format!(
                "{name} ended with {}: {}",
                ended.status,
                ended.err.trim()
            ))
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self, limit: Duration) -> Result<Ended, String> {
        let name = self.name.clone();
        let status = wait_for(&format!("{name} to end"), limit, || self.reap())?;
        let read = |path: &Path| fs::read(path).map(|text| String::from_utf8_lossy(&text).into());
        let read = |path: &Path| read(path).map_err(|error| format!("{}: {error}", path.display()));
        Ok(Ended {
            status,
            out: read(&self.out)?,
            err: read(&self.err)?,
        })
    }

    /// Fails, with its last lines of output, if it has ended.
    pub(crate) fn check_running(&mut self) -> Result<(), String> {
        match self.reap()? {
            None => Ok(()),
            Some(status) => {
                let written = fs::read_to_string(&self.err).unwrap_or_default();
                let lines: Vec<_> = written.lines().rev().take(3).collect();
                Err(format!(
                    "{} ended, {status}: {}",
                    self.name,
                    lines.join(" / ")
                ))
            }
        }
    }

    fn reap(&mut self) -> Result<Option<ExitStatus>, String> {
        if self.status.is_none() {
            // Under the lock, so that no signal goes to another process with the same id.
            let mut running = lock(&self.running);
            self.status = (self.child.try_wait())
                .map_err(|error| format!("{} cannot be awaited: {error}", self.name))?;
            if self.status.is_some() {
                running.remove(&self.number);
            }
        }
        Ok(self.status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.status.is_none() {
            // The group first: the group's id cannot be reused before its leader is reaped.
            let _ = kill_process_group(self.pid, Signal::KILL);
            let _ = self.child.wait();
            lock(&self.running).remove(&self.number);
        }
    }
}

/// Calls `look` repeatedly until it returns a value.
pub(crate) fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut ask: impl FnMut() -> Result<Option<T>, String>,
) -> Result<T, String> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if begun.elapsed() >= limit {
            return Err(format!("waited {} s for {what}", limit.as_secs_f32()));
        }
        std::thread::sleep(LOOK);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
