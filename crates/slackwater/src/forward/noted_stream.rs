//! A connection for HTTP/2, on either side, that tells when bytes pass.

use super::stream::Stream;
use bytes::Bytes;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::io::{self, IoSlice};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Who is told.
pub(super) trait Notes {
    /// Something was read, be it the end.
    fn received(&self);

    /// Something was written.
    fn written(&self) {}
}

#[derive(Debug)]
pub(super) struct NotedStream<N> {
    pub(super) stream: Stream,
    /// What was read before, and comes first.
    pub(super) unread: Bytes,
    pub(super) notes: N,
}

impl<N: Notes + Unpin> AsyncRead for NotedStream<N> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.unread.is_empty() {
            let length = buffer.remaining().min(self.unread.len());
            buffer.put_slice(&self.unread.split_to(length));
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.notes.received();
        }
        read
    }
}

impl<N: Notes + Unpin> AsyncWrite for NotedStream<N> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if written.is_ready() {
            self.notes.written();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        if written.is_ready() {
            self.notes.written();
        }
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
