//! Listeners and routes of a configuration as the admin server shows them.

use slackwater_config::Config;
use slackwater_config::routes::{Action, HostRule, Route};
use slackwater_telemetry::facts::{ListenerFacts, RouteFacts, RouteService};
use std::sync::Arc;

/// Listeners and routes, made once for each configuration.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) listeners: Arc<[ListenerFacts]>,
    pub(super) routes: Arc<[RouteFacts]>,
}

impl Entry {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            listeners: config.listeners.iter().map(listener).collect(),
            routes: (config.routes.iter()).map(|it| route(config, it)).collect(),
        }
    }
}

fn listener(config: &slackwater_config::ListenerConfig) -> ListenerFacts {
    let server = config.tls.as_ref().map(|tls| &tls.server);
    let clients = server.and_then(|server| server.clients.as_ref());
    ListenerFacts {
        name: config.name.clone(),
        address: config.address.to_string(),
        tls: (server.iter())
            .flat_map(|server| &server.protocols)
            .map(|protocol| protocol.as_str().to_owned())
            .collect(),
        client_certificates: match clients {
            None => "none",
            Some(clients) if clients.required => "required",
            Some(_) => "optional",
        }
        .to_owned(),
        proxy_protocol: config.proxy_protocol.is_some(),
    }
}

fn route(config: &Config, route: &Route) -> RouteFacts {
    let when = &route.when;
    let listeners = when.listeners.iter();
    let methods = when.methods.iter().map(ToString::to_string);
    // The value may be a secret, so only the name is shown.
    let headers = when.headers.iter();
    let headers = headers.map(|rule| format!("header {}", rule.name));
    let service = |place: usize| config.services.get(place).map(|it| it.name.clone());
    let (services, also) = match &route.then {
        Action::Forward(forward) => {
            let parts = forward.services.parts().iter();
            let parts = parts.filter_map(|&(place, weight)| {
                Some(RouteService {
                    name: service(place)?,
                    weight,
                })
            });
            let mirror = forward.mirror.as_ref();
            let mirror = mirror.and_then(|mirror| service(mirror.service));
            (
                parts.collect(),
                mirror.map(|name| format!("copies to {name}")),
            )
        }
        Action::Redirect(redirect) => {
            let status = redirect.status.as_u16();
            (Vec::new(), Some(format!("redirect {status}")))
        }
        Action::Respond(fixed) => {
            let status = fixed.status.as_u16();
            (Vec::new(), Some(format!("respond {status}")))
        }
    };
    RouteFacts {
        listeners: listeners
            .filter_map(|&place| Some(config.listeners.get(place)?.name.clone()))
            .collect(),
        hosts: when.hosts.iter().map(host).collect(),
        path: when.path.as_ref().map(ToString::to_string),
        only: methods.chain(headers).collect(),
        services,
        also,
    }
}

fn host(rule: &HostRule) -> String {
    match rule {
        HostRule::Exact(name) => name.clone(),
        HostRule::Below(name) => format!("*.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
[[listeners]]
name = "inside"
address = "127.0.0.1:8081"

[[listeners]]
name = "edge"
address = "127.0.0.1:8082"
proxy_protocol = "required"
proxy_protocol_trust = ["10.0.0.0/8"]

[services.web]
replicas = ["127.0.0.1:1"]

[services.canary]
replicas = ["127.0.0.1:2"]

[[routes]]
host = ["a.test", "*.b.test"]
path_prefix = "/api"
method = ["GET"]
headers = [{ name = "x-key", exact = "a secret" }]
listeners = ["edge"]
services = [{ name = "web", weight = 9 }, { name = "canary", weight = 1 }]

[[routes]]
path = "/old"
redirect = { to = "https://b.test/new", status = 308 }

[[routes]]
service = "web"
mirror = { service = "canary" }
"#;

    fn entry() -> Entry {
        Entry::of(&Config::of_text("test", TWO.to_owned()).expect("a valid configuration"))
    }

    #[test]
    fn a_listener_shows_its_address_and_protocols() {
        let listeners = entry().listeners;
        let names: Vec<_> = listeners
            .iter()
            .map(|it| (&*it.name, &*it.address))
            .collect();
        assert_eq!(
            names,
            [("inside", "127.0.0.1:8081"), ("edge", "127.0.0.1:8082")]
        );
        assert_eq!(
            (listeners[0].proxy_protocol, listeners[1].proxy_protocol),
            (false, true)
        );
        assert_eq!(
            (listeners[0].tls.len(), &*listeners[0].client_certificates),
            (0, "none")
        );
    }

    #[test]
    fn a_route_shows_its_conditions_and_services_without_header_values() {
        let routes = entry().routes;
        let weights = |route: &RouteFacts| -> Vec<_> {
            let services = route.services.iter();
            services.map(|it| (it.name.clone(), it.weight)).collect()
        };
        assert_eq!(routes[0].hosts, ["a.test", "*.b.test"]);
        assert_eq!(routes[0].path.as_deref(), Some("/api/*"));
        assert_eq!(routes[0].only, ["GET", "header x-key"]);
        assert_eq!(routes[0].listeners, ["edge"]);
        assert_eq!(
            weights(&routes[0]),
            [("web".to_owned(), 9), ("canary".to_owned(), 1)]
        );
        assert_eq!(routes[1].also.as_deref(), Some("redirect 308"));
        assert_eq!(routes[1].services, []);
        assert_eq!(routes[2].path, None);
        assert_eq!(routes[2].also.as_deref(), Some("copies to canary"));
    }
}
