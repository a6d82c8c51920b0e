//! Reload: changes the configuration while requests run, entirely or not at all.
//!
//! All steps that can fail come first and change nothing: sockets are bound, sources of fleets are
//! opened, workers make new services. Then every worker switches to the new routes, services and
//! listeners between two requests. A service with unchanged settings is kept, with everything that
//! its policy has learned, and so are its replicas. Requests in flight keep the configuration that
//! they started with.

use super::same_listeners::same_listeners;
use super::sources::{Opened, Sources, wait_for_fleets};
use super::status::ServiceParts;
use super::tls::Tls;
use super::worker::{Command, ListenerPlan, Plan, ServicePlan, forwards_certificates};
use super::{Listener, OpenedAnew, Phase, Proxy, ServiceSource, next_number, numbered, parts};
use crate::forward::forwards_ends;
use crate::health::Health;
use crate::service::orders::Orders;
use crate::service::{ServiceUpdates, ServiceView};
use slackwater_config::Fault;
use slackwater_config::{
    AdminSettings, Config, DiscoverySettings, FleetSource, ListenerConfig, ServiceConfig,
};
use slackwater_discovery::{Discovery, Fleet};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// Result of a reload, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Changed settings that need a restart, and stay as they were.
    pub need_restart: Vec<&'static str>,
    /// Services that were started, new or because their settings changed.
    pub services_started: Vec<String>,
    /// Number of services that were kept.
    pub services_kept: usize,
    /// Services that were removed.
    pub services_ended: Vec<String>,
    /// Listeners that were opened.
    pub listeners_opened: Vec<String>,
    /// Listeners that were closed.
    pub listeners_closed: Vec<String>,
}

/// Source of fleets of a service in the new configuration.
enum Feed {
    /// Unchanged.
    Same(Arc<Discovery>),
    /// Another source, or other rules, in place of the one before from the moment when the
    /// configuration takes effect.
    Changed(Box<Opened>, Arc<Discovery>),
}

impl Feed {
    fn fleets(&self) -> watch::Receiver<Arc<Fleet>> {
        let (Self::Same(discovery) | Self::Changed(_, discovery)) = self;
        discovery.fleets().subscribe()
    }
}

/// A service of the new configuration.
struct NewService {
    feed: Feed,
    health: watch::Receiver<Health>,
    /// The orders for its replicas, which outlive its settings.
    orders: watch::Sender<Arc<Orders>>,
    /// Its index in the previous configuration, if it is kept.
    kept: Option<usize>,
}

/// A listener of the new configuration.
enum NewListener {
    /// Kept; the index among the open listeners.
    Kept(usize),
    /// Replaces the listener at this index, with its sockets.
    Anew(usize, Listener),
    Opened(Listener),
}

impl Proxy {
    /// Changes the configuration, and counts that as a reload.
    ///
    /// # Errors
    ///
    /// Fails like [`reload`](Self::reload).
    pub async fn change(&mut self, next: Config) -> Result<(), Fault> {
        let reloaded = self.reload(next).await;
        let failure = reloaded.as_ref().err().map(ToString::to_string);
        self.status.count_reload(failure);
        reloaded.map(|_| ())
    }

    /// Changes the configuration.
    ///
    /// # Errors
    ///
    /// Fails if a needed resource is not available; then nothing has changed. Nothing has changed
    /// either if the future is dropped before its end.
    pub async fn reload(&mut self, mut next: Config) -> Result<Reloaded, Fault> {
        let mut reloaded = Reloaded {
            need_restart: hold_fixed(&self.config, &mut next),
            ..Reloaded::default()
        };
        let next = Arc::new(next);
        let next_tls = self.tls.next(Some(&self.config), &next)?;
        let tls = &next_tls.tls;
        let before = self.status.services();
        let services = self.new_services(&next, &before, tls).await?;
        let listeners = self.new_listeners(&next)?;
        let views = self.prepare(&next, tls, &services, &listeners).await?;

        // From here on no step can fail or wait.
        for commands in &self.commands {
            let _ = commands.send(Command::Commit);
        }
        let mut sources = Vec::with_capacity(services.len());
        for (service, settings) in services.into_iter().zip(&next.services) {
            let kept = service.kept.and_then(|place| before.get(place));
            if kept.is_some() {
                reloaded.services_kept += 1;
            } else {
                reloaded.services_started.push(settings.name.clone());
            }
            let discovery = match service.feed {
                Feed::Same(discovery) => discovery,
                Feed::Changed(opened, old) => Arc::new(opened.follow(settings, Some(&old))),
            };
            sources.push(ServiceSource {
                number: kept.map_or_else(next_number, |kept| kept.number),
                discovery,
                health: service.health,
                orders: service.orders,
            });
        }
        reloaded.services_ended = ended(&before, &next);
        self.status.set_services(parts(&next, sources, &views));
        self.change_listeners(listeners, &next, &mut reloaded);
        let (tls, flaws) = next_tls.take();
        for flaw in flaws {
            tracing::warn!("{flaw}");
        }
        self.status.set_tls(&tls, &next);
        self.tls = tls;
        self.config = next;
        self.serve_when_found();
        Ok(reloaded)
    }

    /// Returns what a reload would change, as far as that can be determined without doing it.
    pub fn would_change(&self, next: &Config) -> Reloaded {
        let mut config = next.clone();
        let before = self.status.services();
        let mut reloaded = Reloaded {
            need_restart: hold_fixed(&self.config, &mut config),
            ..Reloaded::default()
        };
        for service in &config.services {
            let old = before.iter().find(|old| old.config.name == service.name);
            if old.is_some_and(|old| self.stays(old, service, &config)) {
                reloaded.services_kept += 1;
            } else {
                reloaded.services_started.push(service.name.clone());
            }
        }
        reloaded.services_ended = ended(&before, &config);
        let places = same_listeners(&self.config.listeners, &config.listeners);
        for (listener, place) in config.listeners.iter().zip(&places) {
            if place.is_none() {
                reloaded.listeners_opened.push(listener.address.to_string());
            }
        }
        for (place, listener) in self.listeners.open.iter().enumerate() {
            if !places.contains(&Some(place)) {
                reloaded.listeners_closed.push(listener.address.to_string());
            }
        }
        reloaded
    }

    /// Whether a service is kept, with everything that its policy has learned.
    fn stays(&self, old: &ServiceParts, new: &ServiceConfig, next: &Config) -> bool {
        works_alike(&old.config, new) && self.config.limits == next.limits
    }

    /// Makes the services of the new configuration. When this returns, the new ones have received
    /// their first fleet, or the wait for it has timed out.
    async fn new_services(
        &mut self,
        next: &Config,
        before: &[ServiceParts],
        tls: &Tls,
    ) -> Result<Vec<NewService>, Fault> {
        let asks_alike =
            self.config.dns == next.dns && self.config.own_addresses() == next.own_addresses();
        let is_same_plane = self.config.xds == next.xds;
        let followed = before.iter().map(|old| &*old.discovery);
        let mut sources = Sources::at_reload(next, followed);
        let mut services = Vec::with_capacity(next.services.len());
        let mut to_hear = Vec::new();
        for (at, service) in next.services.iter().enumerate() {
            let old = before
                .iter()
                .position(|old| old.config.name == service.name);
            let Some((place, old)) = old.and_then(|place| Some((place, before.get(place)?))) else {
                let opened = sources.open(service).await?;
                let discovery = Arc::new(opened.follow(service, None));
                // A new service waits for its first fleet, so that its first requests find
                // replicas.
                to_hear.push(Arc::clone(&discovery));
                services.push(NewService {
                    health: self.check(service, &discovery, tls.client(at))?,
                    feed: Feed::Same(discovery),
                    orders: watch::Sender::default(),
                    kept: None,
                });
                continue;
            };
            let is_moved =
                matches!(service.discovery.source, FleetSource::Xds(_)) && !is_same_plane;
            let may_stay = asks_alike && !is_moved && has_same_source(&old.config, service);
            let feed = if may_stay && !is_of_cluster(service) {
                Feed::Same(Arc::clone(&old.discovery))
            } else {
                // A cluster's credentials are in other files: they are read, and compared with all
                // else that a source of pods is made from.
                let opened = sources.open(service).await?;
                if may_stay && opened.is_followed_by(&old.discovery) {
                    Feed::Same(Arc::clone(&old.discovery))
                } else {
                    Feed::Changed(Box::new(opened), Arc::clone(&old.discovery))
                }
            };
            let stays = self.stays(old, service, next);
            let health = if checks_alike(&old.config, service) {
                old.health.clone()
            } else {
                self.check(service, &old.discovery, tls.client(at))?
            };
            services.push(NewService {
                feed,
                health,
                orders: old.orders.clone(),
                kept: stays.then_some(place),
            });
        }
        wait_for_fleets(&to_hear).await;
        Ok(services)
    }

    fn new_listeners(&mut self, next: &Config) -> Result<Vec<NewListener>, Fault> {
        let takes_alike = self.config.limits == next.limits
            && self.config.forwarded == next.forwarded
            && self.config.timeouts == next.timeouts
            && forwards_certificates(&self.config) == forwards_certificates(next)
            && forwards_ends(&self.config) == forwards_ends(next)
            && self.config.upgrade_protocols == next.upgrade_protocols;
        let is_alike = |old: &ListenerConfig, new: &ListenerConfig| {
            let renamed = ListenerConfig {
                name: new.name.clone(),
                ..old.clone()
            };
            takes_alike && renamed == *new
        };
        let mut listeners = Vec::with_capacity(next.listeners.len());
        let places = same_listeners(&self.config.listeners, &next.listeners);
        for (listener, old) in next.listeners.iter().zip(places) {
            let open = &self.listeners.open;
            listeners.push(
                match old.and_then(|place| Some((place, open.get(place)?))) {
                    None => NewListener::Opened(self.listeners.open(listener, &mut OpenedAnew)?),
                    Some((place, old)) if is_alike(&old.config, listener) => {
                        NewListener::Kept(place)
                    }
                    Some((place, _)) => {
                        NewListener::Anew(place, self.listeners.open_anew(place, listener)?)
                    }
                },
            );
        }
        Ok(listeners)
    }

    /// Lets each worker prepare, and returns each worker's views of all services.
    async fn prepare(
        &self,
        next: &Arc<Config>,
        tls: &Tls,
        services: &[NewService],
        listeners: &[NewListener],
    ) -> Result<Vec<Vec<ServiceView>>, Fault> {
        let open = &self.listeners.open;
        let in_order: Option<Vec<_>> = listeners
            .iter()
            .map(|listener| match listener {
                NewListener::Kept(place) => open.get(*place),
                NewListener::Anew(_, listener) | NewListener::Opened(listener) => Some(listener),
            })
            .collect();
        let in_order = in_order.ok_or_else(|| Fault::runtime("a listener is lost"))?;
        let routes = numbered(&next.routes, in_order.iter().copied());
        let mut answers = Vec::with_capacity(self.commands.len());
        // If a later worker fails, dropping this makes all of them discard what they have prepared.
        let abandon = Abandon(self);
        for (worker, commands) in self.commands.iter().enumerate() {
            let worker_listener =
                |(place, (listener, plan)): (usize, (&&Listener, &NewListener))| match plan {
                    NewListener::Kept(_) => Ok(ListenerPlan::Keep(listener.number)),
                    NewListener::Anew(..) | NewListener::Opened(_) => listener
                        .worker_listener(worker, place)
                        .map(Box::new)
                        .map(ListenerPlan::Open),
                };
            let service = |service: &NewService| match service.kept {
                Some(place) => ServicePlan::Keep(place),
                None => ServicePlan::Start(ServiceUpdates {
                    fleets: service.feed.fleets(),
                    health: service.health.clone(),
                    orders: service.orders.subscribe(),
                }),
            };
            let plan = Plan {
                config: Arc::clone(next),
                tls: tls.clone(),
                routes: routes.clone(),
                services: services.iter().map(service).collect(),
                listeners: in_order
                    .iter()
                    .zip(listeners)
                    .enumerate()
                    .map(worker_listener)
                    .collect::<Result<_, _>>()?,
            };
            let (told, answer) = oneshot::channel();
            let _ = commands.send(Command::Prepare(Box::new(plan), told));
            answers.push(answer);
        }
        // All workers prepare concurrently; the results are awaited afterwards.
        let mut views = Vec::with_capacity(answers.len());
        for answer in answers {
            views.push(
                answer
                    .await
                    .map_err(|_| Fault::runtime("a worker has ended"))??,
            );
        }
        core::mem::forget(abandon);
        Ok(views)
    }

    fn change_listeners(
        &mut self,
        listeners: Vec<NewListener>,
        next: &Config,
        reloaded: &mut Reloaded,
    ) {
        let old = core::mem::take(&mut self.listeners.open);
        let mut old: Vec<_> = old.into_iter().map(Some).collect();
        for (listener, config) in listeners.into_iter().zip(&next.listeners) {
            match listener {
                NewListener::Kept(place) => {
                    if let Some(mut kept) = old.get_mut(place).and_then(Option::take) {
                        kept.config = config.clone();
                        self.listeners.open.push(kept);
                    }
                }
                NewListener::Anew(place, listener) => {
                    if let Some(before) = old.get_mut(place).and_then(Option::take) {
                        self.listeners.close(before, Phase::Leaving);
                    }
                    self.listeners.open.push(listener);
                }
                NewListener::Opened(listener) => {
                    reloaded.listeners_opened.push(listener.address.to_string());
                    self.listeners.open.push(listener);
                }
            }
        }
        for gone in old.into_iter().flatten() {
            reloaded.listeners_closed.push(gone.address.to_string());
            self.listeners.close(gone, Phase::Draining);
        }
    }
}

/// Returns the names of services that the other configuration does not have.
fn ended(before: &[ServiceParts], next: &Config) -> Vec<String> {
    let names = before.iter().map(|service| &service.config.name);
    let ended = names.filter(|name| next.services.iter().all(|service| service.name != **name));
    ended.cloned().collect()
}

/// On drop, workers discard what they have prepared. Forgotten when the reload succeeds.
struct Abandon<'r>(&'r Proxy);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        for commands in &self.0.commands {
            let _ = commands.send(Command::Abandon);
        }
    }
}

/// Resets all settings that cannot change while the process runs, and returns the names of those
/// that differed.
fn hold_fixed(now: &Config, next: &mut Config) -> Vec<&'static str> {
    let admin = AdminSettings {
        token: next.admin.token.clone(),
        ..now.admin.clone()
    };
    // The choice of traced requests may change; the collector may not. A configuration that names
    // none any more has no choice, only defaults.
    let mut tracing = now.tracing.clone();
    if now.tracing.endpoint.is_none() || next.tracing.endpoint.is_some() {
        tracing.sample = next.tracing.sample;
        tracing.parent = next.tracing.parent;
    }
    let connections_max = &mut next.limits.connections_max;
    [
        hold(&mut next.workers, &now.workers, "workers"),
        hold(
            connections_max,
            &now.limits.connections_max,
            "limits.connections_max",
        ),
        hold(&mut next.admin, &admin, "admin"),
        hold(&mut next.log, &now.log, "log"),
        hold(&mut next.access_log, &now.access_log, "access_log"),
        hold(&mut next.tracing, &tracing, "tracing"),
        hold(&mut next.decisions, &now.decisions, "decisions"),
        hold(&mut next.request_id, &now.request_id, "request_id"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Resets a value, and returns its name if it differed.
fn hold<T: Clone + PartialEq>(next: &mut T, now: &T, name: &'static str) -> Option<&'static str> {
    let is_other = next != now;
    next.clone_from(now);
    is_other.then_some(name)
}

const fn is_of_cluster(service: &ServiceConfig) -> bool {
    matches!(service.discovery.source, FleetSource::Kubernetes(_))
}

/// Whether the source of a service's fleet and the rules for it are unchanged in the configuration.
/// A list is always new; its followers detect whether it is the same.
fn has_same_source(old: &ServiceConfig, new: &ServiceConfig) -> bool {
    let rules = |settings: &DiscoverySettings| DiscoverySettings {
        warm_up: core::time::Duration::ZERO,
        ..settings.clone()
    };
    new.discovery.source != FleetSource::List
        && rules(&old.discovery) == rules(&new.discovery)
        && old.subset == new.subset
        && old.probe.port == new.probe.port
        && old.replica.tls == new.replica.tls
}

/// Whether a service is unchanged except for its fleet.
fn works_alike(old: &ServiceConfig, new: &ServiceConfig) -> bool {
    let mut with_new_fleet = old.clone();
    with_new_fleet.replicas.clone_from(&new.replicas);
    with_new_fleet.discovery = new.discovery.clone();
    with_new_fleet.subset = new.subset;
    // The port is part of the probe addresses, which belong to the fleet.
    with_new_fleet.probe.port = new.probe.port;
    // These timeouts concern clients only.
    with_new_fleet.timeouts.head = new.timeouts.head;
    with_new_fleet.timeouts.drain = new.timeouts.drain;
    with_new_fleet.timeouts.drain_idle = new.timeouts.drain_idle;
    with_new_fleet.timeouts.handshake = new.timeouts.handshake;
    with_new_fleet == *new
}

/// Whether the health checks of a service are unchanged, so that their results remain valid.
fn checks_alike(old: &ServiceConfig, new: &ServiceConfig) -> bool {
    old.health == new.health
        && old.replica.protocol == new.replica.protocol
        && old.replica.proxy_protocol == new.replica.proxy_protocol
        && old.replica.tls == new.replica.tls
}

#[cfg(test)]
mod tests {
    use super::*;
    use slackwater_config::restart_keys;

    fn config(text: &str) -> Config {
        let fleet = "listen = \"127.0.0.1:0\"\nreplicas = [\"127.0.0.1:1\"]\n";
        Config::of_text("test", format!("{fleet}{text}\n")).expect("valid")
    }

    #[test]
    fn reload_keeps_and_names_each_key_that_needs_a_restart() {
        let file = |name| {
            let fixtures = concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../slackwater/tests/fixtures/good"
            );
            format!("\"{fixtures}/{name}\"")
        };
        let collector = "tracing.endpoint = \"https://127.0.0.1:77\"\n";
        let other = |key: &str| match key {
            "workers" => "7".to_owned(),
            "limits.connections_max" | "admin.connections_max" | "decisions.capacity" => {
                "77".into()
            }
            "admin.metrics_replicas_max" => "77".to_owned(),
            "admin.listen" => "\"127.0.0.1:9977\"".to_owned(),
            "log.level" => "\"warn\"".to_owned(),
            "log.format" | "access_log.format" => "\"json\"".to_owned(),
            "access_log.to" => "\"stdout\"".to_owned(),
            "access_log.sample" | "decisions.sample" => "0.77".to_owned(),
            "access_log.always_slower_than" | "decisions.slower_than" | "tracing.timeout" => {
                "\"77ms\"".to_owned()
            }
            "access_log.query" | "decisions.failed" | "request_id.to_client" => "true".to_owned(),
            "request_id.accept" => "false".to_owned(),
            "request_id.header" | "decisions.header" => "\"x-seventh\"".to_owned(),
            "tracing.endpoint" => "\"https://127.0.0.1:78\"".to_owned(),
            "tracing.protocol" => "\"http\"".to_owned(),
            "tracing.service_name" => "\"seventh\"".to_owned(),
            "tracing.resource" => "{ a = \"7\" }".to_owned(),
            "tracing.ca" => file("tls.pem"),
            "tracing.certificate" => {
                format!("{}\ntracing.key = {}", file("tls.pem"), file("tls.key"))
            }
            "tracing.key" => format!(
                "{}\ntracing.certificate = {}",
                file("tls.key"),
                file("tls.pem")
            ),
            "tracing.headers_file" => file("collector.headers"),
            _ => panic!("{key}: no other value is known"),
        };
        let now = config(collector);
        for key in restart_keys() {
            let name = if key == "limits.connections_max" {
                key.as_str()
            } else {
                key.split('.').next().expect("a section")
            };
            let collector = if key == "tracing.endpoint" {
                ""
            } else {
                collector
            };
            let mut next = config(&format!("{collector}{key} = {}", other(&key)));
            assert_eq!(hold_fixed(&now, &mut next), [name], "{key}");
            assert_eq!(hold_fixed(&now, &mut next), [""; 0], "{key} is put back");
        }
    }

    #[test]
    fn choice_of_traced_requests_stays_with_a_collector_that_stays() {
        let collector = "tracing.endpoint = \"http://127.0.0.1:77\"\n";
        let chosen = "tracing.sample = 0.5\ntracing.parent = \"ignore\"\n";
        let now = config(&format!("{collector}{chosen}"));
        let mut held = config("");
        assert_eq!(hold_fixed(&now, &mut held), ["tracing"]);
        assert!(held.tracing == now.tracing);
    }

    #[test]
    fn reload_applies_keys_that_need_no_restart() {
        let now = config("");
        for text in [
            "tracing.sample = 0.5",
            "tracing.parent = \"ignore\"",
            "limits.streams_max = 7",
        ] {
            let next = config(text);
            let mut held = next.clone();
            assert_eq!(hold_fixed(&now, &mut held), [""; 0], "{text}");
            assert!(
                held.tracing == next.tracing && held.limits == next.limits,
                "{text}"
            );
        }
    }
}
