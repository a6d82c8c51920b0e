//! Measures the server's CPU time, from which the agent learns its capacity. A thread of its own
//! reads it, so readings never delay a request, and it reads less often while the server is almost
//! idle.
//!
//! The server may start after the agent, end, and start again as another process. So the process is
//! looked up every second, and the sums continue where they were. If it is missing, this is logged
//! once, and capacity is learned from latency alone meanwhile.

use core::cell::Cell;
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_config::ServerProcess;
use slackwater_core::tracker::CapacityEstimator;
use slackwater_signals::{Figure, Origin, Reading, Source, Target};
use slackwater_tower::server::{CpuTotals, Load, LoadBuilder, ThreadTotals};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Pause after a reading, as a multiple of the reading's duration. With it, readings of a process
/// with many threads take at most a hundredth of a core.
const PAUSE_READINGS: u32 = 99;
/// Longest pause. A reading that took long because this process had to wait for a CPU shows that
/// there is something to learn.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How often a quiet server is checked for activity. A check costs a fraction of a reading.
const QUIET_LOOK: Duration = Duration::from_millis(200);
/// How often the server's process is looked up.
const LOOK: Duration = Duration::from_secs(1);
/// How often the server's CPU limits are read: quotas hardly ever change.
const LIMITS: Duration = Duration::from_secs(5);
thread_local! {
    /// Duration of the reading that this thread took last; zero if only a check was made. So checks
    /// need no clock.
    static TOOK: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// A process id, with a line's end and some blanks.
const PID_FILE_BYTES_MAX: u64 = 32;

/// Adds the server's CPU time to what `builder` learns from, at the times that [`start_learning`]'s
/// thread chooses. Adds nothing if the server's process is unknown.
pub(super) fn learn_from(builder: LoadBuilder, process: ServerProcess) -> LoadBuilder {
    if process == ServerProcess::Unknown {
        return builder;
    }
    let watch = Mutex::new(Watch::new(process));
    let read = move || {
        let began = Instant::now();
        let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
        let totals = watch.read(began);
        TOOK.set(began.elapsed());
        totals
    };
    builder.cpu_totals(read).learn_on_request()
}

/// Makes `load` learn on a thread of its own, because waking a runtime by a timer costs several
/// times as much as a reading. The thread ends with the process and is never joined, for it has
/// nothing to finish. If the server's process is unknown, no thread is started: `load` then learns
/// whenever a report is requested.
///
/// # Errors
///
/// The system gives no thread.
pub(super) fn start_learning(process: &ServerProcess, load: Load) -> Result<(), Fault> {
    if *process == ServerProcess::Unknown {
        return Ok(());
    }
    let thread = thread::Builder::new().name("server-cpu".to_owned());
    let started = thread.spawn(move || keep_learning(&load));
    started
        .map(drop)
        .map_err(|error| Fault::runtime(format!("no thread to read the server's CPU: {error}")))
}

fn keep_learning(load: &Load) {
    let mut step = CapacityEstimator::STEP;
    loop {
        let is_quiet = load.learn();
        step = step_after(step, is_quiet);
        thread::sleep(pause_after(step, TOOK.take()));
    }
}

/// Returns the pause until the next reading. After a time with little activity, the pause may be as
/// long as that time.
fn step_after(step: Duration, is_quiet: bool) -> Duration {
    if is_quiet {
        (step * 2).min(QUIET_LOOK)
    } else {
        CapacityEstimator::STEP
    }
}

/// Returns whether `every` has passed since the last time, or whether there was none. If so, `last`
/// becomes `now`.
fn is_due(last: &mut Option<Instant>, now: Instant, every: Duration) -> bool {
    let is_due = last.is_none_or(|at| now.saturating_duration_since(at) >= every);
    if is_due {
        *last = Some(now);
    }
    is_due
}

fn pause_after(step: Duration, reading: Duration) -> Duration {
    step.max(reading.saturating_mul(PAUSE_READINGS).min(PAUSE_MAX))
}

/// Sums over all processes that have been the server.
#[derive(Debug)]
struct Watch {
    process: ServerProcess,
    open: Option<Open>,
    used: Duration,
    threads: ThreadTotals,
    looked_at: Option<Instant>,
    limits_read_at: Option<Instant>,
    /// Why nothing can be read, as it was last logged.
    missing: Option<String>,
}

/// The source that is read now.
#[derive(Debug)]
struct Open {
    source: Source,
    /// The process, if the source is one; `None` for a cgroup.
    pid: Option<u32>,
    /// Waiting is measured for each thread. Other figures of waiting are lower bounds and not used.
    tells_waits: bool,
    last: Reading,
}

impl Watch {
    fn new(process: ServerProcess) -> Self {
        Self {
            process,
            open: None,
            used: Duration::ZERO,
            threads: ThreadTotals::default(),
            looked_at: None,
            limits_read_at: None,
            missing: None,
        }
    }

    /// Returns the CPU time that the server has used and waited for so far; `None` while it is not
    /// there.
    fn read(&mut self, now: Instant) -> Option<CpuTotals> {
        if is_due(&mut self.looked_at, now, LOOK)
            && let Err(reason) = self.look()
        {
            self.miss(reason);
        }
        let open = self.open.as_mut()?;
        let reading = if is_due(&mut self.limits_read_at, now, LIMITS) {
            open.source.read_times_and_limits()
        } else {
            open.source.read_times()
        };
        let Some(used) = reading.used else {
            self.miss("it has ended".to_owned());
            return None;
        };
        let before = core::mem::replace(&mut open.last, reading);
        self.used += used.saturating_sub(before.used.unwrap_or(used));
        if let Some((earlier, later)) = before.waited.zip(reading.waited) {
            self.threads.waited += later.saturating_sub(earlier);
        }
        let watched = (before.used_by_watched).zip(reading.used_by_watched);
        if let Some((earlier, later)) = watched {
            self.threads.used += later.saturating_sub(earlier);
        }
        Some(CpuTotals {
            used: self.used,
            threads: open.tells_waits.then_some(self.threads),
            limit_millicores: reading.cores_limit.map(|limit| limit.millicores),
            quota_period: reading.quota_period,
        })
    }

    /// Looks up the server's process and opens its figures, unless they are open already.
    fn look(&mut self) -> Result<(), String> {
        let (pid, target) = match &self.process {
            ServerProcess::Unknown => return Ok(()),
            // A cgroup stays where it is, so its path need not be copied.
            ServerProcess::Cgroup(_) if self.open.is_some() => return Ok(()),
            ServerProcess::PidFile(file) => {
                let pid = read_pid(file).map_err(|why| format!("{}: {why}", file.display()))?;
                (Some(pid), Target::Process(pid))
            }
            ServerProcess::Cgroup(directory) => (None, Target::Cgroup(directory.clone())),
        };
        if self.open.as_ref().is_some_and(|open| open.pid == pid) {
            return Ok(());
        }
        let mut source = Source::open(&target);
        let last = source.read();
        if last.used.is_none() {
            let mut findings = source.findings().iter();
            let used = findings.find(|finding| finding.figure == Figure::Used);
            let why = used.map_or_else(String::new, |used| used.detail.clone());
            return Err(format!("{target}: {why}"));
        }
        let tells_waits = source.origin(Figure::Waited) == Some(Origin::Threads);
        let found: Vec<_> = source.findings().iter().map(ToString::to_string).collect();
        tracing::info!(
            server = %target,
            waiting_is_told = tells_waits,
            found = found.join("; "),
            "learning capacity from the server's CPU"
        );
        self.missing = None;
        self.open = Some(Open {
            source,
            pid,
            tells_waits,
            last,
        });
        Ok(())
    }

    /// Notes that nothing can be read. The reason is logged once.
    fn miss(&mut self, reason: String) {
        self.open = None;
        if self.missing.as_ref() != Some(&reason) {
            tracing::warn!(%reason, "cannot read the server's CPU: learning capacity from latency alone");
            self.missing = Some(reason);
        }
    }
}

/// Reads the process id in a file.
fn read_pid(file: &Path) -> Result<u32, String> {
    let metadata = std::fs::metadata(file).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        // Opening a pipe would block until a process writes into it.
        return Err("is no file".to_owned());
    }
    let mut text = String::new();
    let opened = File::open(file).map_err(|error| error.to_string())?;
    opened
        .take(PID_FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| error.to_string())?;
    let pid = text.trim().parse().ok().filter(|pid| *pid > 0);
    pid.ok_or_else(|| "does not have a process id and nothing else".to_owned())
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    const STEP: Duration = CapacityEstimator::STEP;

    /// A process that runs until this is dropped.
    struct Server(Child);

    impl Server {
        fn start() -> Self {
            let mut command = Command::new("cat");
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            Self(command.spawn().expect("cat is everywhere"))
        }
    }

    impl Drop for Server {
        fn drop(&mut self) {
            // It may have ended already.
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    struct PidFile(std::path::PathBuf);

    impl PidFile {
        fn new(name: &str) -> Self {
            let name = format!("slackwater-pid-{}-{name}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn write(&self, text: &str) {
            std::fs::write(&self.0, text).expect("a file");
        }

        fn watch(&self) -> Watch {
            Watch::new(ServerProcess::PidFile(self.0.clone()))
        }
    }

    impl Drop for PidFile {
        fn drop(&mut self) {
            // A test may have removed it.
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Uses the CPU until the watch reports some use.
    fn burn(watch: &mut Watch, now: Instant) -> Duration {
        let before = watch.read(now).expect("it is there").used;
        loop {
            let used = watch.read(now).expect("it is there").used;
            if used > before {
                return used;
            }
        }
    }

    #[test]
    fn cpu_totals_continue_when_the_server_process_changes() {
        let file = PidFile::new("comes");
        let (mut watch, mut now) = (file.watch(), Instant::now());
        assert_eq!(watch.read(now), None, "there is no file");
        file.write(&format!("{}\n", std::process::id()));
        assert_eq!(watch.read(now + LOOK / 2), None, "it is not looked up yet");
        now += LOOK;
        let used = burn(&mut watch, now);
        let limit = watch.read(now).and_then(|totals| totals.limit_millicores);
        assert!(limit.is_some_and(|limit| limit > 0));
        let mut other = Server::start();
        file.write(&other.0.id().to_string());
        now += LOOK;
        let totals = watch.read(now).expect("the other is there");
        assert!(totals.used >= used, "{totals:?} after {used:?}");
        assert!(totals.used < used + Duration::from_secs(1), "{totals:?}");
        other.0.kill().expect("it runs");
        other.0.wait().expect("it ends");
        assert_eq!(watch.read(now), None, "it has ended");
        file.write(&std::process::id().to_string());
        now += LOOK;
        assert!(burn(&mut watch, now) >= used);
    }

    #[test]
    fn missing_figures_are_reported_with_the_reason() {
        let file = PidFile::new("missing");
        let reason = |text: &str| {
            file.write(text);
            let mut watch = file.watch();
            assert_eq!(watch.read(Instant::now()), None);
            watch.missing.unwrap_or_default()
        };
        for text in ["", "0", "-1", "nginx", "1 2", "99999999999"] {
            let reason = reason(text);
            assert!(
                reason.contains("does not have a process id"),
                "{text}: {reason}"
            );
        }
        let nobody = u32::MAX / 2;
        assert!(reason(&nobody.to_string()).starts_with(&format!("process {nobody}: ")));
        let directory = ServerProcess::PidFile(std::env::temp_dir());
        let mut watch = Watch::new(directory);
        assert_eq!(watch.read(Instant::now()), None);
        assert!(watch.missing.is_some_and(|why| why.contains("is no file")));
        let gone = ServerProcess::Cgroup("/sys/fs/cgroup/not/there".into());
        let mut watch = Watch::new(gone);
        assert_eq!(watch.read(Instant::now()), None);
        assert!(watch.missing.is_some());
    }

    #[test]
    fn only_actual_cpu_readings_are_timed() {
        let file = PidFile::new("timed");
        file.write(&std::process::id().to_string());
        let process = ServerProcess::PidFile(file.0.clone());
        let load = learn_from(Load::builder(), process).build();
        load.learn();
        assert!(TOOK.take() > Duration::ZERO);
        load.learn();
        assert_eq!(TOOK.take(), Duration::ZERO, "too soon for another");
    }

    #[test]
    fn action_is_due_again_only_after_its_interval() {
        let (mut last, now) = (None, Instant::now());
        let seconds = [0, 0, 4, 5, 9, 10].map(Duration::from_secs);
        let due = seconds.map(|ago| is_due(&mut last, now + ago, LIMITS));
        assert_eq!(due, [true, false, false, true, false, true]);
    }

    #[test]
    fn a_long_reading_is_followed_by_a_longer_pause() {
        assert_eq!(pause_after(STEP, Duration::from_micros(6)), STEP);
        let long = pause_after(STEP, Duration::from_millis(2));
        assert_eq!(long, Duration::from_millis(198));
        let interrupted = pause_after(STEP, Duration::from_millis(80));
        assert_eq!(interrupted, PAUSE_MAX);
    }

    #[test]
    fn a_quiet_server_is_read_less_often() {
        let steps = |quiet: &[bool]| {
            let mut step = STEP;
            let each = quiet.iter().map(|is_quiet| {
                step = step_after(step, *is_quiet);
                step.as_millis()
            });
            each.collect::<Vec<_>>()
        };
        assert_eq!(steps(&[false, false]), [50, 50]);
        assert_eq!(steps(&[true, true, true, false]), [100, 200, 200, 50]);
    }
}
