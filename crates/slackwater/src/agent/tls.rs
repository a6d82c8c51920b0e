//! TLS to clients and to the server.

use slackwater_config::AgentConfig;
use slackwater_config::Fault;
use slackwater_config::tls::{Client, Server};
use slackwater_proxy::forward::Target;
use slackwater_proxy::tls::{Connector, HandshakeCounts, Handshakes, Secrets, Watcher};
use slackwater_telemetry::facts::{CertificateFacts, HandshakeFacts};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::watch;

/// TLS with clients; `None` if it is off. All workers share it.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    server: Option<watch::Receiver<Server>>,
    client: Option<watch::Receiver<Client>>,
    /// Watches the files; `None` if there are none.
    watcher: Option<Arc<Watcher>>,
    counts: Arc<HandshakeCounts>,
}

impl Tls {
    /// Reads the configured certificates and keys, and watches their files.
    ///
    /// # Errors
    ///
    /// A file cannot be used, or the system has no thread left.
    pub(super) fn read(config: &AgentConfig) -> Result<Self, Fault> {
        let mut secrets = Secrets::default();
        let server = (config.tls.as_ref())
            .map(|tls| secrets.follow_server(&tls.server, "listen"))
            .transpose()?;
        let client = (config.replica.tls.as_ref())
            .map(|tls| secrets.follow_client(tls, "to"))
            .transpose()?;
        Ok(Self {
            server,
            client,
            watcher: secrets.watch()?.map(Arc::new),
            counts: Arc::default(),
        })
    }

    /// Returns a worker's handshakes at one listener.
    pub(super) fn accept(&self, config: &AgentConfig) -> Option<Rc<Handshakes>> {
        let (tls, server) = config.tls.as_ref().zip(self.server.clone())?;
        Some(Rc::new(Handshakes::new(
            server,
            tls.handshakes_max as usize,
            tls.pass_client_certificate,
            Arc::clone(&self.counts),
        )))
    }

    /// Returns the server, with the name that its certificate must have.
    pub(super) fn target(&self, config: &AgentConfig) -> Target {
        let protocol = config.replica.protocol.alpn();
        let connector = (self.client.clone().zip(config.to_name.clone()))
            .map(|(client, name)| Connector::new(client, name, protocol));
        Target::new(config.to.clone(), connector)
    }

    /// The certificates in force.
    pub(super) fn certificates(&self) -> Vec<CertificateFacts> {
        let watcher = self.watcher.as_ref();
        watcher.map_or_else(Vec::new, |watcher| watcher.facts())
    }

    /// How handshakes ended, over all listeners; empty if TLS is off.
    pub(super) fn handshakes(&self) -> Vec<HandshakeFacts> {
        let counts = self.server.iter().map(|_| self.counts.read("listen"));
        counts.collect()
    }
}
