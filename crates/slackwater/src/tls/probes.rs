//! HTTP probes over TLS: connections for a prober whose tasks may run on any thread.

use super::client::Client;
use super::server::HttpVersion;
use crate::discovery::Fleet;
use core::net::SocketAddr;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use slackwater_tower::client::probe::{Connect, Connecting, ProbeStream};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

/// Opens connections to where replicas answer probes, as [`Connector`](super::Connector) does for requests.
#[derive(Debug)]
pub(crate) struct ProbeConnector {
    fleets: watch::Receiver<Arc<Fleet>>,
    current: Mutex<Current>,
}

struct Current {
    client: watch::Receiver<Client>,
    config: Arc<ClientConfig>,
}

impl core::fmt::Debug for Current {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Current")
    }
}

impl ProbeConnector {
    /// The newest of `fleets` says what certificates must be for.
    pub(crate) fn new(
        mut client: watch::Receiver<Client>,
        fleets: watch::Receiver<Arc<Fleet>>,
    ) -> Self {
        let config = client.borrow_and_update().for_replica(HttpVersion::Http1);
        Self {
            fleets,
            current: Mutex::new(Current { client, config }),
        }
    }

    fn config(&self) -> Arc<ClientConfig> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let Current { client, config } = &mut *current;
        if client.has_changed().unwrap_or(false) {
            *config = client.borrow_and_update().for_replica(HttpVersion::Http1);
        }
        Arc::clone(config)
    }

    fn server_name(&self, addr: SocketAddr) -> ServerName<'static> {
        let fleet = self.fleets.borrow();
        let found = fleet.replicas().iter().find(|it| it.probe_address == addr);
        found.map_or_else(|| addr.ip().into(), |replica| replica.server_name.clone())
    }

    async fn open(&self, addr: SocketAddr) -> io::Result<Box<dyn ProbeStream>> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let name = self.server_name(addr);
        let connecting = TlsConnector::from(self.config()).connect(name, stream);
        let connected = connecting.await.inspect_err(|error| {
            tracing::debug!(%addr, %error, "a probe found nobody to speak TLS with");
        })?;
        Ok(Box::new(connected))
    }
}

impl Connect for ProbeConnector {
    fn connect(&self, addr: SocketAddr) -> Connecting<'_> {
        Box::pin(self.open(addr))
    }
}
