//! Pending output of a connection: text that frames a message, and at most one large piece of a
//! body.
//!
//! Small pieces are appended to the text, so that a head and a short body are sent in one write. A
//! large piece is written without a copy, together with the text around it.

use super::buffers;
use super::stream::Stream;
use bytes::{Buf, Bytes, BytesMut};
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};
use tokio::io::AsyncWrite;

/// Up to this size, a copy is cheaper than a write in several parts.
const COPIED_BYTES_MAX: usize = 4 << 10;

/// Amount of text after which no more is added before some is written.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// Pending output, in this order: `text`, `data`, `after`.
#[derive(Debug, Default)]
pub(crate) struct Out {
    text: BytesMut,
    data: Bytes,
    after: &'static [u8],
    /// Whether bytes were written since the last [`take_moved`](Self::take_moved).
    has_moved: bool,
}

impl Out {
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.data.is_empty() && self.after.is_empty()
    }

    /// Whether further output must wait until this is written.
    pub(crate) fn is_full(&self) -> bool {
        !self.data.is_empty() || !self.after.is_empty() || self.text.len() >= TEXT_BYTES_MAX
    }

    /// The buffer for text. Allowed only while it is not full.
    pub(crate) fn text(&mut self) -> &mut BytesMut {
        debug_assert!(self.data.is_empty(), "text would overtake data");
        if self.text.capacity() == 0 {
            self.text = buffers::lend_text();
        }
        &mut self.text
    }

    /// Adds a piece of a body, and the framing that follows it. Allowed only while it is not full.
    pub(crate) fn push(&mut self, data: Bytes, after: &'static [u8]) {
        if data.len() <= COPIED_BYTES_MAX {
            let text = self.text();
            text.extend_from_slice(&data);
            text.extend_from_slice(after);
        } else {
            self.data = data;
            self.after = after;
        }
    }

    /// Whether any byte was written since the last call.
    pub(crate) fn take_moved(&mut self) -> bool {
        core::mem::take(&mut self.has_moved)
    }

    /// Writes everything.
    pub(crate) fn poll_flush(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            let written = if self.data.is_empty() && self.after.is_empty() {
                ready!(Pin::new(&mut *stream).poll_write(cx, &self.text))?
            } else {
                let slices = [
                    IoSlice::new(&self.text),
                    IoSlice::new(&self.data),
                    IoSlice::new(self.after),
                ];
                let from = usize::from(self.text.is_empty());
                ready!(Pin::new(&mut *stream).poll_write_vectored(cx, &slices[from..]))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.has_moved = true;
            self.advance(written);
        }
        // This matters only for streams that buffer, as TLS does.
        Pin::new(stream).poll_flush(cx)
    }

    fn advance(&mut self, written: usize) {
        let from_text = written.min(self.text.len());
        if from_text == self.text.len() {
            if self.text.capacity() > 0 {
                buffers::take_text_back(core::mem::take(&mut self.text));
            }
        } else {
            self.text.advance(from_text);
        }
        let written = written - from_text;
        let from_data = written.min(self.data.len());
        if from_data == self.data.len() {
            self.data = Bytes::new();
        } else {
            self.data.advance(from_data);
        }
        self.after = &self.after[written - from_data..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::future::poll_fn;
    use tokio::io::AsyncReadExt;
    use tokio::net::UnixStream;

    #[test]
    fn partial_write_keeps_the_rest() {
        let data = Bytes::from(vec![b'd'; COPIED_BYTES_MAX + 1]);
        let whole = |out: &Out| [&out.text[..], &out.data[..], out.after].concat();
        let mut out = Out::default();
        out.text().extend_from_slice(b"head");
        out.push(data, b"\r\n");
        assert!(out.is_full());
        let mut left = whole(&out);
        for written in [1, 2, 5, COPIED_BYTES_MAX - 4, 1, 1] {
            out.advance(written);
            left.drain(..written);
            assert_eq!(whole(&out), left, "{written}");
        }
        out.advance(left.len());
        assert!(out.is_empty() && !out.is_full());
    }

    #[test]
    fn short_pieces_are_copied_into_the_text_buffer() {
        let mut out = Out::default();
        out.text().extend_from_slice(b"head");
        out.push(Bytes::from_static(b"body"), b"\r\n");
        assert!(!out.is_full());
        assert_eq!(out.text, "headbody\r\n");
    }

    #[tokio::test]
    async fn output_arrives_in_order() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let mut stream = Stream::Unix(ours);
        let data = vec![b'd'; 1 << 20];
        let mut out = Out::default();
        out.text().extend_from_slice(b"head");
        out.push(Bytes::from(data.clone()), b"\r\n");
        let mut read = Vec::new();
        let writing = async {
            poll_fn(|cx| out.poll_flush(&mut stream, cx))
                .await
                .expect("written");
            assert!(out.take_moved() && !out.take_moved());
            drop(stream);
        };
        let reading = theirs.read_to_end(&mut read);
        let ((), reading) = tokio::join!(writing, reading);
        reading.expect("read");
        assert!(read == [b"head", &data[..], b"\r\n"].concat());
    }
}
