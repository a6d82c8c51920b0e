//! The open loop: arrivals come at the times of the schedule, whatever the target does.
//!
//! There are three parties. The *pacer* thread puts each arrival, when due, into a bounded queue
//! and never waits; an arrival that finds the queue full has failed. The *dispatcher* task takes
//! arrivals out in order and spawns an exchange for each as soon as a slot (a connection, or a
//! stream of one) is free. Each *exchange* ends at its deadline, which counts from the intended
//! start like the latency. Deadlines fall due in the order of arrival, so a queue behind a hanging
//! target drains by itself: no arrival stays past its deadline, and a run ends at most one timeout
//! after its schedule.

use super::live::{Live, Shared};
use super::outcome::Failure;
use super::pacer::{Timetable, pace};
use super::plan::Plan;
use super::schedule::Schedule;
use super::summary::Summary;
use super::transport::Transport;
use core::ops::ControlFlow;
use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// From the start of a run to its offset 0: time for the pacer's thread to start.
const START_LEAD: Duration = Duration::from_millis(1);

/// An entry of the queue.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    /// Index among all arrivals, from 0. Those that find the queue full are numbered, too.
    number: u64,
    intended: Instant,
}

/// A run that is ready: the target's name is resolved, nothing has been sent.
#[derive(Debug)]
pub(crate) struct Run(Arc<Shared>);

impl Run {
    /// Prepares a run. Its live figures cover the last `window_seconds` seconds; 0 counts as 1.
    ///
    /// # Errors
    /// The target's name cannot be resolved, or the plan has no usable target.
    pub(crate) async fn prepare(plan: Plan, window_seconds: usize) -> io::Result<Self> {
        let transport = Transport::new(&plan).await?;
        Ok(Self(Arc::new(Shared::new(plan, transport, window_seconds))))
    }

    /// Returns a handle that reads the run's figures before, during and after it.
    pub(crate) fn live(&self) -> Live {
        Live::new(Arc::clone(&self.0))
    }

    /// Carries out the plan and waits for each answer or its deadline. `stop` ends the schedule
    /// early; requests that are running or queued by then are still waited for. Dropping the future
    /// ends everything at once.
    ///
    /// It needs a tokio runtime with time and I/O. The measurement is only as good as the share of
    /// a processor that the runtime gets.
    ///
    /// # Errors
    /// The pacer's thread cannot be started.
    pub(crate) async fn drive(self, stop: CancellationToken) -> io::Result<Summary> {
        let shared = self.0;
        // Dropped with this future, which then stops the pacer, too.
        let stop = stop.child_token();
        let _stop_on_drop = stop.clone().drop_guard();
        let (queue, arrivals) = mpsc::channel(shared.plan.queue_capacity.get());
        shared.begin(Instant::now() + START_LEAD);
        start_pacer(Arc::clone(&shared), queue, stop)?;
        dispatch(&shared, arrivals).await;
        Ok(shared.summary())
    }
}

fn start_pacer(
    shared: Arc<Shared>,
    queue: mpsc::Sender<Arrival>,
    stop: CancellationToken,
) -> io::Result<()> {
    let pacer = std::thread::Builder::new().name("load-pacer".into());
    pacer.spawn(move || {
        let plan = &shared.plan;
        let length = plan.whole_duration();
        let schedule = Schedule::new(plan.arrivals, length, plan.seed);
        let mut numbers = 0..;
        pace(
            Asked {
                schedule,
                shared: &shared,
            },
            shared.start(),
            length,
            || stop.is_cancelled(),
            |intended| {
                shared.record(|record, start| record.issue(intended - start));
                let Some(number) = numbers.next() else {
                    return ControlFlow::Break(());
                };
                match queue.try_send(Arrival { number, intended }) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(TrySendError::Full(_)) => {
                        fail(&shared, intended, Failure::overload());
                        ControlFlow::Continue(())
                    }
                    Err(TrySendError::Closed(_)) => ControlFlow::Break(()),
                }
            },
        );
        shared.end_schedule(stop.is_cancelled());
    })?;
    Ok(())
}

/// A schedule at the current target rates.
struct Asked<'s> {
    schedule: Schedule,
    shared: &'s Shared,
}

impl Timetable for Asked<'_> {
    fn next_offset(&mut self) -> Option<Duration> {
        self.schedule.next_offset(&self.shared.rates())
    }

    fn advance(&mut self) {
        self.schedule.advance();
    }
}

/// Starts an exchange for each arrival, in order, as slots become free. Returns when all have
/// ended.
async fn dispatch(shared: &Arc<Shared>, mut arrivals: mpsc::Receiver<Arrival>) {
    let slots = shared.plan.slots().min(Semaphore::MAX_PERMITS);
    let slots = Arc::new(Semaphore::new(slots));
    let mut exchanges = JoinSet::new();
    // All arrivals that were due before the end of the last wait have waited as well, behind the
    // one that waited.
    let mut last_wait_ended = shared.start();
    loop {
        // The slot comes first: an arrival that has left the queue is sent at once, so the queue
        // holds exactly its capacity.
        let slot = if let Ok(slot) = Arc::clone(&slots).try_acquire_owned() {
            slot
        } else {
            // The semaphore is never closed.
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                break;
            };
            last_wait_ended = Instant::now();
            slot
        };
        let Some(arrival) = arrivals.recv().await else {
            break;
        };
        let has_waited = arrival.intended < last_wait_ended;
        exchanges.spawn(exchange(Arc::clone(shared), arrival, has_waited, slot));
        while exchanges.try_join_next().is_some() {}
    }
    while exchanges.join_next().await.is_some() {}
}

/// Runs one arrival from its slot to its record.
async fn exchange(
    shared: Arc<Shared>,
    Arrival { number, intended }: Arrival,
    has_waited: bool,
    _slot: OwnedSemaphorePermit,
) {
    let deadline = tokio::time::Instant::from_std(intended + shared.plan.timeout);
    let now = Instant::now();
    shared.record(|record, start| record.start(intended - start, now - start, has_waited));
    if now >= deadline.into_std() {
        return fail(&shared, intended, Failure::timeout());
    }
    match tokio::time::timeout_at(deadline, shared.transport.exchange(number)).await {
        Err(_elapsed) => fail(&shared, intended, Failure::timeout()),
        Ok(Err(failure)) => fail(&shared, intended, failure),
        Ok(Ok((answer, _))) if answer.ended > deadline.into_std() => {
            fail(&shared, intended, Failure::timeout());
        }
        Ok(Ok((answer, kept))) => {
            shared.record(|record, start| {
                record.answer(intended - start, answer.ended - start, &answer);
            });
            if let Some(kept) = kept {
                // If this times out or the connection is closing, the connection is dropped.
                let _ = tokio::time::timeout_at(deadline, shared.transport.keep(kept)).await;
            }
        }
    }
}

fn fail(shared: &Shared, intended: Instant, failure: Failure) {
    let now = Instant::now();
    shared.record(|record, start| record.fail(intended - start, now - start, failure));
}
