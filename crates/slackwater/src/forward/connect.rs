//! New connections to a replica.

use super::stream::Stream;
use crate::tls::Connector;
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
pub(crate) enum ReplicaAddress {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A Unix socket, by its path.
    Unix(PathBuf),
}

/// A replica as connections are opened to it.
#[derive(Debug)]
pub(crate) struct Target {
    address: ReplicaAddress,
    /// TLS; `None`: connections are plain. Over a Unix socket they always are.
    tls: Option<Connector>,
}

impl Target {
    pub(crate) const fn new(address: ReplicaAddress, tls: Option<Connector>) -> Self {
        Self { address, tls }
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> &ReplicaAddress {
        &self.address
    }
}

impl fmt::Display for ReplicaAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Opens a connection, its TLS handshake included, or gives up after `timeout`.
pub(crate) async fn connect(target: &Target, timeout: Duration) -> io::Result<Stream> {
    let connecting = async {
        match (open(&target.address).await?, &target.tls) {
            (Stream::Tcp(stream), Some(tls)) => tls.connect(stream).await.map(Stream::Tls),
            (plain, _) => Ok(plain),
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

async fn open(address: &ReplicaAddress) -> io::Result<Stream> {
    match address {
        ReplicaAddress::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
        ReplicaAddress::Unix(path) => connect_unix(path).await.map(Stream::Unix),
    }
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
