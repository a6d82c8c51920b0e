//! One worker's spans on their way to the export thread: a bounded buffer of bytes, and a count of
//! dropped spans.
//!
//! Spans are stored encoded, each with its tag and its length, so the limit is in bytes. Only the
//! worker and the thread share the lock, and the thread holds it only to take the content.

use super::messages::Span;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use prost::encoding::message;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// Capacity in bytes: about 1,000 requests.
const BYTES_MAX: usize = 1 << 20;

/// From this many bytes on, the thread is woken before its time.
const BYTES_URGENT: usize = BYTES_MAX / 4;

/// Field number of `spans` in OTLP's `ScopeSpans`.
const SPANS_TAG: u32 = 2;

/// Encoded spans.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) spans: u64,
}

/// Spans of one worker, with one reader.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Batch>,
    dropped: AtomicU64,
    /// Wakes the export thread.
    wake: Arc<Notify>,
}

impl Queue {
    pub(super) fn new(wake: Arc<Notify>) -> Self {
        Self {
            waiting: Mutex::default(),
            dropped: AtomicU64::new(0),
            wake,
        }
    }

    /// Adds the spans of one request: all of them, or none if they do not fit.
    pub(super) fn push(&self, spans: &[Span]) {
        let length: usize = (spans.iter())
            .map(|span| message::encoded_len(SPANS_TAG, span))
            .sum();
        let count = spans.len() as u64;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.bytes.len();
        let after = before + length;
        if after > BYTES_MAX {
            drop(waiting);
            self.dropped.fetch_add(count, Relaxed);
            return;
        }
        for span in spans {
            message::encode(SPANS_TAG, span, &mut waiting.bytes);
        }
        waiting.spans += count;
        drop(waiting);
        if before < BYTES_URGENT && after >= BYTES_URGENT {
            self.wake.notify_one();
        }
    }

    /// Number of dropped spans.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// Moves everything to the end of `to`.
    pub(super) fn drain_into(&self, to: &mut Batch) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        to.bytes.extend_from_slice(&waiting.bytes);
        to.spans += waiting.spans;
        waiting.bytes.clear();
        waiting.spans = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name_bytes: usize) -> Span {
        Span {
            name: "n".repeat(name_bytes),
            ..Span::default()
        }
    }

    #[test]
    fn requests_that_do_not_fit_are_counted_and_the_rest_is_encoded() {
        let queue = Queue::new(Arc::default());
        // 1,018 bytes, their tag and length 3, the tag and length of the span 3.
        let kib = span(1018);
        for _ in 0..1023 {
            queue.push(core::slice::from_ref(&kib));
        }
        // 505 + 3 + 3 is 511, so two are 1,022. They fit, and two bytes remain.
        queue.push(&[span(505), span(506), span(0)]);
        assert_eq!(queue.dropped(), 3, "a byte too long, and all three go");
        queue.push(&[span(505), span(505), span(0)]);
        assert_eq!(queue.dropped(), 3);
        queue.push(&[span(1)]);
        assert_eq!(queue.dropped(), 4);
        let mut batch = Batch::default();
        queue.drain_into(&mut batch);
        assert_eq!((batch.bytes.len(), batch.spans), (BYTES_MAX, 1026));
        queue.push(&[span(1)]);
        queue.drain_into(&mut batch);
        assert_eq!((batch.bytes.len(), batch.spans), (BYTES_MAX + 5, 1027));
    }

    #[tokio::test]
    async fn reader_is_woken_once_per_quarter_of_the_queue() {
        let wake = Arc::new(Notify::new());
        let queue = Queue::new(Arc::clone(&wake));
        let is_woken = async || {
            let notified = core::pin::pin!(wake.notified());
            futures_util::poll!(notified).is_ready()
        };
        let kib = span(1018);
        for _ in 0..255 {
            queue.push(core::slice::from_ref(&kib));
        }
        assert!(!is_woken().await);
        queue.push(core::slice::from_ref(&kib));
        assert!(is_woken().await);
        queue.push(core::slice::from_ref(&kib));
        assert!(!is_woken().await);
    }
}
