//! The TLS state of each listener and of the connections to each service's replicas.

use super::same_listeners::same_listeners;
use crate::tls::{HandshakeCounts, Handshakes, Secrets, Turn, Watcher};
use slackwater_config::Fault;
use slackwater_config::tls::{Client, Server};
use slackwater_config::{Config, ListenerConfig, ServiceConfig};
use slackwater_telemetry::facts::{CertificateFacts, HandshakeFacts};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::watch;

/// TLS state in the order of the configuration; `None` without TLS. All workers share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tls {
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

/// The TLS state that takes effect with another configuration.
#[derive(Debug)]
pub(crate) struct NextTls {
    pub(crate) tls: Tls,
    /// Changes of the followed files.
    turn: Turn,
}

impl NextTls {
    /// Follows the files from now on. Returns errors of files that have changed and cannot be used;
    /// the old ones stay in force.
    pub(crate) fn take(self) -> (Tls, Vec<String>) {
        let watcher = self.tls.watcher.as_ref();
        let flaws = watcher.map_or_else(Vec::new, |watcher| watcher.turn_to(self.turn));
        (self.tls, flaws)
    }
}

fn of_listener(config: &ListenerConfig) -> String {
    format!("listener {}", config.name)
}

fn of_service(config: &ServiceConfig) -> String {
    format!("service {}", config.name)
}

impl Tls {
    /// Reads the configured files, and follows them.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be used, or if the system cannot provide a thread.
    pub(crate) fn read(config: &Config) -> Result<Self, Fault> {
        let (tls, _) = Self::default().next(None, config)?.take();
        Ok(tls)
    }

    /// Makes the TLS state of `next`, where this is the state of `now`. A listener or service with
    /// unchanged settings keeps its state: its sessions can be resumed, and its connections
    /// continue. Only the files of the others are read.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be used, or if the system cannot provide a thread.
    pub(crate) fn next(&self, now: Option<&Config>, next: &Config) -> Result<NextTls, Fault> {
        let (old_listeners, old_services) =
            now.map_or_else(Default::default, |now| (&*now.listeners, &*now.services));
        let (mut secrets, mut kept) = (Secrets::default(), Vec::new());
        let mut listeners = Vec::with_capacity(next.listeners.len());
        let places = same_listeners(old_listeners, &next.listeners);
        for (listener, place) in next.listeners.iter().zip(places) {
            let Some(tls) = &listener.tls else {
                listeners.push(None);
                continue;
            };
            let old =
                place.and_then(|place| old_listeners.get(place).zip(self.listeners.get(place)));
            if let Some((old, Some(mine))) = old
                && old.tls.as_ref().is_some_and(|old| old.server == tls.server)
            {
                // Unchanged settings keep their state, including session keys, so that clients can
                // resume their sessions.
                kept.push((of_listener(old), of_listener(listener)));
                listeners.push(Some(mine.clone()));
                continue;
            }
            let server = secrets.follow_server(&tls.server, &of_listener(listener))?;
            let counts = Arc::default();
            listeners.push(Some(Listener { server, counts }));
        }
        let mut services = Vec::with_capacity(next.services.len());
        for service in &next.services {
            let Some(tls) = &service.replica.tls else {
                services.push(None);
                continue;
            };
            let mut old = old_services.iter().zip(&self.services);
            let old = old.find(|(old, _)| old.name == service.name);
            if let Some((old, Some(mine))) = old
                && old.replica.tls.as_ref() == Some(tls)
            {
                kept.push((of_service(old), of_service(service)));
                services.push(Some(mine.clone()));
                continue;
            }
            services.push(Some(secrets.follow_client(tls, &of_service(service))?));
        }
        let watcher = match &self.watcher {
            Some(watcher) => Some(Arc::clone(watcher)),
            None => secrets.new_watcher()?.map(Arc::new),
        };
        let new = secrets.into_followed();
        Ok(NextTls {
            tls: Self {
                listeners,
                services,
                watcher,
            },
            turn: Turn { kept, new },
        })
    }

    /// The certificates in force.
    pub(crate) fn certificates(&self) -> Vec<CertificateFacts> {
        let watcher = self.watcher.as_ref();
        watcher.map_or_else(Vec::new, |watcher| watcher.facts())
    }

    /// The handshake counts of each listener with TLS.
    pub(crate) fn handshakes(&self, config: &Config) -> Vec<HandshakeFacts> {
        let listeners = config.listeners.iter().zip(&self.listeners);
        listeners
            .filter_map(|(config, listener)| Some(listener.as_ref()?.counts.read(&config.name)))
            .collect()
    }

    /// Makes a worker's handshakes at the listener at `place`; `None` if connections are plain.
    pub(crate) fn listener_handshakes(
        &self,
        config: &ListenerConfig,
        place: usize,
    ) -> Option<Rc<Handshakes>> {
        handshakes(config, self.listeners.get(place)?.as_ref())
    }

    /// The TLS client of the service at `place`.
    pub(crate) fn client(&self, place: usize) -> Option<watch::Receiver<Client>> {
        self.services.get(place)?.clone()
    }
}

/// Makes a worker's handshakes at one listener.
fn handshakes(config: &ListenerConfig, listener: Option<&Listener>) -> Option<Rc<Handshakes>> {
    let (tls, listener) = config.tls.as_ref().zip(listener)?;
    Some(Rc::new(Handshakes::new(
        listener.server.clone(),
        tls.handshakes_max as usize,
        tls.pass_client_certificate,
        Arc::clone(&listener.counts),
    )))
}
