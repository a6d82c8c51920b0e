//! A client with a small fleet whose replicas have set latencies and failure rates.

use core::cmp::Reverse;
use core::time::Duration;
use slackwater_core::draw::below;
use slackwater_core::health::{HealthCounters, HealthSettings, HealthState, HealthView, build};
use slackwater_core::policy::{
    Decision, Event, Outcome, PickReason, Policy, PolicySettings, Query, Settings, Ticket,
    policy_named,
};
use slackwater_core::{Instant, LoadReport, ReplicaId, ReplicaIds, Rif, SplitMix64};
use std::collections::BinaryHeap;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// How a replica behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Percentage of queries that fail.
    pub(crate) fails: u32,
    /// Failures per thousand of the others.
    pub(crate) fails_rarely: u32,
    pub(crate) bad: Outcome,
    pub(crate) takes: Duration,
    pub(crate) fails_after: Duration,
    /// Heads come before the failures, and are good ones.
    pub(crate) head_after: Option<Duration>,
    /// It answers nothing.
    pub(crate) is_stopped: bool,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            fails: 0,
            fails_rarely: 0,
            bad: Outcome::Failed,
            takes: 10 * MS,
            fails_after: MS,
            head_after: None,
            is_stopped: false,
        }
    }
}

/// The results of some queries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    pub(crate) queries: u32,
    pub(crate) failed: u32,
    pub(crate) trials: u32,
    /// Copies sent as trials.
    pub(crate) shadows: u32,
    /// Queries per place.
    pub(crate) sent: Vec<u32>,
}

impl Shown {
    /// Failures per thousand.
    pub(crate) fn failed_per_mille(&self) -> u32 {
        self.failed * 1_000 / self.queries
    }

    /// Percentage of queries at this place.
    pub(crate) fn share(&self, place: usize) -> u32 {
        self.sent[place] * 100 / self.queries
    }
}

pub(crate) struct Client {
    pub(crate) policy: Box<dyn Policy>,
    ids: ReplicaIds,
    pub(crate) replicas: Vec<ReplicaId>,
    pub(crate) manners: Vec<Manner>,
    pub(crate) now: Instant,
    draw: SplitMix64,
    luck: SplitMix64,
    /// Ends to come: when, in which order, the ticket's place, how.
    ends: BinaryHeap<Reverse<(Instant, usize)>>,
    heads: BinaryHeap<Reverse<(Instant, usize)>>,
    tickets: Vec<Option<(Ticket, Outcome)>>,
    /// Tickets at replicas that have stopped.
    pub(crate) stuck: Vec<Ticket>,
    pub(crate) gap: Duration,
    /// Percentage of queries that may be copied.
    pub(crate) may_be_copied: u32,
    /// Every query is pinned, to one replica after the other.
    pub(crate) is_sticky: bool,
}

impl Client {
    pub(crate) fn handle(&mut self, event: Event<'_>) {
        self.policy.handle(self.now, event, &mut self.draw);
    }

    pub(crate) fn new(policy: &str, replicas: usize, settings: HealthSettings) -> Self {
        let entry = policy_named(policy).expect("a policy");
        let config = settings.validate().expect("in range");
        let mut client = Self {
            policy: build(entry, &PolicySettings::default(), &config),
            ids: ReplicaIds::new(),
            replicas: Vec::new(),
            manners: Vec::new(),
            now: Instant::EPOCH + SECOND,
            draw: SplitMix64::new(5),
            luck: SplitMix64::new(6),
            ends: BinaryHeap::new(),
            heads: BinaryHeap::new(),
            tickets: Vec::new(),
            stuck: Vec::new(),
            gap: 2 * MS,
            may_be_copied: 0,
            is_sticky: false,
        };
        for _ in 0..replicas {
            client.join();
        }
        client
    }

    pub(crate) fn join(&mut self) -> usize {
        let replica = self.ids.allocate().expect("room");
        self.handle(Event::Added(replica));
        self.replicas.push(replica);
        self.manners.push(Manner::default());
        self.replicas.len() - 1
    }

    pub(crate) fn place(&self, replica: ReplicaId) -> usize {
        let place = self.replicas.iter().position(|&other| other == replica);
        place.expect("known")
    }

    /// Sends queries at even intervals during `span`. Those that end by then have ended.
    pub(crate) fn run(&mut self, span: Duration) -> Shown {
        let mut shown = Shown {
            sent: vec![0; self.replicas.len()],
            ..Shown::default()
        };
        let end = self.now + span;
        while self.now < end {
            self.end_due();
            self.probe();
            self.query(&mut shown);
            self.now += self.gap;
        }
        shown
    }

    fn query(&mut self, shown: &mut Shown) {
        let own = self.replicas[shown.queries as usize % self.replicas.len()];
        let query = Query {
            pinned: self.is_sticky.then_some(own),
            ..Query::first()
        };
        let decision = self.policy.choose(self.now, query, &mut self.draw, None);
        let pick = match decision {
            Decision::Pick(pick) => pick,
            Decision::Probe(mut round) => {
                for target in round.clone().targets() {
                    if !self.manners[self.place(target)].is_stopped {
                        round.handle_report(target, &self.report(target));
                    }
                }
                let pick = (self.policy)
                    .choose(
                        self.now,
                        Query {
                            round: Some(&round),
                            ..query
                        },
                        &mut self.draw,
                        None,
                    )
                    .pick();
                pick.expect("replicas are known")
            }
            Decision::NoReplica => panic!("replicas are known"),
        };
        let place = self.place(pick.ticket.replica());
        shown.queries += 1;
        shown.sent[place] += 1;
        shown.trials += u32::from(pick.reason == PickReason::Trial);
        shown.failed += u32::from(self.send(pick.ticket));
        let may_be_copied =
            self.may_be_copied > 0 && below(&mut self.luck, 100) < self.may_be_copied;
        if may_be_copied && self.policy.wants_trial() {
            let pick = self
                .policy
                .choose(self.now, Query::trial(), &mut self.draw, None)
                .pick();
            let pick = pick.expect("a due trial");
            assert_eq!(pick.reason, PickReason::Trial);
            shown.shadows += 1;
            self.send(pick.ticket);
        }
    }

    /// Sends a query. Returns whether it fails.
    fn send(&mut self, ticket: Ticket) -> bool {
        let manner = self.manners[self.place(ticket.replica())];
        if manner.is_stopped {
            self.stuck.push(ticket);
            return false;
        }
        let fails_rarely = manner.fails_rarely;
        let fails = below(&mut self.luck, 100) < manner.fails
            || fails_rarely > 0 && below(&mut self.luck, 1_000) < fails_rarely;
        let (after, outcome) = if fails {
            (manner.fails_after, manner.bad)
        } else {
            (manner.takes, Outcome::Success)
        };
        let head_after = manner.head_after.filter(|&head_after| head_after < after);
        if let Some(head_after) = head_after {
            (self.heads).push(Reverse((self.now + head_after, self.tickets.len())));
        }
        self.ends
            .push(Reverse((self.now + after, self.tickets.len())));
        self.tickets.push(Some((ticket, outcome)));
        fails
    }

    fn end_due(&mut self) {
        while let Some(&Reverse((at, place))) = self.heads.peek()
            && at <= self.now
        {
            self.heads.pop();
            if let Some(Some((ticket, _))) = self.tickets.get_mut(place) {
                self.policy.handle_head(at, ticket, Outcome::Success);
            }
        }
        while let Some(&Reverse((at, place))) = self.ends.peek()
            && at <= self.now
        {
            self.ends.pop();
            if let Some((ticket, outcome)) = self.tickets[place].take() {
                self.policy.handle_query_done(at, ticket, outcome);
            }
        }
    }

    fn probe(&mut self) {
        if self.policy.poll_timeout().is_some_and(|at| at <= self.now) {
            self.handle(Event::Timeout);
        }
        while let Some(probe) = self.policy.poll_probe(self.now, &mut self.draw) {
            if !self.manners[self.place(probe.replica)].is_stopped {
                let report = self.report(probe.replica);
                self.handle(Event::Report(probe.id, &report));
            }
        }
    }

    fn report(&self, replica: ReplicaId) -> LoadReport {
        let takes = self.manners[self.place(replica)].takes;
        LoadReport::new(Rif::new(1), Some(takes))
    }

    /// Makes a stopped replica continue: its queries end well.
    pub(crate) fn resume(&mut self, place: usize) {
        self.manners[place].is_stopped = false;
        let replica = self.replicas[place];
        for ticket in core::mem::take(&mut self.stuck) {
            if ticket.replica() == replica {
                (self.policy).handle_query_done(self.now, ticket, Outcome::Success);
            } else {
                self.stuck.push(ticket);
            }
        }
    }

    pub(crate) fn view(&self, place: usize) -> HealthView {
        let snapshot = self.policy.snapshot(self.now);
        let found = snapshot.health.iter();
        let mut found = found.filter(|view| view.replica == self.replicas[place]);
        *found.next().expect("known")
    }

    pub(crate) fn states(&self) -> Vec<HealthState> {
        (0..self.replicas.len())
            .map(|place| self.view(place).state)
            .collect()
    }

    /// Delivers a report with a response of the replica at that place.
    pub(crate) fn hear(&mut self, place: usize, report: &LoadReport) {
        let replica = self.replicas[place];
        self.handle(Event::CarriedReport(replica, report));
    }

    pub(crate) fn counters(&self) -> HealthCounters {
        self.policy.counters().health
    }
}

/// One policy of each kind: random, in turn, by own load, by own latency, by probes, by probes for
/// each query.
pub(crate) const KINDS: [&str; 7] = [
    "random",
    "round_robin",
    "least_loaded",
    "peak_ewma",
    "els",
    "prequal",
    "prequal_sync",
];
