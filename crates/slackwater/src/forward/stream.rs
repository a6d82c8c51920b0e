//! The bytes of a connection, whatever carries them: TCP, a Unix socket, TLS over TCP.
//!
//! An enum and not a type parameter, so that what is built on it (codecs, pools, sessions) exists once. The match costs
//! nothing beside the system call behind it.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::io::{self, IoSlice};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// A connection to a client or to a replica.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// A Unix socket; only to replicas.
    Unix(UnixStream),
    /// TLS over TCP, its handshake done. In a box, for it is much larger than the others.
    #[expect(dead_code, reason = "made where handshakes are, which comes next")]
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Ready once a read would give bytes, the end of the stream, or an error. Whoever waits here needs no buffer
    /// meanwhile. May be ready in vain, so a read may still have to wait.
    #[expect(dead_code, reason = "for a codec that waits without a buffer")]
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
            Self::Tls(stream) => {
                ready!(Pin::new(stream.as_mut()).poll_fill_buf(cx))?;
                Poll::Ready(Ok(()))
            }
        }
    }
}

macro_rules! on_each {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream.get_mut() {
            Stream::Tcp(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
            Stream::Unix(stream) => {
                let $inner = Pin::new(stream);
                $call
            }
            Stream::Tls(stream) => {
                let $inner = Pin::new(stream.as_mut());
                $call
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on_each!(self, inner => inner.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        on_each!(self, inner => inner.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_each!(self, inner => inner.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_each!(self, inner => inner.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_each!(self, inner => inner.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
