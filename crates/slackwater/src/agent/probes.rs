//! UDP sockets where probes are answered. They are not shared between workers: one task answers in microseconds, and the
//! reply must leave by the socket that was asked.

use crate::fault::Fault;
use core::net::SocketAddr;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use tokio::net::UdpSocket;

/// A socket at `address`, on the current runtime. An IPv6 wildcard takes IPv4, too.
///
/// # Errors
///
/// The port is in use, the address is not this machine's, or the user may not.
pub(super) fn bind(address: SocketAddr) -> Result<UdpSocket, Fault> {
    open(address).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "; free the port, or choose another with --probe-listen",
            _ => "",
        };
        Fault::runtime(format!(
            "cannot answer probes at UDP {address}: {error}{advice}"
        ))
    })
}

fn open(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(address))?;
    UdpSocket::from_std(socket.into())
}
