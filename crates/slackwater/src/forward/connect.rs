//! New connections to a replica.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::path::PathBuf;
use tokio::net::{TcpStream, UnixStream};

/// Where a replica listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket, by its path.
    #[expect(dead_code, reason = "for `agent`")]
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A connection as the system gives it.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Opens a connection, or gives up after `timeout`.
pub(super) async fn connect(target: &Target, timeout: Duration) -> io::Result<Stream> {
    let connecting = async {
        match target {
            Target::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Target::Unix(path) => UnixStream::connect(path).await.map(Stream::Unix),
        }
    };
    match tokio::time::timeout(timeout, connecting).await {
        Ok(connected) => connected,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no connection within {timeout:?}"),
        )),
    }
}
