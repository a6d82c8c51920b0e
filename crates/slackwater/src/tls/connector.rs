//! One worker's way to speak TLS with one replica.

use super::client::Client;
use super::server::HttpVersion;
use core::cell::RefCell;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::{TlsConnector, TlsStream};

/// Whom to expect, and what to speak by.
#[derive(Debug)]
pub(crate) struct Connector {
    client: RefCell<watch::Receiver<Client>>,
    config: RefCell<Arc<ClientConfig>>,
    name: ServerName<'static>,
    protocol: HttpVersion,
}

impl Connector {
    /// To a replica whose certificate must be for `name`, and which must agree on `protocol`.
    pub(crate) fn new(
        mut client: watch::Receiver<Client>,
        name: ServerName<'static>,
        protocol: HttpVersion,
    ) -> Self {
        let config = client.borrow_and_update().for_replica(protocol);
        Self {
            client: RefCell::new(client),
            config: RefCell::new(config),
            name,
            protocol,
        }
    }

    /// Carries out a handshake, however long it takes.
    ///
    /// # Errors
    ///
    /// The replica is not who it should be, does not speak TLS as we do, or not the protocol.
    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<Box<TlsStream<TcpStream>>> {
        let connector = TlsConnector::from(self.config());
        let connected = connector.connect(self.name.clone(), stream).await?;
        let agreed = connected.get_ref().1.alpn_protocol();
        // A server without ALPN speaks HTTP/1.1, and nothing else may be assumed of it.
        if self.protocol == HttpVersion::Http2 && agreed != Some(self.protocol.alpn()) {
            return Err(io::Error::other(
                "the replica speaks TLS but did not agree on HTTP/2 (ALPN h2)",
            ));
        }
        Ok(Box::new(connected.into()))
    }

    fn config(&self) -> Arc<ClientConfig> {
        let mut client = self.client.borrow_mut();
        // An error means that nobody publishes any more; what is there goes on.
        if client.has_changed().unwrap_or(false) {
            // Sessions go with the old one: they may be of an identity, or of authorities, that no longer hold.
            *self.config.borrow_mut() = client.borrow_and_update().for_replica(self.protocol);
        }
        Arc::clone(&self.config.borrow())
    }
}
