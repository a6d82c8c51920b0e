//! What a recording tells of the past: each query that was sent, where to, how long it took and how it ended; and how long
//! probes took. Streams of several workers come together in one history, on the recording's clock.

use crate::machine::Time;
use crate::measure::Latencies;
use crate::recording::{Event, Said};
use core::time::Duration;
use slackwater_core::policy::{Attempt, Outcome, PickReason, ProbeId};
use slackwater_core::{Instant, ReplicaId};
use std::collections::BTreeMap;

/// What became of a service's queries.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// What people call the replicas; by number.
    pub replicas: Vec<String>,
    /// Queries that were sent, further tries included; stream by stream, in the order in which they were sent.
    pub queries: Vec<Passed>,
    /// How long probes took, from when they were wanted to when their answers were taken in.
    pub round_trips: Latencies,
    /// Probes that were sent.
    pub probes: u64,
    /// Probes that were not answered in time, or failed.
    pub probes_lost: u64,
    /// Queries for which there was no replica.
    pub turned_away: u64,
    /// Replicas that joined after the first query, or left.
    pub changes: u64,
    /// Times that a replica was taken out of the choice by health checks or the like.
    pub withdrawals: u64,
    numbers: BTreeMap<String, u32>,
}

/// A query, or a further try of one, that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// Which of the streams it is of.
    pub client: u32,
    /// Which try.
    pub attempt: Attempt,
    /// By which rule its replica was chosen.
    pub reason: PickReason,
    /// The replica's number.
    pub replica: u32,
    /// When it asked for a replica, in nanoseconds after the recording began.
    pub arrived_at: Time,
    /// When it had one: later, where replicas were asked first.
    pub sent_at: Time,
    /// When it ended, and how; `None`: it was still out at the end.
    pub end: Option<(Time, Outcome)>,
}

impl Passed {
    /// From its arrival to its end; `None` if it was still out, or nobody waited for it.
    pub fn latency(&self) -> Option<Duration> {
        let (ended_at, outcome) = self.end?;
        let counts = outcome != Outcome::Dropped && self.reason != PickReason::Trial;
        counts.then(|| Duration::from_nanos(ended_at.saturating_sub(self.arrived_at)))
    }

    /// Whether its replica failed it.
    pub fn failed(&self) -> bool {
        self.end.is_some_and(|(_, outcome)| outcome.is_failure())
    }
}

impl History {
    /// Latencies of queries that were answered or failed.
    pub fn latencies(&self) -> Latencies {
        let mut latencies = Latencies::default();
        for latency in self.queries.iter().filter_map(Passed::latency) {
            latencies.record(latency);
        }
        latencies
    }

    /// When the last thing happened to a query.
    pub fn ended_at(&self) -> Time {
        let ends = self.queries.iter();
        let ends = ends.map(|query| query.end.map_or(query.sent_at, |(at, _)| at));
        ends.max().unwrap_or(0)
    }

    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = u32::try_from(self.replicas.len()).unwrap_or(u32::MAX);
        self.replicas.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

/// Reads one stream into a history.
#[derive(Debug)]
pub struct Reader {
    client: u32,
    since: Time,
    numbers: BTreeMap<ReplicaId, u32>,
    /// The places of queries that are out, by the time of their pick on the stream's clock.
    out: BTreeMap<Time, usize>,
    probes: BTreeMap<u64, Time>,
    /// It has had a query.
    has_served: bool,
}

impl Reader {
    /// For the stream of a client of that number, whose clock began so many nanoseconds after the recording.
    pub const fn new(client: u32, since: Time) -> Self {
        Self {
            client,
            since,
            numbers: BTreeMap::new(),
            out: BTreeMap::new(),
            probes: BTreeMap::new(),
            has_served: false,
        }
    }

    /// The stream's next event.
    pub fn read(&mut self, history: &mut History, at: Instant, event: &Event<'_>) {
        let at = at.as_nanos();
        match event {
            Event::Named { replica, name } => {
                let number = history.number(name);
                self.numbers.insert(*replica, number);
            }
            Event::Add { .. } => history.changes += u64::from(self.has_served),
            Event::Remove { replica } => {
                history.changes += 1;
                self.numbers.remove(replica);
            }
            Event::Available { available, .. } => history.withdrawals += u64::from(!available),
            Event::Query { asked, said } => match said {
                Said::Pick { replica, reason } => {
                    self.sent(history, (at, at), asked.attempt, (*replica, *reason));
                }
                Said::Probe { targets } => history.probes += targets.len() as u64,
                Said::NoReplica => history.turned_away += 1,
            },
            Event::Trial { said: Some(pick) } => {
                self.sent(history, (at, at), Attempt::First, *pick);
            }
            Event::Round {
                started_at_ns,
                asked,
                said,
                ..
            } => match said {
                Some(pick) => self.sent(history, (*started_at_ns, at), asked.attempt, *pick),
                None => history.turned_away += 1,
            },
            Event::Done {
                sent_at_ns,
                outcome,
            } => {
                let place = self.out.remove(sent_at_ns);
                if let Some(query) = place.and_then(|place| history.queries.get_mut(place)) {
                    query.end = Some((self.since.saturating_add(at), *outcome));
                }
            }
            Event::Poll {
                probe: Some((probe, _)),
            } => {
                history.probes += 1;
                self.probes.insert(probe.to_bits(), at);
            }
            Event::Report { probe, .. } => {
                if let Some(sent_at) = self.take_probe(*probe) {
                    let took = Duration::from_nanos(at.saturating_sub(sent_at));
                    history.round_trips.record(took);
                }
            }
            Event::ProbeLost { probe } => {
                history.probes_lost += u64::from(self.take_probe(*probe).is_some());
            }
            Event::ProbeUnsent { probe } => {
                self.take_probe(*probe);
            }
            Event::Trial { said: None }
            | Event::Head { .. }
            | Event::Poll { probe: None }
            | Event::SiblingReport { .. }
            | Event::SiblingQueries { .. }
            | Event::CarriedReport { .. }
            | Event::Timeout => (),
        }
    }

    fn take_probe(&mut self, probe: ProbeId) -> Option<Time> {
        self.probes.remove(&probe.to_bits())
    }

    fn sent(
        &mut self,
        history: &mut History,
        (arrived_at, sent_at): (Time, Time),
        attempt: Attempt,
        (replica, reason): (ReplicaId, PickReason),
    ) {
        let known = self.numbers.get(&replica).copied();
        let number = known.unwrap_or_else(|| history.number(&replica.to_string()));
        self.has_served = true;
        self.out.insert(sent_at, history.queries.len());
        history.queries.push(Passed {
            client: self.client,
            attempt,
            reason,
            replica: number,
            arrived_at: self.since.saturating_add(arrived_at),
            sent_at: self.since.saturating_add(sent_at),
            end: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Asked;
    use slackwater_core::policy::Query;
    use slackwater_core::{LoadReport, ReplicaIds, Rif};
    use std::borrow::Cow;

    const MS: u64 = 1_000_000;

    fn name(replica: ReplicaId, name: &str) -> Event<'_> {
        let name = Cow::Borrowed(name);
        Event::Named { replica, name }
    }

    fn query(said: Said) -> Event<'static> {
        let asked = Asked::new(Query::first());
        Event::Query { asked, said }
    }

    fn pick(replica: ReplicaId) -> Said {
        let reason = PickReason::Cold;
        Said::Pick { replica, reason }
    }

    fn round(began_at_ms: u64, replica: ReplicaId) -> Event<'static> {
        Event::Round {
            started_at_ns: began_at_ms * MS,
            asked: Asked::new(Query::first()),
            replies: Vec::new(),
            said: Some((replica, PickReason::Hot)),
        }
    }

    fn done(picked_at_ms: u64, outcome: Outcome) -> Event<'static> {
        Event::Done {
            sent_at_ns: picked_at_ms * MS,
            outcome,
        }
    }

    #[test]
    fn streams_come_together_on_one_clock_and_by_replicas_names() {
        let mut ids = ReplicaIds::new();
        let [a, b] = [(); 2].map(|()| ids.allocate().expect("room"));
        let probe = ProbeId::from_bits(3);
        let wanted = Some((probe, a));
        let report = Cow::Owned(LoadReport::new(Rif::ZERO, None));
        let targets = vec![a, b];
        let first = vec![
            (0, Event::Add { replica: a }),
            (0, name(a, "one")),
            (5, query(pick(a))),
            (5, Event::Poll { probe: wanted }),
            (7, Event::Report { probe, report }),
            (9, done(5, Outcome::Success)),
            (9, query(pick(b))),
        ];
        let second = vec![
            (0, Event::Add { replica: b }),
            (0, name(b, "one")),
            (1, query(Said::Probe { targets })),
            (3, round(1, b)),
            (8, done(3, Outcome::Broken)),
        ];
        let mut history = History::default();
        for (client, (since, events)) in (0..).zip([(0, first), (100 * MS, second)]) {
            let mut reader = Reader::new(client, since);
            for (at_ms, event) in events {
                reader.read(&mut history, Instant::from_nanos(at_ms * MS), &event);
            }
        }
        let named = ["one", "r1"];
        assert_eq!(history.replicas, named, "who has no name goes by its id");
        let short: Vec<_> = (history.queries.iter())
            .map(|query| (query.client, query.replica, query.latency(), query.failed()))
            .collect();
        let ms = |ms| Some(Duration::from_millis(ms));
        let expected = [
            (0, 0, ms(4), false),
            (0, 1, None, false),
            (1, 0, ms(7), true),
        ];
        assert_eq!(short, expected);
        let last = history.queries[2];
        assert_eq!((last.arrived_at, last.sent_at), (101 * MS, 103 * MS));
        assert_eq!(history.ended_at(), 108 * MS);
        assert_eq!(history.round_trips.mean(), Duration::from_millis(2));
        assert_eq!((history.probes, history.probes_lost), (3, 0));
        assert_eq!(history.latencies().count(), 2);
        assert_eq!(
            history.changes, 0,
            "each fleet was there from the beginning"
        );
    }
}
