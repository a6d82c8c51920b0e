//! One call for each datagram, with what every system has.

use super::{Datagrams, Incoming, Outgoing};
use core::net::SocketAddr;
use std::io;
use std::net::UdpSocket;

pub(super) const TAKES_MANY: bool = false;

impl Datagrams for UdpSocket {
    fn receive_batch(&self, into: &mut Incoming, most: usize) -> io::Result<usize> {
        receive_one(into, most, |buffer| self.recv_from(buffer))
    }

    fn send_batch(&self, batch: &Outgoing, first: usize) -> io::Result<usize> {
        send_one(batch, first, |datagram, to| self.send_to(datagram, to))
    }
}

impl Datagrams for tokio::net::UdpSocket {
    fn receive_batch(&self, into: &mut Incoming, most: usize) -> io::Result<usize> {
        receive_one(into, most, |buffer| self.try_recv_from(buffer))
    }

    fn send_batch(&self, batch: &Outgoing, first: usize) -> io::Result<usize> {
        send_one(batch, first, |datagram, to| self.try_send_to(datagram, to))
    }
}

fn receive_one(
    into: &mut Incoming,
    most: usize,
    receive: impl FnOnce(&mut [u8]) -> io::Result<(usize, SocketAddr)>,
) -> io::Result<usize> {
    let place = into.buffers.first_mut().zip(into.heads.first_mut());
    let Some((buffer, head)) = place.filter(|_| most > 0) else {
        return Ok(0);
    };
    *head = receive(buffer)?;
    Ok(1)
}

fn send_one(
    batch: &Outgoing,
    first: usize,
    send: impl FnOnce(&[u8], SocketAddr) -> io::Result<usize>,
) -> io::Result<usize> {
    let Some((datagram, to)) = batch.from(first).next() else {
        return Ok(0);
    };
    send(datagram, to)?;
    Ok(1)
}
