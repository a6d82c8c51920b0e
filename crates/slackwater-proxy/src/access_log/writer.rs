//! The thread that writes the lines of all workers.
//!
//! It checks the workers' queues ten times a second, and earlier when one fills up. Lines that
//! cannot be written are counted as dropped, and the error is logged at most once a minute.

use super::buffer::LineBuffer;
use super::lines::Lines;
use super::queue::Queue;
use super::sink::Sink;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use slackwater_config::Fault;
use slackwater_config::{AccessLogSettings, AccessLogTarget};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Instant;

/// Longest time that a line waits.
const PERIOD: Duration = Duration::from_millis(100);

/// Interval between checks of whether the file has been moved.
const LOOK: Duration = Duration::from_secs(1);

/// Time for writing the last lines.
const END_MAX: Duration = Duration::from_secs(1);

/// Interval between logged errors.
const COMPLAINT: Duration = Duration::from_mins(1);

/// State that the thread and its owners share.
#[derive(Debug, Default)]
struct Shared {
    queues: Mutex<Vec<Arc<Queue>>>,
    reopen: AtomicBool,
    end: AtomicBool,
}

impl Shared {
    fn queues(&self) -> Vec<Arc<Queue>> {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.clone()
    }
}

/// Handle of the access log for workers and signals.
#[derive(Clone, Debug)]
pub struct Switch {
    settings: AccessLogSettings,
    shared: Arc<Shared>,
    thread: std::thread::Thread,
}

impl Switch {
    /// Makes the line writer of one worker.
    pub(crate) fn lines(&self) -> Lines {
        let queue = Arc::new(Queue::new(self.thread.clone()));
        let mut queues = (self.shared.queues)
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        queues.push(Arc::clone(&queue));
        drop(queues);
        Lines::new(&self.settings, queue)
    }

    /// Opens the file again before the next line is written.
    pub fn reopen(&self) {
        self.shared.reopen.store(true, Relaxed);
        self.thread.unpark();
    }

    /// Lines dropped since the start.
    pub(crate) fn dropped(&self) -> u64 {
        self.shared
            .queues()
            .iter()
            .map(|queue| queue.dropped())
            .sum()
    }
}

/// The access log of a process. Dropping it writes the lines that wait and ends the thread. If the
/// destination takes no lines, such as a pipe without a reader, the thread is abandoned after a
/// second.
#[derive(Debug)]
pub struct AccessLog {
    switch: Switch,
    thread: std::thread::Thread,
    /// Never receives a message; it disconnects when the thread ends.
    is_over: Receiver<()>,
}

impl AccessLog {
    /// Opens the log and starts its thread. Returns `None` if no log is configured.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened.
    pub fn start(settings: &AccessLogSettings) -> Result<Option<Self>, Fault> {
        let sink = match &settings.to {
            AccessLogTarget::None => return Ok(None),
            AccessLogTarget::Stdout => Sink::stdout(),
            AccessLogTarget::Stderr => Sink::stderr(),
            AccessLogTarget::File(path) => Sink::file(path),
        };
        let sink = sink.map_err(|error| {
            Fault::runtime(format!(
                "the access log cannot go to {}: {error}",
                settings.to
            ))
        })?;
        let shared = Arc::<Shared>::default();
        let writer = Writer {
            shared: Arc::clone(&shared),
            sink,
            looked_at: Instant::now(),
            complained_at: None,
        };
        let (alive, is_over) = channel();
        let work = move || {
            writer.run();
            drop(alive);
        };
        let thread = Builder::new()
            .name("access-log".to_owned())
            .spawn(work)
            .map_err(|error| Fault::runtime(format!("no thread for the access log: {error}")))?;
        let switch = Switch {
            settings: settings.clone(),
            shared,
            thread: thread.thread().clone(),
        };
        Ok(Some(Self {
            switch,
            thread: thread.thread().clone(),
            is_over,
        }))
    }

    /// Handle for workers and signals.
    pub const fn switch(&self) -> &Switch {
        &self.switch
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.switch.shared.end.store(true, Relaxed);
        self.thread.unpark();
        // A thread cannot be stopped during a write; it ends with the process.
        if self.is_over.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("access log lines dropped: output blocked");
        }
    }
}

struct Writer {
    shared: Arc<Shared>,
    sink: Sink,
    looked_at: Instant,
    complained_at: Option<Instant>,
}

impl Writer {
    fn run(mut self) {
        let mut lines = LineBuffer::new();
        loop {
            // Read before the lines are fetched, so that all lines from before the end are written.
            let is_end = self.shared.end.load(Relaxed);
            self.look_after_file();
            for queue in self.shared.queues() {
                queue.exchange(&mut lines);
                if let Err(unwritten) = self.sink.write(lines.lines()) {
                    let rest = &lines.lines()[unwritten.written..];
                    let lost = memchr::memchr_iter(b'\n', rest).count();
                    queue.drop_lines(u64::try_from(lost).unwrap_or(u64::MAX));
                    self.complain("lines dropped: cannot write", &unwritten.error);
                }
                lines.clear();
            }
            if is_end {
                return;
            }
            std::thread::park_timeout(PERIOD);
        }
    }

    /// Opens the file again if requested, or if it was moved.
    fn look_after_file(&mut self) {
        let is_asked = self.shared.reopen.swap(false, Relaxed);
        let is_due = self.looked_at.elapsed() >= LOOK;
        if is_due {
            self.looked_at = Instant::now();
        }
        if (is_asked || (is_due && self.sink.has_moved()))
            && let Err(error) = self.sink.reopen()
        {
            self.complain("not reopened: the old file is kept", &error);
        }
    }

    fn complain(&mut self, what: &str, error: &io::Error) {
        if self
            .complained_at
            .is_none_or(|at| at.elapsed() >= COMPLAINT)
        {
            self.complained_at = Some(Instant::now());
            tracing::warn!(%error, "access log {what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_record::ids::Ids;
    use crate::request_record::{RequestRecorder, origin_of};
    use slackwater_config::RequestIdSettings;
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::rc::Rc;

    /// Deadline for events that must happen; far longer than they take on a busy machine.
    const PATIENCE: Duration = Duration::from_mins(1);

    fn folder(name: &str) -> PathBuf {
        let name = format!("slackwater-access-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder for the test");
        folder
    }

    fn to(path: &Path) -> AccessLogSettings {
        AccessLogSettings {
            to: AccessLogTarget::File(path.to_owned()),
            ..AccessLogSettings::default()
        }
    }

    fn recorder(switch: &Switch) -> Rc<RequestRecorder> {
        let ids = Ids::new(&RequestIdSettings::default());
        RequestRecorder::new([Some(Box::new(switch.lines())), None, None], ids, None)
    }

    fn record(recorder: &Rc<RequestRecorder>, path: &'static str) {
        let request = http::Request::get(path).body(()).expect("a request").into();
        let origin = origin_of([10, 0, 0, 9].into());
        drop(recorder.begin(&request, (None, None), &origin));
    }

    fn wait_for(path: &Path, text: &str) {
        let begun = Instant::now();
        while !fs::read_to_string(path).is_ok_and(|written| written.contains(text)) {
            assert!(
                begun.elapsed() < PATIENCE,
                "no {text} in {}",
                path.display()
            );
            std::thread::yield_now();
        }
    }

    #[test]
    fn lines_of_all_workers_are_written_and_none_is_lost_at_the_end() {
        let folder = folder("end");
        let path = folder.join("log");
        let log = AccessLog::start(&to(&path)).expect("opened").expect("on");
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let switch = log.switch().clone();
                std::thread::spawn(move || {
                    let recorder = recorder(&switch);
                    (0..500).for_each(|_| record(&recorder, "/x"));
                })
            })
            .collect();
        for worker in workers {
            worker.join().expect("no panic");
        }
        let switch = log.switch().clone();
        drop(log);
        let written = fs::read_to_string(&path).expect("written");
        assert_eq!(written.lines().count(), 1_500);
        assert!(written.lines().all(|line| line.contains("GET /x")));
        assert_eq!(switch.dropped(), 0);
        fs::remove_dir_all(&folder).expect("the test's own folder");
    }

    #[test]
    fn a_moved_file_is_reopened_automatically_and_on_demand() {
        let folder = folder("moved");
        let (path, moved) = (folder.join("log"), folder.join("log.1"));
        let log = AccessLog::start(&to(&path)).expect("opened").expect("on");
        let recorder = recorder(log.switch());
        record(&recorder, "/first");
        wait_for(&path, "/first");
        fs::rename(&path, &moved).expect("moved");
        log.switch().reopen();
        wait_for(&path, "");
        record(&recorder, "/second");
        wait_for(&path, "/second");
        fs::remove_file(&path).expect("removed");
        wait_for(&path, "");
        record(&recorder, "/third");
        wait_for(&path, "/third");
        drop(log);
        let first = fs::read_to_string(&moved).expect("kept");
        assert!(
            first.contains("/first") && !first.contains("/third"),
            "{first}"
        );
        fs::remove_dir_all(&folder).expect("the test's own folder");
    }

    #[test]
    fn a_full_disk_drops_lines_and_counts_them() {
        let log = AccessLog::start(&to(Path::new("/dev/full")))
            .expect("opened")
            .expect("on");
        let recorder = recorder(log.switch());
        for _ in 0..7 {
            record(&recorder, "/x");
        }
        let switch = log.switch().clone();
        drop(log);
        assert_eq!(switch.dropped(), 7);
    }

    #[test]
    fn without_a_target_there_is_no_log_and_a_bad_path_is_an_error() {
        assert!(
            AccessLog::start(&AccessLogSettings::default())
                .expect("valid")
                .is_none()
        );
        let fault = AccessLog::start(&to(Path::new("/nowhere/log"))).expect_err("no folder");
        assert!(fault.to_string().contains("/nowhere/log"), "{fault}");
    }
}
