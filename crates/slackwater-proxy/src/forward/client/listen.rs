//! Listening sockets: one for each worker and address, so that workers share nothing.
//!
//! Several workers listen on one port with `SO_REUSEPORT`, and the kernel distributes connections
//! among them. That option would also let an unrelated process join in unnoticed, so the port is
//! first bound without it, which fails if the port is in use. Options for all connections are set
//! here once, and inherited.

use core::net::SocketAddr;
use core::time::Duration;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::io;
use std::net::TcpListener;

/// Connections that may wait to be accepted. The kernel has its own limit (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// Idle time after which TCP keepalive probes the peer.
const KEEPALIVE: Duration = Duration::from_mins(1);

/// Opens a socket for each of `workers` on `address`. With port 0, all use the port that the system
/// chose. An IPv6 wildcard accepts IPv4, too.
///
/// # Errors
///
/// Fails if the port is in use, the address is not of this machine, or the user lacks the
/// permission.
pub fn listen(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    let alone = open(address, false)?;
    if workers == 1 {
        return Ok(vec![alone]);
    }
    let address = alone.local_addr()?;
    drop(alone);
    (0..workers).map(|_| open(address, true)).collect()
}

/// Returns advice to append to the error when a port cannot be bound; `flag` is the flag that
/// chooses another one.
pub fn advice_on_port(error: &io::Error, flag: &str) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!("; free the port, or choose another with {flag}"),
        _ => String::new(),
    }
}

fn open(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // Without it, a restart would have to wait until old connections time out.
    socket.set_reuse_address(true)?;
    if shared {
        socket.set_reuse_port(true)?;
    }
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE))?;
    socket.bind(&SockAddr::from(address))?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_a_port_that_no_other_process_can_bind() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let address: SocketAddr = host.parse().expect("an address");
            let listeners = listen(address, 3).expect("a free port");
            let ports: Vec<u16> = listeners
                .iter()
                .map(|listener| listener.local_addr().expect("bound").port())
                .collect();
            assert!(ports.iter().all(|port| *port == ports[0] && *port != 0));
            let taken = SocketAddr::new(address.ip(), ports[0]);
            for workers in [1, 2] {
                let error = listen(taken, workers).expect_err("taken");
                assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            }
        }
    }
}
