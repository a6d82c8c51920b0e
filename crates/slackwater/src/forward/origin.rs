//! Where a connection comes from and leads to: made once for each, read by each of its requests.

use super::counts::Count;
use super::forwarded;
use crate::config::{Config, ForwardedSettings, Limits, Network};
use core::net::{IpAddr, SocketAddr};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue};
use std::rc::Rc;
use std::sync::Arc;

/// What holds for all clients of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(super) forwarded: ForwardedSettings,
    /// Fields of a request's head, at most.
    pub(super) head_fields_max: usize,
    /// For each listener, in the order of the configuration, from where connections with a PROXY header may come. `None`,
    /// and beyond the end: they have none.
    proxied: Vec<Option<Vec<Network>>>,
    /// Connections closed for want of such a header.
    pub(super) proxy_headers_refused: Arc<Count>,
}

impl Rules {
    /// As configured.
    pub(crate) fn new(forwarded: &ForwardedSettings, limits: &Limits) -> Rc<Self> {
        Rc::new(Self {
            forwarded: forwarded.clone(),
            head_fields_max: limits.head_fields_max as usize,
            proxied: Vec::new(),
            proxy_headers_refused: Arc::default(),
        })
    }

    /// As configured for `serve`; `refused` counts connections closed for want of a PROXY header.
    pub(crate) fn of_config(config: &Config, refused: &Arc<Count>) -> Rc<Self> {
        let listeners = config.listeners.iter();
        Rc::new(Self {
            forwarded: config.forwarded.clone(),
            head_fields_max: config.limits.head_fields_max as usize,
            proxied: listeners.map(|it| it.proxy_protocol.clone()).collect(),
            proxy_headers_refused: Arc::clone(refused),
        })
    }

    /// Whether an address is that of a proxy whose word counts.
    pub(super) fn trusts(&self, address: IpAddr) -> bool {
        self.forwarded.trust.iter().any(|net| net.contains(address))
    }
}

/// Whom a connection's requests come from, and where to.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(super) rules: Rc<Rules>,
    /// Who is at the other end.
    pub(super) peer: IpAddr,
    /// Whether its word on who is behind it counts.
    pub(super) is_trusted: bool,
    /// The peer, as `X-Forwarded-For` has it.
    pub(super) peer_field: HeaderValue,
    /// Whether the connection is encrypted.
    pub(super) is_tls: bool,
    /// The certificate that the peer has proved to be its own, as `Client-Cert` has it, where replicas are told.
    pub(super) certificate: Option<HeaderValue>,
    /// Stands in for the host that an HTTP/1.0 client may leave out.
    pub(crate) local: Authority,
    /// Which listener it came in by, in the order of the configuration.
    pub(crate) listener: usize,
}

impl Origin {
    /// Of a connection from `peer` to `local`, by way of a listener.
    pub(crate) fn new(
        rules: &Rc<Rules>,
        peer: SocketAddr,
        local: Authority,
        listener: usize,
    ) -> Self {
        let peer = peer.ip().to_canonical();
        Self {
            is_trusted: rules.trusts(peer),
            rules: Rc::clone(rules),
            peer,
            peer_field: forwarded::address_field(peer),
            is_tls: false,
            certificate: None,
            local,
            listener,
        }
    }

    /// Whom a request comes from, as far as proxies before us are trusted to say.
    pub(crate) fn client(&self, headers: &HeaderMap) -> IpAddr {
        forwarded::client(headers, self)
    }

    /// The address that it came in at.
    pub(crate) const fn local(&self) -> &Authority {
        &self.local
    }

    /// From where connections may come that have to begin with a PROXY header; `None` if this one has none.
    pub(super) fn proxied(&self) -> Option<&[Network]> {
        self.rules.proxied.get(self.listener)?.as_deref()
    }

    /// The same, for the client that a PROXY header told.
    pub(super) fn told(&self, peer: SocketAddr, local: SocketAddr) -> Self {
        // An address and a port are always an authority.
        let local = Authority::try_from(local.to_string()).unwrap_or_else(|_| self.local.clone());
        Self::new(&self.rules, peer, local, self.listener)
    }

    /// The scheme that the peer's requests came by.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}
