//! Where a connection comes from and which address it reached. Made once for each connection, and
//! read by each of its requests.

use super::forwarded;
use crate::forward::counts::Count;
use core::cell::Cell;
use core::net::{IpAddr, SocketAddr};
use http::HeaderValue;
use http::uri::Authority;
use slackwater_config::{Config, ForwardedSettings, Limits, ListenerConfig, Network};
use slackwater_http::proxy_protocol::Ends;
use slackwater_http::{Fields, Request};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Rules for all clients of a listener.
#[derive(Clone, Debug)]
pub struct Rules {
    pub(crate) forwarded: ForwardedSettings,
    /// Maximum number of fields in a request head.
    pub(crate) head_fields_max: usize,
    /// Networks from which connections with a PROXY header may come. `None`: connections have no
    /// such header.
    proxied: Option<Vec<Network>>,
    /// Connections closed because a valid PROXY header was missing.
    pub(crate) proxy_headers_refused: Arc<Count>,
    /// Whether any service forwards the ends of clients' connections to its replicas.
    forwards_ends: bool,
}

/// Whether any service forwards the ends of clients' connections to its replicas.
pub(crate) fn forwards_ends(config: &Config) -> bool {
    let mut services = config.services.iter();
    services.any(|service| service.replica.proxy_protocol.is_some())
}

impl Rules {
    /// Makes the rules from these settings.
    pub fn new(forwarded: &ForwardedSettings, limits: &Limits) -> Rc<Self> {
        Rc::new(Self {
            forwarded: forwarded.clone(),
            head_fields_max: limits.head_fields_max as usize,
            proxied: None,
            proxy_headers_refused: Arc::default(),
            forwards_ends: false,
        })
    }

    /// Makes the rules of a listener of `serve`. `refused` counts connections closed because a
    /// valid PROXY header was missing.
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

    /// Whether an address is that of a trusted proxy.
    pub(super) fn trusts(&self, address: IpAddr) -> bool {
        self.forwarded.trust.iter().any(|net| net.contains(address))
    }
}

/// Why the proxy ended a client's connection that had requests on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The proxy did not end it; the client may have.
    #[default]
    Not,
    /// The drain time was over, or the client reset too many requests.
    Off,
    /// The client read nothing for too long.
    ClientStalled,
}

/// Where the requests of a connection come from, and which address they reached.
#[derive(Clone, Debug)]
pub struct Origin {
    pub(crate) rules: Rc<Rules>,
    /// Address of the peer.
    pub(crate) peer: IpAddr,
    /// Whether the peer is trusted to name the client behind it.
    pub(crate) is_trusted: bool,
    /// The peer in the format of `X-Forwarded-For`.
    pub(super) peer_field: HeaderValue,
    /// Whether the connection is encrypted.
    pub(crate) is_tls: bool,
    /// The peer's verified certificate in the format of `Client-Cert`, if it is forwarded to
    /// replicas.
    pub(crate) certificate: Option<HeaderValue>,
    /// Replaces the host that an HTTP/1.0 client may omit.
    pub(crate) local: Authority,
    /// Index of the listener, for routes.
    pub(crate) listener: usize,
    /// The ends of the client's connection, if a service forwards them to replicas.
    ends: Option<Arc<Ends>>,
    /// Whether and why the proxy ended the connection.
    pub(crate) cut: Rc<Cell<Cut>>,
}

impl Origin {
    /// Makes the origin of a connection from `peer` to `local` through a listener.
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

    /// Whether and why the proxy ended the connection, as soon as that is known.
    pub(crate) const fn cut(&self) -> &Rc<Cell<Cut>> {
        &self.cut
    }

    /// Records the ends of the client's connection if a service forwards them; `to` is called only
    /// then.
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

    /// The ends of the client's connection, if a service forwards them to replicas.
    pub(crate) const fn ends(&self) -> Option<&Arc<Ends>> {
        self.ends.as_ref()
    }

    /// Returns the client of a request, as far as trusted proxies vouch for it.
    #[inline]
    pub fn client(&self, headers: &Fields) -> IpAddr {
        if self.is_trusted {
            forwarded::client(headers, self)
        } else {
            self.peer
        }
    }

    /// The text of this address, if it is the peer's: the connection keeps that one.
    pub(crate) fn text_of(&self, client: IpAddr) -> Option<&[u8]> {
        (client == self.peer).then(|| self.peer_field.as_bytes())
    }

    /// Forwards the requested host in a field before it is replaced by another.
    pub(crate) fn keep_host<B>(&self, request: &mut Request<B>) {
        forwarded::keep_host(request, self);
    }

    /// The local address of the connection.
    pub(crate) const fn local(&self) -> &Authority {
        &self.local
    }

    /// Networks from which connections must begin with a PROXY header; `None` if this connection
    /// has none.
    pub(crate) fn proxied(&self) -> Option<&[Network]> {
        self.rules.proxied.as_deref()
    }

    /// Makes the same origin for the client that a PROXY header names.
    pub(crate) fn proxied_from(&self, peer: SocketAddr, to: SocketAddr) -> Self {
        // An address and a port always form an authority.
        let local = Authority::try_from(to.to_string()).unwrap_or_else(|_| self.local.clone());
        let mut origin = Self::new(&self.rules, peer, local, self.listener);
        origin.note_ends(peer, || Ok(to));
        origin
    }

    /// Returns the scheme of the client's request, as far as trusted proxies vouch for it.
    pub(crate) fn client_scheme(&self, headers: &Fields) -> &'static str {
        forwarded::scheme(headers, self)
    }

    /// Returns the scheme of the peer's requests.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}
