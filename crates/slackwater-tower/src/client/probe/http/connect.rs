//! What probes by HTTP travel over: TCP, or whatever somebody brings, as TLS of their own.

use core::fmt::Debug;
use core::net::SocketAddr;
use core::pin::Pin;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection to where a replica answers probes.
pub trait ProbeStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> ProbeStream for S {}

/// A connection that is being opened.
pub type Connecting<'c> =
    Pin<Box<dyn Future<Output = io::Result<Box<dyn ProbeStream>>> + Send + 'c>>;

/// Opens connections for an [`HttpProber`](super::HttpProber).
pub trait Connect: Debug + Send + Sync + 'static {
    /// A connection to `addr`. May take its time: a probe has a deadline of its own.
    fn connect(&self, addr: SocketAddr) -> Connecting<'_>;
}

/// TCP, in the clear.
#[derive(Clone, Copy, Debug)]
pub(super) struct TcpConnector;

impl Connect for TcpConnector {
    fn connect(&self, addr: SocketAddr) -> Connecting<'_> {
        Box::pin(async move {
            let stream = TcpStream::connect(addr).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn ProbeStream>)
        })
    }
}
