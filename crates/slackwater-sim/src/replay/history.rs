//! The history in a recording: each query that was sent, its replica, how long it took and how it
//! ended; the changes of the fleet at each policy; and how long probes took. Streams of several
//! workers are joined in one history, on the recording's clock.

use super::members::Members;
use super::requests::Requests;
use crate::machine::Time;
use crate::measure::Latencies;
use crate::scenario::{News, ReplayChange};
use core::time::Duration;
use slackwater_core::policy::{Attempt, Event, Outcome, PickReason, ProbeId, Query, RoundReply};
use slackwater_core::{Instant, ReplicaId};
use slackwater_recording::{Answer, Asked, Entry};
use std::collections::{BTreeMap, BTreeSet};

/// The history of a service's queries.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The operator's names of the replicas, by number.
    pub replicas: Vec<String>,
    /// Queries that were sent, including further attempts; stream by stream, in the order in which
    /// they were sent.
    pub queries: Vec<Passed>,
    /// Duration of probes, from when they were triggered to when their answers were handled. For
    /// synchronous rounds, it is the time of the round.
    pub round_trips: Latencies,
    /// Probes that were answered.
    pub probes_answered: u64,
    /// Probes that were sent.
    pub probes: u64,
    /// Probes that were not answered in time, or failed.
    pub probes_lost: u64,
    /// Whether any report had the replica's capacity.
    pub reports_capacity: bool,
    /// Whether any response carried a report.
    pub carries_reports: bool,
    /// Attempts for which no replica was available.
    pub turned_away: u64,
    /// Replicas that joined after the first query, or left.
    pub changes: u64,
    /// Times that a replica was withdrawn from the choice, for example by health checks.
    pub withdrawals: u64,
    /// The number of the replica of each part. A policy sees a replica as several parts, as many as
    /// its weight.
    pub parts: Vec<u32>,
    /// Records of requests, if there are any.
    pub requests: Requests,
    /// Changes of the fleet at the streams' policies: stream by stream, in the order of time, on
    /// the recording's clock.
    pub news: Vec<ReplayChange>,
    numbers: BTreeMap<String, u32>,
    /// The parts of each replica.
    parts_of: Vec<Vec<u32>>,
}

/// An attempt at a query that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The number of its stream.
    pub client: u32,
    /// Number of the attempt.
    pub attempt: Attempt,
    /// The rule that chose its replica.
    pub reason: PickReason,
    /// Whether it is a copy that was sent as a trial of its replica. No client waits for it.
    pub is_shadow: bool,
    /// Whether it had a key.
    pub has_key: bool,
    /// The replica's number.
    pub replica: u32,
    /// The number of the replica that it was pinned to.
    pub pinned: Option<u32>,
    /// When it needed a replica, in nanoseconds after the recording began.
    pub arrived_at: Time,
    /// When the replica was picked. This is later where replicas were probed first.
    pub sent_at: Time,
    /// When it ended, and how; `None`: it was still in flight at the end.
    pub end: Option<(Time, Outcome)>,
}

impl Passed {
    /// Returns the time from its arrival to its end; `None` if it was still in flight, or no client
    /// waited for it.
    pub fn latency(&self) -> Option<Duration> {
        let (ended_at, outcome) = self.end?;
        let counts = outcome != Outcome::Dropped && !self.is_shadow;
        counts.then(|| Duration::from_nanos(ended_at.saturating_sub(self.arrived_at)))
    }

    /// Returns whether it is a request's first attempt, for which a client waits.
    pub fn is_first(&self) -> bool {
        self.attempt == Attempt::First && !self.is_shadow
    }

    /// Returns whether it is a first attempt that was not given up: its outcome is then its
    /// replica's.
    pub fn is_settled(&self) -> bool {
        let outcome = self.end.map(|(_, outcome)| outcome);
        self.is_first() && outcome.is_some_and(|outcome| outcome != Outcome::Dropped)
    }

    /// Returns whether its replica failed it.
    pub fn failed(&self) -> bool {
        self.end.is_some_and(|(_, outcome)| outcome.is_failure())
    }
}

impl History {
    /// Returns the latencies of queries that were answered or failed.
    pub fn latencies(&self) -> Latencies {
        let mut latencies = Latencies::default();
        for latency in self.queries.iter().filter_map(Passed::latency) {
            latencies.record(latency);
        }
        latencies
    }

    /// Returns the history of a recording that ended at this time. Counts of probes and of changes
    /// stay those of the whole.
    pub(super) fn until(&self, ends: Time) -> Self {
        let mut kept = self.clone();
        kept.queries.retain(|query| query.sent_at < ends);
        for query in &mut kept.queries {
            query.end = query.end.filter(|(ended_at, _)| *ended_at <= ends);
        }
        kept
    }

    /// Returns the time of the last event of a query.
    pub fn ended_at(&self) -> Time {
        let ends = self.queries.iter();
        let ends = ends.map(|query| query.end.map_or(query.sent_at, |(at, _)| at));
        ends.max().unwrap_or(0)
    }

    pub(super) fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = u32::try_from(self.replicas.len()).unwrap_or(u32::MAX);
        self.replicas.push(name.to_owned());
        self.parts_of.push(Vec::new());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// Returns a part of the replica that is not in `taken`.
    pub(super) fn free_part(&mut self, replica: u32, taken: &BTreeSet<u32>) -> u32 {
        let Some(parts) = self.parts_of.get_mut(replica as usize) else {
            return u32::MAX;
        };
        if let Some(&part) = parts.iter().find(|part| !taken.contains(part)) {
            return part;
        }
        let part = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
        parts.push(part);
        self.parts.push(replica);
        part
    }
}

/// A query in progress, as its policy received it, and whether it is a trial.
type Tried<'a> = (&'a Asked<'a>, bool);

/// Reads one stream into a history.
#[derive(Debug)]
pub struct Reader {
    client: u32,
    since: Time,
    latest: Time,
    members: Members,
    /// The indices of queries in flight, by the time of their pick on the stream's clock.
    out: BTreeMap<Time, usize>,
    probes: BTreeMap<u64, Time>,
    /// Whether it has had a query.
    has_served: bool,
}

impl Reader {
    /// Returns a reader for the stream of this client, whose clock began `since` nanoseconds after
    /// the recording.
    pub fn new(client: u32, since: Time) -> Self {
        Self {
            client,
            since,
            latest: 0,
            members: Members::default(),
            out: BTreeMap::new(),
            probes: BTreeMap::new(),
            has_served: false,
        }
    }

    /// Reads the stream's next entry.
    pub fn read(&mut self, history: &mut History, at: Instant, entry: &Entry<'_>) {
        let at = at.as_nanos();
        self.latest = at;
        match entry {
            Entry::Named { replica, name } => {
                let number = history.number(name);
                self.members.name(history, *replica, number);
            }
            Entry::Event(event) => self.read_event(history, at, *event),
            Entry::Query { asked, answer } => match answer {
                Answer::Pick { replica, reason } => {
                    self.sent(history, (at, at), (asked, false), (*replica, *reason));
                }
                Answer::Probe { targets } => history.probes += targets.len() as u64,
                Answer::NoReplica => history.turned_away += 1,
            },
            Entry::Trial { answer: Some(pick) } => {
                let asked = Asked::new(Query::first());
                self.sent(history, (at, at), (&asked, true), *pick);
            }
            Entry::Round {
                started_at_ns,
                asked,
                replies,
                answer,
            } => {
                let lost = replies
                    .iter()
                    .filter(|(_, reply)| *reply == RoundReply::Lost);
                let lost = lost.count() as u64;
                let answered = replies.len() as u64 - lost;
                history.probes_lost += lost;
                history.probes_answered += answered;
                // A round without any answer only shows its deadline.
                if answered > 0 {
                    let took = Duration::from_nanos(at.saturating_sub(*started_at_ns));
                    history.round_trips.record(took);
                }
                match answer {
                    Some(pick) => self.sent(history, (*started_at_ns, at), (asked, false), *pick),
                    None => history.turned_away += 1,
                }
            }
            Entry::Done {
                sent_at_ns,
                outcome,
            } => {
                let place = self.out.remove(sent_at_ns);
                if let Some(query) = place.and_then(|place| history.queries.get_mut(place)) {
                    query.end = Some((self.since.saturating_add(at), *outcome));
                }
            }
            Entry::Poll {
                probe: Some((probe, _)),
            } => {
                history.probes += 1;
                self.probes.insert(probe.to_bits(), at);
            }
            Entry::Request {
                sent_at_ns,
                request,
            } => {
                let took = Duration::from_nanos(at.saturating_sub(*sent_at_ns));
                history.requests.note(request, took);
            }
            Entry::Trial { answer: None } | Entry::Head { .. } | Entry::Poll { probe: None } => (),
        }
    }

    fn read_event(&mut self, history: &mut History, at: Time, event: Event<'_>) {
        match event {
            Event::Added(replica) => {
                history.changes += u64::from(self.has_served);
                self.note(history, replica, News::Joined);
            }
            Event::Removed(replica) => {
                history.changes += 1;
                self.note(history, replica, News::Left);
            }
            Event::Available(replica, available) => {
                history.withdrawals += u64::from(!available);
                let news = if available {
                    News::Offered
                } else {
                    News::Withdrawn
                };
                self.note(history, replica, news);
            }
            Event::Report(probe, report) => {
                history.reports_capacity |= report.capacity_millirif.is_some();
                if let Some(sent_at) = self.take_probe(probe) {
                    let took = Duration::from_nanos(at.saturating_sub(sent_at));
                    history.round_trips.record(took);
                    history.probes_answered += 1;
                }
            }
            Event::ProbeLost(probe) => {
                history.probes_lost += u64::from(self.take_probe(probe).is_some());
            }
            Event::ProbeUnsent(probe) => {
                self.take_probe(probe);
            }
            Event::CarriedReport(_, report) => {
                history.carries_reports = true;
                history.reports_capacity |= report.capacity_millirif.is_some();
            }
            Event::SiblingReport(..)
            | Event::Identified(..)
            | Event::Far(..)
            | Event::SiblingQueries(..)
            | Event::Timeout => (),
        }
    }

    /// Ends the stream. Its policy is no longer used, and another one may have replaced it.
    pub fn finish(mut self, history: &mut History) {
        for replica in self.members.all() {
            self.note(history, replica, News::Left);
        }
    }

    fn note(&mut self, history: &mut History, replica: ReplicaId, news: News) {
        let change = ReplayChange {
            at_ns: self.since.saturating_add(self.latest),
            client: self.client,
            part: u32::MAX,
            news,
        };
        self.members.take_news(history, replica, change);
    }

    fn take_probe(&mut self, probe: ProbeId) -> Option<Time> {
        self.probes.remove(&probe.to_bits())
    }

    fn sent(
        &mut self,
        history: &mut History,
        (arrived_at, sent_at): (Time, Time),
        (asked, is_shadow): Tried<'_>,
        (replica, reason): (ReplicaId, PickReason),
    ) {
        let number = self.members.number(history, replica);
        let pinned = asked.pinned;
        let pinned = pinned.map(|replica| self.members.number(history, replica));
        self.has_served = true;
        self.out.insert(sent_at, history.queries.len());
        history.queries.push(Passed {
            client: self.client,
            attempt: asked.attempt,
            reason,
            is_shadow,
            has_key: asked.key.is_some(),
            replica: number,
            pinned,
            arrived_at: self.since.saturating_add(arrived_at),
            sent_at: self.since.saturating_add(sent_at),
            end: None,
        });
    }
}

#[cfg(test)]
mod tests;
