//! Where a connection comes from and leads to: made once for each, read by each of its requests.

use super::forwarded;
use crate::config::{ForwardedSettings, Limits};
use core::net::{IpAddr, SocketAddr};
use http::HeaderValue;
use http::uri::Authority;
use std::rc::Rc;

/// What holds for all clients of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(super) forwarded: ForwardedSettings,
    /// Fields of a request's head, at most.
    pub(super) head_fields_max: usize,
}

impl Rules {
    /// As configured.
    pub(crate) fn new(forwarded: &ForwardedSettings, limits: &Limits) -> Rc<Self> {
        Rc::new(Self {
            forwarded: forwarded.clone(),
            head_fields_max: limits.head_fields_max as usize,
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
            local,
            listener,
        }
    }

    /// The scheme that the peer's requests came by.
    pub(crate) const fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }
}
