//! What TLS is spoken by, at each listener and to each service's replicas.

use crate::admin::{CertificateFacts, HandshakeFacts};
use crate::config::{Config, ListenerConfig, ServiceConfig};
use crate::fault::Fault;
use crate::forward::Listening;
use crate::tls::{Client, HandshakeCounts, Handshakes, Secrets, Server, Watcher};
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// In the order of the configuration; `None` where TLS is not spoken. The same for all workers.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    listeners: Vec<Option<Listener>>,
    services: Vec<Option<watch::Receiver<Client>>>,
    /// Follows the files; `None` if there are none.
    watcher: Option<Arc<Watcher>>,
}

#[derive(Clone, Debug)]
struct Listener {
    server: watch::Receiver<Server>,
    counts: Arc<HandshakeCounts>,
}

impl Tls {
    /// Reads what is configured, and follows its files.
    ///
    /// # Errors
    ///
    /// A file that cannot be used; the system gives no thread.
    pub(super) fn read(config: &Config) -> Result<Self, Fault> {
        let mut secrets = Secrets::default();
        let mut of_listener = |listener: &ListenerConfig| {
            let purpose = format!("listener {}", listener.name);
            (listener.tls.as_ref())
                .map(|tls| secrets.follow_server(&tls.server, &purpose))
                .map(|server| {
                    let counts = Arc::default();
                    server.map(|server| Listener { server, counts })
                })
                .transpose()
        };
        let listeners = config.listeners.iter().map(&mut of_listener);
        let listeners = listeners.collect::<Result<_, _>>()?;
        let mut of_service = |service: &ServiceConfig| {
            let purpose = format!("service {}", service.name);
            (service.replica.tls.as_ref())
                .map(|tls| secrets.follow_client(tls, &purpose))
                .transpose()
        };
        let services = config.services.iter().map(&mut of_service);
        let services = services.collect::<Result<_, _>>()?;
        Ok(Self {
            listeners,
            services,
            watcher: secrets.watch()?.map(Arc::new),
        })
    }

    /// Looks at all files now. Says what is wrong with those that changed and cannot be used; the old ones stay in force.
    #[expect(dead_code, reason = "for a reload on demand")]
    pub(super) fn look_now(&self) -> Vec<String> {
        let watcher = self.watcher.as_ref();
        watcher.map_or_else(Vec::new, |watcher| watcher.look_now())
    }

    /// The certificates in force.
    pub(super) fn certificates(&self) -> Vec<CertificateFacts> {
        let watcher = self.watcher.as_ref();
        watcher.map_or_else(Vec::new, |watcher| watcher.facts())
    }

    /// How handshakes ended, at each listener that has any.
    pub(super) fn handshakes(&self, config: &Config) -> Vec<HandshakeFacts> {
        let listeners = config.listeners.iter().zip(&self.listeners);
        listeners
            .filter_map(|(config, listener)| Some(listener.as_ref()?.counts.read(&config.name)))
            .collect()
    }

    /// A worker's sockets, each with its listener's place in the configuration.
    pub(super) fn listening(
        &self,
        config: &Config,
        sockets: Vec<(usize, TcpListener)>,
    ) -> Vec<Listening> {
        let listening = |(index, listener): (usize, TcpListener)| {
            let tls = self.listeners.get(index).and_then(Option::as_ref);
            Listening {
                index,
                listener,
                handshakes: (config.listeners.get(index))
                    .and_then(|listener| handshakes(listener, tls)),
            }
        };
        sockets.into_iter().map(listening).collect()
    }

    /// What the service at `place` speaks to its replicas by.
    pub(super) fn client(&self, place: usize) -> Option<watch::Receiver<Client>> {
        self.services.get(place)?.clone()
    }
}

/// A worker's handshakes at one listener.
fn handshakes(config: &ListenerConfig, listener: Option<&Listener>) -> Option<Rc<Handshakes>> {
    let (tls, listener) = config.tls.as_ref().zip(listener)?;
    Some(Rc::new(Handshakes::new(
        listener.server.clone(),
        tls.handshakes_max as usize,
        tls.pass_client_certificate,
        Arc::clone(&listener.counts),
    )))
}
