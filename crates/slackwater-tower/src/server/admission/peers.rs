//! Messages between replicas with tied copies: "this copy has started". `[H2]`
//!
//! A message is one small datagram, which is never answered or waited for. Its destination comes
//! with a request, so a replica sends only to addresses that are peers, and accepts only messages
//! of peers. So no request can make it send datagrams to strangers, and guessed names from other
//! addresses have no effect.

use crate::wire::ProbeKey;
use crate::wire::datagram::{DATAGRAM_BYTES_MAX, encode_begun};
use crate::wire::tie::Tie;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use slackwater_core::tail::{TieCounts, TiesConfig, TiesCounters};
use socket2::SockRef;
use std::io;
use std::net::UdpSocket;

/// The replicas with which tied requests are shared, and the sockets for messages to them.
pub struct Peers {
    pub(super) ties: TiesConfig,
    key: Option<ProbeKey>,
    is_peer: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    notified: AtomicU64,
    unnotified: AtomicU64,
    strange: AtomicU64,
}

impl Peers {
    /// Creates the set of addresses for which `is_peer` returns true. It is called for each tied
    /// request and each message about one. Messages are signed with `key`, if there is one.
    pub fn new(
        ties: TiesConfig,
        key: Option<ProbeKey>,
        is_peer: impl Fn(IpAddr) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            ties,
            key,
            is_peer: Box::new(is_peer),
            v4: None,
            v6: None,
            notified: AtomicU64::new(0),
            unnotified: AtomicU64::new(0),
            strange: AtomicU64::new(0),
        }
    }

    /// Sends messages by this socket, the one at which probes are answered, to peers of its address
    /// family. The first socket of a family counts.
    ///
    /// # Errors
    ///
    /// The system has no further file descriptor for it.
    pub fn speak_by(mut self, socket: &tokio::net::UdpSocket) -> io::Result<Self> {
        let is_v4 = socket.local_addr()?.is_ipv4();
        let place = if is_v4 { &mut self.v4 } else { &mut self.v6 };
        if place.is_none() {
            // The copy does not block either.
            *place = Some(SockRef::from(socket).try_clone()?.into());
        }
        Ok(self)
    }

    /// Whether the address is a peer's; counted if not.
    pub(super) fn know(&self, address: IpAddr) -> bool {
        let is_peer = (self.is_peer)(address.to_canonical());
        self.strange.fetch_add(u64::from(!is_peer), Relaxed);
        is_peer
    }

    /// Notifies the other copy's replica that the copy has started here.
    pub(super) fn send_begun(&self, tie: Tie) {
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        let bytes = encode_begun(tie.name, self.key.as_ref(), &mut datagram);
        let sent = match (tie.other_copy, &self.v4, &self.v6) {
            (SocketAddr::V4(_), Some(socket), _) | (SocketAddr::V6(_), _, Some(socket)) => {
                socket.send_to(&datagram[..bytes], tie.other_copy).is_ok()
            }
            // A wildcard IPv6 socket also reaches IPv4 addresses, in mapped form.
            (SocketAddr::V4(other_copy), None, Some(socket)) => {
                let other_copy =
                    SocketAddr::new(other_copy.ip().to_ipv6_mapped().into(), other_copy.port());
                socket.send_to(&datagram[..bytes], other_copy).is_ok()
            }
            (SocketAddr::V6(_), _, None) | (SocketAddr::V4(_), None, None) => false,
        };
        let count = if sent {
            &self.notified
        } else {
            &self.unnotified
        };
        count.fetch_add(1, Relaxed);
    }

    pub(super) fn counts(&self, copies: TiesCounters) -> TieCounts {
        TieCounts {
            copies,
            notified: self.notified.load(Relaxed),
            unnotified: self.unnotified.load(Relaxed),
            strange: self.strange.load(Relaxed),
        }
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers")
            .field("v4", &self.v4)
            .field("v6", &self.v6)
            .finish_non_exhaustive()
    }
}
