//! Entries to bytes.

use super::report::{put_report, whole_ns};
use super::request::put_request;
use super::{Context, answer, kind, narrow};
use crate::bytes::{put_text, put_varint};
use crate::entry::{Answer, Asked, Entry};
use slackwater_core::policy::{Attempt, Event, Outcome, PickReason, ProbeId, RoundReply};
use slackwater_core::{Instant, ReplicaId};

/// Writes the events of a stream, one after another.
#[derive(Debug, Default)]
pub struct Encoder(Context);

impl Encoder {
    /// Appends an event that happened at `at`, which must not be before the last one.
    pub fn put(&mut self, to: &mut Vec<u8>, at: Instant, entry: &Entry<'_>) {
        let (kind, is_plain) = kind_of(entry);
        let passed_ns = at.as_nanos().saturating_sub(self.0.at_ns);
        let same = if passed_ns == 0 { kind::SAME_TIME } else { 0 };
        let plain = if is_plain { kind::PLAIN } else { 0 };
        to.push(kind | same | plain);
        if passed_ns > 0 {
            put_varint(to, passed_ns);
            self.0.at_ns += passed_ns;
        }
        self.put_fields(to, entry, is_plain);
    }

    fn put_fields(&mut self, to: &mut Vec<u8>, entry: &Entry<'_>, is_plain: bool) {
        match entry {
            Entry::Named { replica, name } => {
                self.put_replica(to, *replica);
                put_text(to, name, Entry::NAME_MAX);
            }
            Entry::Event(event) => self.put_event(to, *event),
            Entry::Query { asked, answer } => {
                self.put_asked(to, asked, is_plain);
                self.put_answer(to, answer);
            }
            Entry::Trial { answer } => {
                if !is_plain {
                    self.put_pick(to, *answer);
                }
            }
            Entry::Head {
                sent_at_ns,
                outcome,
            }
            | Entry::Done {
                sent_at_ns,
                outcome,
            } => {
                self.put_since(to, *sent_at_ns);
                to.push(outcome_number(*outcome));
            }
            Entry::Round {
                started_at_ns,
                asked,
                replies,
                answer,
            } => {
                self.put_since(to, *started_at_ns);
                self.put_asked(to, asked, is_plain);
                put_varint(to, replies.len() as u64);
                for (replica, reply) in replies {
                    self.put_replica(to, *replica);
                    put_reply(to, reply);
                }
                self.put_pick(to, *answer);
            }
            Entry::Poll { probe } => {
                if let Some((probe, replica)) = probe {
                    put_probe(to, *probe);
                    self.put_replica(to, *replica);
                }
            }
            Entry::Request {
                sent_at_ns,
                request,
            } => {
                self.put_since(to, *sent_at_ns);
                put_request(to, &mut self.0.texts, request);
            }
        }
    }

    fn put_event(&mut self, to: &mut Vec<u8>, event: Event<'_>) {
        match event {
            Event::Added(replica) => {
                put_varint(to, replica.to_bits() & u64::from(u32::MAX));
                put_varint(to, replica.to_bits() >> u32::BITS);
                self.0.join(replica);
            }
            Event::Removed(replica) => {
                self.put_replica(to, replica);
                self.0.leave(replica);
            }
            Event::Available(replica, _) => self.put_replica(to, replica),
            Event::Identified(replica, identity) => {
                self.put_replica(to, replica);
                put_varint(to, identity.name);
                put_varint(to, identity.part.into());
            }
            Event::Far(replica, round_trip) => {
                self.put_replica(to, replica);
                put_varint(to, whole_ns(round_trip));
            }
            Event::Report(probe, report) => {
                put_probe(to, probe);
                put_report(to, &mut self.0.seen, report);
            }
            Event::SiblingReport(replica, report) | Event::CarriedReport(replica, report) => {
                self.put_replica(to, replica);
                put_report(to, &mut self.0.seen, report);
            }
            Event::SiblingQueries(replica, queries) => {
                self.put_replica(to, replica);
                put_varint(to, u64::from(queries));
            }
            Event::ProbeLost(probe) | Event::ProbeUnsent(probe) => put_probe(to, probe),
            Event::Timeout => (),
        }
    }

    #[inline]
    fn put_replica(&self, to: &mut Vec<u8>, replica: ReplicaId) {
        put_varint(to, self.0.number(replica));
    }

    /// Appends a past time as the nanoseconds since then.
    #[inline]
    fn put_since(&self, to: &mut Vec<u8>, at_ns: u64) {
        put_varint(to, self.0.at_ns.saturating_sub(at_ns));
    }

    fn put_asked(&self, to: &mut Vec<u8>, asked: &Asked<'_>, is_plain: bool) {
        if is_plain {
            return;
        }
        to.push(place_in(&Attempt::ALL, &asked.attempt));
        self.put_several(to, &asked.avoid);
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let pin = flag(asked.pinned.is_some(), 1 + u8::from(asked.has_room));
        let key = flag(asked.key.is_some(), narrow::KEY);
        let among = flag(!asked.among.is_empty(), narrow::AMONG);
        let homes = flag(!asked.homes.is_empty(), narrow::HOMES);
        to.push(pin | key | among | homes);
        if let Some(pinned) = asked.pinned {
            self.put_replica(to, pinned);
        }
        if let Some(key) = asked.key {
            put_varint(to, key.to_bits());
        }
        for replicas in [&asked.among, &asked.homes] {
            if !replicas.is_empty() {
                self.put_several(to, replicas);
            }
        }
    }

    fn put_several(&self, to: &mut Vec<u8>, replicas: &[ReplicaId]) {
        put_varint(to, replicas.len() as u64);
        for replica in replicas {
            self.put_replica(to, *replica);
        }
    }

    fn put_answer(&self, to: &mut Vec<u8>, answer: &Answer) {
        match answer {
            Answer::Pick { replica, reason } => self.put_pick(to, Some((*replica, *reason))),
            Answer::Probe { targets } => {
                to.push(answer::PROBE);
                self.put_several(to, targets);
            }
            Answer::NoReplica => self.put_pick(to, None),
        }
    }

    fn put_pick(&self, to: &mut Vec<u8>, answer: Option<(ReplicaId, PickReason)>) {
        match answer {
            Some((replica, reason)) => {
                to.push(answer::PICK + place_in(&PickReason::ALL, &reason));
                self.put_replica(to, replica);
            }
            None => to.push(answer::NO_REPLICA),
        }
    }
}

fn kind_of(entry: &Entry<'_>) -> (u8, bool) {
    match entry {
        Entry::Named { .. } => (kind::NAMED, false),
        Entry::Event(Event::Added(_)) => (kind::ADD, false),
        Entry::Event(Event::Removed(_)) => (kind::REMOVE, false),
        Entry::Event(Event::Available(_, available)) => (kind::AVAILABLE, *available),
        Entry::Query { asked, .. } => (kind::QUERY, is_plain(asked)),
        Entry::Trial { answer } => (kind::TRIAL, answer.is_none()),
        Entry::Head { .. } => (kind::HEAD, false),
        Entry::Done { .. } => (kind::DONE, false),
        Entry::Round { asked, .. } => (kind::ROUND, is_plain(asked)),
        Entry::Poll { probe } => (kind::POLL, probe.is_none()),
        Entry::Event(Event::Report(..)) => (kind::REPORT, false),
        Entry::Event(Event::SiblingReport(..)) => (kind::SIBLING_REPORT, false),
        Entry::Event(Event::SiblingQueries(..)) => (kind::SIBLING_QUERIES, false),
        Entry::Event(Event::CarriedReport(..)) => (kind::CARRIED_REPORT, false),
        Entry::Event(Event::ProbeLost(_)) => (kind::PROBE_LOST, false),
        Entry::Event(Event::ProbeUnsent(_)) => (kind::PROBE_UNSENT, false),
        Entry::Event(Event::Timeout) => (kind::TIMEOUT, false),
        Entry::Event(Event::Identified(..)) => (kind::IDENTIFIED, false),
        Entry::Event(Event::Far(..)) => (kind::FAR, false),
        Entry::Request { .. } => (kind::REQUEST, false),
    }
}

fn is_plain(asked: &Asked<'_>) -> bool {
    let is_narrow = !asked.among.is_empty() || !asked.homes.is_empty();
    asked.attempt == Attempt::First
        && asked.avoid.is_empty()
        && asked.pinned.is_none()
        && asked.key.is_none()
        && !is_narrow
}

#[inline]
fn put_probe(to: &mut Vec<u8>, probe: ProbeId) {
    put_varint(to, probe.to_bits() & u64::from(u32::MAX));
    put_varint(to, probe.to_bits() >> u32::BITS);
}

fn put_reply(to: &mut Vec<u8>, reply: &RoundReply) {
    // Any other kind of reply counts as no answer.
    let RoundReply::Answered {
        rif,
        latency,
        load_scale,
        draining,
    } = *reply
    else {
        return to.push(0);
    };
    let flags = 1 | u8::from(latency.is_some()) << 1 | u8::from(draining) << 2;
    to.push(flags);
    put_varint(to, rif.count().into());
    put_varint(to, load_scale.in_1024ths().into());
    if let Some(latency) = latency {
        put_varint(to, whole_ns(latency));
    }
}

fn outcome_number(outcome: Outcome) -> u8 {
    place_in(&Outcome::ALL, &outcome)
}

/// Returns the index of `one` in the short list of all values.
fn place_in<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let place = all.iter().position(|other| other == one);
    place.map_or(0, |place| u8::try_from(place).unwrap_or(0))
}
