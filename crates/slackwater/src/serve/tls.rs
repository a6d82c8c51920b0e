//! What TLS is spoken by, at each listener and to each service's replicas.

use crate::config::{Config, ListenerConfig, ServiceConfig};
use crate::fault::Fault;
use crate::forward::Listening;
use crate::tls::{Client, Handshakes, Secrets, Server, Watcher};
use std::rc::Rc;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// In the order of the configuration; `None` where TLS is not spoken. The same for all workers.
#[derive(Clone, Debug)]
pub(super) struct Tls {
    listeners: Vec<Option<watch::Receiver<Server>>>,
    services: Vec<Option<watch::Receiver<Client>>>,
}

impl Tls {
    /// Reads what is configured, and follows its files as long as the watcher is there; there is none if there are no
    /// files.
    ///
    /// # Errors
    ///
    /// A file that cannot be used; the system gives no thread.
    pub(super) fn read(config: &Config) -> Result<(Self, Option<Watcher>), Fault> {
        let mut secrets = Secrets::default();
        let mut of_listener = |listener: &ListenerConfig| {
            let purpose = format!("listener {}", listener.name);
            (listener.tls.as_ref())
                .map(|tls| secrets.follow_server(&tls.server, &purpose))
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
        let tls = Self {
            listeners,
            services,
        };
        Ok((tls, secrets.watch()?))
    }

    /// A worker's listeners, in the order of the configuration.
    pub(super) fn listening(&self, config: &Config, listeners: Vec<TcpListener>) -> Vec<Listening> {
        let settings = config.listeners.iter().zip(&self.listeners);
        let listening = |(listener, (config, server)): (TcpListener, _)| Listening {
            listener,
            handshakes: handshakes(config, server),
        };
        listeners.into_iter().zip(settings).map(listening).collect()
    }

    /// What the service at `place` speaks to its replicas by.
    pub(super) fn client(&self, place: usize) -> Option<watch::Receiver<Client>> {
        self.services.get(place)?.clone()
    }
}

/// A worker's handshakes at one listener.
fn handshakes(
    config: &ListenerConfig,
    server: &Option<watch::Receiver<Server>>,
) -> Option<Rc<Handshakes>> {
    let (tls, server) = config.tls.as_ref().zip(server.as_ref())?;
    Some(Rc::new(Handshakes::new(
        server.clone(),
        tls.handshakes_max as usize,
        tls.pass_client_certificate,
        Arc::default(),
    )))
}
