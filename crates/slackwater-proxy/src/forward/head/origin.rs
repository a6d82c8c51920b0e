//! Where a connection comes from and leads to: made once for each, read by each of its requests.

use super::forwarded;
use crate::forward::counts::Count;
use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Request};
use slackwater_config::{Config, ForwardedSettings, Limits, ListenerConfig, Network};
use slackwater_http::proxy_protocol::Ends;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// What holds for all clients of a worker's listeners.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(crate) forwarded: ForwardedSettings,
    /// Fields of a request's head, at most.
    pub(crate) head_fields_max: usize,
    /// From where connections with a PROXY header may come. `None`: they have none.
    proxied: Option<Vec<Network>>,
    /// Connections closed for want of such a header.
    pub(crate) proxy_headers_refused: Arc<Count>,
    /// Whether some service tells its replicas where clients' connections come from.
    forwards_ends: bool,
}

/// Whether any service tells its replicas where clients' connections come from.
pub(crate) fn forwards_ends(config: &Config) -> bool {
    let mut services = config.services.iter();
    services.any(|service| service.replica.proxy_protocol.is_some())
}

impl Rules {
    /// As configured.
    pub fn new(forwarded: &ForwardedSettings, limits: &Limits) -> Rc<Self> {
        Rc::new(Self {
            forwarded: forwarded.clone(),
            head_fields_max: limits.head_fields_max as usize,
            proxied: None,
            proxy_headers_refused: Arc::default(),
            forwards_ends: false,
        })
    }

    /// As configured for a listener of `serve`; `refused` counts connections closed for want of a
    /// PROXY header.
    pub(crate) fn of_listener(
        config: &Config,
        listener: &ListenerConfig,
        refused: &Arc<Count>,
    ) -> Rc<Self> {
        Rc::new(Self {
            forwarded: config.forwarded.clone(),
            head_fields_max: config.limits.head_fields_max as usize,
            proxied: listener.proxy_protocol.clone(),
            proxy_headers_refused: Arc::clone(refused),
            forwards_ends: forwards_ends(config),
        })
    }

    /// Whether an address is that of a proxy whose word counts.
    pub(super) fn trusts(&self, address: IpAddr) -> bool {
        self.forwarded.trust.iter().any(|net| net.contains(address))
    }
}

/// Why we ended a client's connection that had requests on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cut {
    /// We did not; the client may have.
    #[default]
    Not,
    /// The time to finish was over, or the client took too many requests back.
    Off,
    /// The client took nothing for too long.
    ClientStalled,
}

/// Whom a connection's requests come from, and where to.
#[derive(Clone, Debug)]
pub struct Origin {
    pub(crate) rules: Rc<Rules>,
    /// Who is at the other end.
    pub(crate) peer: IpAddr,
    /// Whether its word on who is behind it counts.
    pub(crate) is_trusted: bool,
    /// The peer, as `X-Forwarded-For` has it.
    pub(super) peer_field: HeaderValue,
    /// Whether the connection is encrypted.
    pub(crate) is_tls: bool,
    /// The certificate that the peer has proved to be its own, as `Client-Cert` has it, where
    /// replicas are told.
    pub(crate) certificate: Option<HeaderValue>,
    /// Stands in for the host that an HTTP/1.0 client may leave out.
    pub(crate) local: Authority,
    /// Which listener it came in by: its number, for routes.
    pub(crate) listener: usize,
    /// The client's connection, where a service tells replicas of it.
    ends: Option<Arc<Ends>>,
    /// Whether and why we ended the connection.
    pub(crate) cut: Rc<Cell<Cut>>,
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
            ends: None,
            cut: Rc::default(),
        }
    }

    /// Whether and why we ended the connection, when that is known.
    pub(crate) const fn cut(&self) -> &Rc<Cell<Cut>> {
        &self.cut
    }

    /// Notes where the client's connection comes from and leads to, if somebody is to be told; `to`
    /// is asked only then.
    pub(crate) fn note_ends(
        &mut self,
        from: SocketAddr,
        to: impl FnOnce() -> io::Result<SocketAddr>,
    ) {
        if self.rules.forwards_ends
            && let Ok(to) = to()
        {
            self.ends = Some(Arc::new(Ends { from, to }));
        }
    }

    /// Where the client's connection comes from and leads to, where a service tells replicas of it.
    pub(crate) const fn ends(&self) -> Option<&Arc<Ends>> {
        self.ends.as_ref()
    }

    /// Whom a request comes from, as far as proxies before us are trusted to say.
    pub fn client(&self, headers: &HeaderMap) -> IpAddr {
        forwarded::client(headers, self)
    }

    /// Tells the replica which host was asked for, before another one is put in its place.
    pub(crate) fn keep_host<B>(&self, request: &mut Request<B>) {
        forwarded::keep_host(request, self);
    }

    /// The address that it came in at.
    pub(crate) const fn local(&self) -> &Authority {
        &self.local
    }

    /// From where connections may come that have to begin with a PROXY header; `None` if this one
    /// has none.
    pub(crate) fn proxied(&self) -> Option<&[Network]> {
        self.rules.proxied.as_deref()
    }

    /// The same, for the client that a PROXY header told.
    pub(crate) fn proxied_from(&self, peer: SocketAddr, to: SocketAddr) -> Self {
        // An address and a port are always an authority.
        let local = Authority::try_from(to.to_string()).unwrap_or_else(|_| self.local.clone());
        let mut origin = Self::new(&self.rules, peer, local, self.listener);
        origin.note_ends(peer, || Ok(to));
        origin
    }

    /// The scheme that a request came by, as far as a proxy before us is trusted to say.
    pub(crate) fn client_scheme(&self, headers: &HeaderMap) -> &'static str {
        forwarded::scheme(headers, self)
    }

    /// The scheme that the peer's requests came by.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}
