//! Opens TLS connections to one replica, for one worker.

use super::spoken::Spoken;
use core::cell::{Cell, RefCell};
use rustls::pki_types::ServerName;
use slackwater_config::tls::{Client, HttpVersion};
use std::io;
use std::time::SystemTime;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::{TlsConnector, TlsStream};

/// The expected identity of the replica, and the client configuration.
#[derive(Debug)]
pub struct Connector {
    spoken: RefCell<Spoken>,
    name: ServerName<'static>,
    protocol: HttpVersion,
    /// Whether a TLS failure of the replica was logged since the last success.
    is_logged: Cell<bool>,
}

impl Connector {
    /// Makes a connector to a replica whose certificate must be valid for `name`, and which must
    /// negotiate `protocol`.
    pub fn new(
        client: watch::Receiver<Client>,
        name: ServerName<'static>,
        protocol: HttpVersion,
    ) -> Self {
        Self {
            spoken: RefCell::new(Spoken::new(client, protocol, 1)),
            name,
            protocol,
            is_logged: Cell::new(false),
        }
    }

    /// Performs a handshake, without a timeout.
    ///
    /// # Errors
    ///
    /// Fails if the replica's certificate is not accepted, or if TLS or the protocol cannot be
    /// negotiated. The first such failure is logged, because it could be mistaken for a dead
    /// replica.
    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<Box<TlsStream<TcpStream>>> {
        let peer = stream.peer_addr();
        let connected = self.handshake(stream).await;
        let is_strange = (connected.as_ref()).is_err_and(|error| error.get_ref().is_some());
        if let (Err(error), Ok(address)) = (&connected, peer)
            && is_strange
            && !self.is_logged.get()
        {
            let name = self.name.to_str();
            tracing::warn!(%address, %name, "TLS handshake with replica failed: {error}");
        }
        // A replica that disconnects during the handshake reveals nothing about its identity.
        if connected.is_ok() || is_strange {
            self.is_logged.set(is_strange);
        }
        connected
    }

    async fn handshake(&self, stream: TcpStream) -> io::Result<Box<TlsStream<TcpStream>>> {
        let config = self.spoken.borrow_mut().config(SystemTime::now());
        let connecting = TlsConnector::from(config).connect(self.name.clone(), stream);
        let connected = connecting.await?;
        let (_, session) = connected.get_ref();
        self.spoken.borrow_mut().note(session);
        let agreed = session.alpn_protocol();
        check_agreed(self.protocol, agreed, "replica.protocol = \"http1\"")?;
        Ok(Box::new(connected.into()))
    }
}

/// Performs one handshake, without a timeout. The peer's certificate must be valid for `name`, and
/// it must negotiate `protocol`. No session is kept.
///
/// # Errors
///
/// Fails if the peer's certificate is not accepted, or if TLS or the protocol cannot be negotiated.
pub(crate) async fn connect_once(
    client: &Client,
    name: ServerName<'static>,
    protocol: HttpVersion,
    stream: TcpStream,
) -> io::Result<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(client.with_sessions(protocol, 0));
    let connected = connector.connect(name, stream).await?;
    let agreed = connected.get_ref().1.alpn_protocol();
    check_agreed(protocol, agreed, "protocol = \"http\"")?;
    Ok(connected.into())
}

/// Checks the negotiated protocol; the error suggests another setting. A server without ALPN speaks
/// HTTP/1.1.
fn check_agreed(protocol: HttpVersion, agreed: Option<&[u8]>, instead: &str) -> io::Result<()> {
    if protocol == HttpVersion::Http2 && agreed != Some(protocol.alpn()) {
        let told = format!("it did not agree on HTTP/2 (ALPN h2), expected {instead}");
        return Err(io::Error::other(told));
    }
    Ok(())
}
