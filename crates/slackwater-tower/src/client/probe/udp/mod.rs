//! Probes by UDP: one small datagram each way, see [`wire::datagram`](crate::wire::datagram).
//!
//! There is one unconnected socket per address family, whatever the size of the fleet. A pick only
//! queues its probes. One task per socket encodes and sends them, so the probes of many picks leave
//! together, with one system call per batch. Answers wait in the socket until they are needed, and
//! are read in batches: see `lane`. A reply is accepted if its nonce is outstanding, it comes from
//! the address that was probed and, if a key is configured, its tag is valid. All others are
//! counted by kind and ignored.

mod lane;
mod nap;
mod nonces;
mod sending;

use super::{ProbeCounters, ProbeToSend, Prober, Refused, Reports};
use crate::wire::{HINT_BYTES_MAX, ProbeKey};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use lane::Lane;
use slackwater_core::Instant;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// Settings of a [`UdpProber`].
#[derive(Clone, Debug)]
pub struct UdpProberConfig {
    /// The key that signs probes, and with which replies must be signed; default none.
    pub key: Option<ProbeKey>,
    /// The local address for probes to IPv4 replicas; default any, `None` for no such probes.
    pub local_v4: Option<Ipv4Addr>,
    /// The local address for probes to IPv6 replicas; default any where the machine has IPv6,
    /// `None` for no such probes.
    pub local_v6: Option<Ipv6Addr>,
    /// The most probes outstanding at once for each family: 1 to 65,536, rounded up to a power of
    /// two; default 1,024. One more is refused.
    pub outstanding_max: u32,
}

impl Default for UdpProberConfig {
    fn default() -> Self {
        Self {
            key: None,
            local_v4: Some(Ipv4Addr::UNSPECIFIED),
            local_v6: Some(Ipv6Addr::UNSPECIFIED),
            outstanding_max: 1024,
        }
    }
}

/// Probes replicas by UDP.
pub struct UdpProber {
    v4: Option<Arc<Lane>>,
    v6: Option<Arc<Lane>>,
    tasks: Mutex<JoinSet<()>>,
}

impl UdpProber {
    /// Opens the sockets. On a machine without IPv6 there is none for it, and such probes are
    /// refused.
    ///
    /// # Errors
    ///
    /// No socket could be opened, or the operating system gave no random bytes.
    pub fn bind(config: &UdpProberConfig) -> io::Result<Self> {
        let open = |addr: IpAddr| -> io::Result<Arc<Lane>> {
            let socket = bound_socket(addr)?;
            let lane = Lane::new(socket, config.key.clone(), config.outstanding_max)?;
            Ok(Arc::new(lane))
        };
        let v4 = config.local_v4.map(|ip| open(ip.into())).transpose()?;
        let v6 = match config.local_v6.map(|ip| open(ip.into())) {
            None => None,
            Some(Ok(lane)) => Some(lane),
            Some(Err(_)) if v4.is_some() && config.local_v6 == Some(Ipv6Addr::UNSPECIFIED) => None,
            Some(Err(error)) => return Err(error),
        };
        if v4.is_none() && v6.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a udp prober needs a local address: set local_v4 or local_v6",
            ));
        }
        Ok(Self {
            v4,
            v6,
            tasks: Mutex::default(),
        })
    }

    fn lanes(&self) -> impl Iterator<Item = &Arc<Lane>> {
        self.v4.iter().chain(&self.v6)
    }
}

impl fmt::Debug for UdpProber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locals = self
            .lanes()
            .filter_map(|lane| lane.socket.local_addr().ok());
        f.debug_struct("UdpProber")
            .field("local_addrs", &locals.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl Prober for UdpProber {
    fn start(&self, reports: Reports) -> bool {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = tasks.is_empty();
        if is_first {
            for lane in self.lanes() {
                let (lane, reports) = (Arc::clone(lane), reports.clone());
                tasks.spawn(async move { lane.run(reports).await });
            }
        }
        is_first
    }

    fn send(&self, mut probe: ProbeToSend) -> Result<(), Refused> {
        if let IpAddr::V6(ip) = probe.addr.ip()
            && let Some(mapped) = ip.to_ipv4_mapped()
        {
            probe.addr.set_ip(mapped.into());
        }
        let lane = match probe.addr {
            SocketAddr::V4(_) => self.v4.as_ref(),
            SocketAddr::V6(_) => self.v6.as_ref(),
        };
        let Some(lane) = lane.or_else(|| self.lanes().next()) else {
            return Err(Refused::Unsupported);
        };
        let carries = lane.carries(probe.addr) && probe.hint.len() <= HINT_BYTES_MAX;
        lane.enqueue(probe, carries)
    }

    fn collect(&self, now: Instant) {
        for lane in self.lanes() {
            lane.collect(now);
        }
    }

    fn counters(&self) -> ProbeCounters {
        self.lanes()
            .map(|lane| lane.counters())
            .fold(ProbeCounters::default(), |sum, lane| sum.plus(&lane))
    }

    fn round_trip(&self) -> Option<Duration> {
        self.lanes().filter_map(|lane| lane.round_trip()).max()
    }
}

fn bound_socket(addr: IpAddr) -> io::Result<UdpSocket> {
    let domain = if addr.is_ipv4() {
        Domain::IPV4
    } else {
        Domain::IPV6
    };
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        // Replies must come from the same address that was probed, and a mapped one would not
        // compare equal.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SocketAddr::new(addr, 0).into())?;
    Ok(socket.into())
}
