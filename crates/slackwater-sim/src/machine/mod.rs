//! One replica's machine: it takes work and returns finished work.
//!
//! A machine is independent of clients, policies and the network. Its time is whole nanoseconds
//! since the start of the run, and its work is nanoseconds of CPU. [`Machine::next_event`] returns
//! when something next happens inside it, and the caller calls [`Machine::advance`] at that time.
//! All its randomness comes from its own seeded streams. Neighbours and stalls depend on time
//! alone, not on the work, so they are the same for every policy.

mod batches;
mod cpu;
mod estimate;
mod inference;
mod line;
mod neighbours;
mod quota;
mod running;
mod service;
#[cfg(test)]
mod tests;
mod troubles;
mod waits;

use crate::scenario::{self, Scenario};
pub use inference::{Inference, Progress, Prompt};

use cpu::Pace;
use line::Line;
use running::Running;
pub(crate) use running::whole;
use service::Service;
use troubles::{ColdStart, Spell, Stalls};
use waits::Waits;

/// Nanoseconds since the start of the run.
pub type Time = u64;

/// The end of time: never.
pub const NEVER: Time = Time::MAX;

/// The caller's id of a query's work on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// A replica's machine.
///
/// The caller calls [`advance`](Self::advance) at each [`next_event`](Self::next_event). No method
/// may be called with a `now` that is past it, or before an earlier `now`. At the same nanosecond
/// the order of calls is free.
///
/// There are two kinds of changes inside. Ends of jobs are played only by `advance`, which returns
/// the jobs. All other changes (of the pace, in short) are played by the first call at or after
/// their time. Changes that cannot affect any job, such as spare capacity that no job needs, cause
/// no event of their own.
#[derive(Clone, Debug)]
pub struct Machine {
    /// When `advance` is due.
    next: Time,
    /// When the first job ends.
    next_end: Time,
    /// When something else changes.
    next_change: Time,
    /// Everything up to this time has been played.
    now: Time,
    /// Cores in use.
    in_use: f64,
    /// CPU used since the start, in core-nanoseconds.
    used: f64,
    /// Cores that jobs in service want beyond those in use.
    wanted: f64,
    /// Unmet CPU demand of jobs in service since the start, in core-nanoseconds.
    waited: f64,
    running: Running,
    service: Service,
    /// The replica's own queue before the service, if it has one.
    line: Option<Line>,
    slowness: f64,
    cold: Option<ColdStart>,
    waits: Option<Waits>,
    stalls: Option<Stalls>,
    /// The machine is suspended until then.
    suspended_until: Option<Time>,
    spell: Option<Spell>,
    /// Buffer for estimates.
    needs: Vec<f64>,
}

impl Machine {
    /// Returns the machine of replica number `replica` (numbers run through the groups in order,
    /// from 0), empty, at time 0.
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
            line: group.queue.map(Line::new),
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

    /// Adds a query's work: `work_ns` nanoseconds of CPU at speed 1. Where latencies are replayed
    /// it is the latency, and is ignored if the replica has its own trace. The machine adds
    /// slowness, a cold start, a hobble and the wait before the work. Work of 0 is finished at the
    /// next [`advance`](Self::advance), which is then due at once.
    pub fn arrive(&mut self, now: Time, job: JobId, work_ns: f64) {
        self.arrive_waiting(now, job, self.cost_of(work_ns), 0, NEVER);
    }

    /// Returns the cost of a query that arrives next: the next latency of the replica's own trace,
    /// or what the query costs elsewhere.
    pub fn cost_of(&self, work_ns: f64) -> f64 {
        match &self.service {
            Service::Latency(Some(replay)) => replay.next(),
            _ => work_ns,
        }
    }

    /// Adds exactly this work of a query that waits this long without the CPU before its work, and
    /// whose client waits for it until `due`.
    pub fn arrive_waiting(
        &mut self,
        now: Time,
        job: JobId,
        work_ns: f64,
        wait_ns: Time,
        due: Time,
    ) {
        self.catch_up(now);
        let work = self.work_here(work_ns);
        if let Service::Latency(Some(replay)) = &mut self.service {
            replay.draw_next();
        }
        if let Some(waits) = &mut self.waits {
            waits.begin(now + wait_ns, job, work);
        } else {
            self.admit(now, job, work, due);
        }
        self.settle();
    }

    /// Adds the work of an answer to a probe. It waits for the CPU as queries do, and for nothing
    /// else.
    pub fn arrive_probe(&mut self, now: Time, job: JobId, work_ns: f64) {
        self.catch_up(now);
        let work = self.work_here(work_ns);
        self.admit(now, job, work, NEVER);
        self.settle();
    }

    /// Hands work to the replica's own queue if it has one, else to the service.
    fn admit(&mut self, now: Time, job: JobId, work: f64, due: Time) {
        match &mut self.line {
            Some(line) => line.arrive(now, job, work, due, &mut self.running),
            None => self.service.admit(job, work, &mut self.running),
        }
    }

    /// Returns when [`advance`](Self::advance) is due; [`NEVER`] if the machine is idle. It may
    /// change with every call that takes `&mut self`.
    pub fn next_event(&self) -> Time {
        self.next
    }

    /// Plays everything up to and including `now`. Jobs that end are appended to `finished`, in the
    /// order in which they end. Afterwards `next_event` is after `now`.
    pub fn advance(&mut self, now: Time, finished: &mut Vec<JobId>) {
        while self.next_end.min(self.next_change) <= now {
            self.catch_up(self.next_end.min(now));
            // A change on the way may have delayed the end.
            if self.next_end <= self.now {
                self.end_jobs(finished);
                self.settle();
            }
        }
        self.catch_up(now);
    }

    /// Drops a job and what is left of its work. Does nothing if the job is not here. Takes time in
    /// proportion to the jobs here.
    pub fn cancel(&mut self, now: Time, job: JobId) {
        self.catch_up(now);
        if self.running.cancel(job) {
            self.fill_places();
        } else {
            self.service.cancel_queued(job);
            if let Some(line) = &mut self.line {
                line.cancel(job);
            }
            if let Some(waits) = &mut self.waits {
                waits.cancel(job);
            }
        }
        self.settle();
    }

    /// Drops all jobs, because the replica crashed, and ends a suspension. The machine and its
    /// neighbours stay.
    pub fn clear(&mut self, now: Time) {
        self.catch_up(now);
        self.running.clear();
        self.service.clear_queue();
        if let Some(line) = &mut self.line {
            line.clear();
        }
        self.suspended_until = None;
        if let Some(waits) = &mut self.waits {
            waits.clear();
        }
        self.settle();
    }

    /// Makes queries that arrive from now on cost `slowness` times as much, falling linearly to the
    /// usual cost within `warm_after_ns`.
    pub fn begin_cold(&mut self, now: Time, slowness: f64, warm_after_ns: u64) {
        self.cold = Some(ColdStart::new(now, slowness, warm_after_ns));
    }

    /// Suspends the machine until `until`, or until the end of an earlier suspension, whichever is
    /// later.
    pub fn suspend(&mut self, now: Time, until: Time) {
        self.catch_up(now);
        self.suspended_until = self.suspended_until.max(Some(until));
        self.settle();
    }

    /// Returns the number of jobs in the machine: in service, queued, or waiting before their work.
    pub fn jobs(&self) -> usize {
        let in_line = self.line.as_ref().map_or(0, Line::len);
        let waiting = self.waits.as_ref().map_or(0, Waits::len);
        self.running.len() + self.service.queued() + in_line + waiting
    }

    /// Returns the queries that were rejected since the last call, because they would have been
    /// late. They are gone. Queries are rejected when one arrives, ends or is cancelled.
    pub fn take_rejected(&mut self) -> Vec<JobId> {
        self.line
            .as_mut()
            .map_or_else(Vec::new, Line::take_rejected)
    }

    /// Returns whether a query that arrives now would have a core or a worker for itself. A machine
    /// that stalls does not notice it, so its capacity is that before and after the stall.
    pub fn has_room(&mut self, now: Time) -> bool {
        self.catch_up(now);
        (self.jobs() + 1) as f64 <= self.service.capacity(self.left())
    }

    /// Returns the CPU used since the start, in core-seconds, including what contention wastes. 0
    /// where latencies are replayed.
    pub fn cpu_seconds(&mut self, now: Time) -> f64 {
        self.catch_up(now);
        self.used / 1e9
    }

    /// Returns the unmet CPU demand of queries in service since the start, in core-seconds. A
    /// scheduler counts in the same way the time for which threads are ready and do not run. It
    /// excludes queries in the application's queue, and all queries in a stall or while the replica
    /// is suspended: no thread is ready then. 0 where latencies are replayed.
    pub fn waited_seconds(&mut self, now: Time) -> f64 {
        self.catch_up(now);
        self.waited / 1e9
    }

    /// Returns the base of utilization: the allocation, one core for each worker, or 1 for
    /// batches and where latencies are replayed.
    pub fn allocation_cores(&self) -> f64 {
        self.service.allocation()
    }

    /// Returns the cores' worth of work that the machine could do now and sustain: allocation and
    /// spare capacity, less contention while the replica is held, times what a hobble leaves. It is
    /// 0 in a stall or while the machine is suspended. Bursts do not count. Under a quota it is the
    /// average over many periods, throttled or not, less the neighbour's share while it is there.
    /// Where latencies are replayed it is 1, or what a hobble leaves. A group's slowness and a cold
    /// start are not included: see [`speed`](Self::speed).
    pub fn capacity_cores(&mut self, now: Time) -> f64 {
        self.catch_up(now);
        if self.is_stalled() {
            0.0
        } else {
            self.service.capacity(self.left())
        }
    }

    /// Returns the work done for each nanosecond of CPU, for queries that arrive now: 1 / (slowness
    /// x cold start).
    pub fn speed(&self, now: Time) -> f64 {
        1.0 / self.slowness_at(now)
    }

    /// Starts to record which jobs start.
    pub fn note_starts(&mut self) {
        self.running.note_starts();
    }

    /// Returns the jobs that have started since the last call, if starts are recorded. In a stall,
    /// and while a quota is used up, no job starts, though it may have a place already.
    pub fn take_started(&mut self, to: &mut Vec<JobId>) {
        if !self.is_stalled() && !self.service.is_throttled() {
            self.running.take_started(to);
        }
    }

    /// Returns the nanoseconds until this work would be finished if it arrived now, nothing arrived
    /// after it and the capacity stayed. The capacity is [`capacity_cores`](Self::capacity_cores),
    /// after the stall if there is one; a quota is used up and renewed on the way. The wait before
    /// the work, which is the same everywhere, is not included.
    pub fn finish_estimate(&mut self, now: Time, work_ns: f64) -> f64 {
        self.catch_up(now);
        let work = self.work_here(self.cost_of(work_ns));
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
            Service::Shared(cpu) if let Some(line) = &self.line => {
                line.finish(&mut self.needs, cpu.capacity(left), work)
            }
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
            Service::Batch(batches) => {
                let rest = self.needs.iter().copied().fold(0.0, f64::max);
                batches.finish(rest, waiting, work) / left
            }
            Service::Latency(_) => work / left,
        };
        paused as f64 + service
    }

    /// Returns this work as it takes on this machine if it arrives now.
    fn work_here(&self, work_ns: f64) -> f64 {
        let latency = self
            .spell
            .as_ref()
            .and_then(|spell| spell.latency(self.now));
        latency.unwrap_or_else(|| work_ns * self.slowness_at(self.now))
    }

    fn slowness_at(&self, now: Time) -> f64 {
        let cold = self.cold.as_ref().map_or(1.0, |cold| cold.slowness(now));
        self.slowness * cold
    }

    fn is_stalled(&self) -> bool {
        self.suspended_until.is_some() || self.stalls.as_ref().is_some_and(Stalls::is_stalled)
    }

    /// Returns what a hobble leaves now, if there is one.
    fn left(&self) -> f64 {
        self.spell
            .as_ref()
            .map_or(1.0, |spell| spell.left(self.now))
    }

    /// Plays everything up to `now` except the ends of jobs.
    fn catch_up(&mut self, now: Time) {
        while self.next_change <= now {
            self.elapse(self.next_change);
            self.play_changes();
            self.settle();
        }
        self.elapse(now);
    }

    /// Lets time pass at the present pace.
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

    /// Plays the changes that are due now.
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

    /// Ends the jobs that are due now, and starts the jobs that waited for their places.
    fn end_jobs(&mut self, finished: &mut Vec<JobId>) {
        self.running.reach_next_end();
        while let Some(job) = self.running.take_ended() {
            finished.push(job);
            self.fill_places();
        }
    }

    /// Starts the jobs that waited for the places of those that left.
    fn fill_places(&mut self) {
        match &mut self.line {
            Some(line) => line.start_next(self.now, &mut self.running),
            None => self.service.fill_places(&mut self.running),
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
