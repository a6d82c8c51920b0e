//! How a replica serves: a CPU that queries share, with or without a quota, workers with a queue,
//! batches, or replayed latencies.

use super::batches::Batches;
use super::cpu::{Around, Pace, Recorded, SharedCpu};
use super::neighbours::Neighbours;
use super::quota::QuotaCpu;
use super::running::Running;
use super::{JobId, NEVER, Time};
use crate::random::{Purpose, Stream};
use crate::scenario::{self, Scenario, sample_of};
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

/// How a replica serves.
#[derive(Clone, Debug)]
pub(super) enum Service {
    Shared(SharedCpu),
    Quota(QuotaCpu),
    Fifo(Workers),
    Batch(Batches),
    /// The replica's own trace, if it has one.
    Latency(Option<Replay>),
}

/// Workers and the queries that wait for one.
#[derive(Clone, Debug)]
pub(super) struct Workers {
    pub(super) count: usize,
    pub(super) queue: VecDeque<(JobId, f64)>,
}

/// A trace of latencies, drawn at random. The next one is drawn in advance, because clairvoyants
/// know it.
#[derive(Clone, Debug)]
pub(super) struct Replay {
    trace: Arc<[Duration]>,
    stream: Stream,
    next: f64,
}

impl Service {
    pub(super) fn new(
        service: &scenario::Service,
        scenario: &Scenario,
        replica: usize,
        seed: u64,
    ) -> Self {
        match service {
            scenario::Service::Shared(sharing) => {
                let place = (replica, scenario.replicas());
                let drawn = scenario.antagonists.as_ref().map(|antagonists| {
                    let neighbours = Neighbours::new(antagonists, sharing.cores, place, seed);
                    Around::Neighbours(Box::new(neighbours))
                });
                let replay = scenario.replay.as_ref().map(Arc::clone);
                let recorded =
                    replay.map(|replay| Around::Recorded(Recorded::new(replay, replica)));
                Self::Shared(SharedCpu::new(sharing, recorded.or(drawn)))
            }
            scenario::Service::Quota(quota) => Self::Quota(QuotaCpu::new(quota, replica, seed)),
            scenario::Service::Fifo { workers } => Self::Fifo(Workers {
                count: *workers,
                queue: VecDeque::new(),
            }),
            scenario::Service::Batch(batching) => Self::Batch(Batches::new(*batching)),
            scenario::Service::Latency => Self::Latency(None),
            scenario::Service::LatencyTrace(trace) => {
                Self::Latency(Some(Replay::new(Arc::clone(trace), replica, seed)))
            }
        }
    }

    /// Returns the pace with `running` queries in service, while a hobble leaves the share `left`.
    pub(super) fn settle(&mut self, running: usize, left: f64) -> Pace {
        match self {
            Self::Shared(cpu) => cpu.settle(running, left),
            Self::Quota(cpu) => cpu.settle(running, left),
            Self::Fifo(_) => Pace {
                each: left,
                used: running as f64,
            },
            Self::Batch(_) => Pace {
                each: left,
                used: running.min(1) as f64,
            },
            Self::Latency(_) => Pace {
                each: left,
                used: 0.0,
            },
        }
    }

    /// Returns the pace while the machine stalls.
    pub(super) fn pause(&mut self, left: f64) -> Pace {
        match self {
            Self::Shared(cpu) => cpu.pause(left),
            Self::Quota(cpu) => cpu.settle(0, left),
            Self::Fifo(_) | Self::Batch(_) | Self::Latency(_) => Pace {
                each: 0.0,
                used: 0.0,
            },
        }
    }

    /// Lets time pass at the pace that was settled.
    pub(super) fn elapse(&mut self, nanoseconds: f64) {
        match self {
            Self::Shared(cpu) => cpu.elapse(nanoseconds),
            Self::Quota(cpu) => cpu.elapse(nanoseconds),
            Self::Fifo(_) | Self::Batch(_) | Self::Latency(_) => {}
        }
    }

    /// Returns two times at which the present pace may change: one for changes that may affect a
    /// query, and one for changes that affect none.
    pub(super) fn next_changes(&mut self, now: Time, running: usize, left: f64) -> (Time, Time) {
        match self {
            Self::Shared(cpu) if cpu.headroom_matters(running, left) => {
                (cpu.bucket_empty(now).min(cpu.next_step()), NEVER)
            }
            Self::Shared(cpu) => (cpu.bucket_empty(now), cpu.next_step()),
            Self::Quota(cpu) if running > 0 => (cpu.next_change(now), NEVER),
            Self::Quota(cpu) => (NEVER, cpu.next_change(now)),
            Self::Fifo(_) | Self::Batch(_) | Self::Latency(_) => (NEVER, NEVER),
        }
    }

    /// Plays the changes of its own that are due now.
    pub(super) fn play_changes(&mut self, now: Time) {
        match self {
            Self::Shared(cpu) if cpu.next_step() <= now => cpu.step(),
            Self::Quota(cpu) => cpu.play_changes(now),
            Self::Shared(_) | Self::Fifo(_) | Self::Batch(_) | Self::Latency(_) => {}
        }
    }

    /// Returns whether a quota is used up.
    pub(super) fn is_throttled(&self) -> bool {
        matches!(self, Self::Quota(cpu) if cpu.is_throttled())
    }

    /// Puts a query into service, or into the queue.
    pub(super) fn admit(&mut self, job: JobId, work: f64, running: &mut Running) {
        match self {
            Self::Fifo(workers) if running.len() >= workers.count => {
                workers.queue.push_back((job, work));
            }
            Self::Batch(batches) => batches.admit(job, work, running),
            _ => running.start(job, work),
        }
    }

    /// Starts the queries that have waited longest in the places of those that left.
    pub(super) fn fill_places(&mut self, running: &mut Running) {
        let workers = match self {
            Self::Fifo(workers) => workers,
            Self::Batch(batches) => return batches.begin_next(running),
            Self::Shared(_) | Self::Quota(_) | Self::Latency(_) => return,
        };
        while running.len() < workers.count
            && let Some((job, work)) = workers.queue.pop_front()
        {
            running.start(job, work);
        }
    }

    /// Returns the number of queries in the queue.
    pub(super) fn queued(&self) -> usize {
        match self {
            Self::Fifo(workers) => workers.queue.len(),
            Self::Batch(batches) => batches.queue.len(),
            Self::Shared(_) | Self::Quota(_) | Self::Latency(_) => 0,
        }
    }

    pub(super) fn cancel_queued(&mut self, job: JobId) {
        if let Some(queue) = self.queue_mut() {
            queue.retain(|(queued, _)| *queued != job);
        }
    }

    pub(super) fn clear_queue(&mut self) {
        if let Some(queue) = self.queue_mut() {
            queue.clear();
        }
    }

    fn queue_mut(&mut self) -> Option<&mut VecDeque<(JobId, f64)>> {
        match self {
            Self::Fifo(workers) => Some(&mut workers.queue),
            Self::Batch(batches) => Some(&mut batches.queue),
            Self::Shared(_) | Self::Quota(_) | Self::Latency(_) => None,
        }
    }

    pub(super) fn allocation(&self) -> f64 {
        match self {
            Self::Shared(cpu) => cpu.allocation(),
            Self::Quota(cpu) => cpu.allocation(),
            Self::Fifo(workers) => workers.count as f64,
            Self::Batch(_) | Self::Latency(_) => 1.0,
        }
    }

    /// Returns its sustained capacity, in cores, while a hobble leaves the share `left`.
    pub(super) fn capacity(&self, left: f64) -> f64 {
        match self {
            Self::Shared(cpu) => cpu.capacity(left),
            Self::Quota(cpu) => cpu.capacity(left),
            Self::Fifo(workers) => workers.count as f64 * left,
            Self::Batch(batches) => batches.capacity() * left,
            Self::Latency(_) => left,
        }
    }
}

impl Replay {
    fn new(trace: Arc<[Duration]>, replica: usize, seed: u64) -> Self {
        let mut stream = Stream::new(seed, Purpose::LatencyTrace, replica as u64);
        Self {
            next: sample_of(&trace, &mut stream),
            trace,
            stream,
        }
    }

    /// Returns the latency of the next query.
    pub(super) fn next(&self) -> f64 {
        self.next
    }

    /// Draws the next latency after the last one was used.
    pub(super) fn draw_next(&mut self) {
        self.next = sample_of(&self.trace, &mut self.stream);
    }
}
