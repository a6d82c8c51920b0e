//! What TLS is spoken by, at each listener and to each service's replicas.

use crate::admin::{CertificateFacts, HandshakeFacts};
use crate::config::{Config, ListenerConfig, ServiceConfig};
use crate::fault::Fault;
use crate::tls::{Client, HandshakeCounts, Handshakes, Secrets, Server, Watcher};
use std::rc::Rc;
use std::sync::Arc;
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
    /// Reads what is configured, and follows its files. What is configured as it was stays what it is, sessions and counts
    /// included: a listener by its address, a service by its name.
    ///
    /// # Errors
    ///
    /// A file that cannot be used; the system gives no thread.
    pub(super) fn read(config: &Config, before: Option<(&Config, &Self)>) -> Result<Self, Fault> {
        let mut secrets = Secrets::default();
        let listener_before = |listener: &ListenerConfig| {
            let (config, tls) = before?;
            let is_same =
                |old: &ListenerConfig| old.address == listener.address && old.tls == listener.tls;
            tls.listeners
                .get(config.listeners.iter().position(is_same)?)?
                .clone()
        };
        let service_before = |service: &ServiceConfig| {
            let (config, tls) = before?;
            let is_same = |old: &ServiceConfig| {
                old.name == service.name && old.replica.tls == service.replica.tls
            };
            tls.services
                .get(config.services.iter().position(is_same)?)?
                .clone()
        };
        let mut of_listener = |listener: &ListenerConfig| {
            if let Some(kept) = listener_before(listener) {
                return Ok(Some(kept));
            }
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
            if let Some(kept) = service_before(service) {
                return Ok(Some(kept));
            }
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
            watcher: secrets.watch(before.and_then(|(_, tls)| tls.watcher.as_ref()))?,
        })
    }

    /// Looks at all files now. Says what is wrong with those that changed and cannot be used; the old ones stay in force.
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

    /// A worker's handshakes at the listener at `place`; `None`: connections are plain.
    pub(super) fn listener_handshakes(
        &self,
        config: &ListenerConfig,
        place: usize,
    ) -> Option<Rc<Handshakes>> {
        handshakes(config, self.listeners.get(place)?.as_ref())
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
