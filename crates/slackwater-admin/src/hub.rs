//! Sends events to the readers of the stream. Their number is bounded, and each has a short queue
//! of messages.

use bytes::Bytes;
use core::task::{Context, Poll};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;

/// The most messages in a reader's queue; a reader with more is too slow.
const WAITING_MAX: usize = 4;

/// A reader's messages, until it leaves or the stream ends.
#[derive(Debug)]
pub struct Events(mpsc::Receiver<Bytes>);

impl Events {
    /// The next message; `None` at the end.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.0.poll_recv(cx)
    }
}

#[derive(Debug)]
struct Reader {
    messages: mpsc::Sender<Bytes>,
    /// Cancelling it closes the reader's connection.
    cut: CancellationToken,
}

/// All readers.
#[derive(Debug)]
pub(crate) struct Hub {
    readers_max: usize,
    /// The readers; `None` after the end of the stream.
    readers: Mutex<Option<Vec<Reader>>>,
}

impl Hub {
    pub(crate) fn new(readers_max: usize) -> Self {
        Self {
            readers_max,
            readers: Mutex::new(Some(Vec::new())),
        }
    }

    /// Returns whether there is any reader.
    pub(crate) fn has_readers(&self) -> bool {
        let mut readers = self.lock();
        readers.as_mut().is_some_and(|readers| {
            readers.retain(|reader| !reader.messages.is_closed());
            !readers.is_empty()
        })
    }

    /// Adds a reader, which receives `first` at once; `None` if there are too many readers or if
    /// the stream has ended.
    pub(crate) fn listen(
        &self,
        first: impl IntoIterator<Item = Bytes>,
        cut: CancellationToken,
    ) -> Option<Events> {
        let mut readers = self.lock();
        let readers = readers.as_mut()?;
        readers.retain(|reader| !reader.messages.is_closed());
        if readers.len() >= self.readers_max {
            return None;
        }
        let (messages, events) = mpsc::channel(WAITING_MAX);
        for message in first {
            // There is room, because the channel is new.
            let _ = messages.try_send(message);
        }
        readers.push(Reader { messages, cut });
        Some(Events(events))
    }

    /// Sends a message to all readers. Disconnects a reader whose queue is full.
    pub(crate) fn send(&self, message: &Bytes) {
        let mut readers = self.lock();
        let Some(readers) = readers.as_mut() else {
            return;
        };
        readers.retain(|reader| match reader.messages.try_send(message.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                reader.cut.cancel();
                false
            }
            Err(TrySendError::Closed(_)) => false,
        });
    }

    /// Ends the stream. Readers still receive the messages in their queues.
    pub(crate) fn end(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Reader>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    #[test]
    fn readers_get_every_message_and_slow_ones_are_cut_off() {
        let hub = Hub::new(2);
        assert!(!hub.has_readers());
        let [slow_cut, quick_cut] = [(); 2].map(|()| CancellationToken::new());
        let _slow = hub.listen([text("a")], slow_cut.clone()).expect("room");
        let mut quick = hub.listen([text("a")], quick_cut.clone()).expect("room");
        let third = hub.listen([], CancellationToken::new());
        assert!(third.is_none(), "no room");
        for round in 1..=WAITING_MAX {
            assert!(quick.0.try_recv().is_ok());
            assert!(!slow_cut.is_cancelled(), "{round}");
            hub.send(&text("b"));
        }
        assert!(slow_cut.is_cancelled() && !quick_cut.is_cancelled());
        let room = hub.listen([], CancellationToken::new());
        assert!(room.is_some(), "the slow one has made room");
    }

    #[test]
    fn departed_readers_free_their_slots_and_the_end_reaches_all() {
        let hub = Hub::new(1);
        let left = hub.listen([], CancellationToken::new()).expect("room");
        assert!(hub.has_readers());
        drop(left);
        assert!(!hub.has_readers());
        let cut = CancellationToken::new();
        let mut events = hub.listen([], cut.clone()).expect("room");
        hub.send(&text("last"));
        hub.end();
        assert_eq!(events.0.try_recv(), Ok(text("last")));
        assert!(events.0.is_closed() && !cut.is_cancelled());
        assert!(hub.listen([], CancellationToken::new()).is_none());
        hub.send(&text("without a reader"));
        assert!(!hub.has_readers());
    }
}
