//! Sockets that listen: one for each worker and address, so that workers share nothing.
//!
//! Several workers listen on one port with `SO_REUSEPORT`, and the kernel spreads connections over
//! them. That option would also let a second, unrelated process join in unnoticed; so the port is
//! first taken without it, which fails if anybody has it. Options that every connection wants are
//! set here once, and inherited.

use core::net::SocketAddr;
use core::time::Duration;
use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};
use std::io;
use std::net::TcpListener;

/// Connections that may wait to be accepted; the kernel has a limit of its own
/// (`net.core.somaxconn`).
const BACKLOG: i32 = 4096;

/// Silence after which a peer is asked whether it is still there.
const KEEPALIVE: Duration = Duration::from_mins(1);

/// A socket for each of `workers` on `address`; on port 0, all on the port that the system chose.
/// An IPv6 wildcard takes IPv4, too.
///
/// # Errors
///
/// The port is in use, the address is not this machine's, or the user may not.
pub fn listen(address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    let alone = open(address, false)?;
    if workers == 1 {
        return Ok(vec![alone]);
    }
    let address = alone.local_addr()?;
    drop(alone);
    (0..workers).map(|_| open(address, true)).collect()
}

/// What to do where a port cannot be had, to be added to the message; `flag` is what chooses
/// another one.
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
    // Else a restart would have to wait for old connections to time out.
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
    fn workers_share_a_port_that_nobody_else_can_take() {
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
