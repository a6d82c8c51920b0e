//! New connections to a replica.

use super::stream::Stream;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::path::{Path, PathBuf};
use tokio::net::{TcpStream, UnixStream};

/// Between two attempts at a Unix socket where too many connections wait to be accepted.
const UNIX_PAUSE: Duration = Duration::from_millis(5);

/// Where a replica listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket, by its path.
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

/// Opens a connection, or gives up after `timeout`.
pub(crate) async fn connect(target: &Target, timeout: Duration) -> io::Result<Stream> {
    let connecting = async {
        match target {
            Target::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Target::Unix(path) => connect_unix(path).await.map(Stream::Unix),
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

/// Opens a connection and closes it, to see whether that can be done.
pub(crate) async fn reach(target: &Target, timeout: Duration) -> io::Result<()> {
    connect(target, timeout).await.map(drop)
}

/// Where TCP waits when too many connections wait to be accepted, a Unix socket says so; then the waiting is done here.
async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(UNIX_PAUSE).await;
            }
            connected => return connected,
        }
    }
}
