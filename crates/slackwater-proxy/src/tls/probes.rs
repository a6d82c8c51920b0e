//! HTTP probes over TLS: connections for a prober whose tasks may run on any thread.

use super::spoken::Spoken;
use core::net::SocketAddr;
use rustls::pki_types::ServerName;
use slackwater_config::tls::Client;
use slackwater_config::tls::HttpVersion;
use slackwater_discovery::Fleet;
use slackwater_tower::client::probe::{Connect, Connecting, ProbeStream};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

/// Minimum number of replicas for which sessions are kept, because fleets grow.
const REPLICAS_MIN: usize = 64;

/// Opens connections to replicas' probe addresses, like [`Connector`](super::Connector) for
/// requests.
#[derive(Debug)]
pub(crate) struct ProbeConnector {
    fleets: watch::Receiver<Arc<Fleet>>,
    spoken: Mutex<Spoken>,
}

impl ProbeConnector {
    /// The newest of `fleets` determines the names that certificates must be valid for.
    pub(crate) fn new(
        client: watch::Receiver<Client>,
        fleets: watch::Receiver<Arc<Fleet>>,
    ) -> Self {
        let replicas = fleets.borrow().replicas().len().max(REPLICAS_MIN);
        Self {
            fleets,
            spoken: Mutex::new(Spoken::new(client, HttpVersion::Http1, replicas)),
        }
    }

    fn spoken(&self) -> MutexGuard<'_, Spoken> {
        self.spoken.lock().unwrap_or_else(PoisonError::into_inner)
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
        let config = self.spoken().config(SystemTime::now());
        let connecting = TlsConnector::from(config).connect(name, stream);
        let connected = connecting.await.inspect_err(|error| {
            tracing::debug!(%addr, %error, "TLS handshake of a probe failed");
        })?;
        self.spoken().note(connected.get_ref().1);
        Ok(Box::new(connected))
    }
}

impl Connect for ProbeConnector {
    fn connect(&self, addr: SocketAddr) -> Connecting<'_> {
        Box::pin(self.open(addr))
    }
}
