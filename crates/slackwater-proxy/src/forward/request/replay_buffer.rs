//! The replay buffer: the part of a request body that was read, kept for another attempt.
//!
//! While a request may still be sent a second time, what was read of its body is kept, up to a
//! limit. A second reader starts with that and continues where the first one stopped. A body that
//! exceeds the limit is still forwarded; only the second attempt is lost. The buffer is freed as
//! soon as no further attempt is possible.

use bytes::{Bytes, BytesMut};
use core::cell::{Cell, RefCell};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use std::rc::Rc;

/// A body, and the part of it that was read.
#[derive(Debug)]
struct ReplayBuffer<B> {
    source: RefCell<B>,
    kept: RefCell<Kept>,
    bytes_max: usize,
    /// Number of the current reader; older readers get no more data.
    reader: Cell<u32>,
}

#[derive(Debug)]
struct Kept {
    bytes: BytesMut,
    trailers: Option<HeaderMap>,
    /// Whether everything that was read is kept.
    is_whole: bool,
}

/// Reads a body from its start. A second reader exists only after the first was given up.
#[derive(Debug)]
pub(super) struct ReplayReader<B> {
    buffer: Rc<ReplayBuffer<B>>,
    number: u32,
    /// Number of kept bytes that this reader has read.
    position: usize,
    has_trailers: bool,
}

/// The right to read the body again.
#[derive(Debug)]
pub(super) struct ReplayHandle<B>(Rc<ReplayBuffer<B>>);

impl<B: Body<Data = Bytes> + Unpin> ReplayReader<B> {
    /// Reads `source`, and keeps up to `bytes_max` bytes of it while there is a [`ReplayHandle`].
    pub(crate) fn new(source: B, bytes_max: usize) -> Self {
        let kept = Kept {
            bytes: BytesMut::new(),
            trailers: None,
            is_whole: true,
        };
        let buffer = ReplayBuffer {
            source: RefCell::new(source),
            kept: RefCell::new(kept),
            bytes_max,
            reader: Cell::new(0),
        };
        Self::at_start(Rc::new(buffer))
    }

    fn at_start(buffer: Rc<ReplayBuffer<B>>) -> Self {
        Self {
            number: buffer.reader.get(),
            buffer,
            position: 0,
            has_trailers: true,
        }
    }

    /// Whether a later reader has taken over. This one gets no more data, since its connection was
    /// given up and is about to close.
    pub(super) fn is_superseded(&self) -> bool {
        self.number != self.buffer.reader.get()
    }

    /// Returns the right to read the body again.
    pub(super) fn handle(&self) -> ReplayHandle<B> {
        ReplayHandle(Rc::clone(&self.buffer))
    }

    /// Passes the body itself to `look`.
    pub(super) fn with_source<R>(&self, look: impl FnOnce(&B) -> R) -> R {
        look(&self.buffer.source.borrow())
    }

    /// Returns the next piece of what was read before.
    fn replay(&mut self) -> Option<Frame<Bytes>> {
        let kept = self.buffer.kept.borrow();
        if self.position < kept.bytes.len() {
            let rest = Bytes::copy_from_slice(&kept.bytes[self.position..]);
            self.position = kept.bytes.len();
            return Some(Frame::data(rest));
        }
        if self.has_trailers
            && let Some(trailers) = &kept.trailers
        {
            self.has_trailers = false;
            return Some(Frame::trailers(trailers.clone()));
        }
        None
    }

    fn keep(&mut self, frame: &Frame<Bytes>) {
        let mut kept = self.buffer.kept.borrow_mut();
        if !kept.is_whole {
            return;
        }
        let read = frame.data_ref().map_or(0, Bytes::len);
        let is_wanted = Rc::strong_count(&self.buffer) > 1;
        if !is_wanted || kept.bytes.len() + read > self.buffer.bytes_max {
            *kept = Kept {
                bytes: BytesMut::new(),
                trailers: None,
                is_whole: false,
            };
            self.position = 0;
            return;
        }
        if let Some(data) = frame.data_ref() {
            kept.bytes.extend_from_slice(data);
            self.position = kept.bytes.len();
        } else if let Some(trailers) = frame.trailers_ref() {
            kept.trailers = Some(trailers.clone());
            self.has_trailers = false;
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> ReplayHandle<B> {
    /// Whether everything that was read so far is kept.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.kept.borrow().is_whole
    }

    /// Returns the whole body, if it was read to its end, is kept, and has no trailers. The current
    /// reader is not affected.
    pub(crate) fn whole(&self) -> Option<Bytes> {
        let kept = self.0.kept.borrow();
        let is_here =
            kept.is_whole && kept.trailers.is_none() && self.0.source.borrow().is_end_stream();
        is_here.then(|| Bytes::copy_from_slice(&kept.bytes))
    }

    /// Returns the body from its start; `None` if it exceeded the limit. The previous reader gets
    /// no more of it.
    pub(crate) fn reader(self) -> Option<ReplayReader<B>> {
        if !self.is_whole() {
            return None;
        }
        self.0.reader.set(self.0.reader.get().wrapping_add(1));
        Some(ReplayReader::at_start(self.0))
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for ReplayReader<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.is_superseded() {
            return Poll::Pending;
        }
        if let Some(frame) = self.replay() {
            return Poll::Ready(Some(Ok(frame)));
        }
        let read = {
            let mut source = self.buffer.source.borrow_mut();
            ready!(Pin::new(&mut *source).poll_frame(cx))
        };
        if let Some(Ok(frame)) = &read {
            self.keep(frame);
        }
        Poll::Ready(read)
    }

    fn is_end_stream(&self) -> bool {
        let kept = self.buffer.kept.borrow();
        self.position == kept.bytes.len()
            && !(self.has_trailers && kept.trailers.is_some())
            && self.buffer.source.borrow().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = (self.buffer.kept.borrow().bytes.len() - self.position) as u64;
        let rest = self.buffer.source.borrow().size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + ahead);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + ahead);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;
    use std::collections::VecDeque;

    /// A body of these pieces, and possibly trailers. `None` is a poll without data.
    #[derive(Debug, Default)]
    struct Script(VecDeque<Option<Frame<Bytes>>>);

    impl Script {
        fn new(pieces: &[&'static str]) -> Self {
            let piece = |&text: &&'static str| (!text.is_empty()).then(|| Frame::data(text.into()));
            Self(pieces.iter().map(piece).collect())
        }

        fn with_trailers(mut self) -> Self {
            let mut trailers = HeaderMap::new();
            trailers.insert("sum", HeaderValue::from_static("1"));
            self.0.push_back(Some(Frame::trailers(trailers)));
            self
        }
    }

    impl Body for Script {
        type Data = Bytes;
        type Error = core::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            match self.0.pop_front() {
                None => Poll::Ready(None),
                Some(None) => Poll::Pending,
                Some(Some(frame)) => Poll::Ready(Some(Ok(frame))),
            }
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }

        fn size_hint(&self) -> SizeHint {
            let pieces = self.0.iter().flatten();
            let bytes = pieces.filter_map(|piece| Some(piece.data_ref()?.len() as u64));
            SizeHint::with_exact(bytes.sum())
        }
    }

    /// Reads until the end, or until no data is ready. Trailers are shown as `+`, the end as `.`.
    fn read(reader: &mut ReplayReader<Script>) -> String {
        let mut text = String::new();
        let mut cx = Context::from_waker(core::task::Waker::noop());
        loop {
            match Pin::new(&mut *reader).poll_frame(&mut cx) {
                Poll::Pending => return text,
                Poll::Ready(None) => return text + ".",
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => text += core::str::from_utf8(&data).expect("text"),
                    Err(_) => text.push('+'),
                },
            }
        }
    }

    #[test]
    fn second_reader_gets_the_body_from_the_start() {
        let script = Script::new(&["ab", "cd", "", "ef"]).with_trailers();
        let mut first = ReplayReader::new(script, 6);
        let handle = first.handle();
        assert_eq!(first.size_hint().exact(), Some(6));
        assert_eq!(read(&mut first), "abcd");
        assert_eq!(first.size_hint().exact(), Some(2));
        let mut second = handle.reader().expect("all of it is kept");
        assert_eq!(second.size_hint().exact(), Some(6), "announced as at first");
        assert!(!second.is_end_stream());
        let third = second.handle();
        assert_eq!(read(&mut second), "abcdef+.");
        assert!(second.is_end_stream());
        let mut third = third.reader().expect("all of it is kept");
        assert!(!third.is_end_stream(), "though the source has ended");
        assert_eq!(read(&mut third), "abcdef+.");
        assert!(third.is_end_stream());
    }

    #[test]
    fn earlier_readers_get_no_more_data() {
        let mut first = ReplayReader::new(Script::new(&["ab", "", "cd"]), 9);
        let handle = first.handle();
        assert_eq!(read(&mut first), "ab");
        let mut second = handle.reader().expect("all of it is kept");
        assert_eq!(read(&mut first), "", "not a byte is taken from the second");
        assert_eq!(read(&mut second), "abcd.");
    }

    #[test]
    fn a_body_beyond_the_limit_is_forwarded_but_not_replayable() {
        let mut first = ReplayReader::new(Script::new(&["ab", "cd", "ef"]), 5);
        let handle = first.handle();
        assert_eq!(read(&mut first), "abcdef.");
        assert!(handle.reader().is_none());
        assert_eq!(
            first.buffer.kept.borrow().bytes.capacity(),
            0,
            "nothing is kept"
        );
    }

    #[test]
    fn nothing_is_kept_without_a_replay_handle() {
        let mut first = ReplayReader::new(Script::new(&["ab", "", "cd", "", "ef"]), 9);
        let handle = first.handle();
        assert_eq!(read(&mut first), "ab");
        drop(handle);
        assert_eq!(first.buffer.kept.borrow().bytes.len(), 2);
        assert_eq!(read(&mut first), "cd");
        assert_eq!(first.buffer.kept.borrow().bytes.capacity(), 0);
        assert!(first.handle().reader().is_none(), "the start is gone");
        assert_eq!(read(&mut first), "ef.");
    }
}
