//! The byte stream of a connection: TCP, a Unix socket, or TLS over TCP.
//!
//! It is an enum instead of a type parameter, so that the code built on it (codecs, pools,
//! sessions) exists once. The match costs nothing compared with the system call behind it.

use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
#[cfg(target_os = "linux")]
use rustix::event::{PollFd, PollFlags, Timespec};
use slackwater_discovery::detect_loss;
use socket2::SockRef;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsStream;

/// Silence after which TCP keepalive asks the peer's machine for a sign of life, and the time
/// between its further tries.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// A connection to a client or to a replica.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Plain TCP.
    Tcp(TcpStream),
    /// A Unix socket; only to replicas.
    Unix(UnixStream),
    /// TLS over TCP after the handshake. Boxed, because it is much larger than the other variants.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Sets whether the other side sees an orderly end (the default) or a reset when this
    /// connection ends. A reset is for incomplete data whose end only the close would mark. The
    /// setting also applies when the process ends.
    pub(crate) fn end_in_order(&self, in_order: bool) {
        let tcp = match self {
            Self::Tcp(stream) => stream,
            // TLS marks the end with its own alert, without which the end is a failure. A Unix
            // socket always ends the same way.
            Self::Unix(_) | Self::Tls(_) => return,
        };
        // This fails only if the connection is lost.
        let _ = SockRef::from(tcp).set_linger((!in_order).then_some(Duration::ZERO));
    }

    /// Lets the system end the connection when the peer's machine is gone: after a minute in which
    /// nothing is acknowledged, or of silence.
    pub(crate) fn detect_loss(&self) {
        let tcp = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Unix(_) => return,
        };
        // This fails only if the connection is lost.
        let _ = detect_loss(tcp, KEEPALIVE, KEEPALIVE_INTERVAL);
    }

    /// Whether the runtime has an event for reading from the socket. Makes no system call. TLS may
    /// hold data of its own, so its answer is always yes.
    pub(crate) fn may_be_readable(&self, cx: &mut Context<'_>) -> bool {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx).is_ready(),
            Self::Unix(stream) => stream.poll_read_ready(cx).is_ready(),
            Self::Tls(_) => true,
        }
    }

    /// Whether the other side has closed its direction or the whole connection, even if earlier
    /// data is still unread.
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

/// On other systems, it is detected when all earlier data was read.
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
        let stream = self.get_mut();
        let written = match stream {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
            Self::Tls(stream) => return Pin::new(stream.as_mut()).poll_write(cx, bytes),
        };
        match written {
            // The runtime counts what a task does in a turn, and registers tasks that wait. A write
            // that need not wait is spared both; who writes in a loop ends the turn (`turn`).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                on_each!(Pin::new(stream), inner => inner.poll_write(cx, bytes))
            }
            written => Poll::Ready(written),
        }
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
