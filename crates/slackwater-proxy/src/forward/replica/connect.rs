//! New connections to a replica.

use crate::forward::wire::Stream;
use crate::tls::Connector;
use core::time::Duration;
use slackwater_config::ReplicaAddress;
use slackwater_http::proxy_protocol::{self, Ends, Version};
use std::io;
use std::path::Path;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};

/// Between two attempts at a Unix socket where too many connections wait to be accepted.
const UNIX_PAUSE: Duration = Duration::from_millis(5);

/// A replica as connections are opened to it.
#[derive(Debug)]
pub struct Target {
    address: ReplicaAddress,
    /// TLS; `None`: connections are plain. Over a Unix socket they always are.
    tls: Option<Connector>,
    /// The form of the PROXY header that each connection begins with; `None`: it has none. Never
    /// over a Unix socket.
    proxy_protocol: Option<Version>,
}

impl Target {
    /// A replica at this address; `tls` is what TLS is spoken to it by, if any.
    pub const fn new(address: ReplicaAddress, tls: Option<Connector>) -> Self {
        Self {
            address,
            tls,
            proxy_protocol: None,
        }
    }

    /// The same, where connections begin with a PROXY header if there is a form for it.
    pub(crate) fn with_proxy_protocol(self, proxy_protocol: Option<Version>) -> Self {
        Self {
            proxy_protocol,
            ..self
        }
    }

    /// Whether a connection is one client's alone, because it begins with who that is.
    pub(crate) const fn forwards_client(&self) -> bool {
        self.proxy_protocol.is_some()
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> &ReplicaAddress {
        &self.address
    }
}

/// Opens a connection, its TLS handshake included, or gives up after `timeout`. Where a PROXY
/// header goes first, it tells of `client`, or that the connection is nobody's but our own.
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

/// Opens a connection and closes it, to see whether that can be done.
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

/// Where TCP waits when too many connections wait to be accepted, a Unix socket says so; then the
/// waiting is done here.
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
