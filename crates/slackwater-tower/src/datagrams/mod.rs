//! Datagrams in batches: one system call receives or sends many.
//!
//! Linux has such calls (`recvmmsg`, `sendmmsg`); elsewhere each datagram takes one call. Buffers
//! are made once and used again. Nothing here waits.

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "portable.rs")]
mod system;

use crate::wire::datagram::DATAGRAM_BYTES_MAX;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddr};
use std::io;

/// The most datagrams of one call.
pub(crate) const BATCH: usize = 16;

/// One byte more than the largest datagram, so that a longer one is recognized.
type Received = [u8; DATAGRAM_BYTES_MAX + 1];

/// A socket that sends and receives datagrams. It never blocks.
pub(crate) trait Datagrams {
    /// Takes up to `most` datagrams out of the socket, and returns their number. Fewer than `most`
    /// means that there are no more for now. On systems without batches, only an error means that.
    fn receive_batch(&self, into: &mut Incoming, most: usize) -> io::Result<usize>;

    /// Sends `batch` from datagram number `first` on, and returns how many have left: at least one.
    /// An error is about that first one.
    fn send_batch(&self, batch: &Outgoing, first: usize) -> io::Result<usize>;
}

/// Whether a call that received `got` of at most `most` datagrams has emptied the socket.
pub(crate) const fn is_drained(got: usize, most: usize) -> bool {
    system::TAKES_MANY && got < most
}

/// Datagrams that have been received. Each batch replaces the one before.
pub(crate) struct Incoming {
    buffers: Box<[Received; BATCH]>,
    /// Size and source of each datagram.
    heads: [(usize, SocketAddr); BATCH],
    #[cfg_attr(
        not(target_os = "linux"),
        expect(dead_code, reason = "only needed for batches")
    )]
    v4: bool,
}

impl Incoming {
    /// Makes a buffer for a socket of this address.
    pub(crate) fn new(at: SocketAddr) -> Self {
        Self {
            v4: at.is_ipv4(),
            buffers: Box::new([[0; DATAGRAM_BYTES_MAX + 1]; BATCH]),
            heads: [(0, NOWHERE); BATCH],
        }
    }

    /// The first `count` datagrams of the batch.
    pub(crate) fn first(&self, count: usize) -> impl Iterator<Item = (&[u8], SocketAddr)> {
        let heads = self.heads.iter().zip(self.buffers.iter());
        heads
            .take(count)
            .map(|(&(bytes, from), buffer)| (&buffer[..bytes.min(buffer.len())], from))
    }
}

/// Datagrams to send.
pub(crate) struct Outgoing {
    buffers: Box<[[u8; DATAGRAM_BYTES_MAX]; BATCH]>,
    /// Size and destination of each datagram.
    heads: [(usize, SocketAddr); BATCH],
    len: usize,
}

impl Outgoing {
    pub(crate) fn new() -> Self {
        Self {
            buffers: Box::new([[0; DATAGRAM_BYTES_MAX]; BATCH]),
            heads: [(0, NOWHERE); BATCH],
            len: 0,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds the datagram that `write` writes; `write` returns its size. Adds nothing if `write`
    /// fails, or if the batch is full.
    pub(crate) fn add<E>(
        &mut self,
        to: SocketAddr,
        write: impl FnOnce(&mut [u8; DATAGRAM_BYTES_MAX]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let place = self
            .buffers
            .get_mut(self.len)
            .zip(self.heads.get_mut(self.len));
        if let Some((buffer, head)) = place {
            *head = (write(buffer)?, to);
            self.len += 1;
        }
        Ok(())
    }

    /// The datagrams from number `first` on.
    fn from(&self, first: usize) -> impl Iterator<Item = (&[u8], SocketAddr)> {
        let heads = self.heads[..self.len].iter().zip(self.buffers.iter());
        heads
            .skip(first)
            .map(|(&(bytes, to), buffer)| (&buffer[..bytes.min(buffer.len())], to))
    }
}

/// Dummy address of an unused entry.
const NOWHERE: SocketAddr = SocketAddr::new(core::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;
    use core::net::Ipv6Addr;
    use std::net::UdpSocket;

    fn socket(ip: impl Into<core::net::IpAddr>) -> Option<UdpSocket> {
        let socket = UdpSocket::bind((ip.into(), 0)).ok()?;
        socket.set_nonblocking(true).expect("a socket of ours");
        Some(socket)
    }

    fn fill(batch: &mut Outgoing, to: SocketAddr, texts: impl Iterator<Item = String>) {
        for text in texts {
            let Ok(()) = batch.add(to, |buffer| {
                buffer[..text.len()].copy_from_slice(text.as_bytes());
                Ok::<_, Infallible>(text.len())
            });
        }
    }

    fn send_all(from: &UdpSocket, batch: &Outgoing) {
        let mut sent = 0;
        while sent < batch.len() {
            sent += from.send_batch(batch, sent).expect("loopback takes them");
        }
    }

    fn receive_all(at: &UdpSocket, most: usize) -> Vec<(String, SocketAddr)> {
        let mut incoming = Incoming::new(at.local_addr().expect("bound"));
        let mut all = Vec::new();
        while let Ok(got) = at.receive_batch(&mut incoming, most) {
            assert!((1..=most).contains(&got), "{got}");
            let texts = incoming.first(got);
            all.extend(
                texts.map(|(text, from)| (String::from_utf8_lossy(text).into_owned(), from)),
            );
        }
        all
    }

    #[test]
    fn batches_of_every_size_arrive_complete_and_in_order() {
        let families = [socket(Ipv4Addr::LOCALHOST), socket(Ipv6Addr::LOCALHOST)];
        let again = [socket(Ipv4Addr::LOCALHOST), socket(Ipv6Addr::LOCALHOST)];
        // Both families in turn, on one thread: what one leaves behind must not harm the other.
        for count in [1, 2, 4, 5, BATCH, 1, BATCH] {
            for (here, there) in families.iter().flatten().zip(again.iter().flatten()) {
                let (from, to) = (here.local_addr().expect("bound"), there.local_addr());
                let mut batch = Outgoing::new();
                let texts = (0..count).map(|number| format!("datagram {number}"));
                fill(&mut batch, to.expect("bound"), texts.clone());
                assert_eq!(batch.len(), count);
                send_all(here, &batch);
                for most in [1, 3, BATCH] {
                    let received = receive_all(there, most);
                    let expected: Vec<_> = texts.clone().map(|text| (text, from)).collect();
                    assert_eq!(received, expected, "{count} by {most}");
                    send_all(here, &batch);
                }
                receive_all(there, BATCH);
            }
        }
    }

    #[test]
    fn full_batch_takes_no_more_datagrams() {
        let mut batch = Outgoing::new();
        fill(
            &mut batch,
            NOWHERE,
            (0..BATCH + 3).map(|number| number.to_string()),
        );
        assert_eq!(batch.len(), BATCH);
        assert_eq!(batch.from(0).count(), BATCH);
        let last: Vec<_> = batch.from(BATCH - 1).map(|(text, _)| text).collect();
        assert_eq!(last, [(BATCH - 1).to_string().as_bytes()]);
        let refused = batch.add(NOWHERE, |_| Err::<usize, _>("full batches write nothing"));
        assert_eq!(refused, Ok(()));
        batch.clear();
        assert_eq!(batch.add(NOWHERE, |_| Err("no")), Err("no"));
        assert_eq!(batch.len(), 0);
    }

    #[test]
    fn send_error_concerns_the_first_datagram_not_sent() {
        let here = socket(Ipv4Addr::LOCALHOST).expect("a socket");
        let to = here.local_addr().expect("bound");
        let mut batch = Outgoing::new();
        fill(&mut batch, to, ["first".to_owned()].into_iter());
        // Sending to port 0 fails.
        fill(&mut batch, NOWHERE, ["second".to_owned()].into_iter());
        fill(&mut batch, to, ["third".to_owned()].into_iter());
        assert_eq!(here.send_batch(&batch, 0).expect("the first leaves"), 1);
        here.send_batch(&batch, 1).expect_err("the second cannot");
        assert_eq!(here.send_batch(&batch, 2).expect("the third leaves"), 1);
        let received: Vec<_> = receive_all(&here, BATCH)
            .into_iter()
            .map(|it| it.0)
            .collect();
        assert_eq!(received, ["first", "third"]);
    }

    #[test]
    fn datagram_is_cut_at_one_byte_more_than_the_limit() {
        let here = socket(Ipv4Addr::LOCALHOST).expect("a socket");
        let to = here.local_addr().expect("bound");
        for bytes in [DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MAX + 1, 2_000, 0] {
            here.send_to(&vec![7; bytes], to)
                .expect("loopback takes it");
            let mut incoming = Incoming::new(to);
            assert_eq!(
                here.receive_batch(&mut incoming, BATCH)
                    .expect("it is here"),
                1
            );
            let seen: Vec<_> = incoming.first(1).map(|(text, _)| text.len()).collect();
            assert_eq!(seen, [bytes.min(DATAGRAM_BYTES_MAX + 1)]);
        }
    }

    #[tokio::test]
    async fn tokio_socket_sends_and_receives_batches_then_waits() {
        let here = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let (here, there) = (here.expect("a socket"), socket(Ipv4Addr::LOCALHOST));
        let there = there.expect("a socket");
        let mut batch = Outgoing::new();
        let texts = |count: usize| (0..count).map(|number| number.to_string());
        fill(&mut batch, here.local_addr().expect("bound"), texts(5));
        for _ in 0..2 {
            send_all(&there, &batch);
            let mut incoming = Incoming::new(here.local_addr().expect("bound"));
            let mut seen = Vec::new();
            while seen.len() < 5 {
                here.readable().await.expect("a socket of ours");
                let Ok(got) = here.receive_batch(&mut incoming, 3) else {
                    continue;
                };
                seen.extend(incoming.first(got).map(|(text, _)| text.to_vec()));
            }
            assert!(texts(5).map(String::into_bytes).eq(seen));
        }
        fill(&mut batch, there.local_addr().expect("bound"), texts(2));
        let sent = here.send_batch(&batch, 5).expect("loopback takes them");
        assert_eq!(sent, if system::TAKES_MANY { 2 } else { 1 });
    }
}
