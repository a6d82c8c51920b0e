//! New connections to a replica.

use crate::forward::wire::Stream;
use crate::tls::Connector;
use core::time::Duration;
use rustix::io::Errno;
use slackwater_config::ReplicaAddress;
use slackwater_http::proxy_protocol::{self, Ends, Version};
use std::io;
use std::path::Path;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};

/// Pause between attempts at a Unix socket whose accept queue is full.
const UNIX_PAUSE: Duration = Duration::from_millis(5);

/// A replica's address, and how connections to it are opened.
#[derive(Debug)]
pub struct Target {
    address: ReplicaAddress,
    /// TLS connector; `None` if connections are plain. Connections to Unix sockets always are.
    tls: Option<Connector>,
    /// Version of the PROXY header that begins each connection; `None` for no header. Unix sockets
    /// never have one.
    proxy_protocol: Option<Version>,
}

impl Target {
    /// Makes a target at this address. `tls` is the TLS connector, if any.
    pub const fn new(address: ReplicaAddress, tls: Option<Connector>) -> Self {
        Self {
            address,
            tls,
            proxy_protocol: None,
        }
    }

    /// Sets the version of the PROXY header, if connections begin with one.
    pub(crate) fn with_proxy_protocol(self, proxy_protocol: Option<Version>) -> Self {
        Self {
            proxy_protocol,
            ..self
        }
    }

    /// Whether a connection belongs to one client, because its header names the client.
    pub(crate) const fn forwards_client(&self) -> bool {
        self.proxy_protocol.is_some()
    }

    /// Whether connections use TLS.
    pub(crate) const fn is_secure(&self) -> bool {
        self.tls.is_some() && matches!(self.address, ReplicaAddress::Tcp(_))
    }

    /// The address of the replica.
    pub(crate) const fn address(&self) -> &ReplicaAddress {
        &self.address
    }
}

/// Opens a connection, including the TLS handshake, or fails after `timeout`. A PROXY header names
/// `client` or, without one, marks the connection as the proxy's own.
pub(crate) async fn connect(
    target: &Target,
    client: Option<&Ends>,
    timeout: Duration,
) -> io::Result<Stream> {
    let connecting = async {
        let mut stream = open(&target.address).await?;
        if let (Some(version), Stream::Tcp(stream)) = (target.proxy_protocol, &mut stream) {
            let header = proxy_protocol::header(version, client);
            stream.write_all(&header).await?;
        }
        match (stream, &target.tls) {
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

/// Whether no connection could be opened because this process or machine lacks what it needs, which
/// is no evidence about the replica.
pub(crate) fn is_own_lack(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
    )
}

/// Opens a connection and closes it, to check whether that succeeds.
pub async fn reach(target: &Target, timeout: Duration) -> io::Result<()> {
    connect(target, None, timeout).await.map(drop)
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

/// Connects, and waits while the accept queue is full. With TCP the kernel waits; a Unix socket
/// returns an error instead.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lack_of_descriptors_is_no_evidence_against_a_replica() {
        for (errno, is_own) in [
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::CONNREFUSED, false),
            // IPv6 without an address of this machine.
            (Errno::ADDRNOTAVAIL, false),
        ] {
            assert_eq!(is_own_lack(&io::Error::from(errno)), is_own, "{errno}");
        }
        assert!(!is_own_lack(&io::ErrorKind::TimedOut.into()));
    }
}
