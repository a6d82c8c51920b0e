//! One worker's lines on their way to the writer: a bounded buffer, and a count of dropped lines.
//!
//! Only the worker and the writer share the lock. The worker holds it while it composes a line in
//! place, the writer only to swap one buffer for another.

use super::buffer::{BYTES_MAX, Line, LineBuffer};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::Thread;

/// From this many bytes on, the writer is woken before its time.
const BYTES_URGENT: usize = BYTES_MAX / 4;

/// Lines of one worker, with one reader.
#[derive(Debug)]
pub(super) struct Queue {
    lines: Mutex<LineBuffer>,
    dropped: AtomicU64,
    writer: Thread,
}

impl Queue {
    /// `writer` is the thread to wake.
    pub(super) fn new(writer: Thread) -> Self {
        Self {
            lines: Mutex::new(LineBuffer::new()),
            dropped: AtomicU64::new(0),
            writer,
        }
    }

    /// Adds the line that `write` puts together, including its newline. The line is dropped if it
    /// does not fit.
    pub(super) fn push(&self, write: impl FnOnce(Line<'_>) -> Line<'_>) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let before = lines.used();
        let fits = lines.add(write);
        let after = lines.used();
        drop(lines);
        if !fits {
            self.drop_lines(1);
        } else if before < BYTES_URGENT && after >= BYTES_URGENT {
            self.writer.unpark();
        }
    }

    /// Counts dropped lines.
    pub(super) fn drop_lines(&self, lines: u64) {
        self.dropped.fetch_add(lines, Relaxed);
    }

    /// Number of dropped lines.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Takes all lines, and leaves the buffer `empty` in their place.
    pub(super) fn exchange(&self, empty: &mut LineBuffer) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        core::mem::swap(&mut *lines, empty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_do_not_fit_are_counted_and_the_rest_keeps_its_order() {
        let queue = Queue::new(std::thread::current());
        let push = |line: &[u8]| queue.push(|to| to.put(line));
        let line = [b'x'; 1023];
        for _ in 0..1024 {
            push(&line);
        }
        assert_eq!(queue.dropped(), 0);
        push(&[b'y'; 1024]);
        push(&[b'z'; 1025]);
        assert_eq!(queue.dropped(), 1, "the last one is a byte too long");
        let mut taken = LineBuffer::new();
        queue.exchange(&mut taken);
        assert_eq!(taken.lines().len(), BYTES_MAX);
        assert!(taken.lines().ends_with(&[b'y'; 1024]));
        taken.clear();
        push(b"again");
        queue.exchange(&mut taken);
        assert_eq!(taken.lines(), b"again");
    }
}
