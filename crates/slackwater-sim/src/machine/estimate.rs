//! Estimates when work that arrives now would be finished if nothing arrived after it. The greedy
//! clairvoyant uses it.

use super::running::whole;

/// Returns the nanoseconds until `work` ends if it joins jobs that still need `remaining`. All
/// share `capacity` cores with at most one core each. `remaining` is reordered.
///
/// When the new job has attained service x, n(x) jobs are left: itself, and those that need more
/// than x. Its rate is min(1, capacity / n(x)), so its time is the integral of max(1, n(x) /
/// capacity). The other jobs leave one by one. Once every job has a whole core, the rest of its
/// time equals the rest of its work.
pub(super) fn shared(remaining: &mut [f64], work: f64, capacity: f64) -> f64 {
    let crowded = crowded_until(remaining, capacity).min(work);
    let of_others: f64 = remaining.iter().map(|need| need.min(crowded)).sum();
    (crowded + of_others) / capacity + (work - crowded)
}

/// Returns the service that the new job has attained when every remaining job has a whole core;
/// infinite if that never happens.
fn crowded_until(remaining: &mut [f64], capacity: f64) -> f64 {
    if capacity < 1.0 {
        return f64::INFINITY;
    }
    let beside = usize::try_from(whole(capacity.floor() - 1.0)).unwrap_or(usize::MAX);
    if beside >= remaining.len() {
        return 0.0;
    }
    let (_, need, _) = remaining.select_nth_unstable_by(beside, |a, b| b.total_cmp(a));
    *need
}

/// Returns the service that each worker will have done when `work` ends that queues behind all
/// other work. The `workers` workers still need `running`, and then the work in `queued`. `running`
/// is used up.
pub(super) fn queued(
    running: &mut [f64],
    queued: impl Iterator<Item = f64>,
    workers: usize,
    work: f64,
) -> f64 {
    if running.len() < workers {
        return work;
    }
    for next in queued {
        if let Some(free) = first_free(running) {
            *free += next;
        }
    }
    first_free(running).map_or(0.0, |free| *free) + work
}

/// Returns the worker that is free first.
fn first_free(running: &mut [f64]) -> Option<&mut f64> {
    running.iter_mut().min_by(|a, b| a.total_cmp(b))
}
