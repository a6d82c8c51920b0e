//! HTTP probes over TLS: connections for a prober whose tasks may run on any thread.

use super::client::Client;
use super::server::HttpVersion;
use core::net::SocketAddr;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use slackwater_tower::client::probe::{Connect, Connecting, ProbeStream};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

/// Opens connections to where replicas answer probes, as [`Connector`](super::Connector) does for requests.
#[derive(Debug)]
pub(crate) struct ProbeConnector {
    names: BTreeMap<SocketAddr, ServerName<'static>>,
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
    /// `names` are what certificates must be for, by the addresses that probes go to.
    pub(crate) fn new(
        mut client: watch::Receiver<Client>,
        names: BTreeMap<SocketAddr, ServerName<'static>>,
    ) -> Self {
        let config = client.borrow_and_update().for_replica(HttpVersion::Http1);
        Self {
            names,
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

    async fn open(&self, addr: SocketAddr) -> io::Result<Box<dyn ProbeStream>> {
        let stream = TcpStream::connect(addr).await?;
        stream.set_nodelay(true)?;
        let name = self.names.get(&addr).cloned();
        let name = name.unwrap_or_else(|| addr.ip().into());
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
