//! The replicas: each has a machine, a load tracker and the state of its process.

use super::cached::{Cache, Found};
use super::classes;
use super::learning::Learning;
use super::query::Attempt;
use super::queue::Earliest;
use crate::machine::{JobId, Machine, Time};
use crate::scenario::{Change, Failure, FailureCost, Replay, Scenario, Service, nanoseconds};
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
    weight: u32,
    /// What the cache had for its key; `None`: no key, no cache, or it fails.
    pub(super) found: Option<Found>,
}

/// Whether the replica has an agent that answers probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    Installed,
    None,
}

/// Whether responses carry the replica's report.
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
    /// The id by which clients know it; `None` while no client has it.
    pub(super) id: Option<ReplicaId>,
    /// It takes queries, and answers probes if it has an agent.
    pub(super) is_up: bool,
    pub(super) agent: Agent,
    /// CPU for an answer to a probe, in nanoseconds.
    pub(super) probe_cost_ns: f64,
    pub(super) is_draining: bool,
    /// While it is suspended, arriving queries are kept here, and probes are not answered.
    suspended: Option<Suspended>,
    /// Incremented whenever it stops.
    pub(super) incarnation: u64,
    /// Tied copies here, if there are any.
    pub(super) ties: Option<Ties<u32>>,
    failing: Option<Failing>,
    /// Its recorded failures, if a recording is replayed.
    failed_once: Option<FailedOnce>,
    /// It replays latencies: each copy of a query takes its own latency here, and no CPU.
    pub(super) replays: bool,
    /// Queries answered, and those with an error among them, since the start of the run.
    finished: u64,
    failed: u64,
    rates: RecentRates,
    /// The rates as reports carry them. They are computed once for each reading, not for each
    /// probe.
    rates_reported: LoadReport,
    learning: Option<Learning>,
    pub(super) responses: Responses,
    /// Requests in flight, where each counts by its class. `None`: reports have the plain number.
    charged: Option<u32>,
    pub(super) cache: Option<Cache>,
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
            failed_once: (scenario.replay.as_ref()).map(|replay| FailedOnce {
                replay: Arc::clone(replay),
                number,
                place: 0,
            }),
            replays: group.is_some_and(|group| {
                matches!(group.service, Service::Latency | Service::LatencyTrace(_))
            }),
            finished: 0,
            failed: 0,
            rates_reported: LoadReport::new(Rif::ZERO, None),
            learning: group
                .filter(|group| group.learns_capacity)
                .map(|group| Learning::new(scenario, group, number, seed)),
            responses: match group {
                Some(group) if group.carries_reports => Responses::CarryReports,
                _ => Responses::Plain,
            },
            charged: classes::are_charged(scenario).then_some(0),
            cache: group.and_then(|group| group.cache.as_ref()).map(Cache::new),
            cpu_read: 0.0,
        }
    }

    /// Serves a query that arrives.
    #[inline]
    pub(super) fn serve(&mut self, now: Time, job: JobId, attempt: &Attempt) -> Served {
        let Attempt {
            work_ns,
            luck,
            wait_ns,
            due,
            ..
        } = *attempt;
        let work_ns = self.machine.cost_of(work_ns);
        let failing = self.failing.filter(|failing| failing.strikes(now, luck));
        let cut_ns = match &mut self.failed_once {
            Some(failed) => failed.work_ns(now, luck),
            None => failing.map(|failing| failing.work_ns(work_ns)),
        };
        let cache = self.cache.as_mut().filter(|_| cut_ns.is_none());
        let found = cache
            .zip(attempt.key_number)
            .map(|(cache, key)| cache.look_up(key));
        let fill_ns = found.map_or(0.0, Found::fill_ns);
        let work_ns = cut_ns.unwrap_or(work_ns) + fill_ns;
        self.machine.arrive_waiting(now, job, work_ns, wait_ns, due);
        if let Some(charged) = &mut self.charged {
            *charged += attempt.weight;
        }
        Served {
            arrival: self.tracker.arrive(Instant::from_nanos(now)),
            fails: cut_ns.is_some(),
            weight: attempt.weight,
            found,
        }
    }

    /// Finishes the work of a query. Returns whether it succeeded.
    #[inline]
    pub(super) fn finish(&mut self, now: Time, served: Served) -> bool {
        let Served {
            arrival,
            fails,
            weight,
            found,
        } = served;
        self.uncharge(weight);
        if let Some(cache) = &mut self.cache
            && let Some(Found::Missing { key, .. }) = found
        {
            cache.insert(key);
        }
        let end = if fails { End::Failed } else { End::Success };
        self.tracker.finish(Instant::from_nanos(now), arrival, end);
        self.finished += 1;
        self.failed += u64::from(fails);
        !fails
    }

    const fn uncharge(&mut self, weight: u32) {
        if let Some(charged) = &mut self.charged {
            *charged -= weight;
        }
    }

    /// Cancels a query.
    pub(super) fn cancel(&mut self, now: Time, job: JobId, served: Served) {
        self.machine.cancel(now, job);
        self.end_unanswered(now, served);
    }

    /// Ends a query that leaves the machine without an answer.
    pub(super) fn end_unanswered(&mut self, now: Time, served: Served) {
        self.uncharge(served.weight);
        self.tracker
            .finish(Instant::from_nanos(now), served.arrival, End::Cancelled);
    }

    /// Returns the answer to a probe, or the report that a response carries.
    #[inline]
    pub(super) fn report(&mut self, now: Time) -> LoadReport {
        let mut report = self.tracker.report(Instant::from_nanos(now));
        if let Some(charged) = self.charged {
            report.rif = Rif::new(charged);
        }
        report.draining = self.is_draining;
        report.incarnation = Some(self.incarnation);
        report.query_rate_millis = self.rates_reported.query_rate_millis;
        report.error_millionths = match self.rates_reported.error_millionths {
            Some(_) if self.failing.is_some_and(|failing| failing.lies(now)) => Some(0),
            said => said,
        };
        report.cpu_millionths = self.rates_reported.cpu_millionths;
        if let Some(learning) = &mut self.learning {
            learning.read(now, &mut self.machine, &self.tracker, self.finished);
            learning.fill(&mut report);
        }
        report
    }

    /// Suspends it until `until`, or until later if it was suspended for longer before.
    pub(super) fn suspend(&mut self, now: Time, until: Time) {
        self.machine.suspend(now, until);
        let suspended = self.suspended.get_or_insert_default();
        suspended.until = suspended.until.max(until);
    }

    /// Keeps a query that arrives, by its slot, if the process is suspended. Returns whether it is.
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

    /// Resumes it. Returns the queries that arrived while it was suspended, in their order. There
    /// are none if it still is, or was not.
    pub(super) fn resume(&mut self, now: Time) -> Vec<u32> {
        let over = self.suspended.take_if(|suspended| suspended.until <= now);
        over.map_or_else(Vec::new, |suspended| suspended.unread)
    }

    #[inline]
    pub(super) fn rif(&self) -> Rif {
        self.tracker.rif()
    }

    /// Takes the reading of the last second. Returns the CPU used since the previous reading, as a
    /// multiple of the allocation.
    pub(super) fn read(&mut self, now: Time) -> f64 {
        let cpu = self.machine.cpu_seconds(now);
        let totals = Totals {
            finished: self.finished,
            failed: self.failed,
            cpu: (!self.replays).then(|| Duration::from_secs_f64(cpu)),
        };
        self.rates.read(Instant::from_nanos(now), totals);
        self.rates.fill(&mut self.rates_reported);
        let used = cpu - self.cpu_read;
        self.cpu_read = cpu;
        used / self.machine.allocation_cores()
    }

    /// Stops the process, and drops its queries and measurements.
    pub(super) fn stop(&mut self, now: Time) {
        self.machine.clear(now);
        self.tracker = LoadTracker::new(&self.tracker_config);
        self.rates = rates(&self.machine);
        self.rates_reported = LoadReport::new(Rif::ZERO, None);
        self.incarnation += 1;
        if let Some(learning) = &mut self.learning {
            learning.forget();
        }
        if let Some(ties) = &mut self.ties {
            *ties = Ties::new(TiesConfig::default());
        }
        self.charged = self.charged.map(|_| 0);
        if let Some(cache) = &mut self.cache {
            cache.clear();
        }
        self.is_up = false;
        self.is_draining = false;
        if let Some(suspended) = &mut self.suspended {
            suspended.until = now;
        }
    }
}

/// A suspended process.
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

/// The recorded failures of a replica.
#[derive(Debug)]
struct FailedOnce {
    replay: Arc<Replay>,
    number: usize,
    /// The position of the current step.
    place: usize,
}

impl FailedOnce {
    /// Returns the work that is done for a query that arrives now before it fails; `None` if it
    /// does not fail.
    fn work_ns(&mut self, now: Time, luck: u64) -> Option<f64> {
        self.place = self.replay.step_at(self.number, self.place, now);
        let step = self.replay.replicas.get(self.number)?.get(self.place)?;
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

    /// Returns how much of this work is done before the query fails.
    fn work_ns(&self, work_ns: f64) -> f64 {
        match self.cost {
            FailureCost::Share(share) => work_ns * share,
            FailureCost::Fixed(cost) => nanoseconds(cost),
        }
    }

    /// Returns whether reports hide the failures.
    const fn lies(&self, now: Time) -> bool {
        now >= self.reported_until
    }
}

fn rates(machine: &Machine) -> RecentRates {
    let millicores = super::rounded(machine.allocation_cores() * 1_000.0);
    RecentRates::new(u32::try_from(millicores).unwrap_or(u32::MAX))
}

/// All replicas by number, and when the next event happens in one of them.
#[derive(Debug)]
pub(super) struct Replicas {
    all: Vec<Replica>,
    /// [`Machine::next_event`] of each.
    next: Earliest,
    /// The replica's number for each [`ReplicaId::index`].
    numbers: Vec<u32>,
    finished: Vec<JobId>,
}

impl Replicas {
    /// Builds the replicas. All are up at the start, except those whose first event is to join.
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

    /// Returns a replica. A caller that changes the machine's next event calls
    /// [`Replicas::changed`] after it.
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

    /// Updates the machine's next event.
    #[inline]
    pub(super) fn changed(&mut self, number: usize) {
        self.next.set(number, self.all[number].machine.next_event());
    }

    /// Returns when the next event happens in a machine.
    #[inline]
    pub(super) fn next_at(&self) -> Time {
        self.next.next_at()
    }

    /// Advances the machine with the earliest event. Returns the replica and the finished jobs,
    /// whose buffer goes back with [`Replicas::give_back`].
    #[inline]
    pub(super) fn advance(&mut self, now: Time) -> (usize, Vec<JobId>) {
        let number = self.next.next();
        let mut finished = core::mem::take(&mut self.finished);
        finished.clear();
        self.all[number].machine.advance(now, &mut finished);
        self.changed(number);
        (number, finished)
    }

    /// Takes the buffer back for the next finished jobs.
    #[inline]
    pub(super) fn give_back(&mut self, finished: Vec<JobId>) {
        self.finished = finished;
    }

    /// Sets the id by which clients know the replica from now on.
    pub(super) fn name(&mut self, number: usize, id: ReplicaId) {
        self.all[number].id = Some(id);
        if self.numbers.len() <= id.index() {
            self.numbers.resize(id.index() + 1, 0);
        }
        self.numbers[id.index()] = super::query::slot_number(number);
    }

    /// Returns the number of the replica with this id, while clients have it.
    #[inline]
    pub(super) fn number(&self, id: ReplicaId) -> u32 {
        self.numbers[id.index()]
    }

    /// Returns the ids of these replicas. Replicas that clients no longer have are left out.
    #[inline]
    pub(super) fn ids_of(&self, numbers: &[u32]) -> Vec<ReplicaId> {
        let ids = numbers.iter();
        ids.filter_map(|&number| self.at(number as usize).id)
            .collect()
    }
}
