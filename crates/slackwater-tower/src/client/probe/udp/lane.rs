//! One socket, its queue of probes, and the task that works both off.
//!
//! The task is woken by the first probe of a batch and by the arrival of replies. It never holds the lock around a
//! system call.

use super::super::{ProbeCounters, ProbeToSend, ProbeToken, Refused, Reports};
use super::nonces::{Claim, Nonces};
use crate::wire::ProbeKey;
use crate::wire::datagram::{
    DATAGRAM_BYTES_MAX, Malformed, ProbeReply, ProbeRequest, decode_reply, encode_request,
};
use bytes::Bytes;
use core::net::SocketAddr;
use core::pin::pin;
use core::task::{Context, Poll};
use core::time::Duration;
use futures_util::task::AtomicWaker;
use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::net::UdpSocket;

/// So many replies are read before other tasks get their turn.
const REPLIES_AT_ONCE: usize = 64;

/// After a turn of nothing but errors, nothing is received for so long.
const FAILING_PAUSE: Duration = Duration::from_millis(10);
/// A datagram is tried so often again after errors that are about earlier ones.
const ERRORS_BEFORE_MAX: usize = 16;

/// How a turn of receiving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing is left to receive.
    Drained,
    /// There may be more.
    More,
    /// There were only errors, as many as a turn has room for.
    Failing,
}

/// A probe that waits to be sent.
#[derive(Debug)]
struct Queued {
    nonce: u64,
    addr: SocketAddr,
    hint: Bytes,
}

#[derive(Debug)]
struct State {
    nonces: Nonces,
    /// Never longer than there are places for nonces: their deadlines free places, but only the task shortens this.
    queue: VecDeque<Queued>,
    counters: ProbeCounters,
}

/// A socket with its probes.
#[derive(Debug)]
pub(super) struct Lane {
    socket: UdpSocket,
    v4: bool,
    key: Option<ProbeKey>,
    state: Mutex<State>,
    waker: AtomicWaker,
}

impl Lane {
    pub(super) fn new(
        socket: UdpSocket,
        key: Option<ProbeKey>,
        outstanding_max: u32,
    ) -> io::Result<Self> {
        Ok(Self {
            v4: socket.local_addr()?.is_ipv4(),
            socket,
            key,
            state: Mutex::new(State {
                nonces: Nonces::new(outstanding_max)?,
                queue: VecDeque::new(),
                counters: ProbeCounters::default(),
            }),
            waker: AtomicWaker::new(),
        })
    }

    pub(super) const fn carries(&self, addr: SocketAddr) -> bool {
        addr.is_ipv4() == self.v4
    }

    pub(super) fn counters(&self) -> ProbeCounters {
        self.lock().counters
    }

    /// Queues a probe; one that the caller knows this lane not to carry is only counted.
    pub(super) fn enqueue(&self, probe: ProbeToSend, carries: bool) -> Result<(), Refused> {
        let mut state = self.lock();
        if !carries {
            state.counters.refused_unsupported += 1;
            return Err(Refused::Unsupported);
        }
        let has_room = state.queue.len() < state.nonces.capacity();
        let nonce = has_room.then(|| {
            state
                .nonces
                .reserve(probe.sent_at, probe.token, probe.addr, probe.deadline)
        });
        let Some(nonce) = nonce.flatten() else {
            state.counters.refused_full += 1;
            return Err(Refused::Full);
        };
        let first = state.queue.is_empty();
        state.queue.push_back(Queued {
            nonce,
            addr: probe.addr,
            hint: probe.hint,
        });
        drop(state);
        if first {
            self.waker.wake();
        }
        Ok(())
    }

    /// Sends and receives until the task is aborted.
    pub(super) async fn run(&self, reports: &Reports) {
        let mut pause = pin!(tokio::time::sleep(Duration::ZERO));
        let mut pausing = false;
        core::future::poll_fn(|cx| {
            self.waker.register(cx.waker());
            // Whatever these two wait for wakes the task; neither ends.
            let _sending = self.poll_send(cx, reports);
            pausing &= pause.as_mut().poll(cx).is_pending();
            while !pausing && self.poll_receive(cx, reports) == Poll::Ready(true) {
                pause
                    .as_mut()
                    .reset(tokio::time::Instant::now() + FAILING_PAUSE);
                pausing = pause.as_mut().poll(cx).is_pending();
            }
            Poll::<()>::Pending
        })
        .await;
    }

    /// Sends what is queued, until the queue is empty or the socket is full.
    fn poll_send(&self, cx: &mut Context<'_>, reports: &Reports) -> Poll<()> {
        let mut datagram = [0; DATAGRAM_BYTES_MAX];
        let now = reports.now();
        loop {
            let (probe, is_awaited) = {
                let mut state = self.lock();
                let Some(probe) = state.queue.pop_front() else {
                    return Poll::Ready(());
                };
                let nonce = probe.nonce;
                // Without a balancer nobody waits for anything.
                let is_awaited = now.is_some_and(|now| state.nonces.is_awaited(now, nonce));
                (probe, is_awaited)
            };
            if !is_awaited {
                self.give_up(&probe, reports);
                continue;
            }
            let request = ProbeRequest {
                nonce: probe.nonce,
                hint: &probe.hint,
            };
            let Ok(bytes) = encode_request(&request, self.key.as_ref(), &mut datagram) else {
                self.give_up(&probe, reports);
                continue;
            };
            let mut errors_before = 0;
            loop {
                match self.socket.poll_send_ready(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => {
                        self.give_up(&probe, reports);
                        break;
                    }
                    Poll::Pending => {
                        self.lock().queue.push_front(probe);
                        return Poll::Pending;
                    }
                }
                match self.socket.try_send_to(&datagram[..bytes], probe.addr) {
                    Ok(_) => {
                        self.lock().counters.sent += 1;
                        break;
                    }
                    Err(error)
                        if is_not_about_this(&error) && errors_before < ERRORS_BEFORE_MAX =>
                    {
                        errors_before += 1;
                    }
                    Err(_) => {
                        self.give_up(&probe, reports);
                        break;
                    }
                }
            }
        }
    }

    /// Takes in the replies that are here; whether the socket fails again and again.
    fn poll_receive(&self, cx: &mut Context<'_>, reports: &Reports) -> Poll<bool> {
        loop {
            let receive = |datagram: &mut [u8]| self.socket.try_recv_from(datagram);
            match self.receive_turn(receive, reports) {
                Turn::Drained => match self.socket.poll_recv_ready(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(_)) => return Poll::Ready(true),
                },
                Turn::More => {
                    cx.waker().wake_by_ref();
                    return Poll::Ready(false);
                }
                Turn::Failing => return Poll::Ready(true),
            }
        }
    }

    fn receive_turn(
        &self,
        mut receive: impl FnMut(&mut [u8]) -> io::Result<(usize, SocketAddr)>,
        reports: &Reports,
    ) -> Turn {
        // One byte more than the largest, so that a longer one is told from one that fits.
        let mut datagram = [0; DATAGRAM_BYTES_MAX + 1];
        let mut turn = Turn::Failing;
        for _ in 0..REPLIES_AT_ONCE {
            match receive(&mut datagram) {
                Ok((bytes, from)) => {
                    turn = Turn::More;
                    self.receive(&datagram[..bytes], from, reports);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Turn::Drained,
                // An error that the network reported about an earlier probe; its deadline will do.
                Err(_) => {}
            }
        }
        turn
    }

    fn receive(&self, datagram: &[u8], from: SocketAddr, reports: &Reports) {
        let decoded = decode_reply(datagram, self.key.as_ref());
        let mut state = self.lock();
        let ProbeReply { nonce, report } = match decoded {
            Ok(reply) => reply,
            Err(Malformed::Unkeyed | Malformed::Authentication) => {
                state.counters.unauthenticated += 1;
                return;
            }
            Err(_) => {
                state.counters.malformed += 1;
                return;
            }
        };
        let token: ProbeToken = match state.nonces.claim(nonce, from) {
            Claim::Answer(token) => token,
            Claim::Replayed => {
                state.counters.replayed += 1;
                return;
            }
            Claim::Foreign => {
                state.counters.foreign += 1;
                return;
            }
        };
        state.counters.answered += 1;
        drop(state);
        reports.report(token, &report);
    }

    fn give_up(&self, probe: &Queued, reports: &Reports) {
        let mut state = self.lock();
        state.counters.send_failed += 1;
        let token = state.nonces.release(probe.nonce);
        drop(state);
        if let Some(token) = token {
            reports.lost(token);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The socket was full, or the operating system tells of an earlier datagram that was refused: try this one again.
fn is_not_about_this(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted
    )
}

#[cfg(test)]
mod tests {
    use super::super::nonces::tests::token;
    use super::*;
    use slackwater_core::policy::{Prequal, PrequalConfig};
    use slackwater_core::{Instant, ReplicaIds};

    use crate::client::{Balancer, NoProber};

    async fn lane(outstanding_max: u32) -> Lane {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        Lane::new(socket, None, outstanding_max).expect("randomness")
    }

    fn probe(addr: SocketAddr, sent_at: Instant, deadline: Instant) -> ProbeToSend {
        ProbeToSend {
            token: token(),
            replica: ReplicaIds::new().allocate().expect("room"),
            addr,
            sent_at,
            deadline,
            hint: Bytes::new(),
        }
    }

    #[tokio::test]
    async fn a_queue_that_nobody_works_off_is_bounded() {
        let lane = lane(16).await;
        let addr = SocketAddr::from(([127, 0, 0, 1], 9));
        for ms in 0..100 {
            // Each finds the places of all earlier ones free again.
            let now = Instant::EPOCH + Duration::from_millis(ms);
            let deadline = now + Duration::from_millis(1);
            let queued = lane.enqueue(probe(addr, now, deadline), true);
            assert_eq!(queued.err(), (ms >= 16).then_some(Refused::Full), "{ms}");
        }
        assert_eq!(lane.lock().queue.len(), 16);
        assert_eq!(lane.counters().refused_full, 84);
    }

    #[tokio::test]
    async fn a_socket_that_only_fails_ends_the_turn() {
        let lane = lane(2).await;
        let reports = Reports::new(std::sync::Weak::new());
        let mut calls = 0;
        let turn = lane.receive_turn(
            |_| {
                calls += 1;
                Err(io::ErrorKind::NetworkDown.into())
            },
            &reports,
        );
        assert_eq!((turn, calls), (Turn::Failing, REPLIES_AT_ONCE));
        let drained = |_: &mut [u8]| Err(io::ErrorKind::WouldBlock.into());
        assert_eq!(lane.receive_turn(drained, &reports), Turn::Drained);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waited_past_its_deadline_is_not_sent() {
        let lane = lane(2).await;
        let replica = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let addr = replica.local_addr().expect("bound");
        let balancer = Balancer::new(Box::new(Prequal::new(PrequalConfig::default())), NoProber);
        let reports = Reports::new(std::sync::Arc::downgrade(&balancer.shared));
        let due = |ms| Instant::EPOCH + Duration::from_millis(ms);
        for deadline in [due(3), due(9)] {
            lane.enqueue(probe(addr, Instant::EPOCH, deadline), true)
                .expect("room");
        }
        tokio::time::advance(Duration::from_millis(3)).await;
        let sent = core::future::poll_fn(|cx| Poll::Ready(lane.poll_send(cx, &reports))).await;
        assert!(sent.is_ready());
        let counters = lane.counters();
        assert_eq!((counters.sent, counters.send_failed), (1, 1));
    }
}
