//! Listeners and routes, for display.
//!
//! They change only with the configuration, so a source makes them once and shares them.

use serde::{Deserialize, Serialize};

/// A listener of the configuration in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListenerFacts {
    /// Its name in routes and in the log.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Its ALPN protocols over TLS, preferred first; empty without TLS.
    pub tls: Vec<String>,
    /// Whether a client needs a certificate: `none`, `optional` or `required`.
    pub client_certificates: String,
    /// Each connection begins with a PROXY header.
    pub proxy_protocol: bool,
}

/// A route of the configuration in force. The first route that matches a request applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteFacts {
    /// Names of listeners; empty: every one. This and the next three are conditions, all of which
    /// must hold.
    pub listeners: Vec<String>,
    /// Hosts, such as `example.com` and `*.example.com`; empty: every host.
    pub hosts: Vec<String>,
    /// A path, or a prefix such as `/api/*`; `None`: every path.
    pub path: Option<String>,
    /// Methods, and header fields as `header NAME`; empty: every request.
    pub only: Vec<String>,
    /// The services that share its requests, each with its weight; empty if it needs no service.
    pub services: Vec<RouteService>,
    /// Its other actions: `redirect 308`, `respond 200`, `copies to canary`.
    pub also: Option<String>,
}

/// A service of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteService {
    /// Its name.
    pub name: String,
    /// Its weight relative to the route's other services.
    pub weight: u16,
}
