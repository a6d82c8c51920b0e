//! The thread that writes the log: whoever logs never waits for whoever reads it.
//!
//! Lines wait in one bounded buffer. Where standard error takes none, as a pipe that nobody reads,
//! what comes when the buffer is full is lost and counted, and the log says how many those were
//! once it takes lines again.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;

/// Bytes that may wait to be written: some 2,000 lines.
const BYTES_MAX: usize = 256 << 10;

/// For the last lines of a process.
const END_MAX: Duration = Duration::from_secs(1);

static LINES: Lines = Lines::new();

/// Starts the thread, for standard error.
pub(super) fn start() -> io::Result<()> {
    let work = || run(&LINES, io::stderr());
    Builder::new().name("log".to_owned()).spawn(work).map(drop)
}

/// Lines of the log that were lost since the start.
pub(crate) fn lost_lines() -> u64 {
    LINES.lost.load(Relaxed)
}

/// Waits until all lines are written, or until that has taken too long: what reads them may have
/// gone.
pub(super) fn flush() {
    LINES.flush(END_MAX);
}

/// Takes one line for each write.
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
    /// There is something to write, or all is written.
    changed: Condvar,
    lost: AtomicU64,
}

#[derive(Debug)]
struct State {
    waiting: Vec<u8>,
    /// Some have been taken that may not be written yet.
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

    /// Waits for lines and takes them all; the last ones taken are written.
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
    // While nothing can be written, a line that says so would be one more of those.
    let mut is_taken = true;
    loop {
        lines.take(&mut taken);
        let lost = lines.lost.load(Relaxed);
        if is_taken && lost > told {
            // It goes the way of all lines, where there is room just now.
            tracing::warn!(
                lines = lost - told,
                "lines of this log are lost: it took none for a while"
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

    /// For what must come; far beyond what it takes on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Writes a piece when it is told to, and then tells it.
    struct Told {
        may: Receiver<bool>,
        wrote: Sender<Vec<u8>>,
    }

    impl Write for Told {
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
        let (may, told) = channel();
        let (wrote, heard) = channel();
        let (own, to) = (Arc::clone(&lines), Told { may: told, wrote });
        // It waits for more when the test is over, and ends with the process.
        std::thread::spawn(move || run(&own, to));
        (lines, may, heard)
    }

    #[test]
    fn a_reader_who_does_not_read_holds_up_nobody_and_what_does_not_fit_is_counted() {
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
    fn the_last_lines_are_waited_for_but_not_for_ever() {
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
