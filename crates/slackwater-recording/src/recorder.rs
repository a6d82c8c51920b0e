//! The recorder: a wrapper around a policy that passes each call on and records it.
//!
//! It changes two things, so that the recording is sufficient. Draws come from its own generator.
//! And picks are at least a nanosecond apart, so that the time of its pick identifies a query. If
//! the clock steps back, the recorder repeats the last time, as policies do anyway.

use super::codec::Encoder;
use super::entry::{Answer, Asked, Entry, Request};
use core::fmt::Debug;
use core::time::Duration;
use slackwater_core::policy::{
    Attempt, Counters, Decision, Event, Explanation, Fleet, Outcome, PickReason, Policy, Probe,
    ProbeId, Query, Snapshot, Ticket,
};
use slackwater_core::{Draw, Instant, ReplicaId, SplitMix64};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Receives blocks of events: each that is full, what a [`Stream::flush`] finds, and the rest at
/// the end of a policy.
pub trait Sink: Debug + Send + Sync {
    /// Takes the next block of a stream, without waiting. `false`: neither this block nor any later
    /// one is kept.
    fn take(&self, stream: u32, events: Vec<u8>) -> bool;
}

/// A block is passed to the sink when it has this many bytes.
const BLOCK_BYTES: usize = 32 * 1_024;
/// Headroom for the event that makes a block full: a list of replicas may be long.
const HEADROOM_BYTES: usize = 512;

/// Wraps a policy in a recorder and returns it with its stream. The policy's draws come from
/// `seed`, and the events go to `sink`.
pub fn record(
    policy: Box<dyn Policy>,
    seed: u64,
    stream: u32,
    sink: Arc<dyn Sink>,
) -> (Box<dyn Policy>, Stream) {
    let stream = Stream(Arc::new(Mutex::new(BlockWriter {
        number: stream,
        encoder: Encoder::default(),
        block: Vec::with_capacity(BLOCK_BYTES + HEADROOM_BYTES),
        latest: Instant::EPOCH,
        sink: Some(sink),
    })));
    let recorded = Recorded {
        policy,
        draw: SplitMix64::new(seed),
        latest: Instant::EPOCH,
        next_pick: Instant::EPOCH,
        stream: stream.clone(),
    };
    (Box::new(recorded), stream)
}

/// The stream of events of one policy.
#[derive(Clone, Debug)]
pub struct Stream(Arc<Mutex<BlockWriter>>);

impl Stream {
    /// Records the operator's name of a replica that has joined.
    pub fn name(&self, replica: ReplicaId, name: &str) {
        let mut writer = self.writer();
        let (at, name) = (writer.latest, Cow::Borrowed(name));
        writer.put(at, &Entry::Named { replica, name });
    }

    /// Records a finished request. `sent_at` is when the first replica was picked for it.
    pub fn request(&self, sent_at: Instant, request: &Request) {
        let (sent_at_ns, request) = (sent_at.as_nanos(), Cow::Borrowed(request));
        let mut writer = self.writer();
        let at = writer.latest;
        let entry = Entry::Request {
            sent_at_ns,
            request,
        };
        writer.put(at, &entry);
    }

    /// Returns whether the policy is gone and this is the last reference to the stream.
    pub fn is_over(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Passes the events so far to the sink. Later events start another block. Without it, the
    /// events of a quiet policy wait until the block is full; if the process is killed, they are
    /// lost.
    pub fn flush(&self) {
        self.writer().flush();
    }

    fn writer(&self) -> MutexGuard<'_, BlockWriter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn put(&self, at: Instant, entry: &Entry<'_>) {
        self.writer().put(at, entry);
    }
}

/// The block that is being written.
#[derive(Debug)]
struct BlockWriter {
    number: u32,
    encoder: Encoder,
    block: Vec<u8>,
    latest: Instant,
    /// `None`: nothing is kept any longer.
    sink: Option<Arc<dyn Sink>>,
}

impl BlockWriter {
    fn put(&mut self, at: Instant, entry: &Entry<'_>) {
        self.latest = at;
        if self.sink.is_none() {
            return;
        }
        if self.block.len() >= BLOCK_BYTES {
            self.flush();
        }
        self.encoder.put(&mut self.block, at, entry);
    }

    fn flush(&mut self) {
        if self.block.is_empty() {
            return;
        }
        // A copy needs no more memory than its events, however long it waits in the sink.
        let block = self.block.clone();
        self.block.clear();
        let is_kept = (self.sink.as_ref()).is_some_and(|sink| sink.take(self.number, block));
        if !is_kept {
            self.sink = None;
        }
    }
}

impl Drop for BlockWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

/// A policy that is recorded.
#[derive(Debug)]
struct Recorded {
    policy: Box<dyn Policy>,
    draw: SplitMix64,
    latest: Instant,
    /// The earliest time of the next pick.
    next_pick: Instant,
    stream: Stream,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.stream.flush();
    }
}

impl Recorded {
    #[inline]
    fn time(&mut self, now: Instant) -> Instant {
        self.latest = self.latest.max(now);
        self.latest
    }

    #[inline]
    fn time_of_pick(&mut self, now: Instant) -> Instant {
        let now = self.time(now.max(self.next_pick));
        self.next_pick = now + Duration::from_nanos(1);
        now
    }
}

fn picked(decision: &Decision) -> Option<(ReplicaId, PickReason)> {
    match decision {
        Decision::Pick(pick) => Some((pick.ticket.replica(), pick.reason)),
        Decision::Probe(_) | Decision::NoReplica => None,
    }
}

fn answer_of(decision: &Decision) -> Answer {
    match decision {
        Decision::Pick(pick) => Answer::Pick {
            replica: pick.ticket.replica(),
            reason: pick.reason,
        },
        Decision::Probe(round) => Answer::Probe {
            targets: round.targets().collect(),
        },
        Decision::NoReplica => Answer::NoReplica,
    }
}

impl Policy for Recorded {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn handle(&mut self, now: Instant, event: Event<'_>, _draw: &mut dyn Draw) {
        let now = match event {
            // Policies do not use the time of these two events.
            Event::SiblingQueries(..) | Event::ProbeUnsent(_) => self.latest,
            _ => self.time(now),
        };
        self.policy.handle(now, event, &mut self.draw);
        self.stream.put(now, &Entry::Event(event));
    }

    fn choose(
        &mut self,
        now: Instant,
        query: Query<'_>,
        _draw: &mut dyn Draw,
        explanation: Option<&mut Explanation>,
    ) -> Decision {
        let now = self.time_of_pick(now);
        let (policy, draw) = (&mut self.policy, &mut self.draw);
        let decision = policy.choose(now, query, draw, explanation);
        let asked = Asked::new(query);
        let entry = match query.round {
            None if query.attempt == Attempt::Trial => Entry::Trial {
                answer: picked(&decision),
            },
            None => Entry::Query {
                asked,
                answer: answer_of(&decision),
            },
            Some(round) => Entry::Round {
                started_at_ns: round.started_at().as_nanos(),
                asked,
                replies: round.replies().collect(),
                answer: picked(&decision),
            },
        };
        self.stream.put(now, &entry);
        decision
    }

    fn handle_head(&mut self, now: Instant, ticket: &mut Ticket, outcome: Outcome) {
        let now = self.time(now);
        self.policy.handle_head(now, ticket, outcome);
        let sent_at_ns = ticket.sent_at().as_nanos();
        let entry = Entry::Head {
            sent_at_ns,
            outcome,
        };
        self.stream.put(now, &entry);
    }

    fn handle_query_done(&mut self, now: Instant, ticket: Ticket, outcome: Outcome) {
        let now = self.time(now);
        let sent_at_ns = ticket.sent_at().as_nanos();
        self.policy.handle_query_done(now, ticket, outcome);
        let entry = Entry::Done {
            sent_at_ns,
            outcome,
        };
        self.stream.put(now, &entry);
    }

    fn poll_probe(&mut self, now: Instant, _draw: &mut dyn Draw) -> Option<Probe> {
        let now = self.time(now);
        let probe = self.policy.poll_probe(now, &mut self.draw);
        let entry = Entry::Poll {
            probe: probe.map(|probe| (probe.id, probe.replica)),
        };
        self.stream.put(now, &entry);
        probe
    }

    fn probe_target(&self, probe: ProbeId) -> Option<ReplicaId> {
        self.policy.probe_target(probe)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.policy.poll_timeout()
    }

    fn wants_trial(&self) -> bool {
        self.policy.wants_trial()
    }

    fn spares_some(&mut self, now: Instant) -> bool {
        self.policy.spares_some(now)
    }

    fn fleet(&self) -> &Fleet {
        self.policy.fleet()
    }

    fn counters(&self) -> Counters {
        self.policy.counters()
    }

    fn snapshot(&self, now: Instant) -> Snapshot {
        self.policy.snapshot(now)
    }
}
