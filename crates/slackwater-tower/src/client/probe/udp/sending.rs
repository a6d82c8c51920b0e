//! Sending: probes leave a lane's queue in batches.

use super::super::{ProbeToken, Reports};
use super::lane::Lane;
use crate::datagrams::{BATCH, Datagrams, Outgoing};
use crate::wire::ProbeKey;
use crate::wire::datagram::{ProbeRequest, encode_request};
use bytes::Bytes;
use core::net::SocketAddr;
use core::task::Poll;
use slackwater_core::Instant;
use std::io;

/// The most times that a datagram is tried again after errors about earlier ones.
const ERRORS_BEFORE_MAX: usize = 16;

/// A probe that waits to be sent.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) nonce: u64,
    pub(super) addr: SocketAddr,
    pub(super) hint: Bytes,
}

/// The current batch. Its memory is used again for the next one.
#[derive(Debug)]
pub(super) struct Sending {
    batch: Vec<Queued>,
    datagrams: Outgoing,
    lost: Vec<ProbeToken>,
}

impl Sending {
    pub(super) fn new() -> Self {
        Self {
            batch: Vec::with_capacity(BATCH),
            datagrams: Outgoing::new(),
            lost: Vec::with_capacity(BATCH),
        }
    }

    /// Sends what is queued. Pending if the socket is full before the queue is empty.
    pub(super) fn send_queued(
        &mut self,
        lane: &Lane,
        now: Option<Instant>,
        reports: &Reports,
    ) -> Poll<()> {
        loop {
            self.take(lane, now);
            if self.batch.is_empty() && self.lost.is_empty() {
                return Poll::Ready(());
            }
            let left = self.send(lane, |first, datagrams| {
                lane.socket.send_batch(datagrams, first)
            });
            for token in self.lost.drain(..) {
                reports.lost(token);
            }
            if left.is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Takes probes from the queue while the batch has room, and encodes them. Probes that waited
    /// past their deadline are lost.
    fn take(&mut self, lane: &Lane, now: Option<Instant>) {
        self.batch.clear();
        self.datagrams.clear();
        let mut state = lane.lock();
        while self.batch.len() < BATCH
            && self.lost.len() < BATCH
            && let Some(probe) = state.queue.pop_front()
        {
            if now.is_some_and(|now| state.nonces.is_awaited(now, probe.nonce)) {
                self.batch.push(probe);
            } else {
                state.counters.send_failed += 1;
                self.lost.extend(state.nonces.release(probe.nonce));
            }
        }
        drop(state);
        let Self {
            batch, datagrams, ..
        } = self;
        // Hints that are too long were refused before. If one got here, it would be left out and
        // lost by its deadline.
        batch.retain(|probe| write(datagrams, probe, lane.key.as_ref()).is_ok());
    }

    /// Passes the batch, from a first datagram on, to `send` until all of it has left or the socket
    /// is full.
    fn send(
        &mut self,
        lane: &Lane,
        mut send: impl FnMut(usize, &Outgoing) -> io::Result<usize>,
    ) -> Poll<()> {
        let (mut first, mut errors_before) = (0, 0);
        while let Some(probe) = self.batch.get(first) {
            match send(first, &self.datagrams) {
                Ok(count) => {
                    lane.lock().counters.sent += count as u64;
                    first += count;
                    errors_before = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut state = lane.lock();
                    for probe in self.batch.drain(first..).rev() {
                        state.queue.push_front(probe);
                    }
                    return Poll::Pending;
                }
                Err(error) if is_about_an_earlier(&error) && errors_before < ERRORS_BEFORE_MAX => {
                    errors_before += 1;
                }
                Err(_) => {
                    let mut state = lane.lock();
                    state.counters.send_failed += 1;
                    self.lost.extend(state.nonces.release(probe.nonce));
                    first += 1;
                    errors_before = 0;
                }
            }
        }
        Poll::Ready(())
    }
}

fn write(
    datagrams: &mut Outgoing,
    probe: &Queued,
    key: Option<&ProbeKey>,
) -> Result<(), crate::wire::HintTooLong> {
    let request = ProbeRequest {
        nonce: probe.nonce,
        hint: &probe.hint,
    };
    datagrams.add(probe.addr, |into| encode_request(&request, key, into))
}

/// Whether the operating system reports that an earlier datagram was refused, or that the call was
/// interrupted. This datagram may be tried again.
fn is_about_an_earlier(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::super::nonces::tests::token;
    use super::*;
    use crate::client::ProbeToSend;
    use core::net::Ipv4Addr;
    use slackwater_core::ReplicaIds;
    use std::net::UdpSocket;

    const SOON: Instant = Instant::from_nanos(50_000_000);

    /// A lane with probes queued to the ports from 1 to `count`, all in one batch.
    fn queued(count: u16) -> (Lane, Sending) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let lane = Lane::new(socket, None, 64).expect("randomness");
        let replica = ReplicaIds::new().allocate().expect("room");
        for port in 1..=count {
            let probe = ProbeToSend {
                token: token(),
                replica,
                addr: (Ipv4Addr::LOCALHOST, port).into(),
                sent_at: Instant::EPOCH,
                deadline: SOON,
                hint: Bytes::new(),
            };
            lane.enqueue(probe, true).expect("room");
        }
        let mut sending = Sending::new();
        sending.take(&lane, Some(Instant::EPOCH));
        (lane, sending)
    }

    fn ports(lane: &Lane) -> Vec<u16> {
        lane.lock()
            .queue
            .iter()
            .map(|probe| probe.addr.port())
            .collect()
    }

    fn counts(lane: &Lane) -> (u64, u64) {
        let counters = lane.lock().counters;
        (counters.sent, counters.send_failed)
    }

    #[test]
    fn full_socket_keeps_the_unsent_probes_in_order() {
        let (lane, mut sending) = queued(9);
        let mut calls = Vec::new();
        let left = sending.send(&lane, |first, _| {
            calls.push(first);
            match first {
                0 => Ok(4),
                4 => Ok(1),
                _ => Err(io::ErrorKind::WouldBlock.into()),
            }
        });
        assert!(left.is_pending());
        assert_eq!(calls, [0, 4, 5]);
        assert_eq!(ports(&lane), [6, 7, 8, 9]);
        assert_eq!(counts(&lane), (5, 0));
        sending.take(&lane, Some(Instant::EPOCH));
        let left = sending.send(&lane, |first, datagrams| Ok(datagrams.len() - first));
        assert!(left.is_ready());
        assert_eq!((counts(&lane), ports(&lane).len()), ((9, 0), 0));
        assert_eq!(lane.lock().nonces.awaited(Instant::EPOCH), 9);
    }

    #[test]
    fn unsendable_probe_is_lost_and_the_others_are_sent() {
        let (lane, mut sending) = queued(4);
        let left = sending.send(&lane, |first, _| match first {
            2 => Err(io::ErrorKind::HostUnreachable.into()),
            0 => Ok(2),
            _ => Ok(1),
        });
        assert!(left.is_ready());
        assert_eq!(counts(&lane), (3, 1));
        assert_eq!(sending.lost, [token()]);
        assert_eq!(lane.lock().nonces.awaited(Instant::EPOCH), 3);
    }

    #[test]
    fn errors_of_earlier_probes_are_retried_up_to_a_limit() {
        for kind in [io::ErrorKind::ConnectionRefused, io::ErrorKind::Interrupted] {
            for (errors, sent) in [(ERRORS_BEFORE_MAX, 2), (ERRORS_BEFORE_MAX + 1, 1)] {
                let (lane, mut sending) = queued(2);
                let mut left = errors;
                let all = sending.send(&lane, |_, _| {
                    if left == 0 {
                        return Ok(1);
                    }
                    left -= 1;
                    Err(kind.into())
                });
                assert!(all.is_ready());
                assert_eq!(counts(&lane), (sent, 2 - sent), "{errors} times {kind}");
            }
        }
    }
}
