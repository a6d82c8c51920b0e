//! One replica's machine: work goes in, finished work comes out.
//!
//! A machine knows nothing of clients, policies or the network. Its time is whole nanoseconds since the start of the run,
//! its work is nanoseconds of CPU. It says when something next happens inside it ([`Machine::next_event`]); whoever drives
//! it calls [`Machine::advance`] then. Everything random in it comes from its own seeded streams; neighbours and stalls
//! depend on time alone, not on the work, so that every policy meets the same ones.

use crate::scenario::Scenario;

/// Nanoseconds since the start of the run.
pub type Time = u64;

/// The end of time: never.
pub const NEVER: Time = Time::MAX;

/// The driver's name for a query's work on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// A replica's machine.
///
/// Whoever drives it calls [`advance`](Self::advance) at each [`next_event`](Self::next_event); no method may be called with a
/// `now` that is past it, or before an earlier `now`. At the same nanosecond the order of calls is free.
#[derive(Clone, Debug)]
pub struct Machine {
    next: Time,
}

impl Machine {
    /// The machine of replica number `replica` (numbers run through the groups in order, from 0), empty, at time 0.
    ///
    /// A replica that joins later, or restarts, keeps its machine and its neighbours.
    ///
    /// # Panics
    /// If the scenario has no such replica; a scenario without [mistakes](Scenario::mistakes) is played without a panic.
    pub fn new(scenario: &Scenario, replica: usize, seed: u64) -> Self {
        let _ = (scenario, replica, seed);
        unimplemented!()
    }

    /// A query's work comes in: `work_ns` nanoseconds of CPU at speed 1 (of latency, where latencies are replayed; ignored
    /// where the replica has a trace of its own). Slowness, a cold start, a hobble and the wait before the work are the
    /// machine's to add. Work of 0 is finished at the next [`advance`](Self::advance), which is then due at once.
    pub fn arrive(&mut self, now: Time, job: JobId, work_ns: f64) {
        let _ = (now, job, work_ns);
        unimplemented!()
    }

    /// When [`advance`](Self::advance) is due; [`NEVER`] if nothing is going on. May change with every call that takes `&mut self`.
    pub fn next_event(&self) -> Time {
        self.next
    }

    /// Plays what happens inside up to and including `now`; jobs that end are appended to `finished`, in the order in which they
    /// end. Afterwards `next_event` is after `now`.
    pub fn advance(&mut self, now: Time, finished: &mut Vec<JobId>) {
        let _ = (now, finished);
        unimplemented!()
    }

    /// Drops a job and what is left of its work; nothing if it is not here. Takes time in proportion to the jobs here.
    pub fn cancel(&mut self, now: Time, job: JobId) {
        let _ = (now, job);
        unimplemented!()
    }

    /// Drops all jobs: the replica crashed. The machine and its neighbours stay.
    pub fn clear(&mut self, now: Time) {
        let _ = now;
        unimplemented!()
    }

    /// Queries that arrive from now on cost `slowness` times as much, falling linearly to once within `warm_after_ns`.
    pub fn begin_cold(&mut self, now: Time, slowness: f64, warm_after_ns: u64) {
        let _ = (now, slowness, warm_after_ns);
        unimplemented!()
    }

    /// Jobs in the machine: in service, queued, or waiting before their work.
    pub fn jobs(&self) -> usize {
        unimplemented!()
    }

    /// CPU used since the start, in core-seconds: all that the machine spends, what contention wastes included. 0 where
    /// latencies are replayed.
    pub fn cpu_seconds(&mut self, now: Time) -> f64 {
        let _ = now;
        unimplemented!()
    }

    /// What utilization is measured against: the allocation; one core for each worker; 1 where latencies are replayed.
    pub fn allocation_cores(&self) -> f64 {
        unimplemented!()
    }

    /// Cores' worth of work that the machine could do now and go on doing: allocation and spare capacity, less contention
    /// while the replica is held, times what a hobble leaves; 0 in a stall. Bursts do not count. Where latencies are
    /// replayed: 1, or what a hobble leaves. A group's slowness and a cold start are not in it: see [`speed`](Self::speed).
    pub fn capacity_cores(&mut self, now: Time) -> f64 {
        let _ = now;
        unimplemented!()
    }

    /// Work done for each nanosecond of CPU, for queries that arrive now: 1 / (slowness x cold start), from 0 to 1.
    pub fn speed(&self, now: Time) -> f64 {
        let _ = now;
        unimplemented!()
    }

    /// Nanoseconds until this work would be finished if it came now, nothing came after it and the capacity stayed
    /// ([`capacity_cores`](Self::capacity_cores), after the stall if there is one). The wait before the work, which is the
    /// same everywhere, is not in it.
    pub fn finish_estimate(&mut self, now: Time, work_ns: f64) -> f64 {
        let _ = (now, work_ns);
        unimplemented!()
    }
}
