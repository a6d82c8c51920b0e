//! One worker's way to speak TLS with one replica.

use super::spoken::Spoken;
use core::cell::{Cell, RefCell};
use rustls::pki_types::ServerName;
use slackwater_config::tls::{Client, HttpVersion};
use std::io;
use std::time::SystemTime;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::{TlsConnector, TlsStream};

/// Whom to expect, and what to speak by.
#[derive(Debug)]
pub struct Connector {
    spoken: RefCell<Spoken>,
    name: ServerName<'static>,
    protocol: HttpVersion,
    /// Whether it was told that the replica is not who it should be, since the last time that it
    /// was.
    is_logged: Cell<bool>,
}

impl Connector {
    /// To a replica whose certificate must be for `name`, and which must agree on `protocol`.
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

    /// Carries out a handshake, however long it takes.
    ///
    /// # Errors
    ///
    /// The replica is not who it should be, does not speak TLS as we do, or not the protocol.
    /// Logged when it begins, for nobody can be expected to look for that among dead replicas.
    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<Box<TlsStream<TcpStream>>> {
        let peer = stream.peer_addr();
        let connected = self.handshake(stream).await;
        let is_strange = (connected.as_ref()).is_err_and(|error| error.get_ref().is_some());
        if let (Err(error), Ok(address)) = (&connected, peer)
            && is_strange
            && !self.is_logged.get()
        {
            let name = self.name.to_str();
            tracing::warn!(%address, %name, "a replica cannot be spoken to by TLS: {error}");
        }
        // A replica that went away in the midst of it says nothing of who it is.
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

/// Carries out one handshake, however long it takes, with whoever must be `name` and agree on
/// `protocol`. No session is kept.
///
/// # Errors
///
/// The other side is somebody else, does not speak TLS as we do, or not the protocol.
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

/// Whether the other side speaks what it has to, or what to say in its place. A server without ALPN
/// speaks HTTP/1.1, and nothing else may be assumed of it.
fn check_agreed(protocol: HttpVersion, agreed: Option<&[u8]>, instead: &str) -> io::Result<()> {
    if protocol == HttpVersion::Http2 && agreed != Some(protocol.alpn()) {
        let told = format!("it did not agree on HTTP/2 (ALPN h2), expected {instead}");
        return Err(io::Error::other(told));
    }
    Ok(())
}
