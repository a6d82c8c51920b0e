//! Where requests come in, and which way each takes: listeners and routes, in words.
//!
//! They change with the configuration alone, so a source makes them once and shares them.

use serde::{Deserialize, Serialize};

/// A listener, as the configuration in force has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListenerFacts {
    /// What routes and the log call it.
    pub name: String,
    /// Where it accepts connections.
    pub address: String,
    /// What it speaks over TLS, the preferred protocol first; empty where clients connect in plain.
    pub tls: Vec<String>,
    /// Whether a client needs a certificate: `none`, `optional` or `required`.
    pub client_certificates: String,
    /// Each connection begins with a PROXY header.
    pub proxy_protocol: bool,
}

/// A route, as the configuration in force has it. A request takes the first that matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteFacts {
    /// Names of listeners; empty: every one. This and the next three are conditions, all of which
    /// have to hold.
    pub listeners: Vec<String>,
    /// Hosts, such as `example.com` and `*.example.com`; empty: every host.
    pub hosts: Vec<String>,
    /// A path, or a prefix such as `/api/*`; `None`: every path.
    pub path: Option<String>,
    /// Methods, and header fields as `header NAME`; empty: every request.
    pub only: Vec<String>,
    /// The services that share its requests, each with its weight; empty where it answers
    /// by itself.
    pub services: Vec<RouteService>,
    /// What else becomes of a request, in words: `redirect 308`, `respond 200`, `copies to canary`.
    pub also: Option<String>,
}

/// A service of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteService {
    /// Its name.
    pub name: String,
    /// Its weight beside those of the route's other services.
    pub weight: u16,
}
