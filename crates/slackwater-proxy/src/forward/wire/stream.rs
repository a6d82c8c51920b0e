//! The bytes of a connection, whatever carries them: TCP, a Unix socket, TLS over TCP.
//!
//! An enum and not a type parameter, so that what is built on it (codecs, pools, sessions) exists
//! once. The match costs nothing beside the system call behind it.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
#[cfg(target_os = "linux")]
use rustix::event::{PollFd, PollFlags, Timespec};
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
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
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Whether the other side hears of an end when this connection ends, as it does at first, or of
    /// a failure: while the end of the connection would say that all has come, and not all has. It
    /// holds however the connection ends, with the process too.
    pub(crate) fn end_in_order(&self, in_order: bool) {
        let tcp = match self {
            Self::Tcp(stream) => stream,
            // TLS has its own word for the end, without which an end is a failure. A Unix socket
            // has no other end.
            Self::Unix(_) | Self::Tls(_) => return,
        };
        // It fails only when the connection is lost.
        let _ = SockRef::from(tcp).set_linger((!in_order).then_some(Duration::ZERO));
    }

    /// Whether the other side has closed its direction, or all of it, whatever of what it sent
    /// before is still unread.
    pub(crate) fn has_hung_up(&self) -> bool {
        match self {
            Self::Tcp(stream) => has_hung_up(stream),
            Self::Unix(stream) => has_hung_up(stream),
            Self::Tls(stream) => has_hung_up(stream.get_ref().0),
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

#[cfg(target_os = "linux")]
fn has_hung_up(socket: &impl AsFd) -> bool {
    let mut sockets = [PollFd::new(socket, PollFlags::RDHUP)];
    let looked = rustix::event::poll(&mut sockets, Some(&Timespec::default()));
    looked.is_ok() && !sockets[0].revents().is_empty()
}

/// Elsewhere it is seen once all before it is read.
#[cfg(not(target_os = "linux"))]
fn has_hung_up(_socket: &impl AsFd) -> bool {
    false
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
