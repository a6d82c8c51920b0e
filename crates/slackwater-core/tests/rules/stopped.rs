//! A replica that is stopped for a while, and continues: how soon it has its share again.
//! `[Decision 0020]`

use crate::world::MS;
use core::time::Duration;
use slackwater_core::health::{self, HealthConfig};
use slackwater_core::policy::{
    DEFAULT_POLICY, Decision, Event, Outcome, Policy, PolicySettings, Probe, Query, Ticket,
};
use slackwater_core::tracker::{Arrival, End, LoadTracker};
use slackwater_core::{Instant, NoDraw, ReplicaId, ReplicaIds, SplitMix64};

const REPLICAS: usize = 4;
const STOPPED: usize = 1;
const SERVICE: Duration = Duration::from_millis(5);
const SECOND_NS: u64 = 1_000_000_000;
const SECONDS: u64 = 24;
const STOPS: u64 = 6;
const GOES_ON: u64 = 12;

/// What answers the probes of the stopped replica.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answers {
    /// An agent beside it, which is not stopped.
    Agent,
    /// The replica itself.
    Itself,
    /// Nothing, for any replica.
    None,
}

struct Out {
    ends_at: Instant,
    given_up_at: Instant,
    place: usize,
    ticket: Ticket,
    arrival: Arrival,
}

struct Fleet {
    policy: Box<dyn Policy>,
    replicas: Vec<ReplicaId>,
    trackers: Vec<LoadTracker>,
    answers: Answers,
    patience: Duration,
    now: Instant,
    draw: SplitMix64,
    out: Vec<Out>,
}

impl Fleet {
    fn handle(&mut self, event: Event<'_>) {
        self.policy.handle(self.now, event, &mut self.draw);
    }

    fn new(answers: Answers, patience: Duration) -> Self {
        let settings = PolicySettings::default();
        let mut policy = health::build(&DEFAULT_POLICY, &settings, &HealthConfig::default());
        let mut ids = ReplicaIds::new();
        let replicas: Vec<_> = (0..REPLICAS).filter_map(|_| ids.allocate()).collect();
        for &replica in &replicas {
            policy.handle(Instant::EPOCH, Event::Added(replica), &mut NoDraw);
        }
        Self {
            policy,
            replicas,
            trackers: (0..REPLICAS).map(|_| LoadTracker::default()).collect(),
            answers,
            patience,
            now: Instant::EPOCH,
            draw: SplitMix64::new(7),
            out: Vec::new(),
        }
    }

    fn is_stopped(&self, place: usize) -> bool {
        place == STOPPED && (STOPS..GOES_ON).contains(&(self.now.as_nanos() / SECOND_NS))
    }

    fn place(&self, replica: ReplicaId) -> usize {
        let place = self.replicas.iter().position(|&other| other == replica);
        place.expect("one of the fleet")
    }

    fn query(&mut self) -> usize {
        let decision = (self.policy).choose(self.now, Query::first(), &mut self.draw, None);
        let Decision::Pick(pick) = decision else {
            panic!("{decision:?}")
        };
        let place = self.place(pick.ticket.replica());
        let ends_at = if self.is_stopped(place) {
            Instant::from_nanos(GOES_ON * SECOND_NS) + SERVICE
        } else {
            self.now + SERVICE
        };
        self.out.push(Out {
            ends_at,
            given_up_at: self.now + self.patience,
            place,
            ticket: pick.ticket,
            arrival: self.trackers[place].arrive(self.now),
        });
        place
    }

    /// Queries in service when their replica stops end when it continues.
    fn stop(&mut self) {
        let goes_on = Instant::from_nanos(GOES_ON * SECOND_NS);
        for it in self.out.iter_mut().filter(|it| it.place == STOPPED) {
            it.ends_at = goes_on + SERVICE;
        }
    }

    fn end_queries(&mut self) {
        let is_over = |it: &Out| it.ends_at.min(it.given_up_at) <= self.now;
        while let Some(over) = self.out.iter().position(is_over) {
            let it = self.out.swap_remove(over);
            let (outcome, end) = if it.ends_at <= it.given_up_at {
                (Outcome::Success, End::Success)
            } else {
                (Outcome::Dropped, End::Cancelled)
            };
            self.trackers[it.place].finish(self.now, it.arrival, end);
            (self.policy).handle_query_done(self.now, it.ticket, outcome);
        }
    }

    fn probe(&mut self) {
        self.handle(Event::Timeout);
        while let Some(Probe { id, replica, .. }) = self.policy.poll_probe(self.now, &mut self.draw)
        {
            let place = self.place(replica);
            let is_answered = match self.answers {
                Answers::Agent => true,
                Answers::Itself => !self.is_stopped(place),
                Answers::None => false,
            };
            if is_answered {
                let report = self.trackers[place].report(self.now);
                self.handle(Event::Report(id, &report));
            }
        }
    }

    /// How many of the 300 queries of each second go to the stopped replica.
    fn played(mut self) -> Vec<u32> {
        let mut counts = vec![0; usize::try_from(SECONDS).expect("few")];
        for tick in 0..SECONDS * 1_000 {
            self.now = Instant::EPOCH + MS * u32::try_from(tick).expect("few");
            if tick == STOPS * 1_000 {
                self.stop();
            }
            self.end_queries();
            // 300 a second, not quite evenly.
            if tick % 10 < 3 {
                let second = usize::try_from(tick / 1_000).expect("few");
                counts[second] += u32::from(self.query() == STOPPED);
            }
            self.probe();
        }
        self.end_all();
        counts
    }

    fn end_all(&mut self) {
        for it in self.out.drain(..) {
            self.trackers[it.place].finish(self.now, it.arrival, End::Cancelled);
            (self.policy).handle_query_done(self.now, it.ticket, Outcome::Dropped);
        }
    }
}

#[test]
fn resumed_replica_regains_its_share_within_five_seconds() {
    for answers in [Answers::Agent, Answers::Itself, Answers::None] {
        for patience in [Duration::from_secs(3), Duration::from_mins(1)] {
            let counts = Fleet::new(answers, patience).played();
            let shown = format!("{answers:?}, {patience:?}: {counts:?}");
            let seconds = |from: u64, to: u64| {
                let [from, to] = [from, to].map(|at| usize::try_from(at).expect("few"));
                &counts[from..to]
            };
            let has_share = |&count: &u32| (60..90).contains(&count);
            assert!(seconds(1, STOPS).iter().all(has_share), "before: {shown}");
            let meanwhile: u32 = seconds(STOPS, GOES_ON).iter().sum();
            assert!(meanwhile <= 20, "while it is stopped: {shown}");
            assert!(
                seconds(GOES_ON + 5, SECONDS).iter().all(has_share),
                "{shown}"
            );
        }
    }
}
