//! Batches by `recvmmsg` and `sendmmsg`.
//!
//! Headers for receiving are kept per thread and family: they are allocated once, and cannot move
//! between threads.

use super::{BATCH, Datagrams, Incoming, Outgoing, Received};
use core::cell::RefCell;
use core::net::SocketAddr;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, SockaddrIn6, SockaddrLike, recvmmsg};
use rustix::net::addr::SocketAddrArg;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg, sendto};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use tokio::io::Interest;

pub(super) const TAKES_MANY: bool = true;

/// Batches up to this size have smaller tables.
const FEW: usize = 4;

thread_local! {
    // One for each family: a header keeps the length of the last address that was written into it,
    // and an IPv6 address does not fit into the length of an IPv4 one.
    static FROM_V4: RefCell<MultiHeaders<SockaddrIn>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
    static FROM_V6: RefCell<MultiHeaders<SockaddrIn6>> = RefCell::new(MultiHeaders::preallocate(BATCH, None));
}

impl Datagrams for UdpSocket {
    fn receive_batch(&self, into: &mut Incoming, most: usize) -> io::Result<usize> {
        receive(self.as_fd(), into, most)
    }

    fn send_batch(&self, batch: &Outgoing, first: usize) -> io::Result<usize> {
        send(self.as_fd(), batch, first)
    }
}

impl Datagrams for tokio::net::UdpSocket {
    fn receive_batch(&self, into: &mut Incoming, most: usize) -> io::Result<usize> {
        let mut got = 0;
        let drained = self.try_io(Interest::READABLE, || {
            got = receive(self.as_fd(), into, most)?;
            // A batch that is not full means that the socket is empty. The runtime then need not
            // make a call to find out.
            if got < most.min(BATCH) {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                Ok(())
            }
        });
        if got > 0 {
            Ok(got)
        } else {
            drained.map(|()| 0)
        }
    }

    fn send_batch(&self, batch: &Outgoing, first: usize) -> io::Result<usize> {
        send(self.as_fd(), batch, first)
    }
}

fn receive(socket: BorrowedFd<'_>, into: &mut Incoming, most: usize) -> io::Result<usize> {
    if into.v4 {
        FROM_V4.with_borrow_mut(|headers| receive_by(headers, socket, into, most))
    } else {
        FROM_V6.with_borrow_mut(|headers| receive_by(headers, socket, into, most))
    }
}

fn receive_by<A: SockaddrLike + Copy + Into<SocketAddr>>(
    headers: &mut MultiHeaders<A>,
    socket: BorrowedFd<'_>,
    into: &mut Incoming,
    most: usize,
) -> io::Result<usize> {
    let heads = &mut into.heads[..];
    match into.buffers.first_chunk_mut::<FEW>() {
        Some(few) if most <= FEW => receive_into(headers, socket, few, heads, most),
        _ => receive_into(headers, socket, &mut into.buffers, heads, most),
    }
}

fn receive_into<const PLACES: usize, A: SockaddrLike + Copy + Into<SocketAddr>>(
    headers: &mut MultiHeaders<A>,
    socket: BorrowedFd<'_>,
    buffers: &mut [Received; PLACES],
    heads: &mut [(usize, SocketAddr)],
    most: usize,
) -> io::Result<usize> {
    let mut places = buffers.each_mut().map(|buffer| [IoSliceMut::new(buffer)]);
    let places = places.iter_mut().take(most);
    let flags = MsgFlags::MSG_DONTWAIT;
    let received = recvmmsg(socket.as_raw_fd(), headers, places, flags, None)?;
    let mut got = 0;
    for (datagram, head) in received.zip(heads) {
        let from = datagram.address.map_or(super::NOWHERE, Into::into);
        *head = (datagram.bytes, from);
        got += 1;
    }
    Ok(got)
}

fn send(socket: BorrowedFd<'_>, batch: &Outgoing, first: usize) -> io::Result<usize> {
    let count = batch.len().saturating_sub(first);
    if count > FEW {
        return send_many::<BATCH>(socket, batch, first);
    }
    if count > 1 {
        return send_many::<FEW>(socket, batch, first);
    }
    if let Some((datagram, to)) = batch.from(first).next() {
        sendto(socket, datagram, SendFlags::DONTWAIT, &to)?;
    }
    Ok(count)
}

/// Sends up to `MOST` datagrams with one call.
fn send_many<const MOST: usize>(
    socket: BorrowedFd<'_>,
    batch: &Outgoing,
    first: usize,
) -> io::Result<usize> {
    let mut rest = batch.from(first);
    // Missing datagrams get a dummy entry, which is then left out: tables of a fixed size need no
    // allocation.
    let datagrams: [(&[u8], SocketAddr); MOST] =
        core::array::from_fn(|_| rest.next().unwrap_or((&[], super::NOWHERE)));
    let addrs = datagrams.map(|(_, to)| to.as_any());
    let texts = datagrams.map(|(datagram, _)| [IoSlice::new(datagram)]);
    let mut controls: [_; MOST] = core::array::from_fn(|_| SendAncillaryBuffer::default());
    let mut place = 0..;
    let mut headers = controls.each_mut().map(|control| {
        let place: usize = place.next().unwrap_or(0);
        MMsgHdr::new_with_addr(&addrs[place], &texts[place], control)
    });
    let count = batch.len().saturating_sub(first).min(MOST);
    Ok(sendmmsg(
        socket,
        &mut headers[..count],
        SendFlags::DONTWAIT,
    )?)
}
