//! A replica's machine in real time: the processor and the neighbours, run by timers on tokio's clock.
//!
//! A query is served by waiting until its job is done; nothing is computed, so two cores play a fleet of many. The
//! future that waits owns the job: dropping it (the client went away) takes the job off the processor at once.
//!
//! Tokio's timers count whole milliseconds and the machine wakes at the next one after a completion is due, so a query
//! ends up to 1 ms late, or a little more on a busy computer. Only answers are late, not the work: completions and
//! changes of capacity take effect at their exact times, whenever the machine wakes.

use core::fmt;
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::cost::Costs;
use super::draw::Draws;
use super::neighbours::Neighbours;
use super::processor::{Cores, JobId, Processor};

/// How many queries a replica serves at once unless told otherwise; more are refused. A replica that round robin keeps
/// feeding while it is hobbled gathers 100 to 150 at the demo's default rate.
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
    /// Something came or left: the time to wake may be another.
    changed: Notify,
}

struct State {
    processor: Processor,
    neighbours: Neighbours,
    /// Who waits for which job: as many as there are jobs in service.
    waiting: HashMap<JobId, oneshot::Sender<()>>,
    unnumbered: Draws,
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
    /// What the neighbours leave it now.
    pub(crate) capacity: Cores,
    /// Whether it is the one that is slow now.
    pub(crate) hobbled: bool,
    /// Queries served since the start.
    pub(crate) served: u64,
    /// Queries refused since the start, because too many were in service.
    pub(crate) refused: u64,
    /// Queries given up by their clients since the start.
    pub(crate) cancelled: u64,
}

/// Why a query was not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// As many queries as the replica takes are in service.
    Full,
    /// The replica is shutting down.
    Stopped,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "too many queries in service",
            Self::Stopped => "replica is shutting down",
        })
    }
}

impl Machine {
    /// The machine of replica `index`, idle at `origin`. It moves only while [`run`](Self::run) does.
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
                changed: Notify::new(),
            }),
        }
    }

    /// Which replica of its fleet this is, from 0.
    pub(crate) fn index(&self) -> usize {
        self.shared.index
    }

    /// What the query costs: fixed by its number, or drawn here for one without.
    pub(crate) fn cost(&self, number: Option<u64>) -> Duration {
        let costs = self.shared.costs;
        match number {
            Some(number) => costs.numbered(number),
            None => costs.draw(&mut self.shared.lock().unnumbered),
        }
    }

    /// Serves one query: returns when `work` has been done for it. Dropping the future cancels the rest of the work.
    ///
    /// # Errors
    /// [`Refusal`], at once; or when the machine stops before the work is done.
    pub(crate) async fn serve(&self, work: Duration) -> Result<(), Refusal> {
        let (done, wait) = oneshot::channel();
        let _job = self.start(work, done)?;
        wait.await.map_err(|_| Refusal::Stopped)
    }

    fn start(&self, work: Duration, done: oneshot::Sender<()>) -> Result<Job<'_>, Refusal> {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        if state.stopped {
            return Err(Refusal::Stopped);
        }
        state.catch_up(now);
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

    /// Plays the machine until [`stop`](Self::stop).
    pub(crate) async fn run(&self) {
        loop {
            let now = self.shared.now();
            let wake_at = {
                let mut state = self.shared.lock();
                if state.stopped {
                    return;
                }
                state.catch_up(now);
                state.next_event()
            };
            let wake_at = self.shared.origin + wake_at;
            tokio::select! {
                () = tokio::time::sleep_until(wake_at) => {}
                () = self.shared.changed.notified() => {}
            }
        }
    }

    /// Ends [`run`](Self::run), and every query still in service with [`Refusal::Stopped`]; refuses all that come.
    pub(crate) fn stop(&self) {
        let mut state = self.shared.lock();
        state.stopped = true;
        state.waiting.clear();
        self.shared.changed.notify_one();
    }

    /// The true figures of this moment.
    pub(crate) fn figures(&self) -> Figures {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        state.catch_up(now);
        Figures {
            jobs: state.waiting.len(),
            capacity: state.processor.capacity(),
            hobbled: state.neighbours.is_hobbled(),
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

    /// A panic while the lock was held has nothing to do with these figures: they stay usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Lets everything happen that was due by `now`, in its order, and answers those whose jobs are done.
    fn catch_up(&mut self, now: Duration) {
        while let Some(at) = self.neighbours.poll_change(now) {
            self.processor.set_capacity(at, self.neighbours.capacity());
        }
        while let Some(id) = self.processor.poll_completed(now) {
            if let Some(done) = self.waiting.remove(&id) {
                self.served += 1;
                // The receiver may be gone already: its client left at this very moment.
                let _ = done.send(());
            }
        }
    }

    fn next_event(&self) -> Duration {
        let change = self.neighbours.next_change();
        self.processor
            .next_completion()
            .map_or(change, |completion| completion.min(change))
    }
}

/// A query in service; dropped before the job is done, it takes the job off the processor.
struct Job<'a> {
    shared: &'a Shared,
    id: JobId,
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let now = self.shared.now();
        let mut state = self.shared.lock();
        if state.waiting.remove(&self.id).is_some() {
            state.catch_up(now);
            state.processor.cancel(now, self.id);
            state.cancelled += 1;
            self.shared.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::{join, join3};

    use super::*;
    use crate::demo::replica::neighbours::{Hobbles, Neighbourhood};

    const MS: Duration = Duration::from_millis(1);

    fn quiet(milli: u32) -> Neighbourhood {
        Neighbourhood {
            capacity_mean: Cores::from_milli(milli),
            allocation_share: 1.0,
            hobbles: None,
            ..Neighbourhood::default()
        }
    }

    fn machine(hood: &Neighbourhood, jobs_max: usize) -> Machine {
        let costs = Costs::new(1, Costs::MEAN_BEFORE_CLIP);
        Machine::new(
            0,
            jobs_max,
            Neighbours::new(hood, 1, 0, 1),
            costs,
            Instant::now(),
        )
    }

    /// Runs `machine` beside `queries`, on paused time.
    async fn beside<T>(machine: &Machine, queries: impl Future<Output = T>) -> T {
        tokio::select! {
            biased;
            () = machine.run() => panic!("the machine stopped"),
            output = queries => output,
        }
    }

    /// How long a query of `work_ms` takes that is sent after `start_ms`.
    async fn timed(machine: &Machine, start_ms: u32, work_ms: u32) -> Duration {
        tokio::time::sleep(MS * start_ms).await;
        let sent = Instant::now();
        machine.serve(MS * work_ms).await.expect("served");
        sent.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_alone_takes_its_work() {
        let machine = machine(&quiet(1_000), 8);
        assert_eq!(beside(&machine, timed(&machine, 3, 25)).await, 25 * MS);
        let expected = Figures {
            jobs: 0,
            capacity: Cores::ONE,
            hobbled: false,
            served: 1,
            refused: 0,
            cancelled: 0,
        };
        assert_eq!(machine.figures(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn queries_share_the_core_and_the_first_to_leave_speeds_up_the_rest() {
        let machine = machine(&quiet(1_000), 8);
        let both = join(timed(&machine, 0, 10), timed(&machine, 0, 30));
        assert_eq!(beside(&machine, both).await, (20 * MS, 40 * MS));
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenth_of_the_capacity_takes_ten_times_as_long() {
        let machine = machine(&quiet(100), 8);
        assert_eq!(beside(&machine, timed(&machine, 0, 10)).await, 100 * MS);
    }

    #[tokio::test(start_paused = true)]
    async fn capacity_changes_under_a_query_in_service() {
        let at = |ms| (Duration::from_millis(ms), Duration::from_millis(ms));
        let hobbles = Hobbles {
            share: 0.1,
            first: at(50),
            length: at(200),
            pause: at(60_000),
        };
        let hood = Neighbourhood {
            hobbles: Some(hobbles),
            ..quiet(1_000)
        };
        let machine = machine(&hood, 8);
        // 50 ms at full speed, 200 ms at a tenth, 30 ms at full speed.
        assert_eq!(beside(&machine, timed(&machine, 0, 100)).await, 280 * MS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_query_gives_its_share_back_and_is_counted() {
        let machine = machine(&quiet(1_000), 8);
        let impatient = tokio::time::timeout(20 * MS, machine.serve(1_000 * MS));
        let (kept, gone) = beside(&machine, join(timed(&machine, 0, 20), impatient)).await;
        assert_eq!(kept, 30 * MS);
        assert!(gone.is_err());
        let figures = machine.figures();
        assert_eq!((figures.jobs, figures.served, figures.cancelled), (0, 1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_query_too_many_is_refused_at_once() {
        let machine = machine(&quiet(1_000), 2);
        let queries = join3(
            machine.serve(10 * MS),
            machine.serve(10 * MS),
            machine.serve(10 * MS),
        );
        assert_eq!(
            beside(&machine, queries).await,
            (Ok(()), Ok(()), Err(Refusal::Full))
        );
        assert_eq!(machine.figures().refused, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_ends_the_run_and_the_queries() {
        let machine = machine(&quiet(1_000), 8);
        let stop = async {
            tokio::time::sleep(5 * MS).await;
            machine.stop();
        };
        let ((), outcome, ()) = join3(machine.run(), machine.serve(1_000 * MS), stop).await;
        assert_eq!(outcome, Err(Refusal::Stopped));
        assert_eq!(machine.serve(MS).await, Err(Refusal::Stopped));
        assert_eq!(machine.figures().jobs, 0);
    }
}
