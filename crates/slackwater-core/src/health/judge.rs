//! Settles the standing of each replica, ten times a second.

use super::WHOLE;
use super::course::Why;
use super::evidence::{self, Sample};
use super::record::{ENOUGH, Record};
use super::reference::Reference;
use super::settings::{ErrorSettings, HealthSettings, ProbationSettings};
use crate::time::{Instant, span_ns};

/// A replica whose success rate is at least this part of the others' is as good as they are.
const AS_GOOD: u32 = WHOLE / 100 * 97;
/// The fleet is hurried when it is `HURRIED` times slower than at best, and busy at `BUSY` times.
const HURRIED: u64 = 4;
const BUSY: u64 = 3;
/// Standard deviations that may be chance for a replica that is known to fail.
const DEVIATIONS: u64 = 5;
/// Bits of evidence that are needed to lower a share: one in four million by chance.
const EVIDENCE: u64 = 22;
/// Bits that are needed if the replica has less than its share already, since it is a suspect.
const EVIDENCE_AGAIN: u64 = 10;
/// A run of failures is not chance if it would occur by chance less than once in this many.
const ONCE_IN: u64 = 1_000_000_000;

/// What to do with a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It stays where it is. Its share may have changed.
    Stay,
    /// It is taken out.
    Leave(Why),
    /// It comes back with a small share, because the other replicas are no better.
    ComeBack,
    /// It gets a small share, because the other replicas have no capacity left.
    Rise,
}

/// Compares one replica with the others.
pub(super) fn judge(
    now: Instant,
    record: &mut Record,
    others: &Reference,
    settings: &HealthSettings,
) -> Verdict {
    note_bounds(record, others, settings);
    if record.course.is_out() {
        return judge_out(record, others, settings);
    }
    // A replica that the driver has withdrawn is out already. Queries that still end there only
    // show that.
    if !record.is_offered {
        return Verdict::Stay;
    }
    if let Some(probation) = &settings.probation
        && is_stalled(now, record, others, probation)
    {
        return Verdict::Leave(Why::Silence);
    }
    if settings.errors.is_some() && is_bad(record, others) {
        return judge_bad(now, record, Why::Errors);
    }
    // A replica that warms up is slow for a reason, and has a small share already. Where the others
    // are busy, a slow replica may only be busy too, and is needed.
    let is_slow = settings.probation.is_some() && record.is_slow();
    if is_slow && !record.is_warming_up() && !is_slower(others, BUSY) {
        return judge_bad(now, record, Why::Slowness);
    }
    record.course.climb(now);
    if record.course.is_whole() {
        record.forget_remembered();
    }
    Verdict::Stay
}

/// Sets the bounds for the events until the next tick.
fn note_bounds(record: &mut Record, others: &Reference, settings: &HealthSettings) {
    let times = |factor: u64| others.latency_ns.map(|ns| ns.saturating_mul(factor));
    record.warm_ns = times(2).unwrap_or(u64::MAX);
    record.near_ns = match &settings.probation {
        Some(probation) => slow_from_ns(probation, others.latency_ns),
        None => u64::MAX,
    };
    record.others_ns = others.latency_ns;
    record.is_fleet_hurried = is_hurried(others);
    if let Some(errors) = &settings.errors {
        let tally = record.tally();
        let took_ns = tally.bad_ns.checked_div(tally.bad.into()).unwrap_or(0);
        let floor_ns = others
            .unhurried_ns
            .saturating_mul(errors.failure_cost.into());
        record.price_ns = took_ns.max(floor_ns);
        let success = record.success_before_run(&tally);
        let success = others.success.map(|usual| usual.min(success));
        record.failures_max = success.map_or(u32::MAX, |success| failures_max(success, errors));
    }
}

fn slow_from_ns(probation: &ProbationSettings, others_ns: Option<u64>) -> u64 {
    let factor = u64::from(probation.factor);
    others_ns.map_or(u64::MAX, |ns| {
        ns.saturating_mul(factor)
            .max(span_ns(probation.latency_min))
    })
}

/// Whether queries wait at the replica and none is answered, for many times longer than others take
/// and for twice as long as the others' slowest recent answer. In a queue, one long query delays
/// all behind it. `[H4]`
fn is_stalled(
    now: Instant,
    record: &Record,
    others: &Reference,
    probation: &ProbationSettings,
) -> bool {
    let usual_ns = slow_from_ns(probation, others.pace_ns);
    let longest_ns = others.peak_ns.unwrap_or(0).saturating_mul(2);
    record.without_progress_ns(now) > usual_ns.max(longest_ns)
}

/// Failures in a row that would not occur by chance at this success rate (in millionths): the
/// setting, or as many as make a run rarer than once in a billion.
pub(super) fn failures_max(success: u32, errors: &ErrorSettings) -> u32 {
    let failing = u64::from(WHOLE - success.min(WHOLE));
    let (mut left, mut count) = (ONCE_IN * ONCE_IN, 0);
    while left > ONCE_IN {
        left =
            u64::try_from(u128::from(left) * u128::from(failing) / u128::from(WHOLE)).unwrap_or(0);
        count += 1;
        if count > 64 {
            return u32::MAX;
        }
    }
    errors.failures_in_a_row.max(count)
}

/// Whether the replica fails more often than the others, beyond chance. `[E3]` `[E4]`
fn is_bad(record: &Record, others: &Reference) -> bool {
    let Some(usual) = others.success else {
        return false;
    };
    let whole = u64::from(WHOLE);
    let as_good = u64::from(usual) * u64::from(AS_GOOD) / whole;
    if u64::from(record.success) >= as_good {
        return false;
    }
    let own = record.shown();
    if record.is_convicted() {
        let queries = if record.course.is_out() {
            ENOUGH.into()
        } else {
            own.queries.max(1)
        };
        let deviation = (u64::from(usual) * (whole - u64::from(usual)) / queries).isqrt();
        return u64::from(record.success) + DEVIATIONS * deviation < as_good;
    }
    let failing = u128::from(WHOLE.saturating_sub(usual));
    let as_usual = u128::from(others.shown.queries) * failing / u128::from(whole);
    let others = Sample {
        failures: (others.shown.failures).max(u64::try_from(as_usual).unwrap_or(u64::MAX)),
        ..others.shown
    };
    let needed = if record.course.is_whole() {
        EVIDENCE
    } else {
        EVIDENCE_AGAIN
    };
    evidence::bits(own, others) >= needed
}

/// Expected cost of a query there, including retries of failures: E = ℓ + f · (1/s − 1). `[E2]`
fn expected_ns(record: &Record, latency_ns: u64) -> u64 {
    let success = u128::from(record.success.max(1));
    let failing = u128::from(WHOLE) - success.min(u128::from(WHOLE));
    let failures_ns = u128::from(record.price_ns) * failing / success;
    u64::try_from(u128::from(latency_ns) + failures_ns).unwrap_or(u64::MAX)
}

/// Adjusts the share of a replica that fails more often than the others, or is slow. The share
/// falls while the replica costs more than the others, and rises while they cost more. It moves
/// step by step for slowness, too: a replica that is slow because of its queue is fast again with
/// half of its queries, and the others may in turn be slow without it. `[E2]` `[H4]`
pub(super) fn judge_bad(now: Instant, record: &mut Record, why: Why) -> Verdict {
    let Some(others_ns) = record.others_ns else {
        return Verdict::Stay;
    };
    let cost_ns = expected_ns(record, record.latency_ns().unwrap_or(others_ns));
    if cost_ns <= others_ns {
        record.course.rise(now);
        return Verdict::Stay;
    }
    // Between the two bounds the share stays as it is.
    if cost_ns > others_ns.saturating_add(others_ns / 4) {
        // Trials had brought it back, and it fails again.
        let is_relapse = why == Why::Errors && record.course.is_returning();
        if record.course.fall(now, why, others_ns, cost_ns) || is_relapse {
            return Verdict::Leave(why);
        }
    }
    Verdict::Stay
}

/// Whether a failure ejects a replica that trials had brought back, at once and not at the next
/// tick.
pub(super) fn judge_returning(
    now: Instant,
    bucket: u64,
    record: &mut Record,
    others: &Reference,
    fleet: u32,
) -> Verdict {
    record.estimate(now, bucket, fleet);
    if is_bad(record, others) {
        judge_bad(now, record, Why::Errors)
    } else {
        Verdict::Stay
    }
}

fn judge_out(record: &Record, others: &Reference, settings: &HealthSettings) -> Verdict {
    match record.course.why() {
        Why::Errors if settings.errors.is_none() || !is_bad(record, others) => Verdict::ComeBack,
        Why::Errors => {
            let unhurried_ns = others.unhurried_ns;
            let is_dear = |others_ns| expected_ns(record, unhurried_ns) >= others_ns;
            if others.latency_ns.is_none_or(is_dear) {
                Verdict::Stay
            } else {
                Verdict::Rise
            }
        }
        _ if settings.probation.is_none() => Verdict::ComeBack,
        _ => Verdict::Stay,
    }
}

/// Whether the others are many times slower than at best: they have no capacity left.
pub(super) fn is_hurried(others: &Reference) -> bool {
    is_slower(others, HURRIED)
}

/// Whether the others are `times` times slower than they were at best.
fn is_slower(others: &Reference, times: u64) -> bool {
    let is_slow = |ns| ns / times > others.unhurried_ns;
    others.latency_ns.is_some_and(is_slow)
}

#[cfg(test)]
mod tests;
