//! When work would be finished that came now, if nothing came after it: what the greedy clairvoyant
//! knows.

use super::running::whole;

/// Nanoseconds until `work` ends that joins jobs which still need `remaining`, all sharing
/// `capacity` cores with at most one core each. `remaining` is left in another order.
///
/// While the newcomer has attained x, n(x) jobs are here: itself, and those that need more than x.
/// It gets on at min(1, capacity / n(x)), so that its time is the integral of max(1, n(x) /
/// capacity). The others leave one by one; from the point on at which everybody has a whole core,
/// its time is its work.
pub(super) fn shared(remaining: &mut [f64], work: f64, capacity: f64) -> f64 {
    let crowded = crowded_until(remaining, capacity).min(work);
    let of_others: f64 = remaining.iter().map(|need| need.min(crowded)).sum();
    (crowded + of_others) / capacity + (work - crowded)
}

/// The service that the newcomer has attained when everybody who is left has a whole core; infinite
/// if nobody ever has.
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

/// Service that `workers` workers, who still need `running`, and then the work in `queued`, will
/// each have done when `work` ends that queues behind it all. `running` is used up.
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

/// The worker that is free first.
fn first_free(running: &mut [f64]) -> Option<&mut f64> {
    running.iter_mut().min_by(|a, b| a.total_cmp(b))
}
