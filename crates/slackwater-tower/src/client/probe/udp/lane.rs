//! One socket, its queue of probes, the task that sends them, and the answers that come back.
//!
//! Probes that picks want wait in the queue for the task's turn, and leave together. Their answers
//! wake no task. They are read before a pick, before a timeout, and by the task if no pick has come
//! for a while. The task is woken by answers only if a query waits for its probes, or if deadlines
//! are too near for a timer. No lock is held around a system call that sends, and a pick never
//! waits for the lock around a call that receives.

use super::super::round_trip::RoundTrips;
use super::super::{ProbeCounters, ProbeToSend, ProbeToken, Refused, Reports};
use super::nap::Nap;
use super::nonces::{Claim, Nonces};
use super::sending::{Queued, Sending};
use crate::client::probe::Purpose;
use crate::datagrams::{BATCH, Datagrams, Incoming, is_drained};
use crate::wire::ProbeKey;
use crate::wire::datagram::{Malformed, ProbeReply, decode_reply};
use core::net::SocketAddr;
use core::task::{Context, Poll};
use core::time::Duration;
use futures_util::task::AtomicWaker;
use slackwater_core::{Instant, LoadReport};
use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use tokio::io::Interest;

/// The most replies, or errors, that are read before other tasks get their turn.
const REPLIES_AT_ONCE: usize = 64;

/// The shortest interval between two reads of the socket by picks.
const COLLECT_INTERVAL_MIN: Duration = Duration::from_micros(100);

/// If no pick comes, answers are read at the latest this long after the first probe left, or after
/// a quarter of the time that the probe has.
const COLLECT_AFTER_MAX: Duration = Duration::from_millis(10);

/// Timers are no finer than this. For answers that are due earlier, the task waits on the socket.
const COLLECT_AFTER_MIN: Duration = Duration::from_millis(1);

/// A full socket is tried again after this pause.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// The pause in receiving after a turn of nothing but errors.
const FAILING_PAUSE: Duration = Duration::from_millis(10);

/// How a turn of receiving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing is left to receive.
    Drained,
    /// There may be more.
    More,
    /// There were only errors, as many as a turn allows.
    Failing,
}

/// The runtime's view of the socket, if answers wake the task.
#[derive(Debug, Default)]
struct Ear {
    socket: Option<tokio::net::UdpSocket>,
    /// There were only errors: do not receive until the nap is over.
    is_tired: bool,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) nonces: Nonces,
    /// At most as long as the nonce table: deadlines free slots of the table, but only the task
    /// shortens this queue.
    pub(super) queue: VecDeque<Queued>,
    pub(super) counters: ProbeCounters,
    round_trips: RoundTrips,
    collected_at: Option<Instant>,
    /// The longest time from sending a probe to reading its answer.
    collect_after: Duration,
    /// Whether answers wake the task: a query waits for them, or their deadlines are near. Once
    /// true, it stays true.
    listens: bool,
}

/// The current batch. Its memory is used again for the next one.
#[derive(Debug)]
struct Inbox {
    datagrams: Incoming,
    answers: Vec<(ProbeToken, LoadReport)>,
}

impl Inbox {
    fn new(at: SocketAddr) -> Self {
        Self {
            datagrams: Incoming::new(at),
            answers: Vec::with_capacity(BATCH),
        }
    }
}

/// A socket with its probes.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) socket: UdpSocket,
    v4: bool,
    pub(super) key: Option<ProbeKey>,
    /// Present once the prober has started.
    reports: OnceLock<Reports>,
    state: Mutex<State>,
    inbox: Mutex<Inbox>,
    waker: AtomicWaker,
}

impl Lane {
    /// `socket` must not block.
    pub(super) fn new(
        socket: UdpSocket,
        key: Option<ProbeKey>,
        outstanding_max: u32,
    ) -> io::Result<Self> {
        let at = socket.local_addr()?;
        Ok(Self {
            v4: at.is_ipv4(),
            socket,
            key,
            reports: OnceLock::new(),
            state: Mutex::new(State {
                nonces: Nonces::new(outstanding_max)?,
                queue: VecDeque::new(),
                counters: ProbeCounters::default(),
                round_trips: RoundTrips::default(),
                collected_at: None,
                collect_after: COLLECT_AFTER_MAX,
                listens: false,
            }),
            inbox: Mutex::new(Inbox::new(at)),
            waker: AtomicWaker::new(),
        })
    }

    pub(super) const fn carries(&self, addr: SocketAddr) -> bool {
        addr.is_ipv4() == self.v4
    }

    /// Returns the counts, including what has arrived until now.
    pub(super) fn counters(&self) -> ProbeCounters {
        if let Some(reports) = self.reports.get()
            && let Some(inbox) = self.try_inbox()
        {
            self.receive(inbox, BATCH, None, reports);
        }
        self.lock().counters
    }

    /// Round-trip time of a probe.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.lock().round_trips.value()
    }

    /// Queues a probe. If the lane does not carry it, the probe is only counted.
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
        let collect_after = probe.deadline.saturating_since(probe.sent_at) / 4;
        state.collect_after = collect_after.min(COLLECT_AFTER_MAX);
        state.listens |= collect_after < COLLECT_AFTER_MIN
            || matches!(probe.token, ProbeToken(Purpose::Round { .. }));
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

    /// Reads the answers that have arrived, if any are awaited and no other call has just done so.
    pub(super) fn collect(&self, now: Instant) {
        let Some(reports) = self.reports.get() else {
            return;
        };
        let awaited = {
            let mut state = self.lock();
            let awaited = state.nonces.awaited(now);
            // A clock that stands still, as in tests, must not prevent a read.
            let just_now = state
                .collected_at
                .is_some_and(|at| now != at && now.saturating_since(at) < COLLECT_INTERVAL_MIN);
            if awaited == 0 || just_now {
                return;
            }
            state.collected_at = Some(now);
            awaited
        };
        if let Some(inbox) = self.try_inbox() {
            self.receive(inbox, awaited, Some(now), reports);
        }
    }

    /// Sends probes, and reads answers that no pick has read, until the task is aborted.
    pub(super) async fn run(&self, reports: Reports) {
        let reports = self.reports.get_or_init(|| reports);
        let mut sending = Sending::new();
        let mut nap = Nap::new();
        let mut ear = Ear::default();
        core::future::poll_fn(|cx| {
            self.waker.register(cx.waker());
            loop {
                // Without a balancer no query waits for an answer.
                let now = reports.now();
                if sending.send_queued(self, now, reports).is_pending() {
                    nap.shorten(FULL_PAUSE);
                }
                self.listen(&mut ear, &mut nap, now, cx, reports);
                if nap.poll(cx).is_pending() {
                    return Poll::<()>::Pending;
                }
                ear.is_tired = false;
                let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
                self.receive(inbox, BATCH, None, reports);
            }
        })
        .await;
    }

    /// Makes sure that awaited answers are read: at the end of `nap`, or when they arrive.
    fn listen(
        &self,
        ear: &mut Ear,
        nap: &mut Nap,
        now: Option<Instant>,
        cx: &mut Context<'_>,
        reports: &Reports,
    ) {
        let (listens, collect_after) = {
            let mut state = self.lock();
            let is_awaited = now.is_some_and(|now| state.nonces.awaited(now) > 0);
            (state.listens, is_awaited.then_some(state.collect_after))
        };
        if listens && ear.socket.is_none() {
            let socket = self.socket.try_clone();
            // If that fails, answers are read at every tick of the timer.
            ear.socket = socket.and_then(tokio::net::UdpSocket::from_std).ok();
        }
        if ear.is_tired {
            return;
        }
        match (&ear.socket, collect_after) {
            (Some(socket), _) => {
                if self.poll_receive(socket, cx, reports) == Turn::Failing {
                    ear.is_tired = true;
                    nap.begin(FAILING_PAUSE);
                }
            }
            (None, Some(after)) => nap.begin(after.max(COLLECT_AFTER_MIN)),
            (None, None) => {}
        }
    }

    /// Reads what has arrived at the socket; `ear` is the runtime's view of it.
    fn poll_receive(
        &self,
        ear: &tokio::net::UdpSocket,
        cx: &mut Context<'_>,
        reports: &Reports,
    ) -> Turn {
        loop {
            match ear.poll_recv_ready(cx) {
                Poll::Pending => return Turn::Drained,
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Turn::Failing,
            }
            let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            let turn = ear.try_io(Interest::READABLE, || {
                match self.receive(inbox, BATCH, None, reports) {
                    Turn::Drained => Err(io::ErrorKind::WouldBlock.into()),
                    turn => Ok(turn),
                }
            });
            match turn {
                Ok(Turn::Failing) => return Turn::Failing,
                Ok(_) => {
                    cx.waker().wake_by_ref();
                    return Turn::More;
                }
                Err(_) => {}
            }
        }
    }

    /// Reads what the socket holds, at first `expected` replies at a time. They count as received
    /// at `now`, or at the current time if that is `None`.
    fn receive(
        &self,
        mut inbox: MutexGuard<'_, Inbox>,
        expected: usize,
        now: Option<Instant>,
        reports: &Reports,
    ) -> Turn {
        let socket = |into: &mut Incoming, most| self.socket.receive_batch(into, most);
        self.receive_turn(socket, &mut inbox, expected, now, reports)
    }

    fn receive_turn(
        &self,
        mut receive: impl FnMut(&mut Incoming, usize) -> io::Result<usize>,
        inbox: &mut Inbox,
        expected: usize,
        now: Option<Instant>,
        reports: &Reports,
    ) -> Turn {
        let mut turn = Turn::Failing;
        let (mut left, mut most) = (REPLIES_AT_ONCE, expected.min(BATCH));
        while left > 0 {
            match receive(&mut inbox.datagrams, most) {
                Ok(got) => {
                    turn = Turn::More;
                    let awaited = self.take_in(inbox, got, now, reports);
                    left = left.saturating_sub(got);
                    if is_drained(got, most) || (expected < BATCH && awaited == 0) {
                        return Turn::Drained;
                    }
                    most = BATCH;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Turn::Drained,
                // An error of the network about an earlier probe. That probe is lost by its
                // deadline.
                Err(_) => left -= 1,
            }
        }
        turn
    }

    /// Handles the first `got` replies of a batch. Returns how many answers are still awaited.
    fn take_in(
        &self,
        inbox: &mut Inbox,
        got: usize,
        now: Option<Instant>,
        reports: &Reports,
    ) -> usize {
        let Inbox { datagrams, answers } = inbox;
        let now = now.or_else(|| reports.now()).unwrap_or(Instant::EPOCH);
        for (datagram, from) in datagrams.first(got) {
            // Not under the lock: checking the tag computes hashes.
            let reply = decode_reply(datagram, self.key.as_ref());
            answers.extend(self.lock().claim(now, reply, from));
        }
        reports.report_all(now, answers);
        self.lock().nonces.awaited(now)
    }

    fn try_inbox(&self) -> Option<MutexGuard<'_, Inbox>> {
        match self.inbox.try_lock() {
            Ok(inbox) => Some(inbox),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            // Another thread is reading the answers, or this one is, further up the stack.
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the probe that the reply answers, if any. Every reply is counted.
    fn claim(
        &mut self,
        now: Instant,
        reply: Result<ProbeReply, Malformed>,
        from: SocketAddr,
    ) -> Option<(ProbeToken, LoadReport)> {
        let counters = &mut self.counters;
        match reply {
            Ok(ProbeReply { nonce, report }) => match self.nonces.claim(nonce, from) {
                Claim::Answer(token, sent_at) => {
                    counters.answered += 1;
                    self.round_trips.add(now.saturating_since(sent_at));
                    return Some((token, report));
                }
                Claim::Replayed => counters.replayed += 1,
                Claim::Foreign => counters.foreign += 1,
            },
            Err(Malformed::Unkeyed | Malformed::Authentication) => counters.unauthenticated += 1,
            Err(_) => counters.malformed += 1,
        }
        None
    }
}

#[cfg(test)]
mod tests;
