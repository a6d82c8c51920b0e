//! One replica's machine: work goes in, finished work comes out.
//!
//! A machine knows nothing of clients, policies or the network. Its time is whole nanoseconds since
//! the start of the run, its work is nanoseconds of CPU. It says when something next happens inside
//! it ([`Machine::next_event`]); whoever drives it calls [`Machine::advance`] then. Everything
//! random in it comes from its own seeded streams; neighbours and stalls depend on time alone, not
//! on the work, so that every policy meets the same ones.

mod cpu;
mod estimate;
mod neighbours;
mod quota;
mod running;
mod service;
#[cfg(test)]
mod tests;
mod troubles;
mod waits;

use crate::scenario::{self, Scenario};
use cpu::Pace;
use running::Running;
use service::Service;
use troubles::{ColdStart, Spell, Stalls};
use waits::Waits;

/// Nanoseconds since the start of the run.
pub type Time = u64;

/// The end of time: never.
pub const NEVER: Time = Time::MAX;

/// The driver's name for a query's work on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// A replica's machine.
///
/// Whoever drives it calls [`advance`](Self::advance) at each [`next_event`](Self::next_event); no
/// method may be called with a `now` that is past it, or before an earlier `now`. At the same
/// nanosecond the order of calls is free.
///
/// What changes inside comes in two kinds. Ends of jobs are played by `advance` alone, which hands
/// them out. All other changes (of the pace, in short) are played by whatever call comes first at
/// or after their time; those that could not touch any job, such as spare capacity that nobody
/// needs, do not ask for a call of their own.
#[derive(Clone, Debug)]
pub struct Machine {
    /// When `advance` is due.
    next: Time,
    /// When the first job ends.
    next_end: Time,
    /// When something else changes.
    next_change: Time,
    /// Up to here everything has been played.
    now: Time,
    /// Cores in use.
    in_use: f64,
    /// CPU used since the start, in core-nanoseconds.
    used: f64,
    /// Cores that jobs in service want beyond those in use.
    wanted: f64,
    /// CPU that jobs in service wanted and did not get since the start, in core-nanoseconds.
    waited: f64,
    running: Running,
    service: Service,
    slowness: f64,
    cold: Option<ColdStart>,
    waits: Option<Waits>,
    stalls: Option<Stalls>,
    /// It stands still until then.
    suspended_until: Option<Time>,
    spell: Option<Spell>,
    /// Room for estimates.
    needs: Vec<f64>,
}

impl Machine {
    /// The machine of replica number `replica` (numbers run through the groups in order, from 0),
    /// empty, at time 0.
    ///
    /// A replica that joins later, or restarts, keeps its machine and its neighbours.
    ///
    /// # Panics
    /// If the scenario has no such replica.
    pub fn new(scenario: &Scenario, replica: usize, seed: u64) -> Self {
        let group = &scenario.fleet[scenario.group_of(replica)];
        let replays = matches!(
            group.service,
            scenario::Service::Latency | scenario::Service::LatencyTrace(_)
        );
        let some_wait = !group.io_wait.is_zero() || scenario.load.mix.is_some();
        let waits = some_wait.then(|| Waits::new(group.io_wait, replica, seed));
        let stalls = group.stall.as_ref();
        let spell = group.hobble.as_ref();
        let mut machine = Self {
            next: NEVER,
            next_end: NEVER,
            next_change: NEVER,
            now: 0,
            in_use: 0.0,
            used: 0.0,
            wanted: 0.0,
            waited: 0.0,
            running: Running::default(),
            service: Service::new(&group.service, scenario, replica, seed),
            slowness: group.slowness,
            cold: None,
            waits,
            stalls: stalls.map(|stall| Stalls::new(stall, replica, seed)),
            suspended_until: None,
            spell: spell.map(|hobble| Spell::new(hobble, replays)),
            needs: Vec::new(),
        };
        machine.settle();
        machine
    }

    /// A query's work comes in: `work_ns` nanoseconds of CPU at speed 1 (of latency, where
    /// latencies are replayed; ignored where the replica has a trace of its own). Slowness, a cold
    /// start, a hobble and the wait before the work are the machine's to add. Work of 0 is finished
    /// at the next [`advance`](Self::advance), which is then due at once.
    pub fn arrive(&mut self, now: Time, job: JobId, work_ns: f64) {
        self.arrive_waiting(now, job, work_ns, 0);
    }

    /// The same of a query that waits without the CPU, of its own, for so long before its work.
    pub fn arrive_waiting(&mut self, now: Time, job: JobId, work_ns: f64, wait_ns: Time) {
        self.catch_up(now);
        let work = self.work_here(work_ns);
        if let Service::Latency(Some(replay)) = &mut self.service {
            replay.draw_next();
        }
        match &mut self.waits {
            Some(waits) => waits.begin(now + wait_ns, job, work),
            None => self.service.admit(job, work, &mut self.running),
        }
        self.settle();
    }

    /// When [`advance`](Self::advance) is due; [`NEVER`] if nothing is going on. May change with
    /// every call that takes `&mut self`.
    pub fn next_event(&self) -> Time {
        self.next
    }

    /// Plays what happens inside up to and including `now`; jobs that end are appended to
    /// `finished`, in the order in which they end. Afterwards `next_event` is after `now`.
    pub fn advance(&mut self, now: Time, finished: &mut Vec<JobId>) {
        while self.next_end.min(self.next_change) <= now {
            self.catch_up(self.next_end.min(now));
            // A change on the way may have put the end off.
            if self.next_end <= self.now {
                self.end_jobs(finished);
                self.settle();
            }
        }
        self.catch_up(now);
    }

    /// Drops a job and what is left of its work; nothing if it is not here. Takes time in
    /// proportion to the jobs here.
    pub fn cancel(&mut self, now: Time, job: JobId) {
        self.catch_up(now);
        if self.running.cancel(job) {
            self.service.fill_places(&mut self.running);
        } else {
            self.service.cancel_queued(job);
            if let Some(waits) = &mut self.waits {
                waits.cancel(job);
            }
        }
        self.settle();
    }

    /// Drops all jobs: the replica crashed, and stands still no longer. The machine and its
    /// neighbours stay.
    pub fn clear(&mut self, now: Time) {
        self.catch_up(now);
        self.running.clear();
        self.service.clear_queue();
        self.suspended_until = None;
        if let Some(waits) = &mut self.waits {
            waits.clear();
        }
        self.settle();
    }

    /// Queries that arrive from now on cost `slowness` times as much, falling linearly to once
    /// within `warm_after_ns`.
    pub fn begin_cold(&mut self, now: Time, slowness: f64, warm_after_ns: u64) {
        self.cold = Some(ColdStart::new(now, slowness, warm_after_ns));
    }

    /// Does nothing at all until then, or until it would have gone on by an earlier call, whichever
    /// is later.
    pub fn suspend(&mut self, now: Time, until: Time) {
        self.catch_up(now);
        self.suspended_until = self.suspended_until.max(Some(until));
        self.settle();
    }

    /// Jobs in the machine: in service, queued, or waiting before their work.
    pub fn jobs(&self) -> usize {
        self.running.len() + self.service.queued() + self.waits.as_ref().map_or(0, Waits::len)
    }

    /// CPU used since the start, in core-seconds: all that the machine spends, what contention
    /// wastes included. 0 where latencies are replayed.
    pub fn cpu_seconds(&mut self, now: Time) -> f64 {
        self.catch_up(now);
        self.used / 1e9
    }

    /// CPU that queries in service wanted and did not get since the start, in core-seconds: as a
    /// scheduler counts the time for which threads are ready and do not run. Queries in a queue of
    /// the application's, and all in a stall or while the replica is suspended, are not in it:
    /// nobody is ready then. 0 where latencies are replayed.
    pub fn waited_seconds(&mut self, now: Time) -> f64 {
        self.catch_up(now);
        self.waited / 1e9
    }

    /// What utilization is measured against: the allocation; one core for each worker; 1 where
    /// latencies are replayed.
    pub fn allocation_cores(&self) -> f64 {
        self.service.allocation()
    }

    /// Cores' worth of work that the machine could do now and go on doing: allocation and spare
    /// capacity, less contention while the replica is held, times what a hobble leaves; 0 in a
    /// stall or while it is suspended. Bursts do not count. Under a quota: what that comes to over
    /// many periods, throttled or not, less the neighbour's share while it is there. Where
    /// latencies are replayed: 1, or what a hobble leaves. A group's slowness and a cold start are
    /// not in it: see [`speed`](Self::speed).
    pub fn capacity_cores(&mut self, now: Time) -> f64 {
        self.catch_up(now);
        if self.is_stalled() {
            0.0
        } else {
            self.service.capacity(self.left())
        }
    }

    /// Work done for each nanosecond of CPU, for queries that arrive now: 1 / (slowness x cold
    /// start).
    pub fn speed(&self, now: Time) -> f64 {
        1.0 / self.slowness_at(now)
    }

    /// From now on notes which jobs begin.
    pub fn note_starts(&mut self) {
        self.running.note_starts();
    }

    /// Hands out the jobs that have begun since the last time, if that is noted. In a stall, and
    /// while a quota is used up, none begins, though it may have a place already.
    pub fn take_started(&mut self, to: &mut Vec<JobId>) {
        if !self.is_stalled() && !self.service.is_throttled() {
            self.running.take_started(to);
        }
    }

    /// Nanoseconds until this work would be finished if it came now, nothing came after it and the
    /// capacity stayed ([`capacity_cores`](Self::capacity_cores), after the stall if there is one;
    /// a quota is used up and begins anew on the way). The wait before the work, which is the same
    /// everywhere, is not in it.
    pub fn finish_estimate(&mut self, now: Time, work_ns: f64) -> f64 {
        self.catch_up(now);
        let work = self.work_here(work_ns);
        let left = self.left();
        self.needs.clear();
        self.needs.extend(self.running.remaining());
        let waiting = self.waits.iter().flat_map(Waits::work);
        let stalled = self.stalls.as_ref().map_or(0, |stalls| stalls.rest(now));
        let suspended = self
            .suspended_until
            .map_or(0, |until| until.saturating_sub(now));
        let paused = stalled.max(suspended);
        let service = match &self.service {
            Service::Shared(cpu) => {
                self.needs.extend(waiting);
                estimate::shared(&mut self.needs, work, cpu.capacity(left))
            }
            Service::Quota(cpu) => {
                self.needs.extend(waiting);
                self.needs.iter_mut().for_each(|need| *need /= left);
                return cpu.finish(now, paused, &mut self.needs, work / left);
            }
            Service::Fifo(workers) => {
                let before = workers.queue.iter().map(|(_, work)| *work).chain(waiting);
                estimate::queued(&mut self.needs, before, workers.count, work) / left
            }
            Service::Latency(_) => work / left,
        };
        paused as f64 + service
    }

    /// What the work of a query that arrives now comes to here.
    fn work_here(&self, work_ns: f64) -> f64 {
        let latency = self
            .spell
            .as_ref()
            .and_then(|spell| spell.latency(self.now));
        latency.unwrap_or_else(|| {
            let work = match &self.service {
                Service::Latency(Some(replay)) => replay.next(),
                _ => work_ns,
            };
            work * self.slowness_at(self.now)
        })
    }

    fn slowness_at(&self, now: Time) -> f64 {
        let cold = self.cold.as_ref().map_or(1.0, |cold| cold.slowness(now));
        self.slowness * cold
    }

    fn is_stalled(&self) -> bool {
        self.suspended_until.is_some() || self.stalls.as_ref().is_some_and(Stalls::is_stalled)
    }

    /// What a hobble leaves now, if there is one.
    fn left(&self) -> f64 {
        self.spell
            .as_ref()
            .map_or(1.0, |spell| spell.left(self.now))
    }

    /// Plays everything up to `now` but the ends of jobs.
    fn catch_up(&mut self, now: Time) {
        while self.next_change <= now {
            self.elapse(self.next_change);
            self.play_changes();
            self.settle();
        }
        self.elapse(now);
    }

    /// Time passes at the present pace.
    fn elapse(&mut self, now: Time) {
        if now <= self.now {
            return;
        }
        let nanoseconds = (now - self.now) as f64;
        self.now = now;
        self.used += self.in_use * nanoseconds;
        self.waited += self.wanted * nanoseconds;
        self.running.elapse(nanoseconds);
        self.service.elapse(nanoseconds);
    }

    /// The changes that are due now.
    fn play_changes(&mut self) {
        let now = self.now;
        if let Some(waits) = &mut self.waits {
            while let Some((job, work)) = waits.take_ended(now) {
                self.service.admit(job, work, &mut self.running);
            }
        }
        if let Some(stalls) = self.stalls.as_mut().filter(|it| it.next_edge() <= now) {
            stalls.step();
        }
        if self.suspended_until.is_some_and(|until| until <= now) {
            self.suspended_until = None;
        }
        if let Some(spell) = self.spell.as_mut().filter(|it| it.next_edge() <= now) {
            spell.step();
        }
        self.service.play_changes(now);
    }

    /// The jobs that are due now end, and whoever waited for their places begins.
    fn end_jobs(&mut self, finished: &mut Vec<JobId>) {
        self.running.reach_next_end();
        while let Some(job) = self.running.take_ended() {
            finished.push(job);
            self.service.fill_places(&mut self.running);
        }
    }

    /// Finds the pace from now on, and when something happens next.
    fn settle(&mut self) {
        let left = self.left();
        let running = self.running.len();
        let Pace { each, used } = if self.is_stalled() {
            self.service.pause(left)
        } else {
            self.service.settle(running, left)
        };
        self.in_use = used;
        self.wanted = match self.service {
            Service::Shared(_) | Service::Quota(_) if !self.is_stalled() => {
                (running as f64 - used).max(0.0)
            }
            _ => 0.0,
        };
        self.running.set_rate(each);
        self.next_end = self.running.next_end(self.now);

        let wait = self.waits.as_ref().map_or(NEVER, Waits::next_end);
        let stall = self.stalls.as_ref().map_or(NEVER, Stalls::next_edge);
        let spell = self.spell.as_ref().map_or(NEVER, Spell::next_edge);
        let resumed = self.suspended_until.unwrap_or(NEVER);
        let (urgent, patient) = self.service.next_changes(self.now, running, left);
        let urgent = urgent.min(wait).min(stall).min(resumed).min(spell);
        self.next_change = urgent.min(patient);
        self.next = if self.jobs() == 0 {
            NEVER
        } else {
            urgent.min(self.next_end)
        };
    }
}
