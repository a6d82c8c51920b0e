//! Transports of HTTP probes: TCP, or one that the caller provides, such as TLS.

use core::fmt::Debug;
use core::net::SocketAddr;
use core::pin::Pin;
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A connection to the address where a replica answers probes.
pub trait ProbeStream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + 'static> ProbeStream for S {}

/// A connection that is being opened.
pub type Connecting<'c> =
    Pin<Box<dyn Future<Output = io::Result<Box<dyn ProbeStream>>> + Send + 'c>>;

/// Opens connections for an [`HttpProber`](super::HttpProber).
pub trait Connect: Debug + Send + Sync + 'static {
    /// Opens a connection to `addr`. It may take long: a probe has its own deadline.
    fn connect(&self, addr: SocketAddr) -> Connecting<'_>;
}

/// Plain TCP.
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
