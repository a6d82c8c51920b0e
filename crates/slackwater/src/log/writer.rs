//! The thread that writes the log. Code that logs never waits for a slow reader of the log.
//!
//! Lines wait in one bounded buffer. If standard error accepts none, for example a pipe without a
//! reader, lines are dropped and counted while the buffer is full. The log reports their number
//! once it accepts lines again.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Bytes that may wait to be written: some 2,000 lines.
const BYTES_MAX: usize = 256 << 10;

/// Longest wait for the last lines of a process.
const END_MAX: Duration = Duration::from_secs(1);

static LINES: Lines = Lines::new();

/// Starts the thread that writes to standard error.
pub(super) fn start() -> io::Result<()> {
    let work = || run(&LINES, io::stderr());
    Builder::new().name("log".to_owned()).spawn(work).map(drop)
}

/// Number of log lines that were lost since the start.
pub(crate) fn lost_lines() -> u64 {
    LINES.lost.load(Relaxed)
}

/// Waits until all lines are written, or until the timeout: the reader of the log may be gone.
pub(super) fn flush() {
    LINES.flush(END_MAX);
}

/// Adds one line for each write.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToLines;

impl Write for ToLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        LINES.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct Lines {
    state: Mutex<State>,
    /// Notified when there is something to write, and when all is written.
    changed: Condvar,
    lost: AtomicU64,
}

#[derive(Debug)]
struct State {
    waiting: Vec<u8>,
    /// Lines have been taken that may not be written yet.
    is_writing: bool,
}

impl Lines {
    const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Vec::new(),
                is_writing: false,
            }),
            changed: Condvar::new(),
            lost: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.state();
        if state.waiting.len() + line.len() > BYTES_MAX {
            drop(state);
            self.lose(1);
            return;
        }
        state.waiting.extend_from_slice(line);
        drop(state);
        self.changed.notify_all();
    }

    fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Relaxed);
    }

    /// Waits for lines and takes them all. The lines that were taken before are written by then.
    fn take(&self, empty: &mut Vec<u8>) {
        let mut state = self.state();
        state.is_writing = false;
        self.changed.notify_all();
        let waited = (self.changed).wait_while(state, |state| state.waiting.is_empty());
        state = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_writing = true;
        core::mem::swap(&mut state.waiting, empty);
    }

    fn flush(&self, max: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        let _ = (self.changed).wait_timeout_while(self.state(), max, is_busy);
    }
}

fn run(lines: &Lines, mut to: impl Write) {
    let mut taken = Vec::new();
    let mut told = 0;
    // While nothing can be written, a line about lost lines would be lost, too.
    let mut is_taken = true;
    loop {
        lines.take(&mut taken);
        let lost = lines.lost.load(Relaxed);
        if is_taken && lost > told {
            // It goes through the buffer like all lines, which has space now.
            tracing::warn!(
                lines = lost - told,
                "log lines lost: standard error blocked"
            );
            told = lost;
        }
        is_taken = to.write_all(&taken).is_ok();
        if !is_taken {
            let lost = memchr::memchr_iter(b'\n', &taken).count();
            lines.lose(u64::try_from(lost).unwrap_or(u64::MAX));
        }
        taken.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// Timeout of events that must happen; far more than they take on a busy machine.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// Writes a piece when the test allows it, and then reports it to the test.
    struct Gated {
        may: Receiver<bool>,
        wrote: Sender<Vec<u8>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !self.may.recv().expect("told") {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.wrote.send(bytes.to_owned()).expect("heard");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn rig() -> (Arc<Lines>, Sender<bool>, Receiver<Vec<u8>>) {
        let lines = Arc::new(Lines::new());
        let (may, gate) = channel();
        let (wrote, heard) = channel();
        let (own, to) = (Arc::clone(&lines), Gated { may: gate, wrote });
        // The thread still waits for lines when the test is over, and ends with the process.
        std::thread::spawn(move || run(&own, to));
        (lines, may, heard)
    }

    #[test]
    fn an_unread_log_delays_no_caller_and_lost_lines_are_counted() {
        let (lines, may, heard) = rig();
        lines.push(b"first\n");
        while !lines.state().is_writing {
            std::thread::yield_now();
        }
        let line = [b'x'; 1024];
        for _ in 0..BYTES_MAX / line.len() + 3 {
            lines.push(&line);
        }
        assert_eq!(lines.lost.load(Relaxed), 3);
        may.send(true).expect("it runs");
        may.send(true).expect("it runs");
        assert_eq!(heard.recv_timeout(PATIENCE).expect("written"), b"first\n");
        let rest = heard.recv_timeout(PATIENCE).expect("written");
        assert_eq!(rest.len(), BYTES_MAX);
        lines.push(b"again\n");
        may.send(true).expect("it runs");
        assert_eq!(heard.recv_timeout(PATIENCE).expect("written"), b"again\n");
    }

    #[test]
    fn flush_waits_for_the_last_lines_up_to_a_limit() {
        let (lines, may, heard) = rig();
        lines.push(b"last\n");
        lines.flush(Duration::from_millis(1));
        assert!(heard.try_recv().is_err(), "it was not for ever");
        may.send(true).expect("it runs");
        lines.flush(PATIENCE);
        assert_eq!(heard.try_recv().expect("written"), b"last\n");
        assert!(lines.state().waiting.is_empty());
    }

    #[test]
    fn lines_that_cannot_be_written_are_lost() {
        let (lines, may, _heard) = rig();
        lines.push(b"one\ntwo\n");
        may.send(false).expect("it runs");
        lines.flush(PATIENCE);
        assert_eq!(lines.lost.load(Relaxed), 2);
    }
}
