//! A replica's machine in real time: the processor and the neighbours, run by timers on tokio's
//! clock.
//!
//! A query is served by waiting until its job is done. Nothing is computed, so two cores play a
//! large fleet. The future that waits owns the job: dropping it (the client went away) removes the
//! job from the processor at once.
//!
//! Tokio's timers count whole milliseconds, and the machine wakes at the next one after a
//! completion is due. So a query ends up to 1 ms late, or a little more on a busy computer. Only
//! the answers are late: completions and changes of capacity take effect at their exact times,
//! whenever the machine wakes.

use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;

use super::cost::Costs;
use super::draw::Draws;
use super::neighbours::Neighbours;
use super::processor::{Cores, JobId, Processor};
use super::trouble::{Fault, Trouble};

/// Default limit of the queries that a replica serves at once; more are rejected. A replica to
/// which round robin keeps sending while it is slowed accumulates 70 to 120 at the demo's default
/// rate.
pub(crate) const JOBS_MAX: usize = 512;

/// The machine of one replica; clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct Machine {
    shared: Arc<Shared>,
}

struct Shared {
    index: usize,
    costs: Costs,
    /// The start of the world, from which processor and neighbours count.
    origin: Instant,
    state: Mutex<State>,
    /// What is wrong with the replica; changed under the lock.
    fault: watch::Sender<Fault>,
    /// A job arrived or left, so the next time to wake may have changed.
    changed: Notify,
}

struct State {
    processor: Processor,
    neighbours: Neighbours,
    /// The waiting future of each job in service.
    waiting: HashMap<JobId, oneshot::Sender<()>>,
    unnumbered: Draws,
    taken_percent: u8,
    /// Failures that are due, in hundredths of a query.
    failure_due: u8,
    stopped: bool,
    served: u64,
    refused: u64,
    cancelled: u64,
}

/// The true state of a replica, for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Queries in service.
    pub(crate) jobs: usize,
    /// The capacity that the neighbours leave it now.
    pub(crate) capacity: Cores,
    /// Whether a slow episode reduces it now.
    pub(crate) hobbled: bool,
    /// What else is wrong with it.
    pub(crate) trouble: Trouble,
    /// Queries served since the start.
    pub(crate) served: u64,
    /// Queries rejected since the start, because too many were in service.
    pub(crate) refused: u64,
    /// Queries cancelled by their clients since the start.
    pub(crate) cancelled: u64,
}

/// Why a query was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// The maximum number of queries is in service.
    #[error("too many queries in service")]
    Full,
    /// The replica is shutting down.
    #[error("replica is shutting down")]
    Stopped,
    /// The fault `failing` makes the replica fail this query.
    #[error("made to fail")]
    Failing,
}

impl Machine {
    /// Returns the machine of replica `index`, idle at `origin`. It makes progress only while
    /// [`run`](Self::run) runs.
    pub(crate) fn new(
        index: usize,
        jobs_max: usize,
        neighbours: Neighbours,
        costs: Costs,
        origin: Instant,
    ) -> Self {
        let state = State {
            processor: Processor::new(jobs_max, neighbours.capacity()),
            neighbours,
            waiting: HashMap::new(),
            unnumbered: costs.unnumbered_draws(index),
            taken_percent: 0,
            failure_due: 0,
            stopped: false,
            served: 0,
            refused: 0,
            cancelled: 0,
        };
        let state = Mutex::new(state);
        Self {
            shared: Arc::new(Shared {
                index,
                costs,
                origin,
                state,
                fault: watch::Sender::default(),
                changed: Notify::new(),
            }),
        }
    }

    /// Index of this replica in its fleet, from 0.
    pub(crate) fn index(&self) -> usize {
        self.shared.index
    }

    /// Returns the query's cost: fixed by its number, or drawn here for a query without one.
    pub(crate) fn cost(&self, number: Option<u64>) -> Duration {
        let costs = self.shared.costs;
        match number {
            Some(number) => costs.numbered(number),
            None => costs.draw(&mut self.shared.lock().unnumbered),
        }
    }

    /// Serves one query: returns when `work` has been done for it. Dropping the future cancels the
    /// rest of the work.
    ///
    /// # Errors
    /// [`Refusal`], at once; or when the machine stops before the work is done.
    pub(crate) async fn serve(&self, work: Duration) -> Result<(), Refusal> {
        // A stopped process does not even reject. The sender lives as long as this machine.
        let mut faults = self.shared.fault.subscribe();
        let _ = faults.wait_for(|fault| *fault != Fault::Stalled).await;
        drop(faults);
        if self.fails_next() {
            return Err(Refusal::Failing);
        }
        let (done, wait) = oneshot::channel();
        let _job = self.start(work, done)?;
        wait.await.map_err(|_| Refusal::Stopped)
    }

    /// Returns whether the next query must fail: exactly the configured percentage does.
    fn fails_next(&self) -> bool {
        let percent = self.shared.fault.borrow().failing_percent();
        if percent == 0 {
            return false;
        }
        let mut state = self.shared.lock();
        state.failure_due += percent.min(100);
        let fails = state.failure_due >= 100;
        if fails {
            state.failure_due -= 100;
        }
        fails
    }

    /// Sets the replica's fault from now on. While it is stalled, queries in service wait.
    pub(crate) fn set_fault(&self, fault: Fault) {
        self.change(|state| {
            state.failure_due = 0;
            self.shared.fault.send_replace(fault);
        });
    }

    /// Returns a receiver of the replica's fault.
    pub(crate) fn faults(&self) -> watch::Receiver<Fault> {
        self.shared.fault.subscribe()
    }

    /// Makes a noisy neighbour take this percentage of the machine from now on.
    pub(crate) fn set_taken(&self, percent: u8) {
        let percent = percent.min(Trouble::TAKEN_PERCENT_MAX);
        self.change(|state| state.taken_percent = percent);
    }

    /// Turns random slow episodes on or off.
    pub(crate) fn set_weather(&self, on: bool) {
        self.change(|state| state.neighbours.set_weather(on));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.catch_up(now, &self.shared.fault);
        change(&mut state);
        let capacity = state.capacity(&self.shared.fault);
        state.processor.set_capacity(now, capacity);
        self.shared.changed.notify_one();
    }

    fn start(&self, work: Duration, done: oneshot::Sender<()>) -> Result<Job<'_>, Refusal> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        if state.stopped {
            return Err(Refusal::Stopped);
        }
        state.catch_up(now, &self.shared.fault);
        let Ok(id) = state.processor.arrive(now, work) else {
            state.refused += 1;
            return Err(Refusal::Full);
        };
        state.waiting.insert(id, done);
        self.shared.changed.notify_one();
        Ok(Job {
            shared: &self.shared,
            id,
        })
    }

    /// Runs the machine until [`stop`](Self::stop).
    pub(crate) async fn run(&self) {
        loop {
            let now = self.shared.now();
            let wake_at = {
                let mut state = self.shared.lock();
                if state.stopped {
                    return;
                }
                state.catch_up(now, &self.shared.fault);
                state.next_event()
            };
            let wake_at = self.shared.origin + wake_at;
            tokio::select! {
                () = tokio::time::sleep_until(wake_at) => {}
                () = self.shared.changed.notified() => {}
            }
        }
    }

    /// Ends [`run`](Self::run), fails all queries in service with [`Refusal::Stopped`], and rejects
    /// all new ones.
    pub(crate) fn stop(&self) {
        let mut state = self.shared.lock();
        state.stopped = true;
        state.waiting.clear();
        self.shared.changed.notify_one();
    }

    /// The share of its machine that belongs to the replica.
    pub(crate) fn allocation(&self) -> Cores {
        self.shared.lock().neighbours.allocation()
    }

    /// CPU time used since the start.
    pub(crate) fn cpu_used(&self) -> Duration {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.catch_up(now, &self.shared.fault);
        state.processor.cpu_used()
    }

    /// Returns the true figures at this moment.
    pub(crate) fn figures(&self) -> Figures {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.catch_up(now, &self.shared.fault);
        Figures {
            jobs: state.waiting.len(),
            capacity: state.processor.capacity(),
            hobbled: state.neighbours.is_hobbled(),
            trouble: Trouble {
                taken_percent: state.taken_percent,
                fault: *self.shared.fault.borrow(),
            },
            served: state.served,
            refused: state.refused,
            cancelled: state.cancelled,
        }
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("index", &self.shared.index)
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// The figures stay usable after a panic while the lock was held, because a panic has nothing
    /// to do with them.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Processes all events that were due by `now`, in order, and answers the queries whose jobs
    /// are done.
    fn catch_up(&mut self, now: Duration, fault: &watch::Sender<Fault>) {
        while let Some(at) = self.neighbours.poll_change(now) {
            let capacity = self.capacity(fault);
            self.processor.set_capacity(at, capacity);
        }
        while let Some(id) = self.processor.poll_completed(now) {
            if let Some(done) = self.waiting.remove(&id) {
                self.served += 1;
                // The receiver may be gone already if the client left at this moment.
                let _ = done.send(());
            }
        }
    }

    /// The capacity of a running machine that its neighbours, quiet and noisy, leave.
    fn capacity(&self, fault: &watch::Sender<Fault>) -> Cores {
        if *fault.borrow() == Fault::Stalled {
            return Cores::from_milli(0);
        }
        let left = f64::from(100_u8.saturating_sub(self.taken_percent)) / 100.0;
        Cores::from_f64(self.neighbours.capacity().as_f64() * left)
    }

    fn next_event(&self) -> Duration {
        let change = self.neighbours.next_change();
        self.processor
            .next_completion()
            .map_or(change, |completion| completion.min(change))
    }
}

/// A query in service. If it is dropped before the job is done, it removes the job from the
/// processor.
struct Job<'a> {
    shared: &'a Shared,
    id: JobId,
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        if state.waiting.remove(&self.id).is_some() {
            state.catch_up(now, &self.shared.fault);
            state.processor.cancel(now, self.id);
            state.cancelled += 1;
            self.shared.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
