//! What goes to and fro between replicas of tied copies: "this one has begun". `[H2]`
//!
//! One small datagram, which is never answered, and which nobody waits for. The address that it
//! goes to comes with a request; so a replica tells nobody who is not named as a peer, and believes
//! nobody else: no request makes it send datagrams to strangers, and who guesses at names from
//! elsewhere is not heard.

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

/// With whom a replica shares tied requests, and by which sockets it speaks to them.
pub struct Peers {
    pub(super) ties: TiesConfig,
    key: Option<ProbeKey>,
    is_peer: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    v4: Option<UdpSocket>,
    v6: Option<UdpSocket>,
    told: AtomicU64,
    untold: AtomicU64,
    strange: AtomicU64,
}

impl Peers {
    /// Those whom `is_peer` knows; it is asked for each tied request, and each datagram about one.
    /// What is said is made with `key`, where there is one.
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
            told: AtomicU64::new(0),
            untold: AtomicU64::new(0),
            strange: AtomicU64::new(0),
        }
    }

    /// They are spoken to by this socket, the one at which probes are answered, as far as it is of
    /// their family. Of two of one family the first counts.
    ///
    /// # Errors
    ///
    /// The system has no second descriptor for it.
    pub fn speak_by(mut self, socket: &tokio::net::UdpSocket) -> io::Result<Self> {
        let is_v4 = socket.local_addr()?.is_ipv4();
        let place = if is_v4 { &mut self.v4 } else { &mut self.v6 };
        if place.is_none() {
            // It never blocks, as the one that it is a copy of.
            *place = Some(SockRef::from(socket).try_clone()?.into());
        }
        Ok(self)
    }

    /// Whether somebody there is one; counted if not.
    pub(super) fn know(&self, address: IpAddr) -> bool {
        let is_peer = (self.is_peer)(address.to_canonical());
        self.strange.fetch_add(u64::from(!is_peer), Relaxed);
        is_peer
    }

    /// Tells the twin's replica that the copy has begun here.
    pub(super) fn send_begun(&self, tie: Tie) {
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        let bytes = encode_begun(tie.name, self.key.as_ref(), &mut datagram);
        let sent = match (tie.twin, &self.v4, &self.v6) {
            (SocketAddr::V4(_), Some(socket), _) | (SocketAddr::V6(_), _, Some(socket)) => {
                socket.send_to(&datagram[..bytes], tie.twin).is_ok()
            }
            // A wildcard takes IPv4 as well, under other names.
            (SocketAddr::V4(twin), None, Some(socket)) => {
                let twin = SocketAddr::new(twin.ip().to_ipv6_mapped().into(), twin.port());
                socket.send_to(&datagram[..bytes], twin).is_ok()
            }
            (SocketAddr::V6(_), _, None) | (SocketAddr::V4(_), None, None) => false,
        };
        let count = if sent { &self.told } else { &self.untold };
        count.fetch_add(1, Relaxed);
    }

    pub(super) fn counts(&self, copies: TiesCounters) -> TieCounts {
        TieCounts {
            copies,
            told: self.told.load(Relaxed),
            untold: self.untold.load(Relaxed),
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
