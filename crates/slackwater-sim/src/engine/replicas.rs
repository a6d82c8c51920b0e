//! The replicas: each a machine, a load tracker and what is known of the process beside it.

use super::learning::Learning;
use super::query::Attempt;
use super::queue::Earliest;
use crate::machine::{JobId, Machine, Time};
use crate::scenario::{Change, Failure, FailureCost, Scenario, Service, Tape, nanoseconds};
use core::time::Duration;
use slackwater_core::tail::{Ties, TiesConfig};
use slackwater_core::tracker::{Arrival, End, LoadTracker, RecentRates, Totals, TrackerConfig};
use slackwater_core::{Instant, LoadReport, ReplicaId, Rif};
use std::sync::Arc;

/// A query that a replica serves.
#[derive(Debug)]
pub(super) struct Served {
    arrival: Arrival,
    fails: bool,
}

/// Whether somebody is there to answer probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    Installed,
    None,
}

/// Whether responses say how the replica fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Responses {
    CarryReports,
    Plain,
}

/// One replica.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) machine: Machine,
    tracker: LoadTracker,
    tracker_config: TrackerConfig,
    /// The name by which clients know it; `None` while they don't.
    pub(super) id: Option<ReplicaId>,
    /// It takes queries, and answers probes if it is one that does.
    pub(super) is_up: bool,
    pub(super) agent: Agent,
    /// What an answer to a probe takes, in nanoseconds of CPU.
    pub(super) probe_cost_ns: f64,
    pub(super) is_draining: bool,
    /// It stands still: queries that come are kept here, and probes are not answered.
    suspended: Option<Suspended>,
    /// Changes whenever it stops.
    pub(super) incarnation: u64,
    /// Tied copies here, if there are any.
    pub(super) ties: Option<Ties<u32>>,
    failing: Option<Failing>,
    /// The queries that it failed once, where these are played again.
    failed_once: Option<FailedOnce>,
    /// It replays latencies: each copy of a query takes a latency of its own here, and no CPU.
    pub(super) replays: bool,
    /// Queries answered, and of these with an error, since the start of the run.
    finished: u64,
    failed: u64,
    rates: RecentRates,
    /// What the rates say, as reports carry it: looked up once for each reading, not for each
    /// probe.
    rates_said: LoadReport,
    learning: Option<Learning>,
    pub(super) responses: Responses,
    /// CPU used up to the last reading, in core-seconds.
    cpu_read: f64,
}

impl Replica {
    fn new(scenario: &Scenario, number: usize, seed: u64) -> Self {
        let mut machine = Machine::new(scenario, number, seed);
        if scenario.load.tie.is_some() {
            machine.note_starts();
        }
        let group = scenario.fleet.get(scenario.group_of(number));
        let tracker_config = group.map(|group| group.tracker.clone()).unwrap_or_default();
        Self {
            rates: rates(&machine),
            machine,
            tracker: LoadTracker::new(&tracker_config),
            tracker_config,
            id: None,
            is_up: false,
            agent: match group {
                Some(group) if !group.answers_probes => Agent::None,
                _ => Agent::Installed,
            },
            probe_cost_ns: group.map_or(0.0, |group| nanoseconds(group.probe_cost)),
            is_draining: false,
            suspended: None,
            incarnation: 0,
            ties: (scenario.load.tie).map(|_| Ties::new(TiesConfig::default())),
            failing: group.and_then(|group| group.failure).map(Failing::new),
            failed_once: (scenario.tape.as_ref()).map(|tape| FailedOnce {
                tape: Arc::clone(tape),
                number,
                place: 0,
            }),
            replays: group.is_some_and(|group| {
                matches!(group.service, Service::Latency | Service::LatencyTrace(_))
            }),
            finished: 0,
            failed: 0,
            rates_said: LoadReport::new(Rif::ZERO, None),
            learning: group
                .filter(|group| group.learns_capacity)
                .map(|group| Learning::new(scenario, group, number, seed)),
            responses: match group {
                Some(group) if group.carries_reports => Responses::CarryReports,
                _ => Responses::Plain,
            },
            cpu_read: 0.0,
        }
    }

    /// A query arrives and is served from now on.
    #[inline]
    pub(super) fn serve(&mut self, now: Time, job: JobId, attempt: &Attempt) -> Served {
        let Attempt {
            work_ns,
            luck,
            wait_ns,
            ..
        } = *attempt;
        let failing = self.failing.filter(|failing| failing.strikes(now, luck));
        let cut_ns = match &mut self.failed_once {
            Some(failed) => failed.work_ns(now, luck),
            None => failing.map(|failing| failing.work_ns(work_ns)),
        };
        let work_ns = cut_ns.unwrap_or(work_ns);
        self.machine.arrive_waiting(now, job, work_ns, wait_ns);
        Served {
            arrival: self.tracker.arrive(Instant::from_nanos(now)),
            fails: cut_ns.is_some(),
        }
    }

    /// The work of a query is done; whether it succeeded.
    #[inline]
    pub(super) fn finish(&mut self, now: Time, served: Served) -> bool {
        let Served { arrival, fails } = served;
        let end = if fails { End::Failed } else { End::Success };
        self.tracker.finish(Instant::from_nanos(now), arrival, end);
        self.finished += 1;
        self.failed += u64::from(fails);
        !fails
    }

    /// A query is not wanted any more.
    pub(super) fn cancel(&mut self, now: Time, job: JobId, served: Served) {
        self.machine.cancel(now, job);
        self.tracker
            .finish(Instant::from_nanos(now), served.arrival, End::Cancelled);
    }

    /// The answer to a probe, or what a response carries.
    #[inline]
    pub(super) fn report(&mut self, now: Time) -> LoadReport {
        let mut report = self.tracker.report(Instant::from_nanos(now));
        report.draining = self.is_draining;
        report.incarnation = Some(self.incarnation);
        report.query_rate_millis = self.rates_said.query_rate_millis;
        report.error_millionths = match self.rates_said.error_millionths {
            Some(_) if self.failing.is_some_and(|failing| failing.lies(now)) => Some(0),
            said => said,
        };
        report.cpu_millionths = self.rates_said.cpu_millionths;
        if let Some(learning) = &mut self.learning {
            learning.read(now, &mut self.machine, &self.tracker, self.finished);
            learning.fill(&mut report);
        }
        report
    }

    /// It stands still until then, or until later if it did so before.
    pub(super) fn suspend(&mut self, now: Time, until: Time) {
        self.machine.suspend(now, until);
        let suspended = self.suspended.get_or_insert_default();
        suspended.until = suspended.until.max(until);
    }

    /// Keeps a query that has come, by its slot, if the process stands still.
    #[inline]
    pub(super) fn leaves_unread(&mut self, slot: u32) -> bool {
        if let Some(suspended) = &mut self.suspended {
            suspended.unread.push(slot);
        }
        self.suspended.is_some()
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.suspended.is_some()
    }

    /// The queries that came while it stood still, in their order; none if it still does, or did
    /// not.
    pub(super) fn resume(&mut self, now: Time) -> Vec<u32> {
        let over = self.suspended.take_if(|suspended| suspended.until <= now);
        over.map_or_else(Vec::new, |suspended| suspended.unread)
    }

    #[inline]
    pub(super) fn rif(&self) -> Rif {
        self.tracker.rif()
    }

    /// A second is over; the CPU used since the last reading, as a multiple of the allocation.
    pub(super) fn read(&mut self, now: Time) -> f64 {
        let cpu = self.machine.cpu_seconds(now);
        let totals = Totals {
            finished: self.finished,
            failed: self.failed,
            cpu: (!self.replays).then(|| Duration::from_secs_f64(cpu)),
        };
        self.rates.read(Instant::from_nanos(now), totals);
        self.rates.fill(&mut self.rates_said);
        let used = cpu - self.cpu_read;
        self.cpu_read = cpu;
        used / self.machine.allocation_cores()
    }

    /// The process is gone, with all that it knew and did.
    pub(super) fn stop(&mut self, now: Time) {
        self.machine.clear(now);
        self.tracker = LoadTracker::new(&self.tracker_config);
        self.rates = rates(&self.machine);
        self.rates_said = LoadReport::new(Rif::ZERO, None);
        self.incarnation += 1;
        if let Some(learning) = &mut self.learning {
            learning.forget();
        }
        if let Some(ties) = &mut self.ties {
            *ties = Ties::new(TiesConfig::default());
        }
        self.is_up = false;
        self.is_draining = false;
        if let Some(suspended) = &mut self.suspended {
            suspended.until = now;
        }
    }
}

/// A process that stands still.
#[derive(Debug, Default)]
struct Suspended {
    until: Time,
    /// Queries in its sockets, by slot.
    unread: Vec<u32>,
}

/// When and how a replica fails queries.
#[derive(Clone, Copy, Debug)]
struct Failing {
    from: Time,
    until: Time,
    unlucky_below: u64,
    cost: FailureCost,
    reported_until: Time,
}

/// The failures of a replica as they were.
#[derive(Debug)]
struct FailedOnce {
    tape: Arc<Tape>,
    number: usize,
    /// The step that holds.
    place: usize,
}

impl FailedOnce {
    /// What is done of a query that comes now before it fails; `None` if it doesn't.
    fn work_ns(&mut self, now: Time, luck: u64) -> Option<f64> {
        self.place = self.tape.step_at(self.number, self.place, now);
        let step = self.tape.replicas.get(self.number)?.get(self.place)?;
        (luck < super::share_of_draws(step.fails)).then_some(step.failure_cost_ns)
    }
}

impl Failing {
    fn new(failure: Failure) -> Self {
        Self {
            from: super::nanos(failure.from),
            until: super::nanos(failure.until),
            unlucky_below: super::share_of_draws(failure.share),
            cost: failure.cost,
            reported_until: super::nanos(failure.reported_until),
        }
    }

    fn strikes(&self, now: Time, luck: u64) -> bool {
        luck < self.unlucky_below && (self.from..self.until).contains(&now)
    }

    /// What is done of this work before the query fails.
    fn work_ns(&self, work_ns: f64) -> f64 {
        match self.cost {
            FailureCost::Share(share) => work_ns * share,
            FailureCost::Fixed(cost) => nanoseconds(cost),
        }
    }

    /// Whether reports keep quiet about it.
    const fn lies(&self, now: Time) -> bool {
        now >= self.reported_until
    }
}

fn rates(machine: &Machine) -> RecentRates {
    let millicores = super::rounded(machine.allocation_cores() * 1_000.0);
    RecentRates::new(u32::try_from(millicores).unwrap_or(u32::MAX))
}

/// All replicas by number, and when something next happens in one of them.
#[derive(Debug)]
pub(super) struct Replicas {
    all: Vec<Replica>,
    /// [`Machine::next_event`] of each.
    next: Earliest,
    /// The replica behind each [`ReplicaId::index`].
    numbers: Vec<u32>,
    finished: Vec<JobId>,
}

impl Replicas {
    /// The replicas, those up that are there at the start: all but those whose first event is to
    /// join.
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Self {
        let count = scenario.replicas();
        let mut all: Vec<_> = (0..count)
            .map(|number| Replica::new(scenario, number, seed))
            .collect();
        for (number, replica) in all.iter_mut().enumerate() {
            let of_this = scenario.events.iter().filter(|e| e.replica == number);
            let first = of_this.min_by_key(|event| event.at);
            replica.is_up = !first.is_some_and(|event| matches!(event.change, Change::Join { .. }));
        }
        let mut replicas = Self {
            all,
            next: Earliest::new(count),
            numbers: Vec::new(),
            finished: Vec::new(),
        };
        for number in 0..count {
            replicas.changed(number);
        }
        replicas
    }

    #[inline]
    pub(super) fn at(&self, number: usize) -> &Replica {
        &self.all[number]
    }

    /// Whoever changes what happens in the machine calls [`Replicas::changed`] after it.
    #[inline]
    pub(super) fn at_mut(&mut self, number: usize) -> &mut Replica {
        &mut self.all[number]
    }

    pub(super) fn all(&self) -> &[Replica] {
        &self.all
    }

    pub(super) fn all_mut(&mut self) -> &mut [Replica] {
        &mut self.all
    }

    /// The machine's next event may be another one now.
    #[inline]
    pub(super) fn changed(&mut self, number: usize) {
        self.next.set(number, self.all[number].machine.next_event());
    }

    /// When something next happens in a machine.
    #[inline]
    pub(super) fn next_at(&self) -> Time {
        self.next.next_at()
    }

    /// Lets happen what happens in a machine now; the replica, and the jobs that are done, which go
    /// back by [`Replicas::give_back`].
    #[inline]
    pub(super) fn advance(&mut self, now: Time) -> (usize, Vec<JobId>) {
        let number = self.next.next();
        let mut finished = core::mem::take(&mut self.finished);
        finished.clear();
        self.all[number].machine.advance(now, &mut finished);
        self.changed(number);
        (number, finished)
    }

    /// Room for the next jobs that are done.
    #[inline]
    pub(super) fn give_back(&mut self, finished: Vec<JobId>) {
        self.finished = finished;
    }

    /// Clients know the replica by this name from now on.
    pub(super) fn name(&mut self, number: usize, id: ReplicaId) {
        self.all[number].id = Some(id);
        if self.numbers.len() <= id.index() {
            self.numbers.resize(id.index() + 1, 0);
        }
        self.numbers[id.index()] = super::query::slot_number(number);
    }

    /// Whose name that is, while clients know it.
    #[inline]
    pub(super) fn number(&self, id: ReplicaId) -> u32 {
        self.numbers[id.index()]
    }

    /// What clients call these; those that they do not know any more are left out.
    #[inline]
    pub(super) fn ids_of(&self, numbers: &[u32]) -> Vec<ReplicaId> {
        let ids = numbers.iter();
        ids.filter_map(|&number| self.at(number as usize).id)
            .collect()
    }
}
