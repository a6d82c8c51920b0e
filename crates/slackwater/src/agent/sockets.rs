//! All sockets of the agent. They are opened before anything else, so that a port in use is
//! reported at once.
//!
//! Unlike listeners, UDP sockets are not shared between workers: one task answers probes in
//! microseconds, and a reply must leave by the socket that received the probe. Sockets from a
//! predecessor or from systemd are used as they are.

use crate::upgrade::{Inherited, Passed};
use core::net::SocketAddr;
use slackwater_config::AgentConfig;
use slackwater_config::Fault;
use slackwater_proxy::OpenSockets as _;
use slackwater_proxy::forward::advice_on_port;
use slackwater_proxy::forward::listen;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::TcpListener;
use tokio::net::UdpSocket;

/// Most tries to get a port from the system that is free for both requests and probes.
const PORT_TRIES: u32 = 16;

/// The agent's sockets. Port 0 has become the port that the system chose.
#[derive(Debug)]
pub(super) struct Sockets {
    /// For each worker, at least one listener for each address.
    pub(super) listeners: Vec<Vec<TcpListener>>,
    pub(super) probes: Vec<UdpSocket>,
    pub(super) admin: Option<TcpListener>,
    /// Each address for requests, and the address for its probes.
    pub(super) addresses: Vec<(SocketAddr, SocketAddr)>,
    /// All sockets, for a successor. Connections stay queued in a listener as long as this exists.
    pub(super) passed: Passed,
}

impl Sockets {
    /// Opens all of them, on the current runtime.
    ///
    /// # Errors
    ///
    /// A port is in use, an address does not belong to this machine, or the user lacks permission.
    pub(super) fn open(config: &AgentConfig, inherited: &mut Inherited) -> Result<Self, Fault> {
        let workers = usize::from(config.workers.get());
        let mut sockets = Self {
            listeners: (0..workers).map(|_| Vec::new()).collect(),
            probes: Vec::new(),
            admin: None,
            addresses: Vec::new(),
            passed: Passed::default(),
        };
        if let Some(address) = config.admin.listen {
            let listener = match inherited.admin(address) {
                Some(listener) => listener,
                None => slackwater_admin::bind(address)?,
            };
            sockets
                .passed
                .add_admin(address, &listener)
                .map_err(|error| no_descriptor(&error))?;
            sockets.admin = Some(listener);
        }
        let mut probes_at = None;
        if let Some(address) = config.probe_listen {
            let socket = match inherited_probes(inherited, address)? {
                Some(socket) => socket,
                None => bind_probes(address)?,
            };
            probes_at = Some(sockets.keep(socket, address)?);
        }
        for &address in &config.listen {
            let passed = inherited_listeners(inherited, address, workers)?;
            let socket = match probes_at {
                Some(_) => None,
                None => inherited_probes(inherited, address)?,
            };
            // Unless `probe.listen` is set, requests and probes share a port. So a socket that
            // exists already determines the port of the other one.
            let (opened, probes) = match (passed, socket, probes_at) {
                (passed, _, Some(probes)) => {
                    let opened = passed.map_or_else(|| open_listeners(address, workers), Ok)?;
                    (opened, probes)
                }
                (Some(opened), socket, None) => {
                    let socket = socket.map_or_else(|| bind_probes(opened.address), Ok)?;
                    (opened, sockets.keep(socket, address)?)
                }
                (None, Some(socket), None) => {
                    let probes = sockets.keep(socket, address)?;
                    (open_listeners(probes, workers)?, probes)
                }
                (None, None, None) => {
                    let (opened, socket) = open_both(address, workers)?;
                    (opened, sockets.keep(socket, address)?)
                }
            };
            for (mine, listeners) in sockets.listeners.iter_mut().zip(opened.listeners) {
                for listener in listeners {
                    let passed = sockets.passed.add_requests(address, &listener);
                    passed.map_err(|error| no_descriptor(&error))?;
                    mine.push(listener);
                }
            }
            sockets.addresses.push((opened.address, probes));
        }
        Ok(sockets)
    }

    /// Keeps a socket for probes that is configured as `configured`. Returns its actual address.
    fn keep(&mut self, socket: UdpSocket, configured: SocketAddr) -> Result<SocketAddr, Fault> {
        self.passed
            .add_probes(configured, &socket)
            .map_err(|error| no_descriptor(&error))?;
        let address = socket.local_addr().unwrap_or(configured);
        self.probes.push(socket);
        Ok(address)
    }
}

fn no_descriptor(error: &io::Error) -> Fault {
    Fault::runtime(format!("sockets cannot be kept for a successor: {error}"))
}

fn inherited_listeners(
    inherited: &mut Inherited,
    address: SocketAddr,
    workers: usize,
) -> Result<Option<Opened>, Fault> {
    let listeners = inherited
        .take(address, workers)
        .map_err(|error| no_descriptor(&error))?;
    Ok(listeners.map(|listeners| {
        let first = listeners.iter().flatten().next();
        let address = first
            .and_then(|listener| listener.local_addr().ok())
            .unwrap_or(address);
        Opened { address, listeners }
    }))
}

fn inherited_probes(
    inherited: &mut Inherited,
    address: SocketAddr,
) -> Result<Option<UdpSocket>, Fault> {
    let socket = inherited.probes(address).map(UdpSocket::from_std);
    let fault = |error| Fault::runtime(format!("cannot answer probes at UDP {address}: {error}"));
    socket.transpose().map_err(fault)
}

struct Opened {
    address: SocketAddr,
    /// The listeners of each worker.
    listeners: Vec<Vec<TcpListener>>,
}

/// Opens listeners and a socket for probes at the same port. A port that the system chose may be in
/// use for UDP; then it is tried again with another one.
fn open_both(address: SocketAddr, workers: usize) -> Result<(Opened, UdpSocket), Fault> {
    let mut tries_left = if address.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        tries_left -= 1;
        let both = open_listeners(address, workers)
            .and_then(|opened| bind_probes(opened.address).map(|probes| (opened, probes)));
        if both.is_ok() || tries_left == 0 {
            return both;
        }
    }
}

fn open_listeners(address: SocketAddr, workers: usize) -> Result<Opened, Fault> {
    let fault = |error: io::Error| {
        let advice = advice_on_port(&error, "--listen");
        Fault::runtime(format!("cannot listen at TCP {address}: {error}{advice}"))
    };
    let listeners = listen(address, workers).map_err(fault)?;
    let first = listeners.first().map(TcpListener::local_addr);
    let address = first.unwrap_or(Ok(address)).map_err(fault)?;
    let listeners = listeners
        .into_iter()
        .map(|listener| vec![listener])
        .collect();
    Ok(Opened { address, listeners })
}

fn bind_probes(address: SocketAddr) -> Result<UdpSocket, Fault> {
    bind_udp(address).map_err(|error| {
        let advice = advice_on_port(&error, "--probe-listen");
        Fault::runtime(format!(
            "cannot answer probes at UDP {address}: {error}{advice}"
        ))
    })
}

/// An IPv6 wildcard also accepts IPv4, as that of the listeners does.
fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(address))?;
    UdpSocket::from_std(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ephemeral_port_is_the_same_for_tcp_and_udp() {
        // With this many UDP ports taken, the first choice would often collide.
        let any = SocketAddr::from(([127, 92, 0, 1], 0));
        let taken: Vec<_> = (0..500)
            .map(|_| bind_udp(any).expect("a free port"))
            .collect();
        for workers in [1, 2] {
            let (opened, probes) = open_both(any, workers).expect("a port free for both");
            let probes = probes.local_addr().expect("bound");
            assert_eq!(opened.address, probes);
            assert_eq!(opened.listeners.len(), workers);
        }
        drop(taken);
    }

    #[tokio::test]
    async fn configured_port_in_use_is_an_error() {
        let taken = bind_udp(([127, 92, 0, 2], 0).into()).expect("a free port");
        let address = taken.local_addr().expect("bound");
        let fault = open_both(address, 1).err().expect("taken").to_string();
        assert!(fault.contains("--probe-listen"), "{fault}");
    }
}
