//! From one configuration to another while requests run, all of it or nothing.
//!
//! Whatever can fail comes first, and changes nothing: sockets are bound, sources of fleets are
//! opened, workers make new services. Then every worker takes the new routes, services and
//! listeners between two requests. A service whose settings are as they were stays, with all that
//! its policy has learned, and so do its replicas. Requests that run keep what they began with.

use super::same_listeners::same_listeners;
use super::sources::{Opened, Sources, wait_for_fleets};
use super::status::ServiceParts;
use super::tls::Tls;
use super::worker::{Command, ListenerPlan, Plan, ServicePlan, forwards_certificates};
use super::{Listener, OpenedAnew, Proxy, ServiceSource, next_number, numbered, parts};
use crate::forward::forwards_ends;
use crate::health::Health;
use crate::service::orders::Orders;
use crate::service::{ServiceUpdates, ServiceView};
use slackwater_config::Fault;
use slackwater_config::{
    AdminSettings, Config, DiscoverySettings, FleetSource, ListenerConfig, ServiceConfig,
    TracingSettings,
};
use slackwater_discovery::{Discovery, Fleet};
use std::sync::Arc;
use tokio::sync::{oneshot, watch};

/// What has changed, in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reloaded {
    /// Settings that did not change because that takes a restart.
    pub need_restart: Vec<&'static str>,
    /// Services that began anew, or for the first time.
    pub services_started: Vec<String>,
    /// How many services went on.
    pub services_kept: usize,
    /// Services that are no more.
    pub services_ended: Vec<String>,
    /// Listeners that take connections now.
    pub listeners_opened: Vec<String>,
    /// Listeners that take no more.
    pub listeners_closed: Vec<String>,
}

/// Where a service of the new configuration has its fleets from.
enum Feed {
    /// As before.
    Same(Arc<Discovery>),
    /// From somewhere else, or by other rules, from the moment on at which the configuration is
    /// taken. Until then they are those of before.
    Changed(Box<Opened>, watch::Sender<Arc<Fleet>>),
}

impl Feed {
    fn fleets(&self) -> watch::Receiver<Arc<Fleet>> {
        match self {
            Self::Same(discovery) => discovery.fleets().subscribe(),
            Self::Changed(_, fleets) => fleets.subscribe(),
        }
    }
}

/// A service of the new configuration.
struct NewService {
    feed: Feed,
    health: watch::Receiver<Health>,
    /// What is wanted of its replicas, which outlives its settings.
    orders: watch::Sender<Arc<Orders>>,
    /// Its place in the configuration before, where it stays.
    kept: Option<usize>,
}

/// A listener of the new configuration.
enum NewListener {
    /// Its place among the open ones.
    Kept(usize),
    /// In place of that one, with its sockets.
    Anew(usize, Listener),
    Opened(Listener),
}

impl Proxy {
    /// Goes over to another configuration and counts that, as when it was read again.
    ///
    /// # Errors
    ///
    /// As [`reload`](Self::reload).
    pub async fn change(&mut self, next: Config) -> Result<(), Fault> {
        let reloaded = self.reload(next).await;
        let failure = reloaded.as_ref().err().map(ToString::to_string);
        self.status.count_reload(failure);
        reloaded.map(|_| ())
    }

    /// Goes over to another configuration.
    ///
    /// # Errors
    ///
    /// Something that it needs cannot be had; then nothing has changed. Dropped before its end, it
    /// has changed nothing either.
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

        // From here on nothing fails and nothing is waited for.
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
                Feed::Changed(opened, fleets) => Arc::new(opened.follow(settings, fleets)),
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
        Ok(reloaded)
    }

    /// What going over to another configuration would mean, as far as that can be said without
    /// doing it.
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

    /// Whether a service goes on with all that its policy has learned.
    fn stays(&self, old: &ServiceParts, new: &ServiceConfig, next: &Config) -> bool {
        works_alike(&old.config, new) && self.config.limits == next.limits
    }

    /// New services have heard of their fleets when this is over, or have waited for it in vain.
    async fn new_services(
        &mut self,
        next: &Config,
        before: &[ServiceParts],
        tls: &Tls,
    ) -> Result<Vec<NewService>, Fault> {
        let asks_alike =
            self.config.dns == next.dns && self.config.own_addresses() == next.own_addresses();
        let mut sources = Sources::new(next);
        let mut services = Vec::with_capacity(next.services.len());
        let mut to_hear = Vec::new();
        for (at, service) in next.services.iter().enumerate() {
            let old = before
                .iter()
                .position(|old| old.config.name == service.name);
            let Some((place, old)) = old.and_then(|place| Some((place, before.get(place)?))) else {
                let opened = sources.open(service)?;
                let discovery = Arc::new(opened.follow(service, watch::Sender::default()));
                to_hear.push(Arc::clone(&discovery));
                services.push(NewService {
                    health: self.check(service, &discovery, tls.client(at))?,
                    feed: Feed::Same(discovery),
                    orders: watch::Sender::default(),
                    kept: None,
                });
                continue;
            };
            let feed = if asks_alike && has_same_source(&old.config, service) {
                Feed::Same(Arc::clone(&old.discovery))
            } else {
                Feed::Changed(
                    Box::new(sources.open(service)?),
                    old.discovery.fleets().clone(),
                )
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

    /// Lets each worker make ready; what each has of every service then.
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
                        self.listeners.close(before);
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
            self.listeners.close(gone);
        }
    }
}

/// The names of services that another configuration does not have.
fn ended(before: &[ServiceParts], next: &Config) -> Vec<String> {
    let names = before.iter().map(|service| &service.config.name);
    let ended = names.filter(|name| next.services.iter().all(|service| service.name != **name));
    ended.cloned().collect()
}

/// Tells workers to forget what they have prepared, unless it is itself forgotten.
struct Abandon<'r>(&'r Proxy);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        for commands in &self.0.commands {
            let _ = commands.send(Command::Abandon);
        }
    }
}

/// Puts what cannot change while the process runs back to what it is; the names of what that is
/// about.
fn hold_fixed(now: &Config, next: &mut Config) -> Vec<&'static str> {
    let admin = AdminSettings {
        token: next.admin.token.clone(),
        ..now.admin.clone()
    };
    // Which requests are traced may change, who hears of them may not.
    let tracing = TracingSettings {
        sample: next.tracing.sample,
        parent: next.tracing.parent,
        ..now.tracing.clone()
    };
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

/// Puts a value back; its name if it was another one.
fn hold<T: Clone + PartialEq>(next: &mut T, now: &T, name: &'static str) -> Option<&'static str> {
    let is_other = next != now;
    next.clone_from(now);
    is_other.then_some(name)
}

/// Whether a service's fleet comes from where it came from, and is believed as it was. A list is
/// new each time: whether it is the same one its followers see.
fn has_same_source(old: &ServiceConfig, new: &ServiceConfig) -> bool {
    let rules = |settings: &DiscoverySettings| DiscoverySettings {
        warm_up: core::time::Duration::ZERO,
        ..settings.clone()
    };
    new.discovery.source != FleetSource::List
        && rules(&old.discovery) == rules(&new.discovery)
        && old.probe.port == new.probe.port
        && old.replica.tls == new.replica.tls
}

/// Whether a service is, but for its fleet, what it was.
fn works_alike(old: &ServiceConfig, new: &ServiceConfig) -> bool {
    let mut with_new_fleet = old.clone();
    with_new_fleet.replicas.clone_from(&new.replicas);
    with_new_fleet.discovery = new.discovery.clone();
    // Part of the addresses that probes go to, which the fleet has.
    with_new_fleet.probe.port = new.probe.port;
    // Clients' own.
    with_new_fleet.timeouts.head = new.timeouts.head;
    with_new_fleet.timeouts.drain = new.timeouts.drain;
    with_new_fleet.timeouts.drain_idle = new.timeouts.drain_idle;
    with_new_fleet.timeouts.handshake = new.timeouts.handshake;
    with_new_fleet == *new
}

/// Whether a service's replicas are checked as they were: what has been found out about them still
/// holds.
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
    fn each_key_that_the_tables_call_fixed_is_held_and_named() {
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
    fn a_key_that_the_tables_do_not_call_fixed_is_not_held() {
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
